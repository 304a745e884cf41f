"""Curves: fixed axes, hollow points, labels that do not cover each other, and a region cut at the axes."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import pytest

from trn2model.ui.charts.chart import Words
from trn2model.ui.charts.curves import Axes, Curve, Mark, Region, curves
from trn2model.ui.charts.labels import along, label_places
from trn2model.ui.tables import table

WORDS = Words("Title", "subtitle", "alt", "file")
TABLE = table(("x", "y"), [(1.0, 1.0)])


def line(x: list[float], y: list[float], solid: list[bool] | None = None) -> Curve:
    labels = [f"label {n}" for n in range(len(x))]
    return Curve("curve", x, y, labels, labels, solid or [True] * len(x), 0)


def figure(*lines: Curve, region: Region | None = None, axes: Axes | None = None, marks: tuple[Mark, ...] = ()) -> Any:
    chart = curves(WORDS, lines, marks, region, axes or Axes("x [1]", "y [1]"), TABLE, "light")
    go.Figure(chart.figure)
    return chart.figure


def test_axes_are_fixed_and_hold_every_point() -> None:
    drawn = figure(line([1, 2, 30], [5, 1, 2]), marks=(Mark("here", 40, 9, "star", 1),))
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
    marked = figure(line(*plain), marks=(Mark("here", 30, 30, "star", 1),))["data"][0]
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
        for axis in "xy":
            ends = [10**end for end in layout[f"{axis}axis"]["range"]]
            assert [layout["shapes"][0][f"{axis}{end}"] for end in (0, 1)] == pytest.approx(ends)


def test_the_words_of_a_region_leave_the_points_free() -> None:
    logs = Axes("x", "y", "log", "log")
    rising = figure(line([1, 10, 100], [1, 10, 100]), region=Region("low", y_to=1e9), axes=logs)
    falling = figure(line([1, 10, 100], [100, 10, 1]), region=Region("low", y_to=1e9), axes=logs)
    places = [(drawn["layout"]["annotations"][0]["xanchor"]) for drawn in (rising, falling)]
    assert places == ["right", "left"]


def test_the_words_of_a_narrow_region_are_broken_rather_than_struck_through() -> None:
    drawn = figure(line([1, 100], [5, 1]), region=Region("30.0 ms per token or less", x_from=80.0))
    (note,) = drawn["layout"]["annotations"]
    assert note["text"].split("<br>") == ["30.0 ms per", "token or", "less"]
    assert (note["x"], note["xanchor"]) == (pytest.approx(1.0, abs=0.01), "right")


def test_no_label_is_struck_through_by_its_line() -> None:
    """Left of the corner is taken, below it the plot ends; above it the line rises, steeply or not."""
    taken = [(0.1, 0.06, 0.2, 0.2)]
    labels = ["", "a word", ""]
    for end, label in ((0.25, ""), (0.06, "a word")):
        points = [(0.1, 0.05), (0.3, 0.05), (0.5, end)]
        assert label_places(points, labels, along(points), taken) == (("", label, ""), ("top center",) * 3)


def test_no_label_is_struck_through_by_another_line() -> None:
    falling = line([10, 20, 30], [30, 20, 10])
    other = Curve("other", [10, 30], [21.5, 21.5], ["", ""], ["", ""], [True, True], 1)
    assert figure(falling)["data"][0]["textposition"][1] == "top right"
    assert figure(falling, other)["data"][0]["textposition"][1] == "bottom left"


def test_a_region_below_on_a_log_axis_and_one_of_words_alone() -> None:
    below = figure(line([1, 10], [1, 100]), region=Region("low", y_to=10.0), axes=Axes("x", "y", "log", "log"))
    assert below["layout"]["shapes"][0]["y1"] == pytest.approx(10.0)
    words = figure(line([1, 10], [1, 100]), region=Region("late"))
    assert "shapes" not in words["layout"]
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
