"""Every way of running a collective on groups of a given shape, as loads of links, chips, HBM and network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError
from trn2model.network import algorithms as steps
from trn2model.network.placement import Block, Dims, block, group_ranks, merge_dims, split_at, split_levels
from trn2model.network.routing import Step, step_load
from trn2model.specs.topology import Fabric

Floats = NDArray[np.float64]

#: domains whose links are kept apart where groups load domains unevenly
KEPT_DOMAINS: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Loads of consecutive steps, per byte of the message; one entry per kind of step.

    `links` has shape (steps, domains, links): one row where all domains are loaded alike; else the first ones, and
    where there are more a last row with the largest load of each link over all. The flags tell which latency a step
    pays: the largest of those it uses.
    """

    count: Floats
    links: Floats
    chip: Floats
    hbm: Floats
    nic: Floats
    uses: NDArray[np.bool_]  # (steps, 3): chip, link, network


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One way of running a collective: stages and the share of the message that each works on."""

    algorithm: str
    detail: str
    stages: tuple[tuple[Stage, float], ...]


def stage(fabric: Fabric, listed: Sequence[Step], ranks_on_chip: int) -> Stage:
    """Loads of a list of steps."""
    kept = [step for step in listed if step.count > 0]
    loads = [step_load(fabric, step, ranks_on_chip) for step in kept]
    domains = min(max(load.links.shape[0] for load in loads), KEPT_DOMAINS + 1)
    links = np.zeros((len(loads), domains, fabric.num_links))
    for row, load in zip(links, loads, strict=True):
        first = load.links[:KEPT_DOMAINS]
        row[: len(first)] = first
        if len(load.links) > KEPT_DOMAINS:
            row[KEPT_DOMAINS] = load.links.max(axis=0)
    return Stage(
        count=np.array([step.count for step in kept]),
        links=links,
        chip=np.array([load.chip for load in loads]),
        hbm=np.array([load.hbm for load in loads]),
        nic=np.array([load.nic for load in loads]),
        uses=np.array([(load.chip > 0, load.links.any(), load.nic > 0) for load in loads], dtype=bool),
    )


def nested(
    op: str, inner_of: Callable[[str], Sequence[Plan]], outer_of: Callable[[str], Sequence[Plan]], inner_size: int
) -> list[Plan]:
    """Plans on two levels: the outer one on what each inner rank holds, first for a gather, last for a scatter."""
    part = 1.0 if op == "all_to_all" else 1.0 / inner_size
    found = []
    gathers = {plan.detail: plan for plan in inner_of("all_gather")} if op == "all_reduce" else {}
    for inner in inner_of("reduce_scatter" if op == "all_reduce" else op):
        for outer in outer_of(op):
            between = tuple((loads, share * part) for loads, share in outer.stages)
            stages = between + inner.stages if op == "all_gather" else inner.stages + between
            if op == "all_reduce":
                stages += gathers[inner.detail].stages
            found.append(Plan("hierarchical", f"{inner.detail} + {outer.detail}", stages))
    return found


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
    inner_size = _group_size(dims) // _group_size(outer)
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


def _group_size(dims: Dims) -> int:
    return int(np.prod([size for _, size in dims], dtype=np.int64))


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
