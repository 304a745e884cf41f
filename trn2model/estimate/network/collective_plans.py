"""Every way of running a collective on groups of a given shape, as loads of links, chips, HBM and network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError
from trn2model.estimate.network import collective_steps as steps
from trn2model.estimate.network.blocks import Block, block, split_at, split_levels
from trn2model.estimate.network.collective_stage import Plan, nested, stage
from trn2model.estimate.network.placement import Dims, merge_dims
from trn2model.estimate.network.routing import Step
from trn2model.estimate.network.uneven_plans import permute_plan, uneven_plans
from trn2model.specs.topology import Fabric

Floats = NDArray[np.float64]

OPERATIONS: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute")
#: index 0 stands for a group of one, which needs none
ALGORITHMS: Final = ("none", "ring", "kangaring", "mesh", "rdh", "hierarchical")

Build = Callable[[Fabric, Block], "list[Step] | None"]
_GATHER: Final[tuple[tuple[str, str, Build], ...]] = (
    ("ring", "ring", steps.ring_gather),
    ("kangaring", "kangaring", steps.kangaring_gather),
    ("mesh", "mesh", steps.mesh_gather),
    ("mesh", "single-step mesh", steps.direct_gather),
    ("rdh", "rdh", steps.cube_gather),
)
_SCATTER: Final[tuple[tuple[str, str, Build], ...]] = (
    ("ring", "ring", steps.ring_scatter),
    ("kangaring", "kangaring", steps.kangaring_scatter),
    ("mesh", "mesh", steps.mesh_scatter),
    ("mesh", "single-step mesh", steps.direct_scatter),
    ("rdh", "rdh", steps.cube_scatter),
)


@lru_cache(maxsize=4096)
def plans(fabric: Fabric, op: str, dims: Dims, num_ranks: int) -> tuple[Plan, ...]:
    """Every applicable way of running an operation on the groups of some dimensions.

    Raises InvalidInputError (unknown operation, or a group that reaches beyond the ranks in use).
    """
    if op not in OPERATIONS:
        raise InvalidInputError("op", op, "one of " + ", ".join(OPERATIONS), "choose a listed operation")
    dims = merge_dims(dims)
    if not dims:
        return ()
    if dims[-1][0] * dims[-1][1] > num_ranks or num_ranks > fabric.num_ranks:
        allowed = f"groups within {num_ranks} of {fabric.num_ranks} ranks"
        raise InvalidInputError("ranks", dims, allowed, "lower the size of the group")
    if op == "permute":
        return (permute_plan(fabric, dims, num_ranks),)
    levels = split_levels(fabric, dims, num_ranks)
    if levels is None:
        return _uneven(fabric, op, dims, num_ranks)
    return _even(fabric, op, levels, num_ranks)


def _even(fabric: Fabric, op: str, levels: tuple[Dims, ...], num_ranks: int) -> tuple[Plan, ...]:
    if not levels[4]:
        return _inside(fabric, op, levels, num_ranks)
    if not any(levels[:4]):
        return _across(fabric, op, levels[4], num_ranks)
    direct = _direct_exchange(fabric, levels, num_ranks) if op == "all_to_all" else ()
    apart = nested(
        op,
        lambda part: _inside(fabric, part, levels, num_ranks),
        lambda part: _across(fabric, part, levels[4], num_ranks),
        _size(levels[:4]),
    )
    return (*direct, *apart)


def _inside(fabric: Fabric, op: str, levels: tuple[Dims, ...], num_ranks: int) -> tuple[Plan, ...]:
    """Plans inside a domain: on the whole block, or on the plane and along z in turn."""
    whole = _flat(fabric, op, levels[:4], num_ranks)
    if not levels[3] or not any(levels[:3]):
        return whole
    plane, column = (*levels[:3], ()), ((), (), (), levels[3])
    apart = nested(
        op,
        lambda part: _flat(fabric, part, plane, num_ranks),
        lambda part: _flat(fabric, part, column, num_ranks),
        _size(levels[:3]),
    )
    return (*whole, *apart)


@lru_cache(maxsize=4096)
def _flat(fabric: Fabric, op: str, levels: tuple[Dims, ...], num_ranks: int) -> tuple[Plan, ...]:
    groups = block(fabric, levels, num_ranks)
    if op == "all_to_all":
        return (_plan(fabric, "mesh", "mesh", steps.direct_gather(fabric, groups) or [], groups),)
    if op == "all_reduce":
        gathers = {plan.detail: plan for plan in _flat(fabric, "all_gather", levels, num_ranks)}
        scatters = _flat(fabric, "reduce_scatter", levels, num_ranks)
        joined = [Plan(p.algorithm, p.detail, p.stages + gathers[p.detail].stages) for p in scatters]
        once = _plan(fabric, "mesh", "single-step all-reduce mesh", steps.direct_reduce(fabric, groups) or [], groups)
        return (*joined, once)
    table = _GATHER if op == "all_gather" else _SCATTER
    built = [(name, detail, build(fabric, groups)) for name, detail, build in table]
    return tuple(_plan(fabric, name, detail, found, groups) for name, detail, found in built if found)


def _plan(fabric: Fabric, name: str, detail: str, listed: Sequence[Step], groups: Block) -> Plan:
    return Plan(name, detail, ((stage(fabric, listed, groups.ranks_on_chip), 1.0),))


@lru_cache(maxsize=4096)
def _across(fabric: Fabric, op: str, dims: Dims, num_ranks: int) -> tuple[Plan, ...]:
    """Plans between equal ranks of several domains, through the network interface of each rank's chip."""
    size, busy = _size([dims]), min(fabric.ranks_per_chip, num_ranks)
    if op == "all_reduce":
        gathers = {plan.detail: plan for plan in _across(fabric, "all_gather", dims, num_ranks)}
        scatters = _across(fabric, "reduce_scatter", dims, num_ranks)
        return tuple(Plan(p.algorithm, p.detail, p.stages + gathers[p.detail].stages) for p in scatters)
    chunk, reduce = 1.0 / size, op == "reduce_scatter"
    listed = {"mesh": [_network_step(1, (size - 1) * chunk, 2.0), *_addition(reduce, (size + 1) * chunk)]}
    if op != "all_to_all":
        listed["ring"] = [_network_step(size - 1, chunk, 2.0)]
        if reduce:
            first, later = _network_step(1, chunk, 2.0), _network_step(size - 2, chunk, 3.0)
            listed["ring"] = [first, later, *_addition(reduce, 3 * chunk)]
        if size & (size - 1) == 0:
            sizes = [2**t * chunk for t in range(size.bit_length() - 1)]
            ordered = sizes[::-1] if reduce else sizes
            listed["rdh"] = [_network_step(1, piece, 3.0 if reduce else 2.0) for piece in ordered]
    return tuple(
        Plan(name, f"{name} over the network", ((stage(fabric, found, busy), 1.0),)) for name, found in listed.items()
    )


