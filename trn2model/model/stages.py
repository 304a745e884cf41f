"""Layers of each pipeline stage, and the weights, gradients and optimizer state that its ranks hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric, memory, sparsity
from trn2model.model.parameters import RankParameters, rank_parameters
from trn2model.model.result import MemoryUse, scalar
from trn2model.network.cost import INSIDE, Network
from trn2model.specs import numerics
from trn2model.specs.model import ModelSpec
from trn2model.specs.numerics import Optimizer, optimizer
from trn2model.specs.resolve import Resolved


@dataclass(frozen=True, slots=True)
class StageTable:
    """Runs of equal neighbouring stages of each plan, in the order of the pipeline.

    Short tables of a batch repeat their first row with length 0.
    """

    counts: NDArray[np.float64]  # of each block on a stage: layers of a kind, embedding, head, (runs, blocks, ...)
    position: NDArray[np.float64]  # of the first stage of a run in the pipeline, shape (runs, ...)
    length: NDArray[np.float64]  # stages of a run, shape (runs, ...)
    totals: NDArray[np.float64]  # of each block in the whole pipeline, shape (blocks, ...)

    def sums(self, per_block: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over the blocks of a stage of each run, shape (runs, ...)."""
        return np.asarray((self.counts * per_block).sum(axis=1))


def at_stage(values: NDArray[np.float64], run: NDArray[np.int64]) -> NDArray[np.float64]:
    """Entry of one run of stages per plan; `values` has runs as its first axis and plans as its last."""
    index = np.reshape(run, (1,) * (values.ndim - np.ndim(run)) + np.shape(run))
    return np.asarray(np.take_along_axis(values, index, axis=0)[0])


def fullest_stage(
    parts: Mapping[str, NDArray[np.float64]], capacity_bytes: float
) -> tuple[MemoryUse, NDArray[np.int64]]:
    """HBM of the run of stages that takes most, and which run that is; parts have shape (runs, ...)."""
    used = np.sum(list(parts.values()), axis=0)
    fullest = np.asarray(used.argmax(axis=0))
    taken = {name: scalar(at_stage(part, fullest)) for name, part in parts.items()}
    return MemoryUse(capacity_bytes, scalar(at_stage(used, fullest)), taken), fullest


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


@dataclass(frozen=True, slots=True)
class ParameterShare:
    """Parameters of one rank that the ranks of some axes hold copies of; arrays have shape (runs, ...)."""

    axes: tuple[str, ...]  # whose ranks hold copies
    shards: Numeric  # ranks over which ZeRO spreads the states, shape (...)
    parameters: NDArray[np.float64]  # [1]
    weight_bytes: NDArray[np.float64]  # as stored [B]
    trained: NDArray[np.float64]  # those with gradients and optimizer state: all, or a frozen base's adapters [1]


@dataclass(frozen=True, slots=True)
class ModelStates:
    """HBM of the states of a rank; arrays have shape (runs, ...)."""

    weights: NDArray[np.float64]  # [B]
    gradients: NDArray[np.float64]  # [B]
    optimizer: NDArray[np.float64]  # master copy and moments [B]


def parameter_shares(
    resolved: Resolved,
    stages: StageTable,
    adapters: NDArray[np.float64] | None = None,
    network: Network | None = None,
) -> tuple[ParameterShare, ParameterShare]:
    """Dense and expert parameters of a rank of each stage."""
    plan = resolved.plan
    rank = rank_parameters(resolved.model, plan.tp, plan.ep, plan.pp)
    dense, expert = (stages.sums(part) for part in stored_weight_bytes(resolved, rank))
    counts = [stages.sums(rank.dense), stages.sums(rank.expert)]
    trained = counts
    if adapters is not None and resolved.scenario.lora_rank:
        added = stages.sums(adapters)
        trained = [added, np.zeros_like(added)]
        dense = dense + added * numerics.dtype(resolved.weight_dtype).storage_bytes
        counts = [counts[0] + added, counts[1]]
    axes = (("cp", "ep", "dp"), ("cp", "dp"))
    shards = [plan.cp * plan.ep * plan.dp, plan.cp * plan.dp]
    if network is not None:
        shards = [network.groups(names, INSIDE).size.astype(np.float64) for names in axes]
    dense_share = ParameterShare(axes[0], shards[0], counts[0], dense, trained[0])
    return dense_share, ParameterShare(axes[1], shards[1], counts[1], expert, trained[1])


def training_optimizer(resolved: Resolved) -> Optimizer:
    """Optimizer with the master copy that the stored weights need."""
    adam = optimizer(resolved.scenario.optimizer)
    narrow = numerics.dtype(resolved.weight_dtype).storage_bytes < numerics.dtype("bf16").storage_bytes
    return replace(adam, master_bytes=max(adam.master_bytes, adam.narrow_master_bytes)) if narrow else adam


def stored_weight_bytes(resolved: Resolved, rank: RankParameters) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bytes of the stored weights of each block; a sparsity pattern thins layers, not head or norms [B]."""
    width = numerics.dtype(resolved.weight_dtype).storage_bytes
    saved = width - sparse_weight_width(resolved)
    layers = np.ones(len(rank.dense))
    layers[-2:] = 0.0
    thinned = saved * layers.reshape(-1, *(1,) * (rank.dense.ndim - 1))
    return rank.dense * width - rank.dense_matrices * thinned, rank.expert * width - rank.expert_matrices * thinned


def sparse_weight_width(resolved: Resolved) -> float:
    """Bytes per weight of the dense shape under the scenario's sparsity pattern [B]."""
    pattern = numerics.sparsity(resolved.scenario.sparsity)
    width = numerics.dtype(resolved.weight_dtype).storage_bytes
    return float(sparsity.sparse_weight_bytes(width, pattern.kept, pattern.group, pattern.tag_bytes))


def model_states(shares: Sequence[ParameterShare], zero: Numeric, adam: Optimizer) -> ModelStates:
    """HBM of weights, gradients and optimizer under a ZeRO stage [B]."""
    parts = [
        memory.model_state_bytes(
            share.parameters,
            share.weight_bytes / np.maximum(share.parameters, 1.0),
            adam.gradient_bytes,
            adam.state_bytes,
            zero,
            share.shards,
            share.trained / np.maximum(share.parameters, 1.0),
        )
        for share in shares
    ]
    weights, gradients, states = (np.sum([np.asarray(part[i]) for part in parts], axis=0) for i in range(3))
    return ModelStates(weights, gradients, states)
