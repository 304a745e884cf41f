"""Steps of each collective algorithm on a block of chips: the order of ranks, and who sends how much to whom.

Sizes are per byte of the message, as nccom-test counts it. Every function returns the steps in order; all groups
of the block run at the same time. An all-reduce is a reduce-scatter and an all-gather, except in the mesh's
single-step form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trn2model.network.placement import Block
from trn2model.network.routing import Step
from trn2model.specs.topology import Fabric

Order = NDArray[np.int64]


class Algorithm(Enum):
    """An elementary algorithm: who sends how much to whom at each step."""

    RING = "ring"
    KANGARING = "kangaring"
    MESH = "mesh"  # between chips, then between the cores of each chip
    SINGLE_STEP_MESH = "single_step_mesh"  # every member to every other at once
    ALL_REDUCE_MESH = "all_reduce_mesh"  # whole buffers to every other at once
    RDH = "rdh"

    @property
    def family(self) -> str:
        """Name under which the algorithm is asked for and reported: every mesh is a mesh."""
        return "mesh" if self in _MESHES else self.value


_MESHES = frozenset({Algorithm.MESH, Algorithm.SINGLE_STEP_MESH, Algorithm.ALL_REDUCE_MESH})


class Layout(Enum):
    """What an algorithm's order of members follows."""

    CHIPS = "chips"  # cores, then chips joined by links
    RANKS = "ranks"  # rank numbers, where groups fill no block of chips
    DOMAINS = "domains"  # equal ranks of domains, through the network


@dataclass(frozen=True, slots=True)
class Leg:
    """One level of a collective: the algorithm that runs there, and how its members are laid out."""

    algorithm: Algorithm
    layout: Layout = Layout.CHIPS


Legs = tuple[Leg, ...]
"""Levels of a collective, innermost first."""


@lru_cache(maxsize=256)
def directed_cycles(sizes: tuple[int, ...], wraps: tuple[bool, ...]) -> tuple[Order, ...]:
    """Directed Hamiltonian cycles over neighbouring chips of a block; every cycle comes both ways round.

    Notes
    -----
    A square torus of edge k >= 3 splits into two cycles: step j of row i visits column j - i, and the transposed
    order. Others are combs over rows. In three dimensions the cycle of a plane is cut open and repeated along z.

    References
    ----------
    .. [1] bae-bose
    """
    spans = [(axis, size) for axis, size in enumerate(sizes) if size > 1]
    if len(spans) == 1:
        axis, size = spans[0]
        cycles = [np.arange(size, dtype=np.int64)] if size == 2 or wraps[axis] else []
    elif len(spans) == 2:
        (first, columns), (second, rows) = spans
        cycles = _plane_cycles(columns, rows, wraps[first] and wraps[second])
    elif len(spans) == 3:
        plane = _plane_cycles(sizes[0], sizes[1], wraps[0] and wraps[1])
        cycles = _lifted(plane, sizes[2], wraps[2], sizes[0] * sizes[1])
    else:
        cycles = []
    both = tuple(order for cycle in cycles for order in (cycle, cycle[::-1]))
    for order in both:
        order.setflags(write=False)
    return both


