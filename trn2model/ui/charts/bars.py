"""Bars: a whole and its parts, one value per row, and parts of several alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.charts.style import Mode, Palette, ink_on, palette
from trn2model.ui.tables import Table

#: Smallest share of the axis on which a label fits inside its segment.
_LABEL_SHARE: Final = 0.07
_ROW_HEIGHT: Final = 28
#: Share of the axis that one letter of a label takes on a narrow chart.
_LETTER_SHARE: Final = 0.024


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a whole: a name, its number on the axis, its label and its place in the palette."""

    name: str
    value: float
    label: str
    colour: int


@dataclass(frozen=True, slots=True)
class Limit:
    """A line that the bar should not cross."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled bar; `start` is where it begins on the axis."""

    name: str
    start: float
    value: float
    label: str
    colour: int


def stacked_bar(
    words: Words, parts: Sequence[Part], axis_title: str, limit: Limit | None, table: Table, mode: Mode
) -> Chart:
    """One horizontal bar of parts, with the values in the legend and an optional limit line."""
    colours = palette(mode)
    shown = [part for part in parts if part.value > 0]
    total = sum(part.value for part in shown)
    extent = 1.04 * max(total, limit.value if limit else 0.0, 1e-12)
    layout: dict[str, Any] = {
        "barmode": "stack",
        "bargap": 0.25,
        "xaxis": {"range": [0, extent], "title": {"text": axis_title}},
        "yaxis": {"showticklabels": False, "ticks": "", "showgrid": False, "fixedrange": True},
        "legend": {"traceorder": "normal", "y": -0.55, "yref": "paper"},
        "uniformtext": {"minsize": 12, "mode": "hide"},
        "margin": {"r": 16, "t": 22 if limit else 4},
    }
    if limit:
        layout |= _limit_line(limit, total, extent, colours)
    return compose(words, [_segment(part, extent, colours) for part in shown], layout, table, mode, 150)


def row_bars(
    words: Words, rows: Sequence[Row], axis_title: str, limit: Limit | None, table: Table, mode: Mode
) -> Chart:
    """Horizontal bars, one per row from the top, each with its label behind it."""
    colours = palette(mode)
    ends = [row.start + row.value for row in rows]
    longest = max((len(row.label) for row in rows), default=0)
    extent = max([*ends, limit.value if limit else 0.0, 1e-12]) / (1 - min(_LETTER_SHARE * longest, 0.5))
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": [row.name for row in rows],
        "x": [row.value for row in rows],
        "base": [row.start for row in rows],
        "text": [row.label for row in rows],
        "textposition": "outside",
        "cliponaxis": False,
        "textfont": {"size": 12, "color": colours.text},
        "marker": {"color": [colours.series[row.colour] for row in rows]},
        "hovertemplate": "%{y}: %{text}<extra></extra>",
    }
    layout: dict[str, Any] = {
        "bargap": 0.3,
        "showlegend": False,
        "margin": {"t": 22 if limit else 4},
        "xaxis": {"range": [0, extent], "title": {"text": axis_title}},
        "yaxis": _row_axis(colours),
    }
    if limit:
        layout |= _limit_line(limit, 0.0, extent, colours)
    return compose(words, [trace], layout, table, mode, 70 + _ROW_HEIGHT * max(len(rows), 2))


def overlap_bars(
    words: Words, rows: Sequence[Row], names: tuple[str, str], axis_title: str, table: Table, mode: Mode
) -> Chart:
    """Horizontal bars of a whole in grey, with the share that counts drawn over it in colour."""
    colours = palette(mode)
    longest = max((len(row.label) for row in rows), default=0)
    extent = max([*(row.value for row in rows), 1e-12]) / (1 - min(_LETTER_SHARE * longest, 0.5))
    whole = {
        "type": "bar",
        "orientation": "h",
        "name": names[1],
        "y": [row.name for row in rows],
        "x": [row.value for row in rows],
        "text": [row.label for row in rows],
        "textposition": "outside",
        "cliponaxis": False,
        "textfont": {"size": 12, "color": colours.text},
        "marker": {"color": colours.grid, "line": {"width": 1, "color": colours.line}},
        "hovertemplate": "%{y}: %{text}<extra></extra>",
    }
    share = {
        "type": "bar",
        "orientation": "h",
        "name": names[0],
        "y": whole["y"],
        "x": [row.start for row in rows],
        "width": 0.36,
        "marker": {"color": [colours.series[row.colour] for row in rows]},
        "hoverinfo": "skip",
    }
    layout: dict[str, Any] = {
        "barmode": "overlay",
        "bargap": 0.3,
        "margin": {"t": 4},
        "legend": {"traceorder": "normal", "y": -0.3},
        "xaxis": {"range": [0, extent], "title": {"text": axis_title}},
        "yaxis": _row_axis(colours),
    }
    return compose(words, [whole, share], layout, table, mode, 70 + _ROW_HEIGHT * max(len(rows), 2))


