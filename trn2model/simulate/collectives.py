"""Collectives played chunk by chunk on the graph: the oracle of the closed form, and the topology page's steps.

Only the choice of the algorithm comes from the estimate. Members, transfers, routes, loads and times are worked out
here, step by step, and every step checks what it moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.network.algorithms import Algorithm, Layout, Leg, Legs
from trn2model.network.cost import lines
from trn2model.network.placement import Dims, group_ranks, member_offsets, merge_dims
from trn2model.simulate import moves
from trn2model.simulate.moves import Group, Move, ReplayError
from trn2model.specs.profile import LinkConstants
from trn2model.specs.topology import Fabric


@dataclass(frozen=True, slots=True, eq=False)
class StepLoads:
    """Bytes on the links of the first domain, and the time of the step."""

    links: NDArray[np.float64]
    time: float


class LinkClock:
    """Routes moves over one machine: x, then y, then z, the shortest way round, half each way on a tie."""

    def __init__(self, fabric: Fabric, constants: LinkConstants) -> None:
        self.fabric, self.constants = fabric, constants
        ends = zip(fabric.link_source.tolist(), fabric.link_axis.tolist(), fabric.link_sign.tolist(), strict=True)
        self._leaving = {end: (link, int(fabric.link_target[link])) for link, end in enumerate(ends)}
        self._routes: dict[tuple[int, int], list[tuple[int, float]]] = {}

    def loads(self, listed: Sequence[Move]) -> StepLoads:
        """Time of moves that run at once: the latency of the slowest medium and the busiest resource."""
        fabric, constants = self.fabric, self.constants
        links: dict[tuple[int, int], float] = defaultdict(float)
        busy: dict[tuple[str, int], float] = defaultdict(float)
        latency = 0.0
        for move in listed:
            here, there = move.source // fabric.ranks_per_chip, move.target // fabric.ranks_per_chip
            busy["memory", here] += move.size * move.reads
            busy["memory", there] += move.size * move.writes
            if move.source == move.target:
                continue
            if here == there:
                busy["send", move.source] += move.size
                busy["receive", move.target] += move.size
                latency = max(latency, constants.chip_latency)
            elif here // fabric.chips_per_domain == there // fabric.chips_per_domain:
                domain = here // fabric.chips_per_domain
                for link, share in self.route(here % fabric.chips_per_domain, there % fabric.chips_per_domain):
                    links[domain, link] += share * move.size
                latency = max(latency, constants.link_latency)
            else:
                busy["upload", here] += move.size
                busy["download", there] += move.size
                latency = max(latency, constants.nic_latency)
        times = [load / self._rate(kind) for (kind, _), load in busy.items() if load]
        times += [load / (fabric.link_bandwidth[link] * constants.link_efficiency) for (_, link), load in links.items()]
        first = np.zeros(fabric.num_links)
        for (domain, link), load in links.items():
            first[link] += load if domain == 0 else 0.0
        return StepLoads(first, latency + max(times, default=0.0))

    def route(self, source: int, target: int) -> list[tuple[int, float]]:
        """Links from one chip of a domain to another, each with its share of the bytes."""
        if (source, target) not in self._routes:
            walk = self._switched if self.fabric.interconnect == "switch" else self._walked
            self._routes[source, target] = list(walk(source, target))
        return self._routes[source, target]

    def _switched(self, source: int, target: int) -> Iterator[tuple[int, float]]:
        ends = zip(self.fabric.link_source.tolist(), self.fabric.link_target.tolist(), strict=True)
        switch = self.fabric.chips_per_domain
        for link, end in enumerate(ends):
            if end in ((source, switch), (switch, target)):
                yield link, 1.0

    def _walked(self, source: int, target: int) -> Iterator[tuple[int, float]]:
        goal = self.fabric.coordinates[target].tolist()
        here = source
        for axis in range(3):
            walks = [self._walk(here, axis, sign, goal[axis]) for sign in (1, -1)]
            possible = [walk for walk in walks if walk]
            chosen = [walk for walk in possible if len(walk) == min(map(len, possible))]
            for walk in chosen:
                yield from ((link, 1.0 / len(chosen)) for link, _ in walk)
            here = chosen[0][-1][1] if chosen else here

    def _walk(self, chip: int, axis: int, sign: int, goal: int) -> list[tuple[int, int]] | None:
        """Links in one direction up to a coordinate; None where the links end before."""
        passed: list[tuple[int, int]] = []
        while int(self.fabric.coordinates[chip][axis]) != goal:
            if (chip, axis, sign) not in self._leaving:
                return None
            link, chip = self._leaving[chip, axis, sign]
            passed.append((link, chip))
        return passed

    def _rate(self, kind: str) -> float:
        fabric, constants = self.fabric, self.constants
        if kind == "memory":
            return fabric.hbm_bandwidth * constants.collective_hbm_efficiency
        if kind in {"send", "receive"}:
            return constants.chip_bandwidth * fabric.cores_per_rank
        return fabric.nic_bandwidth * constants.nic_efficiency


Rule = Callable[[Group, float], Iterator[list[Move]]]

#: How each algorithm gathers and scatters, among cores and chips and in order of rank.
_ON_CHIPS: Final[Mapping[Algorithm, tuple[Rule, Rule]]] = {
    Algorithm.RING: (moves.ring_gather, moves.ring_scatter),
    Algorithm.KANGARING: (moves.kangaring_gather, moves.kangaring_scatter),
    Algorithm.MESH: (moves.mesh_gather, moves.mesh_scatter),
    Algorithm.SINGLE_STEP_MESH: (moves.direct_gather, moves.direct_scatter),
    Algorithm.RDH: (moves.cube_gather, moves.cube_scatter),
}
_IN_ORDER: Final[Mapping[Algorithm, tuple[Rule, Rule]]] = {
    Algorithm.RING: (moves.line_gather, moves.line_scatter),
    Algorithm.MESH: (moves.direct_gather, moves.direct_scatter),
    Algorithm.RDH: (moves.doubling_gather, moves.halving_scatter),
}


@dataclass(frozen=True, slots=True, eq=False)
class ReplayStep:
    """One step: who sends how much to whom, the bytes on every link of the first domain, and how long it takes.

    It is step `number`, from 1, of an operation on one level; a permute has no levels and one step.
    """

    op: str
    leg: Leg | None
    number: int
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    size: NDArray[np.float64]
    link_bytes: NDArray[np.float64]
    time: float


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """A played collective: how it runs, its steps, total time and bytes on every link of the first domain."""

    legs: Legs
    steps: tuple[ReplayStep, ...]
    time: float
    link_bytes: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Level:
    dims: Dims
    leg: Leg

    @property
    def size(self) -> int:
        return int(np.prod([size for _, size in self.dims], dtype=np.int64))

    @property
    def rules(self) -> tuple[Rule, Rule]:
        """How to gather and how to scatter."""
        return (_ON_CHIPS if self.leg.layout is Layout.CHIPS else _IN_ORDER)[self.leg.algorithm]


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of an operation on all groups of some dimensions."""

    fabric: Fabric
    op: str
    dims: Dims
    num_ranks: int
    message: float


