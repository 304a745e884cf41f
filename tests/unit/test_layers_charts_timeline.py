"""Layers over time: empty layers are left out, the limit turns into an alarm when the peak crosses it."""

from __future__ import annotations

import pytest

from trn2model.ui.charts.bars import Limit
from trn2model.ui.charts.chart import Chart, Words
from trn2model.ui.charts.style import palette
from trn2model.ui.charts.timeline import Layer, Peak, layers
from trn2model.ui.tables import table

WORDS = Words("HBM", "one stage", "Memory.", "hbm")


def _chart(limit: float, time: float = 1.0) -> Chart:
    stack = [
        Layer("weights", [2.0, 2.0, 2.0], 0),
        Layer("logits", [0.0, 0.0, 0.0], 1),
        Layer("acts", [0.0, 3.0, 0.0], 3),
    ]
    peak, capacity = Peak(time, 5.0, "peak 5 GiB"), Limit(limit, "capacity of one core")
    twin, axes = table(("a",), ()), ("s", "GiB")
    return layers(WORDS, [0.0, 1.0, 2.0], stack, limit=capacity, peak=peak, axes=axes, table=twin, mode="light")


def test_layers_are_stacked_from_the_bottom() -> None:
    *areas, peak = _chart(6.0).figure["data"]
    assert [area["name"] for area in areas] == ["weights", "acts"]
    assert {area["stackgroup"] for area in areas} == {"one"}
    assert (peak["x"], peak["y"]) == ([1.0], [5.0])


@pytest.mark.parametrize(("limit", "alarm"), [(6.0, False), (4.0, True)])
def test_the_limit_is_always_in_view_and_alarms_when_crossed(limit: float, alarm: bool) -> None:
    layout = _chart(limit).figure["layout"]
    colours = palette("light")
    assert layout["yaxis"]["range"][1] > max(limit, 5.0)
    assert layout["shapes"][0]["line"]["color"] == (colours.alert if alarm else colours.text)


@pytest.mark.parametrize(
    ("limit", "time", "anchors"),
    [
        (20.0, 0.1, ("left", "bottom")),
        (5.2, 0.1, ("left", "top")),
        (20.0, 2.0, ("right", "bottom")),
        (5.2, 2.0, ("right", "top")),
    ],
)
def test_the_name_of_the_peak_keeps_off_the_limit_and_inside_the_chart(
    limit: float, time: float, anchors: tuple[str, str]
) -> None:
    """A peak just below the limit has no room above it, a late one none right of it."""
    capacity, peak = _chart(limit, time).figure["layout"]["annotations"]
    assert (peak["xanchor"], peak["yanchor"]) == anchors
    assert capacity["bgcolor"] == peak["bgcolor"] == palette("light").paper
