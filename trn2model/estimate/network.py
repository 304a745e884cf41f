"""The network of a plan: its fabric, where its groups sit, and what a collective over them costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trn2model.estimate.placement import Placement, placement
from trn2model.estimate.traffic import CollectiveCost, collective_cost
from trn2model.formulas import Numeric
from trn2model.specs.fields import AXES
from trn2model.specs.resolve import Resolved
from trn2model.specs.topology import Fabric, fabric


@dataclass(frozen=True, slots=True)
class Network:
    """Fabric, placement and constants of a plan: everything a collective's cost depends on but its payload."""

    fabric: Fabric
    placement: Placement
    resolved: Resolved

    def cost(self, axes: Sequence[str], op: str, message_bytes: Numeric) -> CollectiveCost:
        """Cost of one call over the groups of one or several axes.

        Parameters
        ----------
        axes : Sequence of str
            Parallel axes the group spans.
        op : str
            Collective operation.
        message_bytes : Numeric
            Size column of nccom-test. [B]

        Returns
        -------
        CollectiveCost
            Time, algorithm and bus bandwidth.
        """
        groups = self.placement.group_dims(axes)
        return collective_cost(self.fabric, op, message_bytes, groups, self.resolved.profile.constants)


def plan_network(resolved: Resolved) -> Network:
    """Network of a resolved plan.

    Parameters
    ----------
    resolved : Resolved
        The scenario with all names looked up.

    Returns
    -------
    Network
        Fabric and placement.
    """
    scenario = resolved.scenario
    return Network(
        fabric(resolved.system, scenario.count, scenario.lnc),
        placement(scenario.placement.split(","), {axis: getattr(resolved.plan, axis) for axis in AXES}),
        resolved,
    )
