"""The optimizer's update on one rank: the engines and HBM work at once, the slowest decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trn2model.estimate.model.states import ParameterShare
from trn2model.formulas import Numeric, optimizer, roofline
from trn2model.specs.optimizer import Optimizer
from trn2model.specs.resolve import Resolved


def optimizer_step(resolved: Resolved, shares: Sequence[ParameterShare], adam: Optimizer) -> tuple[Numeric, Numeric]:
    r"""Time and HBM bytes of the update on the fullest stage.

    .. math::
        t = \max(t_{vector}, t_{scalar}, t_{HBM}), \quad
        bytes = P (b_{gradient} + 2 b_{state}) + bytes_{weights}

    References
    ----------
    .. [1] adamw-2019
    .. [2] zero-2020
    """
    plan, core, constants = resolved.plan, resolved.core, resolved.profile.constants
    parameters: Numeric = np.zeros(plan.shape)
    moved: Numeric = np.zeros(plan.shape)
    for share in shares:
        held = np.where(plan.zero >= 1.0, share.shards, 1.0)
        trained_weights = share.weight_bytes * share.trained / np.maximum(share.parameters, 1.0)
        update = share.trained * (adam.gradient_bytes + 2.0 * adam.state_bytes) + trained_weights
        parameters = parameters + share.trained.max(axis=0) / held
        moved = moved + update.max(axis=0) / held
    time = roofline.operator_time(
        0.0,
        optimizer.adamw_vector_elements(parameters) / (core.vector_element_rate * constants.vector_efficiency),
        optimizer.adamw_scalar_elements(parameters) / (core.scalar_element_rate * constants.scalar_efficiency),
        moved / (core.hbm_bandwidth * constants.hbm_efficiency),
        0.0,
    )
    return time, moved
