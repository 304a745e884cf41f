r"""Money and failures: cost per token, cost of a training run, checkpoint interval and goodput."""

from __future__ import annotations

from typing import Final

import numpy as np

from trn2model.formulas import Numeric

SECONDS_PER_HOUR: Final = 3600.0

#: Largest exponent used: one part in exp(300) is as good as never, and the product of two still is a number.
LARGEST_EXPONENT: Final = 300.0


def cost_per_token(usd_per_hour: Numeric, tokens_per_second: Numeric) -> Numeric:
    r"""Price of one token.

    .. math:: c = \frac{P}{3600 \, r}

    Parameters
    ----------
    usd_per_hour : Numeric, shape (...)
        Price of everything rented, :math:`P`. [USD/h]
    tokens_per_second : Numeric, shape (...)
        Throughput of everything rented, :math:`r` > 0. [token/s]

    Returns
    -------
    Numeric, shape (...)
        Price per token. [USD]

    Notes
    -----
    Validity: the machine is busy for all the time it is paid for.

    References
    ----------
    .. [1] jax-scaling-book
    """
    return usd_per_hour / (SECONDS_PER_HOUR * tokens_per_second)


def training_time(tokens: Numeric, tokens_per_second: Numeric, goodput: Numeric = 1.0) -> Numeric:
    r"""Time to train on a number of tokens.

    .. math:: t = \frac{N}{r g}

    Parameters
    ----------
    tokens : Numeric, shape (...)
        Tokens to train on, :math:`N`. [token]
    tokens_per_second : Numeric, shape (...)
        Throughput between failures, :math:`r` > 0. [token/s]
    goodput : Numeric, shape (...)
        Share of the time that is useful, :math:`g`, above 0. [1]

    Returns
    -------
    Numeric, shape (...)
        Wall time. [s]

    Notes
    -----
    Validity: steady throughput.

    References
    ----------
    .. [1] daly-2006
    """
    return tokens / (tokens_per_second * goodput)


def training_cost(
    usd_per_hour: Numeric, tokens: Numeric, tokens_per_second: Numeric, goodput: Numeric = 1.0
) -> Numeric:
    r"""Price of training on a number of tokens.

    .. math:: C = \frac{P N}{3600 \, r g}

    Parameters
    ----------
    usd_per_hour : Numeric, shape (...)
        Price of everything rented, :math:`P`. [USD/h]
    tokens : Numeric, shape (...)
        Tokens to train on, :math:`N`. [token]
    tokens_per_second : Numeric, shape (...)
        Throughput between failures, :math:`r` > 0. [token/s]
    goodput : Numeric, shape (...)
        Share of the time that is useful, :math:`g`, above 0. [1]

    Returns
    -------
    Numeric, shape (...)
        Price. [USD]

    Notes
    -----
    Validity: steady throughput; storage and network traffic are left out.

    References
    ----------
    .. [1] daly-2006
    """
    return usd_per_hour / SECONDS_PER_HOUR * training_time(tokens, tokens_per_second, goodput)


def system_mtbf(component_mtbf: Numeric, num_components: Numeric) -> Numeric:
    r"""Mean time between failures of a job that any component's failure stops.

    .. math:: M = \frac{M_1}{n}

    Parameters
    ----------
    component_mtbf : Numeric, shape (...)
        Mean time between failures of one component, :math:`M_1`. [s]
    num_components : Numeric, shape (...)
        Components, :math:`n` >= 1. [1]

    Returns
    -------
    Numeric, shape (...)
        Mean time between failures. [s]

    Notes
    -----
    Validity: independent components with exponential lifetimes.

    References
    ----------
    .. [1] daly-2006
    """
    return component_mtbf / num_components


def young_checkpoint_interval(checkpoint_time: Numeric, mtbf: Numeric) -> Numeric:
    r"""Work between two checkpoints, first-order optimum.

    .. math:: \tau = \sqrt{2 \delta M}

    Parameters
    ----------
    checkpoint_time : Numeric, shape (...)
        Time that writing a checkpoint stops the job, :math:`\delta`. [s]
    mtbf : Numeric, shape (...)
        Mean time between failures of the job, :math:`M` > 0. [s]

    Returns
    -------
    Numeric, shape (...)
        Interval without the checkpoint itself. [s]

    Notes
    -----
    Validity: checkpoint time far below the mean time between failures.

    References
    ----------
    .. [1] young-1974
    """
    return np.sqrt(2.0 * checkpoint_time * mtbf)


def optimal_checkpoint_interval(checkpoint_time: Numeric, mtbf: Numeric) -> Numeric:
    r"""Work between two checkpoints that loses least time to checkpoints and failures (Daly).

    .. math::
        \tau = \begin{cases}
            \sqrt{2 \delta M} \left( 1 + \tfrac{1}{3} \sqrt{\tfrac{\delta}{2 M}} + \tfrac{\delta}{18 M} \right)
            - \delta & \delta < 2 M \\ M & \delta \ge 2 M \end{cases}

    Parameters
    ----------
    checkpoint_time : Numeric, shape (...)
        Time that writing a checkpoint stops the job, :math:`\delta`. [s]
    mtbf : Numeric, shape (...)
        Mean time between failures of the job, :math:`M` > 0. [s]

    Returns
    -------
    Numeric, shape (...)
        Interval without the checkpoint itself. [s]

    Notes
    -----
    Validity: exponential failures. Within 0.02 % of the best goodput for checkpoint times up to M.

    References
    ----------
    .. [1] young-1974
    .. [2] daly-2006
    """
    ratio = checkpoint_time / (2.0 * mtbf)
    root = np.sqrt(ratio)
    higher_order = young_checkpoint_interval(checkpoint_time, mtbf) * (1.0 + root / 3.0 + ratio / 9.0)
    return np.where(np.less(ratio, 1.0), higher_order - checkpoint_time, mtbf)


def goodput_fraction(interval: Numeric, checkpoint_time: Numeric, restart_time: Numeric, mtbf: Numeric) -> Numeric:
    r"""Share of the wall time that becomes progress, with checkpoints, failures and restarts.

    .. math:: g = \frac{\tau}{M e^{R/M} \left( e^{(\tau + \delta)/M} - 1 \right)}

    Parameters
    ----------
    interval : Numeric, shape (...)
        Work between two checkpoints, :math:`\tau` > 0. [s]
    checkpoint_time : Numeric, shape (...)
        Time that writing a checkpoint stops the job, :math:`\delta`. [s]
    restart_time : Numeric, shape (...)
        From a failure to work again, :math:`R`. [s]
    mtbf : Numeric, shape (...)
        Mean time between failures of the job, :math:`M` > 0. [s]

    Returns
    -------
    Numeric, shape (...)
        Between 0 and 1. [1]

    Notes
    -----
    Validity: exponential failures, which may also strike during checkpoint and restart; exponents above 300 count
    as 300.

    References
    ----------
    .. [1] daly-2006
    """
    segment = np.expm1(np.minimum((interval + checkpoint_time) / mtbf, LARGEST_EXPONENT))
    restart = np.exp(np.minimum(restart_time / mtbf, LARGEST_EXPONENT))
    return interval / (mtbf * restart * segment)
