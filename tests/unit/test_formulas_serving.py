"""Closed forms of continuous batching against a walk through the slots of a replica."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trn2model.formulas import serving

TIMES = st.floats(1e-4, 10.0)


def walked_cycle(prefill_time, token_time, output_tokens, concurrency):
    """A full replica in steady state, second by second: each slot prefills once, all of them decode together."""
    clock, decoded = 0.0, 0
    for slot in range(concurrency):
        clock += prefill_time
        share = (output_tokens - 1) // concurrency + (slot < (output_tokens - 1) % concurrency)
        for _ in range(share):
            clock += token_time
            decoded += 1
    assert decoded == output_tokens - 1
    return clock


@given(TIMES, TIMES, st.integers(1, 60), st.integers(1, 20))
def test_a_cycle_prefills_every_slot_once_and_decodes_one_request(prefill, token, output, concurrency):
    cycle = serving.request_cycle_time(prefill, prefill, token, output, concurrency, 1.0, 0.0)
    assert cycle == pytest.approx(walked_cycle(prefill, token, output, concurrency), rel=1e-9)


@given(TIMES, TIMES, st.integers(1, 10_000), st.integers(1, 512), st.floats(1, 64), st.floats(0, 1))
def test_a_request_is_never_faster_than_alone_and_stalls_only_add(prefill, token, output, running, prompts, overlap):
    alone = prefill + (output - 1) * token
    in_turn = serving.request_cycle_time(prefill, prefill, token, output, running, prompts, 0.0)
    mixed = serving.request_cycle_time(prefill, prefill, token, output, running, prompts, overlap)
    assert alone * (1 - 1e-12) <= mixed <= in_turn * (1 + 1e-12)
    assert serving.stalled_token_time(mixed, prefill, token, output) >= token * (1 - 1e-9)
    single = serving.request_cycle_time(prefill, prefill, token, output, 1.0, 1.0, 0.0)
    assert single == pytest.approx(alone, rel=1e-12)
    assert serving.stalled_token_time(single, prefill, token, output) == pytest.approx(token, rel=1e-6)


@given(TIMES, TIMES, st.integers(2, 5000), st.integers(1, 512))
def test_stalled_tokens_and_prefill_make_up_the_whole_request(prefill, token, output, running):
    cycle = serving.request_cycle_time(prefill, prefill, token, output, running, 1.0, 0.0)
    stalled = serving.stalled_token_time(cycle, prefill, token, output)
    assert prefill + (output - 1) * stalled == pytest.approx(cycle, rel=1e-9)


@given(TIMES, TIMES, st.integers(2, 5000), st.integers(1, 512), st.integers(2, 64))
def test_passes_of_others_stall_a_request_while_it_decodes(prefill, token, output, running, stages):
    interval, decode = prefill / stages, (output - 1) * token
    cycle = serving.request_cycle_time(prefill, interval, token, output, running, 1.0, 0.0)
    stalls = interval * (running - 1) * (1.0 - (prefill - interval) / (cycle - interval))
    assert cycle == pytest.approx(prefill + decode + stalls, rel=1e-6)
    assert cycle >= max(prefill + decode, interval * running + decode) * (1 - 1e-9)
    assert cycle <= serving.request_cycle_time(prefill, prefill, token, output, running, 1.0, 0.0) * (1 + 1e-9)


def test_phases_that_hide_behind_each_other_leave_the_longer_one():
    assert serving.request_cycle_time(1.0, 1.0, 0.1, 11.0, 8.0, 1.0, 1.0) == pytest.approx(8.0)
    assert serving.request_cycle_time(1.0, 1.0, 1.0, 11.0, 8.0, 1.0, 1.0) == pytest.approx(11.0)


def test_the_slower_side_of_separate_replicas_sets_the_rate():
    rate = serving.separate_request_rate(2.0, 0.01, 101.0, 16.0, 1.0, np.array([1.0, 2.0, 100.0]), 1.0)
    assert rate == pytest.approx([0.5, 1.0, 16.0])
    assert serving.separate_request_rate(2.0, 0.01, 1.0, 16.0, 1.0, 3.0, 1.0) == pytest.approx(1.5)
