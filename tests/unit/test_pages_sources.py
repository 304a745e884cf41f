"""Sources page: every figure of the data files, with unit, source and status, and nothing else."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

import pytest

from trn2model.specs.provenance import STATUSES
from trn2model.specs.scenario import FIELDS, Scenario
from trn2model.text import quantity
from trn2model.ui import estimates
from trn2model.ui.pages import sources as page
from trn2model.ui.pages.content import Content, Listing, Remarks
from trn2model.units import UNITS, to_si

DATA = resources.files("trn2model").joinpath("data")
SOURCES = tomllib.loads(DATA.joinpath("sources.toml").read_text(encoding="utf-8"))
HARDWARE = {
    file.name.removesuffix(".toml"): tomllib.loads(file.read_text(encoding="utf-8"))
    for file in DATA.joinpath("hardware").iterdir()
}
PROFILES = {
    file.name.removesuffix(".toml"): tomllib.loads(file.read_text(encoding="utf-8"))
    for file in DATA.joinpath("profiles").iterdir()
}


def by_name() -> dict[tuple[Any, Any], dict[str, Any]]:
    table = page.all_figures()
    return {(row[0], row[1]): dict(zip(table.columns, row, strict=True)) for row in table.rows}


def listings(content: Content) -> dict[str, Listing]:
    return {block.title: block for row in content.rows for block in row if isinstance(block, Listing)}


@pytest.mark.parametrize("name", sorted(HARDWARE))
def test_every_figure_of_a_machine_is_listed_as_its_file_says(name: str) -> None:
    rows = by_name()
    files = {key: (key.replace("_", " "), figure) for key, figure in HARDWARE[name]["figures"].items()}
    files |= {f"price {key}": (f"price {key}", figure) for key, figure in HARDWARE[name].get("prices", {}).items()}
    for title, figure in files.values():
        row = rows[name, title]
        known = figure.get("value") is not None
        expected = quantity(to_si(figure["value"], figure["unit"]), UNITS[figure["unit"]][0]) if known else "–"
        assert row["value"] == expected
        assert row["status"] == figure["status"]
        assert row["source"] == SOURCES[figure["source"]]["title"]
        assert row["locator"] == SOURCES[figure["source"]]["locator"]
        assert str(row["alternatives"]).count(";") >= len(figure.get("alternatives", ())) - 1
        assert all(other["source"] in row["alternatives"] for other in figure.get("alternatives", ()))


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_constant_of_a_profile_is_listed(name: str) -> None:
    rows = by_name()
    for key, figure in PROFILES[name]["constants"].items():
        row = rows[f"profile {name}", key.replace("_", " ")]
        assert row["status"] == figure["status"]
        assert row["source"] == SOURCES[figure["source"]]["title"]


def test_a_value_has_a_unit_unless_it_is_a_number_alone() -> None:
    printed = {"tok/s", "µs", "USD/h", *UNITS}
    units = {row["value"].partition(" ")[2] for row in by_name().values() if row["value"] != "–"}
    assert units - {""} <= printed
    assert {"GB/s", "GiB", "PFLOP/s", "USD/h"} <= units
    rates = [row["value"] for (_, title), row in by_name().items() if title.endswith(("bandwidth", "flop rate"))]
    assert all(value == "–" or value.endswith(("B/s", "FLOP/s")) for value in rates)


def test_no_figure_is_listed_twice() -> None:
    assert len(by_name()) == len(page.all_figures().rows)


def test_counts_by_status_sum_to_all_figures() -> None:
    metrics = {metric.label: metric.value for metric in page.content(None, "light", page.ALL, page.ALL).metrics}
    counts = [int(metrics[status.capitalize()].replace(",", "")) for status in STATUSES]
    assert sum(counts) == int(metrics["Figures"].replace(",", "")) == len(page.all_figures().rows)
    assert metrics["Sources"] == f"{len(SOURCES):,}"


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_narrows_every_scope_to_its_rows(status: str) -> None:
    everything = listings(page.content(None, "light", page.ALL, status))["Figures of all"].table.rows
    assert everything == tuple(row for row in page.all_figures().rows if row[3] == status)


def test_a_scenario_shows_its_machine_its_chip_its_profile_and_what_it_assumes() -> None:
    estimate = estimates.training(Scenario(system="trn2.48xlarge", model="llama-3.1-8b", profile="ideal"))
    content = page.content(estimate, "light", page.THIS, page.ALL)
    shown = listings(content)["Figures of this scenario"].table
    assert set(shown.column("of")) == {"trn2.48xlarge", "trainium2", "profile ideal"}
    (remarks,) = (block for row in content.rows for block in row if isinstance(block, Remarks))
    assert remarks.lines == tuple(estimate.assumptions)


def test_documents_and_parameters_are_complete() -> None:
    found = listings(page.content(None, "light", page.THIS, page.ALL))
    documents = {row[0]: row[1:] for row in found["Documents and pages cited"].table.rows}
    assert documents == {
        key: tuple(source[name] for name in ("title", "revision", "date", "locator")) for key, source in SOURCES.items()
    }
    parameters = found["Parameters of a scenario"].table
    assert parameters.column("name") == tuple(row.name for row in FIELDS)
    assert len(set(parameters.column("key"))) == len(FIELDS)
    assert found["Figures of this scenario"].table.rows == ()
