"""Structured sparsity N:M of the stationary operand: FLOP rate and storage."""

from __future__ import annotations

import numpy as np

from trn2model.formulas import Numeric


def sparse_flop_rate(dense_rate: Numeric, speedup: Numeric, passes: Numeric, sparse_peak: Numeric) -> Numeric:
    r"""Rate of a matmul with sparse weights, in FLOP of the dense product.

    .. math:: R_s = \max\left( R, \; \min\left( R \tfrac{u}{p}, \; S \right) \right)

    Parameters
    ----------
    dense_rate : Numeric, shape (...)
        Dense rate of the dtype, :math:`R`. [FLOP/s]
    speedup : Numeric, shape (...)
        Group over kept values of the pattern, :math:`u`; 1 is dense. [1]
    passes : Numeric, shape (...)
        Sparse passes that replace one dense pass, :math:`p`: 2 where fp8 loses its double contraction. [1]
    sparse_peak : Numeric, shape (...)
        Published sparse peak, :math:`S`. [FLOP/s]

    Returns
    -------
    Numeric, shape (...)
        Equivalent dense rate, never below the dense one. [FLOP/s]

    Notes
    -----
    Validity: the pattern lies along the contraction of this very product.

    References
    ----------
    .. [1] neuron-trainium2
    """
    return np.maximum(dense_rate, np.minimum(dense_rate * speedup / passes, sparse_peak))


def sparse_weight_bytes(value_bytes: Numeric, kept: Numeric, group: Numeric, tag_bytes: Numeric) -> Numeric:
    r"""Storage of one weight of the dense shape: kept values and where they stood.

    .. math:: b_s = \tfrac{k}{g} (b + b_{tag}), \quad b_s = b \text{ when } k = g

    Parameters
    ----------
    value_bytes : Numeric, shape (...)
        Width of a value, :math:`b`. [B]
    kept : Numeric, shape (...)
        Values kept per group, :math:`k`. [1]
    group : Numeric, shape (...)
        Values per group, :math:`g \ge k`. [1]
    tag_bytes : Numeric, shape (...)
        Position tag of a kept value, :math:`b_{tag}`. [B]

    Returns
    -------
    Numeric, shape (...)
        Bytes per weight of the dense shape. [B]

    Notes
    -----
    Validity: dense weights carry no tag.

    References
    ----------
    .. [1] neuron-trainium2
    """
    return np.where(np.equal(kept, group), value_bytes, kept / group * (value_bytes + tag_bytes))
