"""Figures with their origin: value, unit, source, status, alternatives."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, Literal, get_args

from trn2model.errors import DataError
from trn2model.units import si_unit, to_si

Status = Literal["published", "derived", "measured", "assumed"]
STATUSES: Final[tuple[str, ...]] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a fact was read."""

    id: str
    title: str
    locator: str
    revision: str
    date: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """A value another source prints for the same figure, in SI units; None where none is published."""

    value: float | None
    unit: str
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One fact in SI units with its origin; `value` None means no value is published."""

    value: float | None
    unit: str
    source: str
    status: Status
    note: str = ""
    alternatives: tuple[Alternative, ...] = ()

    def number(self) -> float:
        """Value of a figure that must have one.

        Raises DataError (no value is published).
        """
        if self.value is None:
            message = f"no value is published ({self.source}): {self.note}"
            raise DataError(message)
        return self.value


def read_toml(*parts: str) -> dict[str, Any]:
    """Contents of a TOML file of the package's data folder.

    Examples
    --------
    >>> "neuron-trainium2" in read_toml("sources.toml")
    True
    """
    path = resources.files("trn2model").joinpath("data", *parts)
    return tomllib.loads(path.read_text(encoding="utf-8"))


def list_toml(folder: str) -> tuple[str, ...]:
    """Stems of the TOML files in one folder of the package's data, sorted."""
    root = resources.files("trn2model").joinpath("data", folder)
    return tuple(sorted(p.name.removesuffix(".toml") for p in root.iterdir() if p.name.endswith(".toml")))


def read_figure(table: Mapping[str, Any], where: str) -> Figure:
    """Figure from its TOML table, converted to SI.

    Raises DataError (a key is missing, a unit or status is unknown).
    """
    missing = {"unit", "source", "status"} - table.keys()
    if missing or table["status"] not in STATUSES:
        message = f"{where}: a figure needs unit, source and status ({', '.join(STATUSES)})"
        raise DataError(message)
    unit = table["unit"]
    alternatives = tuple(
        Alternative(
            _si_or_none(a.get("value"), a.get("unit", unit)),
            si_unit(a.get("unit", unit)),
            a["source"],
            a.get("note", ""),
        )
        for a in table.get("alternatives", ())
    )
    value = _si_or_none(table.get("value"), unit)
    return Figure(value, si_unit(unit), table["source"], table["status"], table.get("note", ""), alternatives)


@cache
def sources() -> Mapping[str, Source]:
    """Every source the data cites, by id."""
    return {key: Source(id=key, **fields) for key, fields in read_toml("sources.toml").items()}


def _si_or_none(value: float | None, unit: str) -> float | None:
    return None if value is None else to_si(value, unit)
