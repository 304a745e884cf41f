"""Cost of collectives: a table of straight lines per group shape, the least of which is the time.

The loads behind a line are routed once per (fabric, operation, shape) and kept; a batch of plans only looks them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError
from trn2model.formulas import Numeric, collectives
from trn2model.network.algorithms import Algorithm
from trn2model.network.placement import Dims, GroupDims, Placement, split_groups
from trn2model.network.ways import ALGORITHMS, Stage, Way, ways
from trn2model.specs.profile import LinkConstants
from trn2model.specs.topology import Fabric

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class CollectiveCost(NamedTuple):
    """Cost of one call, arrays of the broadcast of message and groups.

    `algorithm` indexes ``ALGORITHMS``. `link_time` is how long the busiest link is occupied at its full rate,
    `mean_link_time` the mean over all links of a domain.
    """

    time: Numeric
    algorithm: Ints
    busbw: Numeric
    link_time: Numeric
    mean_link_time: Numeric


class Lines(NamedTuple):
    """Ways of running a collective as lines over the message size, shape (ways,)."""

    algorithm: Ints
    fixed: Floats  # [s]
    slope: Floats  # [s/B]
    link: Floats  # busiest link's occupation [s/B]
    mean_link: Floats  # mean over links [s/B]
    ways: tuple[Way, ...]
    size: int
    bus_factor: float
    pairs: tuple[tuple[float, float], ...]  # fixed and slope of each way

    def times(self, message_bytes: Numeric) -> Floats:
        """Time of every way, along the last axis [s]."""
        return np.asarray(collectives.line_time(self.fixed, self.slope, np.asarray(message_bytes)[..., None]))

    def best(self, message_bytes: float) -> int:
        """Index of the way that takes the least time."""
        return int(np.argmin(self.times(message_bytes)))

    def way(self, message_bytes: float) -> Way:
        """Way that takes the least time, for a group that has any."""
        return self.ways[self.best(message_bytes)]


def collective_cost(
    fabric: Fabric,
    op: str,
    message_bytes: Numeric,
    groups: GroupDims,
    *,
    constants: LinkConstants,
    algorithm: str = "auto",
) -> CollectiveCost:
    r"""Time of a collective on all groups of some axes at once, by the cheapest algorithm.

    .. math:: t = \min_a \left(\alpha_a + \beta_a m\right)

    Parameters
    ----------
    fabric : Fabric
        Links and levels.
    op : str
        all_reduce, all_gather, reduce_scatter, all_to_all or permute.
    message_bytes : Numeric, shape (...)
        Size column of nccom-test, :math:`m`. [B]
    groups : GroupDims
        Where the groups sit; arrays broadcast with the message.
    constants : LinkConstants
        Rates and latencies of the profile.
    algorithm : str
        A name of ``ALGORITHMS``, or auto for the cheapest.

    Returns
    -------
    CollectiveCost
        A group of one costs nothing.

    Raises
    ------
    InvalidInputError
        Unknown operation, or an algorithm that does not run on a group of this shape.
    """
    if groups.strides.ndim == 1:
        key = _key(groups.strides.tolist(), groups.sizes.tolist())
        ranks = int(groups.num_ranks)
        return _single(lines(fabric, op, key, ranks, constants=constants, algorithm=algorithm), message_bytes)
    rows, inverse = _unique_rows(groups)
    width = groups.strides.shape[-1]
    keys = [(_key(row[:width], row[width : 2 * width]), row[-1]) for row in rows]
    tables = [lines(fabric, op, key, ranks, constants=constants, algorithm=algorithm) for key, ranks in keys]
    return _batch(tables, inverse, message_bytes)


@lru_cache(maxsize=16384)
def lines(
    fabric: Fabric, op: str, dims: Dims, num_ranks: int, *, constants: LinkConstants, algorithm: str = "auto"
) -> Lines:
    """Table of lines for one group shape.

    Raises InvalidInputError (unknown operation, or an algorithm that does not run on a group of this shape).
    """
    size = int(np.prod([extent for _, extent in dims], dtype=np.int64))
    found = ways(fabric, op, dims, num_ranks)
    names = sorted({way.algorithm for way in found}, key=ALGORITHMS.index)
    if size > 1 and algorithm != "auto":
        if algorithm not in names:
            allowed = "auto or, for this group, " + ", ".join(names)
            raise InvalidInputError("algorithm", algorithm, allowed, "choose another algorithm or group")
        found = tuple(way for way in found if way.algorithm == algorithm)
    if constants.ring_collectives:
        found = tuple(way for way in found if _is_ring(way)) or found
    if size == 1:
        zero = np.zeros(1)
        return Lines(np.zeros(1, dtype=np.int64), zero, zero, zero, zero, (), 1, 0.0, ((0.0, 0.0),))
    table = np.array([_price(fabric, way, constants) for way in found])
    index = np.array([ALGORITHMS.index(way.algorithm) for way in found], dtype=np.int64)
    kept = [row for row in range(len(found)) if not _beaten(table, index, row)]
    fixed, slope, link, mean_link = table[kept].T.copy()
    left, pairs = tuple(found[row] for row in kept), tuple(zip(fixed.tolist(), slope.tolist(), strict=True))
    return Lines(index[kept], fixed, slope, link, mean_link, left, size, float(bus_factor(op, float(size))), pairs)


def bus_factor(op: str, size: Numeric) -> Numeric:
    """Bytes per byte of the message that nccom-test's bus bandwidth counts."""
    if op == "permute":
        return np.where(np.asarray(size) > 1, 1.0, 0.0)
    factor = collectives.gather_bus_factor(np.asarray(size, dtype=np.float64))
    return 2.0 * factor if op == "all_reduce" else factor


