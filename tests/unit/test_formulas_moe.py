"""Experts against enumeration of every routing, and against sampled routings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from trn2model.formulas.moe import dispatch_bytes, distinct_experts, tokens_per_expert


def enumerated(experts, per_token, tokens):
    """Mean number of distinct experts over all equally likely routings."""
    choices = list(itertools.combinations(range(experts), per_token))
    routings = list(itertools.product(choices, repeat=tokens))
    return np.mean([len(set(itertools.chain(*routing))) for routing in routings])


@pytest.mark.parametrize(("experts", "per_token", "tokens"), [(4, 2, 1), (4, 2, 3), (5, 1, 4), (6, 3, 2), (3, 3, 2)])
def test_distinct_experts_are_the_mean_over_all_routings(experts, per_token, tokens):
    expected = enumerated(experts, per_token, tokens)
    assert distinct_experts(experts, per_token, tokens) == pytest.approx(expected, rel=1e-12)


def test_distinct_experts_of_deepseek_size_match_sampling():
    rng = np.random.default_rng(7)
    drawn = [len(np.unique(rng.permuted(np.tile(np.arange(256), (32, 1)), axis=1)[:, :8])) for _ in range(2000)]
    assert distinct_experts(256.0, 8.0, 32.0) == pytest.approx(np.mean(drawn), rel=0.005)


def test_no_token_needs_no_expert_and_many_need_all():
    assert distinct_experts(8.0, 2.0, 0.0) == 0.0
    assert distinct_experts(8.0, 8.0, 0.0) == 0.0
    assert distinct_experts(8.0, 2.0, 1e6) == 8.0


def test_tokens_per_expert_conserve_the_routed_tokens():
    assert 64 * tokens_per_expert(4096.0, 64.0, 6.0, 1.0) == 4096 * 6


def test_no_expert_gets_a_token_twice():
    assert tokens_per_expert(10.0, 4.0, 2.0, 3.0) == 10.0


def test_dispatch_sends_one_copy_per_expert():
    assert dispatch_bytes(1000.0, 8.0, 7168.0, 2.0, 1.25) == 1.25 * 1000 * 8 * 7168 * 2
