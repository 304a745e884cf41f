from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trn2model.errors import DataError, UnknownNameError
from trn2model.model.parameters import model_parameters
from trn2model.specs import catalog
from trn2model.specs.hardware import chip_flop_rate
from trn2model.specs.model import ModelSpec
from trn2model.specs.profile import Kind
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario
from trn2model.validation.measurements import (
    TABLES,
    Measurement,
    column_names,
    columns,
    left_out,
    measured_model,
    measurements,
    read_measurements,
)

COMPARED = {table: [row for row in measurements(table) if row.use != "excluded"] for table in TABLES}
TIMED = [row for row in COMPARED["train"] if row.metric == "step_time"]
DECODED = [row for row in COMPARED["serve"] if row.metric == "tpot"]


def by_id(table: str, name: str) -> Measurement:
    return next(row for row in measurements(table) if row.id == name)


@pytest.mark.parametrize("table", TABLES)
def test_every_row_of_the_files_passes_the_schema(table):
    rows = measurements(table)
    assert len({row.id for row in rows}) == len(rows)
    assert {row.use for row in rows} <= {"fit", "check", "bound", "excluded"}
    assert sum(row.use == "fit" for row in rows) >= 60
    for row in rows:
        assert bool(row.reason) == (row.use != "fit")
        assert row.text("source")
        assert row.values.keys() == set(column_names(table))


@pytest.mark.parametrize("table", TABLES)
def test_only_trusted_rows_are_fitted_on(table):
    assert {row.trust for row in measurements(table) if row.use == "fit"} <= {"A", "B"}


