"""HBM of training: saved activations per block, model states, logits and buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.model.parameters import kv_heads_per_rank, value_size
from trn2model.estimate.model.states import ParameterShare, model_states
from trn2model.estimate.network.communication import kv_shard_bytes
from trn2model.estimate.rank.stages import StageTable
from trn2model.estimate.rank.work import RankWork, expert_imbalance
from trn2model.estimate.result import MemoryUse
from trn2model.estimate.summary import reserve_bytes, scalar
from trn2model.formulas import Numeric, memory, pipeline
from trn2model.specs.model import Attention, Layer, Mlp, ModelSpec, Moe
from trn2model.specs.optimizer import Optimizer
from trn2model.specs.recompute import EVERYTHING, saved_groups
from trn2model.specs.resolve import Resolved

_FP32_BYTES = 4.0
_MASK_BYTES = 1.0


def activation_bytes_per_block(resolved: Resolved, work: RankWork) -> NDArray[np.float64]:
    """Activations that one microbatch keeps for backward, per block of a stage [B]."""
    model, scenario = resolved.model, resolved.scenario
    kept = saved_groups(scenario.recompute, scenario.saved_operators)
    saved = np.zeros((len(model.layer_kinds) + 2, *resolved.plan.shape))
    for index, layer in enumerate(model.layer_kinds):
        saved[index] = saved_bytes(layer, model, work, scenario.recompute, kept)
    mask = _MASK_BYTES if model.dropout else 0.0
    saved[-2] = work.shard_tokens * model.hidden_size * mask
    saved[-1] = 2.0 * work.shard_tokens * model.hidden_size * work.element_bytes
    return saved


def saved_bytes(
    layer: Layer, model: ModelSpec, work: RankWork, recompute: str, kept: frozenset[str] = EVERYTHING
) -> Numeric:
    r"""Activations of one layer and microbatch that wait for backward on one rank [B].

    For a plain 4h MLP with dropout, 16-bit, without sequence parallelism this is :math:`s b h (10 + 24/t)`, and
    :math:`5 a s^2 b / t` more with an unfused attention kernel.

    References
    ----------
    .. [1] korthikanti-2022
    """
    keep = {group: float(group in kept) for group in EVERYTHING}
    dropout = _MASK_BYTES if model.dropout else 0.0
    sizes = (float(model.hidden_size), work.element_bytes)
    whole = memory.block_whole_bytes(*sizes, dropout * keep["output"], 1.0, keep["norm"])
    whole = whole + memory.block_whole_bytes(*sizes, dropout * keep["down"], keep["output"], keep["norm"])
    divided = _attention_bytes(layer.attention, work, keep)
    if not work.flash and recompute == "none":
        divided = divided + keep["attention"] * memory.score_divided_bytes(
            layer.attention.num_heads, work.context_tokens, work.element_bytes, float(model.dropout)
        )
    divided = divided + _feed_forward_bytes(layer.feed_forward, model.hidden_size, work, keep)
    return memory.activation_bytes(work.tokens, work.shard_tokens, whole, divided, work.tp)


def _attention_bytes(spec: Attention, work: RankWork, keep: Mapping[str, float]) -> Numeric:
    """Per token, over all tensor-parallel ranks; what each of them holds whole counts tp times."""
    query, context = keep["qkv"], keep["attention"]
    latent = spec.latent
    if latent is not None:
        qk_size = spec.num_heads * (latent.nope_head_size + latent.rope_size)
        values = spec.num_heads * latent.value_head_size
        return memory.attention_divided_bytes(
            query * (qk_size + work.tp * latent.query_rank),
            query * (qk_size + work.tp * (latent.latent_size + latent.rope_size)),
            query * values,
            context * values,
            work.element_bytes,
        )
    kv_heads = kv_heads_per_rank(spec, work.tp) * work.tp
    size = value_size(spec)
    return memory.attention_divided_bytes(
        query * spec.num_heads * (spec.head_size + size * spec.output_gate),
        query * kv_heads * spec.head_size,
        query * kv_heads * size,
        context * spec.num_heads * size,
        work.element_bytes,
    )


def _feed_forward_bytes(spec: Mlp | Moe, hidden_size: float, work: RankWork, keep: Mapping[str, float]) -> Numeric:
    """Per token, over all tensor-parallel ranks; routed copies are whole on each of them."""
    up, down = keep["up"], keep["down"]
    widths = (float(spec.gated), work.element_bytes, up, keep["activation"])
    if isinstance(spec, Mlp):
        return memory.mlp_divided_bytes(spec.ffn_size, *widths)
    copies = spec.experts_per_token * expert_imbalance(spec, work)
    routed = memory.mlp_divided_bytes(copies * spec.ffn_size, *widths)
    routed = routed + work.tp * (up + down) * copies * hidden_size * work.element_bytes
    return routed + memory.mlp_divided_bytes(spec.shared_ffn_size, *widths)


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
        redone = saved_bytes(kind, model, work, "selective") - saved_bytes(kind, model, work, "selective", kept)
        shards = 2.0 if scenario.context_parallel_method == "ring" else work.cp
        passed = np.where(np.asarray(work.cp) > 1.0, shards * kv_shard_bytes(kind, work), 0.0)
        transient = np.maximum(transient, redone + passed)
    gathered = 2.0 * work.tokens * model.hidden_size * work.element_bytes
    prefetched = gathered_layer * (1.0 + scenario.fsdp_prefetch)
    return transient + gathered + np.where(plan.zero >= 3.0, prefetched, 0.0)


@dataclass(frozen=True, slots=True)
class StageMemory:
    """HBM of a rank of each run of equal stages; arrays have shape (runs, ...).

    `parts` are the bytes at the peak by part; `per_microbatch` is what one microbatch keeps for its backward pass on
    the whole stage, and `in_flight` how many of them are kept at the peak.
    """

    parts: Mapping[str, NDArray[np.float64]]
    per_microbatch: NDArray[np.float64]
    in_flight: NDArray[np.float64]
    heaviest: NDArray[np.int64]
    use: MemoryUse


def stage_memory(
    resolved: Resolved, stages: StageTable, work: RankWork, shares: Sequence[ParameterShare], adam: Optimizer
) -> StageMemory:
    """HBM of one rank of every stage, and the use of the fullest."""
    plan = resolved.plan
    states = model_states(shares, plan.zero, adam)
    in_flight = _in_flight(resolved, stages)
    per_microbatch = (stages.counts * activation_bytes_per_block(resolved, work)).sum(axis=1)
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
    used = np.sum(list(parts.values()), axis=0)
    fullest = used.argmax(axis=0)
    taken = {name: scalar(np.take_along_axis(part, fullest[None], axis=0)[0]) for name, part in parts.items()}
    total = scalar(np.take_along_axis(used, fullest[None], axis=0)[0])
    use = MemoryUse(resolved.core.hbm_bytes, total, taken)
    return StageMemory(parts, per_microbatch, in_flight, np.asarray(fullest), use)


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
