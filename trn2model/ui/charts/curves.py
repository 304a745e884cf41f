"""Curves over one quantity, with labelled points, marks that stand out, and a shaded region to be in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.charts.template import Mode, Palette, palette
from trn2model.ui.tables import Table

Scale = Literal["linear", "log"]
_PAD: Final = 0.08
#: Decades above which a log axis names powers of ten only.
_DECADES: Final = 2.0
#: Room of a label as a share of the axes on a narrow chart.
_LABEL_ROOM: Final = (0.11, 0.07)
_HEIGHT: Final = 340


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of points; a `solid` of false draws that point hollow and its way dotted."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    labels: Sequence[str]
    notes: Sequence[str]
    solid: Sequence[bool]
    colour: int
    markers: bool = True


@dataclass(frozen=True, slots=True)
class Mark:
    """One point that stands out."""

    name: str
    x: float
    y: float
    symbol: str
    colour: int


@dataclass(frozen=True, slots=True)
class Region:
    """Shaded part of the plane from a limit to the edge: right of `x_from` or below `y_to`; without one, words only."""

    label: str
    x_from: float | None = None
    y_to: float | None = None


@dataclass(frozen=True, slots=True)
class Axes:
    """Titles with units, and scales."""

    x_title: str
    y_title: str
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"


def curves(
    words: Words,
    lines: Sequence[Curve],
    marks: Sequence[Mark],
    region: Region | None,
    axes: Axes,
    table: Table,
    mode: Mode,
) -> Chart:
    """Curves with fixed axes.

    Parameters
    ----------
    words : Words
        What the chart says about itself.
    lines : Sequence of Curve
        At least one, each with at least one point.
    marks : Sequence of Mark
        Points drawn on top.
    region : Region or None
        Where to be.
    axes : Axes
        Titles and scales; a log axis takes positive numbers only.
    table : Table
        The same content as rows.
    mode : {"light", "dark"}
        Dress of the figure.

    Returns
    -------
    Chart
        Ready to draw.
    """
    colours = palette(mode)
    xs = [value for line in lines for value in line.x] + [mark.x for mark in marks]
    ys = [value for line in lines for value in line.y] + [mark.y for mark in marks]
    x_range, y_range = _extent(xs, axes.x_scale), _extent(ys, axes.y_scale)
    layout: dict[str, Any] = {
        "xaxis": _axis(axes.x_title, axes.x_scale, x_range),
        "yaxis": _axis(axes.y_title, axes.y_scale, y_range),
        "legend": {"y": -0.2},
        "showlegend": len(lines) + len(marks) > 1,
        "hovermode": "closest",
        "margin": {"t": 8},
    }
    if region:
        layout |= _shade(region, axes, x_range, y_range, colours)
    traces = [trace for line in lines for trace in _line(_thinned(line, axes, x_range, y_range), colours)]
    traces += [_mark(mark, colours) for mark in marks]
    return compose(words, traces, layout, table, mode, _HEIGHT)


def _extent(values: Sequence[float], scale: Scale) -> tuple[float, float]:
    """Range of an axis, in decades on a log axis; linear axes begin at nothing."""
    if scale == "linear":
        return 0.0, max([*values, 1e-12]) * (1 + _PAD)
    logs = [math.log10(value) for value in values if value > 0] or [0.0]
    pad = max(_PAD * (max(logs) - min(logs)), 0.1)
    return min(logs) - pad, max(logs) + pad


def _axis(title: str, scale: Scale, extent: tuple[float, float]) -> dict[str, Any]:
    axis: dict[str, Any] = {"title": {"text": title}, "range": list(extent), "type": scale}
    if scale == "log" and extent[1] - extent[0] > _DECADES:
        axis |= {"dtick": 1, "exponentformat": "SI"}
    elif scale == "log":
        powers = range(math.floor(extent[0]), math.ceil(extent[1]) + 1)
        values = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        axis |= {"tickmode": "array", "tickvals": values, "ticktext": [f"{value:,.6g}" for value in values]}
    return axis


def _thinned(line: Curve, axes: Axes, x_range: tuple[float, float], y_range: tuple[float, float]) -> Curve:
    """Line without the labels that would cover one before them."""
    kept: list[tuple[float, float]] = []
    labels = []
    for x, y, label in zip(line.x, line.y, line.labels, strict=True):
        place = _share(x, axes.x_scale, x_range), _share(y, axes.y_scale, y_range)
        free = all(
            abs(place[0] - other[0]) > _LABEL_ROOM[0] or abs(place[1] - other[1]) > _LABEL_ROOM[1] for other in kept
        )
        labels.append(label if free else "")
        if free and label:
            kept.append(place)
    return replace(line, labels=labels)


def _share(value: float, scale: Scale, extent: tuple[float, float]) -> float:
    return (_place(value, scale) - extent[0]) / (extent[1] - extent[0])


def _line(line: Curve, colours: Palette) -> list[dict[str, Any]]:
    colour = colours.series[line.colour]
    last = max((index for index, solid in enumerate(line.solid) if solid), default=-1)
    base = {"type": "scatter", "hovertemplate": "%{customdata}<extra></extra>"}
    marker = {
        "size": 8,
        "color": [colour if solid else colours.paper for solid in line.solid],
        "line": {"color": colour, "width": 1.5},
    }
    whole = {
        **base,
        "name": line.name,
        "mode": "lines+markers+text" if line.markers else "lines",
        "x": list(line.x),
        "y": list(line.y),
        "text": list(line.labels),
        "textposition": "top center",
        "textfont": {"size": 11, "color": colours.muted},
        "customdata": list(line.notes),
        "marker": marker,
        "line": {"color": colour, "width": 2, "dash": "dot" if last < len(line.x) - 1 else "solid"},
    }
    if last == len(line.x) - 1 or last < 1:
        return [whole]
    kept = {
        "type": "scatter",
        "mode": "lines",
        "x": list(line.x[: last + 1]),
        "y": list(line.y[: last + 1]),
        "line": {"color": colour, "width": 2},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    return [kept, whole]


def _mark(mark: Mark, colours: Palette) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": mark.name,
        "x": [mark.x],
        "y": [mark.y],
        "marker": {
            "size": 15,
            "symbol": mark.symbol,
            "color": colours.series[mark.colour],
            "line": {"color": colours.text, "width": 1.5},
        },
        "hovertemplate": f"{mark.name}<extra></extra>",
    }


def _shade(
    region: Region, axes: Axes, x_range: tuple[float, float], y_range: tuple[float, float], colours: Palette
) -> dict[str, Any]:
    """Rectangle of the region, cut off at the axes; layout shapes count in values, annotations in decades."""
    x_low, x_high = (_value(end, axes.x_scale) for end in x_range)
    y_low, y_high = (_value(end, axes.y_scale) for end in y_range)
    x_from = x_low if region.x_from is None else min(max(region.x_from, x_low), x_high)
    y_to = y_high if region.y_to is None else min(max(region.y_to, y_low), y_high)
    green = colours.series[2]
    shape = {
        "type": "rect",
        "xref": "x",
        "yref": "y",
        "x0": x_from,
        "x1": x_high,
        "y0": y_low,
        "y1": y_to,
        "fillcolor": green,
        "opacity": 0.13,
        "line": {"width": 0},
        "layer": "below",
    }
    edge = {
        **shape,
        "type": "line",
        "opacity": 1,
        "line": {"color": green, "width": 1.5, "dash": "dash"},
        **({"x1": x_from} if region.x_from is not None else {"y0": y_to}),
    }
    if region.x_from is None and region.y_to is None:
        return {"annotations": [_region_note(region, None, colours)]}
    beside = region.x_from is not None and x_from <= (x_low + x_high) / 2
    place = _place(x_from, axes.x_scale) if beside else None
    return {"shapes": [shape, edge], "annotations": [_region_note(region, place, colours)]}


def _region_note(region: Region, at: float | None, colours: Palette) -> dict[str, Any]:
    """Words of the region at the bottom: right of a place on the axis, or in the corner."""
    return {
        "x": 1 if at is None else at,
        "xref": "paper" if at is None else "x",
        "xanchor": "right" if at is None else "left",
        "y": 0.01,
        "yref": "paper",
        "yanchor": "bottom",
        "text": region.label,
        "showarrow": False,
        "font": {"size": 12, "color": colours.text},
    }


def _value(end: float, scale: Scale) -> float:
    return 10.0**end if scale == "log" else end


def _place(value: float, scale: Scale) -> float:
    return math.log10(value) if scale == "log" else value
