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
    """Distinct stages of each plan.

    `counts` has shape (stages, kinds + 2, ...): layers of each kind, then embedding and head (0 or 1).
    `position` is the first place in the pipeline where such a stage stands; short tables repeat their first row.
    `totals` sums the blocks over the whole pipeline.
    """

    counts: NDArray[np.float64]
    position: NDArray[np.float64]
    totals: NDArray[np.float64]


def layers_of_stage(num_layers: int, pp: int, interleave: int) -> list[list[int]]:
    """Indices of the layers that each stage holds.

    Layers are dealt in order to pp·v chunks as evenly as they go; chunks that take one more are the ones after
    the first, so that the ends, which also hold embedding and head, are the last to be heavier.

    Parameters
    ----------
    num_layers : int
        Layers of the model.
    pp : int
        Pipeline stages.
    interleave : int
        Virtual chunks per stage.

    Returns
    -------
    list of list of int
        Layer indices, one list per stage.

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
def distinct_stages(
    layer_sequence: tuple[int, ...], num_kinds: int, pp: int, interleave: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distinct stage compositions and where each first stands.

    Parameters
    ----------
    layer_sequence : tuple of int
        Kind of each layer.
    num_kinds : int
        Number of kinds.
    pp : int
        Pipeline stages.
    interleave : int
        Virtual chunks per stage.

    Returns
    -------
    tuple of NDArray
        Counts of shape (stages, num_kinds + 2) and positions of shape (stages,).
    """
    rows = np.zeros((pp, num_kinds + 2))
    for stage, layers in enumerate(layers_of_stage(len(layer_sequence), pp, interleave)):
        for layer in layers:
            rows[stage, layer_sequence[layer]] += 1.0
    rows[0, num_kinds] = 1.0
    rows[-1, num_kinds + 1] = 1.0
    counts, first = np.unique(rows, axis=0, return_index=True)
    order = np.argsort(first)
    return counts[order], first[order].astype(np.float64)


def stage_table(model: ModelSpec, pp: Numeric, interleave: Numeric) -> StageTable:
    """Distinct stages of every plan of a batch.

    Parameters
    ----------
    model : ModelSpec
        The model.
    pp : Numeric, shape (...)
        Pipeline stages. [1]
    interleave : Numeric, shape (...)
        Virtual chunks per stage. [1]

    Returns
    -------
    StageTable
        One table per distinct (pp, interleave), spread over the plans.
    """
    kinds = len(model.layer_kinds)
    pairs = np.stack(np.broadcast_arrays(np.asarray(pp, float), np.asarray(interleave, float)))
    shape = pairs.shape[1:]
    unique, inverse = np.unique(pairs.reshape(2, -1), axis=1, return_inverse=True)
    tables = [distinct_stages(model.layer_sequence, kinds, int(p), int(v)) for p, v in unique.T]
    depth = max(len(position) for _, position in tables)
    counts = np.stack([_padded(rows, depth) for rows, _ in tables], axis=-1)
    position = np.stack([_padded(where, depth) for _, where in tables], axis=-1)
    totals = np.append(np.bincount(model.layer_sequence, minlength=kinds).astype(float), (1.0, 1.0))
    spread = inverse.reshape(shape)
    return StageTable(
        counts=counts[..., spread],
        position=position[..., spread],
        totals=totals.reshape(-1, *(1,) * len(shape)),
    )


def _padded(rows: NDArray[np.float64], depth: int) -> NDArray[np.float64]:
    return np.concatenate([rows, np.repeat(rows[:1], depth - len(rows), axis=0)])
