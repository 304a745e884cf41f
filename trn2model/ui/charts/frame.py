"""Room round a plot for its ticks, titles, colour bar and legend, counted here once.

Left to itself, Plotly finds this room by drawing a chart two to four times over; that is most of a repaint.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

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
