"""Device memory: parameters, gradients, optimizer state, activations, logits, and the work of an optimizer update.

Activation bytes follow what a backward pass needs. In elements per token of width b, with the parts that Megatron
tensor parallelism leaves whole (divided by tp only under sequence parallelism) apart from those it divides:

==================  ====================================  =====================================================
block               whole                                 divided by tp
==================  ====================================  =====================================================
attention           norm input h, QKV input h             queries, keys, values, context
MLP                 norm input h, MLP input h             function input (gate and up), function output
dropout             one mask byte per block               scores: mask byte and dropped copy
scores              none                                  softmax output, unless flash attention recomputes it
==================  ====================================  =====================================================

For a GPT layer in 16 bit with dropout the sum is s·b·h·(34 + 5·a·s/h).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trn2model.formulas import Numeric


def adamw_vector_elements(parameters: Numeric) -> Numeric:
    r"""Vector elements of one AdamW update.

    .. math:: V = 6 P

    Parameters
    ----------
    parameters : Numeric, shape (...)
        Parameters updated on this rank, :math:`P`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements: two for the first moment; second moment, denominator, step and weight. [1]

    Notes
    -----
    Validity: HBM traffic (about 30 B per parameter) binds on Trainium2, not these passes.

    References
    ----------
    .. [1] adamw-2019
    """
    return 6.0 * parameters


def adamw_scalar_elements(parameters: Numeric) -> Numeric:
    r"""Scalar elements of one AdamW update.

    .. math:: S = 2 P

    Parameters
    ----------
    parameters : Numeric, shape (...)
        Parameters updated on this rank, :math:`P`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements: square of the gradient, root of the second moment. [1]

    Notes
    -----
    Validity: any extent >= 0.

    References
    ----------
    .. [1] adamw-2019
    """
    return 2.0 * parameters


class ModelState(NamedTuple):
    """Bytes of one rank that live through the whole step."""

    weights: Numeric
    gradients: Numeric
    optimizer: Numeric


def model_state_bytes(
    parameters: Numeric,
    weight_bytes: Numeric,
    gradient_bytes: Numeric,
    optimizer_bytes: Numeric,
    zero_stage: Numeric,
    shards: Numeric,
    trained_fraction: Numeric = 1.0,
) -> ModelState:
    r"""Weights, gradients and optimizer state of one rank under ZeRO.

    .. math::
        w = \frac{P b_w}{N_3}, \quad g = \frac{\tau P b_g}{N_2}, \quad o = \frac{\tau P b_o}{N_1}, \quad
        N_k = \begin{cases} N & z \ge k \\ 1 & z < k \end{cases}

    Parameters
    ----------
    parameters : Numeric, shape (...)
        Parameters of the rank before ZeRO, :math:`P`. [1]
    weight_bytes : Numeric, shape (...)
        Bytes of a weight used in matmuls, :math:`b_w`. [B]
    gradient_bytes : Numeric, shape (...)
        Bytes of a gradient, :math:`b_g`. [B]
    optimizer_bytes : Numeric, shape (...)
        Bytes of master weight and moments, :math:`b_o`. [B]
    zero_stage : Numeric, shape (...)
        0 none, 1 optimizer, 2 and gradients, 3 and weights, :math:`z`. [1]
    shards : Numeric, shape (...)
        Ranks that share one copy, :math:`N` >= 1. [1]
    trained_fraction : Numeric, shape (...)
        Share of the parameters that is trained; below 1 with a frozen base, :math:`\tau`. [1]

    Returns
    -------
    ModelState
        Weights, gradients, optimizer; each of shape (...). [B]

    Notes
    -----
    Validity: buffers of layers gathered under stage 3 are not included.

    References
    ----------
    .. [1] zero-2020
    """
    stage = np.asarray(zero_stage)
    return ModelState(
        weights=parameters * weight_bytes / np.where(stage >= 3.0, shards, 1.0),
        gradients=trained_fraction * parameters * gradient_bytes / np.where(stage >= 2.0, shards, 1.0),
        optimizer=trained_fraction * parameters * optimizer_bytes / np.where(stage >= 1.0, shards, 1.0),
    )


def activation_bytes(
    tokens: Numeric, shard_tokens: Numeric, whole_bytes: Numeric, divided_bytes: Numeric, tp: Numeric
) -> Numeric:
    r"""Activations of some operators that wait for their backward pass.

    .. math:: A = T_s w + \frac{T d}{t}

    Parameters
    ----------
    tokens : Numeric, shape (...)
        Tokens of the microbatch on this rank, after context parallelism, :math:`T`. [token]
    shard_tokens : Numeric, shape (...)
        Those it holds outside the tensor-parallel region: :math:`T / t` under Megatron sequence parallelism, else all,
        :math:`T_s`. [token]
    whole_bytes : Numeric, shape (...)
        Bytes per token that tensor parallelism leaves whole, :math:`w`. [B]
    divided_bytes : Numeric, shape (...)
        Bytes per token that tensor parallelism divides, :math:`d`. [B]
    tp : Numeric, shape (...)
        Tensor-parallel degree, :math:`t` >= 1. [1]

    Returns
    -------
    Numeric, shape (...)
        Bytes of one layer and microbatch. [B]

    Notes
    -----
    Validity: any extents >= 0.

    References
    ----------
    .. [1] korthikanti-2022
    """
    return shard_tokens * whole_bytes + tokens * divided_bytes / tp


def block_whole_bytes(
    hidden_size: Numeric,
    element_bytes: Numeric,
    dropout: Numeric,
    block_input: Numeric = 1.0,
    normed: Numeric = 1.0,
) -> Numeric:
    r"""Bytes per token of an attention or MLP block that tensor parallelism leaves whole.

    .. math:: w = h (b (k_i + k_n) + d)

    Parameters
    ----------
    hidden_size : Numeric, shape (...)
        Elements of a token, :math:`h`. [1]
    element_bytes : Numeric, shape (...)
        Width of an element, :math:`b`. [B]
    dropout : Numeric, shape (...)
        1 where the block ends in dropout and its mask of one byte is kept, else 0, :math:`d`. [1]
    block_input : Numeric, shape (...)
        1 where the input of the norm is kept, 0 where it is computed again, :math:`k_i`. [1]
    normed : Numeric, shape (...)
        1 where the input of the first matrix is kept, else 0, :math:`k_n`. [1]

    Returns
    -------
    Numeric, shape (...)
        Input of the norm, input of the first matrix, mask. [B]

    Notes
    -----
    Validity: pre-norm blocks.

    References
    ----------
    .. [1] korthikanti-2022
    """
    return hidden_size * (element_bytes * (block_input + normed) + dropout)


def attention_divided_bytes(
    query_size: Numeric, key_size: Numeric, value_size: Numeric, context_size: Numeric, element_bytes: Numeric
) -> Numeric:
    r"""Bytes per token of an attention block that tensor parallelism divides, scores apart.

    .. math:: d = b (q + k + v + c)

    Parameters
    ----------
    query_size : Numeric, shape (...)
        Query elements of a token, all heads, :math:`q`. [1]
    key_size : Numeric, shape (...)
        Key elements of a token, all heads with the copies of replication, :math:`k`. [1]
    value_size : Numeric, shape (...)
        Value elements of a token, all heads with the copies of replication, :math:`v`. [1]
    context_size : Numeric, shape (...)
        Elements of the output matrix's input, :math:`c`. [1]
    element_bytes : Numeric, shape (...)
        Width of an element, :math:`b`. [B]

    Returns
    -------
    Numeric, shape (...)
        Queries, keys, values, context. [B]

    Notes
    -----
    Validity: flash attention keeps the same tensors, and statistics of 4 B per token and head that are left out.

    References
    ----------
    .. [1] korthikanti-2022
    .. [2] flash-attention
    """
    return element_bytes * (query_size + key_size + value_size + context_size)


def score_divided_bytes(
    num_heads: Numeric, context_tokens: Numeric, element_bytes: Numeric, dropout: Numeric
) -> Numeric:
    r"""Bytes per token of attention scores kept without flash attention and without selective recompute.

    .. math:: d = a s \left( b + d_o (1 + b) \right)

    Parameters
    ----------
    num_heads : Numeric, shape (...)
        Query heads, :math:`a`. [1]
    context_tokens : Numeric, shape (...)
        Tokens that a row of scores spans, :math:`s`. [token]
    element_bytes : Numeric, shape (...)
        Width of an element, :math:`b`. [B]
    dropout : Numeric, shape (...)
        1 where the scores have dropout (a mask and a copy), else 0, :math:`d_o`. [1]

    Returns
    -------
    Numeric, shape (...)
        Softmax output, mask, dropped copy. [B]

    Notes
    -----
    Validity: full rows, as the reference's 5·a·s²·b (the causal half is not exploited there).

    References
    ----------
    .. [1] korthikanti-2022
    """
    return num_heads * context_tokens * (element_bytes + dropout * (1.0 + element_bytes))


def mlp_divided_bytes(
    ffn_size: Numeric, gated: Numeric, element_bytes: Numeric, inputs: Numeric = 1.0, outputs: Numeric = 1.0
) -> Numeric:
    r"""Bytes per token of an MLP that tensor parallelism divides.

    .. math:: d = b f \left( k_i (1 + g) + k_o \right)

    Parameters
    ----------
    ffn_size : Numeric, shape (...)
        Elements of the intermediate vector, :math:`f`; for experts, of all that a token visits. [1]
    gated : Numeric, shape (...)
        1 where gate and up are both kept, else 0, :math:`g`. [1]
    element_bytes : Numeric, shape (...)
        Width of an element, :math:`b`. [B]
    inputs : Numeric, shape (...)
        1 where gate and up are kept, 0 where they are computed again, :math:`k_i`. [1]
    outputs : Numeric, shape (...)
        1 where the function's output is kept, else 0, :math:`k_o`. [1]

    Returns
    -------
    Numeric, shape (...)
        Inputs and output of the activation function. [B]

    Notes
    -----
    Validity: any extents >= 0.

    References
    ----------
    .. [1] korthikanti-2022
    """
    return element_bytes * ffn_size * (inputs * (1.0 + gated) + outputs)


def logits_bytes(tokens: Numeric, vocab_size: Numeric, tp: Numeric, element_bytes: Numeric) -> Numeric:
    r"""Logits of one microbatch on one rank.

    .. math:: A = \frac{T V b}{t}

    Parameters
    ----------
    tokens : Numeric, shape (...)
        Tokens, :math:`T`. [token]
    vocab_size : Numeric, shape (...)
        Vocabulary, :math:`V`. [1]
    tp : Numeric, shape (...)
        Tensor-parallel degree that divides the head, :math:`t` >= 1. [1]
    element_bytes : Numeric, shape (...)
        Width of a logit, :math:`b`. [B]

    Returns
    -------
    Numeric, shape (...)
        Bytes. [B]

    Notes
    -----
    Validity: vocabulary divided along its columns; padding left out.

    References
    ----------
    .. [1] megatron-sc21
    """
    return tokens * vocab_size / tp * element_bytes
