"""Lines over one quantity, with labelled points, marks that stand out, and ranges and limits to read them against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.text import quantity, size_name
from trn2model.ui.charts.chart import Axis, Chart, Words, canvas, compose, log_axis, note, rule, stripe
from trn2model.ui.charts.labels import SMALL, Box, Placer, Plane, Point, Range, Scale, text_size
from trn2model.ui.charts.style import Mode, Palette, palette
from trn2model.ui.tables import Table

_HEIGHT: Final = 360
#: Room round the points as a share of the axis, and at least so many decades of it.
_PAD: Final = 0.08
_LEAST_PAD: Final = 0.1
#: Powers of two between ticks of a size.
_SIZE_STEP: Final = 6
_MARKER: Final = 8
#: Markers on a line whose points are too many to mark each.
_MOST_MARKERS: Final = 9
#: Diameter of marks that are many, and of those that stand out in a colour. [px]
_MARKS: Final = (10, 15)
#: Half the room that a limit's line takes. [px]
_EDGE: Final = 2.0
_REGION_OPACITY: Final = 0.13
_BAND_OPACITY: Final = (0.05, 0.11)
#: Where a limit is that lies off an axis, before it and after it.
_BEYOND: Final = {"x": ("left of", "right of"), "y": ("below", "above")}


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of points, which dash and symbol tell from others without colour.

    A `solid` of false draws that point hollow and its way dotted; without any, some points carry a marker.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int
    notes: Sequence[str] = ()
    labels: Sequence[str] = ()
    solid: Sequence[bool] = ()
    dash: str = "solid"
    symbol: str = "circle"
    markers: bool = True


@dataclass(frozen=True, slots=True)
class Mark:
    """A single point with hover text."""

    x: float
    y: float
    note: str


@dataclass(frozen=True, slots=True)
class Marks:
    """Points of one kind under one name in the legend: hollow ones are measured, those in a colour stand out."""

    name: str
    points: tuple[Mark, ...]
    symbol: str
    hollow: bool = False
    colour: int | None = None

    @property
    def size(self) -> int:
        """Diameter of its markers [px]."""
        return _MARKS[self.colour is not None]


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
class Band:
    """A range of the horizontal axis with a label above the plot."""

    low: float
    high: float
    label: str


@dataclass(frozen=True, slots=True)
class Crossing:
    """A place at which the lowest line changes."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Axes:
    """Titles and scales; values in an SI unit are named in the everyday one, those in B run from edge to edge."""

    x_title: str
    y_title: str
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    x_unit: str = ""
    y_unit: str = ""


def line_chart(
    words: Words,
    lines: Sequence[Curve],
    axes: Axes,
    *,
    table: Table,
    mode: Mode,
    marks: Sequence[Marks] = (),
    least: Sequence[float] = (),
    region: Region | None = None,
    bands: Sequence[Band] = (),
    crossings: Sequence[Crossing] = (),
) -> Chart:
    """Curves with fixed axes; `least` is emphasised under the others."""
    colours, shown = palette(mode), [kind for kind in marks if kind.points]
    xs = [x for line in lines for x in line.x] + [mark.x for kind in shown for mark in kind.points]
    ys = [y for line in lines for y in line.y] + [mark.y for kind in shown for mark in kind.points]
    x_range, y_range = _extent(xs, axes.x_scale, axes.x_unit), _extent(ys, axes.y_scale, axes.y_unit)
    layout: dict[str, Any] = {
        "xaxis": _axis(axes.x_title, axes.x_scale, x_range, axes.x_unit),
        "yaxis": _axis(axes.y_title, axes.y_scale, y_range, axes.y_unit),
        "legend": {"y": -0.2, "traceorder": "normal"},
        "showlegend": len(lines) + len(shown) > 1,
        "hovermode": "closest",
        "margin": {"t": 24 if bands else 8, "r": 30 if axes.x_unit else 16},
    }
    plane = Plane((axes.x_scale, axes.y_scale), x_range, y_range, canvas(layout, _HEIGHT))
    placer = _obstacles(lines, shown, crossings, plane)
    drawn = [
        *(_band(band, number, plane, colours) for number, band in enumerate(bands)),
        *([_region(region, plane, placer, colours)] if region else []),
        *(_crossing(crossing, plane, placer, colours) for crossing in crossings),
    ]
    layout["shapes"] = [shape for shapes, _ in drawn for shape in shapes]
    layout["annotations"] = [words for _, words in drawn]
    traces = [_least(lines[0].x, least, colours)] if len(least) else []
    traces += [trace for line in lines for trace in _line(line, axes, _sides(line, plane, placer), colours)]
    traces += [_marks(kind, colours) for kind in shown]
    return compose(words, traces, layout, table, mode=mode, height=_HEIGHT)


