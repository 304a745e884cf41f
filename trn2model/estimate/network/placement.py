"""Where the groups of each parallel axis sit: mixed-radix strides of the axes over the ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trn2model.errors import InvalidInputError

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
