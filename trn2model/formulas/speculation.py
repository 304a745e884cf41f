"""Speculative decoding: how many tokens one verification step yields."""

from __future__ import annotations

import numpy as np

from trn2model.formulas import Numeric


def expected_tokens(draft_tokens: Numeric, acceptance: Numeric) -> Numeric:
    r"""Tokens gained per step when each of k guesses is accepted with probability a until the first refusal.

    .. math:: n = \sum_{i=0}^{k} a^i = \frac{1 - a^{k+1}}{1 - a}, \quad n = k + 1 \text{ at } a = 1

    Parameters
    ----------
    draft_tokens : Numeric, shape (...)
        Guesses per step, :math:`k` >= 0. [token]
    acceptance : Numeric, shape (...)
        Probability that one guess is accepted, :math:`0 \le a \le 1`. [1]

    Returns
    -------
    Numeric, shape (...)
        From 1 to k + 1. [token]

    Notes
    -----
    Validity: independent guesses of equal acceptance.

    References
    ----------
    .. [1] speculative-decoding
    """
    sure = np.equal(acceptance, 1.0)
    ratio = np.where(sure, 0.0, acceptance)
    series = (1.0 - ratio ** (np.asarray(draft_tokens) + 1.0)) / (1.0 - ratio)
    return np.where(sure, np.asarray(draft_tokens) + 1.0, series)
