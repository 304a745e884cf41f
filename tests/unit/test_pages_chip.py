"""Chip page: operators under their roofs, peaks as published, engines that add up to what binds."""

from __future__ import annotations

import math
from typing import Any

import pytest

from trn2model.specs import catalog
from trn2model.specs.scenario import Scenario
from trn2model.ui import estimates
from trn2model.ui.charts.chart import Chart
from trn2model.ui.pages import chip
from trn2model.ui.pages.steps import operator_rows

SCENARIOS = [
    Scenario(),
    Scenario(precision="fp8", profile="ideal"),
    Scenario(sparsity="4:16", profile="ideal"),
    Scenario(model="mixtral-8x7b", system="trn2.48xlarge", tp=8, ep=8),
    Scenario(model="llama-3.1-8b", system="p5.48xlarge", tp=8),
]


def chart(scenario: Scenario) -> Chart:
    return chip.operator_roofline(estimates.training(scenario), "light")


def traces(figure: dict[str, Any], marks: bool) -> list[dict[str, Any]]:
    return [trace for trace in figure["data"] if ("marker" in trace) == marks]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: f"{s.model} {s.precision} {s.sparsity} {s.system}")
def test_every_mark_lies_under_the_roof_and_inside_the_axes(scenario: Scenario) -> None:
    figure = chart(scenario).figure
    hardware = catalog.system(scenario.system).chip
    slope = hardware.hbm_bandwidth / 1e12
    roof = max(trace["y"][-1] for trace in traces(figure, marks=False))
    dense = hardware.flop_rate[scenario.precision] / 1e12
    assert roof == pytest.approx(dense if scenario.sparsity == "dense" else 2563)
    (x_low, x_high), (y_low, y_high) = (figure["layout"][axis]["range"] for axis in ("xaxis", "yaxis"))
    marks = [(x, y) for trace in traces(figure, marks=True) for x, y in zip(trace["x"], trace["y"], strict=True)]
    assert len(marks) > 5
    for x, y in marks:
        assert y <= min(roof, slope * x) * (1 + 1e-9)
        assert x_low < math.log10(x) < x_high
        assert y_low < math.log10(y) < y_high


def test_axes_say_their_units_and_the_title_says_the_chip() -> None:
    layout = chart(Scenario()).figure["layout"]
    assert "Roofline of one trainium2" in layout["title"]["text"]
    assert layout["xaxis"]["title"]["text"] == "operational intensity [FLOP per byte of HBM traffic]"
    assert layout["yaxis"]["title"]["text"] == "attained rate of one chip [TFLOP/s]"
    assert layout["xaxis"]["type"] == layout["yaxis"]["type"] == "log"


def test_ceilings_are_the_published_peaks_and_what_is_achievable_lies_below() -> None:
    ideal, achievable = traces(chart(Scenario()).figure, marks=False)
    assert ideal["y"][1:] == [667, 667]
    assert ideal["x"][1] == pytest.approx(667 / 2.9)
    assert achievable["y"][-1] < 667
    assert achievable["y"][0] / achievable["x"][0] < 2.9
    assert "667 TFLOP/s bf16 dense, 2.90 TB/s" in ideal["name"]


def test_marks_are_as_large_as_their_share_of_the_time() -> None:
    """Areas: (diameter - 9)^2 is proportional to the share, and the shares of all operators sum to one."""
    estimate = estimates.training(Scenario())
    rows = {row.name: row for row in operator_rows(estimate)}
    whole = sum(row.step_time for row in rows.values())
    marks = [
        (data[0], size)
        for trace in traces(chart(Scenario()).figure, marks=True)
        for data, size in zip(trace["customdata"], trace["marker"]["size"], strict=True)
    ]
    drawn = chart(Scenario()).table
    intensities = zip(drawn.column("operator"), drawn.column("intensity [FLOP/B]"), strict=True)
    assert {name for name, _ in marks} == {name for name, intensity in intensities if intensity}
    for name, size in marks:
        assert (size - 9) ** 2 / 26**2 == pytest.approx(rows[name].step_time / whole)


def test_the_table_repeats_the_marks_in_si_units() -> None:
    drawn = chart(Scenario())
    rates = {row[0]: row[3] for row in drawn.table.rows}
    for trace in traces(drawn.figure, marks=True):
        for data, rate in zip(trace["customdata"], trace["y"], strict=True):
            assert rates[data[0]] == pytest.approx(rate * 1e12)
    assert drawn.table.columns[2:5] == ("intensity [FLOP/B]", "attained [FLOP/s]", "time per run [s]")


def test_cells_of_the_peak_table_are_shares_of_the_largest_peak() -> None:
    drawn = chip.peak_table(estimates.training(Scenario()), "light")
    heat = drawn.figure["data"][0]
    peaks = {row[:2]: row[2] for row in drawn.table.rows}
    top = max(float(peak) for peak in peaks.values() if peak is not None)
    patterns = [name.removeprefix("sparse<br>") for name in heat["x"]]
    for dtype, shares, texts in zip(heat["y"], heat["z"], heat["customdata"], strict=True):
        for pattern, share, text in zip(patterns, shares, texts, strict=True):
            peak = peaks[dtype, pattern]
            assert share == (None if peak is None else pytest.approx(float(peak) / top))
            assert text == ("–" if peak is None else f"{round(float(peak) / 1e12):,}")
    assert (heat["zmin"], heat["zmax"]) == (0, 1)
    assert "[TFLOP/s]" in drawn.words.title


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: f"{s.model} {s.precision} {s.sparsity} {s.system}")
def test_the_busiest_engine_is_the_one_that_binds(scenario: Scenario) -> None:
    estimate = estimates.training(scenario)
    drawn = chip.engine_balance(estimate, "dark")
    engines = drawn.figure["data"][0]["x"]
    bound = dict(zip(drawn.table.column("operator"), drawn.table.column("bound by"), strict=True))
    times = [float(row.step_time) for row in operator_rows(estimate)]
    assert len(drawn.figure["data"][0]["y"]) == len(times)
    for label, shares in zip(drawn.figure["data"][0]["y"], drawn.figure["data"][0]["z"], strict=True):
        name = label.rpartition(" · ")[0]
        busiest = engines[max(range(4), key=lambda index: shares[index] or 0.0)]
        assert busiest.lower() == str(bound[name]).lower()
        assert all(0 <= share <= 1 + 1e-9 for share in shares if share is not None)
    longest = drawn.table.rows[0]
    assert float(longest[5] or 0) * float(longest[6] or 0) == pytest.approx(max(times))


def test_metrics_print_the_published_figures() -> None:
    shown = {m.label: m.value for m in chip.content(estimates.training(Scenario(sparsity="4:16")), "light").metrics}
    assert shown["bf16 dense"] == "667 TFLOP/s"
    assert shown["bf16 4:16"] == "2,563 TFLOP/s"
    assert (shown["HBM"], shown["HBM bandwidth"]) == ("96 GiB", "2.90 TB/s")
    assert shown["Ranks"] == "4 per chip"