class _Turn(NamedTuple):
    """Moves of one step: step `number` of an operation on one level."""

    op: str
    leg: Leg | None
    number: int
    moves: list[Move]


def replay(
    fabric: Fabric,
    op: str,
    dims: Dims,
    num_ranks: int,
    *,
    message_bytes: float,
    constants: LinkConstants,
    algorithm: str = "auto",
    legs: Legs = (),
) -> Replay:
    """Play a collective on all groups of some dimensions at once, in the given way or else the cheapest.

    Raises InvalidInputError (unknown operation, or an algorithm that does not run on a group of this shape);
    ReplayError (the algorithm does not do what the operation promises).
    """
    call = _Call(fabric, op, merge_dims(dims), num_ranks, message_bytes)
    if not legs:
        table = lines(fabric, op, call.dims, num_ranks, constants=constants, algorithm=algorithm)
        legs = table.way(message_bytes).legs if table.ways else ()
    clock = LinkClock(fabric, constants)
    steps = tuple(_step(turn, clock.loads(turn.moves)) for turn in (_play(call, legs) if call.dims else ()))
    total = np.sum([step.link_bytes for step in steps], axis=0) if steps else np.zeros(fabric.num_links)
    time = sum(step.time for step in steps) + (constants.collective_time if steps else 0.0)
    return Replay(legs, steps, time, total)


