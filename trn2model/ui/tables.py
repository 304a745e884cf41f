"""Tables as plain data: the twin of every chart, and what the CSV and JSON downloads hold."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

Cell = str | float | int | bool | None

#: Spreadsheets run a cell that begins with one of these.
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns; each column name ends with its unit in brackets where it has one."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def column(self, name: str) -> tuple[Cell, ...]:
        """Cells of one column."""
        index = self.columns.index(name)
        return tuple(row[index] for row in self.rows)


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell | np.generic]]) -> Table:
    """Table of rows that may be any sequences; NumPy scalars become Python numbers.

    Examples
    --------
    >>> table(["part", "time [s]"], [["compute", 1.5]]).column("time [s]")
    (1.5,)
    """
    return Table(tuple(columns), tuple(tuple(_plain(cell) for cell in row) for row in rows))


def to_csv(content: Table) -> str:
    """Table as CSV text; text that a spreadsheet would run as a formula gets a leading apostrophe.

    Examples
    --------
    >>> print(to_csv(table(["a"], [["=1+1"]])).splitlines()[1])
    '=1+1
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([_inert(name) for name in content.columns])
    writer.writerows([[_inert(cell) for cell in row] for row in content.rows])
    return buffer.getvalue()


def to_records(content: Table) -> list[dict[str, Cell]]:
    """Table as a list of objects, for JSON.

    Examples
    --------
    >>> to_records(table(["a"], [[1]]))
    [{'a': 1}]
    """
    return [dict(zip(content.columns, row, strict=True)) for row in content.rows]


def to_csv_book(contents: Mapping[str, Table]) -> str:
    """Several tables as one CSV text, each under a line with its title.

    Examples
    --------
    >>> print(to_csv_book({"Parts": table(["a"], [[1]])}).splitlines())
    ['# Parts', 'a', '1']
    """
    return "\n".join(f"# {_inert(title)}\n{to_csv(content)}" for title, content in contents.items())


def _plain(cell: Cell | np.generic) -> Cell:
    plain: Cell = cell.item() if isinstance(cell, np.generic) else cell
    return plain


def _inert(cell: Cell) -> Cell:
    if not isinstance(cell, str):
        return cell
    text = " ".join(cell.splitlines()) if "\r" in cell else cell
    return f"'{text}" if cell.startswith(_FORMULA_STARTS) else text
