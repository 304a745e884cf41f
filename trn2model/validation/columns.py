"""Columns of the measurement files, read from data/measurements/columns.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from trn2model.specs.provenance import read_toml

#: kinds of measurement, one file each
KINDS: Final = ("training", "inference", "collective", "operator")


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
def columns(kind: str) -> tuple[Column, ...]:
    """Columns of a kind of measurement, in the order of its file."""
    document = read_toml("measurements", "columns.toml")
    own: list[Mapping[str, Any]] = []
    for entry in document[kind]:
        own += document[entry] if isinstance(entry, str) else [entry]
    listed = [*document["head"], *own, *document["tail"]]
    return tuple(Column(**{**entry, "choices": tuple(entry.get("choices", ()))}) for entry in listed)


def column_names(kind: str) -> tuple[str, ...]:
    """Names of the columns of a kind of measurement."""
    return tuple(column.name for column in columns(kind))
