"""Serving in steady state, and speculative decoding.

========  ==================  =====================================================
symbol    argument            meaning
========  ==================  =====================================================
c         `concurrency`       requests that one replica answers at the same time
P         `prefill_time`      one prefill pass, from its start to the first token
I         `prefill_interval`  how long a pass keeps the replica from decoding and from the next pass; P on one stage
t         `token_time`        one output token of every running request
o         `output_tokens`     tokens per request; the first one comes from prefill
p         `prefill_batch`     prompts of one prefill pass
========  ==================  =====================================================
"""

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


def request_cycle_time(
    prefill_time: Numeric,
    prefill_interval: Numeric,
    token_time: Numeric,
    output_tokens: Numeric,
    concurrency: Numeric,
    prefill_batch: Numeric,
    overlap: Numeric,
) -> Numeric:
    r"""Time from the start of a request to its end on a full replica, in which every slot is used once.

    With :math:`D = (o - 1)\,t`, the passes of others :math:`S = I \max(c/p - 1, 0)` and what a request waits for the
    later stages after its own pass has left the first one, :math:`L = P - I`

    .. math::
        T' = I + \tfrac{1}{2}\left(L + D + S + \sqrt{(L + D + S)^2 - 4 S L}\right), \quad
        T = \max\left(T' - f \min(I + S, D),\; P + D\right)

    :math:`T'` solves :math:`T' = P + D + S \left(1 - \frac{L}{T' - I}\right)`: passes of others stall a request
    while it decodes, not while it waits. On one stage :math:`L = 0` and :math:`T' = P + D + S`.

    Parameters
    ----------
    prefill_time : Numeric, shape (...)
        One prefill pass, :math:`P`. [s]
    prefill_interval : Numeric, shape (...)
        Busy time of the longest stage in a pass, :math:`I \le P`. [s]
    token_time : Numeric, shape (...)
        Time per output token without stalls, :math:`t`. [s]
    output_tokens : Numeric, shape (...)
        Tokens per request, :math:`o` >= 1. [token]
    concurrency : Numeric, shape (...)
        Requests in flight, :math:`c` >= 1. [1]
    prefill_batch : Numeric, shape (...)
        Prompts per pass, :math:`p` >= 1. [1]
    overlap : Numeric, shape (...)
        Share of the shorter phase that passes of both hide, :math:`f`; 0 where the phases take turns. [1]

    Returns
    -------
    Numeric, shape (...)
        Cycle, never below a request that has the replica to itself. [s]

    Notes
    -----
    Validity: equal requests, and always one waiting. By Little's law c / T requests finish per second.

    References
    ----------
    .. [1] orca-2022
    """
    others = prefill_interval * np.maximum(np.asarray(concurrency) / prefill_batch - 1.0, 0.0)
    decode = (output_tokens - 1.0) * token_time
    lag = prefill_time - prefill_interval
    busy = lag + decode + others
    taking_turns = prefill_interval + 0.5 * (busy + np.sqrt(np.maximum(busy**2 - 4.0 * others * lag, 0.0)))
    hidden = overlap * np.minimum(prefill_interval + others, decode)
    return np.maximum(taking_turns - hidden, prefill_time + decode)


def stalled_token_time(
    cycle_time: Numeric, prefill_time: Numeric, token_time: Numeric, output_tokens: Numeric
) -> Numeric:
    r"""Mean time between two output tokens of a request when prefill of the others stalls its decode.

    .. math:: t' = \frac{T - P}{o - 1}, \quad t' = t \text{ at } o = 1

    Parameters
    ----------
    cycle_time : Numeric, shape (...)
        Cycle of a full replica, :math:`T`. [s]
    prefill_time : Numeric, shape (...)
        Prefill of the request itself, :math:`P`. [s]
    token_time : Numeric, shape (...)
        Time per output token without stalls, :math:`t`. [s]
    output_tokens : Numeric, shape (...)
        Tokens per request, :math:`o` >= 1. [token]

    Returns
    -------
    Numeric, shape (...)
        Never below :math:`t`. [s]

    Notes
    -----
    Validity: as `request_cycle_time`.

    References
    ----------
    .. [1] orca-2022
    """
    following = np.maximum(output_tokens - 1.0, 1.0)
    return np.where(np.asarray(output_tokens) > 1.0, (cycle_time - prefill_time) / following, token_time)


def separate_request_rate(
    prefill_interval: Numeric,
    token_time: Numeric,
    output_tokens: Numeric,
    concurrency: Numeric,
    prefill_batch: Numeric,
    prefill_replicas: Numeric,
    decode_replicas: Numeric,
) -> Numeric:
    r"""Requests per second where some replicas only prefill and the others only decode: the slower side decides.

    .. math:: \lambda = \min\left(\frac{n_p\,p}{I}, \frac{n_d\,c}{(o - 1)\,t}\right)

    Parameters
    ----------
    prefill_interval : Numeric, shape (...)
        Busy time of the longest stage in a prefill pass, :math:`I`. [s]
    token_time : Numeric, shape (...)
        Time per output token, :math:`t` > 0. [s]
    output_tokens : Numeric, shape (...)
        Tokens per request, :math:`o` >= 1. [token]
    concurrency : Numeric, shape (...)
        Requests in flight on a decode replica, :math:`c`. [1]
    prefill_batch : Numeric, shape (...)
        Prompts per pass, :math:`p`. [1]
    prefill_replicas : Numeric, shape (...)
        Replicas that prefill, :math:`n_p`. [1]
    decode_replicas : Numeric, shape (...)
        Replicas that decode, :math:`n_d`. [1]

    Returns
    -------
    Numeric, shape (...)
        Requests per second. [1/s]

    Notes
    -----
    Validity: equal requests, and always one waiting; a request of one token needs no decode.

    References
    ----------
    .. [1] distserve-2024
    """
    prefill_rate = prefill_replicas * prefill_batch / prefill_interval
    following = np.asarray(output_tokens) - 1.0
    decode_time = np.where(following > 0.0, following, 1.0) * token_time
    decode_rate = np.where(following > 0.0, decode_replicas * concurrency / decode_time, np.inf)
    return np.minimum(prefill_rate, decode_rate)
