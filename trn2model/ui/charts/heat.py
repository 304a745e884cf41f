"""Tables of numbers in which colour carries the size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.chart import Chart, Words, compose, name_axis
from trn2model.ui.charts.style import Mode, Scale, colour_at, ink_on, palette
from trn2model.ui.tables import Table

_ROW_HEIGHT: Final = 26
_MANY: Final = 6


@dataclass(frozen=True, slots=True)
class Grid:
    """Shares from 0 to 1 with what is printed in each cell; a share of None is an empty cell."""

    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    shares: tuple[tuple[float | None, ...], ...]
    texts: tuple[tuple[str, ...], ...]


def heat_table(
    words: Words,
    grid: Grid,
    scale: Scale,
    bar_title: str | None = None,
    *,
    table: Table,
    mode: Mode,
    row_height: int = _ROW_HEIGHT,
) -> Chart:
    """Heat map with a number in each cell, first row on top, colours fixed from 0 to 100 %."""
    layout: dict[str, Any] = {
        "xaxis": {
            "side": "top",
            "type": "category",
            "tickangle": 0,
            "showgrid": False,
            "ticks": "",
            "fixedrange": True,
            "showline": False,
        },
        "yaxis": name_axis(palette(mode)) | {"type": "category"},
        "margin": {"r": 78 if bar_title else 8, "t": 34, "b": 8},
    }
    traces = heat_traces(grid, scale, bar_title, mode)
    height, wide = 50 + row_height * len(grid.row_names), len(grid.column_names) > _MANY
    return compose(words, traces, layout, table, mode=mode, height=height, wide=wide)


def heat_traces(grid: Grid, scale: Scale, bar_title: str | None, mode: Mode) -> list[dict[str, Any]]:
    """Traces of a heat map with readable ink in each cell."""
    cells = {
        "type": "heatmap",
        "x": list(grid.column_names),
        "y": list(grid.row_names),
        "z": [list(row) for row in grid.shares],
        "zmin": 0,
        "zmax": 1,
        "colorscale": [list(stop) for stop in scale],
        "xgap": 2,
        "ygap": 2,
        "customdata": [list(row) for row in grid.texts],
        "hovertemplate": "%{y}, %{x}: %{customdata}<extra></extra>",
        "hoverongaps": False,
        "showscale": bar_title is not None,
        "colorbar": colour_bar(bar_title or "", mode),
    }
    return [cells, *_numbers(grid, scale, mode)]


def colour_bar(title: str, mode: Mode) -> dict[str, Any]:
    """Colour bar of a share, 0 to 100 %."""
    return {
        "title": {"text": title, "side": "right", "font": {"size": 12, "color": palette(mode).muted}},
        "thickness": 10,
        "outlinewidth": 0,
        "tickformat": ".0%",
        "tickvals": [0, 0.25, 0.5, 0.75, 1],
        "tickfont": {"size": 11, "color": palette(mode).muted},
    }


def _numbers(grid: Grid, scale: Scale, mode: Mode) -> list[dict[str, Any]]:
    inks: dict[str, list[tuple[str, str, str]]] = {}
    for row, shares, texts in zip(grid.row_names, grid.shares, grid.texts, strict=True):
        for column, share, text in zip(grid.column_names, shares, texts, strict=True):
            ink = palette(mode).muted if share is None else ink_on(colour_at(scale, share))
            inks.setdefault(ink, []).append((column, row, text))
    return [
        {
            "type": "scatter",
            "mode": "text",
            "x": [cell[0] for cell in cells],
            "y": [cell[1] for cell in cells],
            "text": [cell[2] for cell in cells],
            "textfont": {"size": 12, "color": ink},
            "hoverinfo": "skip",
            "showlegend": False,
        }
        for ink, cells in inks.items()
    ]
