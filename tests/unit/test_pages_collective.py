"""Collective explorer as plain data."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from trn2model import Scenario, estimate
from trn2model.model.training.step import TrainingEstimate
from trn2model.network.algorithms import Algorithm, Layout, Leg
from trn2model.network.collective import collective_report
from trn2model.network.cost import collective_cost
from trn2model.network.placement import group_dims
from trn2model.specs import catalog
from trn2model.specs.profile import profile
from trn2model.specs.topology import fabric
from trn2model.ui.charts.chart import Chart
from trn2model.ui.pages import explorer, replay
from trn2model.ui.pages.collective import (
    Exploration,
    algorithm_of,
    applicable,
    best_by_size,
    legs_text,
    line_time,
    measured_listing,
    measured_marks,
    measured_points,
    target,
)
from trn2model.ui.pages.content import Content

MIB = 2.0**20


@cache
def plan(**fields: object) -> TrainingEstimate:
    return estimate(Scenario(**fields))  # type: ignore[arg-type]


def charts(content: Content) -> list[Chart]:
    return [block for row in content.rows for block in row if isinstance(block, Chart)]


def test_an_axis_is_looked_at_with_all_its_groups() -> None:
    chosen = target(plan(), Exploration("dp"))
    assert (chosen.members, chosen.number, chosen.dims, chosen.axis) == (8, 32, ((32, 8),), "dp")
    assert chosen.words == "8 logical cores (data parallel, 32 groups at once)"


def test_an_axis_of_degree_one_and_too_many_ranks_give_way_and_say_so() -> None:
    view = Exploration("pp", 1000)
    chosen = target(plan(), view)
    assert (chosen.members, chosen.number, chosen.axis) == (256, 1, "")
    notes = explorer.content(plan(), "light", view).rows[-1][0]
    assert "pp has degree 1" in str(notes)
    assert "fewer than the 1,000" in str(notes)


def test_the_explorer_prints_what_the_command_line_prints() -> None:
    view = Exploration("ranks", 64, "all_reduce", 16 * MIB)
    scenario = {"system": "trn2.48xlarge"}
    report = collective_report("all_reduce", catalog.system("trn2.48xlarge"), 1, 2, ranks=64, message_bytes=16 * MIB)
    chosen = target(plan(**scenario), view)
    assert algorithm_of(chosen, view) == report["algorithm"]
    assert line_time(chosen, "all_reduce", 16 * MIB, "auto") == pytest.approx(report["time"])
    assert set(applicable(chosen, "all_reduce")) == set(report["by_algorithm"])
    twin = charts(explorer.content(plan(**scenario), "light", view))[0].table
    row = twin.rows[twin.column("message [B]").index(16 * MIB)]
    assert row[twin.columns.index("ring time [s]")] == pytest.approx(report["by_algorithm"]["ring"])


def test_bands_are_drawn_for_the_published_group_only() -> None:
    def labels(view: Exploration) -> list[str]:
        notes = charts(explorer.content(plan(), "light", view))[0].figure["layout"]["annotations"]
        return [note["text"] for note in notes if not note["text"].endswith("iB")]

    assert labels(Exploration("ranks", 64)) == ["published: mesh", "RDH", "KangaRing"]
    assert labels(Exploration("ranks", 32)) == labels(Exploration("ranks", 64, "permute")) == []


def test_crossovers_lie_where_the_cheapest_line_changes() -> None:
    view = Exploration("ranks", 64)
    chosen = target(plan(), view)
    figure = charts(explorer.content(plan(), "dark", view))[0].figure
    lines = [shape["x0"] for shape in figure["layout"]["shapes"] if shape["type"] == "line"]
    assert len(lines) == 2
    for size in lines:
        around = [algorithm_of(chosen, Exploration("ranks", 64, size=size * factor)) for factor in (0.99, 1.01)]
        assert around[0] != around[1]
    assert best_by_size(chosen, "all_reduce").startswith("Cheapest: mesh up to")


def test_sizes_that_the_plan_sends_are_marked() -> None:
    chart = charts(explorer.content(plan(), "light", Exploration("tp", op="all_gather")))[0]
    sent = next(trace for trace in chart.figure["data"] if trace["name"] == "sent by this plan")
    assert max(sent["x"]) == max(float(use.bytes) for use in plan().communication if use.axis == "tp")


def test_a_forced_algorithm_is_named_beside_the_cheapest() -> None:
    view = Exploration("ranks", 64, algorithm="ring")
    text = explorer.sentence(target(plan(), view), view)
    assert "by ring" in text
    assert "The cheapest algorithm takes" in text
    odd = Exploration("ranks", 7, algorithm="kangaring")
    assert algorithm_of(target(plan(), odd), odd) != "kangaring"


def test_measured_points_are_of_the_same_ranks_and_hardware() -> None:
    chosen = target(plan(), Exploration("ranks", 64))
    points = measured_points(chosen, "all_reduce")
    assert points
    assert {point.row.values["ranks"] for point in points} == {64.0}
    assert {catalog.system(point.row.text("system")).chip.name for point in points} == {"trainium2"}
    assert all(mark.hollow for mark in measured_marks(points, "time"))
    assert len(measured_listing(chosen, "all_reduce", points).table.rows) == len(points)
    assert measured_points(target(plan(), Exploration("dp")), "all_reduce") == ()


def test_machines_agree_with_the_estimate_of_both() -> None:
    view = Exploration("dp", size=64 * MIB)
    chosen = target(plan(), view)
    found = explorer.compare(chosen, "all_reduce")
    constants, groups = profile("achievable").links, group_dims(chosen.dims, chosen.num_ranks)
    machines = (fabric(catalog.system("trn2-ultraserver"), 1, 2), fabric(catalog.system("trn2.48xlarge"), 4, 2))
    both = [collective_cost(one, "all_reduce", 64 * MIB, groups, constants=constants).time for one in machines]
    index = found.times[0].message_bytes.tolist().index(64 * MIB)
    for curve, time in zip(found.times, both, strict=True):
        assert np.min([times[index] for times in curve.times.values()]) == pytest.approx(float(time))
    text = explorer.ratio_sentence(chosen, view, found)
    assert f"{float(both[1] / both[0]):.2f} times as long as UltraServer" in text


def test_how_a_collective_ran_in_words() -> None:
    names = [legs_text((Leg(algorithm),)) for algorithm in Algorithm]
    assert names == ["ring", "kangaring", "mesh", "single-step mesh", "single-step all-reduce mesh", "rdh"]
    assert legs_text((Leg(Algorithm.RING, Layout.RANKS),)) == "ring in rank order"
    three = (Leg(Algorithm.KANGARING), Leg(Algorithm.SINGLE_STEP_MESH), Leg(Algorithm.RDH, Layout.DOMAINS))
    assert legs_text(three) == "kangaring + single-step mesh + rdh over the network"


def test_each_step_says_its_operation_level_and_number() -> None:
    apart = plan(system="trn2.48xlarge", count=2)
    reduced = replay.score(apart, Exploration("dp", op="all_reduce", size=4 * MIB, algorithm="hierarchical"))
    inner, outer = reduced.how.split(" + ")
    said = [step.label for step in reduced.steps]
    assert said[0] == f"reduce-scatter, {inner}, step 1"
    assert said[-1].startswith(f"all-gather, {inner}, step ")
    assert any(label.endswith(f", {outer}, step 1") for label in said)
    assert [step.label for step in replay.score(apart, Exploration("tp", op="permute")).steps] == ["permute"]


def test_the_same_comparison_stands_on_either_machine() -> None:
    apart = plan(system="trn2.48xlarge", count=4)
    texts = [explorer.machines_content(one, "light", Exploration("dp")).verdict for one in (plan(), apart)]
    assert texts[0] == texts[1]


def test_a_group_inside_an_instance_has_no_difference_and_no_charts() -> None:
    content = explorer.machines_content(plan(), "light", Exploration("tp"))
    assert content.verdict is not None
    assert "take the same time" in content.verdict.text
    assert content.rows == ()
    found = explorer.compare(target(plan(), Exploration("tp")), "all_reduce")
    for name, times in found.times[0].times.items():
        np.testing.assert_array_equal(times, found.times[1].times[name])


def test_parts_of_both_machines_sum_to_their_times() -> None:
    view = Exploration("dp")
    lines, parts = charts(explorer.machines_content(plan(), "light", view))
    here = lines.table.rows[lines.table.column("message [B]").index(view.size)]
    for name, time in zip(("UltraServer", "4 × trn2.48xlarge"), here[1:3], strict=True):
        assert sum(row[2] for row in parts.table.rows if row[0] == name) == pytest.approx(time)  # type: ignore[misc]


def test_only_trn2_has_an_ultraserver_to_compare_with() -> None:
    assert explorer.applies(plan(), Exploration())
    gpus = plan(system="p5.48xlarge", model="llama-3.1-8b")
    assert not explorer.applies(gpus, Exploration())


def test_played_steps_sum_to_the_time_and_change_the_picture() -> None:
    view = Exploration("ranks", 64)
    score = replay.score(plan(), view)
    assert score.played
    constants = profile("achievable").links
    total = sum(step.time for step in score.steps) + constants.collective_time
    assert total == pytest.approx(line_time(target(plan(), view), view.op, view.size, "auto"))
    first, last = (
        charts(replay.content(plan(), "light", Exploration("ranks", 64, step=step)))[0]
        for step in (2, len(score.steps) + 99)
    )
    assert first.words.subtitle.startswith("step 2 of 64")
    assert last.words.subtitle.startswith("step 64 of 64")
    carried = first.table.column("bytes in this step [B]")
    assert max(float(str(cell)) for cell in carried) == pytest.approx(float(score.steps[1].link_bytes.max()))


def test_what_would_take_long_comes_from_the_closed_form() -> None:
    score = replay.score(plan(), Exploration("ranks", 256, algorithm="ring"))
    assert not score.played
    assert len(score.steps) == 511
    assert {step.transfers for step in score.steps} == {None}


@pytest.mark.parametrize("system", ["p5.48xlarge", "trn2.3xlarge", "trn1.32xlarge"])
@pytest.mark.parametrize("op", ["all_reduce", "permute", "all_to_all"])
def test_other_machines_have_sections_too(system: str, op: str) -> None:
    view = Exploration("tp", op=op)
    one = plan(system=system, model="llama-3.1-8b")
    assert len(charts(explorer.content(one, "light", view))) == 2
    content = replay.content(one, "dark", view)
    assert content.verdict is not None
    assert content.verdict.text.startswith("Step 1 of")


def test_every_chart_has_words_and_a_twin() -> None:
    for content in (
        explorer.content(plan(), "light", Exploration("dp")),
        explorer.machines_content(plan(), "light", Exploration("dp")),
        replay.content(plan(), "light", Exploration("dp")),
    ):
        for chart in charts(content):
            assert chart.words.title
            assert "Llama 3.1 70B" in chart.words.subtitle
            assert len(chart.words.alt) > 40
            assert chart.table.rows


def test_measurements_outside_the_axis_are_listed_but_not_drawn() -> None:
    view = Exploration("ranks", 8)
    one = plan(system="trn2.48xlarge", lnc=1, tp=8)
    content = explorer.content(one, "light", view)
    chart = charts(content)[0]
    marks = [trace for trace in chart.figure["data"] if trace["name"].startswith("measured")]
    assert {trace["name"] for trace in marks} == {"measured, launch inside", "measured, eager dispatch inside"}
    assert min(min(trace["x"]) for trace in marks) >= 1024.0
    assert len({trace["marker"]["symbol"] for trace in marks}) == len(marks)
    listed = content.tables()["Measured"]
    assert "512 B" in listed.column("size")
    assert chart.table.column("message [B]")[0] == 1024.0
