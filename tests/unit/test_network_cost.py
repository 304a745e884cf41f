"""Loads of links, tables of lines, and what the achievable profile makes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trn2model.errors import InvalidInputError
from trn2model.network.algorithms import Algorithm, Leg, directed_cycles
from trn2model.network.collective import collective_curves, collective_report
from trn2model.network.cost import bus_factor, collective_cost, lines, link_bytes, way_link_bytes
from trn2model.network.placement import Dims, block, group_dims, merge_dims, placement, split_at, split_levels
from trn2model.network.routing import link_loads, routes
from trn2model.network.ways import ALGORITHMS, OPERATIONS, ways
from trn2model.specs.catalog import system
from trn2model.specs.profile import LinkConstants, profile
from trn2model.specs.topology import Fabric, fabric

INSTANCE = fabric(system("trn2.48xlarge"), 1, 2)
ULTRASERVER = fabric(system("trn2-ultraserver"), 1, 2)
CHIP = fabric(system("trn2.3xlarge"), 1, 1)
ACHIEVABLE = profile("achievable").links
LLAMA_405B_GRADIENTS = 405e9 * 2 / 64


def loads(net: Fabric, op: str, dims: Dims, ranks: int, algorithm: Algorithm) -> np.ndarray:
    """Bytes on each link per byte of the message, of one way of running."""
    return way_link_bytes(next(way for way in ways(net, op, dims, ranks) if way.legs == (Leg(algorithm),)))


def cost(net: Fabric, op: str, message: float, dims: Dims, ranks: int, rates: LinkConstants = ACHIEVABLE) -> float:
    """Time of the cheapest algorithm."""
    return float(collective_cost(net, op, message, group_dims(dims, ranks), constants=rates).time)


@pytest.mark.parametrize("net", [INSTANCE, ULTRASERVER, fabric(system("inf2.48xlarge"), 1, 1)])
def test_routes_are_the_shortest(net: Fabric) -> None:
    chips = net.chips_per_domain
    source, target = np.divmod(np.arange(chips * chips), chips)
    apart = np.abs(net.coordinates[source] - net.coordinates[target])
    hops = np.minimum(apart, np.array(net.shape) - apart).sum(axis=1)
    table = routes(net)
    share = np.add.reduceat(np.append(table.share, 0.0), table.first[:-1]) * (np.diff(table.first) > 0)
    assert share == pytest.approx(hops)


def test_routing_goes_along_x_then_y_and_splits_ties() -> None:
    where = {
        (int(s), int(t)): link
        for link, (s, t) in enumerate(zip(INSTANCE.link_source, INSTANCE.link_target, strict=True))
    }
    found = link_loads(INSTANCE, np.array([0]), np.array([6]), np.array([8.0]))[0]
    expected = {(0, 1): 4.0, (1, 2): 4.0, (0, 3): 4.0, (3, 2): 4.0, (2, 6): 8.0}
    assert {ends: found[link] for ends, link in where.items() if found[link]} == expected


def test_gather_loads_on_the_whole_torus() -> None:
    """RDH and KangaRing put about 15/64 of the output on every link, mesh about half of it."""
    dims: Dims = ((1, 64),)
    assert loads(INSTANCE, "all_gather", dims, 64, Algorithm.RDH) == pytest.approx(np.full(64, 15 / 64))
    assert loads(INSTANCE, "all_gather", dims, 64, Algorithm.KANGARING) == pytest.approx(np.full(64, 31 / 128))
    assert loads(INSTANCE, "all_gather", dims, 64, Algorithm.MESH) == pytest.approx(np.full(64, 0.5))
    counts = {
        way.legs[0].algorithm: sum(loads.count.sum() for loads, _ in way.stages)
        for way in ways(INSTANCE, "all_gather", dims, 64)
    }
    assert counts == {
        Algorithm.RING: 63,
        Algorithm.KANGARING: 32,
        Algorithm.MESH: 2,
        Algorithm.SINGLE_STEP_MESH: 1,
        Algorithm.RDH: 5,
    }


def test_ring_of_a_row_uses_only_the_row() -> None:
    found = loads(INSTANCE, "all_gather", ((1, 16),), 64, Algorithm.KANGARING)
    along_x = INSTANCE.link_axis == 0
    assert found[~along_x].sum() == 0.0
    assert found[along_x] == pytest.approx(np.full(32, 7 / 16))


def test_groups_of_equal_cores_share_the_links() -> None:
    """One exchange on a ring of four puts 1/4 (next chip) and 2/8 (opposite chip) on a link; four run at once."""
    found = loads(INSTANCE, "all_to_all", ((16, 4),), 64, Algorithm.MESH)
    along_y = INSTANCE.link_axis == 1
    assert found[along_y] == pytest.approx(np.full(32, 4 * 0.5))
    assert not found[~along_y].any()


@pytest.mark.parametrize(
    ("sizes", "wraps", "count"),
    [
        ((4, 4, 1), (True, True, True), 4),
        ((4, 4, 4), (True, True, True), 4),
        ((4, 1, 1), (True, False, True), 2),
        ((4, 2, 1), (True, False, True), 2),
        ((2, 2, 1), (False, False, True), 2),
        ((2, 4, 2), (False, True, False), 2),
        ((1, 4, 4), (False, True, True), 4),
        ((2, 1, 1), (False, False, True), 2),
        ((12, 1, 1), (True, True, True), 2),
        ((3, 1, 1), (False, False, True), 0),
        ((3, 3, 1), (False, False, True), 0),
        ((3, 3, 1), (True, True, True), 4),
        ((1, 1, 1), (False, False, True), 0),
    ],
)
def test_hamiltonian_cycles(sizes: tuple[int, int, int], wraps: tuple[bool, bool, bool], count: int) -> None:
    cycles = directed_cycles(sizes, wraps)
    assert len(cycles) == count
    edges: list[tuple[int, int]] = []
    place = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes, order="F"), axis=1)
    for cycle in cycles:
        assert sorted(cycle.tolist()) == list(range(int(np.prod(sizes))))
        step = np.abs(place[np.roll(cycle, -1)] - place[cycle])
        around = np.where(np.array(wraps), np.minimum(step, np.array(sizes) - step), step)
        assert (around.sum(axis=1) == 1).all()
        edges += list(zip(cycle.tolist(), np.roll(cycle, -1).tolist(), strict=True))
    assert len(set(edges)) == len(edges) or sorted(sizes) == [1, 1, 2]


def test_levels_of_a_group() -> None:
    assert split_levels(INSTANCE, ((1, 64),), 64) == (((1, 4),), ((4, 4),), ((16, 4),), (), ())
    four = fabric(system("trn2.48xlarge"), 4, 2)
    assert split_levels(four, ((8, 16),), 256) == ((), ((8, 2),), ((16, 4),), (), ((64, 2),))
    assert split_levels(ULTRASERVER, ((8, 16),), 256) == ((), ((8, 2),), ((16, 4),), ((64, 2),), ())
    assert split_levels(INSTANCE, ((1, 7),), 63) is None
    assert split_levels(INSTANCE, ((1, 12),), 60) is None
    assert split_levels(INSTANCE, ((1, 12),), 12) == (((1, 4),), ((4, 3),), (), (), ())
    assert split_at(((2, 6),), 4, 48) == (((2, 2),), ((4, 3),))
    assert split_at(((2, 3),), 4, 48) is None


def test_block_of_half_the_cores_of_a_column() -> None:
    levels = split_levels(INSTANCE, ((1, 2), (16, 4)), 64)
    assert levels is not None
    found = block(INSTANCE, levels, 64)
    assert (found.num_local, found.num_chips, found.sizes, found.wraps) == (2, 4, (1, 4, 1), (False, True, True))
    assert found.contiguous
    assert found.ranks.shape[0] == 8
    assert sorted(found.ranks.reshape(-1).tolist()) == list(range(64))


def test_where_algorithms_apply() -> None:
    def names(net: Fabric, dims: Dims, ranks: int) -> set[str]:
        return {way.algorithm for way in ways(net, "all_reduce", dims, ranks)}

    assert names(INSTANCE, ((1, 64),), 64) == {"ring", "kangaring", "mesh", "rdh"}
    assert names(INSTANCE, ((4, 4),), 64) == {"ring", "mesh", "rdh"}  # one core per chip: nothing to carry
    assert names(INSTANCE, ((1, 4),), 64) == {"ring", "mesh"}
    assert names(INSTANCE, ((1, 12),), 12) == {"ring", "mesh"}  # a line of three chips is no cube and no cycle
    assert names(ULTRASERVER, ((1, 256),), 256) == {"ring", "kangaring", "mesh", "rdh", "hierarchical"}
    assert names(fabric(system("trn2.48xlarge"), 2, 2), ((1, 128),), 128) == {"hierarchical"}
    assert names(fabric(system("trn2.48xlarge"), 2, 2), ((64, 2),), 128) == {"ring", "mesh", "rdh"}


def test_hierarchical_gather_crosses_the_network_once() -> None:
    """Each chip sends and receives what its ranks lack from the other domains: 4 chunks of 3 others, of 256."""
    net = fabric(system("trn2.48xlarge"), 4, 2)
    for way in ways(net, "all_gather", ((1, 256),), 256):
        sent = sum(share * float(loads.count @ loads.nic) for loads, share in way.stages)
        assert sent == pytest.approx(4 * 3 / 256)
        assert way.stages[0][0].nic.all()  # between instances first
    last = ways(net, "reduce_scatter", ((1, 256),), 256)[0].stages[-1][0]
    assert last.nic.any()


def test_all_to_all_over_the_network_takes_what_leaves() -> None:
    net = fabric(system("trn2.48xlarge"), 4, 2)
    even = ways(net, "all_to_all", ((1, 256),), 256)[0]
    uneven = ways(net, "all_to_all", ((1, 128),), 256)
    assert even.stages[0][0].nic[0] == pytest.approx(4 * 3 / 4)
    assert uneven[0].stages[0][0].nic[0] == pytest.approx(4 / 2)


@pytest.mark.parametrize("op", OPERATIONS)
def test_a_group_of_one_costs_nothing(op: str) -> None:
    found = collective_cost(INSTANCE, op, 1e9, group_dims(((1, 1),), 64), constants=ACHIEVABLE)
    assert [float(value) for value in found] == [0.0] * 5
    assert not link_bytes(INSTANCE, op, ((1, 1),), 64, message_bytes=1e9, constants=ACHIEVABLE).any()


def test_bus_factors() -> None:
    assert [float(bus_factor(op, 8.0)) for op in OPERATIONS] == [1.75, 0.875, 0.875, 0.875, 1.0]
    assert [float(bus_factor(op, 1.0)) for op in OPERATIONS] == [0.0] * 5


def test_a_batch_looks_rows_up() -> None:
    order, rng = ("tp", "dp", "pp"), np.random.default_rng(3)
    tp, dp = 2.0 ** rng.integers(0, 7, 64), rng.integers(1, 5, 64)
    message = rng.uniform(1e3, 1e9, 64)
    net = fabric(system("trn2.48xlarge"), 4, 2)
    groups = placement(order, {"tp": tp, "dp": dp, "pp": 1}).group_dims(["dp"])
    many = collective_cost(net, "all_reduce", message, groups, constants=ACHIEVABLE)
    for row in range(64):
        place = placement(order, {"tp": tp[row], "dp": dp[row], "pp": 1})
        one = collective_cost(net, "all_reduce", message[row], place.group_dims(["dp"]), constants=ACHIEVABLE)
        for column, value in zip(many, one, strict=True):
            np.testing.assert_allclose(np.asarray(column)[row], value, rtol=1e-12)


def test_messages_may_have_more_axes_than_plans() -> None:
    groups = placement(("tp", "dp"), {"tp": [1, 4, 8], "dp": 2}).group_dims(["tp"])
    message = np.array([[1e6], [1e8]])
    found = collective_cost(INSTANCE, "all_gather", message, groups, constants=ACHIEVABLE)
    times = np.asarray(found.time)
    assert times.shape == found.algorithm.shape == (2, 3)
    assert times[1, 2] == cost(INSTANCE, "all_gather", 1e8, ((1, 8),), 16)


def test_loads_are_routed_once() -> None:
    before = ways.cache_info().misses
    for size in (1e3, 1e6, 1e9):
        collective_cost(
            INSTANCE, "all_reduce", size, group_dims(((1, 32),), 64), constants=replace(ACHIEVABLE, nic_latency=size)
        )
    assert ways.cache_info().misses <= before + 1


def test_forced_and_unknown_algorithms() -> None:
    dims = group_dims(((4, 4),), 64)
    ring = collective_cost(INSTANCE, "all_reduce", 1e6, dims, constants=ACHIEVABLE, algorithm="ring")
    assert ALGORITHMS[int(ring.algorithm)] == "ring"
    with pytest.raises(InvalidInputError, match="kangaring"):
        collective_cost(INSTANCE, "all_reduce", 1e6, dims, constants=ACHIEVABLE, algorithm="kangaring")
    with pytest.raises(InvalidInputError, match="all_reduce, all_gather"):
        collective_cost(INSTANCE, "broadcast", 1e6, dims, constants=ACHIEVABLE)
    with pytest.raises(InvalidInputError, match="ranks"):
        collective_cost(INSTANCE, "all_reduce", 1e6, group_dims(((1, 128),), 128), constants=ACHIEVABLE)


def test_rings_only_before_other_algorithms_came() -> None:
    rings = replace(ACHIEVABLE, ring_collectives=1.0)
    for net, dims, size in ((INSTANCE, ((1, 64),), 64), (fabric(system("trn2.48xlarge"), 2, 2), ((1, 128),), 128)):
        found = lines(net, "all_reduce", dims, size, constants=rings)
        assert {leg.algorithm for way in found.ways for leg in way.legs} == {Algorithm.RING}
        assert (found.fixed.min() > lines(net, "all_reduce", dims, size, constants=ACHIEVABLE).fixed.min()).all()
    steps = replace(rings, chip_latency=3e-6, link_latency=1e-6, collective_time=5e-5)
    assert lines(INSTANCE, "all_gather", ((1, 64),), 64, constants=steps).fixed.min() == pytest.approx(5e-5 + 63 * 3e-6)
    assert lines(INSTANCE, "permute", ((1, 64),), 64, constants=rings).ways


@pytest.mark.parametrize("op", OPERATIONS)
def test_the_best_line_is_the_lowest(op: str) -> None:
    table = lines(ULTRASERVER, op, ((1, 256),), 256, constants=ACHIEVABLE)
    sizes = 2.0 ** np.arange(6.0, 35.0)
    times = table.times(sizes)
    assert times.shape == (29, len(table.ways))
    for size, row in zip(sizes.tolist(), times, strict=True):
        best = table.best(size)
        assert row[best] == row.min() == table.fixed[best] + table.slope[best] * size
        assert table.way(size) is table.ways[best]
        assert row.min() == cost(ULTRASERVER, op, size, ((1, 256),), 256)


def test_merged_dims_cost_the_same() -> None:
    dims = ((1, 4), (4, 2), (8, 1), (16, 4))
    assert cost(INSTANCE, "all_gather", 1e7, dims, 64) == cost(INSTANCE, "all_gather", 1e7, merge_dims(dims), 64)


def test_links_of_an_idle_domain_are_idle() -> None:
    net = fabric(system("trn2.48xlarge"), 2, 2)
    assert link_bytes(net, "all_reduce", ((1, 64),), 64, message_bytes=1e9, constants=ACHIEVABLE, domain=0).all()
    assert not link_bytes(net, "all_reduce", ((1, 64),), 64, message_bytes=1e9, constants=ACHIEVABLE, domain=1).any()


def test_link_time_is_the_busiest_links() -> None:
    found = collective_cost(ULTRASERVER, "all_reduce", 1e9, group_dims(((1, 256),), 256), constants=ACHIEVABLE)
    occupied = (
        link_bytes(ULTRASERVER, "all_reduce", ((1, 256),), 256, message_bytes=1e9, constants=ACHIEVABLE)
        / ULTRASERVER.link_bandwidth
    )
    assert float(found.link_time) == pytest.approx(occupied.max())
    assert float(found.mean_link_time) == pytest.approx(occupied.mean())
    assert float(found.link_time) < float(found.time)


def test_published_sweet_ranges() -> None:
    """All-reduce of 64 ranks: mesh below 1 MB, RDH up to 56 MB, KangaRing above, each within a factor of 3."""
    curves = collective_curves(
        INSTANCE, "all_reduce", ((1, 64),), 64, message_bytes=2.0 ** np.arange(10, 35), constants=ACHIEVABLE
    )
    assert [(below, above) for _, below, above in curves.crossovers] == [("mesh", "rdh"), ("rdh", "kangaring")]
    first, second = (size for size, _, _ in curves.crossovers)
    assert 1e6 / 3 <= first <= 3e6
    assert 56e6 / 3 <= second <= 3 * 56e6
    for size, below, above in curves.crossovers:
        table = lines(INSTANCE, "all_reduce", ((1, 64),), 64, constants=ACHIEVABLE)
        times = table.fixed + table.slope * size
        pair = [times[table.algorithm == ALGORITHMS.index(name)].min() for name in (below, above)]
        assert pair[0] == pytest.approx(pair[1], rel=1e-9)


def test_measured_bandwidths() -> None:
    """jimburtoft-cookbook: 64 ranks, 8 cores of a chip, two cores of a die."""
    instance = collective_report("all_reduce", system("trn2.48xlarge"), 1, 2, ranks=64, message_bytes=2.0**31)
    assert instance["busbw"] == pytest.approx(142.646e9, rel=0.25)
    chip = collective_report("all_reduce", system("trn2.3xlarge"), 1, 1, ranks=8, message_bytes=2.0**26)
    assert chip["busbw"] == pytest.approx(123.9e9, rel=0.15)
    small = collective_report("permute", system("trn2.3xlarge"), 1, 1, ranks=2, message_bytes=4096)
    assert small["time"] == pytest.approx(12.6e-6, rel=0.15)
    large = collective_report("permute", system("trn2.3xlarge"), 1, 1, ranks=2, message_bytes=2.0**28)
    assert large["algbw"] == pytest.approx(103.8e9, rel=0.15)


def test_report() -> None:
    found = collective_report("all_reduce", system("trn2.48xlarge"), 1, 2, ranks=64, message_bytes=1e8)
    assert found["time"] == min(found["by_algorithm"].values()) == found["by_algorithm"][found["algorithm"]]
    assert found["algbw"] == pytest.approx(1e8 / found["time"])
    assert found["busbw"] == pytest.approx(2 * 63 / 64 * found["algbw"])
    assert 0.0 < found["max_link_utilization"] < 1.0
    forced = collective_report(
        "all_reduce", system("trn2.48xlarge"), 1, 2, ranks=64, message_bytes=1e8, algorithm="ring"
    )
    assert forced["algorithm"] == "ring"
    assert forced["time"] == found["by_algorithm"]["ring"]
    alone = collective_report("all_gather", system("trn2.48xlarge"), 1, 2, ranks=1, message_bytes=1e8)
    assert (alone["time"], alone["busbw"], alone["by_algorithm"]) == (0.0, 0.0, {})


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("ranks", ("all_reduce", 65, 1e6, "auto")),
        ("ranks", ("all_reduce", 0, 1e6, "auto")),
        ("bytes", ("all_reduce", 64, -1.0, "auto")),
        ("bytes", ("all_reduce", 64, float("nan"), "auto")),
        ("op", ("broadcast", 64, 1e6, "auto")),
        ("algorithm", ("all_reduce", 64, 1e6, "tree")),
    ],
)
def test_report_refuses(field: str, arguments: tuple[str, int, float, str]) -> None:
    op, ranks, size, algorithm = arguments
    with pytest.raises(InvalidInputError) as caught:
        collective_report(op, system("trn2.48xlarge"), 1, 2, ranks=ranks, message_bytes=size, algorithm=algorithm)
    assert caught.value.field == field


def test_ultraserver_against_efa_for_llama_405b() -> None:
    """tp 256 across z, and tp 64 with dp 4 between the instances."""
    efa = fabric(system("trn2.48xlarge"), 4, 2)

    def speedup(op: str, dims: Dims, size: float) -> float:
        return cost(efa, op, size, dims, 256) / cost(ULTRASERVER, op, size, dims, 256)

    assert speedup("all_gather", ((1, 256),), 16384 * 8192 * 2.0) > 1.2
    assert speedup("all_reduce", ((64, 4),), LLAMA_405B_GRADIENTS) > 2.0
    assert speedup("all_gather", ((1, 64),), 1e8) == pytest.approx(1.0)


def test_gpus_reach_their_ports() -> None:
    net = fabric(system("p5.48xlarge"), 1, 1)
    ideal = profile("ideal").links
    found = collective_cost(net, "all_reduce", 1e9, group_dims(((1, 8),), 8), constants=ideal)
    assert float(found.busbw) == pytest.approx(450e9, rel=0.01)


def test_one_chip_without_a_network() -> None:
    found = collective_cost(CHIP, "all_gather", 1e6, group_dims(((1, 8),), 8), constants=ACHIEVABLE)
    assert float(found.link_time) == 0.0
    assert float(found.time) > 0.0


def test_many_unevenly_loaded_domains_keep_the_largest_load() -> None:
    net = fabric(system("trn2.48xlarge"), 9, 2)
    stage = ways(net, "all_gather", ((1, 35),), 560)[0].stages[0][0]
    assert stage.links.shape == (1, 5, 64)
    assert (stage.links[0, 4] >= stage.links[0, :4].max(axis=0) - 1e-15).all()
    ring = lines(net, "all_gather", ((1, 35),), 560, constants=ACHIEVABLE, algorithm="ring")
    assert link_bytes(
        net, "all_gather", ((1, 35),), 560, message_bytes=1e9, constants=ACHIEVABLE, algorithm="ring", domain=7
    ).max() == pytest.approx(1e9 * stage.count[0] * stage.links[0, 4].max())
    assert ring.size == 35
