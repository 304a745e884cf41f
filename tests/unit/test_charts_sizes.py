"""Lines over the message size."""

from __future__ import annotations

import math

from trn2model.ui.charts.chart import Words
from trn2model.ui.charts.sizes import Band, Crossing, Mark, Marks, SizeLine, SizePlot, size_lines, size_name
from trn2model.ui.tables import table

SIZES = tuple(2.0**power for power in range(10, 35))
WORDS = Words("Title", "subtitle", "alt", "file")
EMPTY = table(["a"], [])


def plot(**more: object) -> SizePlot:
    lines = (
        SizeLine("a", tuple(1e-5 + size / 1e11 for size in SIZES), 0, "solid", "circle"),
        SizeLine("b", tuple(1e-4 + size / 2e11 for size in SIZES), 1, "dash", "square"),
    )
    return SizePlot(SIZES, lines, **more)  # type: ignore[arg-type]


def test_axes_are_logarithmic_and_fixed_from_a_kibibyte_to_sixteen_gibibytes() -> None:
    layout = size_lines(WORDS, plot(), ("time", "s"), "top", EMPTY, "light").figure["layout"]
    assert layout["xaxis"]["type"] == layout["yaxis"]["type"] == "log"
    assert layout["xaxis"]["range"] == [math.log10(2.0**10), math.log10(2.0**34)]
    assert layout["xaxis"]["ticktext"] == ["1 KiB", "64 KiB", "4 MiB", "256 MiB", "16 GiB"]
    assert layout["yaxis"]["ticktext"] == ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]


def test_lines_differ_without_colour() -> None:
    data = size_lines(WORDS, plot(), ("time", "s"), "top", EMPTY, "dark").figure["data"]
    assert len({trace["line"]["dash"] for trace in data}) == len({trace["marker"]["symbol"] for trace in data}) == 2


def test_measured_marks_are_hollow_and_estimates_are_filled() -> None:
    marks = (
        Marks("measured", (Mark(1e6, 1e-3, "m"),), "diamond", True),
        Marks("chosen", (Mark(1e6, 2e-3, "e"),), "circle", False),
        Marks("nothing", (), "x", True),
    )
    data = size_lines(WORDS, plot(marks=marks), ("time", "s"), "top", EMPTY, "light").figure["data"]
    symbols = {trace["name"]: trace["marker"]["symbol"] for trace in data}
    assert symbols["measured"] == "diamond-open"
    assert symbols["chosen"] == "circle"
    assert "nothing" not in symbols


def test_bands_end_at_the_axis_and_crossovers_are_named() -> None:
    found = plot(
        least=tuple(1e-5 for _ in SIZES),
        bands=(Band(0.0, 1e6, "low"), Band(1e6, math.inf, "high")),
        crossings=(Crossing(2e6, "2 MB"),),
    )
    figure = size_lines(WORDS, found, ("time", "s"), "bottom", EMPTY, "light").figure
    bands = [(shape["x0"], shape["x1"]) for shape in figure["layout"]["shapes"] if shape["type"] == "rect"]
    assert bands == [(1024.0, 1e6), (1e6, 2.0**34)]
    notes = {note["text"]: note["x"] for note in figure["layout"]["annotations"]}
    assert notes["2 MB"] == math.log10(2e6)
    assert figure["data"][0]["name"] == "cheapest"


def test_a_narrow_range_still_has_ticks() -> None:
    flat = SizePlot(SIZES, (SizeLine("a", tuple(3e9 for _ in SIZES), 0, "solid", "circle"),))
    axis = size_lines(WORDS, flat, ("bus bandwidth", "B/s"), "top", EMPTY, "light").figure["layout"]["yaxis"]
    inside = [tick for tick in axis["tickvals"] if axis["range"][0] <= math.log10(tick) <= axis["range"][1]]
    assert inside == [2e9]


def test_sizes_are_named_with_three_digits() -> None:
    assert [size_name(size) for size in (1024.0, 1.5 * 2**20, 2.0**34, 331.4 * 1024)] == [
        "1 KiB", "1.5 MiB", "16 GiB", "331 KiB",
    ]  # fmt: skip


def test_names_of_crossovers_close_to_each_other_stand_on_both_sides() -> None:
    found = plot(crossings=(Crossing(1e6, "a"), Crossing(1.2e6, "b"), Crossing(1e8, "c")))
    notes = size_lines(WORDS, found, ("time", "s"), "top", EMPTY, "light").figure["layout"]["annotations"]
    assert [note["xanchor"] for note in notes] == ["right", "left", "right"]
