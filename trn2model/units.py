"""Closed unit table: SI inside, named units only at the edges.

Decimal prefixes are powers of 1000, binary prefixes powers of 1024; a bit is an eighth of a byte.
"""

from __future__ import annotations

from typing import Final

from trn2model.errors import DataError

KIB: Final = 2.0**10
MIB: Final = 2.0**20
GIB: Final = 2.0**30
TIB: Final = 2.0**40

#: unit -> (SI unit, factor)
UNITS: Final[dict[str, tuple[str, float]]] = {
    "1": ("1", 1.0),
    "%": ("1", 1e-2),
    "B": ("B", 1.0),
    "kB": ("B", 1e3),
    "MB": ("B", 1e6),
    "GB": ("B", 1e9),
    "TB": ("B", 1e12),
    "KiB": ("B", KIB),
    "MiB": ("B", MIB),
    "GiB": ("B", GIB),
    "TiB": ("B", TIB),
    "B/s": ("B/s", 1.0),
    "kB/s": ("B/s", 1e3),
    "MB/s": ("B/s", 1e6),
    "GB/s": ("B/s", 1e9),
    "TB/s": ("B/s", 1e12),
    "GiB/s": ("B/s", GIB),
    "Gbit/s": ("B/s", 1e9 / 8),
    "Tbit/s": ("B/s", 1e12 / 8),
    "FLOP": ("FLOP", 1.0),
    "GFLOP": ("FLOP", 1e9),
    "TFLOP": ("FLOP", 1e12),
    "PFLOP": ("FLOP", 1e15),
    "FLOP/s": ("FLOP/s", 1.0),
    "GFLOP/s": ("FLOP/s", 1e9),
    "TFLOP/s": ("FLOP/s", 1e12),
    "PFLOP/s": ("FLOP/s", 1e15),
    "element/s": ("element/s", 1.0),
    "Gelement/s": ("element/s", 1e9),
    "cycle": ("cycle", 1.0),
    "s": ("s", 1.0),
    "ms": ("s", 1e-3),
    "us": ("s", 1e-6),
    "ns": ("s", 1e-9),
    "h": ("s", 3600.0),
    "day": ("s", 86400.0),
    "Hz": ("Hz", 1.0),
    "MHz": ("Hz", 1e6),
    "GHz": ("Hz", 1e9),
    "W": ("W", 1.0),
    "kW": ("W", 1e3),
    "USD": ("USD", 1.0),
    "USD/h": ("USD/h", 1.0),
    "token": ("token", 1.0),
    "token/s": ("token/s", 1.0),
}


def to_si(value: float, unit: str) -> float:
    """Value in SI units of a value given in a named unit.

    Raises DataError (the unit is not in the table).

    Examples
    --------
    >>> to_si(96, "GiB")
    103079215104.0
    >>> to_si(1000, "GB/s")
    1000000000000.0
    """
    return value * _lookup(unit)[1]


def from_si(value: float, unit: str) -> float:
    """Value in a named unit of a value given in SI units.

    Raises DataError (the unit is not in the table).

    Examples
    --------
    >>> from_si(25e9, "Gbit/s")
    200.0
    """
    return value / _lookup(unit)[1]


def si_unit(unit: str) -> str:
    """SI unit in which a named unit is held.

    Raises DataError (the unit is not in the table).

    Examples
    --------
    >>> si_unit("Gbit/s")
    'B/s'
    """
    return _lookup(unit)[0]


def _lookup(unit: str) -> tuple[str, float]:
    if unit not in UNITS:
        message = f"unknown unit {unit!r}; known units: {', '.join(UNITS)}"
        raise DataError(message)
    return UNITS[unit]
