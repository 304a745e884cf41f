"""Mixture of experts: how many experts a batch touches, and how many tokens an expert gets."""

from __future__ import annotations

import numpy as np

from trn2model.formulas import Numeric


def distinct_experts(num_experts: Numeric, experts_per_token: Numeric, tokens: Numeric) -> Numeric:
    r"""Expected number of experts that at least one of the tokens visits.

    .. math:: D = E \left( 1 - \left( 1 - \tfrac{k}{E} \right)^T \right)

    Parameters
    ----------
    num_experts : Numeric, shape (...)
        Routed experts, :math:`E`. [1]
    experts_per_token : Numeric, shape (...)
        Experts that a token visits, :math:`k \le E`. [1]
    tokens : Numeric, shape (...)
        Tokens routed together, :math:`T`. [token]

    Returns
    -------
    Numeric, shape (...)
        Experts whose weights are read. [1]

    Notes
    -----
    Validity: tokens choose independently and uniformly; skewed routing touches fewer.

    References
    ----------
    .. [1] jax-scaling-book
    """
    return num_experts * (1.0 - np.power(1.0 - experts_per_token / num_experts, tokens))


def tokens_per_expert(tokens: Numeric, num_experts: Numeric, experts_per_token: Numeric, imbalance: Numeric) -> Numeric:
    r"""Tokens of the busiest expert.

    .. math:: t = \min\left( T, \; \gamma \tfrac{T k}{E} \right)

    Parameters
    ----------
    tokens : Numeric, shape (...)
        Tokens routed together, :math:`T`. [token]
    num_experts : Numeric, shape (...)
        Routed experts, :math:`E`. [1]
    experts_per_token : Numeric, shape (...)
        Experts that a token visits, :math:`k \le E`. [1]
    imbalance : Numeric, shape (...)
        Load of the busiest expert over the mean (dropless), or the capacity factor, :math:`\gamma \ge 1`. [1]

    Returns
    -------
    Numeric, shape (...)
        Tokens; no expert gets one twice. [token]

    Notes
    -----
    Validity: expected value; may be below 1 in small decode batches.

    References
    ----------
    .. [1] jax-scaling-book
    """
    return np.minimum(tokens, imbalance * tokens * experts_per_token / num_experts)


def bounded_imbalance(imbalance: Numeric, num_experts: Numeric, experts_per_token: Numeric) -> Numeric:
    r"""Imbalance that routing can reach: no expert gets a token twice.

    .. math:: \gamma' = \min\left( \gamma, \tfrac{E}{k} \right)

    Parameters
    ----------
    imbalance : Numeric, shape (...)
        Load of the busiest expert over the mean, :math:`\gamma \ge 1`. [1]
    num_experts : Numeric, shape (...)
        Routed experts, :math:`E`. [1]
    experts_per_token : Numeric, shape (...)
        Experts that a token visits, :math:`k \le E`. [1]

    Returns
    -------
    Numeric, shape (...)
        The imbalance, at most that of every token choosing the same experts. [1]

    Notes
    -----
    Validity: any extents with k <= E.

    References
    ----------
    .. [1] jax-scaling-book
    """
    return np.minimum(imbalance, np.asarray(num_experts) / experts_per_token)


def dispatch_bytes(
    tokens: Numeric, experts_per_token: Numeric, hidden_size: Numeric, element_bytes: Numeric, imbalance: Numeric
) -> Numeric:
    r"""Send buffer of one rank in the all-to-all that takes tokens to their experts (or back).

    .. math:: m = \gamma T k h b

    Parameters
    ----------
    tokens : Numeric, shape (...)
        Tokens of the rank, :math:`T`. [token]
    experts_per_token : Numeric, shape (...)
        Experts that a token visits, :math:`k`. [1]
    hidden_size : Numeric, shape (...)
        Elements of a token, :math:`h`. [1]
    element_bytes : Numeric, shape (...)
        Width of an element, :math:`b`. [B]
    imbalance : Numeric, shape (...)
        Busiest destination over the mean, :math:`\gamma \ge 1`. [1]

    Returns
    -------
    Numeric, shape (...)
        Bytes, counting those that stay on the rank. [B]

    Notes
    -----
    Validity: one copy per expert, also where two experts of a token share a rank.

    References
    ----------
    .. [1] jax-scaling-book
    """
    return imbalance * tokens * experts_per_token * hidden_size * element_bytes