def _extent(values: Sequence[float], scale: Scale, unit: str) -> Range:
    """Range of an axis, in decades on a log axis; linear axes begin at nothing."""
    if scale == "linear":
        return 0.0, max([*values, 1e-12]) * (1 + _PAD)
    logs = [math.log10(value) for value in values if value > 0] or [0.0]
    pad = 0.0 if unit == "B" else max(_PAD * (max(logs) - min(logs)), _LEAST_PAD)
    return min(logs) - pad, max(logs) + pad


def _axis(title: str, scale: Scale, extent: Range, unit: str) -> dict[str, Any]:
    if scale == "linear":
        return {"type": scale, "title": {"text": title}, "range": list(extent), "fixedrange": True}
    axis = log_axis(title, extent, unit)
    if unit == "B":
        first, last = (end / math.log10(2.0) for end in extent)
        ticks = [2.0**power for power in range(math.ceil(first), math.floor(last) + 1, _SIZE_STEP)]
        axis |= {"tickvals": ticks, "ticktext": [size_name(tick) for tick in ticks]}
    return axis


def _obstacles(lines: Sequence[Curve], marks: Sequence[Marks], crossings: Sequence[Crossing], plane: Plane) -> Placer:
    """Everything that words must keep off."""
    placer = Placer(plane.size)
    for line in lines:
        placer.add_line(plane.at(line.x, line.y))
    for crossing in crossings:
        at = plane.across(crossing.x)
        placer.add_line([(at, 0.0), (at, plane.size[1])])
    for kind in marks:
        for point in plane.at([mark.x for mark in kind.points], [mark.y for mark in kind.points]):
            placer.add_mark(point, kind.size)
    return placer


def _least(x: Sequence[float], y: Sequence[float], colours: Palette) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "cheapest",
        "x": list(x),
        "y": list(y),
        "line": {"width": 11, "color": colours.line},
        "opacity": 0.4,
        "hoverinfo": "skip",
    }


