"""Numbers as people read them: three significant digits, decimal prefixes for rates, binary ones for capacity."""

from __future__ import annotations

import math
from typing import Final

from trn2model.units import from_si

#: Printed where there is nothing to print.
NOTHING: Final = "–"

_LADDERS: Final[dict[str, tuple[str, ...]]] = {
    "capacity": ("B", "KiB", "MiB", "GiB", "TiB"),
    "traffic": ("B", "kB", "MB", "GB", "TB"),
    "B/s": ("B/s", "kB/s", "MB/s", "GB/s", "TB/s"),
    "FLOP": ("FLOP", "GFLOP", "TFLOP", "PFLOP"),
    "FLOP/s": ("GFLOP/s", "TFLOP/s", "PFLOP/s"),
    "element/s": ("element/s", "Gelement/s"),
    "s": ("ns", "us", "ms", "s"),
    "Hz": ("Hz", "MHz", "GHz"),
    "W": ("W", "kW"),
}
_SPELLING: Final = {"us": "µs", "USD/h": "USD/h", "token/s": "tok/s", "token": "tokens", "1": ""}
_COUNT_STEPS: Final = ((1e12, 1e12, " T"), (1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k"))
_LEAST_FRACTION: Final = 1e-4
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR


def significant(value: float, digits: int = 3) -> str:
    """Number with a fixed count of significant digits, thousands separated, without an exponent in everyday ranges.

    Examples
    --------
    >>> significant(1234.5), significant(0.012345), significant(41.96)
    ('1,230', '0.0123', '42.0')
    """
    if not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    magnitude = math.floor(math.log10(abs(rounded)))
    if not -5 <= magnitude < 15:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:,.{max(digits - 1 - magnitude, 0)}f}"


def exact(value: float) -> str:
    """Number as it was printed at its source: every digit it has, thousands separated.

    Examples
    --------
    >>> exact(1299.0), exact(0.1), exact(2.9)
    ('1,299', '0.1', '2.9')
    """
    if not math.isfinite(value):
        return NOTHING
    rounded = float(f"{value:.9g}")
    if rounded == int(rounded) and abs(rounded) < 1e15:
        return f"{int(rounded):,}"
    return f"{rounded:,.9g}"


def capacity(value: float) -> str:
    """Bytes of memory in binary units.

    Examples
    --------
    >>> capacity(24 * 2**30)
    '24.0 GiB'
    """
    return _scaled(value, "capacity")


def traffic(value: float) -> str:
    """Bytes moved, in decimal units.

    Examples
    --------
    >>> traffic(1.5e9)
    '1.50 GB'
    """
    return _scaled(value, "traffic")


def bandwidth(value: float) -> str:
    """Byte rate in decimal units.

    Examples
    --------
    >>> bandwidth(2.9e12)
    '2.90 TB/s'
    """
    return _scaled(value, "B/s")


def flop_rate(value: float) -> str:
    """FLOP rate in decimal units.

    Examples
    --------
    >>> flop_rate(667e12)
    '667 TFLOP/s'
    """
    return _scaled(value, "FLOP/s")


def duration(value: float) -> str:
    """Time from nanoseconds to days.

    Examples
    --------
    >>> duration(0.0123), duration(7200)
    ('12.3 ms', '2.00 h')
    """
    if value >= 2 * _DAY:
        return f"{significant(from_si(value, 'day'))} days"
    if value >= _HOUR:
        return f"{significant(from_si(value, 'h'))} h"
    return _scaled(value, "s")


def percent(fraction: float, digits: int = 3) -> str:
    """Share of a whole.

    Examples
    --------
    >>> percent(0.4213)
    '42.1 %'
    """
    if 0 < fraction < _LEAST_FRACTION:
        return "<0.01 %"
    return f"{significant(from_si(fraction, '%'), digits)} %"


def number_of_requests(number: float) -> str:
    """Number of requests in words.

    Examples
    --------
    >>> number_of_requests(1), number_of_requests(20)
    ('1 request', '20 requests')
    """
    return f"{count(number)} request" + ("" if number == 1 else "s")


def count(value: float) -> str:
    """Number of things, with a decimal prefix once it is long.

    Examples
    --------
    >>> count(41234), count(1024)
    ('41.2 k', '1,024')
    """
    for threshold, step, prefix in _COUNT_STEPS:
        if abs(value) >= threshold:
            return f"{significant(value / step)}{prefix}"
    return exact(value) if value == round(value) else significant(value)


def quantity(value: float | None, unit: str) -> str:
    """A figure in its everyday unit, from its SI unit; bytes in the binary or decimal unit that needs fewer digits.

    Examples
    --------
    >>> quantity(667e12, "FLOP/s"), quantity(96 * 2**30, "B"), quantity(None, "B")
    ('667 TFLOP/s', '96 GiB', '–')
    >>> quantity(640e9, "B")
    '640 GB'
    """
    if value is None:
        return NOTHING
    names = ("capacity", "traffic") if unit == "B" else (unit,)
    return min((_printed(value, _LADDERS.get(name, (unit,))) for name in names), key=len)


def size_name(value: float) -> str:
    """Message size in binary units, three significant digits.

    Examples
    --------
    >>> size_name(64 * 2**20), size_name(2.6e6)
    ('64 MiB', '2.48 MiB')
    """
    unit = 1024.0 ** max(math.floor(math.log(value, 1024.0) + 1e-9), 0) if value > 0 else 1.0
    return quantity(float(f"{value / unit:.3g}") * unit, "B")


def _printed(value: float, ladder: tuple[str, ...]) -> str:
    """Every digit in the unit of the ladder that suits; a unit without a ladder is SI itself."""
    named = _rung(value, ladder)
    number = value if len(ladder) == 1 else from_si(value, named)
    return f"{exact(number)} {_SPELLING.get(named, named)}".strip()


def _scaled(value: float, ladder: str) -> str:
    if not math.isfinite(value):
        return NOTHING
    unit = _rung(value, _LADDERS[ladder])
    return f"{significant(from_si(value, unit))} {_SPELLING.get(unit, unit)}"


def _rung(value: float, ladder: tuple[str, ...]) -> str:
    """Largest unit in which the rounded number is at least one."""
    fitting = [unit for unit in ladder[1:] if abs(from_si(value, unit)) >= 0.9995]
    return fitting[-1] if fitting else ladder[0]
