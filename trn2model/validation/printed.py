"""Numbers as public tables print them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from trn2model.validation.rules import Value

_NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?")


def number(text: str) -> float | None:
    """A cell that is one number, with or without thousands separators.

    Examples
    --------
    >>> number(" 1,024 "), number("~3"), number("")
    (1024.0, None, None)
    """
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def leading_number(text: str) -> float | None:
    """First number of a cell, as in "1500+-150" or "4 if LNC=2".

    Examples
    --------
    >>> leading_number("1500+-150"), leading_number("~558 observed"), leading_number("seq 4096")
    (1500.0, 558.0, None)
    """
    found = _NUMBER.match(text.strip().lstrip("~"))
    return float(found.group().replace(",", "")) if found else None


def captured(pattern: str, text: str) -> float | None:
    r"""Number captured by a pattern.

    Examples
    --------
    >>> captured(r"seq (\d+)", "Batch; seq 8192; p99")
    8192.0
    """
    found = re.search(pattern, text, re.IGNORECASE)
    return number(found.group(1)) if found else None


def product(*factors: Value) -> float | None:
    """Product of numbers."""
    result = 1.0
    for factor in factors:
        if not isinstance(factor, float | int):
            return None
        result *= factor
    return result


def quotient(dividend: Value, divisor: Value) -> float | None:
    """Quotient of two numbers."""
    if not isinstance(dividend, float | int) or not isinstance(divisor, float | int) or divisor == 0:
        return None
    return dividend / divisor


def cell(raw: Mapping[str, str], *names: str) -> str:
    """First cell of a row that exists and is not blank."""
    return next((text for name in names if (text := (raw.get(name) or "").strip())), "")
