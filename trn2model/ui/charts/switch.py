"""Accelerators behind a switch, or alone: ports instead of torus links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.charts.heat import colour_bar
from trn2model.ui.charts.template import Mode, colour_at, ink_on, palette, utilization_scale
from trn2model.ui.tables import Table

_PER_ROW: Final = 16
_NARROW: Final = 8
_ROW_HEIGHT: Final = 92


@dataclass(frozen=True, slots=True)
class PortMark:
    """One accelerator (or one logical core) and the load of its port, if it has one."""

    label: str
    colour: int | None
    selected: bool
    share: float | None
    note: str


def switch_ports(
    words: Words, ports: Sequence[PortMark], switch_name: str, bar_title: str, table: Table, mode: Mode
) -> Chart:
    """Accelerators in rows of at most 16, each with its coloured port into the switch above its row."""
    columns = min(len(ports), _PER_ROW)
    rows = -(-len(ports) // _PER_ROW)
    height = max(_ROW_HEIGHT * rows + 20, 150 if switch_name else 0)
    traces = _port_traces(ports, bar_title, mode) if switch_name else []
    layout: dict[str, Any] = {
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": {"visible": False, "fixedrange": True, "range": [-0.8, max(columns, 8) - 0.2]},
        "yaxis": {"visible": False, "fixedrange": True, "range": [-rows + 0.45, 0.85]},
        "shapes": [_switch_shape(row, columns, mode) for row in range(rows)] if switch_name else [],
        "annotations": [_switch_title(switch_name, columns, mode)] if switch_name else [],
    }
    return compose(words, [*traces, _chips(ports, mode)], layout, table, mode, height, wide=columns > _NARROW)


def _place(index: int) -> tuple[float, float]:
    return float(index % _PER_ROW), -float(index // _PER_ROW)


def _port_traces(ports: Sequence[PortMark], bar_title: str, mode: Mode) -> list[dict[str, Any]]:
    scale = utilization_scale(mode)
    places = [_place(index) for index in range(len(ports))]
    lines = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [x, x],
            "y": [y, y + 0.42],
            "line": {"width": 6, "color": palette(mode).grid if port.share is None else colour_at(scale, port.share)},
            "hoverinfo": "skip",
        }
        for (x, y), port in zip(places, ports, strict=True)
    ]
    spots = {
        "type": "scatter",
        "mode": "markers",
        "x": [x for x, _ in places],
        "y": [y + 0.34 for _, y in places],
        "customdata": [port.note for port in ports],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "size": 5,
            "symbol": "square",
            "color": [port.share or 0.0 for port in ports],
            "opacity": [0.0 if port.share is None else 1.0 for port in ports],
            "cmin": 0,
            "cmax": 1,
            "colorscale": [list(stop) for stop in scale],
            "showscale": True,
            "colorbar": colour_bar(bar_title, mode),
        },
    }
    return [*lines, spots]


def _chips(ports: Sequence[PortMark], mode: Mode) -> dict[str, Any]:
    colours = palette(mode)
    fills = [colours.surface if port.colour is None else colours.series[port.colour] for port in ports]
    inks = [colours.text if port.colour is None else ink_on(fill) for port, fill in zip(ports, fills, strict=True)]
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": [_place(index)[0] for index in range(len(ports))],
        "y": [_place(index)[1] for index in range(len(ports))],
        "text": [port.label for port in ports],
        "textfont": {"size": 11, "color": inks},
        "customdata": [port.note for port in ports],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "symbol": "square",
            "size": [33 if port.selected else 30 for port in ports],
            "opacity": 1,
            "color": fills,
            "line": {
                "width": [3 if port.selected else 1 for port in ports],
                "color": [colours.text if port.selected else colours.line for port in ports],
            },
        },
    }


def _switch_shape(row: int, columns: int, mode: Mode) -> dict[str, Any]:
    return {
        "type": "rect",
        "x0": -0.4,
        "x1": columns - 0.6,
        "y0": -row + 0.42,
        "y1": -row + 0.5,
        "fillcolor": palette(mode).muted,
        "line": {"width": 0},
    }


def _switch_title(name: str, columns: int, mode: Mode) -> dict[str, Any]:
    return {
        "x": (columns - 1) / 2,
        "y": 0.52,
        "text": name,
        "showarrow": False,
        "yanchor": "bottom",
        "font": {"size": 12, "color": palette(mode).muted},
    }
