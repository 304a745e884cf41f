"""Parameters of an architecture, whole and per rank.

Every count is split by how it is sharded, so that a plan only divides: `tp` splits heads and feed-forward widths,
`ep` splits experts and nothing else, norms and row-parallel biases are held by every rank.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric
from trn2model.specs.model import Attention, LatentAttention, Layer, ModelSpec, Moe

FloatArray = NDArray[np.float64]


class LayerParameters(NamedTuple):
    """Parameters of one layer by the way they are sharded; tp and ep are the tensor and expert degrees.

    `attention_heads` (÷ tp) are the matrices split by query head: queries, MLA's up-projections, output gate,
    attention sinks. `attention_kv` (÷ tp, but never less than one head) are keys and values. `attention_latent`
    (whole on every rank) are MLA's down-projections. `attention_output` and `mlp` are ÷ tp. `experts` are
    ÷ (ep·tp), `expert_output_biases` ÷ ep, `shared_experts` ÷ tp. `router`, `norms` and `output_biases` (of
    row-parallel projections) are whole on every rank.
    """

    attention_heads: float
    attention_kv: float
    attention_latent: float
    attention_output: float
    mlp: float
    experts: float
    expert_output_biases: float
    shared_experts: float
    router: float
    norms: float
    output_biases: float

    @property
    def total(self) -> float:
        """All parameters of the layer."""
        return float(sum(self))


class ModelParameters(NamedTuple):
    """Parameters of a model by part; `layers` has one sum per layer kind, over all layers of that kind."""

    embedding: float
    position_embedding: float
    layers: tuple[float, ...]
    final_norm: float
    lm_head: float
    total: float
    active: float


class RankParameters(NamedTuple):
    """Parameters held by one rank: a row per layer kind (one layer of it), then the embedding, then the head.

    `dense` is replicated over dp·cp·ep, `expert` over dp·cp only. `dense_matrices` and `expert_matrices` are the
    part of them in trained GEMM weights, router and embedding apart: what a sparsity pattern may thin out.
    Further axes are those of the plans.
    """

    dense: FloatArray
    expert: FloatArray
    dense_matrices: FloatArray
    expert_matrices: FloatArray


class _Sharding(NamedTuple):
    """Per row of RankParameters: parts ÷ tp, the KV part, parts held whole, experts ÷ ep·tp and ÷ ep."""

    by_tp: FloatArray
    by_kv: FloatArray
    whole: FloatArray
    by_expert: FloatArray
    by_ep: FloatArray


def layer_parameters(layer: Layer, model: ModelSpec) -> LayerParameters:
    """Parameters of one layer, weights and vectors alike."""
    return _layer_parts(layer, model, vectors=1.0)


def layer_matrices(layer: Layer, model: ModelSpec) -> LayerParameters:
    """Parameters of one layer in matrices that multiply activations: no norms, biases or sinks."""
    return _layer_parts(layer, model, vectors=0.0)


@lru_cache(maxsize=256)
def model_parameters(model: ModelSpec) -> ModelParameters:
    r"""Parameters of a model; a tied output matrix is counted once.

    .. math:: P_{active} = P - \sum_{layers} P_{experts} (1 - k/E)
    """
    embedding = float(model.vocab_size * model.hidden_size)
    positions = float(model.learned_positions * model.hidden_size)
    layers = tuple(
        count * layer_parameters(layer, model).total
        for layer, count in zip(model.layer_kinds, model.layer_counts, strict=True)
    )
    final_norm = _norm_parameters(model)
    lm_head = (0.0 if model.tied_embeddings else embedding) + model.vocab_size * float(model.lm_head_bias)
    total = embedding + positions + sum(layers) + final_norm + lm_head
    active = total - sum(
        count * idle_parameters(layer, layer_parameters(layer, model))
        for layer, count in zip(model.layer_kinds, model.layer_counts, strict=True)
    )
    return ModelParameters(embedding, positions, layers, final_norm, lm_head, total, active)


def rank_parameters(model: ModelSpec, tp: Numeric, ep: Numeric = 1.0, pp: Numeric = 1.0) -> RankParameters:
    r"""Parameters that one rank holds of each layer kind, of the embedding and of the head.

    .. math:: P_{dense} = \frac{P_{tp}}{tp} + P_{kv} \frac{K_{rank}}{K} + P_{whole}, \quad
              P_{expert} = \frac{P_{experts}}{ep\,tp} + \frac{P_{biases}}{ep}

    Notes
    -----
    The vocabulary is divided evenly; a framework that pads it holds at most one row of the embedding more.
    """
    every, matrices = _sharding(model)
    tp, ep, pp = (np.asarray(v, dtype=np.float64) for v in np.broadcast_arrays(tp, ep, pp))
    expand = (slice(None),) + (None,) * tp.ndim
    heads = np.array([[k.attention.num_heads, k.attention.num_kv_heads] for k in model.layer_kinds], dtype=np.float64)
    share = np.ones((len(every.by_kv), *tp.shape))
    kv_heads = heads[:, 1][expand]
    share[:-2] = _kv_heads_per_rank(heads[:, 0][expand], kv_heads, tp) / kv_heads

    def dense(part: _Sharding) -> FloatArray:
        return part.by_tp[expand] / tp + part.by_kv[expand] * share + part.whole[expand]

    def expert(part: _Sharding) -> FloatArray:
        return part.by_expert[expand] / (ep * tp) + part.by_ep[expand] / ep

    resident = dense(every)
    if model.tied_embeddings:
        resident[-1] -= np.where(pp > 1.0, 0.0, model.vocab_size * model.hidden_size / tp)
    return RankParameters(resident, expert(every), dense(matrices), expert(matrices))


def kv_heads_per_rank(attention: Attention, tp: Numeric) -> Numeric:
    r"""Key/value heads that one rank computes and caches.

    .. math:: K_{rank} = K/tp \text{ if } tp \mid K, \quad 1 \text{ if } K \mid tp, \quad H/tp \text{ otherwise}

    Notes
    -----
    Where neither degree divides the other, Neuron gives every query head its own key/value head.

    References
    ----------
    .. [1] neuron-gqa
    """
    if attention.latent is not None:
        return np.ones_like(np.asarray(tp, dtype=np.float64))
    return _kv_heads_per_rank(attention.num_heads, attention.num_kv_heads, np.asarray(tp, dtype=np.float64))


def idle_parameters(layer: Layer, parts: LayerParameters) -> float:
    r"""Parameters of one layer that a token does not visit.

    .. math:: P_{experts} (1 - k/E)
    """
    block = layer.feed_forward
    if not isinstance(block, Moe):
        return 0.0
    routed = parts.experts + parts.expert_output_biases
    return routed * (block.num_experts - block.experts_per_token) / block.num_experts


def value_size(attention: Attention) -> int:
    """Size of one head's value."""
    if attention.latent is not None:
        return attention.latent.value_head_size
    return attention.value_head_size or attention.head_size