def _step(turn: _Turn, loads: StepLoads) -> ReplayStep:
    shown = [move for move in turn.moves if move.source != move.target]
    return ReplayStep(
        op=turn.op,
        leg=turn.leg,
        number=turn.number,
        source=np.array([move.source for move in shown], dtype=np.int64),
        target=np.array([move.target for move in shown], dtype=np.int64),
        size=np.array([move.size for move in shown], dtype=np.float64),
        link_bytes=loads.links,
        time=loads.time,
    )


def _play(call: _Call, legs: Legs) -> Iterator[_Turn]:
    rows = group_ranks(call.dims, call.num_ranks)
    if call.op == "permute":
        pairs = zip(rows.ravel().tolist(), np.roll(rows, -1, axis=1).ravel().tolist(), strict=True)
        yield _Turn("permute", None, 1, [Move(a, b, call.message) for a, b in pairs])
        return
    levels, content = _levels(call, legs), _Content(rows, call.op)
    if call.op == "all_to_all":
        for level in levels:
            yield from _run(call, "all_to_all", level, moves.exchange, chunk=call.message / level.size)
            content.exchange(level.dims)
    else:
        yield from _play_levels(call, levels, content)
    content.check()


def _play_levels(call: _Call, levels: Sequence[_Level], content: _Content) -> Iterator[_Turn]:
    chunks, size = [], 1
    for level in levels:
        size *= level.size
        chunks.append(call.message / size)
    rounds = list(zip(levels, chunks, strict=True))
    once = [level for level in levels if level.leg.algorithm is Algorithm.ALL_REDUCE_MESH]
    if call.op != "all_gather":
        for level, chunk in rounds:
            if level not in once:
                yield from _run(call, "reduce_scatter", level, level.rules[1], chunk=chunk)
                content.scatter(level.dims)
    for level, chunk in rounds:
        if level in once:
            yield from _run(call, "all_reduce", level, moves.direct_reduce, chunk=chunk * level.size)
            content.reduce(level.dims)
    if call.op != "reduce_scatter":
        for level, chunk in reversed(rounds):
            if level not in once:
                yield from _run(call, "all_gather", level, level.rules[0], chunk=chunk)
                content.gather(level.dims)


def _run(call: _Call, op: str, level: _Level, rule: Rule, *, chunk: float) -> Iterator[_Turn]:
    rows = group_ranks(level.dims, call.num_ranks).tolist()
    played = [rule(Group(call.fabric, tuple(row)), chunk) for row in rows]
    for number, parts in enumerate(zip(*played, strict=True), start=1):
        yield _Turn(op, level.leg, number, [move for part in parts for move in part])


def _levels(call: _Call, legs: Legs) -> list[_Level]:
    """Levels of a way of running, innermost first: the plane, z and the network, where it treats them apart."""
    fabric, outermost = call.fabric, legs[-1].layout
    plane, domain = fabric.ranks_per_chip * fabric.shape[0] * fabric.shape[1], fabric.ranks_per_domain
    borders = {1: [], 2: [domain if outermost is Layout.DOMAINS else plane], 3: [plane, domain]}[len(legs)]
    if outermost is Layout.RANKS and not _even_at(call.dims, plane):
        borders = [fabric.ranks_per_chip]
    rest, parts = call.dims, []
    for border in borders[: len(legs) - 1]:
        inner, rest = _cut(rest, border)
        parts.append(inner)
    return [_Level(part, leg) for part, leg in zip([*parts, rest], legs, strict=True)]


