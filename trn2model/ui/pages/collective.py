"""Collective explorer: the group, operation and size that are looked at, and what was measured of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from trn2model.model.training.step import TrainingEstimate
from trn2model.network.algorithms import Algorithm, Layout, Legs
from trn2model.network.collective import CollectiveCurves, collective_curves
from trn2model.network.cost import Lines, bus_factor, lines
from trn2model.network.placement import Dims, merge_dims
from trn2model.network.ways import ALGORITHMS, OPERATIONS
from trn2model.specs import catalog
from trn2model.specs.fields import AXES
from trn2model.specs.profile import LinkConstants
from trn2model.specs.scenario import Scenario
from trn2model.specs.topology import Fabric
from trn2model.text import bandwidth, duration, percent, size_name
from trn2model.ui.charts.curves import Mark, Marks
from trn2model.ui.pages.content import Listing
from trn2model.ui.pages.words import AXIS_NAMES, machine, subtitle
from trn2model.ui.tables import table
from trn2model.validation.measurements import Measurement, measurements

#: Group of one's own size: the first ranks, alone on the machine.
OWN: Final = "ranks"
CHEAPEST: Final = "cheapest"
GROUPS: Final = (*AXES, OWN)
OPERATION_NAMES: Final[Mapping[str, str]] = dict(
    zip(OPERATIONS, ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "permute"), strict=True)
)
ALGORITHM_NAMES: Final[Mapping[str, str]] = {
    "kangaring": "KangaRing",
    "rdh": "RDH",
    "mesh": "mesh",
    "hierarchical": "hierarchical",
    "ring": "ring",
}
_LEG_NAMES: Final[Mapping[Algorithm, str]] = {
    Algorithm.RING: "ring",
    Algorithm.KANGARING: "kangaring",
    Algorithm.MESH: "mesh",
    Algorithm.SINGLE_STEP_MESH: "single-step mesh",
    Algorithm.ALL_REDUCE_MESH: "single-step all-reduce mesh",
    Algorithm.RDH: "rdh",
}
_LAYOUT_NAMES: Final[Mapping[Layout, str]] = {
    Layout.CHIPS: "",
    Layout.RANKS: " in rank order",
    Layout.DOMAINS: " over the network",
}
#: 1 KiB to 16 GiB
SIZES: Final = tuple(2.0**power for power in range(10, 35))
_CURVE_SIZES: Final = tuple(2.0 ** (power / 2) for power in range(20, 69))


@dataclass(frozen=True, slots=True)
class Exploration:
    """What the visitor looks at; `algorithm` is a name of ``ALGORITHMS`` or "cheapest"."""

    group: str = "tp"
    ranks: int = 64
    op: str = "all_reduce"
    size: float = 2.0**26
    algorithm: str = CHEAPEST
    step: int = 1


@dataclass(frozen=True, slots=True)
class Target:
    """The groups of an exploration: where they sit, what runs on them, and what they are called."""

    fabric: Fabric
    dims: Dims
    num_ranks: int
    constants: LinkConstants
    members: int
    axis: str
    words: str
    scenario: Scenario

    @property
    def number(self) -> int:
        """Groups that run at once."""
        return self.num_ranks // self.members


def target(estimate: TrainingEstimate, view: Exploration) -> Target:
    """Groups of the chosen axis of a plan, or of one's own size."""
    network, resolved = estimate.network, estimate.resolved
    constants, rank = resolved.profile.links, resolved.core.rank_name
    groups = network.placement.group_dims((view.group,)) if view.group in AXES else None
    if groups is None or int(groups.size) == 1:
        members = max(min(view.ranks, network.fabric.num_ranks), 1)
        dims = merge_dims(((1, members),))
        words = f"the first {members:,} {rank}s, alone"
        return Target(network.fabric, dims, members, constants, members, "", words, resolved.scenario)
    dims = merge_dims(tuple(zip(groups.strides.tolist(), groups.sizes.tolist(), strict=True)))
    members, ranks = int(groups.size), int(groups.num_ranks)
    at_once = f"{ranks // members:,} groups at once" if ranks > members else "one group"
    words = f"{members:,} {rank}s ({AXIS_NAMES[view.group]}, {at_once})"
    return Target(network.fabric, dims, ranks, constants, members, view.group, words, resolved.scenario)


