"""Attention counted pair by pair, and the traffic of flash attention block by block."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.formulas.attention import (
    attention_exponentials,
    attention_flop,
    attention_pairs,
    attention_vector_elements,
    decode_kv_bytes,
    flash_hbm_bytes,
)


def counted_pairs(query_tokens, context_tokens, window):
    """Pairs a mask leaves, token by token; the query at position p (from 1) sees p keys."""
    limit = window or context_tokens
    return sum(min(position, limit) for position in range(context_tokens - query_tokens + 1, context_tokens + 1))


@pytest.mark.parametrize("context", [1, 7, 64, 200])
@pytest.mark.parametrize("query_share", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("window", [0, 1, 5, 64, 150, 1000])
def test_pairs_are_the_counted_ones_less_half_a_diagonal(context, query_share, window):
    query = max(1, round(context * query_share))
    growing = min(query, max(0, (window or context) - (context - query)))
    exact = counted_pairs(query, context, window) - growing / 2
    assert attention_pairs(query, context, window) == pytest.approx(exact, rel=1e-12)


def test_pairs_are_the_integral_of_what_each_position_sees():
    x = (np.arange(1_000_000) + 0.5) / 1_000_000
    for query, context, window in ((300.0, 1000.0, 850.0), (10.5, 99.25, 20.75), (5.0, 5.0, 2.0)):
        seen = np.minimum(context - query + x * query, window)
        assert attention_pairs(query, context, window) == pytest.approx(seen.mean() * query, rel=1e-9)


def test_a_whole_sequence_is_half_of_the_unmasked():
    assert attention_pairs(4096.0, 4096.0, 0.0) == 4096**2 / 2


def test_chunks_of_a_prompt_add_up_to_the_prompt():
    ends = np.arange(512.0, 4096.0 + 1, 512.0)
    for window in (0.0, 300.0, 1024.0):
        assert np.sum(attention_pairs(512.0, ends, window)) == pytest.approx(attention_pairs(4096.0, 4096.0, window))


def test_a_decode_step_far_beyond_the_window_keeps_its_precision():
    assert attention_pairs(1.0, 2.0**40, 128.0) == 128.0
    assert attention_pairs(1.0, 2.0**40, 0.0) == 2.0**40 - 0.5


def test_context_parallel_ranks_share_the_pairs():
    """Zigzag halves: rank r of 4 takes blocks r and 7 - r of eight and every rank has as many pairs."""
    ends = np.arange(1.0, 9.0) * 128
    per_block = np.asarray(attention_pairs(128.0, ends, 0.0))
    shares = [per_block[r] + per_block[7 - r] for r in range(4)]
    assert shares == pytest.approx([attention_pairs(1024.0, 1024.0, 0.0) / 4] * 4)


def test_flop_counts_scores_and_context():
    pairs, heads, qk, v = 10.0, 3.0, 192.0, 128.0
    assert attention_flop(pairs, heads, qk, v) == 2 * 10 * 3 * 192 + 2 * 10 * 3 * 128


def test_every_score_has_one_exponential_and_one_comparison():
    assert attention_exponentials(50.0, 8.0) == attention_vector_elements(50.0, 8.0) == 400.0


def test_exponentials_bind_about_as_much_as_matmuls_at_head_size_128():
    """One logical core: 128 lanes x 1.2 GHz x 2 against 166.75 TFLOP/s in 16 bit."""
    pairs = attention_pairs(8192.0, 8192.0, 0.0)
    scalar = attention_exponentials(pairs, 64.0) / (2 * 128 * 1.2e9)
    tensor = attention_flop(pairs, 64.0, 128.0, 128.0) / 166.75e12
    assert scalar / tensor == pytest.approx(1.06, abs=0.01)


@pytest.mark.parametrize(
    ("heads", "query", "context", "batch", "measured"),
    [
        (80.0, 4096.0, 4096.0, 1.0, 9507.6e-6),
        (80.0, 10240.0, 10240.0, 1.0, 39782.3e-6),
        (80.0, 4096.0, 4096.0, 1.0, 7407.4e-6),
        (80.0, 4096.0, 4096.0, 4.0, 34422.1e-6),
        (8.0, 2048.0, 2048.0, 1.0, 539.3e-6),
    ],
)
def test_no_engine_is_slower_than_measured_flash_kernels(heads, query, context, batch, measured):
    """Bf16, head size 128, causal, one logical core (xpu-perf): each engine at its peak stays below."""
    pairs = batch * attention_pairs(query, context, 0.0)
    times = (
        attention_flop(pairs, heads, 128.0, 128.0) / 166.75e12,
        attention_vector_elements(pairs, heads) / (256 * 0.96e9),
        attention_exponentials(pairs, heads) / (256 * 1.2e9),
        batch * flash_hbm_bytes(query, context, 0.0, heads, heads, 128.0, 128.0, 2.0, 2048.0) / 725e9,
    )
    assert max(times) < measured
    assert max(times) > 0.1 * measured


@pytest.mark.parametrize("window", [0, 100, 128, 1000, 10_000])
@pytest.mark.parametrize(("query", "context", "block"), [(1024, 1024, 128), (512, 4096, 256), (768, 768, 768)])
def test_flash_traffic_is_counted_block_by_block(query, context, block, window):
    """Each block of queries streams the keys up to its own last query, from the first that its first query sees."""
    heads, kv_heads, qk, v, width = 8, 2, 192, 128, 2
    ends = range(context, context - query, -block)
    kv = sum(min(end, window + block) if window else end for end in ends)
    expected = width * (qk + v) * (query * heads + kv * kv_heads)
    found = flash_hbm_bytes(query, context, window, heads, kv_heads, qk, v, width, block)
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_part_of_a_block_streams_the_keys_like_a_whole_one():
    reads = [flash_hbm_bytes(q, 1e6, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 128.0) for q in (129.0, 256.0, 257.0)]
    assert reads == pytest.approx([2e6 - 128, 2e6 - 128, 3e6 - 3 * 128], rel=1e-12)


def test_one_block_reads_everything_once():
    once = 2.0 * 256 * (4096 * 32 + 4096 * 8)
    assert flash_hbm_bytes(4096.0, 4096.0, 0.0, 32.0, 8.0, 128.0, 128.0, 2.0, 1e9) == once


def test_decode_reads_the_context_or_the_window():
    context = np.array([100.0, 128.0, 5000.0])
    np.testing.assert_array_equal(decode_kv_bytes(context, 0.0, 10.0), context * 10)
    np.testing.assert_array_equal(decode_kv_bytes(context, 1.0, 10.0), [10.0] * 3)
    np.testing.assert_array_equal(decode_kv_bytes(context, 128.0, 10.0), [1000.0, 1280.0, 1280.0])
