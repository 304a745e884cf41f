"""The machine as a drawing: torus planes with wrap links as half-stubs, z links as a heat map, switch ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.chart import Chart, Words, compose, note
from trn2model.ui.charts.heat import Grid, colour_bar, heat_traces
from trn2model.ui.charts.style import Mode, colour_at, ink_on, palette, utilization_scale
from trn2model.ui.tables import Table

Place = tuple[float, float]

_STUB: Final = 0.45
_GAP: Final = 1.7
_COLOUR_STEPS: Final = 24
_ROW_UNIT: Final = 50
_GRID_UNIT: Final = 64
_HEAT_HEIGHT: Final = 190
_WIDE: Final = 11.0
_PER_ROW: Final = 16
_NARROW: Final = 8
_ROW_HEIGHT: Final = 92
#: Size of a chip's square, between planes and above a switch; a chosen one is a little larger. [px]
_CHIP: Final = 24
_PORT_CHIP: Final = 30


@dataclass(frozen=True, slots=True)
class ChipMark:
    """One chip: where it is, the palette entry of its group (None: plain), whether it is picked out, hover text."""

    label: str
    position: tuple[int, int, int]
    colour: int | None
    selected: bool
    note: str


@dataclass(frozen=True, slots=True)
class LinkMark:
    """The link from a chip to its next neighbour along an axis; `share` from 0 to 1 sets the colour, None is idle."""

    axis: int
    position: tuple[int, int, int]
    share: float | None
    text: str
    note: str


@dataclass(frozen=True, slots=True)
class Torus:
    """Chips and links of one domain, and how its planes are called and arranged."""

    shape: tuple[int, int, int]
    chips: tuple[ChipMark, ...]
    links: tuple[LinkMark, ...]
    plane_names: tuple[str, ...]
    planes_per_row: int
    z_unit: str


@dataclass(frozen=True, slots=True)
class PortMark:
    """One accelerator (or one logical core) and the load of its port, if it has one."""

    label: str
    colour: int | None
    selected: bool
    share: float | None
    note: str


def torus_planes(words: Words, torus: Torus, bar_title: str, *, table: Table, mode: Mode) -> Chart:
    """Planes of a torus with coloured links, and below them the z links with their numbers."""
    has_z = any(link.axis == 2 for link in torus.links)
    plane_rows = -(-torus.shape[2] // torus.planes_per_row)
    width, depth = _extent(torus)
    unit = _ROW_UNIT if width > _WIDE else _GRID_UNIT
    plane_height = max(round(unit * depth), 150)
    height = plane_height + (_HEAT_HEIGHT if has_z else 0)
    floor = (_HEAT_HEIGHT + 10) / height if has_z else 0.0
    flat = [link for link in torus.links if link.axis != 2]
    places = [_place(torus, *chip.position) for chip in torus.chips]
    traces = [
        *_link_traces(torus, flat, mode),
        *_link_spots(torus, flat, bar_title, mode),
        _squares(torus.chips, places, _CHIP, mode),
    ]
    bare = {"visible": False, "fixedrange": True}
    layout: dict[str, Any] = {
        "showlegend": False,
        "hovermode": "closest",
        "margin": {"l": 74 if has_z else 8, "b": 24 if has_z else 8},
        "xaxis": {**bare, "range": [-0.8, width - 0.2], "constrain": "domain"},
        "yaxis": {
            **bare,
            "range": [-depth + 0.9, 0.9 if plane_rows else 0],
            "scaleanchor": "x",
            "constrain": "domain",
            "domain": [floor, 1],
        },
        "annotations": _plane_titles(torus, mode),
    }
    if has_z:
        traces += _z_traces(torus, mode)
        layout |= _z_axes(floor, height, mode)
        layout["annotations"] = [*layout["annotations"], _z_title(floor, height, torus.z_unit, mode)]
    return compose(words, traces, layout, table, mode=mode, height=height, wide=width > _WIDE)


def _extent(torus: Torus) -> tuple[float, float]:
    """Width and height of all planes in chip distances."""
    columns = min(torus.planes_per_row, torus.shape[2])
    rows = -(-torus.shape[2] // torus.planes_per_row)
    width = columns * (torus.shape[0] - 1) + (columns - 1) * _GAP + 1.0
    return width, rows * (torus.shape[1] - 1) + (rows - 1) * (_GAP + 0.3) + 1.8


def _place(torus: Torus, x: float, y: float, z: int) -> Place:
    """Position on the drawing; y grows upwards inside a plane, planes go right, then down."""
    column, row = z % torus.planes_per_row, z // torus.planes_per_row
    left = column * (torus.shape[0] - 1 + _GAP)
    bottom = -row * (torus.shape[1] - 1 + _GAP + 0.3) - (torus.shape[1] - 1)
    return left + x, bottom + y


def _segments(torus: Torus, link: LinkMark) -> list[tuple[Place, Place]]:
    """One line, or two half-stubs where the link wraps round."""
    x, y, z = link.position
    along_x = link.axis == 0
    size = torus.shape[link.axis]
    step = (1.0, 0.0) if along_x else (0.0, 1.0)
    here = (x if along_x else y) == size - 1
    start = _place(torus, x, y, z)
    if not here:
        return [(start, (start[0] + step[0], start[1] + step[1]))]
    first = _place(torus, 0 if along_x else x, y if along_x else 0, z)
    return [
        (start, (start[0] + _STUB * step[0], start[1] + _STUB * step[1])),
        (first, (first[0] - _STUB * step[0], first[1] - _STUB * step[1])),
    ]


def _link_traces(torus: Torus, links: Sequence[LinkMark], mode: Mode) -> list[dict[str, Any]]:
    """One line trace per colour step: far fewer than one per link."""
    lines: dict[int, tuple[list[float | None], list[float | None]]] = {}  # -1: idle
    for link in links:
        xs, ys = lines.setdefault(-1 if link.share is None else round(link.share * _COLOUR_STEPS), ([], []))
        for start, end in _segments(torus, link):
            xs += [start[0], end[0], None]
            ys += [start[1], end[1], None]
    return [
        _link(xs, ys, None if step < 0 else step / _COLOUR_STEPS, width=5, mode=mode)
        for step, (xs, ys) in sorted(lines.items())
    ]


def _link(
    xs: Sequence[float | None], ys: Sequence[float | None], share: float | None, *, width: int, mode: Mode
) -> dict[str, Any]:
    """Lines coloured by how busy they are; grey for idle ones."""
    colour = palette(mode).grid if share is None else colour_at(utilization_scale(mode), share)
    line = {"width": width, "color": colour}
    return {"type": "scatter", "mode": "lines", "x": list(xs), "y": list(ys), "line": line, "hoverinfo": "skip"}


def _link_spots(torus: Torus, links: Sequence[LinkMark], bar_title: str, mode: Mode) -> list[dict[str, Any]]:
    """Spots in the middle of each line."""
    found = [
        (((start[0] + end[0]) / 2, (start[1] + end[1]) / 2), link)
        for link in links
        for start, end in _segments(torus, link)
    ]
    if not found:
        return []
    return [_spots([link for _, link in found], [place for place, _ in found], bar_title, mode)]


def _spots(links: Sequence[LinkMark | PortMark], places: Sequence[Place], bar_title: str, mode: Mode) -> dict[str, Any]:
    """Marks on links, which carry the hover text and the colour bar; those of idle links do not show."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [x for x, _ in places],
        "y": [y for _, y in places],
        "customdata": [link.note for link in links],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "size": 5,
            "symbol": "square",
            "color": [link.share or 0.0 for link in links],
            "opacity": [0.0 if link.share is None else 1.0 for link in links],
            "cmin": 0,
            "cmax": 1,
            "colorscale": [list(stop) for stop in utilization_scale(mode)],
            "showscale": True,
            "colorbar": colour_bar(bar_title, mode),
        },
    }


