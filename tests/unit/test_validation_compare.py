"""Cases, software paths, kernels, points and the report: every row is compared or has a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trn2model.cli import main
from trn2model.cli.facts import validation_text
from trn2model.errors import InvalidInputError
from trn2model.model.estimate import estimate
from trn2model.specs import catalog
from trn2model.specs.hardware import logical_core
from trn2model.specs.profile import Kind, profile
from trn2model.specs.provenance import MAX_CSV_BYTES
from trn2model.specs.scenario import Scenario
from trn2model.validation.cases import (
    Case,
    batch_times,
    batches,
    padded_model,
    predicted_times,
    timed_case,
)
from trn2model.validation.compare import (
    Point,
    configuration,
    error_table,
    points_of,
    summary_table,
    validate_report,
    validation_points,
)
from trn2model.validation.kernels import KernelPrediction, kernel_prediction, matmul_time
from trn2model.validation.measurements import Measurement, measurements, selected_profile


def rows(kind: str, wanted: Callable[[Measurement], bool]) -> list[Measurement]:
    """Rows of a kind that may be fitted and satisfy a condition."""
    return [row for row in measurements(kind) if row.use == "fit" and wanted(row)]


def case_of(row: Measurement) -> Case:
    """Case of a row that must have one."""
    case = timed_case(row)
    assert isinstance(case, Case)
    return case


def point_of(row: Measurement) -> Point:
    """Point of a row that must have one."""
    points, left = points_of([row])
    assert not left
    return points[0]


TRAINING = rows("train", lambda row: row.metric == "step_time")
SERVING = rows("serve", lambda row: row.metric in ("ttft", "tpot"))


def test_a_case_predicts_what_the_estimate_of_its_scenario_says() -> None:
    training = next(row for row in TRAINING if row.values.get("nic_bandwidth") is None)
    assert point_of(training).predicted == pytest.approx(estimate(case_of(training).scenario, "train").step_time)
    for metric in ("ttft", "tpot"):
        row = next(r for r in SERVING if r.metric == metric and r.values.get("prefill_batch") in (None, 1.0))
        serving = estimate(case_of(row).scenario, "serve")
        assert point_of(row).predicted == pytest.approx(getattr(serving, metric))


def test_cases_together_are_the_cases_alone() -> None:
    cases = [case_of(row) for row in SERVING[:60]]
    together = predicted_times(batches(cases), len(cases))
    alone = [float(batch_times(batches([case])[0])[0]) for case in cases]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_a_network_of_the_row_replaces_that_of_the_machine() -> None:
    row = next(r for r in TRAINING if r.values.get("nic_bandwidth") and r.number("pp") > 1)
    case = case_of(row)
    slower = replace(case, nic_bandwidth=1e9)
    assert predicted_times(batches([slower]), 1)[0] > predicted_times(batches([case]), 1)[0]


def test_constants_can_be_tried_without_touching_the_profile() -> None:
    tried = profile("achievable").with_values({"step_time": 1.0, "kv_padding": 0.5})
    assert tried.compute.step_time == 1.0
    assert profile("achievable").compute.step_time < 1.0


def test_heads_are_padded_as_the_stack_shards_them() -> None:
    padded = padded_model("llama-2-13b", 24, True).layer_kinds[0].attention
    assert (padded.num_heads, padded.num_kv_heads) == (48, 48)
    grouped = padded_model("llama-2-70b", 32, True).layer_kinds[0].attention
    assert (grouped.num_heads, grouped.num_kv_heads) == (64, 64)
    kept = padded_model("llama-2-70b", 32, False)
    assert kept is catalog.model("llama-2-70b")


def test_drafts_and_throughputs_are_left_out_with_a_reason() -> None:
    drafted = next(r for r in measurements("serve") if r.values.get("draft_model") and r.metric == "tpot")
    assert "speculative" in str(timed_case(drafted))
    rate = next(r for r in measurements("serve") if r.metric == "output_tokens_per_s")
    assert rate.kind is None
    assert "is not the time" in str(timed_case(rate))


def test_the_software_path_selects_the_profile() -> None:
    by_path = {(r.text("stack"), r.text("version")): selected_profile(r) for r in SERVING}
    assert by_path["transformers-neuronx", "Neuron 2.18.0 Transformers NeuronX"] == "trn1-inference"
    assert by_path["vllm-neuron", "vLLM-Neuron 0.13 NxDI SDK 2.2x"] == "neuron-2.2x-expanded"


def test_a_matmul_alone_is_monotone_and_near_what_was_measured() -> None:
    core, constants = logical_core(catalog.system("trn2.48xlarge"), 2), profile("achievable").compute
    sizes = [float(n) for n in range(128, 8193, 128)]
    times = [matmul_time(core, "bf16", (n, 4096.0, 4096.0), constants) for n in sizes]
    assert (np.diff(times) >= 0).all()
    measured = 2 * 30720 * 8192 * 8192 / 150.21e12  # source xpu-perf
    assert matmul_time(core, "bf16", (30720.0, 8192.0, 8192.0), constants) == pytest.approx(measured, rel=0.02)


def test_a_bound_has_no_launch() -> None:
    row = next(r for r in measurements("collective") if r.values.get("launch_time") and r.values.get("bytes"))
    bound = kernel_prediction(row, profile("ideal"))
    real = kernel_prediction(row, profile("achievable"))
    assert isinstance(bound, KernelPrediction)
    assert isinstance(real, KernelPrediction)
    assert bound.predicted < real.predicted - row.number("launch_time") * 0.9


def test_points_carry_range_configuration_and_source() -> None:
    for point in validation_points():
        assert point.low <= point.predicted <= point.high
        assert point.ratio == pytest.approx(point.predicted / point.measured)
        assert point.source
        assert point.configuration
        assert (point.scenario is None) == (point.kind in (Kind.COLLECTIVE, Kind.GEMM))


def test_a_configuration_names_what_differs_from_the_default() -> None:
    text = configuration(Scenario(model="llama-3.1-8b", system="trn2.48xlarge", pp=4))
    assert text.startswith("llama-3.1-8b on 1 x trn2.48xlarge")
    assert "4" in text.split(",")[1]


def test_errors_are_of_their_points() -> None:
    points = [point for point in validation_points() if point.dataset == "korthikanti-table5"]
    row = error_table(points, {("korthikanti-table5", Kind.TRAIN): 20})[0]
    assert (row.rows, row.used) == (20, len(points))
    assert row.mean == pytest.approx(np.mean([abs(p.predicted / p.measured - 1) for p in points]))
    assert row.largest == pytest.approx(max(point.error for point in points))
    assert summary_table(points)[0].used == 8


CONTRACT = {
    "name",
    "rows",
    "used",
    "mean_abs_pct_error",
    "median_abs_pct_error",
    "max_abs_pct_error",
    "within_range_fraction",
    "loo_mean_abs_pct_error",
}


def test_the_report_has_the_names_of_the_contract() -> None:
    report = validate_report()
    assert len(report["datasets"]) > 20
    for row in report["datasets"]:
        assert row.keys() >= CONTRACT
        assert 1 <= row["used"] <= row["rows"]
        assert row["mean_abs_pct_error"] <= row["max_abs_pct_error"]
    assert report["left_out"]
    assert "Trn2 decode, trust A and B" in validation_text(report)
    assert {row["kind"] for row in validate_report(kind="train")["datasets"]} == {"train"}


HEADER = (
    "model,instance,chips,tp,lnc,batch,input_len,output_len,weight_dtype,kv_dtype,speculation,ttft_ms_p50,tpot_ms_p50,"
    "output_tokens_per_s,sw_version,date,trust,notes,source"
)


def test_a_file_of_the_public_columns_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "Llama-2-7b,trn1.32xlarge,16,32,,1,128,3968,FP16,,none,13.0,5.9,,Neuron 2.19 Transformers NeuronX,2024,A,,s"
    file = tmp_path / "more.csv"
    file.write_text(f"{HEADER}\n{line}\n", encoding="utf-8")
    report = validate_report(str(file), "serve")
    assert {row["kind"]: row["used"] for row in report["datasets"]} == {"prefill": 1, "decode": 1}
    assert all(row["mean_abs_pct_error"] < 50 for row in report["datasets"])
    assert main(["validate", "--csv", str(file), "--kind", "serve"]) == 0
    assert "decode" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "row 1: no header"),
        (b"a,b\n1,2\n", "row 1: no column model, instance, tp, source"),
        (b"a,b\n", "row 1: no column model, instance, tp, source"),
        (HEADER.encode(), "no rows with a measurement"),
        (HEADER.encode() + b"\n" + b"x" * 200_000, "row 2: field larger than field limit"),
        (b"\xff\xfe", "UTF-8"),
        (b" " * (MAX_CSV_BYTES + 1), "16,777,216 bytes"),
    ],
    ids=["empty", "wrong header", "wrong header alone", "no rows", "long cell", "no text", "too large"],
)
def test_a_file_that_is_no_table_is_one_line(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "more.csv"
    file.write_bytes(content)
    assert main(["validate", "--csv", str(file), "--kind", "serve"]) == 2
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert output.err.startswith("trn2model: csv = ")
    assert said in output.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"kind": "speed"}, "kind"), ({"csv": "nowhere.csv", "kind": "train"}, "csv"), ({"csv": "nowhere.csv"}, "kind")],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        validate_report(**arguments)
