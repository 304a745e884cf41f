"""Log-log roofline: attained FLOP rate against operational intensity, under one or more ceilings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.charts.labels import Label, place_labels
from trn2model.ui.charts.style import Mode, palette
from trn2model.ui.tables import Table

Range = tuple[float, float]
#: Plot area of the chart on a usual screen, where names are laid out. [px]
_CANVAS: Final = (860.0, 340.0)
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
    table: Table,
    mode: Mode,
) -> Chart:
    """Roofline with a mark per operator; area of a mark follows its share of the time."""
    x_range, y_range = _frame(ceilings, points)
    traces = [_ceiling_trace(ceiling, x_range, mode) for ceiling in ceilings]
    places = _label_places(points, x_range, y_range)
    groups = dict.fromkeys(point.group for point in points)
    for index, group in enumerate(groups):
        members = [point for point in points if point.group == group]
        traces.append(_group_trace(group, members, index, mode, places))
    layout: dict[str, Any] = {
        "xaxis": _log_axis(axis_titles[0], x_range),
        "yaxis": _log_axis(axis_titles[1], y_range),
        "legend": {"y": -0.16},
        "hovermode": "closest",
    }
    return compose(words, traces, layout, table, mode, 410, wide=True)


def _frame(ceilings: Sequence[Ceiling], points: Sequence[Point]) -> tuple[Range, Range]:
    """Decades that hold every mark and the ridge of the first ceiling."""
    ridge = ceilings[0].flop_rate / ceilings[0].bandwidth
    intensities = [point.intensity for point in points] + [ridge]
    rates = [point.rate for point in points] + [ceilings[0].flop_rate]
    x_low, x_high = math.floor(math.log10(min(intensities) / 1.5)), math.log10(max(intensities)) + 0.5
    y_low = math.floor(math.log10(min(rates) / 1.5))
    y_high = math.log10(max(ceiling.flop_rate for ceiling in ceilings)) + 0.25
    return (x_low, x_high), (y_low, y_high)


def _log_axis(title: str, extent: Range) -> dict[str, Any]:
    return {
        "type": "log",
        "range": list(extent),
        "title": {"text": title},
        "dtick": 1,
        "exponentformat": "none",
        "minor": {"ticks": "outside", "ticklen": 2},
    }


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


def _label_places(points: Sequence[Point], x_range: Range, y_range: Range) -> dict[str, str]:
    """Where each operator's name goes on a chart of usual size, the longest-running operators first."""
    ordered = sorted(points, key=lambda point: -point.share)
    width, height = _CANVAS
    labels = [
        Label(
            point.name,
            width * (math.log10(point.intensity) - x_range[0]) / (x_range[1] - x_range[0]),
            height * (math.log10(point.rate) - y_range[0]) / (y_range[1] - y_range[0]),
        )
        for point in ordered
    ]
    places = place_labels(labels, _CANVAS)
    return {point.name: place for point, place in zip(ordered, places, strict=True) if place}


def _group_trace(
    group: str, members: Sequence[Point], index: int, mode: Mode, places: Mapping[str, str]
) -> dict[str, Any]:
    colours = palette(mode)
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": group,
        "text": [point.name if point.name in places else "" for point in members],
        "textposition": [places.get(point.name, "top center") for point in members],
        "textfont": {"size": 11, "color": colours.muted},
        "x": [point.intensity for point in members],
        "y": [point.rate for point in members],
        "customdata": [[point.name, point.note] for point in members],
        "hovertemplate": "<b>%{customdata[0]}</b><br>%{customdata[1]}<extra></extra>",
        "marker": {
            "symbol": _SYMBOLS[index % len(_SYMBOLS)],
            "size": [9 + 26 * math.sqrt(point.share) for point in members],
            "color": colours.series[index],
            "opacity": 0.9,
            "line": {"width": 1.2, "color": colours.paper},
        },
    }
