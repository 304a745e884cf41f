"""Predicted against measured times on logarithmic axes, and their ratio as one strip of points per group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from trn2model.ui.charts.chart import Chart, Words, compose, log_axis, name_axis, rule, stripe
from trn2model.ui.charts.style import Mode, Palette, palette
from trn2model.ui.tables import Table

#: Half-width of the band as a share of the measurement.
BAND: Final = 0.2
#: Most points that one trace may hold without slowing the browser.
MOST_POINTS: Final = 2000
_HEIGHT: Final = 430
_ROOM: Final = 1.5  # factor of room round the points
_BAND_OPACITY: Final = 0.1
_ROW_HEIGHT: Final = 30
_FRAME: Final = 90
_LEAST_REACH: Final = 2.0  # the axis of ratios shows at least half and twice the measurement
_STRIP_ROOM: Final = 1.1
_TICKS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 1.2, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_FEWER_TICKS: Final = (0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 100.0)
#: Points of a strip are spread over this share of its height, by the golden ratio so that neighbours lie apart.
_SPREAD: Final = 0.6
_GOLDEN: Final = 0.618033988749895


@dataclass(frozen=True, slots=True)
class Dot:
    """One measurement: measured and predicted time, its id, and what hovering says."""

    measured: float
    predicted: float
    id: str
    note: str


@dataclass(frozen=True, slots=True)
class Series:
    """Measurements of one trust class and use; `colour` is a palette entry, None the muted one."""

    name: str
    symbol: str
    size: int
    colour: int | None
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True)
class Picked:
    """The measurement that is looked at, with the range of its prediction."""

    dot: Dot
    low: float
    high: float


def parity(
    words: Words,
    series: Sequence[Series],
    picked: Picked | None,
    extent: tuple[float, float],
    *,
    table: Table,
    mode: Mode,
    picks: str = "",
) -> Chart:
    """Scatter of predictions over measurements, both axes logarithmic and alike."""
    colours = palette(mode)
    low, high = extent[0] / _ROOM, extent[1] * _ROOM
    ends = math.log10(low), math.log10(high)
    traces = [
        *_guides(low, high, colours),
        *(_points(part, colours) for entry in series for part in _slices(entry)),
        *_picked_traces(picked, colours),
    ]
    layout: dict[str, Any] = {
        "hovermode": "closest",
        "margin": {"t": 6, "r": 16},
        "xaxis": log_axis("measured time", ends, "s"),
        "yaxis": log_axis("predicted time", ends, "s"),
        "legend": {"y": -0.16, "traceorder": "normal", "itemclick": "toggle"},
    }
    return compose(words, traces, layout, table, mode=mode, height=_HEIGHT, picks=picks)


def _guides(low: float, high: float, colours: Palette) -> list[dict[str, Any]]:
    """Band and line of equals; the axes cut what lies beyond them."""
    band = {
        "type": "scatter",
        "mode": "lines",
        "name": f"within ±{BAND:.0%}".replace("%", " %"),
        "x": [low, high, high, low, low],
        "y": [low * (1 - BAND), high * (1 - BAND), high * (1 + BAND), low * (1 + BAND), low * (1 - BAND)],
        "fill": "toself",
        "fillcolor": colours.text,
        "opacity": _BAND_OPACITY,
        "line": {"width": 0},
        "hoverinfo": "skip",
    }
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": "equal",
        "x": [low, high],
        "y": [low, high],
        "line": {"width": 1.2, "color": colours.text, "dash": "dash"},
        "hoverinfo": "skip",
    }
    return [band, line]


def _slices(series: Series) -> list[Series]:
    """Parts of a series that a browser draws in time; nearly always the series itself."""
    starts = range(0, len(series.dots), MOST_POINTS)
    return [replace(series, dots=series.dots[start : start + MOST_POINTS]) for start in starts]


def _points(series: Series, colours: Palette) -> dict[str, Any]:
    colour = colours.line if series.colour is None else colours.series[series.colour]
    hollow = "open" in series.symbol
    return {
        "type": "scatter",
        "mode": "markers",
        "name": series.name,
        "x": [dot.measured for dot in series.dots],
        "y": [dot.predicted for dot in series.dots],
        "marker": {
            "symbol": series.symbol,
            "size": series.size,
            "color": colour,
            "line": {"width": 1.4 if hollow else 0.8, "color": colour if hollow else colours.paper},
        },
        "selected": {"marker": {"opacity": 1}},
        "unselected": {"marker": {"opacity": 1}},
        "customdata": [[dot.id, dot.note] for dot in series.dots],
        "hovertemplate": "%{customdata[1]}<extra></extra>",
    }


def _picked_traces(picked: Picked | None, colours: Palette) -> list[dict[str, Any]]:
    if picked is None:
        return []
    dot = picked.dot
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "looked at, with its range",
            "x": [dot.measured],
            "y": [dot.predicted],
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": [picked.high - dot.predicted],
                "arrayminus": [dot.predicted - picked.low],
                "color": colours.alert,
                "thickness": 2,
                "width": 5,
            },
            "marker": {
                "symbol": "circle-open",
                "size": 17,
                "color": colours.alert,
                "line": {"width": 2.5, "color": colours.alert},
            },
            "hoverinfo": "skip",
        }
    ]


def ratio_strip(
    words: Words, groups: Mapping[str, str], series: Sequence[Series], *, table: Table, mode: Mode, picks: str = ""
) -> Chart:
    """Strips of ratios by group."""
    colours = palette(mode)
    names = tuple(dict.fromkeys(groups.values()))
    rows = {name: float(row) for row, name in enumerate(names)}
    ratios = [dot.predicted / dot.measured for entry in series for dot in entry.dots]
    reach = _STRIP_ROOM * max([_LEAST_REACH, *(max(ratio, 1.0 / ratio) for ratio in ratios)])
    layout: dict[str, Any] = {
        "hovermode": "closest",
        "showlegend": False,
        "margin": {"t": 6, "r": 12},
        "xaxis": _ratio_axis(reach),
        "yaxis": name_axis(colours)
        | {"autorange": False, "range": [len(names) - 0.4, -0.6]}
        | {"tickvals": list(rows.values()), "ticktext": list(names)},
        "shapes": [
            stripe(colours.text, _BAND_OPACITY, "x", (1 - BAND, 1 + BAND)),
            rule(colours.text, "x", 1, width=1.2) | {"layer": "below"},
        ],
    }
    traces = [_strip(entry, groups, rows, colours) for entry in series]
    height = _FRAME + _ROW_HEIGHT * max(len(names), 2)
    return compose(words, traces, layout, table, mode=mode, height=height, picks=picks)


def _strip(series: Series, groups: Mapping[str, str], rows: Mapping[str, float], colours: Palette) -> dict[str, Any]:
    """Ratios of a series, spread over the height of their rows."""
    spread = (((number * _GOLDEN) % 1.0 - 0.5) * _SPREAD for number in range(len(series.dots)))
    return _points(replace(series, size=series.size - 1), colours) | {
        "x": [dot.predicted / dot.measured for dot in series.dots],
        "y": [rows[groups[dot.id]] + offset for dot, offset in zip(series.dots, spread, strict=True)],
    }


def _ratio_axis(reach: float) -> dict[str, Any]:
    shown = [tick for tick in _TICKS if 1.0 / reach <= tick <= reach]
    if len(shown) > len(_FEWER_TICKS):
        shown = [tick for tick in _FEWER_TICKS if 1.0 / reach <= tick <= reach]
    end = math.log10(reach)
    axis = log_axis("predicted over measured [1]", (-end, end))
    return axis | {"tickvals": shown, "ticktext": [f"{tick:g}" for tick in shown]}
