"""What a chart is here: a figure, its words, and the table that says the same."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trn2model.ui.charts.frame import frame
from trn2model.ui.charts.template import Mode, palette, template_name
from trn2model.ui.tables import Table

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
    mode: Mode,
    height: int,
    *,
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
