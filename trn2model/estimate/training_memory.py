"""HBM of training: saved activations per block, model states, logits and buffers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.layer import RankWork
from trn2model.estimate.parameters import kv_heads_per_rank
from trn2model.formulas import Numeric, memory
from trn2model.specs.model import Attention, Layer, Mlp, ModelSpec, Moe
from trn2model.specs.resolve import Resolved

_FP32_BYTES = 4.0
_MASK_BYTES = 1.0


def activation_bytes_per_block(resolved: Resolved, work: RankWork) -> NDArray[np.float64]:
    """Activations that one microbatch keeps for backward, per block of a stage.

    Parameters
    ----------
    resolved : Resolved
        The scenario with all names looked up.
    work : RankWork
        What one rank computes for one microbatch.

    Returns
    -------
    NDArray
        Shape (blocks, ...): each layer kind, the embedding, the head. [B]
    """
    model = resolved.model
    saved = np.zeros((len(model.layer_kinds) + 2, *resolved.plan.shape))
    for index, layer in enumerate(model.layer_kinds):
        saved[index] = saved_bytes(layer, model, work, resolved.scenario.recompute)
    mask = _MASK_BYTES if model.dropout else 0.0
    saved[-2] = work.shard_tokens * model.hidden_size * mask
    saved[-1] = 2.0 * work.shard_tokens * model.hidden_size * work.element_bytes
    return saved


def saved_bytes(layer: Layer, model: ModelSpec, work: RankWork, recompute: str) -> Numeric:
    r"""Activations of one layer and microbatch that wait for backward on one rank.

    For a plain 4h MLP with dropout, 16-bit, without sequence parallelism this is
    :math:`s b h (10 + 24/t)`, and :math:`5 a s^2 b / t` more with an unfused attention kernel.

    Parameters
    ----------
    layer : Layer
        The kind of layer.
    model : ModelSpec
        The model it belongs to.
    work : RankWork
        What one rank computes for one microbatch.
    recompute : str
        none, selective (scores are redone) or full (only the layer's input is kept).

    Returns
    -------
    Numeric
        Bytes per rank. [B]

    References
    ----------
    .. [1] korthikanti-2022
    """
    boundary = work.shard_tokens * model.hidden_size * work.element_bytes
    if recompute == "full":
        return boundary
    mask = work.shard_tokens * model.hidden_size * (_MASK_BYTES if model.dropout else 0.0)
    inner = _attention_elements(layer.attention, work) * work.element_bytes
    if not work.flash and recompute == "none":
        pairs = work.sequences * work.query_tokens * work.context_tokens / work.cp
        kept = 2.0 * work.element_bytes + _MASK_BYTES if model.dropout else work.element_bytes
        inner = inner + pairs * layer.attention.num_heads / work.tp * kept
    feed_forward = _feed_forward_elements(layer.feed_forward, model.hidden_size, work) * work.element_bytes
    return 4.0 * boundary + 2.0 * mask + inner + feed_forward


def _attention_elements(spec: Attention, work: RankWork) -> Numeric:
    heads = spec.num_heads / work.tp
    latent = spec.latent
    if latent is not None:
        qk_size = latent.nope_head_size + latent.rope_size
        down = latent.query_rank + latent.latent_size + latent.rope_size
        return work.tokens * (down + heads * (2.0 * qk_size + 2.0 * latent.value_head_size))
    kv_heads = kv_heads_per_rank(spec, work.tp)
    value_size = spec.value_head_size or spec.head_size
    gate = heads * value_size * spec.output_gate
    return work.tokens * ((heads + kv_heads) * (spec.head_size + value_size) + gate)


def _feed_forward_elements(spec: Mlp | Moe, hidden_size: float, work: RankWork) -> Numeric:
    hidden_products = 3.0 if spec.gated else 2.0
    if isinstance(spec, Mlp):
        return work.tokens * hidden_products * spec.ffn_size / work.tp
    copies = work.tokens * spec.experts_per_token * work.moe_imbalance
    routed = copies * (hidden_products * spec.ffn_size / work.tp + 2.0 * hidden_size)
    return routed + work.tokens * hidden_products * spec.shared_ffn_size / work.tp


def logits_bytes(resolved: Resolved, work: RankWork) -> Numeric:
    """Logits of one microbatch on the last stage: as computed, and their fp32 softmax kept for backward.

    Parameters
    ----------
    resolved : Resolved
        The scenario with all names looked up.
    work : RankWork
        What one rank computes for one microbatch.

    Returns
    -------
    Numeric
        Bytes per rank. [B]
    """
    vocab = float(resolved.model.vocab_size)
    return memory.logits_bytes(work.tokens, vocab, work.tp, work.element_bytes + _FP32_BYTES)


def buffer_bytes(resolved: Resolved, work: RankWork, gathered_layer: NDArray[np.float64]) -> Numeric:
    """Working space: a layer's transient activations, gathered sequence-parallel input, FSDP's gathered layers.

    Parameters
    ----------
    resolved : Resolved
        The scenario with all names looked up.
    work : RankWork
        What one rank computes for one microbatch.
    gathered_layer : NDArray
        Weights of the largest layer of a rank before ZeRO-3 shards them. [B]

    Returns
    -------
    Numeric
        Bytes per rank. [B]
    """
    model, scenario = resolved.model, resolved.scenario
    widest = np.max(
        np.stack(
            [np.broadcast_to(saved_bytes(k, model, work, "selective"), resolved.plan.shape) for k in model.layer_kinds]
        ),
        axis=0,
    )
    gathered = 2.0 * work.tokens * model.hidden_size * work.element_bytes
    transient = gathered + (widest if scenario.recompute == "full" else 0.0)
    prefetched = gathered_layer * (1.0 + scenario.fsdp_prefetch)
    return transient + np.where(resolved.plan.zero >= 3.0, prefetched, 0.0)
