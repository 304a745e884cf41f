"""Bars of parts, one row per alternative, told apart by pattern as well as by colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.charts.template import Mode, palette
from trn2model.ui.tables import Table

_ROW_HEIGHT: Final = 62
_LETTER_SHARE: Final = 0.045
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
    extent = max(sum(row.values) for row in rows) / (1 - min(_LETTER_SHARE * longest, 0.5))
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
    return compose(words, traces, layout, table, mode, 150 + _ROW_HEIGHT * len(rows))


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
