"""Curves: fixed axes, hollow points, labels that do not cover each other, and a region cut at the axes."""

from __future__ import annotations

import math
from typing import Any

import plotly.graph_objects as go
import pytest

from trn2model.ui.charts.chart import Words
from trn2model.ui.charts.curves import Axes, Band, Crossing, Curve, Mark, Marks, Region, line_chart
from trn2model.ui.charts.style import Mode
from trn2model.ui.tables import table

WORDS = Words("Title", "subtitle", "alt", "file")
TABLE = table(("x", "y"), [(1.0, 1.0)])


def line(x: list[float], y: list[float], solid: list[bool] | None = None) -> Curve:
    labels = [f"label {n}" for n in range(len(x))]
    return Curve("curve", x, y, 0, labels, labels, solid or [True] * len(x))


def star(x: float, y: float) -> Marks:
    return Marks("here", (Mark(x, y, "here"),), "star", colour=1)


def figure(*lines: Curve, region: Region | None = None, axes: Axes | None = None, marks: tuple[Marks, ...] = ()) -> Any:
    axes = axes or Axes("x [1]", "y [1]")
    chart = line_chart(WORDS, lines, axes, table=TABLE, mode="light", marks=marks, region=region)
    go.Figure(chart.figure)
    return chart.figure


def test_axes_are_fixed_and_hold_every_point() -> None:
    drawn = figure(line([1, 2, 30], [5, 1, 2]), marks=(star(40, 9),))
    assert drawn["layout"]["xaxis"]["range"][1] > 40
    assert drawn["layout"]["yaxis"]["range"][1] > 9
    assert drawn["data"][-1]["name"] == "here"
    low, high = figure(line([10, 1000], [1, 2]), axes=Axes("x", "y", "log", "log"))["layout"]["xaxis"]["range"]
    assert low < 1 < 3 < high


def test_what_does_not_fit_is_hollow_and_dotted() -> None:
    drawn = figure(line([1, 2, 3], [1, 2, 3], [True, True, False]))
    kept, whole = drawn["data"]
    assert kept["x"] == [1, 2]
    assert whole["line"]["dash"] == "dot"
    assert whole["marker"]["color"][2] != whole["marker"]["color"][1]
    assert len(figure(line([1, 2], [1, 2]))["data"]) == 1


def test_labels_that_would_cover_others_are_left_out() -> None:
    crowded = figure(line([20, 20.1, 20.2, 50], [20, 20.1, 20.2, 50]))["data"][0]
    assert crowded["text"] == ["label 0", "label 1", "", "label 3"]
    assert crowded["textposition"][:2] == ["top left", "bottom right"]
    assert len(crowded["customdata"]) == 4


def test_labels_stand_clear_of_their_line() -> None:
    """Above a falling line is right of a point, above a rising one left of it; the first has no room on the left."""
    falling = figure(line([10, 20, 30], [30, 20, 10]))["data"][0]
    assert falling["textposition"] == ["top right", "top right", "bottom left"]
    logs = Axes("x", "y", "log", "log")
    rising = figure(line([1, 10, 100], [1, 10, 100]), axes=logs)["data"][0]
    assert rising["textposition"] == ["bottom right", "top left", "top left"]


def test_a_label_gives_way_to_a_mark_and_to_the_limit() -> None:
    plain = [20.0, 30.0, 40.0], [40.0, 30.0, 20.0]
    marked = figure(line(*plain), marks=(star(30, 30),))["data"][0]
    assert marked["text"] == ["label 0", "", "label 2"]
    limited = figure(line(*plain), region=Region("limit", y_to=31.5))["data"][0]
    assert limited["textposition"][1] == "bottom left"


def test_the_region_begins_at_the_limit() -> None:
    area, edge = figure(line([1, 30], [1, 5]), region=Region("limit", x_from=2.0))["layout"]["shapes"]
    assert (area["x0"], area["x1"]) == (2.0, pytest.approx(30 * 1.08))
    assert edge["x0"] == edge["x1"] == 2.0


