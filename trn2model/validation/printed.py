"""Rows and numbers as public tables print them, and the curation rules kept as data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from trn2model.specs.provenance import read_toml

FOLDER: Final = "measurements"
#: a value of a row on its way: text as printed, a number, or None where nothing is known
Value = str | float | None
Row = dict[str, Value]


def look_up(table: str, text: str) -> tuple[str, str]:
    """Our name for a printed one."""
    for entry in _names()[table]:
        if _search(entry["match"], text):
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
        "outside": first(outside) or None,
    }


def apply_facts(kind: str, row: Row, raw: Mapping[str, str]) -> None:
    """Fill what the source leaves out; columns it does not state are listed in `assumed`."""
    assumed = [name for name in str(row.get("assumed") or "").split() if name]
    for fact in _rules()[kind].get("facts", ()):
        if not holds(fact["when"], row, raw):
            continue
        for name, value in fact["set"].items():
            if row.get(name) is None or fact.get("replace"):
                row[name] = value
                assumed += [] if fact.get("stated") or name in assumed else [name]
    row["assumed"] = " ".join(assumed)


def verdict(kind: str, row: Row, raw: Mapping[str, str]) -> tuple[str, str]:
    """Use of a row, and why it is not fitted on."""
    for rule in _rules()[kind]["uses"]:
        if row["metric"] in rule.get("metrics", [row["metric"]]) and holds(rule["when"], row, raw):
            return rule["use"], rule["reason"].format_map({name: _shown(value) for name, value in row.items()})
    return "fit", ""


def holds(conditions: Mapping[str, Any], row: Mapping[str, Value], raw: Mapping[str, str]) -> bool:
    """Whether a row meets every condition."""
    return all(_holds(key, wanted, row, raw) for key, wanted in conditions.items())


def _holds(key: str, wanted: Any, row: Mapping[str, Value], raw: Mapping[str, str]) -> bool:  # noqa: ANN401 (TOML)
    negated = key.startswith("not.")
    name, _, test = key.removeprefix("not.").removeprefix("raw.").partition(".")
    value = raw.get(name, "") if "raw." in key else row.get(name)
    if test == "blank":
        return (value in {None, ""}) is bool(wanted)
    if test:
        return isinstance(value, float | int) and bool(value >= wanted if test == "least" else value <= wanted)
    return _search(wanted, _shown(value)) != negated


def _shown(value: Value) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.10g}"


def first(texts: Iterable[str | None]) -> str:
    """First text that is not blank."""
    return next((text for text in texts if text), "")


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def _search(pattern: str, text: str) -> bool:
    return _pattern(pattern).search(text) is not None


@cache
def _names() -> Mapping[str, Any]:
    return read_toml(FOLDER, "names.toml")


@cache
def _rules() -> Mapping[str, Any]:
    return read_toml(FOLDER, "rules.toml")


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