def _network_step(count: float, size: float, touches: float) -> Step:
    none = np.zeros(0, dtype=np.int64)
    return Step(count, none, none, np.zeros(0), touches * size, size)


def _addition(reduce: bool, touches: float) -> list[Step]:
    none = np.zeros(0, dtype=np.int64)
    return [Step(1, none, none, np.zeros(0), touches)] if reduce else []


def _direct_exchange(fabric: Fabric, levels: tuple[Dims, ...], num_ranks: int) -> tuple[Plan, ...]:
    """All-to-all in one step: inside the domain over links, to the other domains over the network."""
    groups, domains = block(fabric, levels, num_ranks), _size(levels[4:])
    inside = (steps.direct_gather(fabric, groups) or [])[0]
    share = (domains - 1) / domains
    step = Step(1, inside.source, inside.target, inside.size / domains, inside.touches / domains + 2 * share, share)
    return (_plan(fabric, "mesh", "mesh", [step], groups),)


def _uneven(fabric: Fabric, op: str, dims: Dims, num_ranks: int) -> tuple[Plan, ...]:
    """Plans for groups that straddle a level: apart from their even part inside each instance, or each chip."""
    plane = fabric.ranks_per_chip * fabric.shape[0] * fabric.shape[1]
    for border in (plane, fabric.ranks_per_chip):
        cut = split_at(dims, border, num_ranks)
        levels = split_levels(fabric, cut[0], num_ranks) if cut else None
        if cut and levels and cut[0] and cut[1]:
            inner_of = partial(_flat_of, fabric, levels[:4], num_ranks)
            return uneven_plans(fabric, op, dims, num_ranks, inner_of, cut[1])
    return uneven_plans(fabric, op, dims, num_ranks)


def _flat_of(fabric: Fabric, levels: tuple[Dims, ...], num_ranks: int, op: str) -> tuple[Plan, ...]:
    return _flat(fabric, op, levels, num_ranks)


def _size(levels: Sequence[Dims]) -> int:
    return int(np.prod([size for level in levels for _, size in level], dtype=np.int64))
