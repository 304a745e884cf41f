"""Parts and steps of a collective add up to what it costs and to what its replay does."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.network.cost import collective_cost, lines
from trn2model.network.loads import PARTS, collective_parts, way_steps
from trn2model.network.placement import Dims, group_dims
from trn2model.simulate.collectives import replay
from trn2model.specs import catalog
from trn2model.specs.profile import profile
from trn2model.specs.topology import Fabric, fabric

CONSTANTS = profile("achievable").links
SHAPES: tuple[tuple[str, int, Dims, int], ...] = (
    ("trn2.48xlarge", 1, ((1, 64),), 64),
    ("trn2-ultraserver", 1, ((32, 8),), 256),
    ("trn2.48xlarge", 4, ((32, 8),), 256),
    ("trn2.3xlarge", 1, ((1, 4),), 4),
    ("trn2-ultraserver", 1, ((1, 7),), 7),
    ("p5.48xlarge", 2, ((1, 16),), 16),
)


def net_of(system: str, count: int) -> Fabric:
    return fabric(catalog.system(system), count, 2)


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"])
@pytest.mark.parametrize(("system", "count", "dims", "ranks"), SHAPES)
@pytest.mark.parametrize("size", [4096.0, 2.0**26])
def test_parts_and_steps_sum_to_the_time(system: str, count: int, dims: Dims, ranks: int, op: str, size: float) -> None:
    net = net_of(system, count)
    way = lines(net, op, dims, ranks, constants=CONSTANTS).way(size)
    time = float(collective_cost(net, op, size, group_dims(dims, ranks), constants=CONSTANTS).time)
    parts = collective_parts(net, way, size, CONSTANTS)
    assert tuple(parts) == PARTS
    assert sum(parts.values()) == pytest.approx(time, rel=1e-12)
    steps = sum(step.time for step in way_steps(net, way, size, CONSTANTS))
    assert steps + CONSTANTS.collective_time == pytest.approx(time, rel=1e-12)


@pytest.mark.parametrize("algorithm", ["ring", "kangaring", "mesh", "rdh"])
def test_steps_of_a_way_are_those_of_the_replay(algorithm: str) -> None:
    net, dims = net_of("trn2.48xlarge", 1), ((1, 32),)
    way = lines(net, "all_gather", dims, 32, constants=CONSTANTS, algorithm=algorithm).way(1e6)
    planned = list(way_steps(net, way, 1e6, CONSTANTS))
    played = replay(net, "all_gather", dims, 32, message_bytes=1e6, constants=CONSTANTS, legs=way.legs).steps
    assert len(planned) == len(played)
    np.testing.assert_allclose([step.time for step in planned], [step.time for step in played], rtol=1e-9)
    for mine, theirs in zip(planned, played, strict=True):
        np.testing.assert_allclose(mine.link_bytes, theirs.link_bytes, rtol=1e-9)


def test_what_binds_is_where_the_group_sits() -> None:
    def bound(system: str, count: int, dims: Dims, ranks: int) -> str:
        net = net_of(system, count)
        way = lines(net, "permute", dims, ranks, constants=CONSTANTS).way(1e9)
        parts = collective_parts(net, way, 1e9, CONSTANTS)
        return max(parts, key=lambda part: parts[part])

    assert bound("trn2-ultraserver", 1, ((64, 4),), 256) == "z links"
    assert bound("trn2.48xlarge", 4, ((64, 4),), 256) == "efa"
    assert bound("trn2.48xlarge", 1, ((4, 16),), 64) == "x/y links"
    assert bound("trn2.48xlarge", 1, ((1, 2),), 2) == "chip"
    assert bound("p5.48xlarge", 1, ((1, 8),), 8) == "switch"
