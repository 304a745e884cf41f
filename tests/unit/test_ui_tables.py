"""Tables as CSV and JSON."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from trn2model.ui.tables import table, to_csv, to_csv_book, to_records

CONTENT = table(("part", "time [s]"), [("compute, all", np.float64(1.5)), ('a "b"', 2), ("none", None)])


def test_csv_reads_back() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(CONTENT))))
    assert rows == [["part", "time [s]"], ["compute, all", "1.5"], ['a "b"', "2"], ["none", ""]]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx"])
def test_a_spreadsheet_runs_nothing(text: str) -> None:
    (_, row) = csv.reader(io.StringIO(to_csv(table(("a",), [(text,)]))))
    assert row[0].startswith("'")
    assert row[0][1:].strip() == text.strip()


def test_numbers_below_zero_stay_numbers() -> None:
    assert to_csv(table(("a",), [(-1.5,)])).splitlines()[1] == "-1.5"


def test_numpy_scalars_become_plain_numbers() -> None:
    assert type(CONTENT.rows[0][1]) is float
    assert to_records(CONTENT)[0] == {"part": "compute, all", "time [s]": 1.5}


def test_a_column_by_its_name() -> None:
    assert CONTENT.column("time [s]") == (1.5, 2, None)
    with pytest.raises(ValueError, match="not in tuple"):
        CONTENT.column("bytes")


def test_a_book_names_its_tables() -> None:
    text = to_csv_book({"One": CONTENT, "Two": table(("x",), [(1,)])})
    assert [line for line in text.splitlines() if line.startswith("#")] == ["# One", "# Two"]
    assert text.endswith("# Two\nx\n1\n")
