"""What pages say: sums that add up, groups that partition the ranks, words that name what binds."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trn2model.errors import InvalidPlanError, Trn2ModelError, UnsupportedError
from trn2model.specs import catalog
from trn2model.specs.link import decode
from trn2model.specs.provenance import STATUSES, sources
from trn2model.specs.scenario import FIELDS, Scenario
from trn2model.ui import estimates, report
from trn2model.ui.charts.chart import Chart
from trn2model.ui.charts.colours import MEMORY_COLOURS, TIME_COLOURS, time_colour
from trn2model.ui.charts.style import palette
from trn2model.ui.pages import chip, overview, schedule, steps, topology, training, words
from trn2model.ui.pages import sources as source_page
from trn2model.ui.pages.content import Content, Folded, Listing, Remarks
from trn2model.ui.pages.sources import TERMS
from trn2model.ui.pages.steps import GROUPS, PART_NAMES, PHASE_NAMES, SHORT_NAMES, engine_times, operator_rows
from trn2model.ui.pages.topology import axis_groups, link_traffic, runs

SMALL = Scenario(model="llama-3.1-8b", system="trn2.48xlarge", tp=8)
MOE = Scenario(model="mixtral-8x7b", system="trn2.48xlarge", tp=8, ep=8)
DEEP = Scenario(system="trn2.48xlarge", count=4, pp=4, cp=2, sequence_length=8192)
TOO_LARGE = Scenario(model="llama-3.1-405b", system="trn2.48xlarge")
SCENARIOS = (Scenario(), SMALL, MOE, DEEP, TOO_LARGE)


def view(**changes: object) -> topology.View:
    values = {"axis": "tp", "group": 0, "domain": 0, "basis": "utilisation", "planes_per_row": 4} | changes
    return topology.View(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: f"{s.model} pp {s.pp}")
def test_every_page_is_built_and_goes_into_a_report(scenario: Scenario) -> None:
    estimate = estimates.training(scenario)
    pages = [module.content(estimate, "light") for module in (overview, chip, training)]
    pages.append(topology.content(estimate, "light", view()))
    pages.append(source_page.content(estimate, "light", source_page.THIS, source_page.ALL))
    for page in pages:
        text = report.html(page, "http://127.0.0.1/")
        assert text.count("<figure") == sum(isinstance(block, Chart) for row in page.rows for block in row)
        json.dumps(page.to_dict(), allow_nan=False)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: f"{s.model} pp {s.pp}")
def test_parts_of_time_and_memory_add_up_in_their_tables(scenario: Scenario) -> None:
    estimate = estimates.training(scenario)
    for chart, column, whole in (
        (training.step_time_rows(estimate, "light"), "time [s]", float(estimate.step_time)),
        (training.memory_bar(estimate, "light"), "size [B]", float(estimate.memory.used_bytes)),
    ):
        *parts, total = chart.table.column(column)
        assert total == pytest.approx(whole, rel=1e-9)
        assert sum(float(part or 0) for part in parts) == pytest.approx(whole, rel=1e-9)


def test_bars_of_the_step_follow_on_each_other() -> None:
    (trace,) = training.step_time_rows(estimates.training(DEEP), "light").figure["data"]
    ends = [start + size for start, size in zip(trace["base"], trace["x"], strict=True)]
    assert trace["base"] == pytest.approx([0.0, *ends[:-1]])
    assert ends[-1] == pytest.approx(float(estimates.training(DEEP).step_time))


def test_every_part_of_a_step_has_a_name_and_a_colour() -> None:
    for scenario in SCENARIOS:
        assert set(estimates.training(scenario).time) <= set(PART_NAMES)
        assert set(estimates.training(scenario).memory.parts) <= set(MEMORY_COLOURS)
    assert set(PART_NAMES) == set(SHORT_NAMES)
    assert {name.removesuffix("_exposed") for name in (*PART_NAMES, *PHASE_NAMES)} <= set(TIME_COLOURS)


def test_a_part_looks_the_same_in_every_chart() -> None:
    """The backward pass of the schedule has the colour that it has in the step time."""
    estimate = estimates.training(DEEP)
    (bars,) = training.step_time_rows(estimate, "light").figure["data"]
    shown = dict(zip(bars["y"], bars["marker"]["color"], strict=True))
    drawn = {
        trace["name"]: trace["marker"]["color"] for trace in schedule.schedule_chart(estimate, "light").figure["data"]
    }
    assert {name: shown[name] for name in ("forward", "backward")} == {
        name: drawn[name] for name in ("forward", "backward")
    }
    assert drawn["backward"] == palette("light").series[time_colour("backward")]


@pytest.mark.parametrize("scenario", [SMALL, MOE], ids=lambda s: s.model)
def test_operators_add_up_to_the_forward_time(scenario: Scenario) -> None:
    estimate = estimates.training(scenario)
    rows = operator_rows(estimate)
    assert sum(row.step_time for row in rows) == pytest.approx(float(estimate.time["forward"]), rel=1e-9)
    assert sum(engine_times(estimate).values()) == pytest.approx(float(estimate.time["forward"]), rel=1e-9)
    assert len({row.name for row in rows}) == len(rows)
    assert {row.group for row in rows} == set(GROUPS)


def test_no_operator_is_above_the_ideal_roof() -> None:
    chart = chip.operator_roofline(estimates.training(Scenario()), "light")
    for name, _, intensity, rate, _, _ in chart.table.rows:
        assert isinstance(rate, float)
        if intensity is not None:
            assert rate <= min(667e12, float(intensity) * 2.9e12) * (1 + 1e-9), name


def test_busy_shares_stay_below_one_and_one_engine_binds() -> None:
    cells = chip.engine_balance(estimates.training(Scenario()), "light").figure["data"][0]["z"]
    assert all(0 <= share <= 1 for row in cells for share in row if share is not None)


def test_peaks_of_trainium2_by_pattern() -> None:
    rows = {row[:2]: row[2] for row in chip.peak_table(estimates.training(Scenario()), "light").table.rows}
    assert rows["fp8", "dense"] == pytest.approx(1299e12)
    assert rows["bf16", "4:16"] == pytest.approx(2563e12)
    assert rows["fp8", "4:8"] == rows["fp8", "dense"]
    assert rows["fp32", "4:16"] is None
    launch = Scenario(peak_basis="launch", precision="fp8")
    rows = {row[:2]: row[2] for row in chip.peak_table(estimates.training(launch), "light").table.rows}
    assert rows["fp8", "4:16"] == pytest.approx(1299e12 * 4)


def test_the_verdict_names_fit_speed_and_what_binds() -> None:
    said = steps.training_verdict(estimates.training(Scenario()))
    assert said.tone == "good"
    assert re.match(r"Fits: [\d.]+ % of HBM \([\d.]+ GiB of 24\.0 GiB\)\. [\d.]+ k tokens/s, MFU [\d.]+ %", said.text)
    assert "Bound by the Tensor engine" in said.text
    lonely = steps.bound_sentence(
        estimates.training(Scenario(system="trn2.48xlarge", count=16, tp=64, precision="fp8"))
    )
    assert "exposed tensor-parallel communication" in lonely


def test_the_verdict_on_what_does_not_fit_names_demand_limit_and_remedy() -> None:
    said = steps.training_verdict(estimates.training(TOO_LARGE))
    violation = estimates.training(TOO_LARGE).violations[0]
    assert said.tone == "bad"
    assert f"{violation.demand / 2**30:.0f} GiB" in said.text
    assert "24.0 GiB" in said.text
    assert violation.remedy in said.text


@pytest.mark.parametrize("axis", ["tp", "cp", "ep", "dp", "pp"])
@pytest.mark.parametrize("scenario", [Scenario(), MOE, DEEP], ids=lambda s: s.model)
def test_groups_partition_the_ranks(scenario: Scenario, axis: str) -> None:
    estimate = estimates.training(scenario)
    groups = axis_groups(estimate, axis)
    assert groups.size == float(getattr(estimate.resolved.plan, axis))
    assert sorted(groups.members.ravel().tolist()) == list(range(groups.number * groups.size))
    assert all((groups.of_rank[groups.members[g]] == g).all() for g in range(groups.number))


def test_where_groups_sit_in_words() -> None:
    estimate = estimates.training(Scenario(tp=32))
    tp, dp = axis_groups(estimate, "tp"), axis_groups(estimate, "dp")
    assert tp.members[0].tolist() == list(range(32))
    assert tp.extent(0) == "8 chips (4 along x × 2 along y)"
    assert dp.extent(0) == "8 chips (2 along y × 4 along z)"
    assert axis_groups(estimates.training(SMALL), "tp").extent(0) == "2 chips (2 along x)"
    assert axis_groups(estimates.training(Scenario(model="llama-3.1-8b", tp=2)), "tp").extent(0) == "1 chip"
    assert "in 4 systems over EFA" in axis_groups(
        estimates.training(Scenario(system="trn2.48xlarge", count=4)), "dp"
    ).extent(0)
    assert (
        axis_groups(estimates.training(Scenario(system="p5.48xlarge", model="llama-3.1-8b")), "tp").extent(0)
        == "8 chips"
    )


@given(st.sets(st.integers(0, 200), min_size=1))
def test_runs_list_every_number_once(numbers: set[int]) -> None:
    found: list[int] = []
    for piece in runs(sorted(numbers)).split(", "):
        ends, _, step = piece.partition(" step ")
        first, _, last = ends.partition("–")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    assert found == sorted(numbers)


def test_axes_of_a_plan_add_up_on_the_links() -> None:
    estimate = estimates.training(DEEP)
    parts = [link_traffic(estimate, axis, 0, "bytes").bytes for axis in topology.active_axes(estimate)[1:]]
    whole = link_traffic(estimate, None, 0, "utilisation")
    np.testing.assert_allclose(sum(parts), whole.bytes, rtol=1e-12)
    assert whole.utilization.max() == pytest.approx(estimate.links.max_utilization)
    assert 0 < whole.shares.max() <= 1
    assert "reduced over dp × ep × cp" in topology.content(estimate, "light", view(axis="dp")).verdict.text  # type: ignore[union-attr]
    assert link_traffic(estimate, None, 0, "bytes").shares.max() == 1.0


@pytest.mark.parametrize("system", catalog.system_names())
def test_every_machine_has_a_picture(system: str) -> None:
    scenario = Scenario(model="llama-3.1-8b", system=system, tp=2, dp=1)
    estimate = estimates.training(scenario)
    page = topology.content(estimate, "dark", view())
    chart = page.rows[0][0]
    assert isinstance(chart, Chart)
    assert len(chart.table.rows) == (estimate.network.fabric.num_links or estimate.resolved.core.ranks_per_chip)
    assert page.verdict
    assert "2 " in page.verdict.text


def test_a_chip_with_several_groups_shows_the_chosen_one() -> None:
    estimate = estimates.training(Scenario(model="llama-3.1-8b", system="trn2.48xlarge", tp=2))
    marks = [trace for trace in topology.content(estimate, "light", view(group=1)).rows[0][0].figure["data"]]  # type: ignore[union-attr]
    chips = next(trace for trace in marks if trace.get("mode") == "markers+text")
    widths = chips["marker"]["line"]["width"]
    assert widths[0] == 3
    assert set(widths[1:]) == {1}


def test_sources_hold_every_figure_with_a_known_source_and_status() -> None:
    rows = source_page.all_figures().rows
    assert len(rows) > 500
    assert {row[3] for row in rows} <= set(STATUSES)
    titles = {source.title for source in sources().values()}
    assert {row[4] for row in rows} <= titles
    found = {(row[0], row[1]): row[2] for row in rows}
    assert found["trainium2", "bf16 flop rate"] == "667 TFLOP/s"
    assert found["trn2.48xlarge", "host bytes"] == "2 TiB"
    assert found["trn2-ultraserver", "price capacity-block"] == "–"


def test_sources_can_be_narrowed() -> None:
    page = source_page.content(None, "light", "trainium2", "assumed")
    listing = page.rows[0][0]
    assert isinstance(listing, Listing)
    assert {(row[0], row[3]) for row in listing.table.rows} <= {("trainium2", "assumed")}
    assert set(source_page.scopes()) >= {"trainium2", "trn2.48xlarge", "profile ideal"}


def test_every_formula_is_shown_and_its_braces_balance() -> None:
    found = source_page.formulas()
    assert {"matmul", "roofline", "sparsity", "pipeline", "memory"} <= set(found)
    for equations in found.values():
        for equation in equations:
            assert equation.says
            assert equation.latex.count("{") == equation.latex.count("}"), equation.name
            assert "math::" not in equation.latex
            assert "Parameters" not in equation.latex


def test_terms_are_explained_once() -> None:
    assert len({term for term, _ in TERMS}) == len(TERMS)


@pytest.mark.parametrize("preset", overview.PRESETS, ids=lambda preset: preset.title)
def test_presets_fit_and_their_links_open_them(preset: overview.Preset) -> None:
    assert estimates.training(preset.scenario).feasible
    query = dict(overview.preset_links().items)[preset.title]
    scenario, notices = decode(dict(piece.split("=") for piece in query.split("&")))
    assert not notices
    assert scenario == preset.scenario


@given(st.text(max_size=200))
def test_foreign_text_loses_all_markup(text: str) -> None:
    shown = words.plain(text)
    assert not set(shown) & set("<>&\"'`[]{}!*#\\|~$@\n\r\t")
    assert len(shown) <= 61


def test_the_subtitle_names_what_is_not_default() -> None:
    text = words.subtitle(Scenario(tp=8, sparsity="4:16", sequence_parallel=False))
    assert text == "Llama 3.1 70B · 1 × trn2-ultraserver · tp 8 · sequence parallel false · sparsity 4:16"
    assert words.subtitle(Scenario()) == "Llama 3.1 70B · 1 × trn2-ultraserver"
    assert [row.name for row in words.changed_fields(Scenario(tp=8, count=2))] == ["tp"]


def test_complaints_name_field_value_range_and_remedy() -> None:
    error = InvalidPlanError("tp", "<b>7</b>", "a divisor of 64 (1, 2, 4)", "choose one of these")
    assert words.complaint(error) == (
        "Tensor parallel (tp) = `<b>7</b>` does not work here. Allowed: a divisor of 64 (1, 2, 4). "
        "To fix it: choose one of these."
    )
    assert words.complaint(UnsupportedError("a100 has no published fp8 rate")) == "a100 has no published fp8 rate"
    with pytest.raises(Trn2ModelError) as caught:
        estimates.training(Scenario(tp=7))
    assert "Tensor parallel (tp) = 7" in words.complaint(caught.value)


def test_a_report_is_one_safe_file() -> None:
    hostile = '</script><script>alert("x")</script>'
    base = training.content(estimates.training(SMALL), "light")
    rows = (*base.rows, (Remarks(hostile, (hostile,)), Folded(hostile, ())))
    page = Content(hostile, hostile, base.verdict, base.metrics, rows)
    text = report.html(page, "http://127.0.0.1/?m=" + hostile)
    without_library = re.sub(r"<script>/\*\*.*?</script>", "", text, flags=re.DOTALL)
    assert "alert(" not in re.sub(r"&lt;script&gt;alert\(", "", without_library)
    assert not re.search(r"(?:src|href)\s*=", without_library)
    assert text.count("<figure") == text.count("</figure>") > 2
    for found in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, flags=re.DOTALL):
        assert set(json.loads(found)) == {"data", "layout"}


def test_estimates_are_shared_between_equal_scenarios() -> None:
    assert estimates.training(Scenario(tp=16)) is estimates.training(Scenario(tp=16))
    assert {row.name for row in FIELDS} >= {"tp", "model"}
