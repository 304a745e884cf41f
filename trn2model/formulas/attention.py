r"""Attention: pairs of tokens under a causal mask and a window, and what each engine does per pair.

Token positions are continuous: the query at position x sees x keys, so a whole sequence of s tokens has s²/2 pairs,
half of the unmasked s².
"""

from __future__ import annotations

import numpy as np

from trn2model.formulas import Numeric


def attention_pairs(query_tokens: Numeric, context_tokens: Numeric, window: Numeric) -> Numeric:
    r"""Pairs of one query and one key that a causal mask leaves, for the last queries of a context.

    .. math::
        P = \int_{c-q}^{c} \min(x, w) \, dx = n (c - q) + \tfrac{n^2}{2} + (q - n) w, \quad
        n = \min(q, \max(0, w - c + q))

    where n queries see fewer tokens than the window. Without a window :math:`P = q c - q^2/2`.

    Parameters
    ----------
    query_tokens : Numeric, shape (...)
        Queries, the last ones of the context, :math:`q`. [token]
    context_tokens : Numeric, shape (...)
        Tokens including the queries, :math:`c \ge q`. [token]
    window : Numeric, shape (...)
        Most tokens that a query sees, :math:`w`; 0 means no limit. [token]

    Returns
    -------
    Numeric, shape (...)
        Pairs of one head of one sequence. [1]

    Notes
    -----
    Validity: 0 <= q <= c. Continuous; grows with each of q, c and (above 0) w. The half of a token that the
    continuous convention leaves out of the diagonal is below 1/(2 c) of a decode step.

    References
    ----------
    .. [1] megatron-sc21
    .. [2] flash-attention
    """
    cached = context_tokens - query_tokens
    limit = np.where(np.greater(window, 0.0), window, context_tokens)
    growing = np.clip(limit - cached, 0.0, query_tokens)
    return growing * (cached + 0.5 * growing) + (query_tokens - growing) * limit


def attention_flop(pairs: Numeric, num_heads: Numeric, qk_size: Numeric, v_size: Numeric) -> Numeric:
    r"""Floating-point operations of scores and context.

    .. math:: F = 2 P H (d_{qk} + d_v)

    Parameters
    ----------
    pairs : Numeric, shape (...)
        Pairs per head, :math:`P`, from `attention_pairs`. [1]
    num_heads : Numeric, shape (...)
        Query heads, :math:`H`. [1]
    qk_size : Numeric, shape (...)
        Size of a query or key of one head, :math:`d_{qk}`. [1]
    v_size : Numeric, shape (...)
        Size of a value of one head, :math:`d_v`. [1]

    Returns
    -------
    Numeric, shape (...)
        Forward operations; the backward pass has twice as many. [FLOP]

    Notes
    -----
    Validity: any extents >= 0. Per context token in decode: 4 · heads · head size.

    References
    ----------
    .. [1] megatron-sc21
    """
    return 2.0 * pairs * num_heads * (qk_size + v_size)


def attention_exponentials(pairs: Numeric, num_heads: Numeric) -> Numeric:
    r"""Exponentials of the softmax: one per pair and head, on the Scalar engine.

    .. math:: E = P H

    Parameters
    ----------
    pairs : Numeric, shape (...)
        Pairs per head, :math:`P`, from `attention_pairs`. [1]
    num_heads : Numeric, shape (...)
        Query heads, :math:`H`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements; the row sums come with the same pass (accumulating activation). [1]

    Notes
    -----
    Validity: a backward pass that recomputes the probabilities has as many again.

    References
    ----------
    .. [1] flash-attention
    .. [2] nki-isa
    """
    return pairs * num_heads


