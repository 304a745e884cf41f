"""Shape of a group on the fabric: which part of a chip, of each torus axis and of the domains it spans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.network.placement import Dims, member_offsets, merge_dims
from trn2model.specs.topology import Fabric

#: Levels of a group from the inside out.
LEVELS = ("chip", "x", "y", "z", "domain")


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Equal groups inside one domain, each the same ranks of a chip on a block of chips.

    `ranks` has shape (groups, ranks per chip of the group, chips): x varies fastest among the chips.
    `wraps` tells for each axis whether the block spans the whole ring; `contiguous` whether it has no gaps.
    """

    ranks: NDArray[np.int64]
    sizes: tuple[int, int, int]
    wraps: tuple[bool, bool, bool]
    contiguous: bool
    ranks_on_chip: int

    @property
    def num_local(self) -> int:
        """Members of a group on one chip."""
        return int(self.ranks.shape[1])

    @property
    def num_chips(self) -> int:
        """Chips of a group."""
        return int(self.ranks.shape[2])

    @property
    def size(self) -> int:
        """Members of a group."""
        return self.num_local * self.num_chips


def split_levels(fabric: Fabric, dims: Dims, num_ranks: int) -> tuple[Dims, ...] | None:
    """Parts of a group at each level, where it fills the levels evenly."""
    x, y, z = fabric.shape
    ranks = fabric.ranks_per_chip
    rest, levels = merge_dims(dims), []
    for border in (ranks, ranks * x, ranks * x * y, ranks * x * y * z):
        cut = split_at(rest, border, num_ranks)
        if cut is None:
            return None
        inner, rest = cut
        levels.append(inner)
    return (*levels, rest)


def split_at(dims: Dims, border: int, num_ranks: int) -> tuple[Dims, Dims] | None:
    """Parts of a group within and beyond blocks of consecutive ranks.

    Examples
    --------
    >>> split_at(((1, 8),), 4, 64)
    (((1, 4),), ((4, 2),))
    """
    inner: list[tuple[int, int]] = []
    outer: list[tuple[int, int]] = []
    for stride, size in dims:
        if stride >= border:
            if stride % border:
                return None
            outer.append((stride, size))
            continue
        if border % (stride * size) == 0 or (num_ranks <= border and stride * size <= border):
            inner.append((stride, size))
            continue
        here = border // stride
        if border % stride or size % here:
            return None
        inner.append((stride, here))
        outer.append((border, size // here))
    return tuple(inner), tuple(outer)


def block(fabric: Fabric, levels: tuple[Dims, ...], num_ranks: int) -> Block:
    """Groups of a domain that span the given parts of its levels."""
    used = min(num_ranks, fabric.ranks_per_domain)
    inside = tuple(pair for level in levels[:4] for pair in level)
    first = np.arange(used, dtype=np.int64)
    for stride, size in inside:
        first = first[first // stride % size == 0]
    local = member_offsets(levels[0])
    chips = member_offsets(tuple(pair for level in levels[1:4] for pair in level))
    ranks = first[:, None, None] + local[None, :, None] + chips[None, None, :]
    sizes = tuple(int(np.prod([size for _, size in level])) for level in levels[1:4])
    strides = (1, fabric.shape[0], fabric.shape[0] * fabric.shape[1])
    contiguous = all(
        level in ((), ((fabric.ranks_per_chip * stride, size),))
        for level, stride, size in zip(levels[1:4], strides, sizes, strict=True)
    )
    wraps = tuple(size == extent for size, extent in zip(sizes, fabric.shape, strict=True))
    return Block(ranks, sizes, wraps, contiguous, min(fabric.ranks_per_chip, used))  # type: ignore[arg-type]
