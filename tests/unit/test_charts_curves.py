"""Curves: fixed axes, hollow points, labels that do not cover each other, and a region cut at the axes."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import pytest

from trn2model.ui.charts.chart import Words
from trn2model.ui.charts.curves import Axes, Curve, Mark, Region, curves
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
    crowded = figure(line([1, 1.01, 1.02, 50], [1, 1.01, 1.02, 50]))["data"][0]
    assert crowded["text"] == ["label 0", "", "", "label 3"]
    assert len(crowded["customdata"]) == 4


@pytest.mark.parametrize(("limit", "from_x"), [(2.0, 2.0), (1e9, 30 * 1.08), (0.0, 0.0)])
def test_the_region_ends_at_the_axes(limit: float, from_x: float) -> None:
    shape = figure(line([1, 30], [1, 5]), region=Region("limit", x_from=limit))["layout"]["shapes"][0]
    assert shape["x0"] == pytest.approx(from_x)
    assert shape["x1"] == pytest.approx(30 * 1.08)


def test_a_region_below_on_a_log_axis_and_one_of_words_alone() -> None:
    below = figure(line([1, 10], [1, 100]), region=Region("low", y_to=10.0), axes=Axes("x", "y", "log", "log"))
    assert below["layout"]["shapes"][0]["y1"] == pytest.approx(10.0)
    words = figure(line([1, 10], [1, 100]), region=Region("late"))
    assert "shapes" not in words["layout"]
    assert words["layout"]["annotations"][0]["text"] == "late"


def test_short_log_axes_name_the_values_between_powers() -> None:
    axis = figure(line([20, 90], [1, 2]), axes=Axes("x", "y", "log", "linear"))["layout"]["xaxis"]
    assert {"20", "50", "100"} <= set(axis["ticktext"])
