r"""Work of the Vector and Scalar engines: passes over a tensor times its elements.

A pass reads each element once; an engine passes one element per lane and cycle. Counts are those of kernels that use
the fused instructions (two chained operators on the Vector engine; scale, bias, function and running sum on the
Scalar engine), so they bound the time from below; profiles hold how far kernels stay from it.

==================  ==============  ===============  ==============================================================
operator            forward V + S   backward V + S   passes of the forward direction
==================  ==============  ===============  ==============================================================
RMS norm            2 + 0           4 + 0            statistics; scale by 1/rms and weight
layer norm          3 + 0           6 + 0            statistics; centre and weight; scale and bias
rotary              3 + 0           3 + 0            two products and a sum
gated activation    1 + 1           3 + 2            function (S); product with up
plain activation    0 + 1           1 + 1            function with its bias (S)
residual            1 + 0           1 + 0            sum
softmax             2 + 1           2 + 0            maximum; exponential and its sum (S); scale
cross-entropy       1 + 1           1 + 1            maximum; exponential and its sum (S); the target is gathered
top-k               3 r - 1 + 0     0 + 0            in each of r = ceil(k/8) rounds: largest, their places, removal
==================  ==============  ===============  ==============================================================

Against the best measured rates of one logical core (256 lanes at 0.96 GHz, 16 bit, source xpu-perf): RMS norm reaches
66 % of its bound, softmax 60 %, layer norm 53 %; all three are bound by the Vector engine and not by HBM. Top-k over
a vocabulary comes within 5 % once its fixed cost is taken off. The gated activation stays at 40 % of its HBM bound
because the measured one makes a round trip to HBM between its two passes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trn2model.formulas import Numeric

#: Values that one instruction of the Vector engine finds at a time.
TOP_VALUES: Final = 8.0


def norm_vector_elements(
    rows: Numeric, hidden_size: Numeric, layer_norm: Numeric = 0.0, backward: Numeric = 0.0
) -> Numeric:
    r"""Vector elements of an RMS norm or a layer norm.

    .. math:: V = r h (1 + d) (2 + l)

    Parameters
    ----------
    rows : Numeric, shape (...)
        Vectors normalised, :math:`r`. [1]
    hidden_size : Numeric, shape (...)
        Elements of each, :math:`h`. [1]
    layer_norm : Numeric, shape (...)
        1 for a layer norm, 0 for an RMS norm, :math:`l`. [1]
    backward : Numeric, shape (...)
        1 for the backward pass, 0 for the forward pass, :math:`d`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements. [1]

    Notes
    -----
    Validity: gradients of the weights are summed over the rows by the Tensor engine.

    References
    ----------
    .. [1] nki-isa
    """
    return rows * hidden_size * (1.0 + backward) * (2.0 + layer_norm)


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


def activation_vector_elements(
    rows: Numeric, ffn_size: Numeric, gated: Numeric = 1.0, backward: Numeric = 0.0
) -> Numeric:
    r"""Vector elements of the activation between the matrices of an MLP.

    .. math:: V = r f \left( g + d (1 + g) \right)

    Parameters
    ----------
    rows : Numeric, shape (...)
        Tokens, :math:`r`. [1]
    ffn_size : Numeric, shape (...)
        Elements of the intermediate vector, :math:`f`. [1]
    gated : Numeric, shape (...)
        1 for silu(gate) · up, 0 for a plain function, :math:`g`. [1]
    backward : Numeric, shape (...)
        1 for the backward pass, 0 for the forward pass, :math:`d`. [1]

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
    return rows * ffn_size * (gated + backward * (1.0 + gated))


def activation_scalar_elements(
    rows: Numeric, ffn_size: Numeric, gated: Numeric = 1.0, backward: Numeric = 0.0
) -> Numeric:
    r"""Scalar elements of the activation: the function, or its derivative and, where gated, the function again.

    .. math:: S = r f (1 + d g)

    Parameters
    ----------
    rows : Numeric, shape (...)
        Tokens, :math:`r`. [1]
    ffn_size : Numeric, shape (...)
        Elements of the intermediate vector, :math:`f`. [1]
    gated : Numeric, shape (...)
        1 for silu(gate) · up, 0 for a plain function, :math:`g`. [1]
    backward : Numeric, shape (...)
        1 for the backward pass, 0 for the forward pass, :math:`d`. [1]

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
    return rows * ffn_size * (1.0 + backward * gated)


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


def router_vector_elements(tokens: Numeric, num_experts: Numeric, experts_per_token: Numeric) -> Numeric:
    r"""Vector elements of a router: softmax over the experts and the choice of the best.

    .. math:: V = T E \left( 1 + 3 \lceil k / 8 \rceil \right)

    Parameters
    ----------
    tokens : Numeric, shape (...)
        Tokens, :math:`T`, a whole number. [token]
    num_experts : Numeric, shape (...)
        Routed experts, :math:`E`. [1]
    experts_per_token : Numeric, shape (...)
        Experts that a token visits, :math:`k`. [1]

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
    chosen = topk_vector_elements(tokens, num_experts, experts_per_token)
    return softmax_vector_elements(tokens, num_experts) + chosen