@pytest.mark.parametrize(
    ("region", "shaded", "words"),
    [
        (Region("fast", x_from=1e9, limit="limit"), False, "limit: right of this chart"),
        (Region("fast", x_from=1e-9, limit="limit"), True, "limit: left of this chart"),
        (Region("low", y_to=1e9, limit="limit"), True, "limit: above this chart"),
        (Region("low", y_to=1e-9), False, "low: below this chart"),
    ],
)
def test_a_limit_off_the_axes_has_no_line(region: Region, shaded: bool, words: str) -> None:
    layout = figure(line([1, 30], [1, 50]), region=region, axes=Axes("x", "y", "log", "log"))["layout"]
    assert [shape["type"] for shape in layout["shapes"]] == ["rect"] * shaded
    assert layout["annotations"][0]["text"] == words
    if shaded:
        (shape,) = layout["shapes"]
        axis = "y" if region.x_from is None else "x"
        ends = [10**end for end in layout[f"{axis}axis"]["range"]]
        assert [shape[f"{axis}0"], shape[f"{axis}1"]] == pytest.approx(ends)
        assert shape["yref" if axis == "x" else "xref"] == "paper"


def test_the_words_of_a_region_leave_the_points_free() -> None:
    logs = Axes("x", "y", "log", "log")
    rising = figure(line([1, 10, 100], [1, 10, 100]), region=Region("low", y_to=1e9), axes=logs)
    falling = figure(line([1, 10, 100], [100, 10, 1]), region=Region("low", y_to=1e9), axes=logs)
    places = [(drawn["layout"]["annotations"][0]["xanchor"]) for drawn in (rising, falling)]
    assert places == ["right", "left"]


def test_the_words_of_a_narrow_region_are_broken_rather_than_struck_through() -> None:
    drawn = figure(line([1, 100], [5, 1]), region=Region("30.0 ms per token or less", x_from=80.0))
    (note,) = drawn["layout"]["annotations"]
    assert note["text"].split("<br>") == ["30.0 ms", "per token", "or less"]
    assert (note["x"], note["xanchor"]) == (pytest.approx(1.0, abs=0.01), "right")


def test_no_label_is_struck_through_by_another_line() -> None:
    falling = line([10, 20, 30], [30, 20, 10])
    other = Curve("other", [10, 30], [21.5, 21.5], 1)
    assert figure(falling)["data"][0]["textposition"][1] == "top right"
    assert figure(falling, other)["data"][0]["textposition"][1] == "bottom left"


def test_a_region_below_on_a_log_axis_and_one_of_words_alone() -> None:
    below = figure(line([1, 10], [1, 100]), region=Region("low", y_to=10.0), axes=Axes("x", "y", "log", "log"))
    assert below["layout"]["shapes"][0]["y1"] == pytest.approx(10.0)
    words = figure(line([1, 10], [1, 100]), region=Region("late"))
    assert words["layout"]["shapes"] == []
    assert words["layout"]["annotations"][0]["text"] == "late"


def test_short_log_axes_name_the_values_between_powers() -> None:
    axis = figure(line([20, 90], [1, 2]), axes=Axes("x", "y", "log", "linear"))["layout"]["xaxis"]
    assert {"20", "50", "100"} <= set(axis["ticktext"])


@pytest.mark.parametrize("ends", [(2.9, 7.1), (1.0, 1.01), (14, 16), (0.0021, 0.02), (3, 120), (52_000, 61_000)])
def test_a_log_axis_has_two_labelled_ticks_at_least(ends: tuple[float, float]) -> None:
    axis = figure(line([1, 2], list(ends)), axes=Axes("x", "y", "linear", "log"))["layout"]["yaxis"]
    low, high = (10**end for end in axis["range"])
    ticks = axis["tickvals"]
    assert 2 <= len(ticks) <= 8
    assert all(low <= tick <= high for tick in ticks)
    assert len(set(axis["ticktext"])) == len(ticks)
    assert [float(text.replace(",", "")) for text in axis["ticktext"]] == pytest.approx(ticks)


