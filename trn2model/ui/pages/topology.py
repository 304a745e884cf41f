"""Topology page: where the groups of an axis sit, and what the plan sends over each link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trn2model.model.training.step import TrainingEstimate
from trn2model.network.loads import step_link_load
from trn2model.network.placement import group_ranks
from trn2model.specs.topology import AXES, Fabric
from trn2model.text import NOTHING, bandwidth, count, percent, significant, traffic
from trn2model.ui.charts.chart import Chart, Words
from trn2model.ui.charts.fabric import ChipMark, LinkMark, PortMark, Torus, switch_ports, torus_planes
from trn2model.ui.charts.style import Mode
from trn2model.ui.pages.content import Content, Listing, Metric, Verdict
from trn2model.ui.pages.words import AXIS_NAMES, chart_words, configuration
from trn2model.ui.tables import Cell, Table, table
from trn2model.units import from_si

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """All groups of one axis; `members` has shape (groups, ranks), `of_rank` is -1 for an idle rank."""

    axis: str
    members: Ints
    of_rank: Ints
    fabric: Fabric

    @property
    def number(self) -> int:
        """Number of groups."""
        return int(self.members.shape[0])

    @property
    def size(self) -> int:
        """Members of a group."""
        return int(self.members.shape[1])

    def on_chip(self, chip: int) -> tuple[int, ...]:
        """Groups that have ranks on a chip."""
        first = chip * self.fabric.ranks_per_chip
        return tuple(int(group) for group in self.of_rank[first : first + self.fabric.ranks_per_chip] if group >= 0)

    def chips(self, group: int) -> Ints:
        """Chips that a group touches."""
        return np.unique(self.members[group] // self.fabric.ranks_per_chip)

    def extent(self, group: int) -> str:
        """Shape of a group in words."""
        chips = self.chips(group)
        domains = np.unique(chips // self.fabric.chips_per_domain)
        if len(chips) == 1:
            return "1 chip"
        where = self.fabric.coordinates[chips % self.fabric.chips_per_domain]
        sizes = [len(np.unique(column)) for column in where.T]
        shape = " × ".join(f"{size} along {axis}" for axis, size in zip("xyz", sizes, strict=True) if size > 1)
        inside = f" ({shape})" if shape and self.fabric.interconnect == "torus" else ""
        across = "" if len(domains) == 1 else f" in {len(domains)} systems over EFA"
        return f"{len(chips)} chips{inside}{across}"


def axis_groups(estimate: TrainingEstimate, axis: str) -> Groups:
    """Groups of one parallel axis of a single plan."""
    network = estimate.network
    dims = network.placement.group_dims((axis,))
    pairs = tuple(zip(dims.strides.tolist(), dims.sizes.tolist(), strict=True))
    members = group_ranks(pairs, int(dims.num_ranks))
    of_rank = np.full(network.fabric.num_ranks, -1, dtype=np.int64)
    of_rank[members] = np.arange(len(members))[:, None]
    return Groups(axis, members, of_rank, network.fabric)


def runs(numbers: Sequence[int]) -> str:
    """Ascending integers as ranges.

    Examples
    --------
    >>> runs([0, 1, 2, 3, 8]), runs([0, 32, 64, 96])
    ('0–3, 8', '0–96 step 32')
    """
    steps = np.diff(numbers)
    if len(numbers) > 2 and len(set(steps.tolist())) == 1 and steps[0] > 1:
        return f"{numbers[0]}–{numbers[-1]} step {steps[0]}"
    breaks = [0, *(np.flatnonzero(steps != 1) + 1).tolist(), len(numbers)]
    pieces = [(numbers[start], numbers[end - 1]) for start, end in pairwise(breaks)]
    return ", ".join(f"{first}–{last}" if last > first else f"{first}" for first, last in pieces)


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


ALL: Final = "all"
_GROUP_COLOURS: Final = (0, 1, 2, 3, 4, 5, 6, 8)


@dataclass(frozen=True, slots=True)
class View:
    """What the visitor looks at: traffic and groups of one axis or the traffic of all, one group, one system."""

    axis: str
    group: int
    domain: int
    basis: Basis
    planes_per_row: int


def active_axes(estimate: TrainingEstimate) -> tuple[str, ...]:
    """Axes that send something or have more than one member in a group, after the word for all."""
    sends = {use.axis.partition(" ")[0] for use in estimate.communication}
    plan = estimate.resolved.plan
    return (ALL, *(axis for axis in AXIS_NAMES if axis in sends or float(getattr(plan, axis)) > 1))


def content(estimate: TrainingEstimate, mode: Mode, view: View) -> Content:
    """Topology page of a single plan."""
    groups = None if view.axis == ALL else axis_groups(estimate, view.axis)
    load = link_traffic(estimate, None if view.axis == ALL else view.axis, view.domain, view.basis)
    fabric = estimate.network.fabric
    listings = [hottest_links(fabric, load), *([_group_list(groups, view)] if groups else [])]
    return Content(
        title="Topology",
        configuration=configuration(estimate.resolved),
        verdict=Verdict(_verdict(estimate, view, groups, load), "plain"),
        metrics=_metrics(estimate, load),
        rows=((picture(estimate, view, groups, load, mode=mode),), tuple(listings)),
    )


def picture(estimate: TrainingEstimate, view: View, groups: Groups | None, load: Traffic, *, mode: Mode) -> Chart:
    """The system as it is wired: torus planes, accelerators on a switch, or one chip's cores."""
    fabric = estimate.network.fabric
    title = "busy share of the step" if view.basis == "utilisation" else "bytes against the fullest link"
    words = _words(estimate, view, load)
    twin = link_table(fabric, load)
    if fabric.interconnect == "torus":
        torus = Torus(
            fabric.shape,
            _chip_marks(fabric, view, groups),
            _link_marks(fabric, load),
            _plane_names(fabric, view),
            view.planes_per_row,
            "% of the step" if view.basis == "utilisation" else "GB a step",
        )
        return torus_planes(words, torus, title, table=twin, mode=mode)
    if fabric.interconnect == "switch":
        name = "NVSwitch" if estimate.resolved.system.chip.family == "gpu" else "NeuronSwitch"
        return switch_ports(words, _port_marks(fabric, view, groups, load), name, title, table=twin, mode=mode)
    cores = tuple(_core_mark(rank, view, groups) for rank in range(fabric.ranks_per_chip))
    return switch_ports(words, cores, "", title, table=_core_table(fabric, groups), mode=mode)


