"""Prediction over measurement, one strip of points per group, on a logarithmic axis round one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.charts.parity import BAND, Series
from trn2model.ui.charts.template import Mode, Palette, palette
from trn2model.ui.tables import Table

_ROW_HEIGHT: Final = 30
_FRAME: Final = 90
_LEAST_REACH: Final = 2.0  # the axis shows at least half and twice the measurement
_ROOM: Final = 1.1
_TICKS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 1.2, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_MOST_TICKS: Final = 7
#: Points of a strip are spread over this share of its height, by the golden ratio so that neighbours lie apart.
_SPREAD: Final = 0.6
_GOLDEN: Final = 0.618033988749895
_BAND_OPACITY: Final = 0.1


def ratio_strip(
    words: Words, groups: Mapping[str, str], series: Sequence[Series], table: Table, mode: Mode, picks: str = ""
) -> Chart:
    """Strips of ratios by group."""
    colours = palette(mode)
    names = tuple(dict.fromkeys(groups.values()))
    places = {name: float(place) for place, name in enumerate(names)}
    ratios = [dot.predicted / dot.measured for entry in series for dot in entry.dots]
    reach = _ROOM * max([_LEAST_REACH, *(max(ratio, 1.0 / ratio) for ratio in ratios)])
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
        "opacity": _BAND_OPACITY,
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
