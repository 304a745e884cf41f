"""Charts of the Training page as plain data: schedule, memory over the step, scaling, the run."""

from __future__ import annotations

from typing import Any

import pytest

from trn2model.model.estimate import estimate
from trn2model.specs.scenario import Scenario
from trn2model.ui.charts.chart import Chart
from trn2model.ui.pages.scaling import run_listing, scaling_chart
from trn2model.ui.pages.schedule import memory_chart, schedule_chart
from trn2model.units import from_si

PLANS: list[dict[str, Any]] = [
    {},
    {"pp": 4, "tp": 8},
    {"pp": 4, "tp": 8, "interleave": 2},
    {"pp": 4, "tp": 8, "pipeline_schedule": "gpipe"},
    {"pp": 4, "tp": 8, "pipeline_schedule": "zb-h1"},
    {"model": "megatron-1t", "system": "p4de.24xlarge", "count": 64, "tp": 8, "pp": 64, "dp": 1,
     "global_batch_size": 512, "sequence_length": 2048},
]  # fmt: skip


def numbers(chart: Chart, column: str) -> list[float]:
    """Numbers of a column of a chart's table."""
    return [float(cell) for cell in chart.table.column(column) if cell is not None]


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_schedule_draws_every_task_of_the_shown_stages_inside_the_axis(plan: dict[str, Any], mode: str) -> None:
    result = estimate(Scenario(**plan))
    chart = schedule_chart(result, mode)  # type: ignore[arg-type]
    traces, layout = chart.figure["data"], chart.figure["layout"]
    pp, v = int(result.resolved.plan.pp), int(result.resolved.plan.interleave)
    stages = len(layout["yaxis"]["ticktext"])
    kinds = 3 if plan.get("pipeline_schedule") == "zb-h1" else 2
    assert [trace["name"] for trace in traces] == ["forward", "backward", "weight gradient"][:kinds]
    shown = int(chart.words.subtitle.split(" ")[0])
    assert all(len(trace["x"]) == stages * v * shown <= 2000 for trace in traces)
    ends = [b + x for trace in traces for b, x in zip(trace["base"], trace["x"], strict=True)]
    assert max(ends) <= layout["xaxis"]["range"][1] * (1 + 1e-9)
    assert len(chart.table.rows) == pp
    if stages == pp:
        busy = sum(x for trace in traces for x in trace["x"])
        unit = "ms" if "[ms]" in layout["xaxis"]["title"]["text"] else "s"
        assert busy == pytest.approx(sum(from_si(t, unit) for t in numbers(chart, "busy [s]")), rel=1e-9)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_memory_peaks_at_what_the_estimate_says(plan: dict[str, Any]) -> None:
    result = estimate(Scenario(**plan))
    chart = memory_chart(result, "light")
    used = from_si(float(result.memory.used_bytes), "GiB")
    *areas, peak = chart.figure["data"]
    assert peak["y"] == [pytest.approx(used, rel=1e-9)]
    tops = [sum(values) for values in zip(*(area["y"] for area in areas), strict=True)]
    assert max(tops) == pytest.approx(used, rel=1e-9)
    assert max(numbers(chart, "all [B]")) == pytest.approx(float(result.memory.used_bytes), rel=1e-9)
    (limit,) = chart.figure["layout"]["shapes"]
    assert limit["y0"] == from_si(result.memory.capacity_bytes, "GiB")
    assert all(len(area["x"]) <= 400 for area in areas)
    said = chart.words.alt.split(": ")[-1]
    assert ("at the start" in said) == (peak["x"] == [0.0])
    assert "at 0 " not in said


def test_scaling_shows_both_kinds_and_the_sibling_machine() -> None:
    result = estimate(Scenario(pp=4, tp=8, count=2, global_batch_size=2048))
    chart = scaling_chart(result, "dark")
    assert chart is not None
    names = {trace.get("name") for trace in chart.figure["data"]}
    assert {"trn2-ultraserver, batch fixed", "trn2-ultraserver, batch grows", "trn2.48xlarge, batch fixed"} <= names
    rows = [row for row in chart.table.rows if row[:3] == ("trn2-ultraserver", "strong", 2)]
    assert [row[6] for row in rows] == [pytest.approx(result.tokens_per_s)]


def test_a_machine_without_a_sibling_scales_alone() -> None:
    chart = scaling_chart(estimate(Scenario(model="llama-3.1-8b", system="p5.48xlarge", tp=8)), "light")
    assert chart is not None
    assert {row[0] for row in chart.table.rows} == {"p5.48xlarge"}


def test_the_run_is_told_in_words_and_units() -> None:
    listing = run_listing(estimate(Scenario(model="llama-3.1-8b", system="p5.48xlarge", tp=8)))
    told = {row[0]: row[1] for row in listing.table.rows}
    assert told["tokens"] == "1.00 T"
    assert str(told["cost"]).startswith("$")
    assert str(told["goodput"]).endswith("%")
    assert "days" in str(told["time to train"])
