"""Layers over time: what stays at the bottom, what comes and goes on top, a limit and the peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.bars import Limit
from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.charts.template import Mode, Palette, palette
from trn2model.ui.tables import Table

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
