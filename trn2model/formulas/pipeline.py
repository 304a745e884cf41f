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


def one_forward_one_backward_time(
    forward_time: Numeric,
    backward_time: Numeric,
    before: Numeric,
    after: Numeric,
    later_stages: Numeric,
    interleave: Numeric,
    num_microbatches: Numeric,
) -> Numeric:
    r"""Time of a 1F1B pipeline that one stage paces; the pipeline takes the largest over its stages.

    .. math::
        t = m (f + b) + \frac{A + i_f + i_b}{v}, \quad
        i_f = \max(0, D - n f), \; i_b = \max(0, D - n b), \; n = \min(q, m - 1)

    With no more microbatches than stages from this one on, the two waits are one: the larger counts.

    Parameters
    ----------
    forward_time : Numeric, shape (...)
        Forward of one microbatch on the stage, :math:`f`. [s]
    backward_time : Numeric, shape (...)
        Backward of one microbatch on the stage, :math:`b`. [s]
    before : Numeric, shape (...)
        Forward and backward of one microbatch on all stages before it, :math:`A`. [s]
    after : Numeric, shape (...)
        The same on all stages after it, :math:`D`. [s]
    later_stages : Numeric, shape (...)
        Stages after it, :math:`q`. [1]
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
    The stage starts when the stages before have passed one microbatch on, waits for its first backward with n
    forwards to do and for its last one with n backwards to do, and hands the last backward to the stages before.

    Validity: one chunk: never above the schedule run task by task, and equal to it for equal stages and for the
    uneven ones that an embedding, a head and a remainder of layers make; where the backward is in proportion to the
    forward the schedule takes at most m times the slowest stage plus all the others. Interleaved: equal for equal
    stages when p divides m; else both lie between max over stages of m (f + b) + A / v and (m + (p - 1) / v) times
    the slowest stage.

    References
    ----------
    .. [1] megatron-sc21
    """
    ahead = np.minimum(later_stages, num_microbatches - 1.0)
    first_wait = np.maximum(0.0, after - ahead * forward_time)
    last_wait = np.maximum(0.0, after - ahead * backward_time)
    apart = np.greater(num_microbatches, later_stages + 1.0)
    wait = np.where(apart, first_wait + last_wait, np.maximum(first_wait, last_wait))
    return num_microbatches * (forward_time + backward_time) + (before + wait) / interleave


def gpipe_time(
    forward_max: Numeric,
    backward_max: Numeric,
    forward_sum: Numeric,
    backward_sum: Numeric,
    num_microbatches: Numeric,
) -> Numeric:
    r"""Time of a GPipe pipeline: all forwards pass the stages, then all backwards.

    .. math:: t = \sum_i (f_i + b_i) + (m - 1) (\max_i f_i + \max_i b_i)

    Parameters
    ----------
    forward_max : Numeric, shape (...)
        Forward of one microbatch on the stage that takes longest for it, :math:`\max f`. [s]
    backward_max : Numeric, shape (...)
        Backward of one microbatch on the stage that takes longest for it, :math:`\max b`. [s]
    forward_sum : Numeric, shape (...)
        Forward of one microbatch over all stages. [s]
    backward_sum : Numeric, shape (...)
        Backward of one microbatch over all stages. [s]
    num_microbatches : Numeric, shape (...)
        Microbatches, :math:`m` >= 1. [1]

    Returns
    -------
    Numeric, shape (...)
        From the first forward to the last backward. [s]

    Notes
    -----
    Validity: exact for any stages.

    References
    ----------
    .. [1] gpipe
    """
    return forward_sum + backward_sum + (num_microbatches - 1.0) * (forward_max + backward_max)


