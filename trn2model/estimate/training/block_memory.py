"""HBM of the transformer blocks alone, as papers state it: without embedding, head, logits, buffers and reserve."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from trn2model.estimate.model.states import parameter_shares, training_optimizer
from trn2model.estimate.network.plan_network import plan_network
from trn2model.estimate.rank.stages import stage_table
from trn2model.estimate.summary import scalar
from trn2model.estimate.training.adapters import adapter_parameters
from trn2model.estimate.training.compute import training_work
from trn2model.estimate.training.memory import stage_memory
from trn2model.formulas import Numeric
from trn2model.specs.resolve import Resolved


class BlockMemory(NamedTuple):
    """Bytes of one rank of the stage that holds most."""

    states: Numeric
    activations: Numeric


def block_memory(resolved: Resolved) -> BlockMemory:
    """Parameters with gradients and optimizer state, and activations, of the transformer blocks of a rank.

    References
    ----------
    .. [1] korthikanti-2022
    """
    plan, network, work = resolved.plan, plan_network(resolved), training_work(resolved)
    stages = stage_table(resolved.model, plan.pp, plan.interleave)
    counts = stages.counts.copy()
    counts[:, -2:] = 0.0
    blocks = replace(stages, counts=counts)
    shares = parameter_shares(resolved, blocks, adapter_parameters(resolved, work), network)
    parts = stage_memory(resolved, blocks, work, shares, training_optimizer(resolved)).parts
    states = parts["weights"] + parts["gradients"] + parts["optimizer"]
    return BlockMemory(scalar(states.max(axis=0)), scalar(parts["activations"].max(axis=0)))
