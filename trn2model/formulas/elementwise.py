r"""Work of the Vector and Scalar engines: passes over a tensor times its elements, forward.

A pass reads each element once; an engine passes one element per lane and cycle. Counts are those of kernels that use
the fused instructions (two chained operators on the Vector engine; scale, bias, function and running sum on the
Scalar engine), so they bound the time from below; profiles hold how far kernels stay from it.

====================  ======  ======  =====================================================================
operator              Vector  Scalar  passes
====================  ======  ======  =====================================================================
RMS norm              2       1       sum of squares (S); scale by 1/rms; weight
layer norm            3       1       statistics; centre and scale (S); weight; bias
rotary                3       0       two products and a sum
gated activation      1       1       function (S); product with up
plain activation      1       1       bias; function (S)
residual              1       0       sum
softmax               2       1       maximum; exponential and its sum (S); scale
cross-entropy         1       1       maximum; exponential and its sum (S); the target is gathered
top-k, 8 at a time    3r - 1  0       in each of r = ceil(k/8) rounds: largest, their places, remove them
====================  ======  ======  =====================================================================

A backward pass takes about twice as many; rotary and residual as many.

Against the best measured rates of one logical core (256 lanes at 0.96 GHz, 16 bit, source xpu-perf): RMS norm
reaches 66 % of its bound, softmax 60 %, layer norm 52 %; all three are bound by the Vector engine and not by HBM.
Top-k over a vocabulary comes within 3 % once its fixed cost is taken off. The gated activation stays at 40 % because
the measured one makes a round trip to HBM between its two passes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trn2model.formulas import Numeric

#: Values that one instruction of the Vector engine finds at a time.
TOP_VALUES: Final = 8.0


def rmsnorm_vector_elements(rows: Numeric, hidden_size: Numeric) -> Numeric:
    r"""Vector elements of an RMS norm: scale and weight.

    .. math:: V = 2 r h

    Parameters
    ----------
    rows : Numeric, shape (...)
        Vectors normalised, :math:`r`. [1]
    hidden_size : Numeric, shape (...)
        Elements of each, :math:`h`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: any extents >= 0.

    References
    ----------
    .. [1] nki-isa
    """
    return 2.0 * rows * hidden_size


def layernorm_vector_elements(rows: Numeric, hidden_size: Numeric) -> Numeric:
    r"""Vector elements of a layer norm: statistics, weight and bias.

    .. math:: V = 3 r h

    Parameters
    ----------
    rows : Numeric, shape (...)
        Vectors normalised, :math:`r`. [1]
    hidden_size : Numeric, shape (...)
        Elements of each, :math:`h`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: any extents >= 0.

    References
    ----------
    .. [1] nki-isa
    """
    return 3.0 * rows * hidden_size


def norm_scalar_elements(rows: Numeric, hidden_size: Numeric) -> Numeric:
    r"""Scalar elements of a norm of either kind: sum of squares, or centre and scale.

    .. math:: S = r h

    Parameters
    ----------
    rows : Numeric, shape (...)
        Vectors normalised, :math:`r`. [1]
    hidden_size : Numeric, shape (...)
        Elements of each, :math:`h`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: any extents >= 0.

    References
    ----------
    .. [1] nki-isa
    """
    return rows * hidden_size


def rotary_vector_elements(rows: Numeric, rotary_size: Numeric) -> Numeric:
    r"""Vector elements of the rotary embedding, forward or backward.

    .. math:: V = 3 r d

    Parameters
    ----------
    rows : Numeric, shape (...)
        Tokens, :math:`r`. [1]
    rotary_size : Numeric, shape (...)
        Rotated elements of a token: query and key heads times rotated size, :math:`d`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: sines and cosines are read, not computed.

    References
    ----------
    .. [1] nki-isa
    """
    return 3.0 * rows * rotary_size


def gated_activation_vector_elements(rows: Numeric, ffn_size: Numeric) -> Numeric:
    r"""Vector elements of silu(gate) · up: the product.

    .. math:: V = r f

    Parameters
    ----------
    rows : Numeric, shape (...)
        Tokens, :math:`r`. [1]
    ffn_size : Numeric, shape (...)
        Elements of the intermediate vector, :math:`f`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: functions that the Scalar engine has in its table (silu, gelu, relu).

    References
    ----------
    .. [1] nki-isa
    """
    return rows * ffn_size


def activation_vector_elements(rows: Numeric, ffn_size: Numeric) -> Numeric:
    r"""Vector elements of a plain activation: the bias before it.

    .. math:: V = r f

    Parameters
    ----------
    rows : Numeric, shape (...)
        Tokens, :math:`r`. [1]
    ffn_size : Numeric, shape (...)
        Elements of the intermediate vector, :math:`f`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: biases along the rows of the result; those along its lanes come free with the function.

    References
    ----------
    .. [1] nki-isa
    """
    return rows * ffn_size


def activation_scalar_elements(rows: Numeric, ffn_size: Numeric) -> Numeric:
    r"""Scalar elements of an activation, gated or plain: the function.

    .. math:: S = r f

    Parameters
    ----------
    rows : Numeric, shape (...)
        Tokens, :math:`r`. [1]
    ffn_size : Numeric, shape (...)
        Elements of the intermediate vector, :math:`f`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: functions that the Scalar engine has in its table (silu, gelu, relu).

    References
    ----------
    .. [1] nki-isa
    """
    return rows * ffn_size


def residual_vector_elements(rows: Numeric, hidden_size: Numeric) -> Numeric:
    r"""Vector elements of a residual sum, forward or backward.

    .. math:: V = r h

    Parameters
    ----------
    rows : Numeric, shape (...)
        Tokens, :math:`r`. [1]
    hidden_size : Numeric, shape (...)
        Elements of a token, :math:`h`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: any extents >= 0.

    References
    ----------
    .. [1] nki-isa
    """
    return rows * hidden_size


def softmax_vector_elements(rows: Numeric, columns: Numeric) -> Numeric:
    r"""Vector elements of a softmax over the columns: maximum and scale.

    .. math:: V = 2 r n

    Parameters
    ----------
    rows : Numeric, shape (...)
        Distributions, :math:`r`. [1]
    columns : Numeric, shape (...)
        Values of each, :math:`n`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: attention has its own count in `trn2model.formulas.attention`.

    References
    ----------
    .. [1] nki-isa
    """
    return 2.0 * rows * columns


def softmax_scalar_elements(rows: Numeric, columns: Numeric) -> Numeric:
    r"""Scalar elements of a softmax or a cross-entropy: exponentials with their running sum.

    .. math:: S = r n

    Parameters
    ----------
    rows : Numeric, shape (...)
        Distributions, :math:`r`. [1]
    columns : Numeric, shape (...)
        Values of each, :math:`n`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: any extents >= 0.

    References
    ----------
    .. [1] nki-isa
    """
    return rows * columns


def cross_entropy_vector_elements(rows: Numeric, vocab_size: Numeric) -> Numeric:
    r"""Vector elements of the loss: the maximum forward, or the subtraction of the target backward.

    .. math:: V = r v

    Parameters
    ----------
    rows : Numeric, shape (...)
        Tokens, :math:`r`. [1]
    vocab_size : Numeric, shape (...)
        Logits of a token on this rank, :math:`v`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: the exponentials are counted by `softmax_scalar_elements`.

    References
    ----------
    .. [1] nki-isa
    """
    return rows * vocab_size


def topk_vector_elements(rows: Numeric, columns: Numeric, num_selected: Numeric, lanes: Numeric = 1.0) -> Numeric:
    r"""Vector elements of finding the largest values of each row, eight per round.

    .. math:: V = \lceil r / p \rceil \, p \, n \left( 3 \lceil k / 8 \rceil - 1 \right)

    A round finds eight values, then their places; all rounds but the last also remove them.

    Parameters
    ----------
    rows : Numeric, shape (...)
        Rows, :math:`r`; each stays in one lane. [1]
    columns : Numeric, shape (...)
        Values of a row, :math:`n`. [1]
    num_selected : Numeric, shape (...)
        Values wanted, :math:`k` >= 1. [1]
    lanes : Numeric, shape (...)
        Lanes that work side by side, :math:`p`; 1 leaves idle lanes out. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements, those of idle lanes included. [1]

    Notes
    -----
    Validity: checked against measured rows of 62,080 and 248,320 values with k = 1, 8 and 50.

    References
    ----------
    .. [1] nki-isa
    .. [2] xpu-perf
    """
    passes = 3.0 * np.ceil(num_selected / TOP_VALUES) - 1.0
    return np.ceil(rows / lanes) * lanes * columns * passes
