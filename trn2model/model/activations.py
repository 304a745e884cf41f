"""Activations of a layer: what one rank holds of them for backward, or while a pass works on it."""

from __future__ import annotations

from collections.abc import Mapping

from trn2model.formulas import Numeric, memory
from trn2model.model.layers import RankWork, expert_imbalance
from trn2model.model.parameters import kv_heads_per_rank, value_size
from trn2model.specs.model import Attention, Layer, Mlp, ModelSpec, Moe
from trn2model.specs.plan import EVERYTHING

MASK_BYTES = 1.0


def saved_bytes(
    layer: Layer, model: ModelSpec, work: RankWork, recompute: str, *, kept: frozenset[str] = EVERYTHING
) -> Numeric:
    r"""Activations of one layer and microbatch that wait for backward on one rank [B].

    For a plain 4h MLP with dropout, 16-bit, without sequence parallelism this is :math:`s b h (10 + 24/t)`, and
    :math:`5 a s^2 b / t` more with an unfused attention kernel.

    References
    ----------
    .. [1] korthikanti-2022
    """
    keep = {group: float(group in kept) for group in EVERYTHING}
    dropout = MASK_BYTES if model.dropout else 0.0
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