@lru_cache(maxsize=256)
def curves(chosen: Target, op: str, more: tuple[float, ...] = ()) -> CollectiveCurves:
    """Time and bus bandwidth by algorithm over the sizes of the charts."""
    sizes = sorted({*_CURVE_SIZES, *more})
    return collective_curves(
        chosen.fabric, op, chosen.dims, chosen.num_ranks, message_bytes=sizes, constants=chosen.constants
    )


def legs_text(legs: Legs) -> str:
    """How a collective runs, level by level from the innermost."""
    return " + ".join(_LEG_NAMES[leg.algorithm] + _LAYOUT_NAMES[leg.layout] for leg in legs)


def line_table(chosen: Target, op: str, algorithm: str = "auto") -> Lines:
    """Ways of running an operation on the groups."""
    return lines(chosen.fabric, op, chosen.dims, chosen.num_ranks, constants=chosen.constants, algorithm=algorithm)


def applicable(chosen: Target, op: str) -> tuple[str, ...]:
    """Algorithms that run an operation on the groups."""
    found = line_table(chosen, op)
    return tuple(ALGORITHMS[index] for index in sorted(set(found.algorithm.tolist()))) if found.ways else ()


def algorithm_of(chosen: Target, view: Exploration) -> str:
    """Algorithm that is looked at: the forced one where it runs, else the cheapest at the chosen size."""
    if view.algorithm in applicable(chosen, view.op):
        return view.algorithm
    found = line_table(chosen, view.op)
    return ALGORITHMS[found.algorithm[found.best(view.size)]]


def line_time(chosen: Target, op: str, size: float, algorithm: str) -> float:
    """Time of one call by an algorithm [s]."""
    return float(line_table(chosen, op, algorithm).times(size).min())


def bus_bandwidth(chosen: Target, op: str, size: float, time: float) -> float:
    """Bus bandwidth as nccom-test counts it [B/s]."""
    return float(bus_factor(op, float(chosen.members))) * size / time if time else 0.0


def chart_subtitle(chosen: Target) -> str:
    """Line under the title of each chart: the groups and the parameters that are not default."""
    return f"{chosen.words} · {subtitle(chosen.scenario)}" if chosen.axis else f"{chosen.words} · {_machine(chosen)}"


def _machine(chosen: Target) -> str:
    scenario = chosen.scenario
    changes = [f"{name} {value}" for name, value in (("LNC", scenario.lnc), ("profile", scenario.profile))]
    return " · ".join([machine(scenario), *changes])


def best_by_size(chosen: Target, op: str) -> str:
    """Which algorithm is the cheapest on which sizes."""
    crossovers = curves(chosen, op).crossovers
    if not crossovers:
        if len(applicable(chosen, op)) == 1:
            return "No other algorithm runs it on this group."
        only = algorithm_of(chosen, Exploration(op=op, size=SIZES[0]))
        return f"Cheapest at every size: {ALGORITHM_NAMES[only]}."
    pieces = [f"{ALGORITHM_NAMES[below]} up to {size_name(size)}" for size, below, _ in crossovers]
    return f"Cheapest: {', '.join(pieces)}, {ALGORITHM_NAMES[crossovers[-1][2]]} beyond."


