"""What must hold of every collective on every machine, whatever the plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trn2model.network.cost import collective_cost, lines, link_bytes, way_link_bytes
from trn2model.network.placement import Dims, group_dims, placement
from trn2model.network.ways import OPERATIONS, ways
from trn2model.specs.catalog import system
from trn2model.specs.hardware import System
from trn2model.specs.profile import LinkConstants, profile
from trn2model.specs.topology import Fabric, fabric

MACHINES = (
    ("trn2.48xlarge", 1),
    ("trn2.48xlarge", 4),
    ("trn2-ultraserver", 1),
    ("trn1.32xlarge", 2),
    ("p5.48xlarge", 2),
)
AXES = ("tp", "dp", "pp")
RATES = ("link_efficiency", "nic_efficiency", "chip_bandwidth", "collective_hbm_efficiency")
LATENCIES = ("link_latency", "nic_latency", "chip_latency", "collective_time")
NUMERIC_NOISE = 1 + 1e-12


@st.composite
def groups(draw: st.DrawFn, ranks: int) -> tuple[Dims, int]:
    """Dimensions of the groups of some axes of a random plan, and the ranks in use."""
    degrees, left = {}, ranks
    for axis in AXES:
        power = st.integers(0, left.bit_length() - 1).map(lambda bits: 2**bits)
        degrees[axis] = draw(st.one_of(power, st.integers(1, left)))
        left //= degrees[axis]
    place = placement(AXES, degrees)
    chosen = draw(st.lists(st.sampled_from(AXES), min_size=1, unique=True))
    found = place.group_dims(chosen)
    return tuple(zip(found.strides.tolist(), found.sizes.tolist(), strict=True)), int(place.num_ranks)


@st.composite
def machine_groups(draw: st.DrawFn) -> tuple[System, int, Dims, int]:
    """A machine, how many of it, and groups on it."""
    name, count = draw(st.sampled_from(MACHINES))
    dims, ranks = draw(groups(fabric(system(name), count, 2).num_ranks))
    return system(name), count, dims, ranks


messages = st.floats(1.0, 1e11)
operations = st.sampled_from(OPERATIONS)


def time(net: Fabric, op: str, message: float, dims: Dims, ranks: int, constants: LinkConstants) -> float:
    """Time of the cheapest algorithm."""
    return float(collective_cost(net, op, message, group_dims(dims, ranks), constants=constants).time)


@settings(deadline=None, max_examples=60)
@given(where=machine_groups(), op=operations, message=messages, factor=st.floats(1.0, 100.0))
def test_more_bytes_take_longer(where: tuple[System, int, Dims, int], op: str, message: float, factor: float) -> None:
    machine, count, dims, ranks = where
    net, constants = fabric(machine, count, 2), profile("achievable").links
    short, long = (time(net, op, size, dims, ranks, constants) for size in (message, message * factor))
    assert short <= long * NUMERIC_NOISE
    assert long <= short * factor * NUMERIC_NOISE


@settings(deadline=None, max_examples=60)
@given(
    where=machine_groups(), op=operations, message=messages, name=st.sampled_from(RATES), factor=st.floats(1.0, 100.0)
)
def test_faster_resources_never_slow_down(
    where: tuple[System, int, Dims, int], op: str, message: float, name: str, factor: float
) -> None:
    machine, count, dims, ranks = where
    net, constants = fabric(machine, count, 2), profile("achievable").links
    faster = replace(constants, **{name: getattr(constants, name) * factor})
    assert time(net, op, message, dims, ranks, faster) <= time(net, op, message, dims, ranks, constants) * NUMERIC_NOISE


@settings(deadline=None, max_examples=40)
@given(where=machine_groups(), op=operations, message=messages, axis=st.integers(0, 2), factor=st.floats(1.0, 10.0))
def test_faster_links_of_one_axis_never_slow_down(
    where: tuple[System, int, Dims, int], op: str, message: float, axis: int, factor: float
) -> None:
    machine, count, dims, ranks = where
    rates = list(machine.link_bandwidth)
    rates[axis] *= factor
    faster = replace(machine, link_bandwidth=(rates[0], rates[1], rates[2]))
    before, after = (
        time(fabric(one, count, 2), op, message, dims, ranks, profile("achievable").links) for one in (machine, faster)
    )
    assert after <= before * NUMERIC_NOISE


@settings(deadline=None, max_examples=60)
@given(
    where=machine_groups(), op=operations, message=messages, name=st.sampled_from(LATENCIES), more=st.floats(0.0, 1e-3)
)
def test_latency_never_helps(
    where: tuple[System, int, Dims, int], op: str, message: float, name: str, more: float
) -> None:
    machine, count, dims, ranks = where
    net, constants = fabric(machine, count, 2), profile("achievable").links
    slower = replace(constants, **{name: getattr(constants, name) + more})
    assert time(net, op, message, dims, ranks, constants) <= time(net, op, message, dims, ranks, slower) * NUMERIC_NOISE


@settings(deadline=None, max_examples=60)
@given(op=operations, message=messages, stride=st.sampled_from([1, 2, 4, 8, 16]), size=st.sampled_from([2, 3, 4, 6, 8]))
def test_contention_never_helps(op: str, message: float, stride: int, size: int) -> None:
    """The same groups with more and more of the others beside them."""
    net, constants = fabric(system("trn2-ultraserver"), 1, 2), profile("achievable").links
    span = stride * size
    times = [time(net, op, message, ((stride, size),), span * n, constants) for n in range(1, 256 // span + 1)]
    even = times if size & (size - 1) == 0 else times[1:]  # a lone group may fit a level that many do not
    assert (np.diff(even) >= -1e-12 * np.array(even[1:])).all()


@settings(deadline=None, max_examples=80)
@given(
    dims_ranks=groups(256),
    op=operations,
    message=messages,
    name=st.sampled_from(["achievable", "ideal"]),
)
def test_ultraserver_is_never_slower_than_efa(dims_ranks: tuple[Dims, int], op: str, message: float, name: str) -> None:
    dims, ranks = dims_ranks
    constants = profile(name).links
    joined = time(fabric(system("trn2-ultraserver"), 1, 2), op, message, dims, ranks, constants)
    apart = time(fabric(system("trn2.48xlarge"), 4, 2), op, message, dims, ranks, constants)
    assert joined <= apart * NUMERIC_NOISE


@settings(deadline=None, max_examples=40)
@given(where=machine_groups(), op=operations, message=messages)
def test_links_carry_no_more_than_they_can(where: tuple[System, int, Dims, int], op: str, message: float) -> None:
    """Bytes over rate of the busiest link never exceed the time; the ideal bound is never beaten."""
    machine, count, dims, ranks = where
    net = fabric(machine, count, 2)
    for constants in (profile("achievable").links, profile("ideal").links):
        found = collective_cost(net, op, message, group_dims(dims, ranks), constants=constants)
        assert float(found.link_time) <= float(found.time) * NUMERIC_NOISE
    assert time(net, op, message, dims, ranks, profile("ideal").links) <= time(
        net, op, message, dims, ranks, profile("achievable").links
    )


@settings(deadline=None, max_examples=40)
@given(where=machine_groups(), op=operations, message=messages)
def test_the_time_and_the_picture_use_the_same_loads(
    where: tuple[System, int, Dims, int], op: str, message: float
) -> None:
    machine, count, dims, ranks = where
    net, constants = fabric(machine, count, 2), profile("achievable").links
    table = lines(net, op, dims, ranks, constants=constants)
    found = link_bytes(net, op, dims, ranks, message_bytes=message, constants=constants)
    if not table.ways:
        assert not found.any()
        return
    best = int(np.argmin(table.fixed + table.slope * message))
    assert table.ways[best] in ways(net, op, dims, ranks)
    assert found == pytest.approx(message * way_link_bytes(table.ways[best]))
