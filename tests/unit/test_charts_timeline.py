"""Schedules as bars: rows from the top, texts where they fit, shades per chunk."""

from __future__ import annotations

from trn2model.ui.charts.chart import Words
from trn2model.ui.charts.timeline import Tasks, gantt
from trn2model.ui.tables import table

WORDS = Words("Schedule", "two stages", "Two tasks.", "schedule")
TABLE = table(("a",), ())


def test_bars_stand_where_and_as_long_as_they_should() -> None:
    tasks = Tasks("forward", [0, 1], [0.0, 1.0], [1.0, 9.0], ["1", "2"], ["a", "b"], 0, [1.0, 0.6])
    none = Tasks("backward", [], [], [], [], [], 1, [])
    chart = gantt(
        WORDS, ("stage 1", "stage 2"), (tasks, none), axis_title="time [s]", extent=100.0, table=TABLE, mode="light"
    )
    (trace,) = chart.figure["data"]
    assert (trace["y"], trace["base"], trace["x"]) == ([0, 1], [0.0, 1.0], [1.0, 9.0])
    assert trace["text"] == ["", "2"]  # 1 % of the axis holds no number
    assert trace["marker"]["opacity"] == [1.0, 0.6]
    axis = chart.figure["layout"]["yaxis"]
    assert axis["range"][0] > axis["range"][1]  # the first row is on top
    assert axis["ticktext"] == ["stage 1", "stage 2"]


def test_many_rows_are_lower() -> None:
    heights = []
    for rows in (12, 64):
        names = [f"stage {row}" for row in range(rows)]
        chart = gantt(WORDS, names, (), axis_title="time [s]", extent=1.0, table=TABLE, mode="dark")
        heights.append(chart.figure["layout"]["height"] / rows)
    assert heights[1] < heights[0]
