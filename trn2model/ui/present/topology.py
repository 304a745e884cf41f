"""Topology page: where the groups of an axis sit, and what the plan sends over each link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trn2model.estimate.training.step import TrainingEstimate
from trn2model.specs.topology import AXES, Fabric
from trn2model.ui.charts.chart import Chart, Words
from trn2model.ui.charts.switch import PortMark, switch_ports
from trn2model.ui.charts.template import Mode
from trn2model.ui.charts.torus import ChipMark, LinkMark, Torus, torus_planes
from trn2model.ui.format import NOTHING, bandwidth, count, percent, significant, traffic
from trn2model.ui.present.content import Content, Listing, Metric, Verdict
from trn2model.ui.present.groups import Groups, axis_groups, runs
from trn2model.ui.present.link_traffic import (
    Basis,
    Traffic,
    hottest_links,
    hottest_sentence,
    link_table,
    link_traffic,
)
from trn2model.ui.present.words import AXIS_NAMES, chart_words, configuration, rank_name
from trn2model.ui.tables import Table, table
from trn2model.units import from_si

ALL: Final = "all"
_GROUP_COLOURS: Final = (0, 1, 2, 3, 4, 5, 6, 8)
_LISTED: Final = 12


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
        rows=((picture(estimate, view, groups, load, mode),), tuple(listings)),
    )


def picture(estimate: TrainingEstimate, view: View, groups: Groups | None, load: Traffic, mode: Mode) -> Chart:
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
        return torus_planes(words, torus, title, twin, mode)
    if fabric.interconnect == "switch":
        name = "NVSwitch" if estimate.resolved.system.chip.family == "gpu" else "NeuronSwitch"
        return switch_ports(words, _port_marks(fabric, view, groups, load), name, title, twin, mode)
    cores = tuple(_core_mark(rank, view, groups) for rank in range(fabric.ranks_per_chip))
    return switch_ports(words, cores, "", title, _core_table(fabric, groups), mode)


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
    rank = rank_name(estimate.resolved)
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
    title = f"Link load of {what}" if fabric.num_links else f"The {rank_name(estimate.resolved)}s of one chip"
    alt = f"{title}. " + (hottest_sentence(fabric, load) if load.bytes.any() else "No bytes on links.")
    return chart_words(estimate.resolved, title, f"topology-{view.axis}", alt, number)