def _squares(chips: Sequence[ChipMark | PortMark], places: Sequence[Place], size: int, mode: Mode) -> dict[str, Any]:
    """Chips as squares in the colour of their group, chosen ones outlined."""
    colours = palette(mode)
    fills = [colours.surface if chip.colour is None else colours.series[chip.colour] for chip in chips]
    inks = [colours.text if chip.colour is None else ink_on(fill) for chip, fill in zip(chips, fills, strict=True)]
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": [x for x, _ in places],
        "y": [y for _, y in places],
        "text": [chip.label for chip in chips],
        "textfont": {"size": 11, "color": inks},
        "customdata": [chip.note for chip in chips],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "symbol": "square",
            "size": [size + 3 * chip.selected for chip in chips],
            "opacity": 1,
            "color": fills,
            "line": {
                "width": [3 if chip.selected else 1 for chip in chips],
                "color": [colours.text if chip.selected else colours.line for chip in chips],
            },
        },
    }


def _plane_titles(torus: Torus, mode: Mode) -> list[dict[str, Any]]:
    places = [_place(torus, (torus.shape[0] - 1) / 2, torus.shape[1] - 1, z) for z in range(len(torus.plane_names))]
    return [
        note(name, x, y + _STUB + 0.08, palette(mode).muted, across="center")
        for name, (x, y) in zip(torus.plane_names, places, strict=True)
    ]


