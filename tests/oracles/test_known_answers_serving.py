"""Known answers on KV cache, decode FLOP and experts, read off whole serving estimates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trn2model.model.estimate import ServingEstimate, estimate
from trn2model.specs.scenario import Scenario
from trn2model.units import GIB


def serve(**values: Any) -> ServingEstimate:
    return estimate(Scenario(**{"system": "trn2.48xlarge", "concurrency": 1, "profile": "ideal", **values}), "serve")


def column(result: ServingEstimate, operator: str, quantity: str) -> float:
    """Sum over the layers of a decode operator's quantity on one rank."""
    table, count = result.decode.operators, result.decode.operator_count
    rows = [i for i, name in enumerate(table.names) if name == operator]
    return float(sum(getattr(table, quantity)[i] * count[i] for i in rows))


@pytest.mark.parametrize(("tp", "expected"), [(1, 1_342_177_280), (8, 167_772_160), (16, 167_772_160)])
def test_cache_of_llama_2_70b(tp: int, expected: int) -> None:
    """K16, K17: 4,096 tokens in 16 bits; 8 key/value heads, each held twice at tp 16."""
    result = serve(model="llama-2-70b", tp=tp, input_tokens=4_095, output_tokens=1)
    assert result.memory.parts["kv_cache"] == expected


def test_cache_of_deepseek_v3() -> None:
    """K18: latent 512 + rope 64 over 61 layers, 16 bits."""
    assert serve(model="deepseek-v3", system="trn2-ultraserver", tp=16, ep=16).kv_bytes_per_token == 70_272


def test_cache_of_gpt_oss_120b_with_windows() -> None:
    """K19: half of the layers keep 128 tokens; equal below the window."""
    result = serve(model="gpt-oss-120b", tp=1, input_tokens=65_935, output_tokens=1, kv_dtype="fp8")
    assert result.memory.parts["kv_cache"] / GIB == pytest.approx(1.1341, abs=5e-5)
    short = serve(model="gpt-oss-120b", tp=1, input_tokens=99, output_tokens=1, kv_dtype="fp8")
    assert short.memory.parts["kv_cache"] == 100 * short.kv_bytes_per_token


def test_cache_of_llama_3_1_405b() -> None:
    """K20: 1,024 tokens in 16 bits."""
    result = serve(model="llama-3.1-405b", tp=8, input_tokens=1_023, output_tokens=1)
    assert 8 * result.memory.parts["kv_cache"] / GIB == pytest.approx(0.4922, abs=5e-5)


def test_cache_of_qwen3_4b_with_its_own_head_size() -> None:
    """K21: head size 128, not 2560/32."""
    assert serve(model="qwen3-4b", tp=8).kv_bytes_per_token == 147_456


def test_decode_flop_grow_with_the_context() -> None:
    """K14: 4·hidden·Δcontext·layers for Llama-2-70B from 128 to 3,584 tokens."""
    flop = [
        8 * column(serve(model="llama-2-70b", tp=8, input_tokens=n, output_tokens=2), "attention", "flop")
        for n in (128, 3_584)
    ]
    assert flop[1] - flop[0] == pytest.approx(9_059_696_640, rel=1e-12)


def test_attention_flop_per_context_token() -> None:
    """K43: 4·heads·head_size per layer of Llama-3.1-70B."""
    flop = [
        8 * column(serve(model="llama-3.1-70b", tp=8, input_tokens=n, output_tokens=2), "attention", "flop")
        for n in (1_000, 1_001)
    ]
    assert (flop[1] - flop[0]) / 80 == pytest.approx(32_768, rel=1e-9)


@pytest.mark.parametrize(("batch", "experts"), [(1, 2.0), (8, 7.20), (64, 8.0)])
def test_distinct_experts_of_mixtral(batch: int, experts: float) -> None:
    """K34: E(1 − (1 − k/E)^B) experts are read, here as FLOP-free bytes of their down projections."""
    result = serve(model="mixtral-8x7b", tp=8, concurrency=batch)
    weights = 14_336 / 8 * 4_096 * 2
    read = column(result, "expert_down", "hbm_bytes") / 32
    rows = batch * 2 / experts
    moved = rows * (14_336 / 8 + 4_096) * 2
    assert read / (weights + moved) == pytest.approx(experts, rel=2e-3)


def test_the_cache_is_read_once_per_step() -> None:
    """Decode reads the bytes of K16's rule: context × bytes per token, shared by the ranks that split the heads."""
    result = serve(model="llama-2-70b", tp=8, input_tokens=4_000, output_tokens=2)
    context = 4_001
    read = 8 * column(result, "attention", "hbm_bytes")
    assert read == pytest.approx(context * result.kv_bytes_per_token, rel=1e-12)
    assert np.isclose(result.kv_bytes_per_token, 327_680)
