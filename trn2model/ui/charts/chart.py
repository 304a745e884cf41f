"""What a chart is here: a figure with room for its words, the words, and the table that says the same.

Also the pieces that several kinds of chart are made of: axes, limits, shaded ranges, notes, and marks with hover text.

Left to itself, Plotly finds this room by drawing a chart two to four times over; that is most of a repaint.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from trn2model.text import quantity
from trn2model.ui.charts.style import Mode, Palette, palette, template_name
from trn2model.ui.tables import Table

_LETTER: Final = 6.8
_NUMBER_WIDTH: Final = 42
_TITLE: Final = 22
_TICKS: Final = 26
_COLOUR_BAR: Final = 94
_LEGEND_ROW: Final = 19
_LEGEND_LETTER: Final = 6.1
_LEGEND_KEY: Final = 42
_NARROW: Final = 358
_WIDE: Final = 740
_MARKUP: Final = re.compile(r"<[^>]*>")

Axis = Literal["x", "y"]
Layout = Mapping[str, Any]
Traces = Sequence[Mapping[str, Any]]


def frame(traces: Traces, layout: Layout, *, wide: bool) -> tuple[dict[str, Any], int]:
    """Margins of a chart and the place of its legend; what the layout says itself is kept [px]."""
    sides = {
        "l": _left(traces, layout.get("yaxis", {})),
        "r": _COLOUR_BAR if any(_has_scale(trace) for trace in traces) else 16,
        **layout.get("margin", {}),
    }
    rows = _legend_rows(traces, layout, (_WIDE if wide else _NARROW) - sides["l"] - sides["r"])
    room = _LEGEND_ROW * rows + 8 if rows else 0
    margin = {"t": 0, "b": _bottom(layout.get("xaxis", {})) + room, **sides, "autoexpand": False}
    if not rows:
        return {"margin": margin}, 0
    below = {"xref": "container", "x": 0.01, "xanchor": "left", "yref": "container", "y": 0.005, "yanchor": "bottom"}
    return {"margin": margin, "legend": {**layout.get("legend", {}), **below}}, room


def _left(traces: Traces, axis: Layout) -> int:
    if axis.get("visible") is False:
        return 8
    title = _TITLE if axis.get("title", {}).get("text") else 0
    if axis.get("showticklabels") is False:
        return 8 + title
    names = [*axis.get("ticktext", ()), *(name for trace in traces for name in _row_names(trace))]
    longest = max((len(_MARKUP.sub("", name)) for name in names), default=0)
    return 14 + title + (math.ceil(_LETTER * longest) if longest else _NUMBER_WIDTH)


def _row_names(trace: Mapping[str, Any]) -> Iterable[str]:
    """Names on the vertical axis of a bar chart or a heat map."""
    if trace.get("type") == "heatmap" or trace.get("orientation") == "h":
        return (name for name in trace.get("y", ()) if isinstance(name, str))
    return ()


def _bottom(axis: Layout) -> int:
    if axis.get("visible") is False or axis.get("side") == "top":
        return 8
    return _TICKS + (_TITLE if axis.get("title", {}).get("text") else 0)


def _has_scale(trace: Mapping[str, Any]) -> bool:
    shown: bool = trace.get("showscale", trace.get("type") == "heatmap") or trace.get("marker", {}).get(
        "showscale", False
    )
    return shown


def _legend_rows(traces: Traces, layout: Layout, width: int) -> int:
    """Rows of a legend below the plot, as wide as the plot; zero where there is none or it stands elsewhere."""
    names = [str(trace["name"]) for trace in traces if trace.get("name") and trace.get("showlegend", True)]
    wanted = layout.get("showlegend", len(traces) > 1)
    if not wanted or not names or layout.get("legend", {}).get("y", -1) >= 0:
        return 0
    widths = [_LEGEND_LETTER * len(_MARKUP.sub("", name)) + _LEGEND_KEY for name in names]
    if sum(widths) <= width:
        return 1
    return math.ceil(len(names) / max(int(width // max(widths)), 1))


_TITLE_LENGTH: Final = 42
_LINE_LENGTH: Final = 56


@dataclass(frozen=True, slots=True)
class Words:
    """Title, subtitle (the parameters that are not default), alternative text and file name of a chart."""

    title: str
    subtitle: str
    alt: str
    file_name: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure ready to draw, with its twin table; a wide one scrolls sideways on a phone instead of shrinking.

    `picks` is the session key that takes the first item of a clicked point's custom data; empty where a click means
    nothing.
    """

    words: Words
    figure: dict[str, Any]
    table: Table
    wide: bool = False
    picks: str = ""