def attention_vector_elements(pairs: Numeric, num_heads: Numeric) -> Numeric:
    r"""Elements that the Vector engine passes in flash attention: the running maximum reads each score once.

    .. math:: V = P H

    Parameters
    ----------
    pairs : Numeric, shape (...)
        Pairs per head, :math:`P`, from `attention_pairs`. [1]
    num_heads : Numeric, shape (...)
        Query heads, :math:`H`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: a lower bound. Kernels that transpose the probabilities on the Tensor engine copy them once more; the
    rescaling of the output is smaller by the ratio of head size to key block. The backward pass has as many:
    :math:`P (dP - D)` in one fused instruction.

    References
    ----------
    .. [1] flash-attention
    .. [2] nki-isa
    """
    return pairs * num_heads


def flash_hbm_bytes(
    query_tokens: Numeric,
    context_tokens: Numeric,
    window: Numeric,
    num_heads: Numeric,
    num_kv_heads: Numeric,
    qk_size: Numeric,
    v_size: Numeric,
    element_bytes: Numeric,
    query_block: Numeric,
) -> Numeric:
    r"""HBM traffic of flash attention for one sequence: queries and outputs once, keys and values per query block.

    .. math::
        T = b (d_{qk} + d_v) \left( q H + H_{kv} \sum_{i=0}^{n-1} \min(c - i B, \; w + B') \right), \quad
        n = \left\lceil \tfrac{q}{B} \right\rceil, \quad B' = \min(q, B)

    Blocks are cut from the last query on; under the causal mask each reads the tokens up to its own last one, and under
    a window none before those that its first one sees.

    Parameters
    ----------
    query_tokens : Numeric, shape (...)
        Queries, :math:`q`. [token]
    context_tokens : Numeric, shape (...)
        Tokens including the queries, :math:`c \ge q`. [token]
    window : Numeric, shape (...)
        Most tokens that a query sees, :math:`w`; 0 means no limit. [token]
    num_heads : Numeric, shape (...)
        Query heads, :math:`H`. [1]
    num_kv_heads : Numeric, shape (...)
        Key and value heads, :math:`H_{kv}`; the queries of a group share one reading. [1]
    qk_size : Numeric, shape (...)
        Size of a query or key of one head, :math:`d_{qk}`. [1]
    v_size : Numeric, shape (...)
        Size of a value of one head, :math:`d_v`. [1]
    element_bytes : Numeric, shape (...)
        Width of an element, :math:`b`. [B]
    query_block : Numeric, shape (...)
        Queries that stay on the chip while keys and values stream past, :math:`B` >= 1. [token]

    Returns
    -------
    Numeric, shape (...)
        Bytes read and written. [B]

    Notes
    -----
    Validity: no score is ever written to HBM. Multiply by the sequences.

    References
    ----------
    .. [1] flash-attention
    """
    blocks = np.ceil(query_tokens / query_block)
    seen = np.where(np.greater(window, 0.0), window + np.minimum(query_tokens, query_block), context_tokens)
    limited = np.clip(np.ceil((context_tokens - seen) / query_block), 0.0, blocks)
    whole = (blocks - limited) * (context_tokens - 0.5 * query_block * (blocks + limited - 1.0))
    keys_read = np.asarray(limited * seen + whole)
    return element_bytes * (qk_size + v_size) * (query_tokens * num_heads + num_kv_heads * keys_read)


def decode_kv_bytes(context_tokens: Numeric, window: Numeric, kv_bytes_per_token: Numeric) -> Numeric:
    r"""Key-value cache that one decode step of one sequence reads.

    .. math:: T = b \min(c, w)

    Parameters
    ----------
    context_tokens : Numeric, shape (...)
        Tokens in the cache, :math:`c`. [token]
    window : Numeric, shape (...)
        Most tokens that a query sees, :math:`w`; 0 means no limit. [token]
    kv_bytes_per_token : Numeric, shape (...)
        Keys and values of one token in the layers meant, :math:`b`. [B]

    Returns
    -------
    Numeric, shape (...)
        Bytes read. [B]

    Notes
    -----
    Validity: any extents >= 0; below the window, full and windowed layers read the same.

    References
    ----------
    .. [1] jax-scaling-book
    """
    visible = np.where(np.greater(window, 0.0), np.minimum(context_tokens, window), context_tokens)
    return visible * kv_bytes_per_token