def _chip_marks(fabric: Fabric, view: View, groups: Groups | None) -> tuple[ChipMark, ...]:
    first = view.domain * fabric.chips_per_domain
    return tuple(
        ChipMark(
            str(chip),
            _position(fabric, chip),
            *_membership(first + chip, view, groups),
            _chip_note(fabric, chip, view, groups),
        )
        for chip in range(fabric.chips_per_domain)
    )


def _membership(chip: int, view: View, groups: Groups | None) -> tuple[int | None, bool]:
    """Palette entry and whether the chosen group has ranks here; a chip with several groups shows the chosen one."""
    if groups is None:
        return None, False
    here = groups.on_chip(chip)
    if not here:
        return None, False
    chosen = view.group in here
    group = view.group if chosen else here[0]
    mixed = len(set(here)) > 1 and not chosen
    return None if mixed else _GROUP_COLOURS[group % len(_GROUP_COLOURS)], chosen


def _link_marks(fabric: Fabric, load: Traffic) -> tuple[LinkMark, ...]:
    marks = []
    for chip, axis in np.argwhere(fabric.link_slot[:, :, 0] >= 0).tolist():
        up = int(fabric.link_slot[chip, axis, 0])
        neighbour = int(fabric.link_target[up])
        pair = [up, int(fabric.link_slot[neighbour, axis, 1])]
        fuller = max(pair, key=lambda link: float(load.bytes[link]))
        marks.append(
            LinkMark(
                axis,
                _position(fabric, chip),
                _share(load, fuller),
                _link_text(load, fuller),
                _link_note(fabric, load, pair),
            )
        )
    return tuple(marks)


def _share(load: Traffic, link: int) -> float | None:
    return float(load.shares[link]) if load.bytes[link] > 0 else None


def _link_text(load: Traffic, link: int) -> str:
    if load.basis == "utilisation":
        return significant(from_si(float(load.utilization[link]), "%"), 2)
    return significant(from_si(float(load.bytes[link]), "GB"), 2)


def _link_note(fabric: Fabric, load: Traffic, links: list[int]) -> str:
    lines = [
        f"{fabric.link_source[link]} → {fabric.link_target[link]} along {AXES[fabric.link_axis[link]]}: "
        f"{traffic(float(load.bytes[link]))} a step, busy {percent(float(load.utilization[link]))} of it"
        for link in links
    ]
    return "<br>".join([*lines, f"{bandwidth(float(fabric.link_bandwidth[links[0]]))} each way"])


def _chip_note(fabric: Fabric, chip: int, view: View, groups: Groups | None) -> str:
    whole = view.domain * fabric.chips_per_domain + chip
    first = whole * fabric.ranks_per_chip
    x, y, z = _position(fabric, chip)
    place = f"chip {chip} at x {x}, y {y}, z {z}" if fabric.interconnect == "torus" else f"accelerator {chip}"
    ranks = f"ranks {first}–{first + fabric.ranks_per_chip - 1}" if fabric.ranks_per_chip > 1 else f"rank {first}"
    if groups is None:
        return f"{place}<br>{ranks}"
    here = groups.on_chip(whole)
    listed = f"{groups.axis} group " + runs(sorted(set(here))) if here else "idle"
    return f"{place}<br>{ranks}<br>{listed}"


