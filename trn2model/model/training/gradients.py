"""Gradients and sharded weights between replicas: link time, and what backward and forward cannot hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trn2model.formulas import Numeric
from trn2model.model.stages import ParameterShare
from trn2model.network.cost import ACROSS, INSIDE, WHOLE, CollectiveCost, Network
from trn2model.network.loads import CommunicationUse
from trn2model.specs.numerics import Optimizer
from trn2model.specs.resolve import Resolved

#: Keeps the exposed share of nothing finite. [s]
_TINY_TIME: Final = 1e-30


@dataclass(frozen=True, slots=True)
class Windows:
    """Time of one microbatch on the heaviest stage in which the links are free while engines compute."""

    forward: Numeric  # shape (...) [s]
    backward: Numeric  # shape (...) [s]


def gradient_exchange(
    resolved: Resolved,
    shares: Sequence[ParameterShare],
    network: Network,
    *,
    optimizer: Optimizer,
    windows: Windows,
) -> list[CommunicationUse]:
    r"""Collectives over the data-parallel groups in one step.

    ZeRO 0 reduces gradients to all behind the last backward pass; 1 scatters them there and gathers updated weights
    behind the first forward pass; 2 does not hold whole gradients, so it scatters them in every microbatch; 3 gathers
    weights for forward and for backward of every microbatch too. Where ZeRO shards inside a domain, the shards of the
    gradients are reduced once more across the domains. Gradients leave in buckets while backward goes on, all but the
    share 1 - f that the last bucket makes:

    .. math:: t_{exposed} = \sum_i t_i - \min(f \sum_i t_i, t_{window})

    Notes
    -----
    Gathers of ZeRO 3 hide only with a prefetch of at least one layer; deeper prefetch holds more layers and hides no
    more, because layers are alike. What runs in every microbatch hides first; what runs once takes what is left.

    References
    ----------
    .. [1] zero-2020
    .. [2] fsdp-2023
    """
    exchanges = [
        e
        for share in shares
        if share.trained.any() or share.weight_bytes.any()
        for e in _of_share(share, resolved, network, optimizer)
    ]
    return [use for use in _uses(exchanges, resolved, network, windows) if np.any(use.link_time)]


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One operation on one share of the parameters."""

    share: ParameterShare  # whose gradients or weights move
    op: str  # as `network` names it
    scope: str  # whole, inside or across
    payload: Numeric  # of a call, shape (...) [B]
    forward: Numeric  # calls in the window of forward
    backward: Numeric  # calls in the window of backward
    recurs: bool = False  # in every microbatch, not once a step


def _of_share(share: ParameterShare, resolved: Resolved, network: Network, optimizer: Optimizer) -> list[_Exchange]:
    zero = resolved.plan.zero
    never = np.zeros_like(zero)
    masks = (zero < 1.0, zero == 1.0, zero >= 2.0, (zero >= 1.0) & (zero < 3.0), zero >= 3.0)
    whole, scattered, recurring, updates, gathers = (mask.astype(np.float64) for mask in masks)
    trained = share.trained.max(axis=0)
    gradients = trained * optimizer.gradient_bytes
    weights = share.weight_bytes.max(axis=0)
    exchanges = []
    if whole.any():
        exchanges.append(_Exchange(share, "all_reduce", WHOLE, gradients, never, whole))
    if scattered.any():
        exchanges.append(_Exchange(share, "reduce_scatter", INSIDE, gradients, never, scattered))
    if recurring.any():
        exchanges.append(_Exchange(share, "reduce_scatter", INSIDE, gradients, never, recurring, recurs=True))
    if updates.any():
        updated = weights * trained / np.maximum(share.parameters.max(axis=0), 1.0)
        exchanges.append(_Exchange(share, "all_gather", INSIDE, updated, updates, never))
    if gathers.any():
        exchanges.append(_Exchange(share, "all_gather", INSIDE, weights, gathers, gathers, recurs=True))
    sharded = scattered + recurring
    if network.zero_group != "all" and sharded.any():
        exchanges.append(_Exchange(share, "all_reduce", ACROSS, gradients / share.shards, never, sharded))
    return exchanges


def _uses(exchanges: list[_Exchange], resolved: Resolved, network: Network, windows: Windows) -> list[CommunicationUse]:
    microbatches = resolved.plan.num_microbatches
    fraction = resolved.profile.compute.dp_overlap_fraction * float(resolved.scenario.overlap)
    costs = [network.cost(e.share.axes, e.op, e.payload, e.scope) for e in exchanges]
    hideable = [
        0.0 if e.recurs and e.op == "all_gather" and resolved.scenario.fsdp_prefetch == 0 else fraction
        for e in exchanges
    ]
    exposed: list[Numeric] = [0.0 for _ in exchanges]
    for phase, window in (("forward", windows.forward), ("backward", windows.backward)):
        links = [getattr(e, phase) * c.time for e, c in zip(exchanges, costs, strict=True)]
        free: Numeric = window
        for recurs in (True, False):
            mine = [i for i, e in enumerate(exchanges) if e.recurs == recurs]
            total: Numeric = sum((hideable[i] * links[i] for i in mine), 0.0)
            hidden = np.minimum(total, free)
            kept = hidden / np.maximum(total, _TINY_TIME)
            free = free - hidden
            for i in mine:
                exposed[i] = exposed[i] + links[i] - kept * hideable[i] * links[i]
    return [
        _use(e, cost, part, repeats=microbatches if e.recurs else 1.0, cut=network.zero_group != "all")
        for e, cost, part in zip(exchanges, costs, exposed, strict=True)
    ]


def _use(
    exchange: _Exchange, cost: CollectiveCost, exposed: Numeric, *, repeats: Numeric, cut: bool
) -> CommunicationUse:
    count = repeats * (exchange.forward + exchange.backward)
    return CommunicationUse(
        axis="dp" if "ep" in exchange.share.axes else "dp (experts)",
        op=exchange.op,
        bytes=exchange.payload,
        count=count,
        algorithm=cost.algorithm,
        link_time=count * cost.time,
        exposed_time=repeats * exposed,
        busbw=cost.busbw,
        scope=exchange.scope if cut else WHOLE,
    )
