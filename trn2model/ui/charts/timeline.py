"""Bars and layers over time: schedules with a row per worker, memory with a limit and its peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.bars import Limit
from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.charts.style import Mode, Palette, ink_on, palette
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
        "yaxis": {
            "tickmode": "array",
            "tickvals": list(range(rows)),
            "ticktext": list(row_names),
            "range": [rows - 0.5, -0.5],
            "ticks": "",
            "showgrid": False,
            "fixedrange": True,
            "tickfont": {"color": colours.text},
        },
        "legend": {"y": 1.0, "yanchor": "bottom", "yref": "paper", "traceorder": "normal"},
        "margin": {"t": 34},
        "hovermode": "closest",
    }
    traces = [_bars(kind, extent, colours) for kind in tasks if len(kind.rows)]
    height = 80 + (_ROW_HEIGHT if rows <= _MANY_ROWS else _SHORT_ROW) * max(rows, 3)
    return compose(words, traces, layout, table, mode, height)


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
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "inside",
        "textfont": {"size": 11, "color": ink_on(colour)},
        "marker": {"color": colour, "opacity": list(kind.shades), "line": {"width": 0.5, "color": colours.paper}},
        "customdata": list(kind.notes),
        "hovertemplate": "%{customdata}<extra></extra>",
    }


_HEIGHT: Final = 330
_HEADROOM: Final = 1.12


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
    limit: Limit,
    peak: Peak,
    axes: tuple[str, str],
    table: Table,
    mode: Mode,
) -> Chart:
    """Stacked step functions of time."""
    colours = palette(mode)
    alarm = colours.alert if peak.value > limit.value else colours.text
    late = peak.time > 0.5 * times[-1]
    layout: dict[str, Any] = {
        "xaxis": {"range": [0, times[-1]], "title": {"text": axes[0]}},
        "yaxis": {"range": [0, _HEADROOM * max(limit.value, peak.value)], "title": {"text": axes[1]}},
        "legend": {"y": -0.24, "traceorder": "normal"},
        "hovermode": "x",
        "margin": {"t": 8},
        "shapes": [_line(limit.value, alarm)],
        "annotations": [
            _note(limit.label, 1, "paper", limit.value, "right", alarm),
            _note(peak.label, peak.time, "x", peak.value, "right" if late else "left", colours.text),
        ],
    }
    traces = [_area(layer, times, colours) for layer in stack if max(layer.values) > 0]
    traces.append(_diamond(peak, alarm))
    return compose(words, traces, layout, table, mode, _HEIGHT)


def _line(height: float, colour: str) -> dict[str, Any]:
    ends = {"xref": "paper", "x0": 0, "x1": 1, "y0": height, "y1": height}
    return {"type": "line", **ends, "line": {"color": colour, "width": 2, "dash": "dash"}}


def _diamond(peak: Peak, colour: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "peak",
        "x": [peak.time],
        "y": [peak.value],
        "marker": {"size": 11, "symbol": "diamond", "color": colour},
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


def _note(text: str, x: float, xref: str, y: float, anchor: str, colour: str) -> dict[str, Any]:
    return {
        "text": text,
        "x": x,
        "xref": xref,
        "y": y,
        "yanchor": "bottom",
        "xanchor": anchor,
        "yshift": 4,
        "showarrow": False,
        "font": {"size": 12, "color": colour},
    }
