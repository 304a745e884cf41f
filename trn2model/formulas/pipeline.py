r"""Pipeline schedules: bubbles, step time, and microbatches in flight.

========  ======================  ==========================================================
symbol    argument                meaning
========  ======================  ==========================================================
p         `pp`                    pipeline stages
v         `interleave`            chunks of layers per stage; 1 is plain 1F1B
m         `num_microbatches`      microbatches per step
i         `stage_index`           stage, 0 first
========  ======================  ==========================================================
"""

from __future__ import annotations

import numpy as np

from trn2model.formulas import Numeric


def bubble_fraction(pp: Numeric, interleave: Numeric, num_microbatches: Numeric) -> Numeric:
    r"""Share of the pipeline's time in which a stage idles; equal stages.

    .. math:: \beta = \frac{(p - 1) / v}{m + (p - 1) / v}

    Parameters
    ----------
    pp : Numeric, shape (...)
        Stages, :math:`p` >= 1. [1]
    interleave : Numeric, shape (...)
        Chunks per stage, :math:`v` >= 1. [1]
    num_microbatches : Numeric, shape (...)
        Microbatches, :math:`m` >= 1. [1]

    Returns
    -------
    Numeric, shape (...)
        Bubble over bubble plus compute. [1]

    Notes
    -----
    Validity: GPipe and 1F1B (v = 1), interleaved 1F1B; transfers cost nothing.

    References
    ----------
    .. [1] megatron-sc21
    """
    bubble = (pp - 1.0) / interleave
    return bubble / (num_microbatches + bubble)


def pipeline_time(
    stage_time_max: Numeric, stage_time_sum: Numeric, interleave: Numeric, num_microbatches: Numeric
) -> Numeric:
    r"""Time of a pipeline: the slowest stage does all microbatches, the others fill and drain once.

    .. math:: t = m \, t_{max} + \frac{t_{sum} - t_{max}}{v}

    Parameters
    ----------
    stage_time_max : Numeric, shape (...)
        Forward plus backward of one microbatch on the slowest stage, :math:`t_{max}`. [s]
    stage_time_sum : Numeric, shape (...)
        The same summed over all stages, :math:`t_{sum}`. [s]
    interleave : Numeric, shape (...)
        Chunks per stage, :math:`v` >= 1. [1]
    num_microbatches : Numeric, shape (...)
        Microbatches, :math:`m` >= 1. [1]

    Returns
    -------
    Numeric, shape (...)
        From the first forward to the last backward. [s]

    Notes
    -----
    Validity: exact for equal stages (1F1B, GPipe, interleaved when p divides m) and for GPipe when the slowest stage
    is slowest both ways. 1F1B with uneven stages takes no longer, and is shorter by at most the stages after the
    slowest one; exact when that is the last.

    References
    ----------
    .. [1] megatron-sc21
    """
    return num_microbatches * stage_time_max + (stage_time_sum - stage_time_max) / interleave


def in_flight_microbatches(
    pp: Numeric, stage_index: Numeric, interleave: Numeric, num_microbatches: Numeric
) -> Numeric:
    r"""Microbatches whose activations a stage of 1F1B holds at its peak.

    .. math::
        n = \min\left( m, \;
            \begin{cases} p - i & v = 1 \\ \left( 2 (p - i - 1) + (v - 1) p + 1 \right) / v & v > 1 \end{cases}
        \right)

    Parameters
    ----------
    pp : Numeric, shape (...)
        Stages, :math:`p` >= 1. [1]
    stage_index : Numeric, shape (...)
        Stage, :math:`0 \le i < p`. [1]
    interleave : Numeric, shape (...)
        Chunks per stage, :math:`v` >= 1. [1]
    num_microbatches : Numeric, shape (...)
        Microbatches, :math:`m` >= 1. [1]

    Returns
    -------
    Numeric, shape (...)
        In units of all layers of the stage: chunks in flight over chunks per stage. [1]

    Notes
    -----
    Validity: p divides m where interleaved. On the first stage of an interleaved schedule it is
    :math:`p (1 + (p-1)/(p v))`, the factor of the reference.

    References
    ----------
    .. [1] korthikanti-2022
    .. [2] megatron-sc21
    """
    later_stages = pp - stage_index - 1.0
    chunks = 2.0 * later_stages + (interleave - 1.0) * pp + 1.0
    in_flight = np.where(np.greater(interleave, 1.0), chunks / interleave, later_stages + 1.0)
    return np.minimum(num_microbatches, in_flight)


