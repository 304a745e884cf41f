"""Parameters, KV cache and FLOP against counts made another way, and the rules of sharding."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trn2model.model.flop import (
    attention_flop_per_token,
    forward_attention_flop,
    forward_flop,
    forward_flop_per_token,
    weight_flop_per_token,
)
from trn2model.model.kv_cache import kv_bytes, kv_bytes_per_token, kv_elements_per_token, kv_replication
from trn2model.model.parameters import (
    kv_heads_per_rank,
    layer_matrices,
    layer_parameters,
    model_parameters,
    rank_parameters,
)
from trn2model.specs.model import Attention, LatentAttention, Layer, Mlp, ModelSpec, Moe, load_model, model_names

Shapes = list[tuple[int, ...]]

sizes = st.integers(1, 48)
flags = st.booleans()


@st.composite
def attentions(draw: st.DrawFn) -> Attention:
    kv_heads = draw(st.integers(1, 6))
    latent = draw(st.none() | st.builds(LatentAttention, st.integers(0, 9), sizes, sizes, sizes, sizes))
    group = draw(st.integers(1, 4))
    return Attention(
        num_heads=kv_heads * (1 if latent else group),
        num_kv_heads=kv_heads,
        head_size=draw(sizes),
        window=draw(st.sampled_from([0, 5, 128])),
        qkv_bias=draw(flags),
        output_bias=draw(flags),
        qk_norm=draw(flags) if latent is None else False,
        sinks=draw(flags),
        latent=latent,
        value_head_size=draw(st.integers(0, 9)),
        output_gate=draw(flags) if latent is None else False,
        qk_norm_full=draw(flags),
    )


@st.composite
def feed_forwards(draw: st.DrawFn) -> Mlp | Moe:
    if draw(flags):
        return Mlp(draw(sizes), gated=draw(flags), bias=draw(flags))
    experts = draw(st.integers(1, 8))
    return Moe(
        num_experts=experts,
        experts_per_token=draw(st.integers(1, experts)),
        ffn_size=draw(sizes),
        gated=draw(flags),
        bias=draw(flags),
        shared_ffn_size=draw(st.integers(0, 9)),
        router_bias=draw(flags),
        shared_gate=draw(flags),
    )


@st.composite
def models(draw: st.DrawFn) -> ModelSpec:
    kinds = draw(st.lists(st.tuples(attentions(), feed_forwards(), st.integers(1, 4)), min_size=1, max_size=3))
    extra = draw(st.lists(st.integers(0, len(kinds) - 1), max_size=5))
    return ModelSpec(
        name="drawn",
        hidden_size=draw(sizes),
        vocab_size=draw(sizes),
        layer_kinds=tuple(Layer(f"kind {i}", *kind) for i, kind in enumerate(kinds)),
        layer_sequence=(*range(len(kinds)), *extra),
        tied_embeddings=draw(flags),
        learned_positions=draw(st.integers(0, 9)),
        layer_norm=draw(flags),
        norm_bias=draw(flags),
        lm_head_bias=draw(flags),
    )


def tensors(model: ModelSpec, layer: Layer, visited: bool = False) -> Shapes:
    """Shapes of all tensors of a layer, as a checkpoint lists them; of its experts only those one token visits."""
    hidden, spec = model.hidden_size, layer.attention
    shapes: Shapes = [(hidden,)] * (layer.num_norms * (2 if model.layer_norm and model.norm_bias else 1))
    shapes += latent_tensors(hidden, spec, spec.latent) if spec.latent else grouped_tensors(hidden, spec)
    shapes += [(spec.num_heads,)] if spec.sinks else []
    shapes += [(hidden,)] if spec.output_bias else []
    block = layer.feed_forward
    if isinstance(block, Mlp):
        return shapes + ffn_tensors(hidden, block.ffn_size, block.gated, block.bias)
    experts = block.experts_per_token if visited else block.num_experts
    shapes += ffn_tensors(hidden, block.ffn_size, block.gated, block.bias) * experts
    shapes += ffn_tensors(hidden, block.shared_ffn_size, block.gated, bias=False)
    shapes += [(block.num_experts, hidden)]
    shapes += [(block.num_experts,)] if block.router_bias else []
    return shapes + ([(1, hidden)] if block.shared_gate else [])


def grouped_tensors(hidden: int, spec: Attention) -> Shapes:
    value = spec.value_head_size or spec.head_size
    widths = [spec.num_heads * spec.head_size, spec.num_kv_heads * spec.head_size, spec.num_kv_heads * value]
    shapes: Shapes = []
    shapes += [(width, hidden) for width in widths]
    shapes += [(width,) for width in widths] if spec.qkv_bias else []
    shapes += [(spec.num_heads * value, hidden)] if spec.output_gate else []
    if spec.qk_norm:
        shapes += [(widths[0],), (widths[1],)] if spec.qk_norm_full else [(spec.head_size,)] * 2
    return [*shapes, (hidden, spec.num_heads * value)]


def latent_tensors(hidden: int, spec: Attention, latent: LatentAttention) -> Shapes:
    heads, rank = spec.num_heads, latent.query_rank
    query = heads * (latent.nope_head_size + latent.rope_size)
    shapes: Shapes = [(rank, hidden), (rank,), (query, rank)] if rank else [(query, hidden)]
    shapes += [(latent.latent_size + latent.rope_size, hidden), (latent.latent_size,)]
    shapes += [(heads * (latent.nope_head_size + latent.value_head_size), latent.latent_size)]
    if spec.qkv_bias:
        shapes += [(latent.latent_size + latent.rope_size,), (rank,)]
    return [*shapes, (hidden, heads * latent.value_head_size)]


def ffn_tensors(hidden: int, width: int, gated: bool, bias: bool) -> Shapes:
    inputs = 2 if gated else 1
    shapes: Shapes = [*[(width, hidden)] * inputs, (hidden, width)]
    return shapes + ([(width,)] * inputs + [(hidden,)] if bias else [])


def elements(shapes: Shapes, matrices: bool = False) -> int:
    return sum(prod(shape) for shape in shapes if len(shape) > 1 or not matrices)


def checkpoint(model: ModelSpec, visited: bool = False, matrices: bool = False) -> int:
    """Elements of a whole checkpoint."""
    layers = [tensors(model, model.layer_kinds[kind], visited) for kind in model.layer_sequence]
    return sum(elements(shapes, matrices) for shapes in layers)


@given(models())
def test_counts_equal_the_sum_over_a_checkpoint(model: ModelSpec) -> None:
    hidden, vocab = model.hidden_size, model.vocab_size
    outside = vocab * hidden * (1 if model.tied_embeddings else 2) + model.learned_positions * hidden
    outside += hidden * (2 if model.layer_norm and model.norm_bias else 1) + vocab * model.lm_head_bias
    counted = model_parameters(model)
    assert counted.total == outside + checkpoint(model)
    assert counted.active == pytest.approx(outside + checkpoint(model, visited=True), rel=1e-12)
    parts = counted.embedding + counted.position_embedding + sum(counted.layers) + counted.final_norm + counted.lm_head
    assert counted.total == parts
    for layer in model.layer_kinds:
        assert layer_parameters(layer, model).total == elements(tensors(model, layer))
        assert layer_matrices(layer, model).total == elements(tensors(model, layer), matrices=True)


@given(models(), st.integers(0, 300))
def test_flop_of_a_token_equals_the_sum_over_its_matrices(model: ModelSpec, context: int) -> None:
    matrices = checkpoint(model, visited=True, matrices=True) + model.vocab_size * model.hidden_size
    assert weight_flop_per_token(model) == pytest.approx(2 * matrices, rel=1e-12)
    attention = 0
    for kind in model.layer_sequence:
        spec = model.layer_kinds[kind].attention
        seen = min(context, spec.window) if spec.window else context
        value = spec.value_head_size or spec.head_size
        widths = (spec.head_size, value)
        if spec.latent:
            widths = (spec.latent.nope_head_size + spec.latent.rope_size, spec.latent.value_head_size)
        attention += 2 * seen * spec.num_heads * sum(widths)
    assert forward_flop_per_token(model, context) == pytest.approx(2 * matrices + attention, rel=1e-12)


@given(attentions(), st.integers(1, 400), st.integers(1, 3))
def test_causal_flop_is_the_sum_over_tokens_less_half_the_diagonal(
    attention: Attention, length: int, sequences: int
) -> None:
    model = ModelSpec("one", 8, 8, (Layer("block", attention, Mlp(8)),), (0,))
    pair = attention_flop_per_token(replace(attention, window=0), 1)
    window = attention.window or length
    exact = sum(min(position + 1, window) for position in range(length)) - min(length, window) / 2
    assert forward_attention_flop(model, sequences, length) == pytest.approx(sequences * exact * pair, rel=1e-12)
    weights = sequences * length * weight_flop_per_token(model)
    assert forward_flop(model, sequences, length) == pytest.approx(weights + sequences * exact * pair, rel=1e-12)


degrees = st.sampled_from([1, 2, 4, 8, 16, 32, 64])


@given(models(), degrees, degrees, degrees)
def test_whole_parts_are_not_divided_and_split_parts_are(model: ModelSpec, tp: int, ep: int, pp: int) -> None:
    held = rank_parameters(model, tp, ep, pp)
    for row, layer in enumerate(model.layer_kinds):
        parts, spec = layer_parameters(layer, model), layer.attention
        share = 1.0 if spec.latent else float(kv_heads_per_rank(spec, tp)) / spec.num_kv_heads
        split = parts.attention_heads + parts.attention_output + parts.mlp + parts.shared_experts
        whole = parts.attention_latent + parts.router + parts.norms + parts.output_biases
        assert held.dense[row] == pytest.approx(split / tp + share * parts.attention_kv + whole, rel=1e-12)
        assert held.expert[row] == pytest.approx(parts.experts / (ep * tp) + parts.expert_output_biases / ep, rel=1e-12)
    table = model.vocab_size * model.hidden_size
    assert held.dense[-2] == pytest.approx(table / tp + model.learned_positions * model.hidden_size)
    resident = 0 if model.tied_embeddings and pp == 1 else table
    head = (resident + model.vocab_size * model.lm_head_bias) / tp + model_parameters(model).final_norm
    assert held.dense[-1] == pytest.approx(head)
    assert not held.expert[-2:].any()


@given(models(), degrees, degrees)
def test_ep_never_divides_dense_parts(model: ModelSpec, tp: int, ep: int) -> None:
    np.testing.assert_array_equal(rank_parameters(model, tp, ep).dense, rank_parameters(model, tp, 1).dense)
    np.testing.assert_allclose(rank_parameters(model, tp, ep).expert * ep, rank_parameters(model, tp, 1).expert)


@pytest.mark.parametrize("name", model_names())
def test_one_rank_holds_everything_once(name: str) -> None:
    model = load_model(name)
    held = rank_parameters(model, 1.0)
    counts = np.array([*model.layer_counts, 1, 1])
    assert (held.dense + held.expert) @ counts == model_parameters(model).total
    assert (held.dense_matrices <= held.dense).all()
    assert (held.expert_matrices <= held.expert).all()
    router = sum(
        c * layer_matrices(k, model).router for k, c in zip(model.layer_kinds, model.layer_counts, strict=True)
    )
    matrices = checkpoint(model, matrices=True) + (0 if model.tied_embeddings else model.vocab_size * model.hidden_size)
    assert (held.dense_matrices + held.expert_matrices) @ counts == matrices - router


@pytest.mark.parametrize("name", ["llama-3.2-1b", "deepseek-v3", "gpt-oss-120b", "gpt3-175b"])
def test_a_batch_row_equals_the_single_call(name: str) -> None:
    model = load_model(name)
    plans = np.array(list(product([1, 2, 8, 32], [1, 4, 16], [1, 4])), dtype=np.float64)
    batch = rank_parameters(model, *plans.T)
    for index, plan in enumerate(plans):
        single = rank_parameters(model, *plan)
        for many, one in zip(batch, single, strict=True):
            np.testing.assert_allclose(many[:, index], one, rtol=1e-12)
    grid = rank_parameters(model, np.array([[1.0], [8.0]]), np.array([1.0, 2.0, 4.0]))
    assert grid.dense.shape == (len(model.layer_kinds) + 2, 2, 3)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "tp", "per_rank"),
    [
        (64, 8, 1, 8),
        (64, 8, 4, 2),
        (64, 8, 8, 1),
        (64, 8, 16, 1),
        (64, 8, 64, 1),
        (48, 6, 4, 12),
        (24, 6, 8, 3),
        (32, 32, 8, 4),
    ],
)
def test_kv_heads_per_rank(heads: int, kv_heads: int, tp: int, per_rank: int) -> None:
    spec = Attention(heads, kv_heads, 128)
    assert kv_heads_per_rank(spec, tp) == per_rank
    assert kv_replication(spec, tp) == tp * per_rank / kv_heads


def test_the_latent_cache_is_held_by_every_rank() -> None:
    model = load_model("deepseek-v3")
    spec = model.layer_kinds[0].attention
    np.testing.assert_array_equal(kv_replication(spec, np.array([1.0, 8.0, 64.0])), [1.0, 8.0, 64.0])
    assert kv_bytes_per_token(model, 2.0, tp=64) == kv_bytes_per_token(model, 2.0)


def test_keys_and_values_of_different_widths() -> None:
    assert kv_elements_per_token(Attention(64, 4, 192, value_head_size=128)) == 4 * (192 + 128)


@given(models(), st.integers(1, 4000), degrees)
def test_kv_cache_grows_and_is_never_lost_by_sharding(model: ModelSpec, tokens: int, tp: int) -> None:
    whole = kv_bytes(model, tokens, 2.0)
    assert whole <= kv_bytes(model, tokens + 1, 2.0)
    assert tp * kv_bytes(model, tokens, 2.0, tp) >= whole * (1 - 1e-12)
    assert kv_bytes(model, tokens, 1.0) == pytest.approx(whole / 2)
    lengths = np.array([1.0, tokens])
    np.testing.assert_allclose(np.asarray(kv_bytes(model, lengths, 2.0, tp))[1], kv_bytes(model, tokens, 2.0, tp))