def _port_marks(fabric: Fabric, view: View, groups: Groups | None, load: Traffic) -> tuple[PortMark, ...]:
    marks = []
    for chip in range(fabric.chips_per_domain):
        colour, chosen = _membership(view.domain * fabric.chips_per_domain + chip, view, groups)
        ports = [int(fabric.link_slot[chip, 0, side]) for side in (0, 1)]
        fuller = max(ports, key=lambda link: float(load.bytes[link]))
        note = (
            f"{_chip_note(fabric, chip, view, groups)}<br>to the switch {traffic(float(load.bytes[ports[0]]))}, "
            f"from it {traffic(float(load.bytes[ports[1]]))} a step, busy {percent(float(load.utilization[fuller]))}"
        )
        marks.append(PortMark(str(chip), colour, chosen, _share(load, fuller), note))
    return tuple(marks)


def _core_mark(rank: int, view: View, groups: Groups | None) -> PortMark:
    group = -1 if groups is None else int(groups.of_rank[rank])
    colour = None if group < 0 else _GROUP_COLOURS[group % len(_GROUP_COLOURS)]
    member = "" if groups is None else f"<br>{groups.axis} group {group}"
    return PortMark(str(rank), colour, group >= 0 and group == view.group, None, f"rank {rank}{member}")


def _position(fabric: Fabric, chip: int) -> tuple[int, int, int]:
    x, y, z = fabric.coordinates[chip].tolist()
    return x, y, z


def _plane_names(fabric: Fabric, view: View) -> tuple[str, ...]:
    if fabric.shape[2] == 1:
        return (f"system {view.domain}",) if fabric.num_domains > 1 else ("",)
    return tuple(f"instance {z} (z = {z})" for z in range(fabric.shape[2]))


def _core_table(fabric: Fabric, groups: Groups | None) -> Table:
    rows = [(rank, None if groups is None else int(groups.of_rank[rank])) for rank in range(fabric.ranks_per_chip)]
    return table(("rank", "group"), rows)


def _group_list(groups: Groups, view: View) -> Listing:
    shown = sorted({view.group, *range(min(groups.number, _LISTED))})
    rows = [
        (group, runs(groups.members[group].tolist()), runs(groups.chips(group).tolist()), groups.extent(group))
        for group in shown
        if group < groups.number
    ]
    more = "" if len(rows) == groups.number else f" The first {_LISTED} of {groups.number} and the chosen one."
    note = f"Chips are numbered through all systems, x first, then y, z.{more}"
    return Listing(f"Groups of {groups.axis}", note, table(("group", "ranks", "chips", "extent"), rows))


def _verdict(estimate: TrainingEstimate, view: View, groups: Groups | None, load: Traffic) -> str:
    rank = estimate.resolved.core.rank_name
    said = []
    if groups:
        plural = "groups" if groups.number > 1 else "group"
        said.append(
            f"{AXIS_NAMES[groups.axis].capitalize()}: {count(groups.number)} {plural} of {count(groups.size)} {rank}s; "
            f"group {view.group} spans {groups.extent(view.group)}."
        )
    plan = estimate.resolved.plan
    if view.axis == "dp" and float(plan.cp * plan.ep) > 1:
        said.append("Gradients of dense weights are reduced over dp × ep × cp.")
    if load.bytes.any():
        said.append(hottest_sentence(estimate.network.fabric, load))
    elif estimate.network.fabric.interconnect == "none":
        said.append("One chip: its cores talk on the chip, and no NeuronLink leaves it.")
    else:
        said.append("This selection puts no bytes on the links of one system.")
    return " ".join(said)


def _metrics(estimate: TrainingEstimate, load: Traffic) -> tuple[Metric, ...]:
    fabric = estimate.network.fabric
    if not fabric.num_links:
        return ()
    return (
        Metric("Busiest link", percent(float(load.utilization.max())), "Share of the step it sends, this selection."),
        Metric("Mean over links", percent(float(load.utilization.mean())), "All directed links of one system."),
        Metric(
            "Bytes on all links",
            traffic(float(load.bytes.sum())),
            "Sum over the directed links of one system, per step.",
        ),
        Metric(
            "Links", f"{fabric.num_links // 2}", f"Of one system, both directions of {_rates(fabric)} counted once."
        ),
        Metric(
            "EFA per chip",
            bandwidth(fabric.nic_bandwidth) if fabric.nic_bandwidth else NOTHING,
            "Between systems, one direction.",
        ),
    )


def _rates(fabric: Fabric) -> str:
    return " and ".join(bandwidth(float(rate)) for rate in sorted(set(fabric.link_bandwidth.tolist()), reverse=True))


def _words(estimate: TrainingEstimate, view: View, load: Traffic) -> Words:
    fabric = estimate.network.fabric
    what = "all axes" if view.axis == ALL else AXIS_NAMES[view.axis]
    number = f"system {view.domain}" if fabric.num_domains > 1 else ""
    title = f"Link load of {what}" if fabric.num_links else f"The {estimate.resolved.core.rank_name}s of one chip"
    alt = f"{title}. " + (hottest_sentence(fabric, load) if load.bytes.any() else "No bytes on links.")
    return chart_words(estimate.resolved, title, f"topology-{view.axis}", alt, detail=number)