def _plane_cycles(columns: int, rows: int, wrapped: bool) -> list[Order]:
    if wrapped and columns == rows and rows >= 3:
        row, step = np.divmod(np.arange(rows * rows, dtype=np.int64), rows)
        other = (step - row) % rows
        return [other + columns * row, row + columns * other]
    if rows % 2 == 0:
        return [_comb(columns, rows)]
    if columns % 2 == 0:
        transposed = _comb(rows, columns)
        return [transposed // rows + columns * (transposed % rows)]
    return []


def _comb(columns: int, rows: int) -> Order:
    """Cycle over an even number of rows: snake over columns 1.. and come back along column 0."""
    order = [0]
    for row in range(rows):
        span = range(1, columns)
        order += [row * columns + column for column in (span if row % 2 == 0 else reversed(span))]
    order += [row * columns for row in range(rows - 1, 0, -1)]
    return np.array(order, dtype=np.int64)


def _lifted(plane: Sequence[Order], layers: int, wrapped: bool, plane_size: int) -> list[Order]:
    if layers % 2 or not (wrapped or layers == 2):
        return []
    used: set[int] = set()
    lifted = []
    for cycle in plane:
        path = cycle
        while {int(path[0]), int(path[-1])} & used:
            path = np.roll(path, 1)
        used |= {int(path[0]), int(path[-1])}
        parts = [(path if layer % 2 == 0 else path[::-1]) + layer * plane_size for layer in range(layers)]
        lifted.append(np.concatenate(parts))
    return lifted


#: axis that joins the instances of an UltraServer
_Z_AXIS = 2

Ranks = NDArray[np.int64]


def ring_orders(fabric: Fabric, block: Block) -> list[Ranks]:
    """Members of each group in the order of every directed ring: core by core, chip by chip."""
    forward = block.ranks.transpose(0, 2, 1)  # groups, chips, cores
    line = np.arange(block.num_chips)
    cycles = _cycles(fabric, block) or (line, line[::-1])
    groups = block.ranks.shape[0]
    orders = []
    for index, cycle in enumerate(cycles):
        cores = forward if index % 2 == 0 else forward[:, :, ::-1]
        orders.append(cores[:, cycle].reshape(groups, -1))
    return orders


def pair_rings(fabric: Fabric, block: Block) -> list[tuple[Ranks, Ranks]]:
    """Primary and secondary ranks in ring order for every directed cycle; a pair swaps roles from ring to ring."""
    whole_chips = block.num_local == fabric.ranks_per_chip and block.num_local % 2 == 0
    if not whole_chips or block.num_chips < 2:
        return []
    groups, local, chips = block.ranks.shape
    pairs = block.ranks.reshape(groups, local // 2, 2, chips).transpose(0, 3, 1, 2)
    rings = []
    for index, cycle in enumerate(_cycles(fabric, block)):
        order = pairs[:, cycle] if index % 2 == 0 else pairs[:, cycle][:, :, ::-1]
        flat, primary = order.reshape(groups, -1, 2), index % 2
        rings.append((flat[:, :, primary], flat[:, :, 1 - primary]))
    return rings


def cube_steps(fabric: Fabric, block: Block) -> list[list[tuple[Ranks, Ranks]]] | None:
    """Sources and partners of each step of recursive doubling over the chips as a hypercube.

    Notes
    -----
    A ring of four in Gray code is a square, so each step crosses one link. Between instances (z) goes first, while
    the chunks are small; among the other axes core l of a chip starts l axes further, so that all of them work.
    """
    if block.num_chips < 2 or any(size & (size - 1) for size in block.sizes):
        return None
    classes = _cube_axes(block)
    steps: list[list[tuple[Ranks, Ranks]]] = []
    for partners in classes:
        for turn in range(len(partners)):
            step = []
            for core in range(block.num_local):
                ranks = block.ranks[:, core]
                start = ranks[:, 0] % fabric.ranks_per_chip
                choice = np.stack(partners)[(turn + start) % len(partners)]
                step.append((ranks, np.take_along_axis(ranks, choice, axis=1)))
            steps.append(step)
    return steps


def _cycles(fabric: Fabric, block: Block) -> tuple[Ranks, ...]:
    if fabric.interconnect == "switch":
        line = np.arange(block.num_chips, dtype=np.int64)
        return (line, line[::-1])
    return directed_cycles(block.sizes, block.wraps) if block.contiguous else ()


def _cube_axes(block: Block) -> list[list[Ranks]]:
    """Partner of each chip along every dimension of the hypercube: between instances (z) first, then inside them."""
    found: tuple[list[Ranks], list[Ranks]] = ([], [])
    position, stride = np.arange(block.num_chips), 1
    for axis, size in enumerate(block.sizes):
        place = position // stride % size
        code = np.arange(size) ^ (np.arange(size) >> 1)
        back = np.argsort(code)
        for bit in range(size.bit_length() - 1):
            partner = back[code[place] ^ (1 << bit)]
            found[axis != _Z_AXIS].append(position + (partner - place) * stride)
        stride *= size
    return [partners for partners in found if partners]


Transfer = tuple[Ranks, Ranks, float]


def ring_gather(fabric: Fabric, block: Block) -> list[Step] | None:
    """Ring all-gather: n - 1 steps, each rank passes on the chunk it received last (1 read, 1 write)."""
    return _ring_steps(ring_orders(fabric, block), reduce=False) if block.size > 1 else None


def ring_scatter(fabric: Fabric, block: Block) -> list[Step] | None:
    """Ring reduce-scatter: n - 1 steps that add the own chunk (2 reads, 1 write) and a last local addition."""
    return _ring_steps(ring_orders(fabric, block), reduce=True) if block.size > 1 else None


def kangaring_gather(fabric: Fabric, block: Block) -> list[Step] | None:
    """KangaRing all-gather: one primary of each pair in the ring writes every chunk onwards and to its secondary."""
    pairs = pair_rings(fabric, block)
    if not pairs:
        return None
    length, piece = block.size // 2, 1.0 / (block.size * len(pairs))
    onward = _onward(pairs, 2 * piece)
    to_peer, swap = _pouch(pairs, 2 * piece), [*_pouch(pairs, piece), *_pouch(pairs, piece, back=True)]
    busy = piece * len(pairs) / 2  # per rank: each is primary in half of the rings
    return [
        _step(1, onward + swap, busy * 6),
        _step(length - 2, onward + to_peer, busy * 6),
        _step(1, to_peer, busy * 4),
    ]


def kangaring_scatter(fabric: Fabric, block: Block) -> list[Step] | None:
    """KangaRing reduce-scatter: each primary adds its own and its secondary's chunk to what it passes on."""
    pairs = pair_rings(fabric, block)
    if not pairs:
        return None
    length, piece = block.size // 2, 1.0 / (block.size * len(pairs))
    onward, fetch = _onward(pairs, 2 * piece), _pouch(pairs, 2 * piece, back=True)
    busy = piece * len(pairs) / 2
    return [
        _step(1, onward + fetch, busy * 6),
        _step(length - 2, onward + fetch, busy * 8),
        _step(1, [*fetch, *_pouch(pairs, piece)], busy * 8),
    ]


def mesh_gather(_fabric: Fabric, block: Block) -> list[Step] | None:
    """Mesh all-gather: routed straight to the same core of every other chip, then between the cores of each chip."""
    chunk, others = 1.0 / block.size, block.num_chips - 1
    return [*_if(others, _step(1, _to_chips(block, chunk), 2 * others * chunk)), *_chip_gather(block)] or None


def mesh_scatter(_fabric: Fabric, block: Block) -> list[Step]:
    """Mesh reduce-scatter: each rank adds its chip's chunks and routes the sum; the target adds what arrives."""
    chunk, others, local = 1.0 / block.size, block.num_chips - 1, block.num_local
    sums = [*_to_chips(block, chunk), *_between_cores(block, others * chunk)]
    last = _step(1, _between_cores(block, chunk), (others + local + 1) * chunk)
    return [*_if(others, _step(1, sums, others * (local + 1) * chunk)), last]


def direct_gather(_fabric: Fabric, block: Block) -> list[Step]:
    """Single-step mesh all-gather: every rank writes its chunk to every other rank."""
    chunk = 1.0 / block.size
    return [_step(1, _to_all(block, chunk), 2 * (block.size - 1) * chunk)]


def direct_scatter(_fabric: Fabric, block: Block) -> list[Step]:
    """Single-step mesh reduce-scatter: every rank writes each chunk to its owner, who adds them up."""
    chunk = 1.0 / block.size
    return [_step(1, _to_all(block, chunk), 2 * (block.size - 1) * chunk), _step(1, [], (block.size + 1) * chunk)]


def direct_reduce(_fabric: Fabric, block: Block) -> list[Step]:
    """Single-step mesh all-reduce: every rank writes its whole buffer to every other rank, two copies per read."""
    others = block.size - 1
    return [_step(1, _to_all(block, 1.0), others + (others + 1) // 2), _step(1, [], block.size + 1.0)]


def cube_gather(fabric: Fabric, block: Block) -> list[Step] | None:
    """Recursive doubling over the torus as a hypercube, then between the cores of each chip."""
    steps = cube_steps(fabric, block)
    if steps is None:
        return None
    chunk = 1.0 / block.size
    doubling = [_step(1, _scaled(pairs, 2**t * chunk), 2 * 2**t * chunk) for t, pairs in enumerate(steps)]
    return [*doubling, *_chip_gather(block)]


def cube_scatter(fabric: Fabric, block: Block) -> list[Step] | None:
    """Reduction between the cores of each chip, then recursive halving over the torus as a hypercube."""
    steps = cube_steps(fabric, block)
    if steps is None:
        return None
    chunk, local, share = 1.0 / block.size, block.num_local, 1.0 / block.num_local
    halving = [_step(1, _scaled(pairs, 2**t * chunk), 3 * 2**t * chunk) for t, pairs in enumerate(steps)]
    return [*_if(local - 1, _step(1, _between_cores(block, share), (local + 1) * share)), *reversed(halving)]


def _ring_steps(orders: Sequence[Ranks], reduce: bool) -> list[Step]:
    size = orders[0].shape[1]
    piece = 1.0 / (size * len(orders))
    transfers = [(order, np.roll(order, -1, axis=1), piece) for order in orders]
    chunk = 1.0 / size
    if not reduce:
        return [_step(size - 1, transfers, 2 * chunk)]
    return [_step(1, transfers, 2 * chunk), _step(size - 2, transfers, 3 * chunk), _step(1, [], 3 * chunk)]


def _onward(pairs: Iterable[tuple[Ranks, Ranks]], size: float) -> list[Transfer]:
    return [(primary, np.roll(primary, -1, axis=1), size) for primary, _ in pairs]


def _pouch(pairs: Iterable[tuple[Ranks, Ranks]], size: float, back: bool = False) -> list[Transfer]:
    return [(second, first, size) if back else (first, second, size) for first, second in pairs]


def _chip_gather(block: Block) -> list[Step]:
    share, others = 1.0 / block.num_local, block.num_local - 1
    return _if(others, _step(1, _between_cores(block, share), ((others + 1) // 2 + others) * share))


def _to_chips(block: Block, size: float) -> list[Transfer]:
    return [(block.ranks, np.roll(block.ranks, -hop, axis=2), size) for hop in range(1, block.num_chips)]


def _between_cores(block: Block, size: float) -> list[Transfer]:
    return [(block.ranks, np.roll(block.ranks, -hop, axis=1), size) for hop in range(1, block.num_local)]


def _to_all(block: Block, size: float) -> list[Transfer]:
    """All pairs; the cores of another chip are served by equals, so one transfer stands for all of them."""
    return [*_to_chips(block, size * block.num_local), *_between_cores(block, size)]


def _scaled(pairs: Iterable[tuple[Ranks, Ranks]], size: float) -> list[Transfer]:
    return [(source, target, size) for source, target in pairs]


def _step(count: float, transfers: Sequence[Transfer], touches: float) -> Step:
    sources = [source.reshape(-1) for source, _, _ in transfers]
    targets = [target.reshape(-1) for _, target, _ in transfers]
    sizes = [np.full(source.size, size) for source, _, size in transfers]
    if not transfers:
        none = np.zeros(0, dtype=np.int64)
        return Step(count, none, none, np.zeros(0), touches)
    return Step(count, np.concatenate(sources), np.concatenate(targets), np.concatenate(sizes), touches)


def _if(wanted: int, step: Step) -> list[Step]:
    return [step] if wanted else []
