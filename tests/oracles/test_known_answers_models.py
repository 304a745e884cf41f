"""Known answers on parameters, FLOP and KV cache; each id is a line of the reference table."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.model.flop import (
    attention_flop_per_token,
    forward_attention_flop,
    forward_flop,
    forward_flop_per_token,
    model_report,
)
from trn2model.model.kv_cache import kv_bytes, kv_bytes_per_token
from trn2model.model.parameters import layer_parameters, model_parameters, rank_parameters
from trn2model.specs.model import Moe, load_model
from trn2model.units import GIB


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        pytest.param("llama-2-7b", 6738415616, id="K01"),
        pytest.param("llama-3.1-8b", 8030261248, id="K02"),
        pytest.param("llama-3.1-70b", 70553706496, id="K03"),
        pytest.param("llama-3.1-405b", 405853388800, id="K04"),
        pytest.param("mixtral-8x7b", 46702792704, id="K05"),
        pytest.param("llama-3.2-1b", 1235814400, id="K07"),
        pytest.param("llama-2-70b", 68976648192, id="K08"),
    ],
)
def test_parameters(name: str, parameters: int) -> None:
    assert model_parameters(load_model(name)).total == parameters
    assert model_report(load_model(name))["parameters"] == parameters


def test_k06_active_parameters() -> None:
    assert model_parameters(load_model("mixtral-8x7b")).active == 12879925248


def test_k07_a_tied_matrix_is_on_the_first_and_the_last_stage() -> None:
    model = load_model("llama-3.2-1b")
    counts = np.array([*model.layer_counts, 1, 1])
    one_stage, two_stages = (rank_parameters(model, 1, 1, pp).dense @ counts for pp in (1, 2))
    assert one_stage == 1235814400
    assert two_stages - one_stage == 128256 * 2048


@pytest.mark.parametrize("tp", [1, 8, 16, 32])
def test_k08_ranks_together_hold_the_model_whatever_tp(tp: int) -> None:
    model = load_model("llama-2-70b")
    counts = np.array([*model.layer_counts, 1, 1])
    parts = layer_parameters(model.layer_kinds[0], model)
    repeated = 80 * ((tp - 1) * parts.norms + (max(tp, 8) / 8 - 1) * parts.attention_kv) + (tp - 1) * 8192
    assert tp * (rank_parameters(model, tp).dense @ counts) - repeated == pytest.approx(68976648192, rel=1e-15)


def test_k09_gated_mlp() -> None:
    model = load_model("llama-2-7b")
    assert 2 * 4096 * layer_parameters(model.layer_kinds[0], model).mlp == 1108101562368


def test_k10_experts_of_a_token() -> None:
    model = load_model("mixtral-8x7b")
    block = model.layer_kinds[0].feed_forward
    assert isinstance(block, Moe)
    experts = layer_parameters(model.layer_kinds[0], model).experts
    assert 2 * 2048 * experts * block.experts_per_token / block.num_experts == 1443109011456


def test_k11_causal_attention_of_a_training_step() -> None:
    model = load_model("llama-2-7b")
    causal = 3 * forward_attention_flop(model, 4, 8192)
    assert causal / 1e12 == pytest.approx(211.11, abs=0.005)
    every_pair = 3 * 4 * 8192 * 32 * attention_flop_per_token(model.layer_kinds[0].attention, 8192)
    assert every_pair / 1e12 == pytest.approx(422.21, abs=0.005)


def test_k12_training_flop() -> None:
    model = load_model("llama-2-7b")
    assert 3 * forward_flop(model, 4, 8192) / 1e12 == pytest.approx(1510.11, abs=0.005)
    weights = forward_flop(model, 4, 8192) - forward_attention_flop(model, 4, 8192)
    assert 3 * weights / 1e12 == pytest.approx(1299.00, abs=0.005)


def test_k13_the_head_costs_flop_and_the_embedding_none() -> None:
    model = load_model("llama-3.2-1b")
    layers = (
        2 * sum(layer_parameters(k, model).total - layer_parameters(k, model).norms for k in model.layer_kinds) * 16
    )
    assert forward_flop_per_token(model, 0) - layers == 525336576


def test_k14_longer_context_in_decode() -> None:
    model = load_model("llama-2-70b")
    assert forward_flop_per_token(model, 3584) - forward_flop_per_token(model, 128) == 9059696640


def test_k15_selective_recompute_repeats_the_attention() -> None:
    model = load_model("gpt3-175b")
    attention = 96 * attention_flop_per_token(model.layer_kinds[0].attention, 2048)
    assert attention / (3 * forward_flop_per_token(model, 2048)) == pytest.approx(0.0090, abs=5e-5)


def test_k16_kv_cache() -> None:
    assert kv_bytes(load_model("llama-2-70b"), 4096, 2.0) == 1342177280


@pytest.mark.parametrize("tp", [8, 16])
def test_k17_kv_heads_are_repeated_above_their_number(tp: int) -> None:
    assert kv_bytes(load_model("llama-2-70b"), 4096, 2.0, tp) == 167772160


def test_k18_latent_cache() -> None:
    assert kv_bytes_per_token(load_model("deepseek-v3"), 2.0) == 70272


def test_k19_windowed_layers() -> None:
    model = load_model("gpt-oss-120b")
    assert kv_bytes(model, 65936, 1.0) / GIB == pytest.approx(1.1341, abs=5e-5)
    assert kv_bytes(model, 128, 1.0) == 128 * kv_bytes_per_token(model, 1.0)


def test_k20_kv_cache_of_1024_tokens() -> None:
    assert kv_bytes(load_model("llama-3.1-405b"), 1024, 2.0) / GIB == pytest.approx(0.4922, abs=5e-5)


def test_k21_explicit_head_size() -> None:
    assert kv_bytes_per_token(load_model("qwen3-4b"), 2.0) == 147456


def test_k27_norms_are_replicated() -> None:
    model = load_model("gpt3-175b")
    norms = layer_parameters(model.layer_kinds[0], model).norms
    assert 2 * 96 * norms == 9437184
    whole = layer_parameters(model.layer_kinds[0], model).output_biases + norms
    row = rank_parameters(model, np.array([1.0, 8.0])).dense[0]
    assert (row[0] - whole) / (row[1] - whole) == pytest.approx(8.0, rel=1e-12)


def test_k42_heads_times_head_size_need_not_be_the_hidden_size() -> None:
    model = load_model("qwen3-235b-a22b")
    attention = model.layer_kinds[0].attention
    assert (model.hidden_size, attention.num_heads, attention.head_size) == (4096, 64, 128)


def test_k43_attention_flop_per_context_token() -> None:
    attention = load_model("llama-3.1-70b").layer_kinds[0].attention
    assert attention_flop_per_token(attention, 1001) - attention_flop_per_token(attention, 1000) == 32768