_LAYERS: Final = {"device": "on the device", "kernel": "with the launch of a graph", "framework": "with eager dispatch"}


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured call: size, time and bus bandwidth as published; `inside` is the layer whose time it holds."""

    row: Measurement
    size: float
    time: float
    busbw: float
    inside: str


@lru_cache(maxsize=256)
def measured_points(chosen: Target, op: str) -> tuple[Measured, ...]:
    """Measurements of the operation on as many ranks of the same hardware, filled in order."""
    found = [_point(row) for row in measurements("collective") if _matches(row, chosen, op)]
    return tuple(sorted(found, key=lambda point: (point.size, point.time)))


def measured_marks(points: tuple[Measured, ...], quantity: str) -> tuple[Marks, ...]:
    """Points of a chart: those of the device alone, with a launch inside, and with eager dispatch inside."""
    kinds = (
        ("device", "measured, device time", "diamond"),
        ("kernel", "measured, launch inside", "triangle-down" if quantity == "time" else "triangle-up"),
        ("framework", "measured, eager dispatch inside", "circle"),
    )
    return tuple(
        Marks(
            name,
            tuple(
                Mark(point.size, point.time if quantity == "time" else point.busbw, _note(point))
                for point in points
                if point.inside == kind and (quantity == "time" or point.busbw > 0)
            ),
            symbol,
            True,
        )
        for kind, name, symbol in kinds
    )


def measured_listing(chosen: Target, op: str, points: tuple[Measured, ...]) -> Listing:
    """Each measurement beside the estimate, with the launch that its source states added."""
    rows = []
    for point in points:
        estimated = line_time(chosen, op, point.size, "auto") + _launch(point.row)
        rows.append(
            (
                size_name(point.size),
                duration(point.time),
                duration(estimated),
                f"{'+' if estimated > point.time else ''}{percent(estimated / point.time - 1.0)}",
                bandwidth(point.busbw),
                _LAYERS[point.row.text("layer")],
                point.row.trust,
                point.row.use,
                point.row.text("source"),
            )
        )
    alone = " The estimate is of all groups of the plan at once." if chosen.number > 1 else ""
    note = (
        "One group alone, measured. The estimate includes the launch that the source states; "
        f"rows of use 'bound' hold an unknown launch or dispatch, so the estimate should lie below them.{alone}"
    )
    columns = ("size", "measured", "estimate", "difference", "busbw", "taken", "trust", "use", "source")
    return Listing("Measured", note, table(columns, rows))


def _matches(row: Measurement, chosen: Target, op: str) -> bool:
    if row.use == "excluded" or row.metric != "time" or row.values["bytes"] is None:
        return False
    if row.text("op") != op or row.values["ranks"] != chosen.members or chosen.dims != ((1, chosen.members),):
        return False
    lnc = row.values["lnc"]
    if row.values.get("ranks_per_machine") is not None or (lnc is not None and lnc != chosen.scenario.lnc):
        return False
    return _same_hardware(row, chosen)


def _same_hardware(row: Measurement, chosen: Target) -> bool:
    """The same system; or, inside one instance, another system of the same chip."""
    count = row.number("count")
    if count > 1:
        return row.text("system") == chosen.fabric.system and count == chosen.fabric.num_domains
    theirs, ours = catalog.system(row.text("system")), catalog.system(chosen.fabric.system)
    plane = chosen.fabric.shape[0] * chosen.fabric.shape[1] * chosen.fabric.ranks_per_chip
    inside = chosen.members <= (plane if ours.interconnect == "torus" else chosen.fabric.ranks_per_domain)
    return theirs.chip.name == ours.chip.name and inside


def _point(row: Measurement) -> Measured:
    busbw = row.values["busbw"]
    layer = row.text("layer")
    inside = "kernel" if layer == "device" and row.use == "bound" else layer  # a launch floor dominates
    return Measured(
        row, row.number("bytes"), row.number("measured"), busbw if isinstance(busbw, float) else 0.0, inside
    )


def _launch(row: Measurement) -> float:
    value = row.values["launch_time"]
    return value if isinstance(value, float) else 0.0


def _note(point: Measured) -> str:
    return (
        f"measured {_LAYERS[point.row.text('layer')]}, trust {point.row.trust}<br>{size_name(point.size)}: "
        f"{duration(point.time)}, {bandwidth(point.busbw)} busbw<br>{point.row.dataset}"
    )
