"""What the time of one collective is made of, and its steps one by one, from the loads that also set its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError
from trn2model.estimate.network.collective_stage import Plan, Stage
from trn2model.estimate.network.placement import Dims
from trn2model.estimate.network.traffic import lines, stage_price
from trn2model.specs.profile import Constants
from trn2model.specs.topology import Fabric

#: What a part of a collective's time waits for.
PARTS: Final = ("start", "latency", "x/y links", "z links", "switch", "chip", "hbm", "efa")


@dataclass(frozen=True, slots=True, eq=False)
class PlannedStep:
    """One step of a plan: bytes on the links of the first domain, and how long it takes."""

    link_bytes: NDArray[np.float64]
    time: float


def cheapest_plan(
    fabric: Fabric,
    op: str,
    dims: Dims,
    num_ranks: int,
    message_bytes: float,
    constants: Constants,
    algorithm: str = "auto",
) -> Plan:
    """Way of running a collective that takes the least time.

    Raises InvalidInputError (a group of one, an unknown operation, or an algorithm that does not run on a group of this
    shape).
    """
    table = lines(fabric, op, dims, num_ranks, constants, algorithm)
    if not table.plans:
        raise InvalidInputError("ranks", 1, "at least 2", "choose a larger group")
    return table.plans[int(np.argmin(table.fixed + table.slope * message_bytes))]


def collective_parts(fabric: Fabric, plan: Plan, message_bytes: float, constants: Constants) -> dict[str, float]:
    """Time of a collective by what each of its steps waits for; the sum is the time [s]."""
    parts = dict.fromkeys(PARTS, 0.0)
    parts["start"] = constants.collective_time
    for stage, share in plan.stages:
        latency, per_byte = stage_price(fabric, stage, constants)
        parts["latency"] += float(stage.count @ latency)
        names = _busiest(fabric, stage, constants)
        for name, count, slope in zip(names, stage.count, per_byte, strict=True):
            parts[name] += float(share * count * slope) * message_bytes
    return parts


def planned_steps(fabric: Fabric, plan: Plan, message_bytes: float, constants: Constants) -> Iterator[PlannedStep]:
    """Steps of a plan in order, each as often as it runs."""
    for stage, share in plan.stages:
        latency, per_byte = stage_price(fabric, stage, constants)
        for row, count in enumerate(stage.count):
            size = share * message_bytes
            step = PlannedStep(size * stage.links[row, 0], float(latency[row] + size * per_byte[row]))
            for _ in range(round(float(count))):
                yield step


def _busiest(fabric: Fabric, stage: Stage, constants: Constants) -> list[str]:
    """Resource that the transfer of each step waits for."""
    none = np.zeros(len(stage.count))
    rates = fabric.link_bandwidth * constants.link_efficiency
    by_axis = [none, none, none, none]
    for axis in range(4):
        of_axis = fabric.link_axis == axis
        if of_axis.any():
            by_axis[axis] = (stage.links[:, :, of_axis] / rates[of_axis]).max(axis=(1, 2))
    nic_rate = fabric.nic_bandwidth * constants.nic_efficiency
    times = {
        "x/y links": np.maximum(by_axis[0], by_axis[1]),
        "z links": by_axis[2],
        "switch": by_axis[3],
        "chip": stage.chip / (constants.chip_bandwidth * fabric.cores_per_rank),
        "hbm": stage.hbm / (fabric.hbm_bandwidth * constants.collective_hbm_efficiency),
        "efa": stage.nic / nic_rate if nic_rate > 0 else none,
    }
    names = list(times)
    return [names[index] for index in np.argmax(np.stack(list(times.values())), axis=0).tolist()]
