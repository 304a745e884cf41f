"""Every way of running a collective on groups of a given shape, as loads of links, chips, HBM and network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError
from trn2model.network import algorithms as steps
from trn2model.network.algorithms import Algorithm, Layout, Leg, Legs
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
class Way:
    """One way of running a collective: what runs at each level, and stages with the share that each works on."""

    legs: Legs
    stages: tuple[tuple[Stage, float], ...]

    @property
    def algorithm(self) -> str:
        """Name of ``ALGORITHMS``."""
        return self.legs[0].algorithm.family if len(self.legs) == 1 else "hierarchical"

    def then(self, other: Way) -> Way:
        """The way of an operation that is followed by another one on the same levels."""
        return Way(self.legs, self.stages + other.stages)


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
    op: str, inner_of: Callable[[str], Sequence[Way]], outer_of: Callable[[str], Sequence[Way]], inner_size: int
) -> list[Way]:
    """Ways on two levels: the outer one on what each inner rank holds, first for a gather, last for a scatter."""
    part = 1.0 if op == "all_to_all" else 1.0 / inner_size
    found = []
    gathers = {way.legs: way for way in inner_of("all_gather")} if op == "all_reduce" else {}
    for inner in inner_of("reduce_scatter" if op == "all_reduce" else op):
        for outer in outer_of(op):
            between = tuple((loads, share * part) for loads, share in outer.stages)
            stages = between + inner.stages if op == "all_gather" else inner.stages + between
            if op == "all_reduce":
                stages += gathers[inner.legs].stages
            found.append(Way(inner.legs + outer.legs, stages))
    return found


Ranks = NDArray[np.int64]

#: pairs of ranks up to which a mesh is routed pair by pair; larger groups run other algorithms
_MOST_PAIRS: Final = 2**20


def _permute(fabric: Fabric, dims: Dims, num_ranks: int) -> Way:
    """Circular permute: each member sends the message to the next one."""
    ranks = group_ranks(dims, num_ranks)
    step = _step(1, [(ranks, np.roll(ranks, -1, axis=1), 1.0)], 2.0)
    return _one_leg(fabric, Leg(Algorithm.RING), [step], min(fabric.ranks_per_chip, num_ranks))


@lru_cache(maxsize=4096)
def _in_rank_order(fabric: Fabric, op: str, dims: Dims, num_ranks: int) -> tuple[Way, ...]:
    if op == "all_to_all":
        return (_exchange(fabric, dims, num_ranks),)
    if op == "all_reduce":
        return _reduced(lambda part: _in_rank_order(fabric, part, dims, num_ranks))
    ranks, reduce = group_ranks(dims, num_ranks), op == "reduce_scatter"
    listed = {
        Algorithm.RING: _ring(ranks, reduce),
        Algorithm.MESH: _mesh(ranks, reduce),
        Algorithm.RDH: _cube(ranks, reduce),
    }
    busy = min(fabric.ranks_per_chip, num_ranks)
    return tuple(
        _one_leg(fabric, Leg(algorithm, Layout.RANKS), steps, busy) for algorithm, steps in listed.items() if steps
    )


def _reduced(ways_of: Callable[[str], Sequence[Way]]) -> tuple[Way, ...]:
    """Ways of an all-reduce: each of a reduce-scatter, then an all-gather by the same algorithm."""
    gathers = {way.legs: way for way in ways_of("all_gather")}
    return tuple(way.then(gathers[way.legs]) for way in ways_of("reduce_scatter"))


def _one_leg(fabric: Fabric, leg: Leg, listed: Sequence[Step], ranks_on_chip: int) -> Way:
    return Way((leg,), ((stage(fabric, listed, ranks_on_chip), 1.0),))


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


def _exchange(fabric: Fabric, dims: Dims, num_ranks: int) -> Way:
    ranks = group_ranks(dims, num_ranks)
    size, busy = ranks.shape[1], min(fabric.ranks_per_chip, num_ranks)
    source, target, leaving = _exchange_pairs(ranks, fabric.ranks_per_domain)
    step = Step(1, source, target, np.full(source.size, 1.0 / size), 2 * (size - 1) / size)
    loads = stage(fabric, [step], busy)
    per_chip = np.bincount(np.arange(leaving.size) // fabric.ranks_per_chip, weights=leaving)
    loads.nic[0] = per_chip.max()
    loads.uses[0, 2] = loads.nic[0] > 0
    return Way((Leg(Algorithm.MESH, Layout.RANKS),), ((loads, 1.0),))


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


OPERATIONS: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute")
#: index 0 stands for a group of one, which needs none
ALGORITHMS: Final = ("none", "ring", "kangaring", "mesh", "rdh", "hierarchical")

Build = Callable[[Fabric, Block], "list[Step] | None"]
_GATHER: Final[tuple[tuple[Algorithm, Build], ...]] = (
    (Algorithm.RING, steps.ring_gather),
    (Algorithm.KANGARING, steps.kangaring_gather),
    (Algorithm.MESH, steps.mesh_gather),
    (Algorithm.SINGLE_STEP_MESH, steps.direct_gather),
    (Algorithm.RDH, steps.cube_gather),
)
_SCATTER: Final[tuple[tuple[Algorithm, Build], ...]] = (
    (Algorithm.RING, steps.ring_scatter),
    (Algorithm.KANGARING, steps.kangaring_scatter),
    (Algorithm.MESH, steps.mesh_scatter),
    (Algorithm.SINGLE_STEP_MESH, steps.direct_scatter),
    (Algorithm.RDH, steps.cube_scatter),
)


@lru_cache(maxsize=4096)
def ways(fabric: Fabric, op: str, dims: Dims, num_ranks: int) -> tuple[Way, ...]:
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
        return (_permute(fabric, dims, num_ranks),)
    levels = split_levels(fabric, dims, num_ranks)
    if levels is None:
        return _uneven(fabric, op, dims, num_ranks)
    return _even(fabric, op, levels, num_ranks)


def _even(fabric: Fabric, op: str, levels: tuple[Dims, ...], num_ranks: int) -> tuple[Way, ...]:
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


def _inside(fabric: Fabric, op: str, levels: tuple[Dims, ...], num_ranks: int) -> tuple[Way, ...]:
    """Ways inside a domain: on the whole block, or on the plane and along z in turn."""
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
def _flat(fabric: Fabric, op: str, levels: tuple[Dims, ...], num_ranks: int) -> tuple[Way, ...]:
    groups = block(fabric, levels, num_ranks)
    if op == "all_to_all":
        return (_one_leg(fabric, Leg(Algorithm.MESH), steps.direct_gather(fabric, groups), groups.ranks_on_chip),)
    if op == "all_reduce":
        joined = _reduced(lambda part: _flat(fabric, part, levels, num_ranks))
        once = steps.direct_reduce(fabric, groups)
        return (*joined, _one_leg(fabric, Leg(Algorithm.ALL_REDUCE_MESH), once, groups.ranks_on_chip))
    built = [(algorithm, build(fabric, groups)) for algorithm, build in (_GATHER if op == "all_gather" else _SCATTER)]
    return tuple(_one_leg(fabric, Leg(algorithm), found, groups.ranks_on_chip) for algorithm, found in built if found)


@lru_cache(maxsize=4096)
def _across(fabric: Fabric, op: str, dims: Dims, num_ranks: int) -> tuple[Way, ...]:
    """Ways between equal ranks of several domains, through the network interface of each rank's chip."""
    size, busy = _size([dims]), min(fabric.ranks_per_chip, num_ranks)
    if op == "all_reduce":
        return _reduced(lambda part: _across(fabric, part, dims, num_ranks))
    chunk, reduce = 1.0 / size, op == "reduce_scatter"
    listed = {Algorithm.MESH: [_network_step(1, (size - 1) * chunk, 2.0), *_addition(reduce, (size + 1) * chunk)]}
    if op != "all_to_all":
        listed[Algorithm.RING] = [_network_step(size - 1, chunk, 2.0)]
        if reduce:
            first, later = _network_step(1, chunk, 2.0), _network_step(size - 2, chunk, 3.0)
            listed[Algorithm.RING] = [first, later, *_addition(reduce, 3 * chunk)]
        if size & (size - 1) == 0:
            sizes = [2**t * chunk for t in range(size.bit_length() - 1)]
            ordered = sizes[::-1] if reduce else sizes
            listed[Algorithm.RDH] = [_network_step(1, piece, 3.0 if reduce else 2.0) for piece in ordered]
    return tuple(_one_leg(fabric, Leg(algorithm, Layout.DOMAINS), found, busy) for algorithm, found in listed.items())


