"""Weights, gradients and optimizer state of a rank, and their exchange between replicas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.parameters import RankParameters, rank_parameters
from trn2model.estimate.stages import StageTable
from trn2model.formulas import Numeric, memory, sparsity
from trn2model.specs import numerics
from trn2model.specs.optimizer import Optimizer
from trn2model.specs.resolve import Resolved


@dataclass(frozen=True, slots=True)
class ParameterShare:
    """Parameters of one rank that `shards` ranks hold copies of, and their stored weights, shape (stages, ...)."""

    axes: tuple[str, ...]
    shards: Numeric
    parameters: NDArray[np.float64]
    weight_bytes: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ModelStates:
    """HBM of the three parts per stage, in bytes of shape (stages, ...)."""

    weights: NDArray[np.float64]
    gradients: NDArray[np.float64]
    optimizer: NDArray[np.float64]


def parameter_shares(resolved: Resolved, stages: StageTable) -> tuple[ParameterShare, ParameterShare]:
    """Dense and expert parameters of a rank of each stage.

    Parameters
    ----------
    resolved : Resolved
        The scenario with all names looked up.
    stages : StageTable
        Blocks of the distinct stages.

    Returns
    -------
    tuple of ParameterShare
        Dense parameters, replicated over cp, ep and dp; experts, replicated over cp and dp.
    """
    plan = resolved.plan
    rank = rank_parameters(resolved.model, plan.tp, plan.ep, plan.pp)
    dense, expert = stored_weight_bytes(resolved, rank)
    return (
        ParameterShare(
            ("cp", "ep", "dp"), plan.cp * plan.ep * plan.dp, _per_stage(stages, rank.dense), _per_stage(stages, dense)
        ),
        ParameterShare(("cp", "dp"), plan.cp * plan.dp, _per_stage(stages, rank.expert), _per_stage(stages, expert)),
    )


def stored_weight_bytes(resolved: Resolved, rank: RankParameters) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bytes of the stored weights of each block; a sparsity pattern thins the layers' matrices, not head or norms.

    Parameters
    ----------
    resolved : Resolved
        The scenario with all names looked up.
    rank : RankParameters
        Parameters of one rank per block.

    Returns
    -------
    tuple of NDArray
        Dense and expert weights, shape (blocks, ...). [B]
    """
    width = numerics.dtype(resolved.weight_dtype).storage_bytes
    saved = width - sparse_weight_width(resolved)
    layers = np.ones(len(rank.dense))
    layers[-2:] = 0.0
    thinned = saved * layers.reshape(-1, *(1,) * (rank.dense.ndim - 1))
    return rank.dense * width - rank.dense_matrices * thinned, rank.expert * width - rank.expert_matrices * thinned


def sparse_weight_width(resolved: Resolved) -> float:
    """Bytes per weight of the dense shape under the scenario's sparsity pattern.

    Parameters
    ----------
    resolved : Resolved
        The scenario with all names looked up.

    Returns
    -------
    float
        Kept values and their tags; the plain width when dense. [B]
    """
    pattern = numerics.sparsity(resolved.scenario.sparsity)
    width = numerics.dtype(resolved.weight_dtype).storage_bytes
    return float(sparsity.sparse_weight_bytes(width, pattern.kept, pattern.group, pattern.tag_bytes))


def model_states(shares: tuple[ParameterShare, ...], zero: Numeric, optimizer: Optimizer) -> ModelStates:
    """HBM of weights, gradients and optimizer under a ZeRO stage.

    Parameters
    ----------
    shares : tuple of ParameterShare
        Parameters by the group that replicates them.
    zero : Numeric
        ZeRO stage, 0 to 3.
    optimizer : Optimizer
        Bytes per parameter.

    Returns
    -------
    ModelStates
        Sums over the shares, per stage. [B]
    """
    parts = [
        memory.model_state_bytes(
            share.parameters,
            share.weight_bytes / np.maximum(share.parameters, 1.0),
            optimizer.gradient_bytes,
            optimizer.state_bytes,
            zero,
            share.shards,
        )
        for share in shares
    ]
    weights, gradients, states = (np.sum([np.asarray(part[i]) for part in parts], axis=0) for i in range(3))
    return ModelStates(weights, gradients, states)


def _per_stage(stages: StageTable, per_block: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((stages.counts * per_block).sum(axis=1))
