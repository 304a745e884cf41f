"""Which layers each pipeline stage holds, and the few stages that differ from one another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric
from trn2model.specs.model import ModelSpec


@dataclass(frozen=True, slots=True)
class StageTable:
    """Runs of equal neighbouring stages of each plan, in the order of the pipeline.

    `counts` has shape (runs, kinds + 2, ...): layers of each kind on a stage, then embedding and head (0 or 1).
    `position` is the place of the run's first stage in the pipeline and `length` its number of stages; short tables
    repeat their first row with length 0. `totals` sums the blocks over the whole pipeline.
    """

    counts: NDArray[np.float64]
    position: NDArray[np.float64]
    length: NDArray[np.float64]
    totals: NDArray[np.float64]


def layers_of_stage(num_layers: int, pp: int, interleave: int) -> list[list[int]]:
    """Indices of the layers that each stage holds.

    Layers are dealt in order to pp·v chunks as evenly as they go; chunks that take one more are the ones after the
    first, so that the ends, which also hold embedding and head, are the last to be heavier.

    Examples
    --------
    >>> max(len(s) for s in layers_of_stage(105, 8, 1))
    14
    """
    chunks = pp * interleave
    base, extra = divmod(num_layers, chunks)
    order = [*range(1, chunks - 1), chunks - 1, 0] if chunks > 1 else [0]
    sizes = [base] * chunks
    for chunk in order[:extra]:
        sizes[chunk] += 1
    stages: list[list[int]] = [[] for _ in range(pp)]
    start = 0
    for chunk, size in enumerate(sizes):
        stages[chunk % pp].extend(range(start, start + size))
        start += size
    return stages


@lru_cache(maxsize=4096)
def stage_runs(
    layer_sequence: tuple[int, ...], num_kinds: int, pp: int, interleave: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Runs of equal neighbouring stages."""
    rows = np.zeros((pp, num_kinds + 2))
    for stage, layers in enumerate(layers_of_stage(len(layer_sequence), pp, interleave)):
        for layer in layers:
            rows[stage, layer_sequence[layer]] += 1.0
    rows[0, num_kinds] = 1.0
    rows[-1, num_kinds + 1] = 1.0
    first = np.flatnonzero(np.append(True, np.any(rows[1:] != rows[:-1], axis=1)))
    return rows[first], first.astype(np.float64), np.diff(np.append(first, pp)).astype(np.float64)


def stage_table(model: ModelSpec, pp: Numeric, interleave: Numeric) -> StageTable:
    """Runs of equal stages of every plan of a batch."""
    kinds = len(model.layer_kinds)
    if np.ndim(pp) == 0 and np.ndim(interleave) == 0:
        return _single_table(model.layer_sequence, kinds, int(pp), int(interleave))
    pairs = np.stack(np.broadcast_arrays(np.asarray(pp, float), np.asarray(interleave, float)))
    shape = pairs.shape[1:]
    unique, inverse = np.unique(pairs.reshape(2, -1), axis=1, return_inverse=True)
    tables = [stage_runs(model.layer_sequence, kinds, int(p), int(v)) for p, v in unique.T]
    depth = max(len(position) for _, position, _ in tables)
    counts = np.stack([_padded(rows, depth) for rows, _, _ in tables], axis=-1)
    position = np.stack([_padded(where, depth) for _, where, _ in tables], axis=-1)
    length = np.stack([np.pad(count, (0, depth - len(count))) for _, _, count in tables], axis=-1)
    totals = _totals(model.layer_sequence, kinds)
    spread = inverse.reshape(shape)
    return StageTable(
        counts=counts[..., spread],
        position=position[..., spread],
        length=length[..., spread],
        totals=totals.reshape(-1, *(1,) * len(shape)),
    )


@lru_cache(maxsize=4096)
def _single_table(layer_sequence: tuple[int, ...], num_kinds: int, pp: int, interleave: int) -> StageTable:
    runs = stage_runs(layer_sequence, num_kinds, pp, interleave)
    return StageTable(*runs, _totals(layer_sequence, num_kinds))


def _totals(layer_sequence: tuple[int, ...], num_kinds: int) -> NDArray[np.float64]:
    return np.append(np.bincount(layer_sequence, minlength=num_kinds).astype(float), (1.0, 1.0))


def _padded(rows: NDArray[np.float64], depth: int) -> NDArray[np.float64]:
    return np.concatenate([rows, np.repeat(rows[:1], depth - len(rows), axis=0)])
