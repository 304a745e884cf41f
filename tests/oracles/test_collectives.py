"""The closed form of every collective against the same algorithm played chunk by chunk on the graph."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.oracles import closed_forms
from trn2model.network.algorithms import Algorithm, Leg
from trn2model.network.cost import lines, stage_price, way_link_bytes
from trn2model.network.placement import Dims, group_ranks
from trn2model.network.ways import OPERATIONS, Way, ways
from trn2model.simulate.collectives import LinkClock, Replay, replay
from trn2model.simulate.moves import Group, Held, ReplayError, Sums
from trn2model.specs.catalog import system
from trn2model.specs.profile import LinkConstants, profile
from trn2model.specs.topology import Fabric, fabric

MESSAGE = 3e6
SHAPES: dict[str, tuple[str, int, int, Dims, int]] = {
    "two cores": ("trn2.48xlarge", 1, 2, ((1, 2),), 64),
    "every other core": ("trn2.48xlarge", 1, 2, ((2, 2),), 64),
    "chip": ("trn2.48xlarge", 1, 2, ((1, 4),), 64),
    "chip of 8 cores": ("trn2.3xlarge", 1, 1, ((1, 8),), 8),
    "two chips": ("trn2.48xlarge", 1, 2, ((1, 8),), 64),
    "row": ("trn2.48xlarge", 1, 2, ((1, 16),), 64),
    "row, one core per chip": ("trn2.48xlarge", 1, 2, ((4, 4),), 64),
    "half rows apart": ("trn2.48xlarge", 1, 2, ((8, 2),), 64),
    "column, one core per chip": ("trn2.48xlarge", 1, 2, ((16, 4),), 64),
    "block of 4 x 2": ("trn2.48xlarge", 1, 2, ((1, 32),), 64),
    "block of 2 x 2": ("trn2.48xlarge", 1, 2, ((1, 8), (16, 2)), 64),
    "part of a block": ("trn2.48xlarge", 1, 2, ((1, 2), (16, 4)), 64),
    "instance": ("trn2.48xlarge", 1, 2, ((1, 64),), 64),
    "instance of 128 cores": ("trn2.48xlarge", 1, 1, ((2, 64),), 128),
    "three chips, others idle": ("trn2.48xlarge", 1, 2, ((1, 12),), 12),
    "uneven: 7 ranks": ("trn2.48xlarge", 1, 2, ((1, 7),), 63),
    "uneven: 3 chips": ("trn2.48xlarge", 1, 2, ((1, 12),), 60),
    "uneven: 6 ranks apart": ("trn2.48xlarge", 1, 2, ((2, 6),), 48),
    "columns along z": ("trn2-ultraserver", 1, 2, ((64, 4),), 256),
    "chips along z": ("trn2-ultraserver", 1, 2, ((1, 4), (64, 4)), 256),
    "wall of x and z": ("trn2-ultraserver", 1, 2, ((4, 4), (64, 4)), 256),
    "one core of every chip": ("trn2-ultraserver", 1, 2, ((4, 64),), 256),
    "three instances of an UltraServer": ("trn2-ultraserver", 1, 2, ((4, 48),), 192),
    "four instances": ("trn2.48xlarge", 4, 2, ((4, 64),), 256),
    "equal ranks of four instances": ("trn2.48xlarge", 4, 2, ((64, 4),), 256),
    "half instances": ("trn2.48xlarge", 2, 2, ((32, 4),), 128),
    "uneven: 24 ranks of three instances": ("trn2.48xlarge", 3, 2, ((4, 6),), 192),
    "two instances of Trainium1": ("trn1.32xlarge", 2, 1, ((1, 64),), 64),
    "ring of twelve": ("inf2.48xlarge", 1, 1, ((1, 24),), 24),
    "third of a ring": ("inf2.48xlarge", 1, 1, ((2, 4),), 24),
    "switch": ("p5.48xlarge", 1, 1, ((1, 8),), 8),
    "two switches": ("p5.48xlarge", 2, 1, ((2, 8),), 16),
    "two chips over EFA": ("trn2.3xlarge", 2, 2, ((1, 8),), 8),
}
#: shapes that are played once more with rates at which links or the network decide every step
LINK_SHAPES = (
    "two chips",
    "column, one core per chip",
    "instance",
    "chips along z",
    "half instances",
    "uneven: 7 ranks",
)


@cache
def constants(kind: str) -> LinkConstants:
    """Achievable rates; or memory and chip paths so fast, and latencies so odd, that links or the network decide."""
    usual = profile("achievable").links
    if kind == "achievable":
        return usual
    return replace(
        usual,
        collective_hbm_efficiency=1e3,
        chip_bandwidth=1e15,
        chip_latency=3e-6,
        link_latency=7e-6,
        nic_latency=1e-6,
    )


def shape(name: str) -> tuple[Fabric, Dims, int]:
    """Fabric, group and ranks in use of a case."""
    machine, count, lnc, dims, ranks = SHAPES[name]
    return fabric(system(machine), count, lnc), dims, ranks


def closed_time(net: Fabric, way: Way, rates: LinkConstants) -> float:
    """Time of a way from its stages."""
    time = rates.collective_time
    for loads, share in way.stages:
        latency, per_byte = stage_price(net, loads, rates)
        time += float(loads.count @ latency) + share * MESSAGE * float(loads.count @ per_byte)
    return time


def test_the_table_is_large_enough() -> None:
    count = sum(len(ways(net, op, dims, ranks)) for net, dims, ranks in map(shape, SHAPES) for op in OPERATIONS)
    assert count >= 60
    assert max(shape(name)[0].chips_per_domain * shape(name)[0].num_domains for name in SHAPES) == 64
    algorithms = {way.algorithm for name in SHAPES for way in ways(shape(name)[0], "all_reduce", *shape(name)[1:])}
    assert algorithms == {"ring", "kangaring", "mesh", "rdh", "hierarchical"}


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("name", SHAPES)
def test_closed_form_equals_replay(name: str, op: str) -> None:
    """Every way of running: time, bytes on links, right chunks at every rank, and bytes conserved."""
    net, dims, ranks = shape(name)
    found = ways(net, op, dims, ranks)
    if op == "all_reduce" and lines(net, op, dims, ranks, constants=constants("achievable")).size >= 48:
        found = found[::3]  # long to play, and made of a reduce-scatter and an all-gather, which are all played
    for way in found:
        played = replay(net, op, dims, ranks, message_bytes=MESSAGE, constants=constants("achievable"), legs=way.legs)
        assert played.time == pytest.approx(closed_time(net, way, constants("achievable")), rel=1e-9), way.legs
        expected = MESSAGE * way_link_bytes(way)
        np.testing.assert_allclose(played.link_bytes, expected, rtol=1e-9, atol=1e-6, err_msg=str(way.legs))
        check_conservation(net, op, dims, ranks, played)


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("name", LINK_SHAPES)
def test_closed_form_equals_replay_where_links_decide(name: str, op: str) -> None:
    net, dims, ranks = shape(name)
    for way in ways(net, op, dims, ranks):
        played = replay(net, op, dims, ranks, message_bytes=MESSAGE, constants=constants("links decide"), legs=way.legs)
        assert played.time == pytest.approx(closed_time(net, way, constants("links decide")), rel=1e-9), way.legs


def check_conservation(net: Fabric, op: str, dims: Dims, ranks: int, played: Replay) -> None:
    """Each rank receives what the operation defines; links carry every byte once per hop."""
    size = group_ranks(dims, ranks).shape[1]
    promised = {"all_gather": (size - 1) / size, "permute": 1.0, "all_to_all": (size - 1) / size}
    if op in promised and (op != "all_to_all" or len(played.legs) == 1):
        received = np.zeros(ranks)
        for step in played.steps:
            np.add.at(received, step.target, step.size)
        np.testing.assert_allclose(received, promised[op] * MESSAGE, rtol=1e-9)
    clock, per_chip, chips = LinkClock(net, constants("achievable")), net.ranks_per_chip, net.chips_per_domain
    carried: dict[tuple[int, int], float] = defaultdict(float)
    for step in played.steps:
        source, target = step.source // per_chip, step.target // per_chip
        inside = (source < chips) & (target < chips)
        for a, b, sent in zip(
            source[inside].tolist(), target[inside].tolist(), step.size[inside].tolist(), strict=True
        ):
            carried[a, b] += sent
    crossed = sum(sent * _hops(net, clock, a, b) for (a, b), sent in carried.items())
    assert played.link_bytes.sum() == pytest.approx(crossed, rel=1e-9, abs=1e-3)


def _hops(net: Fabric, clock: LinkClock, source: int, target: int) -> float:
    """Links between two chips by their coordinates, checked against the walked route."""
    if net.interconnect == "switch":
        return 2.0 * (source != target)
    apart = np.abs(net.coordinates[source] - net.coordinates[target])
    hops = float(np.minimum(apart, np.array(net.shape) - apart).sum())
    assert sum(share for _, share in clock.route(source, target)) == pytest.approx(hops)
    return hops


def test_known_answer_ring_of_eight() -> None:
    """K33."""
    assert closed_forms.ring_all_reduce_time(64e6, 8.0, 300e9, 0.0) * 1e6 == pytest.approx(373.3, abs=0.05)
    assert closed_forms.ring_gather_time(64e6, 8.0, 300e9, 0.0) * 1e6 == pytest.approx(186.7, abs=0.05)


def test_alpha_beta_forms_equal_the_replay_where_links_are_alone() -> None:
    """One rank per chip on a switch: nothing but the ports carries bytes, and memory is fast."""
    net, dims, ranks = shape("switch")
    rates = constants("links decide")
    port = 450e9 * rates.link_efficiency
    share = 1.0 - 1.0 / 8.0
    expected = {
        Algorithm.RING: closed_forms.ring_gather_time(MESSAGE, 8.0, port, rates.link_latency),
        Algorithm.RDH: closed_forms.rdh_gather_time(MESSAGE, 8.0, port, rates.link_latency),
        Algorithm.MESH: closed_forms.mesh_gather_time(MESSAGE, share, port, rates.link_latency),
    }
    for algorithm, time in expected.items():
        legs = (Leg(algorithm),)
        played = replay(net, "all_gather", dims, ranks, message_bytes=MESSAGE, constants=rates, legs=legs)
        assert played.time - rates.collective_time == pytest.approx(time, rel=1e-9)
    ring = (Leg(Algorithm.RING),)
    played = replay(net, "all_reduce", dims, ranks, message_bytes=MESSAGE, constants=rates, legs=ring)
    summed = played.time - rates.collective_time
    additions = 3 * MESSAGE / 8 / (net.hbm_bandwidth * rates.collective_hbm_efficiency)
    assert summed - additions == pytest.approx(
        closed_forms.ring_all_reduce_time(MESSAGE, 8.0, port, rates.link_latency), rel=1e-9
    )


def test_replay_of_a_group_of_one_has_no_steps() -> None:
    net = fabric(system("trn2.48xlarge"), 1, 2)
    played = replay(net, "all_reduce", ((1, 1),), 64, message_bytes=MESSAGE, constants=constants("achievable"))
    assert played.steps == ()
    assert played.time == 0.0


def test_replay_picks_the_cheapest_and_its_steps_add_up() -> None:
    net, dims, ranks = shape("instance")
    rates = constants("achievable")
    played = replay(net, "all_reduce", dims, ranks, message_bytes=256e6, constants=rates)
    assert played.legs == (Leg(Algorithm.KANGARING),)
    assert played.time == pytest.approx(rates.collective_time + sum(step.time for step in played.steps))
    np.testing.assert_allclose(played.link_bytes, np.sum([step.link_bytes for step in played.steps], axis=0))
    forced = replay(net, "all_reduce", dims, ranks, message_bytes=256e6, constants=rates, algorithm="rdh")
    assert forced.legs == (Leg(Algorithm.RDH),)


def test_accounts_catch_wrong_algorithms() -> None:
    group = Group(fabric(system("trn2.48xlarge"), 1, 2), (0, 1, 2))
    held = Held(group, 1)
    with pytest.raises(ReplayError, match="before it has it"):
        held.deliver([(0, 1, 2, 0)])
    held.deliver([(0, 1, 0, 0)])
    with pytest.raises(ReplayError, match="twice"):
        held.deliver([(0, 1, 0, 0)])
    with pytest.raises(ReplayError, match="missing"):
        held.check()
    sums = Sums(group, 1)
    sums.add([(0, 0, 0, [0, 1])])
    with pytest.raises(ReplayError, match="twice"):
        sums.add([(0, 0, 0, [1])])
    with pytest.raises(ReplayError, match="missing"):
        sums.check()
