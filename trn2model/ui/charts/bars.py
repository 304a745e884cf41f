"""Bars: a whole and its parts, one value per row, and parts of several alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.chart import Chart, Words, compose, name_axis, note, rule, stripe
from trn2model.ui.charts.style import Mode, Palette, ink_on, palette
from trn2model.ui.tables import Table

#: Smallest share of the axis on which a label fits inside its segment.
_LABEL_SHARE: Final = 0.07
#: Share of the axis that one letter of a label behind a bar takes on a narrow chart.
_LETTER_SHARE: Final = 0.026
_ROW_HEIGHT: Final = 28
_PART_ROW_HEIGHT: Final = 62
_PATTERNS: Final = ("", "/", "x", "-", ".", "\\", "|", "+")


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


@dataclass(frozen=True, slots=True)
class PartRow:
    """One bar: its name, the sizes of its parts in the order of the chart's part names, and the label of the whole."""

    name: str
    values: tuple[float, ...]
    texts: tuple[str, ...]
    label: str


def stacked_bar(
    words: Words, parts: Sequence[Part], axis_title: str, limit: Limit | None = None, *, table: Table, mode: Mode
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
    traces = [_segment(part, extent, colours) for part in shown]
    return compose(words, traces, layout, table, mode=mode, height=150)


def row_bars(
    words: Words, rows: Sequence[Row], axis_title: str, limit: Limit | None = None, *, table: Table, mode: Mode
) -> Chart:
    """Horizontal bars, one per row from the top, each with its label behind it."""
    colours = palette(mode)
    extent = _extent([row.start + row.value for row in rows], rows, limit.value if limit else 0.0)
    bars = _labelled(rows, colours) | {
        "base": [row.start for row in rows],
        "marker": {"color": [colours.series[row.colour] for row in rows]},
    }
    layout = _rows_layout(axis_title, extent, colours) | {"showlegend": False, "margin": {"t": 22 if limit else 4}}
    if limit:
        layout |= _limit_line(limit, 0.0, extent, colours)
    return compose(words, [bars], layout, table, mode=mode, height=_height(rows))


def overlap_bars(
    words: Words, rows: Sequence[Row], names: tuple[str, str], axis_title: str, *, table: Table, mode: Mode
) -> Chart:
    """Horizontal bars of a whole in grey, with the share that counts, `start`, drawn over it in colour."""
    colours = palette(mode)
    whole = _labelled(rows, colours) | {
        "name": names[1],
        "marker": {"color": colours.grid, "line": {"width": 1, "color": colours.line}},
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
    layout = _rows_layout(axis_title, _extent([row.value for row in rows], rows), colours) | {
        "barmode": "overlay",
        "legend": {"traceorder": "normal", "y": -0.3},
    }
    return compose(words, [whole, share], layout, table, mode=mode, height=_height(rows))


def part_rows(
    words: Words,
    names: Sequence[tuple[str, int]],
    rows: Sequence[PartRow],
    axis_title: str,
    *,
    table: Table,
    mode: Mode,
) -> Chart:
    """Horizontal bars made of the same parts, the whole printed behind each."""
    colours = palette(mode)
    shown = [index for index in range(len(names)) if any(row.values[index] > 0 for row in rows)]
    totals = [sum(row.values) for row in rows]
    layout = _rows_layout(axis_title, _extent(totals, rows), colours) | {
        "barmode": "stack",
        "legend": {"traceorder": "normal", "y": -0.28},
        "annotations": [
            note(f"<b>{row.label}</b>", total, row.name, colours.text, up="middle", xshift=6)
            for row, total in zip(rows, totals, strict=True)
        ],
    }
    traces = [_part(names[index], index, rows, colours) for index in shown]
    return compose(words, traces, layout, table, mode=mode, height=150 + _PART_ROW_HEIGHT * len(rows))


def _height(rows: Sequence[Row]) -> int:
    return 70 + _ROW_HEIGHT * max(len(rows), 2)


def _extent(ends: Sequence[float], rows: Sequence[Row | PartRow], least: float = 0.0) -> float:
    """End of the axis, with room for the labels behind the bars."""
    longest = max((len(row.label) for row in rows), default=0)
    return max([*ends, least, 1e-12]) / (1 - min(_LETTER_SHARE * longest, 0.5))


def _rows_layout(axis_title: str, extent: float, colours: Palette) -> dict[str, Any]:
    return {
        "bargap": 0.3,
        "margin": {"t": 4},
        "xaxis": {"range": [0, extent], "title": {"text": axis_title}},
        "yaxis": name_axis(colours),
    }


def _labelled(rows: Sequence[Row], colours: Palette) -> dict[str, Any]:
    """Bars with their labels behind them."""
    return {
        "type": "bar",
        "orientation": "h",
        "y": [row.name for row in rows],
        "x": [row.value for row in rows],
        "text": [row.label for row in rows],
        "textposition": "outside",
        "cliponaxis": False,
        "textfont": {"size": 12, "color": colours.text},
        "hovertemplate": "%{y}: %{text}<extra></extra>",
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
        **inside_text(12, colour),
        "marker": {"color": colour, "line": {"width": 1, "color": colours.paper}},
        "hovertemplate": f"{part.name}: {part.label}<extra></extra>",
    }


def inside_text(size: int, colour: str) -> dict[str, Any]:
    """Text in the middle of a bar of a colour."""
    return {
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "inside",
        "textfont": {"size": size, "color": ink_on(colour)},
    }


def _part(name: tuple[str, int], index: int, rows: Sequence[PartRow], colours: Palette) -> dict[str, Any]:
    colour = colours.series[name[1]]
    return {
        "type": "bar",
        "orientation": "h",
        "name": name[0],
        "y": [row.name for row in rows],
        "x": [row.values[index] for row in rows],
        "customdata": [row.texts[index] for row in rows],
        "marker": {
            "color": colour,
            "line": {"width": 1, "color": colours.paper},
            "pattern": {
                "shape": _PATTERNS[index % len(_PATTERNS)],
                "bgcolor": colour,
                "fgcolor": colours.paper,
                "fgopacity": 0.75,
                "size": 7,
                "solidity": 0.25,
            },
        },
        "hovertemplate": f"%{{y}}<br>{name[0]}: %{{customdata}}<extra></extra>",
    }


def _limit_line(limit: Limit, total: float, extent: float, colours: Palette) -> dict[str, Any]:
    """Limit with its name above it, and what lies beyond it shaded."""
    over = total > limit.value
    colour = colours.alert if over else colours.text
    beyond = [stripe(colours.alert, 0.18, "x", (limit.value, total)) | {"layer": "above"}] if over else []
    across = "right" if limit.value > 0.6 * extent else "left"
    return {
        "shapes": [rule(colour, "x", limit.value), *beyond],
        "annotations": [note(limit.label, limit.value, 1, colour, across=across, yref="paper")],
    }
