"""What a plan sends over each link of a system: bytes and busy share, as a table, a list and a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.network.link_loads import step_link_load
from trn2model.estimate.training.step import TrainingEstimate
from trn2model.specs.topology import AXES, Fabric
from trn2model.ui.format import bandwidth, percent, traffic
from trn2model.ui.present.content import Listing
from trn2model.ui.tables import Cell, Table, table

Basis = Literal["utilisation", "bytes"]
Floats = NDArray[np.float64]
_LISTED: Final = 12


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Bytes of a step on every directed link of a system, and what share of the step keeps each busy."""

    bytes: Floats
    utilization: Floats
    basis: Basis

    @property
    def shares(self) -> Floats:
        """Position of each link on the colour scale."""
        if self.basis == "utilisation":
            return np.clip(self.utilization, 0.0, 1.0)
        return self.bytes / max(float(self.bytes.max(initial=0.0)), 1.0)


def link_traffic(estimate: TrainingEstimate, axis: str | None, domain: int, basis: Basis) -> Traffic:
    """Traffic of one axis or of all on the links of one system."""
    fabric = estimate.network.fabric
    load = step_link_load(estimate.network, estimate.communication, estimate.step_time, domain)
    chosen = [loads for name, loads in load.by_axis.items() if axis in (None, name.partition(" ")[0])]
    carried = sum(chosen, np.zeros(fabric.num_links))
    return Traffic(carried, carried / (fabric.link_bandwidth * float(estimate.step_time)), basis)


def hottest_links(fabric: Fabric, load: Traffic) -> Listing:
    """Fullest links of a system."""
    order = np.argsort(-load.bytes, kind="stable")[:_LISTED]
    rows = [_link_row(fabric, load, int(link), formatted=True) for link in order if load.bytes[link] > 0]
    note = (
        "One direction each, over a whole step." if rows else "This selection sends nothing over links of this system."
    )
    return Listing("Hottest links", note, table(("from", "to", "along", "bytes a step", "busy", "rate"), rows))


def link_table(fabric: Fabric, load: Traffic) -> Table:
    """Every directed link of a system."""
    columns = ("from chip", "to chip", "axis", "bytes per step [B]", "utilisation", "rate [B/s]")
    return table(columns, [_link_row(fabric, load, link, formatted=False) for link in range(fabric.num_links)])


def hottest_sentence(fabric: Fabric, load: Traffic) -> str:
    """Fullest link in words."""
    link = int(np.argmax(load.bytes))
    axis = int(fabric.link_axis[link])
    along = f" along {AXES[axis]}" if axis < len(AXES) else ""
    equal = int((load.bytes >= 0.999 * load.bytes[link]).sum())
    others = f" (and {equal - 1} more carry the same)" if equal > 1 else ""
    ends = f"{_end(fabric, int(fabric.link_source[link]))} to {_end(fabric, int(fabric.link_target[link]))}"
    return (
        f"Hottest link: {ends}{along}{others}, {traffic(float(load.bytes[link]))} a step, "
        f"busy {percent(float(load.utilization[link]))} of it."
    )


def _link_row(fabric: Fabric, load: Traffic, link: int, *, formatted: bool) -> tuple[Cell, ...]:
    ends = [_end(fabric, int(fabric.link_source[link])), _end(fabric, int(fabric.link_target[link]))]
    axis = int(fabric.link_axis[link])
    along = AXES[axis] if axis < len(AXES) else "switch"
    carried, busy, rate = float(load.bytes[link]), float(load.utilization[link]), float(fabric.link_bandwidth[link])
    if formatted:
        return (*ends, along, traffic(carried), percent(busy), bandwidth(rate))
    return (*ends, along, carried, busy, rate)


def _end(fabric: Fabric, node: int) -> str:
    return "switch" if node >= fabric.chips_per_domain else f"chip {node}"
