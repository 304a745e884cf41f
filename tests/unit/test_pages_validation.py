"""Validation page as plain data: what is shown, what it says of a measurement, and what it links to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import plotly.graph_objects as go
import pytest

from trn2model.model.estimate import estimate
from trn2model.specs.link import decode
from trn2model.specs.model import ModelSpec
from trn2model.specs.profile import Kind
from trn2model.specs.scenario import Scenario
from trn2model.ui.charts.chart import Chart, Words
from trn2model.ui.charts.parity import MOST_POINTS, Dot, Picked, Series, parity, ratio_strip
from trn2model.ui.pages import validation
from trn2model.ui.pages.content import Content, Facts, Listing
from trn2model.ui.pages.evidence import KIND_NAMES, Evidence, facts, gather, profile_links, range_text
from trn2model.ui.report import html
from trn2model.ui.tables import table
from trn2model.validation.compare import Point
from trn2model.validation.measurements import TABLES, measurements

VIEW = validation.View(Kind.TRAIN)


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return gather()


def blocks(content: Content, kind: type) -> list[Any]:
    return [block for row in content.rows for block in row if isinstance(block, kind)]


def first(evidence: Evidence, **wanted: str) -> Point:
    return next(p for p in evidence.points if all(getattr(p, name) == value for name, value in wanted.items()))


def test_every_row_of_the_tables_is_shown_or_left_out_with_a_reason(evidence: Evidence) -> None:
    shown = [point.id for point in (*evidence.points, *evidence.bounds)]
    left = [name for _, _, ids in evidence.left for name in ids]
    rows = [row.id for table in TABLES for row in measurements(table)]
    assert Counter(shown + left) == Counter(rows)
    assert all(reason for _, reason, _ in evidence.left)


def test_bounds_are_apart_from_what_is_compared(evidence: Evidence) -> None:
    assert {point.use for point in evidence.points} == {"fit", "check"}
    assert {point.use for point in evidence.bounds} == {"bound"}


@pytest.mark.parametrize("kind", KIND_NAMES)
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_kind_has_a_chart_that_holds_its_points(evidence: Evidence, kind: Kind, mode) -> None:
    content = validation.content(None, mode, evidence, validation.View(kind))
    scatter = blocks(content, Chart)[0]
    members = [p for p in (*evidence.points, *evidence.bounds) if p.kind == kind]
    drawn = [item[0] for trace in scatter.figure["data"] for item in trace.get("customdata", ())]
    assert sorted(drawn) == sorted(p.id for p in members)
    assert len(scatter.table.rows) == len(members)
    low, high = (10.0**end for end in scatter.figure["layout"]["xaxis"]["range"])
    assert all(low < time < high for p in members for time in (p.measured, p.predicted))
    assert scatter.figure["layout"]["xaxis"]["range"] == scatter.figure["layout"]["yaxis"]["range"]
    for chart in blocks(content, Chart):
        go.Figure(chart.figure)
        assert chart.words.alt
        assert chart.words.subtitle
        assert chart.table.rows
        assert all(len(trace["x"]) <= MOST_POINTS for trace in chart.figure["data"])


def test_filters_narrow_and_axes_stay(evidence: Evidence) -> None:
    whole = blocks(validation.content(None, "light", evidence, VIEW), Chart)[0]
    view = replace(VIEW, system="trn1.32xlarge", trust="A")
    shown = validation.selected(evidence, view)
    assert shown.points
    assert {evidence.system(p) for p in shown.points} == {"trn1.32xlarge"}
    assert {p.trust for p in shown.points} == {"A"}
    narrowed = blocks(validation.content(None, "light", evidence, view), Chart)[0]
    assert narrowed.figure["layout"]["xaxis"]["range"] == whole.figure["layout"]["xaxis"]["range"]
    assert "trust A" in narrowed.words.subtitle
    assert not validation.selected(evidence, replace(VIEW, kind=Kind.PREFILL, bounds=False)).bounds


def test_nothing_published_is_said_in_words(evidence: Evidence) -> None:
    content = validation.content(None, "light", evidence, replace(VIEW, system="trn2.48xlarge", trust="C"))
    assert "Nothing was published" in blocks(content, Facts)[0].note
    for chart in blocks(content, Chart):
        go.Figure(chart.figure)


def test_verdict_and_metrics_say_medians_and_means(evidence: Evidence) -> None:
    errors = np.array([point.error for point in evidence.points])
    text = validation.verdict(evidence.points).text
    assert text.startswith(f"{len(errors):,} published measurements")
    assert "own group the median is" in text
    near = round(100 * float(np.mean(errors <= 0.2)))
    assert f"{near} % are predicted within ±20 %" in text
    few = [replace(first(evidence, kind=Kind.TRAIN), ratio=ratio) for ratio in (1.1, 0.8, 1.6)]
    metric = validation.metrics(few)[0]
    assert (metric.label, metric.value, metric.range) == ("Training step", "20 %", "median · mean 30 %")


def test_error_table_counts_rows_that_could_not_be_used(evidence: Evidence) -> None:
    content = validation.content(None, "light", evidence, replace(VIEW, kind=Kind.PREFILL))
    errors = next(block for block in blocks(content, Listing) if block.title.startswith("Errors by dataset"))
    used = dict(zip(errors.table.column("dataset"), errors.table.column("used"), strict=True))
    rows = dict(zip(errors.table.column("dataset"), errors.table.column("rows"), strict=True))
    assert sum(used.values()) == sum(p.kind == "prefill" for p in evidence.points)
    assert all(rows[name] >= used[name] for name in used)
    assert sum(rows.values()) > sum(used.values())


@pytest.mark.parametrize("group", validation.GROUPS)
def test_errors_by_every_grouping_add_up(evidence: Evidence, group: str) -> None:
    content = validation.content(None, "light", evidence, replace(VIEW, kind=Kind.DECODE, group=group))
    errors = next(block for block in blocks(content, Listing) if block.title.startswith("Errors by"))
    assert sum(errors.table.column("used")) == sum(p.kind == "decode" for p in evidence.points)


def test_a_picked_measurement_shows_its_source_and_range(evidence: Evidence) -> None:
    point = first(evidence, kind=Kind.DECODE, trust="A")
    content = validation.content(None, "light", evidence, replace(VIEW, kind=Kind.DECODE, picked=point.id))
    facts = blocks(content, Facts)[0]
    said = dict(facts.items)
    assert point.id in facts.title
    assert said["Source"] == point.source
    assert said["Trust"].startswith("A: vendor")
    assert " to " in said["Range"]
    ring = blocks(content, Chart)[0].figure["data"][-1]
    assert (ring["x"], ring["y"]) == ([point.measured], [point.predicted])
    assert point.predicted + ring["error_y"]["array"][0] == pytest.approx(point.high)
    assert point.source.replace("&", "&amp;") in html(content, "address")


def test_without_a_pick_the_largest_miss_is_shown(evidence: Evidence) -> None:
    facts = blocks(validation.content(None, "light", evidence, VIEW), Facts)[0]
    worst = max((p for p in evidence.points if p.kind == "train"), key=lambda p: abs(np.log(p.ratio)))
    assert worst.id in facts.title
    assert "largest miss" in facts.note


def test_links_open_the_scenario_that_was_predicted(evidence: Evidence) -> None:
    linked = [
        p for p in evidence.points if p.kind == "train" and p.scenario is not None and isinstance(p.scenario.model, str)
    ]
    for point in linked[::17]:
        links = facts(evidence, point, point.id).links
        assert links is not None
        assert links.page == "training"
        scenario, notices = decode(dict(parse_qsl(links.items[0][1])))
        assert not notices
        assert scenario == point.scenario
        if not evidence.rows[point.id].values.get("nic_bandwidth"):
            assert float(estimate(scenario).step_time) == pytest.approx(point.predicted, rel=1e-9)


def test_what_no_link_can_carry_is_said(evidence: Evidence) -> None:
    kernel = facts(evidence, first(evidence, kind=Kind.COLLECTIVE), "")
    assert kernel.links is None
    assert "kernel alone" in kernel.note
    own = next(
        p
        for p in evidence.points
        if p.scenario and isinstance(p.scenario.model, ModelSpec) and p.dataset == "llm-foundry"
    )
    said = facts(evidence, own, "")
    assert said.links is None
    assert "not in the catalog" in said.note


TWIN = table(("a",), [("b",)])


def test_a_long_series_is_cut_into_traces_that_a_browser_draws() -> None:
    dots = tuple(Dot(1.0 + n, 1.0 + n, str(n), "") for n in range(MOST_POINTS + 1))
    words = Words("t", "s", "a", "f")
    series = Series("A", "circle", 8, 0, dots)
    chart = parity(words, [series], Picked(dots[0], 0.5, 2.0), (1.0, 3000.0), table=TWIN, mode="light")
    assert sorted(len(trace["x"]) for trace in chart.figure["data"] if "customdata" in trace) == [1, MOST_POINTS]


def test_strips_stand_apart_and_show_ratios_round_one() -> None:
    dots = (Dot(1.0, 0.5, "a", ""), Dot(2.0, 2.0, "b", ""), Dot(1.0, 1.1, "c", ""))
    series = Series("A", "circle-open", 8, 1, dots)
    groups = {"a": "first", "b": "second", "c": "first"}
    words = Words("t", "s", "a", "f")
    chart = ratio_strip(words, groups, [series], table=TWIN, mode="dark", picks="key")
    trace, layout = chart.figure["data"][0], chart.figure["layout"]
    assert trace["x"] == [0.5, 1.0, 1.1]
    assert [round(y) for y in trace["y"]] == [0, 1, 0]
    assert trace["y"][0] != trace["y"][2]
    assert layout["yaxis"]["ticktext"] == ["first", "second"]
    assert sum(layout["xaxis"]["range"]) == pytest.approx(0.0)
    assert layout["shapes"][0]["x0"] == pytest.approx(0.8)
    assert chart.picks == "key"


@pytest.mark.parametrize(("extent", "ticks"), [((0.01, 0.1), 5), ((0.01, 1.0), 5), ((1e-5, 1.0), 6)])
def test_axes_have_some_ticks_whatever_they_span(extent: tuple[float, float], ticks: int) -> None:
    dots = (Dot(*extent, "a", ""),)
    words = Words("t", "s", "a", "f")
    chart = parity(words, [Series("A", "circle", 8, None, dots)], None, extent, table=TWIN, mode="light")
    assert abs(len(chart.figure["layout"]["xaxis"]["tickvals"]) - ticks) <= 1


def test_profile_is_named_and_extrapolation_said() -> None:
    inside = profile_links(estimate(Scenario(system="trn2.48xlarge", model="llama-3.1-8b", tp=8)))
    outside = profile_links(estimate(Scenario()))
    assert inside.title == "Profile neuron-2.2x-training"
    assert "No UltraServer measurement has been published" in outside.title
    assert outside.page == "validation"
    assert dict(parse_qsl(outside.items[0][1]))["vk"] == "training step"
    assert dict(parse_qsl(profile_links(estimate(Scenario(), "serve")).items[0][1]))["vk"] == "time per output token"


def test_a_profile_without_a_range_shows_none() -> None:
    assert range_text((1.0, 1.0)) == ""
    assert range_text((0.010, 0.025)) == "10.0 ms to 25.0 ms"
