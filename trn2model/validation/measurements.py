"""Published measurements, every row checked against columns.toml, and the profile that its software selects."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from trn2model.errors import DataError
from trn2model.specs import catalog
from trn2model.specs.model import ModelSpec, parse_model
from trn2model.specs.profile import Kind
from trn2model.specs.provenance import list_toml, read_toml

#: tables of measurements, one file each, named as the command line names them
TABLES: Final = tuple(dict.fromkeys(kind.table for kind in Kind))


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it means, its SI unit and what a cell may hold."""

    name: str
    type: str
    meaning: str
    si: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    least: float = float("-inf")
    most: float = float("inf")


@cache
def columns(table: str) -> tuple[Column, ...]:
    """Columns of a table of measurements, in the order of its file."""
    document = read_toml("measurements", "columns.toml")
    own: list[Mapping[str, Any]] = []
    for entry in document[table]:
        own += document[entry] if isinstance(entry, str) else [entry]
    listed = [*document["head"], *own, *document["tail"]]
    return tuple(Column(**{**entry, "choices": tuple(entry.get("choices", ()))}) for entry in listed)


def column_names(table: str) -> tuple[str, ...]:
    """Names of the columns of a table of measurements."""
    return tuple(column.name for column in columns(table))


Cell = str | float | bool | None

