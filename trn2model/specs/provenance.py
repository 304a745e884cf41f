"""Figures with their origin: value, unit, source, status, alternatives; and files read within limits."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, get_args

from trn2model.errors import DataError, InvalidInputError
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


#: most bytes of a JSON file: a scenario, or a model's config.json
MAX_JSON_BYTES: Final = 1 << 20
#: most bytes of a CSV file: a trace of requests, or a table of measurements
MAX_CSV_BYTES: Final = 16 << 20
_SHOWN: Final = 60


def read_user_file(field: str, path: str, kind: str, most_bytes: int) -> str:
    """Text of a file that a user named.

    Raises InvalidInputError (the path is empty, names no regular file, cannot be read or is too large, or the content
    is not UTF-8).
    """
    shown = path[:_SHOWN]
    remedy = f"give the path of a readable {kind} file"
    if not path:
        raise InvalidInputError(field, shown, "the path of a file", remedy)
    try:
        data = _bytes(Path(path), most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(field, shown, f"a readable file ({reason})", remedy) from error
    if len(data) > most_bytes:
        raise InvalidInputError(field, shown, f"a file of at most {most_bytes:,} bytes", remedy)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(field, shown, "a file of UTF-8 text", remedy) from error


def _bytes(file: Path, most: int) -> bytes:
    """First bytes of a regular file; its kind is looked at before it is opened, which alone can block on a pipe."""
    mode = file.stat().st_mode
    if not stat.S_ISREG(mode):
        message = "Is a directory" if stat.S_ISDIR(mode) else "it is a device or a pipe, not a regular file"
        raise ValueError(message)
    with file.open("rb") as opened:
        return opened.read(most)
