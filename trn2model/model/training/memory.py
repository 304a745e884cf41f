"""HBM of training: saved activations per block, model states, logits and buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric, memory, pipeline
from trn2model.model.activations import MASK_BYTES, saved_bytes
from trn2model.model.calls import kv_shard_bytes
from trn2model.model.layers import RankWork
from trn2model.model.result import MemoryUse, reserve_bytes
from trn2model.model.stages import (
    ParameterShare,
    StageTable,
    fullest_stage,
    model_states,
)
from trn2model.specs.numerics import Optimizer
from trn2model.specs.plan import saved_groups
from trn2model.specs.resolve import Resolved

_FP32_BYTES = 4.0


def activation_bytes_per_block(resolved: Resolved, work: RankWork) -> NDArray[np.float64]:
    """Activations that one microbatch keeps for backward, per block of a stage [B]."""
    model, scenario = resolved.model, resolved.scenario
    kept = saved_groups(scenario.recompute, scenario.saved_operators)
    saved = np.zeros((len(model.layer_kinds) + 2, *resolved.plan.shape))
    for index, layer in enumerate(model.layer_kinds):
        saved[index] = saved_bytes(layer, model, work, scenario.recompute, kept=kept)
    mask = MASK_BYTES if model.dropout else 0.0
    saved[-2] = work.shard_tokens * model.hidden_size * mask
    saved[-1] = 2.0 * work.shard_tokens * model.hidden_size * work.element_bytes
    return saved


def logits_bytes(resolved: Resolved, work: RankWork) -> Numeric:
    """Logits of one microbatch on the last stage: as computed, and their fp32 softmax kept for backward [B]."""
    vocab = float(resolved.model.vocab_size)
    return memory.logits_bytes(work.tokens, vocab, work.tp, work.element_bytes + _FP32_BYTES)


def buffer_bytes(resolved: Resolved, work: RankWork, gathered_layer: NDArray[np.float64]) -> Numeric:
    """Working space: a layer's transient activations, what tp and cp gather, and FSDP's gathered layers [B]."""
    model, scenario, plan = resolved.model, resolved.scenario, resolved.plan
    kept = saved_groups(scenario.recompute, scenario.saved_operators)
    transient: Numeric = np.zeros(plan.shape)
    for kind in model.layer_kinds:
        redone = saved_bytes(kind, model, work, "selective") - saved_bytes(kind, model, work, "selective", kept=kept)
        shards = 2.0 if scenario.context_parallel_method == "ring" else work.cp
        passed = np.where(np.asarray(work.cp) > 1.0, shards * kv_shard_bytes(kind, work), 0.0)
        transient = np.maximum(transient, redone + passed)
    gathered = 2.0 * work.tokens * model.hidden_size * work.element_bytes
    prefetched = gathered_layer * (1.0 + scenario.fsdp_prefetch)
    return transient + gathered + np.where(plan.zero >= 3.0, prefetched, 0.0)


@dataclass(frozen=True, slots=True)
class StageMemory:
    """HBM of a rank of each run of equal stages; arrays have shape (runs, ...)."""

    parts: Mapping[str, NDArray[np.float64]]  # at the peak [B]
    per_microbatch: NDArray[np.float64]  # activations that one microbatch keeps for backward on the whole stage [B]
    in_flight: NDArray[np.float64]  # microbatches kept at the peak [1]
    heaviest: NDArray[np.int64]  # run that takes most, shape (...)
    use: MemoryUse  # of that run


def stage_memory(
    resolved: Resolved, stages: StageTable, work: RankWork, shares: Sequence[ParameterShare], *, adam: Optimizer
) -> StageMemory:
    """HBM of one rank of every stage, and the use of the fullest."""
    plan = resolved.plan
    states = model_states(shares, plan.zero, adam)
    in_flight = _in_flight(resolved, stages)
    per_microbatch = stages.sums(activation_bytes_per_block(resolved, work))
    is_last = stages.counts[:, -1]
    widest = np.max([share.weight_bytes.max(axis=0) for share in shares], axis=0) * plan.pp / resolved.model.num_layers
    shape = is_last.shape
    parts = {
        "weights": states.weights,
        "gradients": states.gradients,
        "optimizer": states.optimizer,
        "activations": per_microbatch * in_flight,
        "logits": is_last * logits_bytes(resolved, work) * _held_logits(resolved),
        "buffers": np.broadcast_to(buffer_bytes(resolved, work, widest), shape),
        "reserve": np.full(shape, reserve_bytes(resolved)),
    }
    use, fullest = fullest_stage(parts, resolved.core.hbm_bytes)
    return StageMemory(parts, per_microbatch, in_flight, fullest, use)


def _held_logits(resolved: Resolved) -> Numeric:
    """Microbatches whose logits wait: all under GPipe; else the last stage goes backward at once."""
    return resolved.plan.num_microbatches if resolved.scenario.pipeline_schedule == "gpipe" else 1.0


def _in_flight(resolved: Resolved, stages: StageTable) -> NDArray[np.float64]:
    """Microbatches whose activations a stage holds at its peak, in units of the whole stage."""
    plan, schedule = resolved.plan, resolved.scenario.pipeline_schedule
    if schedule == "gpipe":
        return np.broadcast_to(plan.num_microbatches, stages.position.shape)
    where = np.zeros_like(stages.position) if schedule == "zb-h1" else stages.position
    return np.asarray(pipeline.in_flight_microbatches(plan.pp, where, plan.interleave, plan.num_microbatches))
