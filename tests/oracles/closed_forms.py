"""Textbook times of collectives on one group of equal links, to which the routed model must reduce."""

from __future__ import annotations

import math


def ring_gather_time(message_bytes: float, group_size: float, bandwidth: float, hop_latency: float) -> float:
    """All-gather or reduce-scatter by a ring: n-1 steps of a chunk each [s]."""
    return (group_size - 1.0) * (hop_latency + message_bytes / group_size / bandwidth)


def ring_all_reduce_time(message_bytes: float, group_size: float, bandwidth: float, hop_latency: float) -> float:
    """Reduce-scatter, then all-gather [s]."""
    return 2.0 * ring_gather_time(message_bytes, group_size, bandwidth, hop_latency)


def rdh_gather_time(message_bytes: float, group_size: float, bandwidth: float, hop_latency: float) -> float:
    """All-gather by recursive doubling: log2 n steps, as many bytes as a ring [s]."""
    return math.log2(group_size) * hop_latency + (group_size - 1.0) / group_size * message_bytes / bandwidth


def mesh_gather_time(message_bytes: float, link_share: float, bandwidth: float, hop_latency: float) -> float:
    """All-gather in one step whose busiest link carries a share of the message [s]."""
    return hop_latency + link_share * message_bytes / bandwidth
