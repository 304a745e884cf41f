r"""Closed forms of collectives: latency plus bytes over rate (the alpha-beta model).

Message sizes are counted as nccom-test does: the buffer per rank of an all-reduce, the gathered output of an
all-gather, the input of a reduce-scatter, the send buffer of an all-to-all.
"""

from __future__ import annotations

import numpy as np

from trn2model.formulas import Numeric


def busiest_resource_time(link_time: Numeric, chip_time: Numeric, hbm_time: Numeric, nic_time: Numeric) -> Numeric:
    r"""Transfer time of a step whose links, chip paths, HBM and network work at the same time.

    .. math:: t = \max(t_{link}, t_{chip}, t_{HBM}, t_{NIC})

    Parameters
    ----------
    link_time : Numeric, shape (...)
        Of the busiest link. [s]
    chip_time : Numeric, shape (...)
        Of the busiest path between the cores of a chip. [s]
    hbm_time : Numeric, shape (...)
        Of the reads and writes of the busiest chip. [s]
    nic_time : Numeric, shape (...)
        Of the busiest network interface. [s]

    Returns
    -------
    Numeric, shape (...)
        Broadcast of the inputs. [s]
    """
    return np.maximum(np.maximum(link_time, chip_time), np.maximum(hbm_time, nic_time))


def line_time(fixed_time: Numeric, seconds_per_byte: Numeric, message_bytes: Numeric) -> Numeric:
    r"""Time of a collective whose steps are known.

    .. math:: t = a + b\,m

    Parameters
    ----------
    fixed_time : Numeric, shape (...)
        Start and latencies, :math:`a`. [s]
    seconds_per_byte : Numeric, shape (...)
        Sum over the steps of the busiest resource's time per byte, :math:`b`. [s/B]
    message_bytes : Numeric, shape (...)
        Message, :math:`m`. [B]

    Returns
    -------
    Numeric, shape (...)
        Broadcast of the inputs. [s]
    """
    return fixed_time + seconds_per_byte * message_bytes


def bus_bandwidth(message_bytes: Numeric, time: Numeric, bus_factor: Numeric) -> Numeric:
    r"""Bus bandwidth as nccom-test prints it; 0 where nothing is sent.

    .. math:: B = f\,\frac{m}{t}

    Parameters
    ----------
    message_bytes : Numeric, shape (...)
        Message, :math:`m`. [B]
    time : Numeric, shape (...)
        Duration, :math:`t`, >= 0. [s]
    bus_factor : Numeric, shape (...)
        :math:`f`: 2(n-1)/n for an all-reduce, (n-1)/n for a gather, scatter or exchange, 1 for a permute. [1]

    Returns
    -------
    Numeric, shape (...)
        Broadcast of the inputs. [B/s]
    """
    none = time == 0.0
    return np.where(none, 0.0, bus_factor * message_bytes / np.where(none, 1.0, time))


def gather_bus_factor(group_size: Numeric) -> Numeric:
    r"""Bus factor of an all-gather, a reduce-scatter or an all-to-all; an all-reduce has twice as much.

    .. math:: f = \frac{n-1}{n}

    Parameters
    ----------
    group_size : Numeric, shape (...)
        Members, :math:`n`. [1]

    Returns
    -------
    Numeric, shape (...)
        Share of the message that crosses to other members. [1]
    """
    return (group_size - 1.0) / group_size
