"""Bytes on every directed link: dimension order, the shortest way round each ring, ties split in halves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.specs.topology import Fabric

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Routes(NamedTuple):
    """Links of every pair of chips: entries `first[p]` to `first[p + 1]` of pair p = source · chips + target."""

    first: Ints
    link: Ints
    share: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Transfers that run at the same time, repeated `count` times; sizes are per byte of the message.

    `touches` are HBM bytes read and written per participating rank; `network` bytes that each rank sends and
    receives between domains besides the transfers listed.
    """

    count: float
    source: Ints
    target: Ints
    size: Floats
    touches: float
    network: float = 0.0


class StepLoad(NamedTuple):
    """Bytes per message byte of the busiest rank (chip path), chip (HBM, NIC) and of every link."""

    links: Floats  # (domains, links)
    chip: float
    hbm: float
    nic: float


def link_loads(fabric: Fabric, source: Ints, target: Ints, size: Floats) -> Floats:
    """Bytes on each directed link of transfers between chips of the same domain [B]."""
    chips = fabric.chips_per_domain
    domain = source // chips
    num_domains = int(domain.max(initial=0)) + 1
    pair = (source % chips) * chips + target % chips
    table = routes(fabric)
    key, inverse = np.unique(domain * chips * chips + pair, return_inverse=True)
    bytes_of_pair = np.bincount(inverse, weights=size, minlength=len(key))
    pair, domain = key % (chips * chips), key // (chips * chips)
    lengths = table.first[pair + 1] - table.first[pair]
    owner = np.repeat(np.arange(len(key)), lengths)
    entry = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + table.first[pair][owner]
    slot = domain[owner] * fabric.num_links + table.link[entry]
    loads = np.bincount(
        slot, weights=bytes_of_pair[owner] * table.share[entry], minlength=num_domains * fabric.num_links
    )
    return np.asarray(loads, dtype=np.float64).reshape(num_domains, fabric.num_links)


@lru_cache(maxsize=32)
def routes(fabric: Fabric) -> Routes:
    """Route of every ordered pair of chips of a domain."""
    chips = fabric.chips_per_domain
    source, target = np.divmod(np.arange(chips * chips, dtype=np.int64), chips)
    if fabric.interconnect == "switch":
        away = np.flatnonzero(source != target)
        up, down = fabric.link_slot[source[away], 0, 0], fabric.link_slot[target[away], 0, 1]
        pairs, links = np.concatenate([away, away]), np.concatenate([up, down])
        shares = np.ones(len(pairs))
    else:
        pairs, links, shares = _torus_routes(fabric, source, target)
    order = np.argsort(pairs, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(pairs, minlength=chips * chips))]).astype(np.int64)
    return Routes(first, links[order], shares[order])


def _torus_routes(fabric: Fabric, source: Ints, target: Ints) -> tuple[Ints, Ints, Floats]:
    strides = (1, fabric.shape[0], fabric.shape[0] * fabric.shape[1])
    here = source.copy()
    pairs, links, shares = [source[:0]], [source[:0]], [np.zeros(0)]
    for axis, size in enumerate(fabric.shape):
        start, goal = fabric.coordinates[source, axis], fabric.coordinates[target, axis]
        ahead = (goal - start) % size
        up = np.where(2 * ahead < size, 1.0, np.where(2 * ahead == size, 0.5, 0.0))
        if size == 2:
            up = np.where(start == 0, 1.0, 0.0)
        for side, sign, hops, share in ((0, 1, ahead, up), (1, -1, size - ahead, 1.0 - up)):
            for hop in range(size - 1):
                rows = np.flatnonzero((ahead > 0) & (share > 0) & (hops > hop))
                position = (start[rows] + sign * hop) % size
                chip = here[rows] + (position - start[rows]) * strides[axis]
                pairs.append(rows)
                links.append(fabric.link_slot[chip, axis, side])
                shares.append(share[rows])
        here = here + (goal - start) * strides[axis]
    return np.concatenate(pairs), np.concatenate(links), np.concatenate(shares)


def step_load(fabric: Fabric, step: Step, ranks_on_chip: int) -> StepLoad:
    """Busiest resources of one step."""
    ranks, chips = fabric.ranks_per_chip, fabric.chips_per_domain
    source, target = step.source // ranks, step.target // ranks
    links = np.zeros((1, fabric.num_links))
    on_chip = _busiest(step.source, step.target, step.size, source == target)
    crossing = source // chips != target // chips
    network = _busiest(source, target, step.size, crossing)
    inside = (source != target) & ~crossing
    if inside.any():
        links = link_loads(fabric, source[inside], target[inside], step.size[inside])
    return StepLoad(links, on_chip, step.touches * ranks_on_chip, network + step.network * ranks_on_chip)


def _busiest(source: Ints, target: Ints, size: Floats, chosen: NDArray[np.bool_]) -> float:
    if not chosen.any():
        return 0.0
    weights = size[chosen]
    sent = np.bincount(source[chosen], weights=weights)
    received = np.bincount(target[chosen], weights=weights)
    return float(max(sent.max(), received.max()))
