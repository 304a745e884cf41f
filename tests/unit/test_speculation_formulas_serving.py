"""Expected tokens of a verification step against every outcome counted and against thrown dice."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trn2model.formulas import serving


def counted(draft_tokens, acceptance):
    """Mean over all outcomes of the guesses: those before the first refusal count, and one token is always gained."""
    mean = 0.0
    for accepted in product((True, False), repeat=draft_tokens):
        probability = np.prod([acceptance if each else 1.0 - acceptance for each in accepted])
        first_refusal = accepted.index(False) if False in accepted else draft_tokens
        mean += probability * (first_refusal + 1)
    return mean


@given(st.integers(0, 9), st.floats(0.0, 1.0))
def test_expected_tokens_are_the_mean_over_all_outcomes(draft_tokens, acceptance):
    assert serving.expected_tokens(draft_tokens, acceptance) == pytest.approx(
        counted(draft_tokens, acceptance), rel=1e-9
    )


@pytest.mark.parametrize(("draft_tokens", "acceptance"), [(1, 0.5), (4, 0.7), (7, 0.9), (16, 0.97)])
def test_expected_tokens_are_those_of_thrown_dice(draft_tokens, acceptance):
    dice = np.random.default_rng(7).random((200_000, draft_tokens)) < acceptance
    gained = 1 + np.cumprod(dice, axis=1).sum(axis=1)
    assert serving.expected_tokens(draft_tokens, acceptance) == pytest.approx(gained.mean(), rel=0.01)


def test_ends_of_the_range():
    assert serving.expected_tokens(0, 0.9) == pytest.approx(1.0)
    assert serving.expected_tokens(5, 0.0) == 1.0
    assert serving.expected_tokens(5, 1.0) == 6.0
