"""Bytes on every directed link over a step, by parallel axis: the loads that also set the collectives' times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.network.plan_network import Network
from trn2model.estimate.network.traffic import link_bytes
from trn2model.estimate.result import CommunicationUse, LinkUse
from trn2model.formulas import Numeric

#: Parallel axes that the groups of a communication entry span.
SPANNED: Final[Mapping[str, tuple[str, ...]]] = {
    "tp": ("tp",),
    "cp": ("cp",),
    "ep": ("ep",),
    "pp": ("pp",),
    "dp": ("cp", "ep", "dp"),
    "dp (experts)": ("cp", "dp"),
}


@dataclass(frozen=True, slots=True)
class LinkLoad:
    """Bytes per directed link of one domain over a step, shape (links,), by axis; and the share of the step."""

    by_axis: Mapping[str, NDArray[np.float64]]
    utilization_by_axis: Mapping[str, NDArray[np.float64]]
    total: NDArray[np.float64]
    utilization: NDArray[np.float64]

    @property
    def use(self) -> LinkUse:
        """Busiest and mean link."""
        if not self.utilization.size:
            return LinkUse(0.0, 0.0)
        return LinkUse(float(self.utilization.max()), float(self.utilization.mean()))


def step_link_load(
    network: Network, communication: Sequence[CommunicationUse], step_time: Numeric, domain: int = 0
) -> LinkLoad:
    r"""Loads of a single plan's links over a step.

    .. math:: u_l = \frac{\sum_c n_c\, b_{c,l}}{\beta_l\, t_{step}}
    """
    fabric = network.fabric
    constants = network.resolved.profile.constants
    by_axis: dict[str, NDArray[np.float64]] = {}
    for use in communication:
        groups = network.groups(SPANNED[use.axis], use.scope)
        dims = tuple(zip(groups.strides.tolist(), groups.sizes.tolist(), strict=True))
        loads = link_bytes(fabric, use.op, dims, int(groups.num_ranks), float(use.bytes), constants, "auto", domain)
        by_axis[use.axis] = by_axis.get(use.axis, np.zeros(fabric.num_links)) + float(use.count) * loads
    capacity = fabric.link_bandwidth * float(step_time)
    total = sum(by_axis.values(), np.zeros(fabric.num_links))
    utilization = {axis: loads / capacity for axis, loads in by_axis.items()}
    return LinkLoad(by_axis, utilization, total, total / capacity)
