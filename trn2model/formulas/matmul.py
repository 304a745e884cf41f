r"""Matrix products: exact work, work of the array after padding, and HBM traffic under blocking.

========  ==================  =================================================
symbol    argument            meaning
========  ==================  =================================================
M         `rows`              rows of the input (tokens)
K         `contraction`       contracted extent
N         `columns`           columns of the weight
========  ==================  =================================================
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trn2model.formulas import Numeric

#: Bytes of one fp32 accumulator.
ACCUMULATOR_BYTES: Final = 4.0


def gemm_flop(rows: Numeric, contraction: Numeric, columns: Numeric) -> Numeric:
    r"""Floating-point operations of a matrix product.

    .. math:: F = 2 M K N

    Parameters
    ----------
    rows : Numeric, shape (...)
        Rows of the input, :math:`M`. [1]
    contraction : Numeric, shape (...)
        Contracted extent, :math:`K`. [1]
    columns : Numeric, shape (...)
        Columns of the weight, :math:`N`. [1]

    Returns
    -------
    Numeric, shape (...)
        Multiplications and additions. [FLOP]

    Notes
    -----
    Validity: any extents >= 0; exact as long as the product stays below 2**53.

    References
    ----------
    .. [1] megatron-sc21
    """
    return 2.0 * rows * contraction * columns


def gemm_padded_flop(
    rows: Numeric,
    contraction: Numeric,
    columns: Numeric,
    contraction_tile: Numeric,
    stationary_tile: Numeric,
    moving_tile: Numeric,
    fill: Numeric,
    padding: Numeric,
) -> Numeric:
    r"""FLOP that a systolic array could have done while it is busy with a matrix product.

    One operand is stationary, in tiles of :math:`k \times n`; the other moves past each tile in passes of at most
    :math:`m` rows, and each pass loses :math:`f` rows to filling the array. With the weights stationary

    .. math::
        P_w = 2 \left\lceil \tfrac{K}{k} \right\rceil k \left\lceil \tfrac{N}{n} \right\rceil n
              \left( M + f \left\lceil \tfrac{M}{m} \right\rceil \right)

    and :math:`P_a` with the activations stationary is the same with M and N exchanged. The result is

    .. math:: P = (1 - p) \, 2 M K N + p \min(P_w, P_a).

    Parameters
    ----------
    rows : Numeric, shape (...)
        Rows of the input, :math:`M`. [1]
    contraction : Numeric, shape (...)
        Contracted extent, :math:`K`. [1]
    columns : Numeric, shape (...)
        Columns of the weight, :math:`N`. [1]
    contraction_tile : Numeric, shape (...)
        Rows of the array, :math:`k`; fp8 doubles it. [1]
    stationary_tile : Numeric, shape (...)
        Columns of the array, :math:`n`. [1]
    moving_tile : Numeric, shape (...)
        Largest extent that moves in one pass, :math:`m`. [1]
    fill : Numeric, shape (...)
        Moving rows lost per stationary tile and pass, :math:`f`. [1]
    padding : Numeric, shape (...)
        Share of the padding and filling that is paid, :math:`p`, from 0 to 1. [1]

    Returns
    -------
    Numeric, shape (...)
        FLOP equivalents of the busy time; divide by the dense rate to get the time. [FLOP]

    Notes
    -----
    Validity: tiles >= 1, fill >= 0. Never below `gemm_flop` and never smaller for a larger product, because both
    alternatives are sums and products of functions that do not decrease.

    References
    ----------
    .. [1] nki-trainium2
    """
    padded_contraction = np.ceil(contraction / contraction_tile) * contraction_tile
    weights_stationary = (
        np.ceil(columns / stationary_tile) * stationary_tile * (rows + fill * np.ceil(rows / moving_tile))
    )
    inputs_stationary = (
        np.ceil(rows / stationary_tile) * stationary_tile * (columns + fill * np.ceil(columns / moving_tile))
    )
    busy = 2.0 * padded_contraction * np.minimum(weights_stationary, inputs_stationary)
    return (1.0 - padding) * gemm_flop(rows, contraction, columns) + padding * busy


def gemm_hbm_bytes(
    rows: Numeric,
    contraction: Numeric,
    columns: Numeric,
    input_bytes: Numeric,
    weight_bytes: Numeric,
    output_bytes: Numeric,
    sbuf_bytes: Numeric,
) -> Numeric:
    r"""HBM traffic of a matrix product whose operands are blocked through an on-chip memory.

    With :math:`A = MK b_i`, :math:`W = KN b_w`, :math:`C = MN b_o`, :math:`Q = MN \cdot 4` (fp32 accumulators) and
    a memory of S bytes, the least of three schedules, plus the output:

    .. math::
        T = C + \min\left(
            A + W \left\lceil \tfrac{\min(A, Q)}{S} \right\rceil,\;
            W + A \left\lceil \tfrac{\min(W, Q)}{S} \right\rceil,\;
            A \left\lceil \tfrac{N}{s} \right\rceil + W \left\lceil \tfrac{M}{s} \right\rceil
        \right), \quad s = \sqrt{S / 4}

    The first keeps a block of input rows, or of their outputs, and streams all weights again for each block; the
    second keeps a block of weight columns and streams the inputs; the third keeps a square block of outputs and
    streams both along the contraction, which wins where the contraction is long (weight gradients).

    Parameters
    ----------
    rows : Numeric, shape (...)
        Rows of the input, :math:`M`. [1]
    contraction : Numeric, shape (...)
        Contracted extent, :math:`K`. [1]
    columns : Numeric, shape (...)
        Columns of the weight, :math:`N`. [1]
    input_bytes : Numeric, shape (...)
        Width of an input element, :math:`b_i`. [B]
    weight_bytes : Numeric, shape (...)
        Width of a weight, :math:`b_w`; may be a fraction (sparse or packed). [B]
    output_bytes : Numeric, shape (...)
        Width of an output element, :math:`b_o`. [B]
    sbuf_bytes : Numeric, shape (...)
        On-chip memory that blocks may occupy, :math:`S` > 0. [B]

    Returns
    -------
    Numeric, shape (...)
        Bytes read and written. [B]

    Notes
    -----
    Validity: extents >= 1. Each operand moves at least once; never smaller for a larger product.

    References
    ----------
    .. [1] nki-trainium2
    .. [2] jax-scaling-book
    """
    inputs = rows * contraction * input_bytes
    weights = contraction * columns * weight_bytes
    accumulators = rows * columns * ACCUMULATOR_BYTES
    side = np.sqrt(sbuf_bytes / ACCUMULATOR_BYTES)
    rows_resident = inputs + weights * np.ceil(np.minimum(inputs, accumulators) / sbuf_bytes)
    columns_resident = weights + inputs * np.ceil(np.minimum(weights, accumulators) / sbuf_bytes)
    outputs_resident = inputs * np.ceil(columns / side) + weights * np.ceil(rows / side)
    streamed = np.minimum(np.minimum(rows_resident, columns_resident), outputs_resident)
    return streamed + rows * columns * output_bytes
