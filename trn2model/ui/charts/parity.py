"""Predicted against measured times on logarithmic axes, and their ratio as one strip of points per group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.text import quantity
from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.charts.style import Mode, Palette, palette
from trn2model.ui.tables import Table

#: Half-width of the band as a share of the measurement.
BAND: Final = 0.2
#: Most points that one trace may hold without slowing the browser.
MOST_POINTS: Final = 2000
_HEIGHT: Final = 430
_ROOM: Final = 1.5  # factor of room round the points
#: Ticks within a decade, for axes of at most so many decades.
_STEPS: Final = ((1.5, (1, 2, 5)), (3.0, (1, 3)), (math.inf, (1,)))
_BAND_OPACITY: Final = 0.12


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
    table: Table,
    mode: Mode,
    picks: str = "",
) -> Chart:
    """Scatter of predictions over measurements, both axes logarithmic and alike."""
    colours = palette(mode)
    low, high = extent[0] / _ROOM, extent[1] * _ROOM
    traces = [
        *_guides(low, high, colours),
        *(_series_trace(part, colours) for entry in series for part in _slices(entry)),
        *_picked_traces(picked, colours),
    ]
    layout: dict[str, Any] = {
        "hovermode": "closest",
        "margin": {"t": 6, "r": 16},
        "xaxis": _axis("measured time", low, high),
        "yaxis": _axis("predicted time", low, high),
        "legend": {"y": -0.16, "traceorder": "normal", "itemclick": "toggle"},
    }
    return compose(words, traces, layout, table, mode, _HEIGHT, picks=picks)


def _guides(low: float, high: float, colours: Palette) -> list[dict[str, Any]]:
    """Band and line of equals; the axes cut what lies beyond them."""
    band = {
        "type": "scatter",
        "mode": "lines",
        "name": f"within ±{BAND:.0%}".replace("%", " %"),
        "x": [low, high, high, low, low],
        "y": [low * (1 - BAND), high * (1 - BAND), high * (1 + BAND), low * (1 + BAND), low * (1 - BAND)],
        "fill": "toself",
        "fillcolor": _faded(colours.text, _BAND_OPACITY),
        "line": {"width": 0, "color": colours.line},
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
    return [
        Series(series.name, series.symbol, series.size, series.colour, series.dots[start : start + MOST_POINTS])
        for start in starts
    ]


def _series_trace(series: Series, colours: Palette) -> dict[str, Any]:
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


def _axis(title: str, low: float, high: float) -> dict[str, Any]:
    first, last = math.log10(low), math.log10(high)
    steps = next(steps for decades, steps in _STEPS if last - first <= decades)
    powers = range(math.floor(first), math.ceil(last) + 1)
    ticks = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
    return {
        "type": "log",
        "range": [first, last],
        "tickvals": ticks,
        "ticktext": [quantity(float(f"{tick:.3g}"), "s") for tick in ticks],
        "tickangle": 0,
        "fixedrange": True,
        "title": {"text": title},
    }


def _faded(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


_ROW_HEIGHT: Final = 30
_FRAME: Final = 90
_LEAST_REACH: Final = 2.0  # the axis shows at least half and twice the measurement
_STRIP_ROOM: Final = 1.1
_TICKS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 1.2, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_MOST_TICKS: Final = 7
#: Points of a strip are spread over this share of its height, by the golden ratio so that neighbours lie apart.
_SPREAD: Final = 0.6
_GOLDEN: Final = 0.618033988749895
_STRIP_OPACITY: Final = 0.1


def ratio_strip(
    words: Words, groups: Mapping[str, str], series: Sequence[Series], table: Table, mode: Mode, picks: str = ""
) -> Chart:
    """Strips of ratios by group."""
    colours = palette(mode)
    names = tuple(dict.fromkeys(groups.values()))
    places = {name: float(place) for place, name in enumerate(names)}
    ratios = [dot.predicted / dot.measured for entry in series for dot in entry.dots]
    reach = _STRIP_ROOM * max([_LEAST_REACH, *(max(ratio, 1.0 / ratio) for ratio in ratios)])
    layout: dict[str, Any] = {
        "hovermode": "closest",
        "showlegend": False,
        "margin": {"t": 6, "r": 12},
        "xaxis": _ratio_axis(reach),
        "yaxis": {
            "range": [len(names) - 0.4, -0.6],
            "tickvals": list(places.values()),
            "ticktext": list(names),
            "ticks": "",
            "fixedrange": True,
            "tickfont": {"color": colours.text},
        },
        "shapes": [_band(colours), _line(colours)],
    }
    traces = [_trace(entry, groups, places, colours) for entry in series]
    return compose(words, traces, layout, table, mode, _FRAME + _ROW_HEIGHT * max(len(names), 2), picks=picks)


def _trace(series: Series, groups: Mapping[str, str], places: Mapping[str, float], colours: Palette) -> dict[str, Any]:
    colour = colours.line if series.colour is None else colours.series[series.colour]
    offsets = [((number * _GOLDEN) % 1.0 - 0.5) * _SPREAD for number in range(len(series.dots))]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": series.name,
        "x": [dot.predicted / dot.measured for dot in series.dots],
        "y": [places[groups[dot.id]] + offset for dot, offset in zip(series.dots, offsets, strict=True)],
        "marker": {
            "symbol": series.symbol,
            "size": series.size - 1,
            "color": colour,
            "line": {"width": 1.2, "color": colour if "open" in series.symbol else colours.paper},
        },
        "selected": {"marker": {"opacity": 1}},
        "unselected": {"marker": {"opacity": 1}},
        "customdata": [[dot.id, dot.note] for dot in series.dots],
        "hovertemplate": "%{customdata[1]}<extra></extra>",
    }


def _ratio_axis(reach: float) -> dict[str, Any]:
    shown = [tick for tick in _TICKS if 1.0 / reach <= tick <= reach]
    if len(shown) > _MOST_TICKS:
        shown = [tick for tick in shown if tick not in (0.8, 1.2, 0.02, 0.2, 2.0, 20.0, 50.0, 0.05)]
    return {
        "type": "log",
        "range": [-math.log10(reach), math.log10(reach)],
        "tickvals": shown,
        "ticktext": [f"{tick:g}" for tick in shown],
        "tickangle": 0,
        "fixedrange": True,
        "title": {"text": "predicted over measured [1]"},
    }


def _band(colours: Palette) -> dict[str, Any]:
    return {
        "type": "rect",
        "yref": "paper",
        "x0": 1 - BAND,
        "x1": 1 + BAND,
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "fillcolor": colours.text,
        "opacity": _STRIP_OPACITY,
        "line": {"width": 0},
    }


def _line(colours: Palette) -> dict[str, Any]:
    return {
        "type": "line",
        "yref": "paper",
        "x0": 1,
        "x1": 1,
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "line": {"color": colours.text, "width": 1.2, "dash": "dash"},
    }