def _even_at(dims: Dims, border: int) -> bool:
    """Whether every group has the same ranks of each block of consecutive ranks that it touches."""
    inner, outer = _cut(dims, border)
    members, blocks = member_offsets(dims), member_offsets(outer)
    together = (member_offsets(inner)[None, :] + blocks[:, None]).reshape(-1)
    return bool(
        inner and outer and np.array_equal(np.sort(members), np.sort(together)) and (blocks % border == 0).all()
    )


def _cut(dims: Dims, border: int) -> tuple[Dims, Dims]:
    inner, outer = [], []
    for stride, size in dims:
        here = max(1, min(size, border // stride)) if stride < border else 1
        inner.append((stride, here))
        outer.append((stride * here, size // here))
    return merge_dims(tuple(inner)), merge_dims(tuple(outer))


class _Content:
    """What each rank holds between levels: for a reduction, the owners it works for and whose data is in its sums."""

    def __init__(self, groups: NDArray[np.int64], op: str) -> None:
        self.op = op
        self.group = {rank: set(row) for row in groups.tolist() for rank in row}
        self.owners = {rank: ({rank} if op == "all_gather" else set(row)) for rank, row in self.group.items()}
        self.members = {rank: (set(self.group[rank]) if op == "all_gather" else {rank}) for rank in self.group}
        self.pieces = {rank: {(rank, other) for other in row} for rank, row in self.group.items()}

    def mates(self, rank: int, dims: Dims) -> set[int]:
        return {other for other in self.group[rank] if _base(other, dims) == _base(rank, dims)}

    def scatter(self, dims: Dims) -> None:
        self.reduce(dims)
        self.owners = {
            rank: {owner for owner in owned if _digits(owner, dims) == _digits(rank, dims)}
            for rank, owned in self.owners.items()
        }

    def reduce(self, dims: Dims) -> None:
        self.members = {
            rank: _joined(self.members[mate] for mate in sorted(self.mates(rank, dims))) for rank in self.members
        }

    def gather(self, dims: Dims) -> None:
        self.owners = {
            rank: _joined(self.owners[mate] for mate in sorted(self.mates(rank, dims))) for rank in self.owners
        }

    def exchange(self, dims: Dims) -> None:
        moved: dict[int, set[tuple[int, int]]] = {rank: set() for rank in self.pieces}
        for rank, pieces in self.pieces.items():
            mates = {_digits(mate, dims): mate for mate in self.mates(rank, dims)}
            for source, owner in pieces:
                moved[mates[_digits(owner, dims)]].add((source, owner))
        self.pieces = moved

    def check(self) -> None:
        for rank, group in self.group.items():
            owners = {rank} if self.op == "reduce_scatter" else group
            if self.op == "all_to_all":
                correct = self.pieces[rank] == {(source, rank) for source in group}
            else:
                correct = self.owners[rank] == owners and self.members[rank] == group
            if not correct:
                message = f"rank {rank} does not end with what {self.op} promises"
                raise ReplayError(message)


def _digits(rank: int, dims: Dims) -> tuple[int, ...]:
    return tuple(rank // stride % size for stride, size in dims)


def _base(rank: int, dims: Dims) -> int:
    return rank - sum(rank // stride % size * stride for stride, size in dims)


def _joined(sets: Iterable[set[int]]) -> set[int]:
    total: set[int] = set()
    for one in sets:
        if total & one:
            message = "two ranks bring the same contribution"
            raise ReplayError(message)
        total |= one
    return total
