"""Systems and chips: what vendors print, what follows from it, and that both agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trn2model.errors import UnknownNameError
from trn2model.specs import catalog
from trn2model.units import GIB, TIB

SYSTEMS = (
    "trn2.48xlarge",
    "trn2.3xlarge",
    "trn2-ultraserver",
    "trn1.32xlarge",
    "trn1n.32xlarge",
    "inf2.48xlarge",
    "p4de.24xlarge",
    "p5.48xlarge",
    "p5e.48xlarge",
    "p5en.48xlarge",
    "trn3-ultraserver-gen1",
    "trn3-ultraserver-gen2",
)
OPTIONS = {"capacity-block", "on-demand", "spot", "reserved"}


def test_every_promised_system_is_there() -> None:
    assert set(catalog.system_names()) == set(SYSTEMS)
    assert catalog.system_names()[0] == "trn2.48xlarge"
    assert [n for n in catalog.system_names() if catalog.system(n).extra] == list(SYSTEMS[-2:])


@pytest.mark.parametrize(
    ("name", "shape", "chips", "instances"),
    [
        ("trn2.48xlarge", (4, 4, 1), 16, 1),
        ("trn2.3xlarge", (1, 1, 1), 1, 1),
        ("trn2-ultraserver", (4, 4, 4), 64, 4),
        ("trn1.32xlarge", (4, 4, 1), 16, 1),
        ("inf2.48xlarge", (12, 1, 1), 12, 1),
        ("p5.48xlarge", (8, 1, 1), 8, 1),
        ("trn3-ultraserver-gen2", (144, 1, 1), 144, 36),
    ],
)
def test_shapes(name: str, shape: tuple[int, int, int], chips: int, instances: int) -> None:
    system = catalog.system(name)
    assert (system.torus_shape, system.num_chips, system.num_instances) == (shape, chips, instances)
    assert shape[0] * shape[1] * shape[2] == chips


@pytest.mark.parametrize("name", SYSTEMS)
def test_printed_totals_are_the_chips_times_their_number(name: str) -> None:
    system = catalog.system(name)
    chip, count = system.chip, system.num_chips
    per_chip = {"hbm_bytes": chip.hbm_bytes, "hbm_bandwidth": chip.hbm_bandwidth, "num_cores": chip.num_cores}
    per_chip |= {
        f"{dtype}_flop_rate": chip.flop_rate[dtype] for dtype in ("fp8", "bf16", "fp32") if dtype in chip.flop_rate
    }
    sparse = chip.figures["sparse_flop_rate"].value
    if sparse is not None:
        per_chip["sparse_flop_rate"] = sparse
    for key, value in per_chip.items():
        assert system.figures[key].number() == pytest.approx(count * value, rel=3e-3), key


@pytest.mark.parametrize("name", SYSTEMS)
def test_links_of_the_shape(name: str) -> None:
    system = catalog.system(name)
    printed = system.figures["num_links"].value
    if system.interconnect == "switch":
        assert printed is None
        assert system.link_bandwidth[0] > 0
        return
    rings = sum(system.num_chips for size in system.torus_shape if size > 2)
    assert printed == rings
    assert [rate > 0 for rate in system.link_bandwidth] == [size > 1 for size in system.torus_shape]


def test_trn2_instance_as_printed() -> None:
    figures = catalog.system("trn2.48xlarge").figures
    assert figures["hbm_bytes"].value == 1.5 * TIB
    assert figures["hbm_bandwidth"].value == pytest.approx(46.4e12)
    assert figures["fp8_flop_rate"].value == pytest.approx(20.8e15)
    assert figures["sparse_flop_rate"].value == pytest.approx(41e15)
    assert [a.value for a in figures["sparse_flop_rate"].alternatives] == [pytest.approx(83.2e15)]
    assert (figures["num_vcpus"].value, figures["host_bytes"].value) == (192, 2 * TIB)
    assert figures["nic_bandwidth"].value == pytest.approx(400e9)
    assert figures["num_links"].value == 32


def test_ultraserver_as_printed() -> None:
    figures = catalog.system("trn2-ultraserver").figures
    assert figures["hbm_bytes"].value == 6 * TIB
    assert figures["hbm_bandwidth"].value == pytest.approx(185.6e12)
    assert figures["fp8_flop_rate"].value == pytest.approx(83.2e15)
    assert figures["sparse_flop_rate"].value == pytest.approx(164e15)
    assert [a.value for a in figures["sparse_flop_rate"].alternatives] == [pytest.approx(332e15)]
    assert (figures["num_vcpus"].value, figures["host_bytes"].value) == (768, 8 * TIB)
    assert figures["nic_bandwidth"].value == pytest.approx(1600e9)
    assert [a.value for a in figures["nic_bandwidth"].alternatives] == [pytest.approx(400e9)]
    assert figures["num_links"].value == 192


def test_an_ultraserver_is_four_instances_and_z_rings() -> None:
    one, four = catalog.system("trn2.48xlarge"), catalog.system("trn2-ultraserver")
    for key in ("num_chips", "num_cores", "num_vcpus", "host_bytes", "hbm_bytes", "fp8_flop_rate", "nic_bandwidth"):
        assert four.figures[key].number() == pytest.approx(4 * one.figures[key].number(), rel=1e-9)
    assert four.figures["num_links"].number() == 4 * one.figures["num_links"].number() + 64
    assert four.link_bandwidth[:2] == one.link_bandwidth[:2]


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("trn2.48xlarge", (128e9, 128e9, 0.0)),
        ("trn2-ultraserver", (128e9, 128e9, 64e9)),
        ("trn1.32xlarge", (48e9, 48e9, 0.0)),
        ("trn1n.32xlarge", (48e9, 48e9, 0.0)),
        ("inf2.48xlarge", (48e9, 0.0, 0.0)),
        ("p4de.24xlarge", (300e9, 0.0, 0.0)),
        ("p5en.48xlarge", (450e9, 0.0, 0.0)),
    ],
)
def test_links_are_one_direction_of_one_link(name: str, links: tuple[float, float, float]) -> None:
    assert catalog.system(name).link_bandwidth == pytest.approx(links)


@pytest.mark.parametrize("name", ["trn2.48xlarge", "trn2-ultraserver"])
def test_links_add_up_to_the_printed_bandwidth_of_a_chip(name: str) -> None:
    system = catalog.system(name)
    x, y, z = system.link_bandwidth
    both_directions = 2
    assert both_directions * 2 * (x + y) == pytest.approx(system.figures["link_bandwidth_intra"].number())
    if z:
        assert both_directions * 2 * z == pytest.approx(system.figures["link_bandwidth_inter"].number())
        assert both_directions * 2 * (x + y + z) == pytest.approx(system.chip.figures["link_bandwidth"].number())
    else:
        assert system.figures["link_bandwidth_inter"].value is None


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_the_direction_of_links_is_an_assumption_with_its_other_reading(axis: str) -> None:
    figure = catalog.system("trn2-ultraserver").figures[f"link_{axis}_bandwidth"]
    assert figure.status == "assumed"
    assert "direction" in figure.note or "as along x" in figure.note
    assert [a.value for a in figure.alternatives] == [2 * figure.number()]


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("trn2.48xlarge", 25e9),
        ("trn2.3xlarge", 25e9),
        ("trn2-ultraserver", 25e9),
        ("trn1.32xlarge", 6.25e9),
        ("trn1n.32xlarge", 12.5e9),
        ("p4de.24xlarge", 6.25e9),
        ("p5.48xlarge", 50e9),
    ],
)
def test_network_per_chip(name: str, rate: float) -> None:
    assert catalog.system(name).nic_bandwidth == pytest.approx(rate)


@pytest.mark.parametrize("name", SYSTEMS)
def test_prices_are_above_zero_or_not_given(name: str) -> None:
    system = catalog.system(name)
    assert set(system.prices) == OPTIONS
    assert system.default_price_option in OPTIONS
    for option, price in system.prices.items():
        assert price.unit == "USD/h", option
        assert price.value is None or price.value > 0, option
        assert price.value is not None or price.note, option


@pytest.mark.parametrize(
    ("name", "option", "price"),
    [
        ("trn2.48xlarge", "capacity-block", 35.7608),
        ("trn2.3xlarge", "capacity-block", 2.235),
        ("trn1.32xlarge", "on-demand", 21.5),
        ("trn1n.32xlarge", "on-demand", 24.78),
        ("inf2.48xlarge", "on-demand", 12.98127),
        ("p4de.24xlarge", "on-demand", 27.44705),
        ("p5.48xlarge", "on-demand", 55.04),
        ("p5e.48xlarge", "capacity-block", 47.76),
        ("p5en.48xlarge", "on-demand", 63.296),
    ],
)
def test_default_prices(name: str, option: str, price: float) -> None:
    system = catalog.system(name)
    assert system.default_price_option == option
    assert system.prices[option].value == price


def test_no_public_price_is_null_and_says_so() -> None:
    assert catalog.system("trn2.48xlarge").prices["on-demand"].value is None
    price = catalog.system("trn2-ultraserver").prices["capacity-block"]
    assert price.value is None
    assert "no public price" in price.note
    (estimate,) = price.alternatives
    assert estimate.value == pytest.approx(4 * 35.7608)
    assert "assumed" in estimate.note


def test_trainium2() -> None:
    chip = catalog.chip("trainium2")
    assert (chip.num_cores, chip.hbm_bytes, chip.hbm_bandwidth) == (8, 96 * GIB, 2.9e12)
    assert dict(chip.flop_rate) == {"fp8": 1299e12, "bf16": 667e12, "fp16": 667e12, "tf32": 667e12, "fp32": 181e12}
    assert chip.sparse_flop_rate["neuron-docs"] == dict.fromkeys(("fp8", "bf16", "fp16", "tf32"), 2563e12)
    assert chip.sparse_flop_rate["launch"]["fp8"] == 5200e12
    assert chip.sparse_flop_rate["launch"]["bf16"] == 2563e12
    assert chip.sparsity_patterns == ("4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2")
    assert dict(chip.fp8_contraction_passes) == {"neuron-docs": 2, "launch": 1}


@pytest.mark.parametrize(
    ("figure", "core", "per_core_total"),
    [("fp8_flop_rate", 158e12, 1264e12), ("bf16_flop_rate", 79e12, 632e12), ("fp32_flop_rate", 20e12, 160e12)],
)
def test_chip_rates_keep_the_eight_cores_beside_them(figure: str, core: float, per_core_total: float) -> None:
    chip = catalog.chip("trainium2")
    assert chip.figures[f"core_{figure}"].value == core
    assert core * chip.num_cores == per_core_total
    assert per_core_total in [a.value for a in chip.figures[figure].alternatives]


def test_engines_follow_from_lanes_and_clocks() -> None:
    chip = catalog.chip("trainium2")
    figures = {key: figure.value or 0.0 for key, figure in chip.figures.items()}
    engine = chip.tensor_engine
    assert (engine.contraction_size, engine.stationary_size, engine.moving_size) == (128, 128, 512)
    core_rate = 2 * engine.contraction_size * engine.stationary_size * engine.clock
    assert core_rate == pytest.approx(figures["core_bf16_flop_rate"], rel=6e-3)
    assert core_rate * figures["tensor_fp32_rate_fraction"] == pytest.approx(figures["core_fp32_flop_rate"], rel=2e-2)
    assert chip.vector_element_rate == 8 * figures["vector_elements_per_cycle"] * figures["vector_clock"]
    assert chip.scalar_element_rate == 8 * figures["scalar_lanes"] * figures["scalar_clock"]
    assert figures["gpsimd_processors"] == 8
    assert figures["tensor_fp8_contraction_size"] == 2 * engine.contraction_size


@pytest.mark.parametrize("name", ["trainium1", "inferentia2"])
def test_first_generation(name: str) -> None:
    chip = catalog.chip(name)
    assert (chip.num_cores, chip.hbm_bytes, chip.flop_rate["bf16"]) == (2, 32 * GIB, 190e12)
    assert chip.flop_rate["fp8"] == chip.flop_rate["bf16"]
    assert (chip.sparse_flop_rate, chip.sparsity_patterns) == ({}, ())
    readings = [a.value for a in chip.figures["hbm_bandwidth"].alternatives]
    assert readings == [pytest.approx(820 * GIB), pytest.approx(0.8e12)]


@pytest.mark.parametrize(
    ("name", "cores", "lanes", "clock", "per_lane_flop"),
    [("a100-80gb", 108, 64, 1.41e9, 2), ("h100", 132, 128, 1.98e9, 2), ("h200", 132, 128, 1.98e9, 2)],
)
def test_gpu_rates(name: str, cores: int, lanes: int, clock: float, per_lane_flop: int) -> None:
    chip = catalog.chip(name)
    assert chip.figures["num_multiprocessors"].value == cores
    assert chip.flop_rate["fp32"] == pytest.approx(cores * lanes * clock * per_lane_flop, rel=5e-3)
    assert chip.figures["vector_clock"].value == clock
    assert chip.vector_element_rate == pytest.approx(cores * lanes * clock, rel=1e-3)
    assert chip.scalar_element_rate == pytest.approx(cores * 16 * clock, rel=1e-3)
    for rates in chip.sparse_flop_rate.values():
        assert {d: rates[d] / chip.flop_rate[d] for d in rates} == pytest.approx(dict.fromkeys(rates, 2.0), rel=1e-3)


def test_a100_has_no_fp8() -> None:
    chip = catalog.chip("a100-80gb")
    assert "fp8" not in chip.flop_rate
    assert chip.figures["fp8_flop_rate"].value is None
    assert "fp8" not in chip.sparse_flop_rate["launch"]


@pytest.mark.parametrize("call", [catalog.system, catalog.chip])
def test_unknown_names_list_the_known_ones(call: Callable[[str], object]) -> None:
    with pytest.raises(UnknownNameError, match="trn9") as caught:
        call("trn9")
    assert "trainium2" in str(caught.value) or "trn2.48xlarge" in str(caught.value)
    assert caught.value.field in {"system", "chip"}


def test_a_chip_is_not_a_system() -> None:
    with pytest.raises(UnknownNameError):
        catalog.system("trainium2")
    with pytest.raises(UnknownNameError):
        catalog.chip("trn2.48xlarge")