def sum_layers(model: ModelSpec, quantity: Callable[[Layer], Numeric]) -> Numeric:
    """Sum of a per-layer quantity over all layers."""
    total: Numeric = 0.0
    for layer, count in zip(model.layer_kinds, model.layer_counts, strict=True):
        total = total + count * quantity(layer)
    return total


def _kv_heads_per_rank(num_heads: Numeric, num_kv_heads: Numeric, tp: FloatArray) -> FloatArray:
    split = num_kv_heads % tp == 0.0
    replicated = tp % num_kv_heads == 0.0
    return np.where(split, num_kv_heads / tp, np.where(replicated, 1.0, num_heads / tp))


def _norm_parameters(model: ModelSpec) -> float:
    return float(model.hidden_size * (2 if model.layer_norm and model.norm_bias else 1))


def _layer_parts(layer: Layer, model: ModelSpec, vectors: float) -> LayerParameters:
    hidden = float(model.hidden_size)
    spec = layer.attention
    mixer = _grouped_parts(spec, hidden, vectors)
    if spec.latent is not None:
        mixer = _latent_parts(spec, spec.latent, hidden, vectors)
    heads, key_value, latent, inner_norms = mixer
    output_biases = vectors * hidden * spec.output_bias
    mlp = experts = expert_biases = shared = router = 0.0
    block = layer.feed_forward
    if isinstance(block, Moe):
        experts = block.num_experts * _feed_forward(hidden, block.ffn_size, block.gated, vectors * block.bias)
        expert_biases = vectors * block.bias * block.num_experts * hidden
        shared = _feed_forward(hidden, block.shared_ffn_size, block.gated, 0.0)
        router = hidden * (block.num_experts + block.shared_gate) + vectors * block.num_experts * block.router_bias
    else:
        mlp = _feed_forward(hidden, block.ffn_size, block.gated, vectors * block.bias)
        output_biases += vectors * hidden * block.bias
    norms = layer.num_norms * vectors * _norm_parameters(model) + inner_norms
    output = spec.num_heads * value_size(spec) * hidden
    return LayerParameters(
        heads, key_value, latent, output, mlp, experts, expert_biases, shared, router, norms, output_biases
    )