SIZES = tuple(2.0**power for power in range(10, 35))


def sizes(mode: Mode = "light", unit: str = "s", **more: Any) -> Any:
    lines = (
        Curve("a", SIZES, tuple(1e-5 + size / 1e11 for size in SIZES), 0),
        Curve("b", SIZES, tuple(1e-4 + size / 2e11 for size in SIZES), 1, dash="dash", symbol="square"),
    )
    axes = Axes("message size", "time", "log", "log", "B", unit)
    return line_chart(WORDS, more.pop("lines", lines), axes, table=TABLE, mode=mode, **more).figure


def test_axes_are_logarithmic_and_fixed_from_a_kibibyte_to_sixteen_gibibytes() -> None:
    layout = sizes()["layout"]
    assert layout["xaxis"]["type"] == layout["yaxis"]["type"] == "log"
    assert layout["xaxis"]["range"] == [math.log10(2.0**10), math.log10(2.0**34)]
    assert layout["xaxis"]["ticktext"] == ["1 KiB", "64 KiB", "4 MiB", "256 MiB", "16 GiB"]
    assert layout["yaxis"]["ticktext"] == ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]


def test_lines_differ_without_colour() -> None:
    data = sizes("dark")["data"]
    assert len({trace["line"]["dash"] for trace in data}) == len({trace["marker"]["symbol"] for trace in data}) == 2


def test_measured_marks_are_hollow_and_estimates_are_filled() -> None:
    marks = (
        Marks("measured", (Mark(1e6, 1e-3, "m"),), "diamond", hollow=True),
        Marks("chosen", (Mark(1e6, 2e-3, "e"),), "circle"),
        Marks("nothing", (), "x", hollow=True),
    )
    data = sizes(marks=marks)["data"]
    symbols = {trace["name"]: trace["marker"]["symbol"] for trace in data}
    assert symbols["measured"] == "diamond-open"
    assert symbols["chosen"] == "circle"
    assert "nothing" not in symbols


def test_bands_end_at_the_axis_and_crossovers_are_named() -> None:
    figure = sizes(
        least=tuple(1e-5 for _ in SIZES),
        bands=(Band(0.0, 1e6, "low"), Band(1e6, math.inf, "high")),
        crossings=(Crossing(2e6, "2 MB"),),
    )
    bands = [(shape["x0"], shape["x1"]) for shape in figure["layout"]["shapes"] if shape["type"] == "rect"]
    assert [end for ends in bands for end in ends] == pytest.approx([1024.0, 1e6, 1e6, 2.0**34])
    notes = {note["text"]: note["x"] for note in figure["layout"]["annotations"]}
    assert notes["2 MB"] == math.log10(2e6)
    assert figure["data"][0]["name"] == "cheapest"


def test_a_narrow_range_still_has_ticks() -> None:
    axis = sizes(unit="B/s", lines=[Curve("a", SIZES, [3e9] * len(SIZES), 0)])["layout"]["yaxis"]
    assert axis["ticktext"] == ["2.5 GB/s", "3 GB/s", "3.5 GB/s"]


def test_names_of_crossovers_close_to_each_other_stand_on_both_sides() -> None:
    notes = sizes(crossings=(Crossing(1e6, "a"), Crossing(1.2e6, "b"), Crossing(1e8, "c")))["layout"]["annotations"]
    assert [note["xanchor"] for note in notes] == ["right", "left", "right"]


@pytest.mark.parametrize(("ends", "place"), [((1.0, 100.0), "bottom"), ((100.0, 1.0), "top")])
def test_the_name_of_a_crossover_stands_where_no_line_runs(ends: tuple[float, float], place: str) -> None:
    """A line that is up at the crossing leaves the bottom free, one that is down the top."""
    values = [ends[0] if size < 1e5 else ends[1] for size in SIZES]
    (note,) = sizes(lines=[Curve("a", SIZES, values, 0)], crossings=[Crossing(1e6, "1 MB")])["layout"]["annotations"]
    assert note["yanchor"] == place
