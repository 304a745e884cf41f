"""The network of a plan: its fabric, where its groups sit, and what a collective over them costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from trn2model.estimate.network.placement import GroupDims, Placement, placement, split_groups
from trn2model.estimate.network.traffic import CollectiveCost, collective_cost
from trn2model.formulas import Numeric
from trn2model.specs.fields import AXES
from trn2model.specs.profile import Constants
from trn2model.specs.resolve import Resolved
from trn2model.specs.topology import Fabric, fabric

#: Constants that no collective's cost depends on.
_COMPUTE_CONSTANTS: Final = (
    "tensor_efficiency",
    "fp8_efficiency",
    "fp32_efficiency",
    "attention_efficiency",
    "vector_efficiency",
    "scalar_efficiency",
    "hbm_efficiency",
    "fusion_fraction",
    "kv_read_efficiency",
    "kv_padding",
    "kv_expansion",
    "expert_read_efficiency",
    "expert_padding",
    "dense_experts",
    "expert_sum_passes",
    "lane_padding",
    "operator_time",
    "step_time",
    "request_time",
    "tp_overlap_fraction",
    "dp_overlap_fraction",
)


@lru_cache(maxsize=256)
def _link_constants(constants: Constants) -> Constants:
    """Constants with all that links do not know set to zero, so that profiles with equal links share their tables."""
    return replace(constants, **dict.fromkeys(_COMPUTE_CONSTANTS, 0.0))


#: Parts of a group that exchanges gradients or weights.
WHOLE: Final = "whole"
INSIDE: Final = "inside"
ACROSS: Final = "across"


@dataclass(frozen=True, slots=True)
class Network:
    """Fabric, placement and constants of a plan: everything a collective's cost depends on but its payload."""

    fabric: Fabric
    placement: Placement
    resolved: Resolved

    def groups(self, axes: Sequence[str], scope: str = WHOLE) -> GroupDims:
        """Groups of one or several axes, whole or cut at the border of the scenario's ZeRO group."""
        whole = self.placement.group_dims(axes)
        if scope == WHOLE or (scope == INSIDE and self.resolved.scenario.zero_group == "all"):
            return whole
        inside, across = split_groups(whole, self.zero_border)
        return inside if scope == INSIDE else across

    @property
    def zero_border(self) -> int:
        """Ranks of the block inside which ZeRO shards."""
        x, y, _ = self.fabric.shape
        extent = {
            "all": self.fabric.num_ranks,
            "domain": self.fabric.ranks_per_domain,
            "instance": x * y * self.fabric.ranks_per_chip,
        }
        return extent[self.resolved.scenario.zero_group]

    def cost(self, axes: Sequence[str], op: str, message_bytes: Numeric, scope: str = WHOLE) -> CollectiveCost:
        """Cost of one call over the groups of one or several axes."""
        groups = self.groups(axes, scope)
        constants = _link_constants(self.resolved.profile.constants)
        return collective_cost(self.fabric, op, message_bytes, groups, constants)


def plan_network(resolved: Resolved) -> Network:
    """Network of a resolved plan."""
    scenario = resolved.scenario
    return Network(
        fabric(resolved.system, scenario.count, scenario.lnc),
        placement(scenario.placement.split(","), {axis: getattr(resolved.plan, axis) for axis in AXES}),
        resolved,
    )