def _z_traces(torus: Torus, mode: Mode) -> list[dict[str, Any]]:
    size_x, size_y, size_z = torus.shape
    by_place = {link.position: link for link in torus.links if link.axis == 2}
    columns = [(x, y) for x in range(size_x) for y in range(size_y)]
    hops = range(size_z)
    grid = Grid(
        row_names=tuple(f"{z}→{(z + 1) % size_z}{' wrap' if z == size_z - 1 else ''}" for z in hops),
        column_names=tuple(f"{x},{y}" for x, y in columns),
        shares=tuple(tuple(by_place[x, y, z].share for x, y in columns) for z in hops),
        texts=tuple(tuple(by_place[x, y, z].text for x, y in columns) for z in hops),
    )
    traces = heat_traces(grid, utilization_scale(mode), None, mode)
    traces[0]["customdata"] = [[by_place[x, y, z].note for x, y in columns] for z in hops]
    traces[0]["hovertemplate"] = "%{customdata}<extra></extra>"
    return [trace | {"xaxis": "x2", "yaxis": "y2"} for trace in traces]


def _z_axes(floor: float, height: int, mode: Mode) -> dict[str, Any]:
    plain = {"showgrid": False, "ticks": "", "fixedrange": True, "showline": False}
    top = floor - 44 / height
    return {
        "xaxis2": {**plain, "type": "category", "anchor": "y2", "tickangle": 0, "tickfont": {"size": 11}},
        "yaxis2": {
            **plain,
            "type": "category",
            "anchor": "x2",
            "domain": [0, top],
            "tickfont": {"size": 12, "color": palette(mode).text},
        },
    }


def _z_title(floor: float, height: int, unit: str, mode: Mode) -> dict[str, Any]:
    text, place = f"z links between instances by column x,y [{unit}]", {"xref": "paper", "yref": "paper"}
    return note(text, 0.5, floor - 38 / height, palette(mode).muted, across="center") | place


def switch_ports(
    words: Words, ports: Sequence[PortMark], switch_name: str, bar_title: str, *, table: Table, mode: Mode
) -> Chart:
    """Accelerators in rows of at most 16, each with its coloured port into the switch above its row."""
    columns = min(len(ports), _PER_ROW)
    rows = -(-len(ports) // _PER_ROW)
    height = max(_ROW_HEIGHT * rows + 20, 150 if switch_name else 0)
    places = [(float(index % _PER_ROW), -float(index // _PER_ROW)) for index in range(len(ports))]
    layout: dict[str, Any] = {
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": {"visible": False, "fixedrange": True, "range": [-0.8, max(columns, 8) - 0.2]},
        "yaxis": {"visible": False, "fixedrange": True, "range": [-rows + 0.45, 0.85]},
    }
    traces = []
    if switch_name:
        muted = palette(mode).muted
        layout["shapes"] = [_switch(row, columns, muted) for row in range(rows)]
        layout["annotations"] = [note(switch_name, (columns - 1) / 2, 0.52, muted, across="center")]
        traces = [
            *(
                _link([x, x], [y, y + 0.42], port.share, width=6, mode=mode)
                for port, (x, y) in zip(ports, places, strict=True)
            ),
            _spots(ports, [(x, y + 0.34) for x, y in places], bar_title, mode),
        ]
    traces.append(_squares(ports, places, _PORT_CHIP, mode))
    return compose(words, traces, layout, table, mode=mode, height=height, wide=columns > _NARROW)


def _switch(row: int, columns: int, colour: str) -> dict[str, Any]:
    ends = {"x0": -0.4, "x1": columns - 0.6, "y0": -row + 0.42, "y1": -row + 0.5}
    return {"type": "rect", **ends, "fillcolor": colour, "line": {"width": 0}}
