"""Operators of a layer: their FLOP are the model's, whatever the degrees, and their bytes what the kernels move."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trn2model.model.layers import (
    RankWork,
    activation_bytes,
    embedding_operators,
    head_operators,
    layer_operators,
    sparse_operators,
)
from trn2model.model.operators import Operator
from trn2model.specs import catalog

WORK = RankWork(
    tokens=4096.0,
    shard_tokens=4096.0,
    sequences=1.0,
    query_tokens=4096.0,
    context_tokens=4096.0,
    tp=1.0,
    cp=1.0,
    ep=1.0,
    routed_tokens=4096.0,
    element_bytes=2.0,
    kv_element_bytes=2.0,
    moe_imbalance=1.0,
    flash=True,
    decode=False,
    query_block=512.0,
)


def _flop(operators: list[Operator], *names: str) -> float:
    return float(
        sum(
            2.0 * o.num_gemms * o.rows * o.contraction * o.columns + o.attention_flop
            for o in operators
            if not names or o.name in names
        )
    )


def test_gated_mlp_of_llama_2_7b() -> None:
    """K09: one sequence of 4096 tokens, one layer."""
    model = catalog.model("llama-2-7b")
    assert _flop(layer_operators(model.layer_kinds[0], model, WORK), "gate_up", "down") == 1108101562368


def test_experts_of_mixtral() -> None:
    """K10: 2048 tokens, top-2, router left out; spreading experts over ranks changes nothing in sum."""
    model = catalog.model("mixtral-8x7b")
    work = replace(WORK, tokens=2048.0, shard_tokens=2048.0, routed_tokens=2048.0)
    names = ("expert_gate_up", "expert_down")
    assert _flop(layer_operators(model.layer_kinds[0], model, work), *names) == pytest.approx(1443109011456, rel=1e-12)
    for ep in (2.0, 4.0, 8.0):
        shared = _flop(
            layer_operators(model.layer_kinds[0], model, replace(work, ep=ep, routed_tokens=2048.0 * ep)), *names
        )
        assert shared == pytest.approx(1443109011456, rel=1e-12)


def test_lm_head_of_one_token() -> None:
    """K13: the head costs FLOP, the embedding look-up none."""
    model = catalog.model("llama-3.2-1b")
    assert _flop(head_operators(model, WORK, 1.0, loss=True)) == 525336576
    assert _flop(embedding_operators(model, WORK)) == 0


@pytest.mark.parametrize("tp", [2.0, 4.0, 8.0])
def test_tensor_parallel_divides_the_work(tp: float) -> None:
    """Up to the number of KV heads every GEMM and the attention are divided exactly."""
    model = catalog.model("llama-3.1-8b")
    whole = _flop(layer_operators(model.layer_kinds[0], model, WORK))
    share = _flop(layer_operators(model.layer_kinds[0], model, replace(WORK, tp=tp)))
    assert tp * share == pytest.approx(whole, rel=1e-12)


def test_more_ranks_than_kv_heads_replicate_them() -> None:
    """tp 16 on 8 KV heads computes each of them twice."""
    model = catalog.model("llama-3.1-8b")
    columns = {
        tp: next(
            o.columns for o in layer_operators(model.layer_kinds[0], model, replace(WORK, tp=tp)) if o.name == "qkv"
        )
        for tp in (8.0, 16.0)
    }
    assert columns == {8.0: (4 + 2) * 128, 16.0: (2 + 2) * 128}


def test_naive_attention_scores_the_whole_square() -> None:
    """A kernel without a causal shortcut executes twice the FLOP and writes its scores to HBM."""
    model = catalog.model("llama-3.1-8b")
    (flash,) = (o for o in layer_operators(model.layer_kinds[0], model, WORK) if o.name == "attention")
    (naive,) = (
        o for o in layer_operators(model.layer_kinds[0], model, replace(WORK, flash=False)) if o.name == "attention"
    )
    assert naive.attention_flop == pytest.approx(2 * flash.attention_flop, rel=1e-12)
    assert naive.stream_bytes > flash.stream_bytes


@pytest.mark.parametrize(("name", "per_token"), [("llama-3.1-70b", 4096), ("deepseek-v3", 1152)])
def test_decode_reads_the_cache(name: str, per_token: int) -> None:
    """Bytes of keys and values of one layer at tp 1, or of the latent that MLA caches."""
    model = catalog.model(name)
    work = replace(
        WORK,
        tokens=4.0,
        shard_tokens=4.0,
        routed_tokens=4.0,
        sequences=4.0,
        query_tokens=1.0,
        context_tokens=1000.0,
        decode=True,
    )
    (core,) = (o for o in layer_operators(model.layer_kinds[-1], model, work) if o.name == "attention")
    assert core.kv_bytes == pytest.approx(4 * 1000 * per_token, rel=1e-3)
    assert core.stream_bytes == 0


def test_windowed_layers_read_the_window() -> None:
    """gpt-oss: half of the layers see 128 tokens."""
    model = catalog.model("gpt-oss-120b")
    work = replace(
        WORK, tokens=1.0, shard_tokens=1.0, routed_tokens=1.0, query_tokens=1.0, context_tokens=65936.0, decode=True
    )
    reads = {
        kind.attention.window: next(o.kv_bytes for o in layer_operators(kind, model, work) if o.name == "attention")
        for kind in model.layer_kinds
    }
    assert reads[0] / reads[128] == pytest.approx(65936 / 128, rel=1e-2)


def test_sparsity_spares_router_and_head() -> None:
    """Only the layers' weights may be thinned out."""
    model = catalog.model("mixtral-8x7b")
    rows = [*layer_operators(model.layer_kinds[0], model, WORK), *head_operators(model, WORK, 1.0, loss=True)]
    thinned = {row.name for row, sparse in zip(rows, sparse_operators(rows, "4:16"), strict=True) if sparse}
    assert thinned == {"qkv", "output", "expert_gate_up", "expert_down"}
    assert not sparse_operators(rows, "dense").any()


def test_fp8_keeps_16_bit_activations() -> None:
    """Only the matmul inputs are narrow."""
    assert [activation_bytes(p) for p in ("fp8", "bf16", "fp32")] == [2.0, 2.0, 4.0]
