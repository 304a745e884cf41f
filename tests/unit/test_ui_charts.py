"""Charts: what is drawn is what the data says, in colours that can be read and told apart."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio
import pytest

from trn2model.ui.charts.bars import Limit, Part, Row, overlap_bars, row_bars, stacked_bar
from trn2model.ui.charts.chart import Chart, Words, compose, file_stem, frame, wrap
from trn2model.ui.charts.fabric import ChipMark, LinkMark, PortMark, Torus, switch_ports, torus_planes
from trn2model.ui.charts.heat import Grid, heat_table
from trn2model.ui.charts.roofline import Ceiling, Point, roofline
from trn2model.ui.charts.style import (
    PALETTES,
    Mode,
    colour_at,
    ink_on,
    palette,
    ready,
    share_scale,
    template_name,
    utilization_scale,
)
from trn2model.ui.tables import table

ROOT = Path(__file__).resolve().parents[2]
WORDS = Words("Title", "Llama 3.1 70B · tp 8", "What is seen", "file")
TWIN = table(("a",), [(1,)])
MODES: tuple[Mode, ...] = ("light", "dark")
PARTS = (Part("weights", 4.0, "4 GiB", 0), Part("nothing", 0.0, "0", 1), Part("activations", 14.0, "14 GiB", 2))


def contrast(a: str, b: str) -> float:
    """Contrast ratio of two colours, as WCAG defines it."""

    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def torus(shape: tuple[int, int, int], planes_per_row: int = 4) -> Torus:
    places = [(x, y, z) for x in range(shape[0]) for y in range(shape[1]) for z in range(shape[2])]
    links = [
        LinkMark(axis, place, 0.5 if axis else None, "50", "note")
        for place in places
        for axis in range(3)
        if shape[axis] > 1
    ]
    chips = [ChipMark(str(i), place, i % 3, i == 0, "note") for i, place in enumerate(places)]
    return Torus(shape, tuple(chips), tuple(links), ("",) * shape[2], planes_per_row, "%")


def leaves(settings: dict[str, Any], *path: str) -> dict[tuple[str, ...], str]:
    """Every setting under its path, written as text."""
    found: dict[tuple[str, ...], str] = {}
    for name, value in settings.items():
        found |= leaves(value, *path, name) if isinstance(value, dict) else {(*path, name): repr(value)}
    return found


def triples(values: list[float | None]) -> list[tuple[float, float, None]]:
    """Start, end and gap of each line of a trace."""
    return list(zip(*[iter(values)] * 3, strict=True))


def examples(mode: Mode) -> list[Chart]:
    rows = [Row("forward", 0.0, 2.0, "2 s", 0), Row("backward", 2.0, 4.0, "4 s", 1)]
    grid = Grid(("QKV", "norm"), ("Tensor", "HBM"), ((1.0, 0.2), (None, 0.6)), (("100 %", "20 %"), ("–", "60 %")))
    ceilings = [Ceiling("ideal", 2.9, 667.0, "solid", None), Ceiling("achievable", 2.5, 629.0, "dash", 5)]
    points = [Point("qkv", "GEMM", 400.0, 600.0, 0.7, "n"), Point("norm", "other", 0.5, 1.0, 0.1, "n")]
    ports = [PortMark(str(i), i % 2, i == 1, i / 8 if i else None, "n") for i in range(8)]
    return [
        stacked_bar(WORDS, PARTS, "GiB", Limit(24, "24 GiB"), table=TWIN, mode=mode),
        stacked_bar(WORDS, PARTS, "GiB", table=TWIN, mode=mode),
        row_bars(WORDS, rows, "s", Limit(5, "5 s"), table=TWIN, mode=mode),
        overlap_bars(WORDS, [Row("tp", 1.0, 2.0, "2 s", 5)], ("exposed", "on the links"), "s", table=TWIN, mode=mode),
        heat_table(WORDS, grid, share_scale(mode), "share", table=TWIN, mode=mode),
        roofline(WORDS, ceilings, points, ("FLOP/B", "TFLOP/s"), table=TWIN, mode=mode),
        torus_planes(WORDS, torus((4, 4, 4)), "busy", table=TWIN, mode=mode),
        torus_planes(WORDS, torus((4, 4, 1)), "busy", table=TWIN, mode=mode),
        torus_planes(WORDS, torus((12, 1, 1)), "busy", table=TWIN, mode=mode),
        torus_planes(WORDS, torus((4, 4, 4), 2), "busy", table=TWIN, mode=mode),
        switch_ports(WORDS, ports, "NVSwitch", "busy", table=TWIN, mode=mode),
        switch_ports(WORDS, ports[:4], "", "busy", table=TWIN, mode=mode),
        switch_ports(WORDS, ports * 18, "NeuronSwitch", "busy", table=TWIN, mode=mode),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_every_chart_obeys_plotly_and_says_what_it_is(mode: Mode) -> None:
    for chart in examples(mode):
        figure = go.Figure(chart.figure)
        assert "Title" in figure.layout.title.text
        assert figure.layout.title.subtitle.text == WORDS.subtitle
        assert figure.layout.template.layout.paper_bgcolor == palette(mode).paper
        assert figure.layout.height > 100
        assert ready(chart.figure).to_dict()["data"] == figure.to_dict()["data"]


@pytest.mark.parametrize("mode", MODES)
def test_the_screen_gets_the_settings_of_the_template_written_out(mode: Mode) -> None:
    """A template, or an array without a revision, would have every chart drawn twice."""
    dress = pio.templates[template_name(mode)].layout.to_plotly_json()
    for chart in examples(mode):
        layout = ready(chart.figure).to_plotly_json()["layout"]
        assert "template" not in layout
        assert layout["datarevision"] == 0
        own = {name: value for name, value in chart.figure["layout"].items() if name != "template"}
        assert leaves(own).items() <= leaves(layout).items()
        for path, value in leaves(dress).items():
            assert layout.get(path[0]) is False or leaves(layout)[path] in (value, leaves(own).get(path))
        axes = [layout[name] for name in layout if name[1:5] == "axis"]
        assert all(axis["tickcolor"] == palette(mode).line for axis in axes)


def test_palettes_are_those_of_the_app() -> None:
    theme = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))["theme"]
    for mode, colours in PALETTES.items():
        assert colours.series == tuple(theme[mode]["chartCategoricalColors"])
        assert colours.paper == theme[mode]["backgroundColor"]
        assert colours.surface == theme[mode]["secondaryBackgroundColor"]
        assert colours.text == theme[mode]["textColor"]


@pytest.mark.parametrize("mode", MODES)
def test_text_can_be_read(mode: Mode) -> None:
    colours = palette(mode)
    assert contrast(colours.text, colours.paper) > 7
    assert contrast(colours.muted, colours.paper) > 4.5
    grounds = [*colours.series, *(colour_at(utilization_scale(mode), i / 20) for i in range(21))]
    assert all(contrast(ink_on(ground), ground) > 4.5 for ground in grounds)


@pytest.mark.parametrize("mode", MODES)
def test_the_busiest_link_stands_out_most(mode: Mode) -> None:
    for scale in (utilization_scale(mode), share_scale(mode)):
        paper = palette(mode).paper
        assert contrast(colour_at(scale, 1.0), paper) > contrast(colour_at(scale, 0.0), paper)
        assert [stop for stop, _ in scale] == sorted(stop for stop, _ in scale)


def test_a_stacked_bar_shows_its_parts_and_leaves_out_what_is_zero() -> None:
    data = stacked_bar(WORDS, PARTS, "GiB", table=TWIN, mode="light").figure["data"]
    assert [trace["x"] for trace in data] == [[4.0], [14.0]]
    assert [trace["name"] for trace in data] == ["weights 4 GiB", "activations 14 GiB"]


@pytest.mark.parametrize(("limit", "shapes"), [(24.0, 1), (18.0, 1), (10.0, 2)])
def test_what_lies_beyond_the_limit_is_marked(limit: float, shapes: int) -> None:
    layout = stacked_bar(WORDS, PARTS, "GiB", Limit(limit, "limit"), table=TWIN, mode="light").figure["layout"]
    assert len(layout["shapes"]) == shapes
    assert layout["xaxis"]["range"][1] > max(limit, 18.0)
    if shapes == 2:
        assert (layout["shapes"][1]["x0"], layout["shapes"][1]["x1"]) == (limit, 18.0)


def test_rows_leave_room_for_their_labels() -> None:
    short = row_bars(WORDS, [Row("a", 0, 10, "1", 0)], "s", table=TWIN, mode="light").figure["layout"]["xaxis"][
        "range"
    ][1]
    long = row_bars(WORDS, [Row("a", 0, 10, "1" * 20, 0)], "s", table=TWIN, mode="light").figure["layout"]["xaxis"][
        "range"
    ][1]
    assert 10 < short < long


def test_names_of_operators_keep_off_the_ceilings() -> None:
    """The longest-running operator lies on its ceiling; beside it, the name would be struck through."""
    ceilings = [Ceiling("ideal", 2.9, 667.0, "solid", None)]
    points = [Point("on the roof", "GEMM", 900.0, 660.0, 0.7, "n"), Point("below", "GEMM", 900.0, 40.0, 0.2, "n")]
    data = roofline(WORDS, ceilings, points, ("FLOP/B", "TFLOP/s"), table=TWIN, mode="light").figure["data"]
    assert data[1]["text"] == ["on the roof", "below"]
    assert data[1]["textposition"] == ["bottom center", "bottom center"]
    crossing = [Point("on the slope", "GEMM", 10.0, 29.0, 0.7, "n"), points[1]]
    data = roofline(WORDS, ceilings, crossing, ("FLOP/B", "TFLOP/s"), table=TWIN, mode="light").figure["data"]
    assert data[1]["textposition"][0] == "middle right"


def test_ceilings_meet_at_their_ridge_and_every_point_is_in_the_frame() -> None:
    chart = next(chart for chart in examples("light") if chart.figure["layout"]["xaxis"].get("type") == "log")
    ideal = chart.figure["data"][0]
    assert ideal["x"][1] == pytest.approx(667 / 2.9)
    assert ideal["y"] == [pytest.approx(ideal["x"][0] * 2.9), 667, 667]
    for axis, name in (("x", "xaxis"), ("y", "yaxis")):
        low, high = chart.figure["layout"][name]["range"]
        values = [value for trace in chart.figure["data"] for value in trace[axis] if "marker" in trace]
        assert values
        assert all(low < math.log10(value) < high for value in values)


@pytest.mark.parametrize(
    ("shape", "lines"), [((4, 4, 1), 24 + 2 * 8), ((4, 4, 4), 4 * (24 + 2 * 8)), ((12, 1, 1), 11 + 2)]
)
def test_wrap_links_are_two_half_stubs(shape: tuple[int, int, int], lines: int) -> None:
    data = torus_planes(WORDS, torus(shape), "busy", table=TWIN, mode="light").figure["data"]
    lines_drawn = [trace for trace in data if trace.get("mode") == "lines"]
    segments = [
        segment for trace in lines_drawn for segment in zip(triples(trace["x"]), triples(trace["y"]), strict=True)
    ]
    assert len(segments) == lines
    lengths = sorted({round(abs(x[1] - x[0]) + abs(y[1] - y[0]), 6) for x, y in segments})
    assert len(lengths) == 2
    assert lengths[0] < 0.5
    assert lengths[1] == 1.0


def test_planes_do_not_touch() -> None:
    data = torus_planes(WORDS, torus((4, 4, 4)), "busy", table=TWIN, mode="light").figure["data"]
    chips = next(trace for trace in data if trace.get("mode") == "markers+text" and len(trace["x"]) == 64)
    places = set(zip(chips["x"], chips["y"], strict=True))
    assert len(places) == 64
    assert min(math.dist(a, b) for a, b in itertools.combinations(places, 2)) == 1.0


def test_z_links_stand_in_a_heat_map_with_numbers() -> None:
    data = torus_planes(WORDS, torus((4, 4, 4)), "busy", table=TWIN, mode="light").figure["data"]
    heat = next(trace for trace in data if trace["type"] == "heatmap")
    assert len(heat["y"]) == 4
    assert len(heat["x"]) == 16
    assert heat["y"][-1] == "3→0 wrap"
    assert sum(len(trace["text"]) for trace in data if trace.get("mode") == "text") == 64
    assert not any(
        trace["type"] == "heatmap"
        for trace in torus_planes(WORDS, torus((4, 4, 1)), "", table=TWIN, mode="light").figure["data"]
    )


def test_an_idle_port_has_no_colour_of_a_busy_one() -> None:
    ports = [PortMark("0", None, False, None, ""), PortMark("1", None, False, 0.0, "")]
    idle, busy = switch_ports(WORDS, ports, "switch", "busy", table=TWIN, mode="light").figure["data"][:2]
    assert idle["line"]["color"] == palette("light").grid != busy["line"]["color"]


def test_room_is_made_for_names_titles_bars_and_legends() -> None:
    bars: list[dict[str, Any]] = [
        {"type": "bar", "orientation": "h", "y": ["a" * 30], "name": "x"},
        {"type": "bar", "y": [1], "name": "y"},
    ]
    layout = {"xaxis": {"title": {"text": "s"}}}
    placed, room = frame(bars, layout, wide=False)
    assert placed["margin"]["l"] > 180
    assert room > 19
    assert placed["legend"]["yref"] == "container"
    bare, nothing = frame([{"type": "heatmap", "y": ["a"]}], {"xaxis": {"side": "top"}}, wide=False)
    assert nothing == 0
    assert bare["margin"]["r"] > 60
    many, much = frame([{"name": "n" * 40, "type": "bar"} for _ in range(6)], layout, wide=False)
    assert much > 5 * 19
    assert many["margin"]["b"] > much


def test_long_titles_are_broken_and_cut() -> None:
    words = Words("T" * 30 + " " + "u" * 30, "word " * 80, "alt", "file")
    layout = compose(words, [{"type": "bar"}], {}, TWIN, mode="light", height=100).figure["layout"]
    assert layout["title"]["text"].count("<br>") == 1
    lines = layout["title"]["subtitle"]["text"].split("<br>")
    assert len(lines) == 3
    assert lines[-1].endswith("…")
    assert max(map(len, lines)) <= 56
    assert wrap("", 10, 1) == ()


@pytest.mark.parametrize("text", ["../../etc", 'a"b<c>', "x" * 500, "Llama 3.1 70B", "ä/ö"])
def test_file_names_are_harmless(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,119}", file_stem("trn2model", text))
    assert ".." not in file_stem("trn2model", text).replace("trn2model", "")
