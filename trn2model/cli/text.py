"""Aligned plain text for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from trn2model.ui.format import bandwidth, capacity, duration, flop_rate, quantity, significant

_GAP = "  "


def columns(rows: Iterable[Sequence[str]], right: Sequence[int] = (), indent: str = "") -> str:
    """Rows as aligned columns.

    Examples
    --------
    >>> print(columns([("a", "10 ms"), ("long", "2 ms")], right=[1]))
    a     10 ms
    long   2 ms
    """
    table = [tuple(row) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip_longest(*table, fillvalue="")]
    lines = []
    for row in table:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append((indent + _GAP.join(cells)).rstrip())
    return "\n".join(lines)


def sections(parts: Iterable[tuple[str, str]]) -> str:
    """Titled blocks, one blank line apart; empty ones are left out.

    Examples
    --------
    >>> print(sections([("", "head"), ("Parts", "  a"), ("None", "")]))
    head
    <BLANKLINE>
    Parts
      a
    """
    return "\n\n".join("\n".join(filter(None, part)) for part in parts if part[1])


def quantity_text(value: float, unit: str) -> str:
    """Number to three digits in its everyday unit.

    Examples
    --------
    >>> quantity_text(30.83 * 2**30, "B")
    '30.8 GiB'
    """
    writers = {"B": capacity, "s": duration, "B/s": bandwidth, "FLOP/s": flop_rate}
    return writers[unit](value) if unit in writers else quantity(float(significant(value).replace(",", "")), unit)


def share_text(fraction: float) -> str:
    """Share of a whole to a tenth of a percent.

    Examples
    --------
    >>> share_text(0.4061), share_text(0.00002)
    ('40.6 %', '0.0 %')
    """
    return f"{fraction:.1%}".replace("%", " %")
