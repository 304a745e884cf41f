"""Gradients and sharded weights between replicas: link time, and what backward and forward cannot hide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trn2model.estimate.model_states import ParameterShare
from trn2model.estimate.network import Network
from trn2model.estimate.result import CommunicationUse
from trn2model.formulas import Numeric
from trn2model.specs.optimizer import Optimizer

#: Keeps the exposed share of nothing finite. [s]
_TINY_TIME: Final = 1e-30


@dataclass(frozen=True, slots=True)
class Windows:
    """Time of one microbatch on the heaviest stage, in seconds, in which the links are free while engines compute."""

    forward: Numeric
    backward: Numeric


def gradient_exchange(
    shares: tuple[ParameterShare, ...], network: Network, optimizer: Optimizer, windows: Windows
) -> list[CommunicationUse]:
    r"""Collectives over the data-parallel groups in one step.

    ZeRO 0 reduces gradients to all behind the last backward pass; 1 and 2 scatter them there and gather updated
    weights behind the first forward pass; 3 gathers weights for forward and for backward and scatters gradients in
    every microbatch. What shares a window shares its time:

    .. math:: t_{exposed} = \sum_i t_i - \min(f \sum_i t_i, t_{window})

    Parameters
    ----------
    shares : tuple of ParameterShare
        Parameters by the group that replicates them.
    network : Network
        Where groups sit.
    optimizer : Optimizer
        Bytes of a gradient.
    windows : Windows
        Free time of one microbatch.

    Returns
    -------
    list of CommunicationUse
        One entry per group and operation that some plan uses.

    References
    ----------
    .. [1] zero-2020
    """
    plan = network.resolved.plan
    scatter, always = np.where(plan.zero >= 1.0, 1.0, 0.0), np.where(plan.zero >= 3.0, 1.0, 0.0)
    never = np.zeros(plan.shape)
    exchanges: list[_Exchange] = []
    for share in shares:
        gradients = share.parameters.max(axis=0) * optimizer.gradient_bytes
        weights = share.weight_bytes.max(axis=0)
        if not gradients.any():
            continue
        exchanges += [
            _Exchange(share, "all_reduce", gradients, never, np.where(plan.zero >= 1.0, 0.0, 1.0)),
            _Exchange(share, "reduce_scatter", gradients, never, scatter),
            _Exchange(share, "all_gather", weights, scatter, always),
        ]
    used = [e for e in exchanges if np.any(e.forward + e.backward)]
    return _uses(used, network, windows, np.where(plan.zero >= 3.0, plan.num_microbatches, 1.0))


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One operation on one share: payload, and calls per window of forward and of backward."""

    share: ParameterShare
    op: str
    payload: Numeric
    forward: Numeric
    backward: Numeric


def _uses(exchanges: list[_Exchange], network: Network, windows: Windows, repeats: Numeric) -> list[CommunicationUse]:
    overlap = network.resolved.profile.constants.dp_overlap_fraction
    costs = [network.cost(e.share.axes, e.op, e.payload) for e in exchanges]
    shown = {}
    for name, window in (("forward", windows.forward), ("backward", windows.backward)):
        link = np.sum([getattr(e, name) * c.time for e, c in zip(exchanges, costs, strict=True)], axis=0)
        shown[name] = 1.0 - np.minimum(overlap * link, window) / np.maximum(link, _TINY_TIME)
    return [
        CommunicationUse(
            axis="dp" if "ep" in e.share.axes else "dp (experts)",
            op=e.op,
            bytes=e.payload,
            count=repeats * (e.forward + e.backward),
            algorithm=cost.algorithm,
            link_time=repeats * (e.forward + e.backward) * cost.time,
            exposed_time=repeats * (e.forward * shown["forward"] + e.backward * shown["backward"]) * cost.time,
            busbw=cost.busbw,
        )
        for e, cost in zip(exchanges, costs, strict=True)
    ]
