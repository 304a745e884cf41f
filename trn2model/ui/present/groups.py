"""Where the groups of an axis sit: which ranks and chips belong to which group, in words and as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.network.placement import group_ranks
from trn2model.estimate.training.step import TrainingEstimate
from trn2model.specs.topology import Fabric

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """All groups of one axis; `members` has shape (groups, ranks), `of_rank` is -1 for an idle rank."""

    axis: str
    members: Ints
    of_rank: Ints
    fabric: Fabric

    @property
    def number(self) -> int:
        """Number of groups."""
        return int(self.members.shape[0])

    @property
    def size(self) -> int:
        """Members of a group."""
        return int(self.members.shape[1])

    def on_chip(self, chip: int) -> tuple[int, ...]:
        """Groups that have ranks on a chip."""
        first = chip * self.fabric.ranks_per_chip
        return tuple(int(group) for group in self.of_rank[first : first + self.fabric.ranks_per_chip] if group >= 0)

    def chips(self, group: int) -> Ints:
        """Chips that a group touches."""
        return np.unique(self.members[group] // self.fabric.ranks_per_chip)

    def extent(self, group: int) -> str:
        """Shape of a group in words."""
        chips = self.chips(group)
        domains = np.unique(chips // self.fabric.chips_per_domain)
        if len(chips) == 1:
            return "1 chip"
        where = self.fabric.coordinates[chips % self.fabric.chips_per_domain]
        sizes = [len(np.unique(column)) for column in where.T]
        shape = " × ".join(f"{size} along {axis}" for axis, size in zip("xyz", sizes, strict=True) if size > 1)
        inside = f" ({shape})" if shape and self.fabric.interconnect == "torus" else ""
        across = "" if len(domains) == 1 else f" in {len(domains)} systems over EFA"
        return f"{len(chips)} chips{inside}{across}"


def axis_groups(estimate: TrainingEstimate, axis: str) -> Groups:
    """Groups of one parallel axis of a single plan."""
    network = estimate.network
    dims = network.placement.group_dims((axis,))
    pairs = tuple(zip(dims.strides.tolist(), dims.sizes.tolist(), strict=True))
    members = group_ranks(pairs, int(dims.num_ranks))
    of_rank = np.full(network.fabric.num_ranks, -1, dtype=np.int64)
    of_rank[members] = np.arange(len(members))[:, None]
    return Groups(axis, members, of_rank, network.fabric)


def runs(numbers: Sequence[int]) -> str:
    """Ascending integers as ranges.

    Examples
    --------
    >>> runs([0, 1, 2, 3, 8]), runs([0, 32, 64, 96])
    ('0–3, 8', '0–96 step 32')
    """
    steps = np.diff(numbers)
    if len(numbers) > 2 and len(set(steps.tolist())) == 1 and steps[0] > 1:
        return f"{numbers[0]}–{numbers[-1]} step {steps[0]}"
    breaks = [0, *(np.flatnonzero(steps != 1) + 1).tolist(), len(numbers)]
    pieces = [(numbers[start], numbers[end - 1]) for start, end in pairwise(breaks)]
    return ", ".join(f"{first}–{last}" if last > first else f"{first}" for first, last in pieces)
