"""Curation: rows of the public tables become rows of data/measurements, by rules that are data."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from trn2model.errors import DataError, InvalidInputError
from trn2model.validation.columns import KINDS, column_names
from trn2model.validation.curate_inference import inference_rows
from trn2model.validation.curate_kernels import collective_rows, operator_rows
from trn2model.validation.curate_training import training_rows
from trn2model.validation.measurements import Measurement, read_measurements
from trn2model.validation.rules import Row, Value, verdict

_READERS: Final[Mapping[str, Callable[[Mapping[str, str]], list[Row]]]] = {
    "training": training_rows,
    "inference": inference_rows,
    "collective": collective_rows,
    "operator": operator_rows,
}
#: columns without which no row of a kind can be read
_ESSENTIAL: Final[Mapping[str, tuple[str, ...]]] = {
    "training": ("model", "source"),
    "inference": ("model", "instance", "tp", "source"),
    "collective": ("op", "instance", "ranks", "bytes", "source"),
    "operator": ("op", "shape", "dtype", "source"),
}
#: kinds as the command line names them
COMMAND_KINDS: Final[Mapping[str, str]] = {"train": "training", "serve": "inference", "gemm": "operator"}
#: what makes two rows of a vendor's page measurements of the same thing, whatever plan it prints
_SAME: Final[Mapping[str, tuple[str, ...]]] = {
    "training": ("model", "system", "count", "global_batch_size", "sequence_length", "optimizer"),
    "inference": ("metric", "model", "system", "tp", "concurrency", "input_tokens", "output_tokens", "page"),
}
_PLAN: Final = ("tp", "pp", "zero")
_RESTATED: Final = re.compile("^neuron-benchmarks")


def read_table(text: str, needed: Sequence[str] = ()) -> list[dict[str, str]]:
    """Rows of a public table.

    Raises DataError (there is no header, a needed column is missing, a row has more cells than the header, or a cell is
    too long).
    """
    reader = csv.DictReader(io.StringIO(text.lstrip("\ufeff")), restval="")
    try:
        rows = list(reader)
    except csv.Error as error:
        message = f"row {reader.reader.line_num}: {error}"
        raise DataError(message) from error
    if not reader.fieldnames:
        message = "row 1: no header"
        raise DataError(message)
    long = next((number for number, row in enumerate(rows, start=2) if None in row), None)
    if long is not None:
        message = f"row {long}: more cells than the header has columns"
        raise DataError(message)
    missing = [name for name in needed if name not in reader.fieldnames]
    if missing:
        message = f"row 1: no column {', '.join(missing)}; needed are {', '.join(needed)}"
        raise DataError(message)
    return rows


def published(kind: str, text: str, table: str = "table") -> tuple[Measurement, ...]:
    """Measurements of a public table that is not part of the package.

    Raises InvalidInputError (the kind is unknown); DataError (the table lacks a column without which no row can be
    read, no row holds a measurement, or a cell is out of range).
    """
    title, kind = kind, COMMAND_KINDS.get(kind, kind)
    rows = curate(kind, table, read_table(text, _ESSENTIAL.get(kind, ())))
    if not rows:
        message = "no rows with a measurement"
        raise DataError(message)
    return read_measurements(kind, to_csv(kind, rows), title)


def curate(kind: str, table: str, rows: Sequence[Mapping[str, str]]) -> list[Row]:
    """Normalised rows of one public table.

    Raises InvalidInputError (the kind is unknown); DataError (a row lacks a column the conversion needs).
    """
    if kind not in KINDS:
        raise InvalidInputError("kind", kind, "one of " + ", ".join(KINDS), "choose a listed kind")
    missing = [name for name in _ESSENTIAL[kind] if rows and name not in rows[0]]
    if missing:
        message = f"row 1: no column {', '.join(missing)}; a table of {kind} needs {', '.join(_ESSENTIAL[kind])}"
        raise DataError(message)
    curated: list[Row] = []
    for number, raw in enumerate(rows, start=1):
        made = _READERS[kind](raw)
        for row in made:
            row["id"] = f"{table}-{number:03d}" + (f"-{row['metric']}" if kind == "inference" else "")
            row["use"], row["reason"] = verdict(kind, row, raw)
        curated += made
    _set_aside_restated(kind, curated)
    names = column_names(kind)
    return [{name: row.get(name) for name in names} for row in curated]


def to_csv(kind: str, rows: Iterable[Mapping[str, Value]]) -> str:
    """Curated rows as the text of a measurement file."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, column_names(kind), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _text(value) for name, value in row.items()} for row in rows)
    return stream.getvalue()


def _text(value: Value) -> str:
    if value is None:
        return ""
    return " ".join(value.split()) if isinstance(value, str) else f"{value:.10g}"


def _set_aside_restated(kind: str, rows: Sequence[Row]) -> None:
    """Vendor pages that restate themselves: equal figures stay once, of several releases the newest is fitted on."""
    if kind not in _SAME:
        return
    pages = [row for row in rows if row["use"] in {"fit", "check"} and _RESTATED.search(str(row["dataset"]))]
    for row in pages:
        row["page"] = "int8" if row.get("weight_dtype") == "int8" else ""
        row["release"] = ".".join(map(str, _release(row)))
    for *older, newest in _groups(pages, (*_SAME[kind], "release", "measured")):
        for row in older:
            row["use"], row["reason"] = "excluded", f"restated in {newest['id']}"
    current = [row for row in pages if row["use"] != "excluded"]
    for *older, newest in _groups(current, (*_SAME[kind], *_PLAN)):
        for row in older:
            row["use"], row["reason"] = "check", f"superseded by a later release of the software, {newest['id']}"


def _groups(rows: Sequence[Row], names: Sequence[str]) -> list[list[Row]]:
    """Rows that agree in the named columns, oldest first."""
    groups: dict[tuple[Value, ...], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (_release(row), str(row["date"]))):
        groups[tuple(row.get(name) for name in names)].append(row)
    return list(groups.values())


def _release(row: Mapping[str, Value]) -> tuple[int, ...]:
    found = re.search(r"Neuron (\d+(?:\.\d+)*)", str(row["version"]))
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()
