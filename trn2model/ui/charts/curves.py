"""Curves over one quantity, with labelled points, marks that stand out, and a shaded region to be in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.charts.labels import Box, Plane, Point, Scale, along, around, label_places, note_box
from trn2model.ui.charts.style import Mode, Palette, palette
from trn2model.ui.tables import Table

_PAD: Final = 0.08
#: Decades above which a log axis names powers of ten only.
_DECADES: Final = 2.0
#: Labelled ticks that a log axis should have, and into how many steps it is cut where it has fewer.
_FEW_TICKS: Final = 3
_STEPS: Final = 5
#: Half the room that a limit's line takes, as a share of the plot.
_EDGE: Final = 0.006
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
    sides: Sequence[str] = ()


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
    """Shaded part of the plane from a limit to the edge: right of `x_from` or below `y_to`; without one, words only.

    `limit` names the limit where it lies off the axes, so that no line can show it.
    """

    label: str
    x_from: float | None = None
    y_to: float | None = None
    limit: str = ""


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
    """Curves with fixed axes."""
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
    plane = Plane(axes.x_scale, axes.y_scale, x_range, y_range)
    taken = [around((plane.across(mark.x), plane.up(mark.y))) for mark in marks]
    written = region is not None or any(label for line in lines for label in line.labels)
    places = [place for line in lines for place in along(_corners(line, plane))] if written else []
    if region:
        shaded, boxes = _shade(region, plane, places, taken, colours)
        layout |= shaded
        taken += boxes
    traces = [trace for line in lines for trace in _line(_labelled(line, plane, places, taken), colours)]
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
        values = _ticks(extent)
        axis |= {"tickmode": "array", "tickvals": values, "ticktext": [f"{value:,.6g}" for value in values]}
    return axis


def _ticks(extent: tuple[float, float]) -> list[float]:
    """Ones, twos and fives of a short log axis; equal steps where it holds too few of them to be read."""
    low, high = 10.0 ** extent[0], 10.0 ** extent[1]
    powers = range(math.floor(extent[0]), math.ceil(extent[1]) + 1)
    values = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    shown = [value for value in values if low <= value <= high]
    if len(shown) >= _FEW_TICKS:
        return shown
    least = (high - low) / _STEPS
    unit = 10.0 ** math.floor(math.log10(least))
    step = next(digit * unit for digit in (1, 2, 5, 10) if digit * unit >= least)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _corners(line: Curve, plane: Plane) -> list[Point]:
    return [(plane.across(x), plane.up(y)) for x, y in zip(line.x, line.y, strict=True)]


def _labelled(line: Curve, plane: Plane, places: Sequence[Point], taken: Sequence[Box]) -> Curve:
    """Line with its labels placed, without those that would cover something."""
    if not any(line.labels):
        return line
    labels, sides = label_places(_corners(line, plane), line.labels, places, taken)
    return replace(line, labels=labels, sides=sides)


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
        "textposition": list(line.sides) or "top center",
        "cliponaxis": not line.markers,
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
        "cliponaxis": False,
        "hovertemplate": f"{mark.name}<extra></extra>",
    }


def _shade(
    region: Region, plane: Plane, places: Sequence[Point], taken: Sequence[Box], colours: Palette
) -> tuple[dict[str, Any], list[Box]]:
    """Shapes and words of the region, and the room they take; a limit off the axes has no line."""
    whole = (0.0, 0.0, 1.0, 1.0)
    if region.x_from is not None:
        at = plane.across(region.x_from)
        beyond = {-1: "left of", 1: "right of"}
        shaded, edge = (max(at, 0.0), 0.0, 1.0, 1.0), (at - _EDGE, 0.0, at + _EDGE, 1.0)
    elif region.y_to is not None:
        at = plane.up(region.y_to)
        beyond = {-1: "below", 1: "above"}
        shaded, edge = (0.0, 0.0, 1.0, min(at, 1.0)), (0.0, at - _EDGE, 1.0, at + _EDGE)
    else:
        words, box = note_box(region.label, whole, False, places, taken)
        return {"annotations": [_region_note(words, box, colours)]}, [box]
    off = (at > 1) - (at < 0)
    text = f"{region.limit or region.label}: {beyond[off]} this chart" if off else region.label
    edges = [] if off else [edge]
    words, box = note_box(text, whole if off else shaded, region.x_from is not None, places, [*taken, *edges])
    empty = off and (off > 0) == (region.x_from is not None)
    shapes = [] if empty else _shapes(region, plane, bool(off), colours)
    return {"shapes": shapes, "annotations": [_region_note(words, box, colours)]}, [box, *edges]


def _shapes(region: Region, plane: Plane, off: bool, colours: Palette) -> list[dict[str, Any]]:
    """Rectangle of the region, and its limit unless it is off the axes; shapes count in values, not in decades."""
    x_low, x_high = (_value(end, plane.x_scale) for end in plane.x_range)
    y_low, y_high = (_value(end, plane.y_scale) for end in plane.y_range)
    x_from = x_low if region.x_from is None or off else region.x_from
    y_to = y_high if region.y_to is None or off else region.y_to
    green = colours.series[2]
    area = {"type": "rect", "xref": "x", "yref": "y", "x0": x_from, "x1": x_high, "y0": y_low, "y1": y_to}
    area |= {"fillcolor": green, "opacity": 0.13, "line": {"width": 0}, "layer": "below"}
    if off:
        return [area]
    edge = {
        **area,
        "type": "line",
        "opacity": 1,
        "line": {"color": green, "width": 1.5, "dash": "dash"},
        **({"x1": x_from} if region.x_from is not None else {"y0": y_to}),
    }
    return [area, edge]


def _region_note(lines: Sequence[str], box: Box, colours: Palette) -> dict[str, Any]:
    """Words of the region, held at the side of the plot that they are closer to."""
    right = box[0] + box[2] > 1
    return {
        "x": min(box[2], 1.0) if right else box[0],
        "xref": "paper",
        "xanchor": "right" if right else "left",
        "y": box[1],
        "yref": "paper",
        "yanchor": "bottom",
        "text": "<br>".join(lines),
        "align": "right" if right else "left",
        "showarrow": False,
        "font": {"size": 12, "color": colours.text},
    }


def _value(end: float, scale: Scale) -> float:
    return 10.0**end if scale == "log" else end