#: columns that a row which is compared must fill, by table
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "train": ("model", "system", "count", "tp", "dp", "pp", "microbatch_size", "global_batch_size", "precision"),
    "serve": ("model", "system", "count", "tp", "dp", "input_tokens", "output_tokens", "precision"),
    "collective": ("op", "system", "count", "ranks", "layer"),
    "gemm": ("op", "system", "cores"),
}
_MODELS: Final = "measurements/models"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One published number with its configuration; `values` holds every column, None where blank."""

    table: str
    id: str
    dataset: str
    metric: str
    measured: float | None
    trust: str
    use: str
    reason: str
    values: Mapping[str, Cell]

    @property
    def kind(self) -> Kind | None:
        """What was timed; None where it is not one pass, step or kernel."""
        return next((kind for kind in Kind if kind.table == self.table and kind.metric in ("", self.metric)), None)

    @property
    def group(self) -> tuple[str, str]:
        """What is left out together in cross-validation."""
        return self.dataset, str(self.values.get("model") or "")

    def number(self, column: str) -> float:
        """Number in a column that must hold one.

        Raises DataError (the cell is blank or holds no number).
        """
        value = self.values[column]
        if not isinstance(value, float):
            message = f"{self.id}: column {column} holds no number"
            raise DataError(message)
        return value

    def text(self, column: str) -> str:
        """Text in a column."""
        value = self.values[column]
        return "" if value is None else str(value)


@cache
def measurements(table: str) -> tuple[Measurement, ...]:
    """Rows of a table of the package, those left out included.

    Raises DataError (a row breaks the schema).
    """
    path = resources.files("trn2model").joinpath("data", "measurements", f"{table}.csv")
    return read_measurements(table, path.read_text(encoding="utf-8"))


def left_out(table: str) -> dict[str, tuple[str, ...]]:
    """Rows that are not compared, by reason."""
    reasons: dict[str, list[str]] = {}
    for row in measurements(table):
        if row.use == "excluded":
            reason = "restated elsewhere in the same source" if row.reason.startswith("restated") else row.reason
            reasons.setdefault(reason, []).append(row.id)
    return {reason: tuple(reasons[reason]) for reason in sorted(reasons, key=lambda key: (-len(reasons[key]), key))}


def read_measurements(table: str, text: str) -> tuple[Measurement, ...]:
    """Rows of a measurement file.

    Raises DataError (the header differs, a cell is out of range or of the wrong type, a model or system is unknown, an
    id comes twice, or a row that is compared lacks a column; the message names row and column).
    """
    schema = columns(table)
    rows = list(csv.reader(io.StringIO(text)))
    wanted = [column.name for column in schema]
    if not rows or rows[0] != wanted:
        message = f"{table}: the header must be {','.join(wanted)}"
        raise DataError(message)
    found = tuple(_row(table, schema, f"{table} row {number}", row) for number, row in enumerate(rows[1:], start=2))
    ids = [row.id for row in found]
    if len(set(ids)) < len(ids):
        message = f"{table}: id {next(name for name in ids if ids.count(name) > 1)} comes twice"
        raise DataError(message)
    return found


@cache
def measured_model(name: str) -> ModelSpec:
    """Architecture of a measurement: of the catalog, or one that only measurements use.

    Raises UnknownNameError (neither holds the name).
    """
    if name in list_toml(_MODELS):
        return parse_model(name, read_toml("measurements", "models", f"{name}.toml"))
    return catalog.model(name)


@cache
def _known(kind: str) -> frozenset[str]:
    if kind == "system":
        return frozenset(catalog.system_names())
    return frozenset((*catalog.model_names(), *list_toml(_MODELS)))


def _row(table: str, schema: Sequence[Column], where: str, row: list[str]) -> Measurement:
    if len(row) != len(schema):
        message = f"{where}: {len(row)} cells, {len(schema)} columns"
        raise DataError(message)
    values = {column.name: _cell(column, text, where) for column, text in zip(schema, row, strict=True)}
    use, reason = str(values["use"]), str(values["reason"] or "")
    missing = [name for name in ("measured", *_NEEDED[table]) if values[name] is None]
    if use != "excluded" and missing:
        message = f"{where}: {', '.join(missing)} blank in a row that is compared"
        raise DataError(message)
    if bool(reason) != (use != "fit"):
        message = f"{where}, column reason: needed for every use but fit"
        raise DataError(message)
    measured = values["measured"]
    return Measurement(
        table=table,
        id=str(values["id"]),
        dataset=str(values["dataset"]),
        metric=str(values["metric"]),
        measured=measured if isinstance(measured, float) else None,
        trust=str(values["trust"]),
        use=use,
        reason=reason,
        values=values,
    )


def _cell(column: Column, text: str, where: str) -> Cell:
    if text == "":
        if column.required:
            message = f"{where}, column {column.name}: blank"
            raise DataError(message)
        return None
    problem = _problem(column, text)
    if problem:
        message = f"{where}, column {column.name}: {text[:40]!r} is {problem}"
        raise DataError(message)
    if column.type in {"int", "float"}:
        return float(text)
    return text == "true" if column.type == "bool" else text


def _problem(column: Column, text: str) -> str:
    if column.type in {"int", "float"}:
        try:
            value = float(text)
        except ValueError:
            return "no number"
        if column.type == "int" and value % 1.0 != 0.0:
            return "no whole number"
        return "" if column.least <= value <= column.most else f"outside {column.least:g} to {column.most:g}"
    if column.type in {"model", "system"}:
        return "" if text in _known(column.type) else f"no {column.type} of the catalog"
    if column.type == "choice":
        return "" if text in column.choices else "none of " + ", ".join(column.choices)
    return "neither true nor false" if column.type == "bool" and text not in {"true", "false"} else ""


_CONDITIONS: Final = ("system", "stack", "version", "kernels", "kernel")


def selected_profile(row: Measurement) -> str:
    """Profile of a row's software path.

    Raises DataError (no path holds).
    """
    return str(_path(row)["profile"])


def holds_stalls(row: Measurement) -> bool:
    """Whether a time per token holds the prefills of the requests beside its own."""
    several = (row.values.get("concurrency") or 1.0) != 1.0
    mean = row.metric == "tpot" and row.text("statistic") == "mean"
    return several and mean and bool(_path(row).get("mean_holds_stalls"))


def _path(row: Measurement) -> dict[str, Any]:
    for path in fits()["paths"]:
        if row.kind in path["kinds"] and all(_holds(path, name, row) for name in _CONDITIONS):
            return dict(path)
    message = f"{row.id}: no software path of fits.toml fits the row"
    raise DataError(message)


@cache
def fits() -> dict[str, Any]:
    """Contents of fits.toml: software paths, and what is fitted for each profile."""
    return read_toml("fits.toml")


def _holds(path: dict[str, Any], name: str, row: Measurement) -> bool:
    pattern = path.get(name)
    return pattern is None or re.search(pattern, row.text(name)) is not None
