"""Bars and layers over time: schedules with a row per worker, memory with a limit and its peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.bars import Limit, inside_text
from trn2model.ui.charts.chart import Chart, Words, canvas, compose, name_axis, note, rule
from trn2model.ui.charts.labels import USUAL, Placer, Plane, reach
from trn2model.ui.charts.style import Mode, Palette, palette
from trn2model.ui.tables import Table

#: Bars narrower than this share of the axis carry no text.
_TEXT_SHARE: Final = 0.022
_ROW_HEIGHT: Final = 30
_SHORT_ROW: Final = 18
_MANY_ROWS: Final = 12


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of one kind: on which row, from when, how long, what stands inside, and what hovering tells."""

    name: str
    rows: Sequence[int]
    starts: Sequence[float]
    lengths: Sequence[float]
    texts: Sequence[str]
    notes: Sequence[str]
    colour: int
    shades: Sequence[float]


def gantt(
    words: Words,
    row_names: Sequence[str],
    tasks: Sequence[Tasks],
    *,
    axis_title: str,
    extent: float,
    table: Table,
    mode: Mode,
) -> Chart:
    """Schedule with one row per worker, the first on top."""
    colours = palette(mode)
    rows = len(row_names)
    layout: dict[str, Any] = {
        "barmode": "overlay",
        "bargap": 0.12,
        "xaxis": {"range": [0, extent], "title": {"text": axis_title}},
        "yaxis": name_axis(colours)
        | {"autorange": False, "range": [rows - 0.5, -0.5], "tickvals": list(range(rows)), "ticktext": list(row_names)},
        "legend": {"y": 1.0, "yanchor": "bottom", "yref": "paper", "traceorder": "normal"},
        "margin": {"t": 34},
        "hovermode": "closest",
    }
    traces = [_bars(kind, extent, colours) for kind in tasks if len(kind.rows)]
    height = 80 + (_ROW_HEIGHT if rows <= _MANY_ROWS else _SHORT_ROW) * max(rows, 3)
    return compose(words, traces, layout, table, mode=mode, height=height)


def _bars(kind: Tasks, extent: float, colours: Palette) -> dict[str, Any]:
    colour = colours.series[kind.colour]
    return {
        "type": "bar",
        "orientation": "h",
        "name": kind.name,
        "y": list(kind.rows),
        "x": list(kind.lengths),
        "base": list(kind.starts),
        "text": [
            text if length / extent >= _TEXT_SHARE else ""
            for text, length in zip(kind.texts, kind.lengths, strict=True)
        ],
        **inside_text(11, colour),
        "marker": {"color": colour, "opacity": list(kind.shades), "line": {"width": 0.5, "color": colours.paper}},
        "customdata": list(kind.notes),
        "hovertemplate": "%{customdata}<extra></extra>",
    }


_HEIGHT: Final = 330
_HEADROOM: Final = 1.12
#: Size of the mark at the peak, and the sides of it that its name may stand at. [px]
_DIAMOND: Final = 11
_CORNERS: Final = ("top right", "top left", "bottom right", "bottom left")
_OPPOSITE: Final = {"top": "bottom", "bottom": "top", "left": "right", "right": "left"}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its thickness from each time on."""

    name: str
    values: Sequence[float]
    colour: int


@dataclass(frozen=True, slots=True)
class Peak:
    """Highest point of the stack."""

    time: float
    value: float
    label: str


def layers(
    words: Words,
    times: Sequence[float],
    stack: Sequence[Layer],
    *,
    limit: Limit,
    peak: Peak,
    axes: tuple[str, str],
    table: Table,
    mode: Mode,
) -> Chart:
    """Stacked step functions of time."""
    colours = palette(mode)
    alarm = _alarm(limit, peak, colours)
    top = _HEADROOM * max(limit.value, peak.value)
    layout: dict[str, Any] = {
        "xaxis": {"range": [0, times[-1]], "title": {"text": axes[0]}},
        "yaxis": {"range": [0, top], "title": {"text": axes[1]}},
        "legend": {"y": -0.24, "traceorder": "normal"},
        "hovermode": "x",
        "margin": {"t": 8},
        "shapes": [rule(alarm, "y", limit.value)],
    }
    plane = Plane(("linear", "linear"), (0.0, times[-1]), (0.0, top), canvas(layout, _HEIGHT))
    layout["annotations"] = _names(limit, peak, plane, colours)
    traces = [_area(layer, times, colours) for layer in stack if max(layer.values) > 0]
    traces.append(_diamond(peak, alarm))
    return compose(words, traces, layout, table, mode=mode, height=_HEIGHT)


def _names(limit: Limit, peak: Peak, plane: Plane, colours: Palette) -> list[dict[str, Any]]:
    """Names of the limit, at the right end of its line, and of the peak; on paper, as layers may lie below them."""
    placer, right = Placer(plane.size), plane.size[0]
    placer.add_line([(0.0, plane.up(limit.value)), (right, plane.up(limit.value))])
    placer.beside(limit.label, (right, plane.up(limit.value)), 0, ("top left",), size=USUAL)
    side = placer.beside(peak.label, (plane.across(peak.time), plane.up(peak.value)), _DIAMOND, _CORNERS, size=USUAL)
    names = [
        note(
            limit.label,
            1,
            limit.value,
            _alarm(limit, peak, colours),
            across="right",
            xref="paper",
            yshift=2,
            bgcolor=colours.paper,
        )
    ]
    if side:
        up, across = side.split()
        look = {"yshift": reach(_DIAMOND) * (1 if up == "top" else -1), "bgcolor": colours.paper}
        anchors = {"xanchor": _OPPOSITE[across], "yanchor": _OPPOSITE[up]}
        names.append(note(peak.label, peak.time, peak.value, colours.text) | anchors | look)
    return names


def _alarm(limit: Limit, peak: Peak, colours: Palette) -> str:
    return colours.alert if peak.value > limit.value else colours.text


def _diamond(peak: Peak, colour: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "peak",
        "x": [peak.time],
        "y": [peak.value],
        "marker": {"size": _DIAMOND, "symbol": "diamond", "color": colour},
        "cliponaxis": False,
        "hovertemplate": f"{peak.label}<extra></extra>",
        "showlegend": False,
    }


def _area(layer: Layer, times: Sequence[float], colours: Palette) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": layer.name,
        "x": list(times),
        "y": list(layer.values),
        "stackgroup": "one",
        "line": {"width": 0.5, "shape": "hv", "color": colours.series[layer.colour]},
        "fillcolor": colours.series[layer.colour],
        "hovertemplate": f"{layer.name}: %{{y:.3g}}<extra></extra>",
    }
