"""Bars of parts."""

from __future__ import annotations

from trn2model.ui.charts.bars import PartRow, part_rows
from trn2model.ui.charts.chart import Words
from trn2model.ui.tables import table


def test_parts_stack_in_order_are_patterned_and_zero_parts_are_left_out() -> None:
    rows = (
        PartRow("one", (1.0, 0.0, 2.0), ("1", "0", "2"), "3 ms"),
        PartRow("two", (4.0, 0.0, 0.0), ("4",) * 3, "4 ms"),
    )
    names = (("a", 0), ("b", 1), ("c", 2))
    words = Words("Title", "subtitle", "alt", "file")
    figure = part_rows(words, names, rows, "time [ms]", table=table(["a"], []), mode="light").figure
    assert [trace["name"] for trace in figure["data"]] == ["a", "c"]
    assert [trace["x"] for trace in figure["data"]] == [[1.0, 4.0], [2.0, 0.0]]
    assert len({trace["marker"]["pattern"]["shape"] for trace in figure["data"]}) == 2
    labels = [(note["y"], note["x"]) for note in figure["layout"]["annotations"]]
    assert labels == [("one", 3.0), ("two", 4.0)]
    assert figure["layout"]["xaxis"]["range"][1] > 4.0