def gpipe_in_flight_microbatches(num_microbatches: Numeric) -> Numeric:
    r"""Microbatches whose activations a stage of GPipe holds at its peak: all of them.

    .. math:: n = m

    Parameters
    ----------
    num_microbatches : Numeric, shape (...)
        Microbatches, :math:`m` >= 1. [1]

    Returns
    -------
    Numeric, shape (...)
        In units of all layers of the stage. [1]

    Notes
    -----
    Validity: all forward passes before the first backward pass.

    References
    ----------
    .. [1] gpipe
    """
    return np.multiply(num_microbatches, 1.0)


def zero_bubble_time(
    pp: Numeric, forward_time: Numeric, input_gradient_time: Numeric, weight_gradient_time: Numeric
) -> Numeric:
    r"""Idle time of a stage under the zero-bubble schedule ZB-H1; equal stages.

    .. math:: b = (p - 1) \left( t_F + \max(0, \; t_B - t_W) \right)

    Parameters
    ----------
    pp : Numeric, shape (...)
        Stages, :math:`p` >= 1. [1]
    forward_time : Numeric, shape (...)
        Forward of one microbatch on one stage, :math:`t_F`. [s]
    input_gradient_time : Numeric, shape (...)
        Its input gradient, :math:`t_B`. [s]
    weight_gradient_time : Numeric, shape (...)
        Its weight gradient, :math:`t_W`. [s]

    Returns
    -------
    Numeric, shape (...)
        Bubble; 1F1B has :math:`(p - 1)(t_F + t_B + t_W)`. [s]

    Notes
    -----
    Validity: :math:`m \ge p`; peak activations as 1F1B; no barrier around the optimizer. The reference prints the
    case :math:`t_W \le t_B`; a longer weight gradient cannot hide the forward fill.

    References
    ----------
    .. [1] zero-bubble
    """
    return (pp - 1.0) * (forward_time + np.maximum(0.0, input_gradient_time - weight_gradient_time))


def layers_on_heaviest_stage(num_layers: Numeric, pp: Numeric, interleave: Numeric) -> Numeric:
    r"""Layers that the fullest stage holds when the remainder goes to the first chunks.

    .. math::
        n = v q + \left\lceil \frac{L - p v q}{p} \right\rceil = \left\lceil \tfrac{L}{p} \right\rceil, \quad
        q = \left\lfloor \tfrac{L}{p v} \right\rfloor

    Parameters
    ----------
    num_layers : Numeric, shape (...)
        Layers, :math:`L`. [1]
    pp : Numeric, shape (...)
        Stages, :math:`p` >= 1. [1]
    interleave : Numeric, shape (...)
        Chunks per stage, :math:`v` >= 1; chunk j of stage i is the (j p + i)-th. [1]

    Returns
    -------
    Numeric, shape (...)
        Layers. [1]

    Notes
    -----
    Validity: whole numbers. The same for every interleave; the largest chunk is `layers_in_largest_chunk`.

    References
    ----------
    .. [1] megatron-sc21
    """
    even = np.floor(num_layers / (pp * interleave))
    return interleave * even + np.ceil((num_layers - pp * interleave * even) / pp)


def layers_in_largest_chunk(num_layers: Numeric, pp: Numeric, interleave: Numeric) -> Numeric:
    r"""Layers of the largest chunk, which paces an interleaved schedule.

    .. math:: n = \left\lceil \frac{L}{p v} \right\rceil

    Parameters
    ----------
    num_layers : Numeric, shape (...)
        Layers, :math:`L`. [1]
    pp : Numeric, shape (...)
        Stages, :math:`p` >= 1. [1]
    interleave : Numeric, shape (...)
        Chunks per stage, :math:`v` >= 1. [1]

    Returns
    -------
    Numeric, shape (...)
        Layers. [1]

    Notes
    -----
    Validity: whole numbers.

    References
    ----------
    .. [1] megatron-sc21
    """
    return np.ceil(num_layers / (pp * interleave))
