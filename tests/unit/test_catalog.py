"""The backend of `trn2model specs`: SI numbers with unit, source, status, note and alternatives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trn2model.errors import UnknownNameError
from trn2model.specs import catalog
from trn2model.specs.catalog import REQUIRED, specs_report
from trn2model.specs.provenance import STATUSES, sources
from trn2model.units import GIB, TIB, UNITS

NAMES = (*catalog.system_names(), *catalog.chip_names())


def values(name: str) -> dict[str, Any]:
    """Values of a report's figures."""
    return {key: figure["value"] for key, figure in specs_report(name)["figures"].items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_report_has_the_promised_figures_with_provenance(name: str) -> None:
    report = specs_report(name)
    assert report["system"] == name
    assert {key: report["figures"][key]["unit"] for key in REQUIRED} == REQUIRED
    for key, figure in report["figures"].items():
        assert figure.keys() == {"value", "unit", "source", "status", "note", "alternatives"}, key
        assert UNITS[figure["unit"]][1] == 1, key
        assert figure["source"] in sources(), key
        assert figure["status"] in STATUSES, key
        assert figure["value"] is not None or figure["note"], key
        for other in figure["alternatives"]:
            assert other["unit"] == figure["unit"], key
            assert other["source"] in sources(), key


@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_json(name: str) -> None:
    assert json.loads(json.dumps(specs_report(name))) == specs_report(name)


def test_the_chip_is_inside_the_system() -> None:
    figures = specs_report("trn2.48xlarge")["figures"]
    assert figures["chip_num_cores"]["value"] == 8
    assert figures["chip_hbm_bytes"]["value"] == 96 * GIB
    assert figures["chip_hbm_bandwidth"]["value"] == 2.9e12
    assert figures["chip_fp8_flop_rate"]["value"] == 1299e12
    assert figures["chip_bf16_flop_rate"]["value"] == 667e12
    sparse = figures["chip_sparse_flop_rate"]
    assert sparse["value"] == 2563e12
    assert (5200e12, "aws-trn2-launch") in [(a["value"], a["source"]) for a in sparse["alternatives"]]


def test_the_instance_and_the_ultraserver() -> None:
    instance, ultraserver = values("trn2.48xlarge"), values("trn2-ultraserver")
    wanted = {"num_chips": 16, "num_cores": 128, "hbm_bytes": 1.5 * TIB, "num_vcpus": 192, "host_bytes": 2 * TIB}
    assert {key: instance[key] for key in wanted} == wanted
    wanted = {"num_chips": 64, "num_cores": 512, "hbm_bytes": 6 * TIB, "num_vcpus": 768, "host_bytes": 8 * TIB}
    assert {key: ultraserver[key] for key in wanted} == wanted
    assert (instance["link_bandwidth_inter"], ultraserver["link_bandwidth_inter"]) == (None, 256e9)
    assert instance["link_bandwidth_intra"] == ultraserver["link_bandwidth_intra"] == 1024e9
    assert instance["nic_bandwidth_per_chip"] == ultraserver["nic_bandwidth_per_chip"] == 25e9


def test_prices_are_in_the_report() -> None:
    assert values("trn2.48xlarge")["price_capacity_block"] == 35.7608
    assert values("trn2-ultraserver")["price_capacity_block"] is None


def test_a_chip_by_name() -> None:
    report = specs_report("trainium2")
    assert (report["kind"], report["title"]) == ("chip", "AWS Trainium2")
    figures = values("trainium2")
    assert (figures["num_chips"], figures["num_cores"], figures["num_vcpus"]) == (1, 8, None)
    absent = {key: report["figures"][key] for key in ("link_bandwidth_intra", "nic_bandwidth", "host_bytes")}
    assert {key: (figure["value"], figure["unit"]) for key, figure in absent.items()} == {
        "link_bandwidth_intra": (None, "B/s"), "nic_bandwidth": (None, "B/s"), "host_bytes": (None, "B")
    }  # fmt: skip


def test_what_does_not_exist_is_null() -> None:
    assert values("p4de.24xlarge")["fp8_flop_rate"] is None
    assert values("trn1.32xlarge")["sparse_flop_rate"] is None
    assert values("p5.48xlarge")["num_links"] is None


def test_all_at_once() -> None:
    report = specs_report(None)
    assert [r["system"] for r in report["systems"]] == list(catalog.system_names())
    assert [r["system"] for r in report["chips"]] == list(catalog.chip_names())


def test_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match=r"trn2\.48xlarge") as caught:
        specs_report("trn2.96xlarge")
    assert caught.value.field == "system"
