"""How a collective runs is a value: which legs each group has, and the public name that they go by."""

from __future__ import annotations

import pytest

from trn2model.network.algorithms import Algorithm, Layout, Leg
from trn2model.network.placement import Dims
from trn2model.network.ways import ALGORITHMS, OPERATIONS, ways
from trn2model.specs.catalog import system
from trn2model.specs.topology import Fabric, fabric

INSTANCE = fabric(system("trn2.48xlarge"), 1, 2)
INSTANCES = fabric(system("trn2.48xlarge"), 2, 2)
ULTRASERVERS = fabric(system("trn2-ultraserver"), 2, 2)
SHAPES: tuple[tuple[Fabric, Dims, int], ...] = (
    (INSTANCE, ((1, 64),), 64),
    (INSTANCE, ((1, 7),), 63),
    (INSTANCE, ((1, 12),), 60),
    (INSTANCES, ((64, 2),), 128),
    (ULTRASERVERS, ((1, 512),), 512),
)


def test_public_names_and_their_index_stand() -> None:
    assert ALGORITHMS == ("none", "ring", "kangaring", "mesh", "rdh", "hierarchical")
    assert {algorithm.family for algorithm in Algorithm} == {"ring", "kangaring", "mesh", "rdh"}


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize(("net", "dims", "ranks"), SHAPES)
def test_a_way_goes_by_its_leg_or_by_having_several(net: Fabric, dims: Dims, ranks: int, op: str) -> None:
    for way in ways(net, op, dims, ranks):
        (family, *more) = (leg.algorithm.family for leg in way.legs)
        assert way.algorithm == ("hierarchical" if more else family)
        assert all(leg.layout is not Layout.DOMAINS for leg in way.legs[:-1]), "the network is outermost"


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize(("net", "dims", "ranks"), SHAPES)
def test_no_two_ways_run_alike(net: Fabric, dims: Dims, ranks: int, op: str) -> None:
    """Legs pair a reduce-scatter with its all-gather, so they must tell ways apart."""
    legs = [way.legs for way in ways(net, op, dims, ranks)]
    assert len(set(legs)) == len(legs)


def test_legs_are_innermost_first() -> None:
    """Two UltraServers: the plane, z, and the network."""
    three = {way.legs for way in ways(ULTRASERVERS, "all_gather", ((1, 512),), 512) if len(way.legs) == 3}
    plane = set(Algorithm) - {Algorithm.ALL_REDUCE_MESH}
    between = {Algorithm.RING, Algorithm.MESH, Algorithm.RDH}
    assert {legs[0] for legs in three} == {Leg(algorithm) for algorithm in plane}
    assert {legs[2] for legs in three} == {Leg(algorithm, Layout.DOMAINS) for algorithm in between}


def test_only_uneven_groups_run_in_rank_order() -> None:
    def layouts(net: Fabric, dims: Dims, ranks: int) -> set[Layout]:
        return {leg.layout for way in ways(net, "all_reduce", dims, ranks) for leg in way.legs}

    assert layouts(INSTANCE, ((1, 64),), 64) == {Layout.CHIPS}
    assert layouts(INSTANCE, ((1, 7),), 63) == {Layout.RANKS}
    assert layouts(INSTANCE, ((1, 12),), 60) == {Layout.CHIPS, Layout.RANKS}
    assert layouts(INSTANCES, ((64, 2),), 128) == {Layout.DOMAINS}