def zero_bubble_time(
    forward_time: Numeric,
    input_gradient_time: Numeric,
    weight_gradient_time: Numeric,
    forward_before: Numeric,
    input_gradient_before: Numeric,
    after: Numeric,
    stage_index: Numeric,
    later_stages: Numeric,
    num_microbatches: Numeric,
) -> Numeric:
    r"""Time of a ZB-H1 pipeline that one stage paces; the pipeline takes the largest over its stages.

    .. math::
        t = m (t_F + t_B + t_W) + F_A + \max(0, D - n t_F) + \max(0, B_A - \min(i, m) t_W)

    Equal stages: :math:`m (t_F + t_B + t_W) + (p - 1) \max(t_F + \max(0, t_B - t_W), t_B)`.

    Parameters
    ----------
    forward_time : Numeric, shape (...)
        Forward of one microbatch on the stage, :math:`t_F`. [s]
    input_gradient_time : Numeric, shape (...)
        Its input gradient, :math:`t_B`. [s]
    weight_gradient_time : Numeric, shape (...)
        Its weight gradient, :math:`t_W`. [s]
    forward_before : Numeric, shape (...)
        Forward of one microbatch on all stages before it, :math:`F_A`. [s]
    input_gradient_before : Numeric, shape (...)
        Input gradient of one microbatch on all stages before it, :math:`B_A`. [s]
    after : Numeric, shape (...)
        Forward and input gradient of one microbatch on all stages after it, :math:`D`. [s]
    stage_index : Numeric, shape (...)
        Stage, 0 first, :math:`i`: weight gradients that are left when its last input gradient is done. [1]
    later_stages : Numeric, shape (...)
        Stages after it. [1]
    num_microbatches : Numeric, shape (...)
        Microbatches, :math:`m`. [1]

    Returns
    -------
    Numeric, shape (...)
        From the first forward to the last weight gradient. [s]

    Notes
    -----
    Validity: exact for equal stages and :math:`m \ge p`; within 3 % of the schedule run task by task on stages that
    differ by up to a factor of 6, and below it by at most 7 % for fewer microbatches than stages. The reference
    prints the case in which the weight gradient is no longer than forward and input gradient.

    References
    ----------
    .. [1] zero-bubble
    """
    ahead = np.minimum(later_stages, num_microbatches - 1.0)
    first_wait = np.maximum(0.0, after - ahead * forward_time)
    left = np.minimum(stage_index, num_microbatches) * weight_gradient_time
    tail = np.maximum(0.0, input_gradient_before - left)
    work = forward_time + input_gradient_time + weight_gradient_time
    return num_microbatches * work + forward_before + first_wait + tail


def exposed_transfers(
    transfer_time: Numeric,
    slack: Numeric,
    pp: Numeric,
    interleave: Numeric,
    num_microbatches: Numeric,
    repeats: Numeric,
    chains: Numeric,
) -> tuple[Numeric, Numeric]:
    r"""Point-to-point transfers between stages that delay a pipeline.

    .. math::
        steady = r \tfrac{m}{p} \max(0, \; 2 (p - 1) x - s), \quad
        fill = 2 r (p - 2) x + 2 (1 - r) c (p v - 1) x

    Parameters
    ----------
    transfer_time : Numeric, shape (...)
        One transfer of one microbatch between two stages, :math:`x`; 0 with one stage. [s]
    slack : Numeric, shape (...)
        What the other stages are shorter than the slowest, over all stages and one microbatch, :math:`s`. [s]
    pp : Numeric, shape (...)
        Stages, :math:`p` >= 1. [1]
    interleave : Numeric, shape (...)
        Chunks per stage, :math:`v` >= 1. [1]
    num_microbatches : Numeric, shape (...)
        Microbatches, :math:`m` >= 1. [1]
    repeats : Numeric, shape (...)
        1 where every round waits for its transfers (1F1B with one chunk), else 0, :math:`r`. [1]
    chains : Numeric, shape (...)
        How often the first microbatch's way through all stages is waited for: 1 for GPipe and interleaved 1F1B, 2
        for ZB-H1, :math:`c`. [1]

    Returns
    -------
    steady : Numeric, shape (...)
        Over all microbatches. [s]
    fill : Numeric, shape (...)
        Once in a step. [s]

    Notes
    -----
    A microbatch comes back to a stage of 1F1B p microbatches later: its way there and back, transfers included, is
    waited for as far as it exceeds the slowest stage's p turns.

    Validity: equal stages exactly where p divides m and transfers are short beside a chunk's time; transfers never
    occupy a stage.

    References
    ----------
    .. [1] megatron-sc21
    """
    round_trip = np.maximum(2.0 * (pp - 1.0) * transfer_time - slack, 0.0)
    ends = 2.0 * np.maximum(pp - 2.0, 0.0)
    fill = repeats * ends + (1.0 - repeats) * chains * 2.0 * (pp * interleave - 1.0)
    return repeats * num_microbatches / pp * round_trip, fill * transfer_time


def in_flight_microbatches(
    pp: Numeric, stage_index: Numeric, interleave: Numeric, num_microbatches: Numeric
) -> Numeric:
    r"""Microbatches whose activations a stage of 1F1B holds at its peak; GPipe holds all of them.

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