def _grouped_parts(spec: Attention, hidden: float, vectors: float) -> tuple[float, float, float, float]:
    rows = hidden + vectors * spec.qkv_bias
    keys, values = spec.head_size, value_size(spec)
    heads = spec.num_heads * (rows * keys + hidden * values * spec.output_gate + vectors * spec.sinks)
    key_value = rows * spec.num_kv_heads * (keys + values)
    full_norm = vectors * keys * (spec.qk_norm and spec.qk_norm_full)
    head_norm = vectors * keys * (spec.qk_norm and not spec.qk_norm_full)
    return heads + spec.num_heads * full_norm, key_value + spec.num_kv_heads * full_norm, 0.0, 2.0 * head_norm


def _latent_parts(
    spec: Attention, latent: LatentAttention, hidden: float, vectors: float
) -> tuple[float, float, float, float]:
    rank = latent.query_rank
    query_width = spec.num_heads * (latent.nope_head_size + latent.rope_size)
    down = rank + latent.latent_size + latent.rope_size
    heads = (rank or hidden) * query_width
    heads += latent.latent_size * spec.num_heads * (latent.nope_head_size + latent.value_head_size)
    heads += vectors * spec.num_heads * spec.sinks
    return heads, 0.0, (hidden + vectors * spec.qkv_bias) * down, vectors * (rank + latent.latent_size)


def _feed_forward(hidden: float, width: float, gated: bool, bias: float) -> float:
    inputs = 2.0 if gated else 1.0
    return (inputs + 1.0) * hidden * width + inputs * width * bias


@lru_cache(maxsize=256)
def _sharding(model: ModelSpec) -> tuple[_Sharding, _Sharding]:
    every = [layer_parameters(layer, model) for layer in model.layer_kinds]
    matrices = [layer_matrices(layer, model)._replace(router=0.0) for layer in model.layer_kinds]
    table = float(model.vocab_size * model.hidden_size)
    positions = float(model.learned_positions * model.hidden_size)
    bias = model.vocab_size * float(model.lm_head_bias)
    head_matrix = 0.0 if model.tied_embeddings else table
    return (
        _stack_rows(every, (table, positions), (table + bias, _norm_parameters(model))),
        _stack_rows(matrices, (0.0, 0.0), (head_matrix, 0.0)),
    )


def _stack_rows(layers: list[LayerParameters], embedding: tuple[float, float], head: tuple[float, float]) -> _Sharding:
    rows = [
        (
            p.attention_heads + p.attention_output + p.mlp + p.shared_experts,
            p.attention_kv,
            p.attention_latent + p.router + p.norms + p.output_biases,
            p.experts,
            p.expert_output_biases,
        )
        for p in layers
    ]
    rows += [(embedding[0], 0.0, embedding[1], 0.0, 0.0), (head[0], 0.0, head[1], 0.0, 0.0)]
    return _Sharding(*np.array(rows, dtype=np.float64).T)
