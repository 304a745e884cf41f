"""Bytes on every directed link over a step, and what the time of one collective is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric
from trn2model.network.cost import Network, link_bytes, stage_price
from trn2model.network.ways import Stage, Way
from trn2model.specs.profile import LinkConstants
from trn2model.specs.topology import Fabric


@dataclass(frozen=True, slots=True)
class CommunicationUse:
    """One kind of collective over one parallel axis, summed over a step of one rank.

    `scope` tells a whole group from the part "inside" a ZeRO group, or the replicas "across" such groups.
    """

    axis: str
    op: str
    bytes: Numeric
    count: Numeric
    algorithm: Any
    link_time: Numeric
    exposed_time: Numeric
    busbw: Numeric
    scope: str = "whole"


@dataclass(frozen=True, slots=True)
class LinkUse:
    """Utilization of the directed links over a step, as shares of their rates."""

    max_utilization: float
    mean_utilization: float


#: What a part of a collective's time waits for.
PARTS: Final = ("start", "latency", "x/y links", "z links", "switch", "chip", "hbm", "efa")


@dataclass(frozen=True, slots=True, eq=False)
class TimedStep:
    """One step of a way: bytes on the links of the first domain, and how long it takes."""

    link_bytes: NDArray[np.float64]
    time: float


def collective_parts(fabric: Fabric, way: Way, message_bytes: float, constants: LinkConstants) -> dict[str, float]:
    """Time of a collective by what each of its steps waits for; the sum is the time [s]."""
    parts = dict.fromkeys(PARTS, 0.0)
    parts["start"] = constants.collective_time
    for stage, share in way.stages:
        latency, per_byte = stage_price(fabric, stage, constants)
        parts["latency"] += float(stage.count @ latency)
        names = _busiest(fabric, stage, constants)
        for name, count, slope in zip(names, stage.count, per_byte, strict=True):
            parts[name] += float(share * count * slope) * message_bytes
    return parts


def way_steps(fabric: Fabric, way: Way, message_bytes: float, constants: LinkConstants) -> Iterator[TimedStep]:
    """Steps of a way in order, each as often as it runs."""
    for stage, share in way.stages:
        latency, per_byte = stage_price(fabric, stage, constants)
        for row, count in enumerate(stage.count):
            size = share * message_bytes
            step = TimedStep(size * stage.links[row, 0], float(latency[row] + size * per_byte[row]))
            for _ in range(round(float(count))):
                yield step


def _busiest(fabric: Fabric, stage: Stage, constants: LinkConstants) -> list[str]:
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
    """Bytes per directed link of one domain over a step, shape (links,), by axis and of all; and their share of it."""

    by_axis: Mapping[str, NDArray[np.float64]]
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
    by_axis: dict[str, NDArray[np.float64]] = {}
    for use in communication:
        groups = network.groups(SPANNED[use.axis], use.scope)
        dims = tuple(zip(groups.strides.tolist(), groups.sizes.tolist(), strict=True))
        loads = link_bytes(
            fabric,
            use.op,
            dims,
            int(groups.num_ranks),
            message_bytes=float(use.bytes),
            constants=network.constants,
            domain=domain,
        )
        by_axis[use.axis] = by_axis.get(use.axis, np.zeros(fabric.num_links)) + float(use.count) * loads
    capacity = fabric.link_bandwidth * float(step_time)
    total = sum(by_axis.values(), np.zeros(fabric.num_links))
    return LinkLoad(by_axis, total, total / capacity)