def _row_axis(colours: Palette) -> dict[str, Any]:
    return {
        "autorange": "reversed",
        "ticks": "",
        "showgrid": False,
        "fixedrange": True,
        "tickfont": {"color": colours.text},
    }


def _segment(part: Part, extent: float, colours: Palette) -> dict[str, Any]:
    colour = colours.series[part.colour]
    return {
        "type": "bar",
        "orientation": "h",
        "name": f"{part.name} {part.label}",
        "y": [""],
        "x": [part.value],
        "text": [part.name if part.value / extent >= _LABEL_SHARE else ""],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "inside",
        "textfont": {"size": 12, "color": ink_on(colour)},
        "marker": {"color": colour, "line": {"width": 1, "color": colours.paper}},
        "hovertemplate": f"{part.name}: {part.label}<extra></extra>",
    }


def _limit_line(limit: Limit, total: float, extent: float, colours: Palette) -> dict[str, Any]:
    over = total > limit.value
    colour = colours.alert if over else colours.text
    near_end = limit.value > 0.6 * extent
    line = {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": limit.value,
        "x1": limit.value,
        "y0": 0,
        "y1": 1,
        "line": {"color": colour, "width": 2, "dash": "dash"},
    }
    note = {
        "x": limit.value,
        "xref": "x",
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "xanchor": "right" if near_end else "left",
        "text": limit.label,
        "showarrow": False,
        "font": {"size": 12, "color": colour},
    }
    excess = {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": limit.value,
        "x1": max(total, limit.value),
        "y0": 0,
        "y1": 1,
        "fillcolor": colours.alert,
        "opacity": 0.18,
        "line": {"width": 0},
    }
    return {"shapes": [line, excess] if over else [line], "annotations": [note]}


_PART_ROW_HEIGHT: Final = 62
_PART_LETTER_SHARE: Final = 0.045
_PATTERNS: Final = ("", "/", "x", "-", ".", "\\", "|", "+")


@dataclass(frozen=True, slots=True)
class PartRow:
    """One bar: its name, the sizes of its parts in the order of the chart's part names, and the label of the whole."""

    name: str
    values: tuple[float, ...]
    texts: tuple[str, ...]
    label: str


def part_rows(
    words: Words,
    names: Sequence[tuple[str, int]],
    rows: Sequence[PartRow],
    axis_title: str,
    table: Table,
    mode: Mode,
) -> Chart:
    """Horizontal bars made of the same parts, the whole printed behind each."""
    colours = palette(mode)
    shown = [index for index in range(len(names)) if any(row.values[index] > 0 for row in rows)]
    traces = [_part(names[index], index, rows, mode) for index in shown]
    longest = max(len(row.label) for row in rows)
    extent = max(sum(row.values) for row in rows) / (1 - min(_PART_LETTER_SHARE * longest, 0.5))
    layout: dict[str, Any] = {
        "barmode": "stack",
        "bargap": 0.35,
        "margin": {"t": 4},
        "legend": {"traceorder": "normal", "y": -0.28},
        "xaxis": {"range": [0, extent], "title": {"text": axis_title}, "fixedrange": True},
        "yaxis": {
            "autorange": "reversed",
            "ticks": "",
            "showgrid": False,
            "fixedrange": True,
            "tickfont": {"color": colours.text},
        },
        "annotations": [
            {
                "x": sum(row.values),
                "y": row.name,
                "text": f"<b>{row.label}</b>",
                "xanchor": "left",
                "xshift": 6,
                "showarrow": False,
                "font": {"size": 13, "color": colours.text},
            }
            for row in rows
        ],
    }
    return compose(words, traces, layout, table, mode, 150 + _PART_ROW_HEIGHT * len(rows))


def _part(name: tuple[str, int], index: int, rows: Sequence[PartRow], mode: Mode) -> dict[str, Any]:
    colours = palette(mode)
    return {
        "type": "bar",
        "orientation": "h",
        "name": name[0],
        "y": [row.name for row in rows],
        "x": [row.values[index] for row in rows],
        "customdata": [row.texts[index] for row in rows],
        "marker": {
            "color": colours.series[name[1]],
            "line": {"width": 1, "color": colours.paper},
            "pattern": {
                "shape": _PATTERNS[index % len(_PATTERNS)],
                "bgcolor": colours.series[name[1]],
                "fgcolor": colours.paper,
                "fgopacity": 0.75,
                "size": 7,
                "solidity": 0.25,
            },
        },
        "hovertemplate": f"%{{y}}<br>{name[0]}: %{{customdata}}<extra></extra>",
    }
