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


def test_a_frozen_base_has_weights_but_no_other_states():
    frozen = memory.model_state_bytes(1e9, 2.0, 4.0, 12.0, 0.0, 8.0, 0.01)
    assert tuple(frozen) == pytest.approx((2e9, 4e7, 12e7))


def test_what_is_computed_again_is_not_kept():
    assert memory.block_whole_bytes(10.0, 2.0, 1.0, 0.0, 1.0) == 10 * (2 + 1)
    assert memory.block_whole_bytes(10.0, 2.0, 0.0, 1.0, 0.0) == 10 * 2
    assert memory.mlp_divided_bytes(10.0, 1.0, 2.0, 0.0, 1.0) == 10 * 2
    assert memory.mlp_divided_bytes(10.0, 1.0, 2.0, 1.0, 0.0) == 10 * 2 * 2


def test_one_shard_is_no_sharding():
    assert memory.model_state_bytes(5.0, 2.0, 4.0, 12.0, 3.0, 1.0) == (10.0, 20.0, 60.0)


def test_llama_block_spelled_out():
    """16 bit, no dropout, gated: norm input, QKV input, q k v, context; norm input, MLP input, gate, up, product."""
    h, kv, f, tp = 4096.0, 1024.0, 14336.0, 4.0
    attention = memory.activation_bytes(
        1.0,
        1.0,
        memory.block_whole_bytes(h, 2.0, 0.0),
        memory.attention_divided_bytes(h, kv, kv, h, 2.0),
        tp,
    )
    mlp = memory.activation_bytes(
        1.0, 1.0, memory.block_whole_bytes(h, 2.0, 0.0), memory.mlp_divided_bytes(f, 1.0, 2.0), tp
    )
    assert attention == 2 * (h + h) + 2 * (h + kv + kv + h) / tp
    assert mlp == 2 * (h + h) + 2 * 3 * f / tp


def test_sequence_parallelism_divides_what_tensor_parallelism_leaves():
    plain, parallel = (memory.activation_bytes(100.0, shard, 10.0, 24.0, 8.0) for shard in (100.0, 100.0 / 8.0))
    assert plain == 100 * (10 + 24 / 8)
    assert parallel == 100 * 34 / 8


def test_scores_without_dropout_keep_only_the_softmax():
    assert memory.score_divided_bytes(8.0, 1000.0, 2.0, 0.0) == 8 * 1000 * 2
    assert memory.score_divided_bytes(8.0, 1000.0, 2.0, 1.0) == 8 * 1000 * 5


def test_logits_are_divided_by_the_head():
    assert memory.logits_bytes(10.0, 128256.0, 4.0, 4.0) == 10 * 128256