def _line(line: Curve, axes: Axes, sides: Sequence[str], colours: Palette) -> list[dict[str, Any]]:
    """The line; where its end is hollow, its solid part as a line of its own below it."""
    colour, count = colours.series[line.colour], len(line.x)
    solid = line.solid or [True] * count
    last = max((index for index, kept in enumerate(solid) if kept), default=-1)
    whole = {
        "type": "scatter",
        "mode": "lines+markers+text" if line.markers else "lines",
        "name": line.name,
        "x": list(line.x),
        "y": list(line.y),
        "text": [label if side else "" for label, side in zip(line.labels, sides, strict=False)],
        "textposition": [side or "top center" for side in sides] or "top center",
        "textfont": {"size": SMALL, "color": colours.muted},
        "cliponaxis": not line.markers,
        "customdata": list(line.notes) or _notes(line, axes),
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "symbol": line.symbol,
            "size": _MARKER,
            "color": [colour if kept else colours.paper for kept in solid],
            "line": {"color": colour, "width": 1.5},
            "maxdisplayed": 0 if line.solid else _MOST_MARKERS,
        },
        "line": {"color": colour, "width": 2, "dash": "dot" if last < count - 1 else line.dash},
    }
    if last == count - 1 or last < 1:
        return [whole]
    kept = {
        "type": "scatter",
        "mode": "lines",
        "x": list(line.x[: last + 1]),
        "y": list(line.y[: last + 1]),
        "line": {"color": colour, "width": 2, "dash": line.dash},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    return [kept, whole]


def _notes(line: Curve, axes: Axes) -> list[str]:
    pairs = zip(line.x, line.y, strict=True)
    return [f"{line.name}<br>{_named(x, axes.x_unit)}: {_named(y, axes.y_unit)}" for x, y in pairs]


def _named(value: float, unit: str) -> str:
    return size_name(value) if unit == "B" else quantity(float(f"{value:.3g}"), unit)


def _sides(line: Curve, plane: Plane, placer: Placer) -> list[str]:
    """Side of its point for each label, empty where it would cover something."""
    if not any(line.labels):
        return [""] * len(line.labels)
    points = plane.at(line.x, line.y)
    return [
        placer.beside(label, point, _MARKER, _clear(points, index)) if label else ""
        for index, (point, label) in enumerate(zip(points, line.labels, strict=True))
    ]


def _clear(points: Sequence[Point], index: int) -> tuple[str, ...]:
    """Sides that a line leaves free: above a rising one is left of a point, above a falling one right of it."""
    before, after = points[max(index - 1, 0)], points[min(index + 1, len(points) - 1)]
    rising = (after[0] - before[0]) * (after[1] - before[1]) >= 0
    return ("top left", "bottom right", "top center") if rising else ("top right", "bottom left", "top center")


def _marks(marks: Marks, colours: Palette) -> dict[str, Any]:
    colour = colours.text if marks.colour is None else colours.series[marks.colour]
    edge = {"width": 1, "color": colours.paper} if marks.colour is None else {"width": 1.5, "color": colours.text}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": marks.name,
        "x": [mark.x for mark in marks.points],
        "y": [mark.y for mark in marks.points],
        "marker": {
            "size": marks.size,
            "symbol": f"{marks.symbol}-open" if marks.hollow else marks.symbol,
            "color": colour,
            "line": {"width": 2, "color": colour} if marks.hollow else edge,
        },
        "cliponaxis": False,
        "customdata": [mark.note for mark in marks.points],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


Drawn = tuple[list[dict[str, Any]], dict[str, Any]]


def _region(region: Region, plane: Plane, placer: Placer, colours: Palette) -> Drawn:
    """Shapes and words of the region; a limit off the axes has no line."""
    upright = region.x_from is not None
    limit, (width, height) = region.x_from if upright else region.y_to, plane.size
    axis: Axis = "x" if upright else "y"
    whole = (0.0, 0.0, width, height)
    if limit is None:
        return [], _corner_note(region.label, whole, placer, colours, from_left=False)
    at, most = (plane.across(limit), width) if upright else (plane.up(limit), height)
    low, high = _ends(plane.x_range, plane.scales[0]) if upright else _ends(plane.y_range, plane.scales[1])
    ends = (max(limit, low), high) if upright else (low, min(limit, high))
    shapes = [stripe(colours.series[2], _REGION_OPACITY, axis, ends)] if ends[0] < ends[1] else []
    if not 0.0 <= at <= most:
        text = f"{region.limit or region.label}: {_BEYOND[axis][at > most]} this chart"
        return shapes, _corner_note(text, whole, placer, colours, from_left=upright)
    placer.taken.append((at - _EDGE, 0.0, at + _EDGE, height) if upright else (0.0, at - _EDGE, width, at + _EDGE))
    room = (at, 0.0, width, height) if upright else (0.0, 0.0, width, at)
    shapes.append(rule(colours.series[2], axis, limit, width=1.5))
    return shapes, _corner_note(region.label, room, placer, colours, from_left=upright)


def _ends(extent: Range, scale: Scale) -> Range:
    """Values at the ends of an axis, in which shapes count."""
    return (10.0 ** extent[0], 10.0 ** extent[1]) if scale == "log" else extent


def _corner_note(text: str, room: Box, placer: Placer, colours: Palette, *, from_left: bool) -> dict[str, Any]:
    """Words in a corner of a room, held at the side of the plot that they are closer to."""
    lines, (left, bottom, right, _) = placer.corner(text, room, from_left=from_left)
    width, height = placer.size
    side = "right" if left + right > width else "left"
    x = min(right / width, 1.0) if side == "right" else left / width
    place = {"xref": "paper", "yref": "paper", "align": side}
    return note("<br>".join(lines), x, bottom / height, colours.text, across=side) | place


def _band(band: Band, number: int, plane: Plane, colours: Palette) -> Drawn:
    low, high = _ends(plane.x_range, plane.scales[0])
    ends = max(band.low, low), min(band.high, high)
    middle = (math.log10(ends[0]) + math.log10(ends[1])) / 2
    label = note(band.label, middle, 1, colours.muted, across="center", yref="paper")
    return [stripe(colours.text, _BAND_OPACITY[number % 2], "x", ends)], label


def _crossing(crossing: Crossing, plane: Plane, placer: Placer, colours: Palette) -> Drawn:
    """Line at the crossing, and its name along it where it covers the least."""
    at, (length, line) = plane.across(crossing.x), text_size(crossing.label)
    spots = [(side, end) for side in ("right", "left") for end in ("top", "bottom")]
    lefts = {"right": at - 1 - line, "left": at + 1}
    lows = {"top": plane.size[1] - length, "bottom": 0.0}
    boxes = [(lefts[side], lows[end], lefts[side] + line, lows[end] + length) for side, end in spots]
    side, end = spots[placer.best(boxes)]
    name = note(crossing.label, math.log10(crossing.x), float(end == "top"), colours.text, across=side, up=end)
    name |= {"yref": "paper", "textangle": -90}
    return [rule(colours.muted, "x", crossing.x, width=1, dash="dot")], name