def link_bytes(
    fabric: Fabric,
    op: str,
    dims: Dims,
    num_ranks: int,
    *,
    message_bytes: float,
    constants: LinkConstants,
    algorithm: str = "auto",
    domain: int = 0,
) -> Floats:
    """Bytes that one call puts on every directed link of a domain [B].

    Raises InvalidInputError (unknown operation, or an algorithm that does not run on a group of this shape).
    """
    table = lines(fabric, op, dims, num_ranks, constants=constants, algorithm=algorithm)
    if not table.ways or domain * fabric.ranks_per_domain >= num_ranks:
        return np.zeros(fabric.num_links)
    return message_bytes * way_link_bytes(table.way(message_bytes), domain)


def way_link_bytes(way: Way, domain: int = 0) -> Floats:
    """Bytes on every link of a domain per byte of the message."""
    total = np.zeros(way.stages[0][0].links.shape[2])
    for stage, share in way.stages:
        total += share * (stage.count @ stage.links[:, min(domain, stage.links.shape[1] - 1)])
    return total


def stage_price(fabric: Fabric, stage: Stage, constants: LinkConstants) -> tuple[Floats, Floats]:
    """Latency and time per byte of each step of a stage."""
    latencies = np.array([constants.chip_latency, constants.link_latency, constants.nic_latency])
    fixed = np.where(stage.uses, latencies, 0.0).max(axis=1)
    rates = fabric.link_bandwidth * constants.link_efficiency
    link = (stage.links / rates).max(axis=(1, 2)) if fabric.num_links else np.zeros(len(stage.count))
    chip_rate = constants.chip_bandwidth * fabric.cores_per_rank
    hbm_rate = fabric.hbm_bandwidth * constants.collective_hbm_efficiency
    nic = np.zeros(len(stage.count))
    if fabric.nic_bandwidth > 0:
        nic = stage.nic / (fabric.nic_bandwidth * constants.nic_efficiency)
    slope = collectives.busiest_resource_time(link, stage.chip / chip_rate, stage.hbm / hbm_rate, nic)
    return fixed, np.asarray(slope)


def _price(fabric: Fabric, way: Way, constants: LinkConstants) -> tuple[float, float, float, float]:
    fixed, slope, totals = constants.collective_time, 0.0, np.zeros((1, fabric.num_links))
    for stage, share in way.stages:
        latency, per_byte = stage_price(fabric, stage, constants)
        fixed += float(stage.count @ latency)
        slope += share * float(stage.count @ per_byte)
        loads = share * np.tensordot(stage.count, stage.links, axes=1)
        totals = totals + loads if len(totals) == 1 or len(loads) == 1 else totals[: len(loads)] + loads[: len(totals)]
    occupation = totals / fabric.link_bandwidth if fabric.num_links else np.zeros((1, 1))
    return fixed, slope, float(occupation.max()), float(occupation.mean())


def _beaten(table: Floats, index: Ints, row: int) -> bool:
    fixed, slope = table[:, 0], table[:, 1]
    better = (fixed <= fixed[row]) & (slope <= slope[row]) & (index == index[row])
    equal = (fixed == fixed[row]) & (slope == slope[row])
    return bool((better & (~equal | (np.arange(len(table)) < row))).any())


def _is_ring(way: Way) -> bool:
    return all(leg.algorithm is Algorithm.RING for leg in way.legs)


