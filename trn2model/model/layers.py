"""Operators of each layer kind, and of the embedding and the head, as one rank executes them in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric, attention, elementwise, moe
from trn2model.model.operators import Operator
from trn2model.model.parameters import kv_heads_per_rank
from trn2model.specs.model import Attention, LatentAttention, Layer, Mlp, ModelSpec, Moe
from trn2model.specs.numerics import dtype


@dataclass(frozen=True, slots=True)
class RankWork:
    """What one rank computes in one pass: tokens, contexts and its share of the model; plan axes are the last ones."""

    tokens: Numeric  # rows of its GEMMs
    shard_tokens: Numeric  # rows of operators outside the tensor-parallel region, fewer under sequence parallelism
    sequences: Numeric  # of this rank
    query_tokens: Numeric  # per sequence and whole; cp ranks share the pairs
    context_tokens: Numeric  # per sequence and whole, those of the queries included
    tp: Numeric  # tensor-parallel ranks
    cp: Numeric  # context-parallel ranks
    ep: Numeric  # expert-parallel ranks
    routed_tokens: Numeric  # that come to a rank's experts from all expert-parallel ranks together
    element_bytes: float  # of an activation [B]
    kv_element_bytes: float  # of the KV cache [B]
    moe_imbalance: Numeric  # load of the busiest expert over the mean, >= 1 [1]
    flash: bool  # scores stay on the chip
    decode: bool  # reads its context from the KV cache and absorbs the MLA projections
    query_block: float  # queries per tile of the attention kernel [token]
    span_tokens: Numeric = 0.0  # above the queries: the mean of many passes over a stretch of that many positions
    expert_padding: float = 0.0  # 1: one read of an expert per routed token; 0: one for all its tokens [1]
    lanes: float = 1.0  # of the vector engines, one per row of scores in decode
    lane_padding: float = 0.0  # 1: a row of scores waits for idle lanes too; 0: no [1]
    kv_expansion: float = 0.0  # 1: keys and values are read once per query head; 0: per group [1]
    dense_experts: float = 0.0  # 1: every expert runs on every token of a prompt; 0: on its own [1]
    expert_sum_passes: float = 1.0  # over the outputs of all experts, where they all run [1]


def activation_bytes(precision: str) -> float:
    """Bytes per element of activations between operators: fp8 matmuls keep 16-bit activations [B]."""
    return max(dtype(precision).storage_bytes, dtype("bf16").storage_bytes)


def expert_imbalance(spec: Moe, work: RankWork) -> Numeric:
    """Load of the busiest expert over the mean, as far as routing can take it."""
    return moe.bounded_imbalance(work.moe_imbalance, float(spec.num_experts), float(spec.experts_per_token))


_DENSE_WEIGHTS: Final = frozenset({"lm_head", "router"})


def sparse_operators(operators: Sequence[Operator], pattern: str) -> NDArray[np.bool_]:
    """Which GEMMs run on weights thinned by a sparsity pattern: those of the layers, router and head apart."""
    return np.array([pattern != "dense" and o.weighted and o.name not in _DENSE_WEIGHTS for o in operators])


def layer_operators(layer: Layer, model: ModelSpec, work: RankWork) -> list[Operator]:
    """Operators of one layer in execution order."""
    hidden = float(model.hidden_size)
    mixer = _latent_attention if layer.attention.latent is not None else _grouped_attention
    operators = [_norm("attention_norm", hidden, model, work), *mixer(layer.attention, hidden, work)]
    operators += [_residual("attention_residual", hidden, work), _norm("mlp_norm", hidden, model, work)]
    if isinstance(layer.feed_forward, Moe):
        operators += _moe(layer.feed_forward, hidden, work)
    else:
        operators += _mlp(layer.feed_forward, hidden, work)
    operators.append(_residual("mlp_residual", hidden, work))
    return operators


def embedding_operators(model: ModelSpec, work: RankWork) -> list[Operator]:
    """Operators of the first stage before its layers."""
    moved = 2.0 * work.tokens * model.hidden_size * work.element_bytes
    return [Operator("embedding", stream_bytes=moved)]


def head_operators(model: ModelSpec, work: RankWork, head_tokens: Numeric, loss: bool) -> list[Operator]:
    """Operators of the last stage after its layers."""
    hidden = float(model.hidden_size)
    vocab = model.vocab_size / work.tp
    logits = head_tokens * vocab
    last = Operator(
        "loss" if loss else "sampling",
        vector_elements=elementwise.cross_entropy_vector_elements(head_tokens, vocab),
        scalar_elements=elementwise.softmax_scalar_elements(head_tokens, vocab),
        elementwise_bytes=2.0 * logits * work.element_bytes,
        backward_vector_elements=elementwise.cross_entropy_vector_elements(head_tokens, vocab),
        backward_scalar_elements=elementwise.softmax_scalar_elements(head_tokens, vocab),
    )
    return [
        _norm("final_norm", hidden, model, work),
        Operator("lm_head", head_tokens, hidden, vocab, 1.0, weighted=True),
        last,
    ]


def _norm(name: str, width: float, model: ModelSpec, work: RankWork) -> Operator:
    rows, kind = work.shard_tokens, float(model.layer_norm)
    return Operator(
        name,
        vector_elements=elementwise.norm_vector_elements(rows, width, kind),
        elementwise_bytes=2.0 * rows * width * work.element_bytes,
        backward_vector_elements=elementwise.norm_vector_elements(rows, width, kind, 1.0),
    )


def _residual(name: str, hidden: float, work: RankWork) -> Operator:
    rows = work.shard_tokens
    elements = elementwise.residual_vector_elements(rows, hidden)
    return Operator(
        name,
        vector_elements=elements,
        elementwise_bytes=3.0 * rows * hidden * work.element_bytes,
        backward_vector_elements=elements,
    )


def _rotary(elements: Numeric, work: RankWork) -> Operator:
    vector = elementwise.rotary_vector_elements(work.tokens, elements)
    return Operator(
        "rotary",
        vector_elements=vector,
        elementwise_bytes=2.0 * work.tokens * elements * work.element_bytes,
        backward_vector_elements=vector,
    )


def _qk_norm(elements: Numeric, work: RankWork) -> Operator:
    return Operator(
        "qk_norm",
        vector_elements=elementwise.norm_vector_elements(work.tokens, elements),
        elementwise_bytes=2.0 * work.tokens * elements * work.element_bytes,
        backward_vector_elements=elementwise.norm_vector_elements(work.tokens, elements, 0.0, 1.0),
    )


def _grouped_attention(spec: Attention, hidden: float, work: RankWork) -> list[Operator]:
    heads = spec.num_heads / work.tp
    kv_heads = kv_heads_per_rank(spec, work.tp)
    value_size = float(spec.value_head_size or spec.head_size)
    gate = heads * value_size * spec.output_gate
    columns = (heads + kv_heads) * spec.head_size + kv_heads * value_size + gate
    rotated = (heads + kv_heads) * spec.head_size
    operators = [Operator("qkv", work.tokens, hidden, columns, 1.0, weighted=True)]
    if spec.qk_norm:
        operators.append(_qk_norm(rotated, work))
    if spec.rotary:
        operators.append(_rotary(rotated, work))
    operators.append(_attention_core(spec, work, heads, kv_heads, qk_size=spec.head_size, v_size=value_size))
    operators.append(Operator("output", work.tokens, heads * value_size, hidden, 1.0, weighted=True))
    return operators


def _latent_attention(spec: Attention, hidden: float, work: RankWork) -> list[Operator]:
    latent = spec.latent
    if latent is None:
        return []
    heads = spec.num_heads / work.tp
    qk_size = latent.nope_head_size + latent.rope_size
    operators: list[Operator] = []
    query_input = hidden
    if latent.query_rank:
        operators.append(Operator("query_down", work.tokens, hidden, latent.query_rank, 1.0, weighted=True))
        query_input = float(latent.query_rank)
    operators += [
        Operator("query_up", work.tokens, query_input, heads * qk_size, 1.0, weighted=True),
        Operator("kv_down", work.tokens, hidden, latent.latent_size + latent.rope_size, 1.0, weighted=True),
        _rotary((heads + 1.0) * latent.rope_size, work),
    ]
    operators += _latent_core(spec, latent, heads, work)
    operators.append(Operator("output", work.tokens, heads * latent.value_head_size, hidden, 1.0, weighted=True))
    return operators


def _latent_core(spec: Attention, latent: LatentAttention, heads: Numeric, work: RankWork) -> list[Operator]:
    if not work.decode:
        columns = heads * (latent.nope_head_size + latent.value_head_size)
        qk_size = latent.nope_head_size + latent.rope_size
        return [
            Operator("kv_up", work.tokens, latent.latent_size, columns, 1.0, weighted=True),
            _attention_core(spec, work, heads, heads, qk_size=qk_size, v_size=latent.value_head_size),
        ]
    absorbed = latent.latent_size + latent.rope_size
    return [
        Operator("absorb_query", work.tokens, latent.nope_head_size, latent.latent_size, heads, weighted=True),
        _attention_core(spec, work, heads, 1.0, qk_size=absorbed, v_size=latent.latent_size),
        Operator("absorb_value", work.tokens, latent.latent_size, latent.value_head_size, heads, weighted=True),
    ]


def _attention_core(
    spec: Attention, work: RankWork, heads: Numeric, kv_heads: Numeric, *, qk_size: float, v_size: float
) -> Operator:
    visible = _visible_tokens(spec, work)
    causal = work.query_tokens * visible
    fused = work.flash or work.decode
    pairs = (causal if fused else work.query_tokens * work.context_tokens) * work.sequences / work.cp
    scores = 0.0 if fused else 4.0 * pairs * heads * work.element_bytes
    width = qk_size + (v_size if spec.latent is None else 0.0)
    read = _read_heads(spec, heads, kv_heads, work) * width
    cached = _cache_read(spec, visible, read, work) if work.decode else 0.0
    stream = 0.0 if work.decode else _flash_stream(spec, work, heads, kv_heads, qk_size=qk_size, v_size=v_size)
    busy = _lane_factor(work.sequences * work.query_tokens * heads, work) if work.decode else 1.0
    return Operator(
        "attention",
        attention_flop=attention.attention_flop(pairs, heads, qk_size, v_size),
        vector_elements=busy * attention.attention_vector_elements(pairs, heads),
        scalar_elements=busy * attention.attention_exponentials(pairs, heads),
        stream_bytes=stream + scores,
        kv_bytes=cached,
        backward_flop_ratio=2.5 if work.flash else 2.0,
        backward_vector_elements=attention.attention_vector_elements(pairs, heads),
        backward_scalar_elements=attention.attention_exponentials(pairs, heads) if work.flash else 0.0,
    )


def _read_heads(spec: Attention, heads: Numeric, kv_heads: Numeric, work: RankWork) -> Numeric:
    """Key/value heads read: without a grouped kernel every query head gets a copy, except for a single sequence."""
    if spec.latent is not None:
        return kv_heads
    return kv_heads + work.kv_expansion * (heads - kv_heads) * np.greater(work.sequences, 1.0)


def _visible_tokens(spec: Attention, work: RankWork) -> Numeric:
    """Tokens that a query sees, in the mean over the stretch of positions that the pass stands for."""
    stretch = np.maximum(work.span_tokens, work.query_tokens)
    end = work.context_tokens + (stretch - work.query_tokens) / 2.0
    return attention.attention_pairs(stretch, end, float(spec.window)) / stretch


def _cache_read(spec: Attention, visible: Numeric, elements_per_token: Numeric, work: RankWork) -> Numeric:
    """The queries of a step share one read of what the last of them sees."""
    per_token = elements_per_token * work.kv_element_bytes
    read = attention.decode_kv_bytes(visible + work.query_tokens / 2.0, float(spec.window), per_token)
    return work.sequences * read / work.cp


def _flash_stream(
    spec: Attention, work: RankWork, heads: Numeric, kv_heads: Numeric, *, qk_size: float, v_size: float
) -> Numeric:
    return work.sequences * attention.flash_hbm_bytes(
        work.query_tokens / work.cp,
        work.context_tokens,
        float(spec.window),
        heads,
        kv_heads,
        qk_size,
        v_size,
        work.element_bytes,
        work.query_block,
    )


def _lane_factor(rows: Numeric, work: RankWork) -> Numeric:
    """Elements that the lanes pass, idle ones included, over those that are wanted."""
    padded = np.ceil(rows / work.lanes) * work.lanes / rows
    return 1.0 + work.lane_padding * (padded - 1.0)


def _feed_forward(
    prefix: str, work: RankWork, rows: Numeric, hidden: float, *, width: Numeric, count: Numeric, gated: bool
) -> list[Operator]:
    inner = rows * width * count
    kind = float(gated)
    up, matrices = ("gate_up", 2.0) if gated else ("up", 1.0)
    return [
        Operator(f"{prefix}{up}", rows, hidden, width * matrices, count, weighted=True),
        Operator(
            f"{prefix}activation",
            vector_elements=elementwise.activation_vector_elements(inner, 1.0, kind),
            scalar_elements=elementwise.activation_scalar_elements(inner, 1.0, kind),
            elementwise_bytes=(2.0 + kind) * inner * work.element_bytes,
            backward_vector_elements=elementwise.activation_vector_elements(inner, 1.0, kind, 1.0),
            backward_scalar_elements=elementwise.activation_scalar_elements(inner, 1.0, kind, 1.0),
        ),
        Operator(f"{prefix}down", rows, width, hidden, count, weighted=True),
    ]


def _mlp(spec: Mlp, hidden: float, work: RankWork) -> list[Operator]:
    return _feed_forward("", work, work.tokens, hidden, width=spec.ffn_size / work.tp, count=1.0, gated=spec.gated)


def _moe(spec: Moe, hidden: float, work: RankWork) -> list[Operator]:
    routed = work.shard_tokens
    experts = float(spec.num_experts)
    operators = [
        Operator("router", routed, hidden, experts, 1.0, weighted=True),
        Operator(
            "route",
            vector_elements=elementwise.router_vector_elements(routed, experts, float(spec.experts_per_token)),
            scalar_elements=elementwise.softmax_scalar_elements(routed, experts),
            elementwise_bytes=2.0 * routed * experts * work.element_bytes,
            backward_vector_elements=elementwise.softmax_vector_elements(routed, experts),
        ),
    ]
    gathered = work.routed_tokens
    rows = moe.tokens_per_expert(gathered, experts, float(spec.experts_per_token), work.moe_imbalance)
    rows = rows + work.dense_experts * np.maximum(gathered - rows, 0.0)
    local = experts / work.ep
    distinct = moe.distinct_experts(experts, float(spec.experts_per_token), gathered)
    routed_copies = np.minimum(experts, gathered * spec.experts_per_token)
    touched = (distinct + work.expert_padding * (routed_copies - distinct)) / work.ep
    busy = np.clip(touched, 1.0, local)
    width = spec.ffn_size / work.tp
    expert = _feed_forward("expert_", work, rows * local / busy, hidden, width=width, count=busy, gated=spec.gated)
    operators += [replace(operator, gathered=work.decode and operator.weighted) for operator in expert]
    summed = work.tokens * spec.experts_per_token
    summed = summed + work.dense_experts * np.maximum(work.expert_sum_passes * gathered * local - summed, 0.0)
    combined = elementwise.residual_vector_elements(summed, hidden)
    operators.append(
        Operator(
            "combine",
            vector_elements=combined,
            elementwise_bytes=(combined + work.tokens * hidden) * work.element_bytes,
            backward_vector_elements=combined,
        )
    )
    if spec.shared_ffn_size:
        width = spec.shared_ffn_size / work.tp
        operators += _feed_forward("shared_", work, work.tokens, hidden, width=width, count=1.0, gated=spec.gated)
    return operators
