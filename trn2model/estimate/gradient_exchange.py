"""Gradients and sharded weights between replicas: link time, and what backward and forward cannot hide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trn2model.estimate.model_states import ParameterShare
from trn2model.estimate.network import Network
from trn2model.estimate.result import CommunicationUse
from trn2model.formulas import Numeric
from trn2model.specs.optimizer import Optimizer


@dataclass(frozen=True, slots=True)
class Windows:
    """Compute of one microbatch on the heaviest stage that an exchange may hide behind, in seconds."""

    forward: Numeric
    backward: Numeric


def gradient_exchange(
    shares: tuple[ParameterShare, ...], network: Network, optimizer: Optimizer, windows: Windows
) -> list[CommunicationUse]:
    r"""Collectives over the data-parallel groups in one step.

    ZeRO 0 reduces gradients to all; 1 and 2 scatter them and gather updated weights once a step; 3 gathers
    weights before forward and backward and scatters gradients in every microbatch. Per window,

    .. math:: t_{exposed} = t_{link} - \min(f\, t_{link}, t_{window})

    Parameters
    ----------
    shares : tuple of ParameterShare
        Parameters by the group that replicates them.
    network : Network
        Where groups sit.
    optimizer : Optimizer
        Bytes of a gradient.
    windows : Windows
        Compute of one microbatch.

    Returns
    -------
    list of CommunicationUse
        One entry per group and operation; counts are 0 where a plan does not use it.

    References
    ----------
    .. [1] zero-2020
    """
    plan = network.resolved.plan
    full, sharded = plan.zero >= 3.0, plan.zero >= 1.0
    repeats = np.where(full, plan.num_microbatches, 1.0)
    uses: list[CommunicationUse] = []
    for share in shares:
        gradients = share.parameters.max(axis=0) * optimizer.gradient_bytes
        weights = share.weight_bytes.max(axis=0)
        if not gradients.any():
            continue
        for op, payload, count, window in (
            ("all_reduce", gradients, np.where(sharded, 0.0, 1.0), windows.backward),
            ("reduce_scatter", gradients, np.where(sharded, repeats, 0.0), windows.backward),
            ("all_gather", weights, np.where(full, 2.0 * repeats, np.where(sharded, 1.0, 0.0)), windows.forward),
        ):
            uses.append(_use(share, network, op, payload, count, window))
    return [use for use in uses if np.any(use.count)]


def _use(
    share: ParameterShare, network: Network, op: str, payload: Numeric, count: Numeric, window: Numeric
) -> CommunicationUse:
    cost = network.cost(share.axes, op, payload)
    hidden = np.minimum(network.resolved.profile.constants.dp_overlap_fraction * cost.time, window)
    return CommunicationUse(
        axis="dp" if "ep" in share.axes else "dp (experts)",
        op=op,
        bytes=payload,
        count=count,
        algorithm=cost.algorithm,
        link_time=count * cost.time,
        exposed_time=count * (cost.time - hidden),
        busbw=cost.busbw,
    )
