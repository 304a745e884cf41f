"""Log-log roofline: attained FLOP rate against operational intensity, under one or more ceilings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.chart import Chart, Words, canvas, compose, log_axis
from trn2model.ui.charts.labels import SMALL, Placer, Plane, Range
from trn2model.ui.charts.style import Mode, palette
from trn2model.ui.tables import Table

_HEIGHT: Final = 410
_SYMBOLS: Final = ("circle", "diamond", "square", "triangle-up", "cross", "star")


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A bandwidth slope and a FLOP roof, both in axis units."""

    name: str
    bandwidth: float
    flop_rate: float
    dash: str
    colour: int | None


@dataclass(frozen=True, slots=True)
class Point:
    """One operator: intensity and attained rate in axis units, share of the step from 0 to 1."""

    name: str
    group: str
    intensity: float
    rate: float
    share: float
    note: str


def roofline(
    words: Words,
    ceilings: Sequence[Ceiling],
    points: Sequence[Point],
    axis_titles: tuple[str, str],
    *,
    table: Table,
    mode: Mode,
) -> Chart:
    """Roofline with a mark per operator; area of a mark follows its share of the time."""
    x_range, y_range = _frame(ceilings, points)
    layout: dict[str, Any] = {
        "xaxis": _axis(axis_titles[0], x_range),
        "yaxis": _axis(axis_titles[1], y_range),
        "legend": {"y": -0.16},
        "hovermode": "closest",
    }
    traces = [_ceiling_trace(ceiling, x_range, mode) for ceiling in ceilings]
    plane = Plane(("log", "log"), x_range, y_range, canvas(layout, _HEIGHT, wide=True))
    sides = _sides(points, traces, plane)
    groups = dict.fromkeys(point.group for point in points)
    for index, group in enumerate(groups):
        members = [point for point in points if point.group == group]
        traces.append(_group_trace(group, members, index, sides, mode=mode))
    return compose(words, traces, layout, table, mode=mode, height=_HEIGHT, wide=True)


def _frame(ceilings: Sequence[Ceiling], points: Sequence[Point]) -> tuple[Range, Range]:
    """Decades that hold every mark and the ridge of the first ceiling."""
    ridge = ceilings[0].flop_rate / ceilings[0].bandwidth
    intensities = [point.intensity for point in points] + [ridge]
    rates = [point.rate for point in points] + [ceilings[0].flop_rate]
    x_low, x_high = math.floor(math.log10(min(intensities) / 1.5)), math.log10(max(intensities)) + 0.5
    y_low = math.floor(math.log10(min(rates) / 1.5))
    y_high = math.log10(max(ceiling.flop_rate for ceiling in ceilings)) + 0.25
    return (x_low, x_high), (y_low, y_high)


def _axis(title: str, extent: Range) -> dict[str, Any]:
    return {**log_axis(title, extent), "exponentformat": "none", "minor": {"ticks": "outside", "ticklen": 2}}


def _ceiling_trace(ceiling: Ceiling, x_range: Range, mode: Mode) -> dict[str, Any]:
    colours = palette(mode)
    ridge = ceiling.flop_rate / ceiling.bandwidth
    start, end = 10.0 ** x_range[0], 10.0 ** x_range[1]
    colour = colours.text if ceiling.colour is None else colours.series[ceiling.colour]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": ceiling.name,
        "x": [start, ridge, end],
        "y": [start * ceiling.bandwidth, ceiling.flop_rate, ceiling.flop_rate],
        "line": {"color": colour, "width": 2, "dash": ceiling.dash},
        "hoverinfo": "skip",
    }


def _size(point: Point) -> float:
    """Diameter of a mark [px]."""
    return 9 + 26 * math.sqrt(point.share)


def _sides(points: Sequence[Point], ceilings: Sequence[Mapping[str, Any]], plane: Plane) -> dict[str, str]:
    """Side of its mark for each name, the longest-running operators first; empty where every side is taken."""
    placer = Placer(plane.size)
    for ceiling in ceilings:
        placer.add_line(plane.at(ceiling["x"], ceiling["y"]))
    ordered = sorted(points, key=lambda point: -point.share)
    places = plane.at([point.intensity for point in ordered], [point.rate for point in ordered])
    for point, place in zip(ordered, places, strict=True):
        placer.add_mark(place, _size(point))
    pairs = zip(ordered, places, strict=True)
    return {point.name: placer.beside(point.name, place, _size(point)) for point, place in pairs}


def _group_trace(
    group: str, members: Sequence[Point], index: int, sides: Mapping[str, str], *, mode: Mode
) -> dict[str, Any]:
    colours = palette(mode)
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": group,
        "text": [point.name if sides[point.name] else "" for point in members],
        "textposition": [sides[point.name] or "top center" for point in members],
        "textfont": {"size": SMALL, "color": colours.muted},
        "x": [point.intensity for point in members],
        "y": [point.rate for point in members],
        "customdata": [[point.name, point.note] for point in members],
        "hovertemplate": "<b>%{customdata[0]}</b><br>%{customdata[1]}<extra></extra>",
        "marker": {
            "symbol": _SYMBOLS[index % len(_SYMBOLS)],
            "size": [_size(point) for point in members],
            "color": colours.series[index],
            "opacity": 0.9,
            "line": {"width": 1.2, "color": colours.paper},
        },
    }
