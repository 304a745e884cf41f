"""Where the groups of each parallel axis sit: strides over the ranks, and their shape on the fabric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trn2model.errors import InvalidInputError
from trn2model.specs.topology import Fabric

Dims = tuple[tuple[int, int], ...]
"""Pairs (stride, size) in ranks, innermost first: the members of a group are sums of digit times stride."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupDims:
    """Groups of one or several axes, for one plan or an array of them.

    `strides` and `sizes` have shape (..., k), innermost axis first; `num_ranks` has shape (...): ranks in use.
    All groups of the axes run at the same time.
    """

    strides: NDArray[np.int64]
    sizes: NDArray[np.int64]
    num_ranks: NDArray[np.int64]

    @property
    def size(self) -> NDArray[np.int64]:
        """Members of a group."""
        return np.asarray(np.prod(self.sizes, axis=-1))


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Order of the axes, innermost first, with degree and stride of each; arrays of shape (..., axes)."""

    order: tuple[str, ...]
    degrees: NDArray[np.int64]
    strides: NDArray[np.int64]
    num_ranks: NDArray[np.int64]

    def group_dims(self, axes: Sequence[str]) -> GroupDims:
        """Groups that span some of the axes and hold the others fixed.

        Raises InvalidInputError (an axis is not part of the placement).
        """
        unknown = [name for name in axes if name not in self.order]
        if unknown:
            allowed = "one of " + ", ".join(self.order)
            raise InvalidInputError("axes", unknown[0], allowed, "name axes of the placement")
        index = [i for i, name in enumerate(self.order) if name in axes]
        return GroupDims(self.strides[..., index], self.degrees[..., index], self.num_ranks)


def placement(order: Sequence[str], degrees: Mapping[str, ArrayLike]) -> Placement:
    r"""Placement of the axes: the stride of an axis is the product of the degrees inside it.

    .. math:: s_i = \prod_{j < i} d_j

    Raises InvalidInputError (an axis is named twice or has no degree, or a degree is below 1).

    Examples
    --------
    >>> placement(("tp", "dp"), {"tp": 8, "dp": 4}).group_dims(["dp"]).strides
    array([8])
    """
    if len(set(order)) != len(order) or set(order) != set(degrees):
        raise InvalidInputError("placement", ",".join(order), "each of " + ",".join(degrees), "name every axis once")
    columns = np.broadcast_arrays(*(np.rint(np.asarray(degrees[name], dtype=np.float64)) for name in order))
    table = np.stack(columns, axis=-1).astype(np.int64)
    if (table < 1).any():
        raise InvalidInputError("degrees", int(table.min()), "integers of at least 1", "give every axis a degree")
    products = np.cumprod(table, axis=-1)
    strides = np.ones_like(table)
    strides[..., 1:] = products[..., :-1]
    return Placement(tuple(order), table, strides, np.asarray(products[..., -1]))


def split_groups(groups: GroupDims, border: int) -> tuple[GroupDims, GroupDims]:
    """Groups cut at a border: the members inside one block of consecutive ranks, and equal members of the blocks."""
    strides, sizes = groups.strides, groups.sizes
    room = np.maximum(border // strides, 1)
    inside = np.where(strides * sizes <= border, sizes, np.gcd(sizes, room))
    return (
        GroupDims(strides, inside, groups.num_ranks),
        GroupDims(strides * inside, sizes // inside, groups.num_ranks),
    )


def group_dims(dims: Dims, num_ranks: int) -> GroupDims:
    """Groups of one plan from plain pairs.

    Examples
    --------
    >>> int(group_dims(((1, 4), (16, 2)), 64).size)
    8
    """
    table = np.array(dims, dtype=np.int64).reshape(-1, 2)
    return GroupDims(table[:, 0], table[:, 1], np.asarray(num_ranks, dtype=np.int64))


def merge_dims(dims: Dims) -> Dims:
    """Shortest equal form of a group: sizes of 1 dropped, neighbours joined where the strides follow on.

    Examples
    --------
    >>> merge_dims(((1, 4), (4, 2), (8, 1), (32, 2)))
    ((1, 8), (32, 2))
    """
    merged: list[tuple[int, int]] = []
    for stride, size in dims:
        if size == 1:
            continue
        if merged and merged[-1][0] * merged[-1][1] == stride:
            merged[-1] = (merged[-1][0], merged[-1][1] * size)
        else:
            merged.append((stride, size))
    return tuple(merged)


def group_ranks(dims: Dims, num_ranks: int) -> NDArray[np.int64]:
    """Ranks of every group.

    Examples
    --------
    >>> group_ranks(((2, 2),), 8).tolist()
    [[0, 2], [1, 3], [4, 6], [5, 7]]
    """
    first = np.arange(num_ranks, dtype=np.int64)
    for stride, size in dims:
        first = first[first // stride % size == 0]
    return first[:, None] + member_offsets(dims)


def member_offsets(dims: Dims) -> NDArray[np.int64]:
    """Distance of each member of a group from its first rank.

    Examples
    --------
    >>> member_offsets(((1, 2), (8, 2))).tolist()
    [0, 1, 8, 9]
    """
    offsets = np.zeros(1, dtype=np.int64)
    for stride, size in dims:
        offsets = (offsets[None, :] + stride * np.arange(size, dtype=np.int64)[:, None]).reshape(-1)
    return offsets


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