def _key(strides: list[int], sizes: list[int]) -> Dims:
    return tuple(zip(strides, sizes, strict=True))


def _single(table: Lines, message_bytes: Numeric) -> CollectiveCost:
    if np.ndim(message_bytes) == 0:
        return _one(table, float(message_bytes))
    message = np.asarray(message_bytes, dtype=np.float64)
    times = table.times(message)
    best, time = np.argmin(times, axis=-1), times.min(axis=-1)
    busbw = collectives.bus_bandwidth(message, time, table.bus_factor)
    link, mean = table.link[best] * message, table.mean_link[best] * message
    return CollectiveCost(time, table.algorithm[best], busbw, link, mean)


def _one(table: Lines, message: float) -> CollectiveCost:
    """Cost of one call, without the overhead of arrays: an estimate asks for about ten."""
    times = [collectives.line_time(fixed, slope, message) for fixed, slope in table.pairs]
    time = np.float64(min(times))
    best = times.index(time)
    busbw = table.bus_factor * message / time if time > 0 else np.float64(0.0)
    return CollectiveCost(
        time, table.algorithm[best], busbw, table.link[best] * message, table.mean_link[best] * message
    )


def _batch(tables: list[Lines], inverse: Ints, message_bytes: Numeric) -> CollectiveCost:
    width = max(len(table.fixed) for table in tables)
    columns = np.zeros((4, len(tables), width))
    columns[0] = np.inf
    index = np.zeros((len(tables), width), dtype=np.int64)
    for row, table in enumerate(tables):
        ways = len(table.fixed)
        columns[:, row, :ways] = (table.fixed, table.slope, table.link, table.mean_link)
        index[row, :ways] = table.algorithm
    message, rows = np.broadcast_arrays(np.asarray(message_bytes, dtype=np.float64), inverse)
    times = collectives.line_time(columns[0][rows], columns[1][rows], message[..., None])
    best = np.argmin(times, axis=-1)
    time = np.asarray(times).min(axis=-1)
    busbw = collectives.bus_bandwidth(message, time, np.array([table.bus_factor for table in tables])[rows])
    return CollectiveCost(
        time, index[rows, best], busbw, columns[2][rows, best] * message, columns[3][rows, best] * message
    )


def _unique_rows(groups: GroupDims) -> tuple[list[list[int]], Ints]:
    """Distinct rows of strides, sizes and ranks, and which of them each plan has."""
    shape = groups.strides.shape[:-1]
    ranks = np.broadcast_to(groups.num_ranks, shape)[..., None]
    flat = np.concatenate([groups.strides, groups.sizes, ranks], axis=-1).reshape(-1, 2 * groups.strides.shape[-1] + 1)
    key = np.zeros(len(flat), dtype=np.int64)
    for column in flat.T:
        values, code = np.unique(column, return_inverse=True)
        key = np.unique(key * len(values) + code, return_inverse=True)[1]
    first = np.unique(key, return_index=True)[1]
    return flat[first].tolist(), key.reshape(shape)


#: Parts of a group that exchanges gradients or weights.
WHOLE: Final = "whole"
INSIDE: Final = "inside"
ACROSS: Final = "across"


@dataclass(frozen=True, slots=True)
class Network:
    """Fabric, placement and constants of a plan: everything a collective's cost depends on but its payload.

    `zero_group` is the block inside which ZeRO shards: "all" ranks, a "domain" or an "instance".
    """

    fabric: Fabric
    placement: Placement
    constants: LinkConstants
    zero_group: str

    def groups(self, axes: Sequence[str], scope: str = WHOLE) -> GroupDims:
        """Groups of one or several axes, whole or cut at the border of the ZeRO group."""
        whole = self.placement.group_dims(axes)
        if scope == WHOLE or (scope == INSIDE and self.zero_group == "all"):
            return whole
        inside, across = split_groups(whole, self.zero_border)
        return inside if scope == INSIDE else across

    @property
    def zero_border(self) -> int:
        """Ranks of the block inside which ZeRO shards."""
        x, y, _ = self.fabric.shape
        extent = {
            "all": self.fabric.num_ranks,
            "domain": self.fabric.ranks_per_domain,
            "instance": x * y * self.fabric.ranks_per_chip,
        }
        return extent[self.zero_group]

    def cost(self, axes: Sequence[str], op: str, message_bytes: Numeric, scope: str = WHOLE) -> CollectiveCost:
        """Cost of one call over the groups of one or several axes."""
        groups = self.groups(axes, scope)
        return collective_cost(self.fabric, op, message_bytes, groups, constants=self.constants)
