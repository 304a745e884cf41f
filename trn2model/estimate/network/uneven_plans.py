"""Collectives on groups that straddle chips, rows or instances unevenly: transfers between ranks, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.network.collective_stage import KEPT_DOMAINS, Plan, nested, stage
from trn2model.estimate.network.placement import Dims, group_ranks
from trn2model.estimate.network.routing import Step
from trn2model.specs.topology import Fabric

Ranks = NDArray[np.int64]

#: pairs of ranks up to which a mesh is routed pair by pair; larger groups run other algorithms
_MOST_PAIRS: Final = 2**20


def permute_plan(fabric: Fabric, dims: Dims, num_ranks: int) -> Plan:
    """Circular permute: each member sends the message to the next one."""
    ranks = group_ranks(dims, num_ranks)
    step = _step(1, [(ranks, np.roll(ranks, -1, axis=1), 1.0)], 2.0)
    return Plan("ring", "ring", ((stage(fabric, [step], min(fabric.ranks_per_chip, num_ranks)), 1.0),))


def uneven_plans(
    fabric: Fabric,
    op: str,
    dims: Dims,
    num_ranks: int,
    inner_of: Callable[[str], Sequence[Plan]] | None = None,
    outer: Dims = (),
) -> tuple[Plan, ...]:
    """Ways of running an operation on groups of any shape."""
    found = _in_rank_order(fabric, op, dims, num_ranks)
    if inner_of is None:
        return found
    inner_size = _size(dims) // _size(outer)
    return (*found, *nested(op, inner_of, lambda part: _in_rank_order(fabric, part, outer, num_ranks), inner_size))


@lru_cache(maxsize=4096)
def _in_rank_order(fabric: Fabric, op: str, dims: Dims, num_ranks: int) -> tuple[Plan, ...]:
    if op == "all_to_all":
        return (_exchange_plan(fabric, dims, num_ranks),)
    if op == "all_reduce":
        gathers = {plan.detail: plan for plan in _in_rank_order(fabric, "all_gather", dims, num_ranks)}
        scatters = _in_rank_order(fabric, "reduce_scatter", dims, num_ranks)
        return tuple(Plan(p.algorithm, p.detail, p.stages + gathers[p.detail].stages) for p in scatters)
    ranks, reduce = group_ranks(dims, num_ranks), op == "reduce_scatter"
    listed = {"ring": _ring(ranks, reduce), "mesh": _mesh(ranks, reduce), "rdh": _cube(ranks, reduce)}
    busy = min(fabric.ranks_per_chip, num_ranks)
    return tuple(
        Plan(name, f"{name} in rank order", ((stage(fabric, steps, busy), 1.0),))
        for name, steps in listed.items()
        if steps
    )


def _ring(ranks: Ranks, reduce: bool) -> list[Step]:
    size = ranks.shape[1]
    chunk = 1.0 / size
    transfers = [(order, np.roll(order, -1, axis=1), chunk / 2) for order in (ranks, ranks[:, ::-1])]
    if not reduce:
        return [_step(size - 1, transfers, 2 * chunk)]
    return [_step(1, transfers, 2 * chunk), _step(size - 2, transfers, 3 * chunk), _step(1, [], 3 * chunk)]


def _mesh(ranks: Ranks, reduce: bool) -> list[Step]:
    groups, size = ranks.shape
    if groups * size * size > _MOST_PAIRS:
        return []
    chunk = 1.0 / size
    transfers = [(ranks, np.roll(ranks, -hop, axis=1), chunk) for hop in range(1, size)]
    addition = [_step(1, [], (size + 1) * chunk)] if reduce else []
    return [_step(1, transfers, 2 * (size - 1) * chunk), *addition]


def _cube(ranks: Ranks, reduce: bool) -> list[Step]:
    size = ranks.shape[1]
    if size & (size - 1):
        return []
    member, chunk, touches = np.arange(size), 1.0 / size, 3.0 if reduce else 2.0
    distances = [2**t for t in range(size.bit_length() - 1)]
    steps = [_step(1, [(ranks, ranks[:, member ^ d], d * chunk)], touches * d * chunk) for d in distances]
    return steps[::-1] if reduce else steps


def _exchange_plan(fabric: Fabric, dims: Dims, num_ranks: int) -> Plan:
    ranks = group_ranks(dims, num_ranks)
    size, busy = ranks.shape[1], min(fabric.ranks_per_chip, num_ranks)
    source, target, leaving = _exchange_pairs(ranks, fabric.ranks_per_domain)
    step = Step(1, source, target, np.full(source.size, 1.0 / size), 2 * (size - 1) / size)
    loads = stage(fabric, [step], busy)
    per_chip = np.bincount(np.arange(leaving.size) // fabric.ranks_per_chip, weights=leaving)
    loads.nic[0] = per_chip.max()
    loads.uses[0, 2] = loads.nic[0] > 0
    return Plan("mesh", "mesh in rank order", ((loads, 1.0),))


def _exchange_pairs(ranks: Ranks, ranks_per_domain: int) -> tuple[Ranks, Ranks, NDArray[np.float64]]:
    """Pairs of members inside each of the first domains; for every rank the share of its buffer that leaves."""
    groups, size = ranks.shape
    domain = ranks // ranks_per_domain
    key = np.arange(groups)[:, None] * (int(domain.max()) + 1) + domain
    mates = np.bincount(key.reshape(-1))[key]
    leaving = np.zeros(int(ranks.max()) + 1)
    leaving[ranks] = 1.0 - mates / size
    sources, targets = [], []
    for number in range(min(KEPT_DOMAINS, int(domain.max()) + 1)):
        flat, group = ranks[domain == number], np.nonzero(domain == number)[0]
        first, second = np.nonzero((group[:, None] == group[None, :]) & (flat[:, None] != flat[None, :]))
        sources.append(flat[first])
        targets.append(flat[second])
    return np.concatenate(sources), np.concatenate(targets), leaving


def _step(count: float, transfers: Sequence[tuple[Ranks, Ranks, float]], touches: float) -> Step:
    none = np.zeros(0, dtype=np.int64)
    sources = [none, *(source.reshape(-1) for source, _, _ in transfers)]
    targets = [none, *(target.reshape(-1) for _, target, _ in transfers)]
    sizes = [np.zeros(0), *(np.full(source.size, size) for source, _, size in transfers)]
    return Step(count, np.concatenate(sources), np.concatenate(targets), np.concatenate(sizes), touches)


def _size(dims: Dims) -> int:
    return int(np.prod([size for _, size in dims], dtype=np.int64))