def compose(
    words: Words,
    traces: Sequence[Mapping[str, Any]],
    layout: Mapping[str, Any],
    table: Table,
    *,
    mode: Mode,
    height: int,
    wide: bool = False,
    picks: str = "",
) -> Chart:
    """Chart from its traces: adds title, subtitle, template and height."""
    title_lines, subtitle_lines = wrap(words.title, _TITLE_LENGTH, 2), wrap(words.subtitle, _LINE_LENGTH, 3)
    subtitle = {"text": "<br>".join(subtitle_lines), "font": {"size": 12, "color": palette(mode).muted}}
    title = {
        "text": f"<b>{'<br>'.join(title_lines)}</b>",
        "subtitle": subtitle,
        "y": 1,
        "yref": "container",
        "yanchor": "top",
        "pad": {"t": 10 + 20 * (len(title_lines) - 1), "l": 8},
    }
    head = 26 + 20 * len(title_lines) + 16 * len(subtitle_lines)
    placed, room = frame(traces, layout, wide=wide)
    placed["margin"]["t"] += head
    whole = {"template": template_name(mode), **layout, **placed, "height": height + head + room, "title": title}
    return Chart(words, {"data": [dict(trace) for trace in traces], "layout": whole}, table, wide, picks)


def wrap(text: str, length: int, lines: int) -> tuple[str, ...]:
    """Text broken at words to fit a narrow chart, with an ellipsis where something was left out.

    Examples
    --------
    >>> wrap("tp 8 · pp 4 · seq 8192", 12, 1)
    ('tp 8 · pp …',)
    """
    return tuple(textwrap.wrap(text, length, max_lines=lines, placeholder=" …"))


def file_stem(*parts: str) -> str:
    """Telling file name without an ending, safe on every system.

    Examples
    --------
    >>> file_stem("trn2model", "Step time", "llama-3.1-70b")
    'trn2model-step-time-llama-3.1-70b'
    """
    return re.sub(r"[^a-z0-9.]+|\.{2,}", "-", "-".join(parts).lower()).strip("-.")[:120]


def canvas(layout: Layout, height: int, *, wide: bool = False) -> tuple[float, float]:
    """Width and height of the plot where the screen is at its narrowest and words take the most room [px]."""
    margin = frame((), layout, wide=wide)[0]["margin"]
    return (_WIDE if wide else _NARROW) - margin["l"] - margin["r"], height - margin["t"] - margin["b"]


#: Digits that a log axis names in each decade, where it has at most so many decades.
_DIGITS: Final = ((1.5, (1, 2, 5)), (3.0, (1, 3)), (math.inf, (1,)))
#: Ticks that a log axis should have at least, and into how many steps it is cut where it has fewer.
_FEW_TICKS: Final = 3
_STEPS: Final = 5


def log_axis(title: str, extent: tuple[float, float], unit: str = "") -> dict[str, Any]:
    """Logarithmic axis over decades; values in an SI unit are named in the everyday one."""
    axis: dict[str, Any] = {"type": "log", "title": {"text": title}, "range": list(extent), "fixedrange": True}
    digits = next(digits for decades, digits in _DIGITS if extent[1] - extent[0] <= decades)
    if not unit and digits == (1,):
        return axis | {"dtick": 1, "exponentformat": "SI"}
    ticks = _ticks(extent, digits)
    names = [quantity(tick, unit) if unit else f"{tick:,.6g}" for tick in ticks]
    return axis | {"tickvals": ticks, "ticktext": names, "tickangle": 0}


def _ticks(extent: tuple[float, float], digits: tuple[int, ...]) -> list[float]:
    """Values with these leading digits; equal steps where too few of them are on the axis to read it."""
    powers = range(math.floor(extent[0]), math.ceil(extent[1]) + 1)
    low, high = 10.0 ** extent[0], 10.0 ** extent[1]
    shown = [value for power in powers for digit in digits if low <= (value := float(f"{digit}e{power}")) <= high]
    if len(shown) >= _FEW_TICKS:
        return shown
    least = (high - low) / _STEPS
    unit = 10.0 ** math.floor(math.log10(least))
    step = next(digit * unit for digit in (1, 2, 5, 10) if digit * unit >= least)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def name_axis(colours: Palette) -> dict[str, Any]:
    """Vertical axis of names, the first on top."""
    return {
        "autorange": "reversed",
        "ticks": "",
        "showgrid": False,
        "fixedrange": True,
        "tickfont": {"color": colours.text},
    }


def note(
    text: str, x: float, y: float | str, colour: str, *, across: str = "left", up: str = "bottom", **more: float | str
) -> dict[str, Any]:
    """Words at a place that lies left, center or right across them and at their bottom or top."""
    place = {"x": x, "y": y, "xanchor": across, "yanchor": up}
    return {"text": text, **place, "showarrow": False, "font": {"size": 12, "color": colour}, **more}


def rule(colour: str, axis: Axis, at: float, *, width: float = 2, dash: str = "dash") -> dict[str, Any]:
    """Line across the whole plot at a value of an axis."""
    return {"type": "line", **_across(axis, at, at), "line": {"color": colour, "width": width, "dash": dash}}


def stripe(colour: str, opacity: float, axis: Axis, ends: tuple[float, float]) -> dict[str, Any]:
    """Shaded range of an axis over the whole plot, below what is drawn."""
    look = {"fillcolor": colour, "opacity": opacity, "line": {"width": 0}, "layer": "below"}
    return {"type": "rect", **_across(axis, *ends), **look}


def _across(axis: Axis, start: float, end: float) -> dict[str, Any]:
    other = "y" if axis == "x" else "x"
    return {f"{axis}0": start, f"{axis}1": end, f"{other}0": 0, f"{other}1": 1, f"{other}ref": "paper"}
