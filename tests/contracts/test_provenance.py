"""Every number in the package's data says what it is measured in, where it was read and how far to trust it."""

from __future__ import annotations

import csv
import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.source import PACKAGE
from trn2model.specs.provenance import STATUSES
from trn2model.units import UNITS, si_unit

DATA = PACKAGE / "data"
FIGURE_KEYS = {"value", "unit", "source", "status", "note", "alternatives"}
ALTERNATIVE_KEYS = {"value", "unit", "source", "note"}
SOURCE_KEYS = {"title", "locator", "revision", "date"}
TRUST_CLASSES = ("A", "B", "C")
DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")

Table = dict[str, Any]


def _read(path: Path) -> Table:
    return tomllib.loads(path.read_text(encoding="utf-8"))


SOURCES: Table = _read(DATA / "sources.toml")
DOCUMENTS = {p.relative_to(DATA).as_posix(): _read(p) for p in sorted(DATA.rglob("*.toml")) if p.name != "sources.toml"}


def is_figure(table: Table) -> bool:
    """Whether a table is meant as a figure: it has a value or a unit."""
    return bool(table.keys() & {"value", "unit"})


def figure_problems(table: Table, sources: Table = SOURCES) -> Iterator[str]:
    """What a figure table lacks or gets wrong."""
    yield from (f"unknown key {key}" for key in sorted(table.keys() - FIGURE_KEYS))
    yield from _value_problems(table)
    if table.get("unit") not in UNITS:
        yield f"unit {table.get('unit')!r} is not in the closed table"
        return
    if table.get("source") not in sources:
        yield f"source {table.get('source')!r} is not in sources.toml"
    if table.get("status") not in STATUSES:
        yield f"status {table.get('status')!r} is none of {STATUSES}"
    for alternative in table.get("alternatives", ()):
        yield from _alternative_problems(alternative, table["unit"], sources)


def _alternative_problems(alternative: Table, unit: str, sources: Table) -> Iterator[str]:
    yield from (f"alternative: unknown key {key}" for key in sorted(alternative.keys() - ALTERNATIVE_KEYS))
    yield from (f"alternative: {problem}" for problem in _value_problems(alternative))
    own_unit = alternative.get("unit", unit)
    if own_unit not in UNITS or si_unit(own_unit) != si_unit(unit):
        yield f"alternative: unit {own_unit!r} does not measure what {unit!r} measures"
    if alternative.get("source") not in sources:
        yield f"alternative: source {alternative.get('source')!r} is not in sources.toml"


def _value_problems(table: Table) -> Iterator[str]:
    value = table.get("value", 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        yield f"value {value!r} is not a finite number"


def problems(node: object, where: str, *, sourced: bool = False, sources: Table = SOURCES) -> Iterator[str]:
    """Figures with defects, unknown sources, and numbers that no source stands for, in one document."""
    if isinstance(node, dict) and is_figure(node):
        yield from (f"{where}: {problem}" for problem in figure_problems(node, sources))
    elif isinstance(node, dict):
        if "source" in node and node["source"] not in sources:
            yield f"{where}: source {node['source']!r} is not in sources.toml"
        for key, child in node.items():
            yield from problems(child, f"{where}.{key}", sourced=sourced or "source" in node, sources=sources)
    elif isinstance(node, list):
        for index, child in enumerate(node):
            yield from problems(child, f"{where}[{index}]", sourced=sourced, sources=sources)
    elif isinstance(node, int | float) and not isinstance(node, bool) and not sourced:
        yield f"{where}: the number {node} has no source"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_number_has_provenance(name: str) -> None:
    assert list(problems(DOCUMENTS[name], name)) == []


def test_sources_say_where_to_look() -> None:
    assert {key: set(entry) ^ SOURCE_KEYS for key, entry in SOURCES.items() if set(entry) != SOURCE_KEYS} == {}
    blank = [(key, name) for key, entry in SOURCES.items() for name, text in entry.items() if not str(text).strip()]
    assert blank == []


def test_sources_are_dated() -> None:
    assert {key: entry["date"] for key, entry in SOURCES.items() if not DATE.fullmatch(str(entry["date"]))} == {}


def test_sources_are_listed_once() -> None:
    locators = [(entry["locator"], entry["revision"], entry["title"]) for entry in SOURCES.values()]
    assert len(set(locators)) == len(locators)


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.csv")), ids=lambda path: path.name)
def test_measurements_have_source_and_trust(path: Path) -> None:
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert rows
    assert {"source", "trust"} <= rows[0].keys()
    assert [n for n, row in enumerate(rows, 2) if not row["source"].strip()] == []
    assert [n for n, row in enumerate(rows, 2) if not row["trust"].startswith(TRUST_CLASSES)] == []


GOOD = {"value": 96, "unit": "GiB", "source": "s", "status": "published"}


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "gigabyte"},
        {"unit": None},
        {"source": "nowhere"},
        {"status": "guessed"},
        {"value": "96"},
        {"value": True},
        {"value": float("nan")},
        {"remark": "typo"},
        {"alternatives": [{"value": 1, "source": "nowhere"}]},
        {"alternatives": [{"value": 1, "source": "s", "unit": "GB/s"}]},
        {"alternatives": [{"value": 1, "source": "s", "status": "published"}]},
    ],
)
def test_the_contract_sees_a_bad_figure(change: Table) -> None:
    assert list(problems({"x": GOOD}, "d", sources={"s": {}})) == []
    assert list(problems({"x": GOOD | change}, "d", sources={"s": {}}))


@pytest.mark.parametrize("document", [{"a": 1}, {"a": {"b": [1.0]}}, {"source": "nowhere", "a": "text"}])
def test_the_contract_sees_a_number_without_source(document: Table) -> None:
    assert list(problems(document, "d", sources={"s": {}}))
    assert list(problems({"source": "s", "a": {"b": [1.0]}}, "d", sources={"s": {}})) == []
