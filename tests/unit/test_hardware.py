"""Ranks: a chip divided by its logical cores."""

from __future__ import annotations

import pytest

from trn2model.errors import DataError, UnsupportedError
from trn2model.specs import catalog, hardware
from trn2model.specs.hardware import chip_flop_rate, logical_core
from trn2model.units import GIB, MIB


@pytest.mark.parametrize(
    ("system", "lnc", "name", "ranks", "cores", "hbm", "bf16"),
    [
        ("trn2.48xlarge", 2, "logical core", 4, 2, 24 * GIB, 166.75e12),
        ("trn2.48xlarge", 1, "core", 8, 1, 12 * GIB, 83.375e12),
        ("trn3-ultraserver-gen1", 2, "logical core", 4, 2, 36 * GIB, 167.75e12),
        ("trn1.32xlarge", 2, "core", 2, 1, 16 * GIB, 95e12),
        ("trn1.32xlarge", 1, "core", 2, 1, 16 * GIB, 95e12),
        ("inf2.48xlarge", 2, "core", 2, 1, 16 * GIB, 95e12),
        ("p5.48xlarge", 2, "GPU", 1, 1, 80e9, 989.4e12),
    ],
)
def test_shares_of_a_rank(system: str, lnc: int, name: str, ranks: int, cores: int, hbm: float, bf16: float) -> None:
    core = logical_core(catalog.system(system), lnc)
    assert core.rank_name == name
    assert (core.ranks_per_chip, core.cores_per_rank, core.hbm_bytes) == (ranks, cores, hbm)
    assert core.flop_rate("bf16") == bf16


@pytest.mark.parametrize("system", ["trn2.48xlarge", "trn1.32xlarge", "p5e.48xlarge", "trn3-ultraserver-gen2"])
@pytest.mark.parametrize("lnc", [1, 2])
def test_ranks_add_up_to_the_chip(system: str, lnc: int) -> None:
    chip = catalog.system(system).chip
    core = logical_core(catalog.system(system), lnc)
    assert core.ranks_per_chip * core.cores_per_rank == chip.num_cores
    for share, whole in (
        (core.hbm_bytes, chip.hbm_bytes),
        (core.hbm_bandwidth, chip.hbm_bandwidth),
        (core.vector_element_rate, chip.vector_element_rate),
        (core.scalar_element_rate, chip.scalar_element_rate),
        (core.sbuf_bytes, chip.sbuf_bytes * chip.num_cores),
        (core.flop_rate("bf16"), chip.flop_rate["bf16"]),
    ):
        assert share * core.ranks_per_chip == pytest.approx(whole)


def test_on_chip_memory_of_a_logical_core() -> None:
    assert logical_core(catalog.system("trn2.48xlarge"), 2).sbuf_bytes == 56 * MIB
    assert logical_core(catalog.system("p5.48xlarge"), 2).sbuf_bytes == 50 * MIB


def test_a_missing_rate_is_refused() -> None:
    chip = catalog.chip("a100-80gb")
    with pytest.raises(UnsupportedError, match="a100-80gb has no published fp8"):
        chip_flop_rate(chip, "fp8")
    core = logical_core(catalog.system("trn2.48xlarge"), 2)
    with pytest.raises(UnsupportedError, match="int8"):
        core.flop_rate("int8")


@pytest.mark.parametrize("name", hardware.hardware_names("system"))
def test_a_system_without_a_needed_figure_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    document = {**hardware._document(name)}
    document["figures"] = {k: v for k, v in document["figures"].items() if k != "link_x_bandwidth"}
    monkeypatch.setattr(hardware, "_document", lambda _: document)
    monkeypatch.setattr(hardware, "hardware_names", lambda _: (name,))
    monkeypatch.setattr(hardware, "load_chip", catalog.chip)
    with pytest.raises(DataError, match="link_x_bandwidth"):
        hardware.load_system.__wrapped__(name)


def test_a_null_figure_is_not_read_as_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    document = {**hardware._document("trainium2")}
    document["figures"] = {**document["figures"], "hbm_bytes": {"unit": "GiB", "source": "x", "status": "published"}}
    monkeypatch.setattr(hardware, "_document", lambda _: document)
    monkeypatch.setattr(hardware, "hardware_names", lambda _: ("trainium2",))
    with pytest.raises(DataError, match="no value is published"):
        hardware.load_chip.__wrapped__("trainium2")
