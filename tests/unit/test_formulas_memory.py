"""Memory formulas against sums spelled out tensor by tensor."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.formulas import memory


def test_zero_stages_shard_one_part_after_the_other():
    states = memory.model_state_bytes(1e9, 2.0, 4.0, 12.0, np.array([0.0, 1.0, 2.0, 3.0]), 8.0)
    np.testing.assert_allclose(states.weights, [2e9, 2e9, 2e9, 0.25e9])
    np.testing.assert_allclose(states.gradients, [4e9, 4e9, 0.5e9, 0.5e9])
    np.testing.assert_allclose(states.optimizer, [12e9, 1.5e9, 1.5e9, 1.5e9])


def test_one_shard_is_no_sharding():
    assert memory.model_state_bytes(5.0, 2.0, 4.0, 12.0, 3.0, 1.0) == (10.0, 20.0, 60.0)


def test_tensor_parallelism_leaves_norms_whole():
    assert memory.rank_parameters(8e9, 1e6, 8.0) == 1e9 + 1e6


def test_llama_block_spelled_out():
    """16 bit, no dropout, gated: norm input, QKV input, q k v, context; norm input, MLP input, gate, up, product."""
    h, kv, f, tp = 4096.0, 1024.0, 14336.0, 4.0
    attention = memory.activation_bytes(
        1.0,
        memory.block_whole_bytes(h, 2.0, 0.0),
        memory.attention_divided_bytes(h, kv, kv, h, 2.0),
        tp,
        0.0,
    )
    mlp = memory.activation_bytes(
        1.0, memory.block_whole_bytes(h, 2.0, 0.0), memory.mlp_divided_bytes(f, 1.0, 2.0), tp, 0.0
    )
    assert attention == 2 * (h + h) + 2 * (h + kv + kv + h) / tp
    assert mlp == 2 * (h + h) + 2 * 3 * f / tp


def test_sequence_parallelism_divides_what_tensor_parallelism_leaves():
    plain, parallel = (memory.activation_bytes(100.0, 10.0, 24.0, 8.0, sp) for sp in (0.0, 1.0))
    assert plain == 100 * (10 + 24 / 8)
    assert parallel == 100 * 34 / 8


def test_scores_without_dropout_keep_only_the_softmax():
    assert memory.score_divided_bytes(8.0, 1000.0, 2.0, 0.0) == 8 * 1000 * 2
    assert memory.score_divided_bytes(8.0, 1000.0, 2.0, 1.0) == 8 * 1000 * 5


@pytest.mark.parametrize(("heads", "tp", "held"), [(8, 1, 8), (8, 8, 1), (8, 16, 1), (8, 3, 3), (1, 64, 1)])
def test_a_rank_holds_at_least_one_kv_head(heads, tp, held):
    assert memory.kv_heads_per_rank(heads, tp) == held


def test_the_window_bounds_the_cache():
    full, windowed = (memory.kv_cache_bytes(4.0, 5000.0, w, 10.0, 256.0) for w in (0.0, 128.0))
    assert full == 4 * 10 * 5000 * 256
    assert windowed == 4 * 10 * 128 * 256
    assert memory.kv_cache_bytes(4.0, 5000.0, 1.0, 10.0, 256.0) == 4 * 10 * 256


def test_logits_are_divided_by_the_head():
    assert memory.logits_bytes(10.0, 128256.0, 4.0, 4.0) == 10 * 128256
