"""Topology page: links as they are wired, numbers that are the link loads, groups as they are placed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trn2model.model.training.step import TrainingEstimate
from trn2model.specs.scenario import Scenario
from trn2model.ui import estimates
from trn2model.ui.charts.chart import Chart
from trn2model.ui.charts.style import colour_at, palette, utilization_scale
from trn2model.ui.pages import topology
from trn2model.ui.pages.content import Content, Listing
from trn2model.ui.pages.topology import axis_groups

INSTANCE = Scenario(model="llama-3.1-8b", system="trn2.48xlarge", tp=8)
ULTRASERVER = Scenario(tp=16, pp=2)
MIXED = Scenario(model="mixtral-8x7b", system="trn2.48xlarge", count=2, tp=4, cp=2, ep=4, pp=2)


def page(scenario: Scenario, **changes: Any) -> Content:
    values: dict[str, Any] = {"axis": "all", "group": 0, "domain": 0, "basis": "utilisation", "planes_per_row": 4}
    return topology.content(estimates.training(scenario), "light", topology.View(**values | changes))


def picture(content: Content) -> Chart:
    (chart,) = content.rows[0]
    assert isinstance(chart, Chart)
    return chart


def listing(content: Content, title: str) -> Listing:
    (found,) = (block for block in content.rows[1] if isinstance(block, Listing) and block.title == title)
    return found


def drawn_lines(chart: Chart) -> list[tuple[float, str]]:
    """Length and colour of every line of the planes."""
    lines = []
    for trace in chart.figure["data"]:
        if trace.get("mode") == "lines":
            xs, ys = (np.array(trace[axis], dtype=float).reshape(-1, 3) for axis in ("x", "y"))
            lengths = np.abs(xs[:, 1] - xs[:, 0]) + np.abs(ys[:, 1] - ys[:, 0])
            lines += [(float(length), trace["line"]["color"]) for length in lengths]
    return lines


def fuller(estimate: TrainingEstimate, chip: int, axis: int) -> float:
    """Utilization of the busier direction of the link from a chip to its next neighbour along an axis."""
    fabric, used = estimate.network.fabric, estimate.link_load.utilization
    shape = np.array(fabric.shape)
    place = fabric.coordinates[chip].copy()
    place[axis] = (place[axis] + 1) % shape[axis]
    neighbour = int(np.flatnonzero((fabric.coordinates == place).all(axis=1))[0])
    ends = zip(fabric.link_source.tolist(), fabric.link_target.tolist(), used.tolist(), strict=True)
    return max(float(share) for source, target, share in ends if {source, target} == {chip, neighbour})


@pytest.mark.parametrize(("scenario", "planes", "links"), [(INSTANCE, 1, 32), (ULTRASERVER, 4, 192)])
def test_every_link_is_drawn_once_and_wraps_are_half_stubs(scenario: Scenario, planes: int, links: int) -> None:
    content = page(scenario)
    chart = picture(content)
    lengths = [length for length, _ in drawn_lines(chart)]
    whole, stubs = (sum(pick(length) for length in lengths) for pick in (lambda a: a == 1, lambda a: a < 0.5))
    cells = sum(len(row) for trace in chart.figure["data"] if trace["type"] == "heatmap" for row in trace["z"])
    assert (whole, stubs, len(lengths)) == (24 * planes, 16 * planes, 40 * planes)
    assert whole + stubs // 2 + cells == links
    assert len(chart.table.rows) == 2 * links
    assert {metric.label: metric.value for metric in content.metrics}["Links"] == f"{links}"


def test_numbers_in_the_heat_map_are_the_loads_of_the_z_links() -> None:
    estimate = estimates.training(ULTRASERVER)
    chart = picture(page(ULTRASERVER))
    (heat,) = (trace for trace in chart.figure["data"] if trace["type"] == "heatmap")
    texts = {
        (row, column): text
        for trace in chart.figure["data"]
        if trace.get("mode") == "text"
        for column, row, text in zip(trace["x"], trace["y"], trace["text"], strict=True)
    }
    assert len(texts) == 64
    for z, (row, shares) in enumerate(zip(heat["y"], heat["z"], strict=True)):
        assert row.startswith(f"{z}→{(z + 1) % 4}")
        for column, share in zip(heat["x"], shares, strict=True):
            x, y = map(int, column.split(","))
            used = fuller(estimate, x + 4 * y + 16 * z, 2)
            assert used > 0
            assert share == pytest.approx(used, rel=1e-12)
            assert float(texts[row, column]) == pytest.approx(100 * used, rel=0.051)


def test_lines_have_the_colour_of_their_load() -> None:
    """Colours are those of the fixed scale, to one of 24 steps; idle links are grey."""
    estimate = estimates.training(INSTANCE)
    scale, grey = utilization_scale("light"), palette("light").grid
    expected = []
    for chip in range(16):
        for axis in (0, 1):
            used = fuller(estimate, chip, axis)
            colour = colour_at(scale, round(used * 24) / 24) if used > 0 else grey
            wraps = estimate.network.fabric.coordinates[chip][axis] == 3
            expected += [colour] * (2 if wraps else 1)
    assert sorted(colour for _, colour in drawn_lines(picture(page(INSTANCE)))) == sorted(expected)


@pytest.mark.parametrize("scenario", [INSTANCE, ULTRASERVER, Scenario(model="llama-3.1-8b", system="p5.48xlarge")])
def test_the_scale_runs_from_0_to_100_percent_whatever_the_load(scenario: Scenario) -> None:
    for basis, title in (("utilisation", "busy share of the step"), ("bytes", "bytes against the fullest link")):
        figure = picture(page(scenario, basis=basis)).figure
        bars = [trace["marker"] for trace in figure["data"] if "colorbar" in trace.get("marker", {})]
        assert [(bar["cmin"], bar["cmax"], bar["colorbar"]["title"]["text"]) for bar in bars] == [(0, 1, title)]
        assert bars[0]["colorbar"]["tickvals"][0::4] == [0, 1]
        heats = [trace for trace in figure["data"] if trace["type"] == "heatmap"]
        assert all((heat["zmin"], heat["zmax"]) == (0, 1) for heat in heats)
        axes = [axis for name, axis in figure["layout"].items() if name.startswith(("xaxis", "yaxis"))]
        assert all(axis["fixedrange"] for axis in axes)
        assert "Link load of all axes" in figure["layout"]["title"]["text"]


@pytest.mark.parametrize("scenario", [INSTANCE, ULTRASERVER, MIXED])
def test_the_table_holds_the_loads_of_every_directed_link(scenario: Scenario) -> None:
    estimate = estimates.training(scenario)
    table = picture(page(scenario)).table
    assert table.column("bytes per step [B]") == pytest.approx(tuple(estimate.link_load.total))
    assert table.column("utilisation") == pytest.approx(tuple(estimate.link_load.utilization))
    assert set(table.column("rate [B/s]")) <= {128e9, 64e9}
    alone = picture(page(scenario, axis="tp")).table.column("bytes per step [B]")
    assert alone == pytest.approx(tuple(estimate.link_load.by_axis["tp"]))
    hottest = listing(page(scenario), "Hottest links").table.rows[0]
    top = int(np.argmax(estimate.link_load.total))
    assert hottest[:2] == tuple(f"chip {end[top]}" for end in _ends(estimate))


def _ends(estimate: TrainingEstimate) -> tuple[Any, Any]:
    return estimate.network.fabric.link_source, estimate.network.fabric.link_target


@pytest.mark.parametrize("axis", ["tp", "cp", "ep", "dp", "pp"])
def test_listed_groups_are_where_the_placement_puts_them(axis: str) -> None:
    """Ranks counted in mixed radix, tp innermost: members of a group differ in the digit of their axis alone."""
    order = Scenario().placement.split(",")
    plan = estimates.training(MIXED).resolved.plan
    degrees = [int(getattr(plan, name)) for name in order]
    digits = np.array(np.unravel_index(np.arange(128), degrees[::-1])).T[:, ::-1]
    place = order.index(axis)
    for group, ranks, chips, _ in listing(page(MIXED, axis=axis), f"Groups of {axis}").table.rows:
        members = numbers(str(ranks))
        others = np.delete(digits[members], place, axis=1)
        assert (others == others[0]).all()
        assert digits[members, place].tolist() == list(range(degrees[place]))
        assert numbers(str(chips)) == sorted({rank // 4 for rank in members})
        assert axis_groups(estimates.training(MIXED), axis).members[int(group or 0)].tolist() == members


def numbers(text: str) -> list[int]:
    """Numbers of a list of ranges, as the page prints them."""
    found: list[int] = []
    for piece in text.split(", "):
        ends, _, step = piece.partition(" step ")
        first, _, last = ends.partition("–")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found


def test_ports_of_a_switch_show_their_load_and_the_chosen_group_stands_out() -> None:
    scenario = Scenario(model="llama-3.1-8b", system="p5.48xlarge", tp=4)
    estimate = estimates.training(scenario)
    figure = picture(page(scenario, axis="tp", group=1)).figure
    used = estimate.link_load.by_axis["tp"] / (estimate.network.fabric.link_bandwidth * float(estimate.step_time))
    spots = next(trace for trace in figure["data"] if "colorbar" in trace.get("marker", {}))
    assert spots["marker"]["color"] == pytest.approx(np.maximum(used[:8], used[8:]).tolist())
    chips = figure["data"][-1]
    assert chips["text"] == [str(chip) for chip in range(8)]
    assert chips["marker"]["line"]["width"] == [1] * 4 + [3] * 4
    assert len(set(chips["marker"]["color"][:4])) == len(set(chips["marker"]["color"][4:])) == 1
    assert chips["marker"]["color"][0] != chips["marker"]["color"][4]


def test_one_chip_shows_its_cores_and_no_links() -> None:
    content = page(Scenario(model="llama-3.2-1b", system="trn2.3xlarge", tp=2), axis="tp")
    chart = picture(content)
    assert content.metrics == ()
    assert chart.table.column("group") == (0, 0, 1, 1)
    assert chart.words.title == "The logical cores of one chip"
    assert [trace["type"] for trace in chart.figure["data"]] == ["scatter"]
