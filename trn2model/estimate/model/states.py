"""Weights, gradients and optimizer state of a rank, and their exchange between replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.model.parameters import RankParameters, rank_parameters
from trn2model.estimate.network.plan_network import INSIDE, Network
from trn2model.estimate.rank.stages import StageTable
from trn2model.formulas import Numeric, memory, sparsity
from trn2model.specs import numerics
from trn2model.specs.optimizer import Optimizer, optimizer
from trn2model.specs.resolve import Resolved


@dataclass(frozen=True, slots=True)
class ParameterShare:
    """Parameters of one rank that the ranks of some axes hold copies of; arrays have shape (stages, ...).

    ZeRO spreads states over `shards` of those ranks. `trained` parameters have gradients and optimizer state: all
    of them, or the adapters beside a frozen base.
    """

    axes: tuple[str, ...]
    shards: Numeric
    parameters: NDArray[np.float64]
    weight_bytes: NDArray[np.float64]
    trained: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ModelStates:
    """HBM of the three parts per stage, in bytes of shape (stages, ...)."""

    weights: NDArray[np.float64]
    gradients: NDArray[np.float64]
    optimizer: NDArray[np.float64]


def parameter_shares(
    resolved: Resolved,
    stages: StageTable,
    adapters: NDArray[np.float64] | None = None,
    network: Network | None = None,
) -> tuple[ParameterShare, ParameterShare]:
    """Dense and expert parameters of a rank of each stage."""
    plan = resolved.plan
    rank = rank_parameters(resolved.model, plan.tp, plan.ep, plan.pp)
    dense, expert = (_per_stage(stages, part) for part in stored_weight_bytes(resolved, rank))
    counts = [_per_stage(stages, rank.dense), _per_stage(stages, rank.expert)]
    trained = counts
    if adapters is not None and resolved.scenario.lora_rank:
        added = _per_stage(stages, adapters)
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


def _per_stage(stages: StageTable, per_block: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((stages.counts * per_block).sum(axis=1))