@pytest.mark.parametrize("table", TABLES)
def test_what_is_left_out_is_listed_with_its_reason(table):
    listed = left_out(table)
    assert all(listed)
    assert sum(map(len, listed.values())) == sum(row.use == "excluded" for row in measurements(table))
    sizes = [len(ids) for ids in listed.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_the_table_says_what_every_column_means():
    for table in TABLES:
        for column in columns(table):
            assert column.meaning
            assert column.type in {"text", "choice", "int", "float", "bool", "model", "system"}
            assert bool(column.si) == (column.type in {"int", "float"})
            assert bool(column.choices) == (column.type == "choice")


@pytest.mark.parametrize(
    ("table", "name", "measured", "values"),
    [
        # 3.5 million tokens/s with 4,194,304 tokens per step on 1,024 chips
        ("train", "trainium-training-195", 4194304 / 3.5e6, {"count": 64, "tp": 4, "dp": 1024, "zero": 3, "lnc": 2}),
        ("train", "trainium-training-076", 1024 / 143.75, {"count": 16, "chips": 256, "tp": 8, "dp": 64}),
        # 8 sequences of 2,048 tokens at 3,532.8 tokens/s: a step of 4.6377 s, as the source prints too
        ("train", "trainium-training-196", 4.6377, {"chips": 1, "tp": 4, "dp": 1, "lora_rank": 16}),
        ("train", "megatron-a100-004", 13.75, {"pp": 8, "interleave": 3, "recompute": "selective", "zero": 0}),
        # 530B on 2,240 GPUs: 159 TFLOP/s per GPU by the paper's formula
        ("train", "megatron-a100-050", 55.446, {"dp": 8, "pp": 35, "nic_bandwidth": 25e9}),
        ("train", "gpu-training-082", 4096 * 2048 / (1007 * 512), {"zero": 3, "dp": 512, "microbatch_size": 8}),
        ("serve", "trainium-inference-126-ttft", 0.81428, {"tp": 64, "input_tokens": 10000, "chips": 16}),
        ("serve", "trainium-inference-126-tpot", 0.01966, {"concurrency": 1, "output_tokens": 1500}),
        # one stream against a graph compiled for 32
        ("serve", "trainium-inference-144-tpot", 0.022136, {"concurrency": 1, "compiled_batch": 32, "chips": 1}),
        # two instances of tp 8, each at half the concurrency
        ("serve", "trainium-inference-630-output_tokens_per_s", 632.78, {"dp": 2, "concurrency": 32, "chips": 4}),
        # printed per request, at concurrency 4
        ("serve", "trainium-inference-400-output_tokens_per_s", 4 * 58.5, {"compiled_batch": 4}),
        ("collective", "collectives-201", 2585.8e-6, {"op": "permute", "busbw": 268435456 / 2585.8e-6}),
        ("gemm", "operators-001", 276.8e-6, {"m": 1024, "k": 4096, "n": 4096, "launch_time": 60e-6}),
        ("gemm", "operators-007", 2 * 30720 * 8192**2 / 150.21e12, {"cores": 2, "busy_share": 0.25}),
    ],
)
def test_known_rows(table, name, measured, values):
    row = by_id(table, name)
    assert row.measured == pytest.approx(measured, rel=1e-4)
    for column, value in values.items():
        assert row.values[column] == (pytest.approx(value) if isinstance(value, float) else value)
    assert row.use != "excluded"


def test_what_the_public_tables_warn_of_is_set_aside():
    reasons = {
        ("train", "trainium-training-001"): "encoder",
        ("train", "gpu-training-013"): "same rows",
        ("train", "trainium-training-078"): "restated",  # printed with pp 1, corrected in the next revision
        ("train", "trainium-training-006"): "superseded",
        ("train", "trainium-training-215"): "doubts its own figure",
        ("serve", "trainium-inference-003-tpot"): "superseded",
        ("serve", "trainium-inference-126-output_tokens_per_s"): "queueing",
        ("serve", "trainium-inference-127-ttft"): "acceptance",
        ("serve", "trainium-inference-341-ttft"): "tensor-parallel degree",
        ("serve", "gpu-inference-157-tpot"): "memory",
        ("collective", "collectives-035"): "two collectives",
        ("gemm", "operators-012"): "cast up",
    }
    for (table, name), words in reasons.items():
        row = by_id(table, name)
        assert row.use in {"excluded", "check"}
        assert words in row.reason, name


def padded(row: Measurement) -> ModelSpec:
    """Neuron's libraries pad heads to a multiple of tp."""
    model, tp = measured_model(row.text("model")), int(row.number("tp"))
    kinds = tuple(
        replace(kind, attention=replace(kind.attention, num_heads=-(-kind.attention.num_heads // tp) * tp))
        for kind in model.layer_kinds
    )
    return replace(model, layer_kinds=kinds)


def scenario(row: Measurement) -> Scenario:
    skipped = {"model", "chips", "acceptance", "draft_model", "draft_tokens", "tokens_per_s", "nic_bandwidth"}
    skipped |= {"prefill_batch", "request_rate", "max_length", "statistic", "kernels", "measured"}
    fields: dict[str, Any] = {
        name: int(value) if isinstance(value, float) else value
        for name, value in row.values.items()
        if value is not None and name not in skipped and name in Scenario.__dataclass_fields__
    }
    return Scenario(model=padded(row), profile="ideal", **fields)


@pytest.mark.parametrize(("table", "workload"), [("train", "train"), ("serve", "serve")])
def test_every_compared_row_is_a_plan_that_can_be_laid_out(table, workload):
    for row in COMPARED[table]:
        resolved = resolve(scenario(row), workload)
        degrees = ("tp", "dp", "cp", "ep", "pp") if table == "train" else ("tp", "dp")
        ranks = 1.0
        for degree in degrees:
            ranks *= row.number(degree)
        assert ranks / resolved.core.ranks_per_chip == pytest.approx(row.number("chips")), row.id


def test_no_training_row_beats_the_peak():
    """Forward and input gradient of the active weights, and their own gradient unless they are frozen."""
    for row in TIMED:
        passes = 4.0 if row.number("lora_rank") else 6.0
        active = model_parameters(measured_model(row.text("model"))).active
        chip = catalog.system(row.text("system")).chip
        peak = chip_flop_rate(chip, row.text("precision")) * row.number("chips")
        assert passes * active * row.number("tokens_per_s") < peak, row.id
        tokens = row.number("global_batch_size") * row.number("sequence_length")
        assert row.number("tokens_per_s") * row.number("measured") == pytest.approx(tokens, rel=1e-6)


def test_no_decode_row_reads_weights_faster_than_the_memory():
    """One step reads the weights that one token visits, embedding look-ups aside."""
    for row in DECODED:
        model = measured_model(row.text("model"))
        width = {"fp8": 1.0, "int8": 1.0}.get(row.text("weight_dtype"), 2.0)
        table = model.vocab_size * model.hidden_size * (0 if model.tied_embeddings else 1)
        weights = (model_parameters(model).active - table) * width
        chips = row.number("chips") / row.number("dp")
        tokens = 1.0 + (row.number("draft_tokens") if row.values["draft_tokens"] is not None else 0.0)
        bandwidth = catalog.system(row.text("system")).chip.hbm_bandwidth * chips
        assert row.number("measured") * tokens > weights / bandwidth, row.id


def test_collectives_stay_below_the_links():
    for row in COMPARED["collective"]:
        if row.metric == "time":
            assert row.number("busbw") < 400e9, row.id


def test_a_model_that_only_measurements_use():
    assert measured_model("mpt-7b").num_layers == 32
    assert model_parameters(measured_model("mpt-70b")).total == 64862437376  # as the source counts them
    assert measured_model("llama-2-7b") is catalog.model("llama-2-7b")
    with pytest.raises(UnknownNameError):
        measured_model("nothing")


def test_groups_are_source_and_model():
    assert by_id("train", "trainium-training-195").group == ("axlearn-paper", "llama-2-7b")


def good_row(**changes: str) -> str:
    row = {name: "" for name in column_names("collective")}
    row |= {
        "id": "x-001",
        "dataset": "x",
        "metric": "time",
        "measured": "1e-3",
        "op": "all_reduce",
        "system": "trn2.48xlarge",
        "count": "1",
        "ranks": "64",
        "bytes": "1024",
        "layer": "device",
        "trust": "A",
        "use": "fit",
        "source": "somewhere",
    }
    return ",".join({**row, **changes}[name] for name in column_names("collective"))


HEADER = ",".join(column_names("collective"))


def test_a_good_row_is_read():
    (row,) = read_measurements("collective", f"{HEADER}\n{good_row()}\n")
    assert row.measured == 1e-3
    assert row.number("ranks") == 64
    assert row.text("algorithm") == ""
    with pytest.raises(DataError, match="x-001: column busbw holds no number"):
        row.number("busbw")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "header must be"),
        (HEADER.replace("ranks", "rank"), "header must be"),
        (f"{HEADER}\nx,y", "row 2: 2 cells"),
        (f"{HEADER}\n{good_row(measured='fast')}", "row 2, column measured: 'fast' is no number"),
        (f"{HEADER}\n{good_row(measured='nan')}", "row 2, column measured: 'nan' is outside"),
        (f"{HEADER}\n{good_row(measured='-1')}", "row 2, column measured: '-1' is outside 0"),
        (f"{HEADER}\n{good_row(ranks='1')}", "row 2, column ranks: '1' is outside 2"),
        (f"{HEADER}\n{good_row(ranks='2.5')}", "row 2, column ranks: '2.5' is no whole number"),
        (f"{HEADER}\n{good_row(system='trn9')}", "row 2, column system: 'trn9' is no system of the catalog"),
        (f"{HEADER}\n{good_row(op='broadcast')}", "row 2, column op: 'broadcast' is none of"),
        (f"{HEADER}\n{good_row(source='')}", "row 2, column source: blank"),
        (f"{HEADER}\n{good_row(layer='')}", "row 2: layer blank in a row that is compared"),
        (f"{HEADER}\n{good_row(measured='')}", "row 2: measured blank"),
        (f"{HEADER}\n{good_row(use='check')}", "row 2, column reason"),
        (f"{HEADER}\n{good_row(reason='why')}", "row 2, column reason"),
        (f"{HEADER}\n{good_row()}\n{good_row()}", "id x-001 comes twice"),
    ],
)
def test_a_bad_file_names_row_and_column(text, message):
    with pytest.raises(DataError) as caught:
        read_measurements("collective", text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_model_is_refused():
    names = column_names("train")
    row = dict.fromkeys(names, "") | {"id": "x", "dataset": "x", "metric": "step_time", "trust": "A", "source": "s"}
    row |= {"use": "excluded", "reason": "why", "model": "gpt-9"}
    text = ",".join(names) + "\n" + ",".join(row[name] for name in names)
    with pytest.raises(DataError, match="column model: 'gpt-9' is no model of the catalog"):
        read_measurements("train", text)


def test_tables_and_kinds_share_their_words_with_the_command_line():
    assert TABLES == ("train", "serve", "collective", "gemm")
    for table in TABLES:
        assert {row.kind for row in measurements(table)} - {None} == {kind for kind in Kind if kind.table == table}
    assert by_id("serve", "trainium-inference-126-output_tokens_per_s").kind is None
    assert by_id("train", "megatron-a100-004").kind is Kind.TRAIN
