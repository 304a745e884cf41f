"""Lines over the message size on logarithmic axes, with measured points, published bands and crossovers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from trn2model.text import quantity
from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.charts.style import Mode, Palette, palette
from trn2model.ui.tables import Table

_HEIGHT: Final = 400
_SIZE_STEP: Final = 6  # powers of two between ticks of the size
_ROOM: Final = 1.6  # factor of room above and below the lines
#: Ratio of sizes below which two names on the same side of their lines would touch.
_NEAR: Final = 3.0
_BAND_OPACITY: Final = (0.05, 0.11)


@dataclass(frozen=True, slots=True)
class SizeLine:
    """One estimated line: name, values, palette entry, dash pattern and marker, so that it reads without colour."""

    name: str
    values: tuple[float, ...]
    colour: int
    dash: str
    symbol: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A single point with hover text."""

    x: float
    y: float
    note: str


@dataclass(frozen=True, slots=True)
class Marks:
    """Points of one kind under one name in the legend; hollow ones are measured, filled ones estimated."""

    name: str
    points: tuple[Mark, ...]
    symbol: str
    hollow: bool


@dataclass(frozen=True, slots=True)
class Band:
    """A range of sizes with a label above the plot."""

    low: float
    high: float
    label: str


@dataclass(frozen=True, slots=True)
class Crossing:
    """A size at which the lowest line changes."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class SizePlot:
    """What is drawn over the sizes; `least` is the emphasised line under the others, empty for none."""

    sizes: tuple[float, ...]
    lines: tuple[SizeLine, ...]
    least: tuple[float, ...] = ()
    marks: tuple[Marks, ...] = ()
    bands: tuple[Band, ...] = ()
    crossings: tuple[Crossing, ...] = ()


def size_lines(
    words: Words, plot: SizePlot, axis: tuple[str, str], labels: Literal["top", "bottom"], table: Table, mode: Mode
) -> Chart:
    """Lines over the message size, both axes logarithmic."""
    colours = palette(mode)
    traces = [
        *_least_trace(plot, colours),
        *(_line_trace(line, plot.sizes, axis[1], colours) for line in plot.lines),
        *(_marks_trace(marks, colours) for marks in plot.marks if marks.points),
    ]
    low, high = _extent(plot)
    layout: dict[str, Any] = {
        "hovermode": "closest",
        "margin": {"t": 24 if plot.bands else 6, "r": 30},
        "xaxis": _size_axis(plot.sizes),
        "yaxis": _value_axis(axis, low, high),
        "legend": {"y": -0.2, "traceorder": "normal"},
        "shapes": [*_band_shapes(plot, colours), *_crossing_shapes(plot, colours)],
        "annotations": [*_band_names(plot, colours), *_crossing_names(plot, labels, colours)],
    }
    return compose(words, traces, layout, table, mode, _HEIGHT)


def _least_trace(plot: SizePlot, colours: Palette) -> list[dict[str, Any]]:
    if not plot.least:
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "cheapest",
            "x": list(plot.sizes),
            "y": list(plot.least),
            "line": {"width": 11, "color": colours.line},
            "opacity": 0.4,
            "hoverinfo": "skip",
        }
    ]


def _line_trace(line: SizeLine, sizes: Sequence[float], unit: str, colours: Palette) -> dict[str, Any]:
    colour = colours.series[line.colour]
    notes = [
        f"{line.name}<br>{size_name(x)}: {quantity(_three(y), unit)}" for x, y in zip(sizes, line.values, strict=True)
    ]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": line.name,
        "x": list(sizes),
        "y": list(line.values),
        "line": {"width": 2.5, "color": colour, "dash": line.dash},
        "marker": {"symbol": line.symbol, "size": 7, "color": colour, "maxdisplayed": 9},
        "customdata": notes,
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _marks_trace(marks: Marks, colours: Palette) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": marks.name,
        "x": [point.x for point in marks.points],
        "y": [point.y for point in marks.points],
        "marker": {
            "symbol": f"{marks.symbol}-open" if marks.hollow else marks.symbol,
            "size": 10,
            "color": colours.text,
            "line": {"width": 2 if marks.hollow else 1, "color": colours.text if marks.hollow else colours.paper},
        },
        "customdata": [point.note for point in marks.points],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def size_name(value: float) -> str:
    """Message size in binary units, three significant digits.

    Examples
    --------
    >>> size_name(64 * 2**20), size_name(2.6e6)
    ('64 MiB', '2.48 MiB')
    """
    return quantity(_binary(value), "B")


def _binary(value: float) -> float:
    """Bytes rounded so that they print with three significant digits in their binary unit."""
    unit = 1024.0 ** max(math.floor(math.log(value, 1024.0) + 1e-9), 0) if value > 0 else 1.0
    return _three(value / unit) * unit


def _three(value: float) -> float:
    return float(f"{value:.3g}")


def _extent(plot: SizePlot) -> tuple[float, float]:
    values = [value for line in plot.lines for value in line.values if value > 0]
    values += [point.y for marks in plot.marks for point in marks.points if point.y > 0]
    return min(values, default=1.0) / _ROOM, max(values, default=10.0) * _ROOM


def _size_axis(sizes: Sequence[float]) -> dict[str, Any]:
    first, last = math.log2(min(sizes)), math.log2(max(sizes))
    ticks = [2.0**power for power in range(math.ceil(first), math.floor(last) + 1, _SIZE_STEP)]
    return {
        "type": "log",
        "range": [math.log10(min(sizes)), math.log10(max(sizes))],
        "tickvals": ticks,
        "ticktext": [size_name(tick) for tick in ticks],
        "tickangle": 0,
        "fixedrange": True,
        "title": {"text": "message size"},
    }


def _value_axis(axis: tuple[str, str], low: float, high: float) -> dict[str, Any]:
    first, last = math.log10(low), math.log10(high)
    ticks = [10.0**power for power in range(math.ceil(first), math.floor(last) + 1)]
    if len(ticks) < 2:
        ticks = sorted(
            step * 10.0**power for power in range(math.floor(first), math.ceil(last) + 1) for step in (1, 2, 5)
        )
    return {
        "type": "log",
        "range": [first, last],
        "tickvals": ticks,
        "ticktext": [quantity(tick, axis[1]) for tick in ticks],
        "fixedrange": True,
        "title": {"text": axis[0]},
    }


def _within(plot: SizePlot, band: Band) -> tuple[float, float]:
    return max(band.low, min(plot.sizes)), min(band.high, max(plot.sizes))


def _band_shapes(plot: SizePlot, colours: Palette) -> list[dict[str, Any]]:
    shapes = []
    for number, band in enumerate(plot.bands):
        low, high = _within(plot, band)
        shapes.append(
            {
                "type": "rect",
                "yref": "paper",
                "x0": low,
                "x1": high,
                "y0": 0,
                "y1": 1,
                "layer": "below",
                "fillcolor": colours.text,
                "opacity": _BAND_OPACITY[number % 2],
                "line": {"width": 0},
            }
        )
    return shapes


def _band_names(plot: SizePlot, colours: Palette) -> list[dict[str, Any]]:
    names = []
    for band in plot.bands:
        low, high = _within(plot, band)
        names.append(
            {
                "x": (math.log10(low) + math.log10(high)) / 2,
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "text": band.label,
                "showarrow": False,
                "font": {"size": 11, "color": colours.muted},
            }
        )
    return names


def _crossing_shapes(plot: SizePlot, colours: Palette) -> list[dict[str, Any]]:
    return [
        {
            "type": "line",
            "yref": "paper",
            "x0": crossing.x,
            "x1": crossing.x,
            "y0": 0,
            "y1": 1,
            "line": {"color": colours.muted, "width": 1, "dash": "dot"},
        }
        for crossing in plot.crossings
    ]


def _crossing_names(plot: SizePlot, edge: Literal["top", "bottom"], colours: Palette) -> list[dict[str, Any]]:
    return [
        {
            "x": math.log10(crossing.x),
            "y": 1 if edge == "top" else 0,
            "yref": "paper",
            "yanchor": edge,
            "xanchor": side,
            "textangle": -90,
            "text": crossing.label,
            "showarrow": False,
            "font": {"size": 11, "color": colours.text},
        }
        for crossing, side in zip(plot.crossings, _sides(plot.crossings), strict=True)
    ]


def _sides(crossings: Sequence[Crossing]) -> list[str]:
    """Anchor of each name: left of its line, or right of it where the line before is too near."""
    sides: list[str] = []
    for number, crossing in enumerate(crossings):
        near = number > 0 and crossing.x < _NEAR * crossings[number - 1].x
        sides.append("left" if near and sides[-1] == "right" else "right")
    return sides
