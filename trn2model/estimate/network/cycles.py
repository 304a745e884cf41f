"""Edge-disjoint Hamiltonian cycles over blocks of a torus: the rings that Ring and KangaRing run on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Order = NDArray[np.int64]


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
