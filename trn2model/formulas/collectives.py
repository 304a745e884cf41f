r"""Closed forms of collectives: latency plus bytes over rate (the alpha-beta model).

Message sizes are counted as nccom-test does: the buffer per rank of an all-reduce, the gathered output of an
all-gather, the input of a reduce-scatter, the send buffer of an all-to-all.
"""

from __future__ import annotations

import numpy as np

from trn2model.formulas import Numeric


def ring_gather_time(message_bytes: Numeric, group_size: Numeric, bandwidth: Numeric, hop_latency: Numeric) -> Numeric:
    r"""Time of a ring all-gather, or of a ring reduce-scatter.

    .. math:: t = (n-1)\,\alpha + \frac{n-1}{n}\,\frac{m}{\beta}

    Parameters
    ----------
    message_bytes : Numeric, shape (...)
        Gathered output, or scattered input, per rank, :math:`m`. [B]
    group_size : Numeric, shape (...)
        Members, :math:`n`, >= 1; 1 costs nothing. [1]
    bandwidth : Numeric, shape (...)
        What a rank sends to its neighbour, one direction, :math:`\beta`. [B/s]
    hop_latency : Numeric, shape (...)
        Per step, :math:`\alpha`. [s]

    Returns
    -------
    Numeric, shape (...)
        Broadcast of the inputs. [s]

    Notes
    -----
    Validity: links between neighbours carry nothing else; reductions cost no time.

    References
    ----------
    .. [1] thakur-2005
    """
    steps = group_size - 1.0
    return steps * hop_latency + steps / group_size * message_bytes / bandwidth


def ring_all_reduce_time(
    message_bytes: Numeric, group_size: Numeric, bandwidth: Numeric, hop_latency: Numeric
) -> Numeric:
    r"""Time of a ring all-reduce: a reduce-scatter and an all-gather.

    .. math:: t = 2 (n-1)\,\alpha + 2\,\frac{n-1}{n}\,\frac{m}{\beta}

    Parameters
    ----------
    message_bytes : Numeric, shape (...)
        Buffer per rank, :math:`m`. [B]
    group_size : Numeric, shape (...)
        Members, :math:`n`, >= 1; 1 costs nothing. [1]
    bandwidth : Numeric, shape (...)
        What a rank sends to its neighbour, one direction, :math:`\beta`. [B/s]
    hop_latency : Numeric, shape (...)
        Per step, :math:`\alpha`. [s]

    Returns
    -------
    Numeric, shape (...)
        Broadcast of the inputs. [s]

    Notes
    -----
    Validity: as `ring_gather_time`.

    References
    ----------
    .. [1] thakur-2005

    Examples
    --------
    >>> round(ring_all_reduce_time(64e6, 8.0, 300e9, 0.0) * 1e6, 1)
    373.3
    """
    return 2.0 * ring_gather_time(message_bytes, group_size, bandwidth, hop_latency)


def rdh_gather_time(message_bytes: Numeric, group_size: Numeric, bandwidth: Numeric, hop_latency: Numeric) -> Numeric:
    r"""Time of a recursive-doubling all-gather, or of a recursive-halving reduce-scatter.

    .. math:: t = \log_2 n\,\alpha + \frac{n-1}{n}\,\frac{m}{\beta}

    Parameters
    ----------
    message_bytes : Numeric, shape (...)
        Gathered output, or scattered input, per rank, :math:`m`. [B]
    group_size : Numeric, shape (...)
        Members, :math:`n`, a power of two. [1]
    bandwidth : Numeric, shape (...)
        Between the partners of a step, one direction, :math:`\beta`. [B/s]
    hop_latency : Numeric, shape (...)
        Per step, :math:`\alpha`. [s]

    Returns
    -------
    Numeric, shape (...)
        Broadcast of the inputs. [s]

    Notes
    -----
    Validity: partners of every step are joined by a link of their own, as on a hypercube.

    References
    ----------
    .. [1] thakur-2005
    """
    return np.log2(group_size) * hop_latency + (group_size - 1.0) / group_size * message_bytes / bandwidth


def mesh_gather_time(message_bytes: Numeric, link_share: Numeric, bandwidth: Numeric, hop_latency: Numeric) -> Numeric:
    r"""Time of a single routed step.

    .. math:: t = \alpha + s\,\frac{m}{\beta}

    Parameters
    ----------
    message_bytes : Numeric, shape (...)
        Message, :math:`m`. [B]
    link_share : Numeric, shape (...)
        Bytes on the busiest link per byte of the message, :math:`s`: (n-1)/n into a switch, 1/2 on a 4x4 torus. [1]
    bandwidth : Numeric, shape (...)
        Of a link, one direction, :math:`\beta`. [B/s]
    hop_latency : Numeric, shape (...)
        Of the step, :math:`\alpha`. [s]

    Returns
    -------
    Numeric, shape (...)
        Broadcast of the inputs. [s]

    Notes
    -----
    Validity: the busiest link decides; routing through other chips adds no latency.

    References
    ----------
    .. [1] neuron-collectives
    """
    return hop_latency + link_share * message_bytes / bandwidth


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
