"""Layers over time: empty layers are left out, the limit turns into an alarm when the peak crosses it."""

from __future__ import annotations

import pytest

from trn2model.ui.charts.bars import Limit
from trn2model.ui.charts.chart import Chart, Words
from trn2model.ui.charts.style import palette
from trn2model.ui.charts.timeline import Layer, Peak, layers
from trn2model.ui.tables import table

WORDS = Words("HBM", "one stage", "Memory.", "hbm")


def _chart(limit: float) -> Chart:
    stack = [
        Layer("weights", [2.0, 2.0, 2.0], 0),
        Layer("logits", [0.0, 0.0, 0.0], 1),
        Layer("acts", [0.0, 3.0, 0.0], 3),
    ]
    peak = Peak(1.0, 5.0, "peak 5 GiB")
    return layers(
        WORDS, [0.0, 1.0, 2.0], stack, Limit(limit, "capacity"), peak, ("s", "GiB"), table(("a",), ()), "light"
    )


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
