"""Rows and numbers as public tables print them, and our names for what they name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from trn2model.specs.provenance import read_toml

#: a value of a row on its way: text as printed, a number, or None where nothing is known
Value = str | float | None
Row = dict[str, Value]


def look_up(table: str, text: str) -> tuple[str, str]:
    """Our name for a printed one."""
    for entry in _names()[table]:
        if says(text, entry["match"]):
            return entry.get("name", ""), entry.get("outside", "")
    return "", "not in the catalog"


def provenance(raw: Mapping[str, str]) -> Row:
    """Columns that every kind has: dataset, software, date, trust, source, note, and why a row is outside."""
    text = {name: (raw.get(name) or "").strip() for name in ("source", "sw_version", "notes", "trust", "date", "model")}
    machine = (raw.get("instance") or raw.get("gpu") or raw.get("platform") or "").strip()
    described = "|".join((text["source"], text["sw_version"], text["model"]))
    outside = [look_up("models", text["model"])[1] if "model" in raw else "", look_up("systems", machine)[1]]
    trust = text["trust"][:1].upper()
    return {
        "dataset": look_up("datasets", text["source"])[0],
        "stack": look_up("stacks", described)[0] or None,
        "version": text["sw_version"] or None,
        "date": text["date"] or None,
        "trust": trust if trust in {"A", "B", "C"} else "C",
        "source": text["source"],
        "note": text["notes"] or None,
        "outside": next(filter(None, outside), None),
    }


def says(text: Value, pattern: str) -> bool:
    """Whether a pattern occurs in a cell, in letters of either case."""
    return _pattern(pattern).search(_shown(text)) is not None


def _shown(value: Value) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.10g}"


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


@cache
def _names() -> Mapping[str, Any]:
    return read_toml("measurements", "names.toml")


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