def _network_step(count: float, size: float, touches: float) -> Step:
    none = np.zeros(0, dtype=np.int64)
    return Step(count, none, none, np.zeros(0), touches * size, size)


def _addition(reduce: bool, touches: float) -> list[Step]:
    none = np.zeros(0, dtype=np.int64)
    return [Step(1, none, none, np.zeros(0), touches)] if reduce else []


def _direct_exchange(fabric: Fabric, levels: tuple[Dims, ...], num_ranks: int) -> tuple[Way, ...]:
    """All-to-all in one step: inside the domain over links, to the other domains over the network."""
    groups, domains = block(fabric, levels, num_ranks), _size(levels[4:])
    inside = steps.direct_gather(fabric, groups)[0]
    share = (domains - 1) / domains
    step = Step(1, inside.source, inside.target, inside.size / domains, inside.touches / domains + 2 * share, share)
    return (_one_leg(fabric, Leg(Algorithm.MESH), [step], groups.ranks_on_chip),)


def _uneven(fabric: Fabric, op: str, dims: Dims, num_ranks: int) -> tuple[Way, ...]:
    """Ways for groups that straddle a level: all at once, or apart from their even part inside an instance or chip."""
    found = _in_rank_order(fabric, op, dims, num_ranks)
    parts = _even_part(fabric, dims, num_ranks)
    if parts is None:
        return found
    inside, outside = parts
    apart = nested(
        op,
        lambda part: _flat(fabric, part, inside, num_ranks),
        lambda part: _in_rank_order(fabric, part, outside, num_ranks),
        _size(inside),
    )
    return (*found, *apart)


def _even_part(fabric: Fabric, dims: Dims, num_ranks: int) -> tuple[tuple[Dims, ...], Dims] | None:
    """Levels of the part of a group that fills instances, or else chips, evenly; and the rest of the group."""
    plane = fabric.ranks_per_chip * fabric.shape[0] * fabric.shape[1]
    for border in (plane, fabric.ranks_per_chip):
        cut = split_at(dims, border, num_ranks)
        levels = split_levels(fabric, cut[0], num_ranks) if cut else None
        if cut and levels and cut[0] and cut[1]:
            return levels[:4], cut[1]
    return None


def _size(levels: Sequence[Dims]) -> int:
    return int(np.prod([size for level in levels for _, size in level], dtype=np.int64))
