"""Schedules as bars in time: one row per worker, one colour per kind of task, gaps where it waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.charts.template import Mode, Palette, ink_on, palette
from trn2model.ui.tables import Table

#: Bars narrower than this share of the axis carry no text.
_TEXT_SHARE: Final = 0.022
_ROW_HEIGHT: Final = 30
_SHORT_ROW: Final = 18
_MANY_ROWS: Final = 12


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of one kind: on which row, from when, how long, what stands inside, and what hovering tells."""

    name: str
    rows: Sequence[int]
    starts: Sequence[float]
    lengths: Sequence[float]
    texts: Sequence[str]
    notes: Sequence[str]
    colour: int
    shades: Sequence[float]


def gantt(
    words: Words,
    row_names: Sequence[str],
    tasks: Sequence[Tasks],
    axis_title: str,
    extent: float,
    table: Table,
    mode: Mode,
) -> Chart:
    """Schedule with one row per worker, the first on top."""
    colours = palette(mode)
    rows = len(row_names)
    layout: dict[str, Any] = {
        "barmode": "overlay",
        "bargap": 0.12,
        "xaxis": {"range": [0, extent], "title": {"text": axis_title}},
        "yaxis": {
            "tickmode": "array",
            "tickvals": list(range(rows)),
            "ticktext": list(row_names),
            "range": [rows - 0.5, -0.5],
            "ticks": "",
            "showgrid": False,
            "fixedrange": True,
            "tickfont": {"color": colours.text},
        },
        "legend": {"y": 1.0, "yanchor": "bottom", "yref": "paper", "traceorder": "normal"},
        "margin": {"t": 34},
        "hovermode": "closest",
    }
    traces = [_bars(kind, extent, colours) for kind in tasks if len(kind.rows)]
    height = 80 + (_ROW_HEIGHT if rows <= _MANY_ROWS else _SHORT_ROW) * max(rows, 3)
    return compose(words, traces, layout, table, mode, height)


def _bars(kind: Tasks, extent: float, colours: Palette) -> dict[str, Any]:
    colour = colours.series[kind.colour]
    return {
        "type": "bar",
        "orientation": "h",
        "name": kind.name,
        "y": list(kind.rows),
        "x": list(kind.lengths),
        "base": list(kind.starts),
        "text": [
            text if length / extent >= _TEXT_SHARE else ""
            for text, length in zip(kind.texts, kind.lengths, strict=True)
        ],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "inside",
        "textfont": {"size": 11, "color": ink_on(colour)},
        "marker": {"color": colour, "opacity": list(kind.shades), "line": {"width": 0.5, "color": colours.paper}},
        "customdata": list(kind.notes),
        "hovertemplate": "%{customdata}<extra></extra>",
    }
