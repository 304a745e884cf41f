"""Collective explorer: the steps of an algorithm, played on the torus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.model.training.step import TrainingEstimate
from trn2model.network.loads import way_steps
from trn2model.network.placement import group_ranks
from trn2model.simulate.collectives import ReplayStep, replay
from trn2model.specs.topology import AXES, Fabric
from trn2model.text import duration, percent, significant, size_name, traffic
from trn2model.ui.charts.chart import Chart, Words, file_stem
from trn2model.ui.charts.fabric import ChipMark, LinkMark, Torus, torus_planes
from trn2model.ui.charts.style import Mode
from trn2model.ui.pages.collective import (
    ALGORITHM_NAMES,
    OPERATION_NAMES,
    Exploration,
    Target,
    algorithm_of,
    chart_subtitle,
    legs_text,
    line_table,
    target,
)
from trn2model.ui.pages.content import Block, Content, Listing, Metric, Verdict
from trn2model.ui.tables import Table, table
from trn2model.units import from_si

TITLE: Final = "Steps of the collective"
#: Transfers, roughly, up to which the algorithm is played chunk by chunk while the visitor waits.
_PLAYED: Final = 10_000
_GROUP_COLOURS: Final = (0, 1, 2, 3, 4, 5, 6, 8)
_UNITS: Final = ("TB", "GB", "MB", "kB", "B")
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step on the first domain: what it does, bytes on its links, time, and transfers (None where not played)."""

    label: str
    link_bytes: Floats
    time: float
    transfers: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """All steps of one call, and how it runs in words."""

    how: str
    steps: tuple[Step, ...]
    played: bool

    @property
    def fullest(self) -> float:
        """Bytes of the fullest link in any step [B]."""
        return max((float(step.link_bytes.max(initial=0.0)) for step in self.steps), default=0.0)


def score(estimate: TrainingEstimate, view: Exploration) -> Score:
    """Steps of the chosen algorithm, played chunk by chunk, or taken from the closed form where that takes long."""
    chosen = target(estimate, view)
    if chosen.members == 1:
        return Score("", (), True)
    return _score(chosen, view.op, view.size, algorithm_of(chosen, view))


@lru_cache(maxsize=32)
def _score(chosen: Target, op: str, size: float, algorithm: str) -> Score:
    way = line_table(chosen, op, algorithm).way(size)
    partners = chosen.members if way.algorithm == "mesh" else 1
    count = sum(float(stage.count.sum()) for stage, _ in way.stages)
    how = legs_text(way.legs)
    if max(count, partners) * chosen.num_ranks > _PLAYED:
        steps = way_steps(chosen.fabric, way, size, chosen.constants)
        return Score(how, tuple(Step(how, one.link_bytes, one.time, None) for one in steps), False)
    played = replay(
        chosen.fabric,
        op,
        chosen.dims,
        chosen.num_ranks,
        message_bytes=size,
        constants=chosen.constants,
        legs=way.legs,
    )
    listed = (Step(_step_text(one), one.link_bytes, one.time, len(one.source)) for one in played.steps)
    return Score(how, tuple(listed), True)


def _step_text(step: ReplayStep) -> str:
    name = OPERATION_NAMES[step.op]
    return f"{name}, {legs_text((step.leg,))}, step {step.number}" if step.leg else name


def content(estimate: TrainingEstimate, mode: Mode, view: Exploration) -> Content:
    """One step on the first system, and the list of all."""
    found = score(estimate, view)
    if not found.steps:
        return Content(TITLE, "", Verdict("A group of one has no steps.", "plain"), (), ())
    chosen, number = target(estimate, view), min(view.step, len(found.steps))
    blocks: list[Block] = []
    if chosen.fabric.interconnect == "torus" and chosen.fabric.num_links:
        blocks.append(_picture(chosen, view, found, number, mode=mode))
    rows = (tuple(blocks),) if blocks else ()
    verdict = Verdict(sentence(chosen, found, number), "plain")
    return Content(TITLE, "", verdict, _metrics(chosen, found, number), (*rows, (_listing(chosen, view, found),)))


def sentence(chosen: Target, found: Score, number: int) -> str:
    """What a step does and which link carries the most."""
    step = found.steps[number - 1]
    head = f"Step {number} of {len(found.steps)} ({step.label}): {duration(step.time)}"
    if step.transfers is not None:
        head += f", {step.transfers:,} transfers between ranks"
    if not step.link_bytes.any():
        where = "on the chips or over the network" if chosen.fabric.num_domains > 1 else "on the chips"
        return f"{head}. No NeuronLink is used: the step runs {where}."
    link = int(np.argmax(step.link_bytes))
    equal = int((step.link_bytes >= 0.999 * step.link_bytes[link]).sum())
    others = f" ({equal - 1} more carry as much)" if equal > 1 else ""
    most = traffic(float(step.link_bytes[link]))
    return f"{head}. Fullest link: {_link_name(chosen.fabric, link)}, {most}{others}."


def _metrics(chosen: Target, found: Score, number: int) -> tuple[Metric, ...]:
    step = found.steps[number - 1]
    used = float((step.link_bytes > 0).mean()) if chosen.fabric.num_links else 0.0
    done = sum(one.time for one in found.steps[:number])
    total = sum(one.time for one in found.steps)
    return (
        Metric("Time of this step", duration(step.time), "Latency and the transfer of its busiest resource."),
        Metric("Done after it", percent(done / total), "Share of the time of all steps."),
        Metric("Links in use", percent(used), "Of the directed links of the first system, in this step."),
        Metric("Bytes on links", traffic(float(step.link_bytes.sum())), "Sum over the first system, in this step."),
    )


def _picture(chosen: Target, view: Exploration, found: Score, number: int, *, mode: Mode) -> Chart:
    net, step = chosen.fabric, found.steps[number - 1]
    unit = next((one for one in _UNITS if from_si(found.fullest, one) >= 1.0), "B")
    torus = Torus(
        net.shape,
        _chips(chosen),
        _links(net, step.link_bytes, found.fullest, unit),
        tuple(f"instance {z} (z = {z})" for z in range(net.shape[2])) if net.shape[2] > 1 else ("",),
        4,
        f"{unit} in this step",
    )
    op = OPERATION_NAMES[view.op]
    name = f"One step of {op} by {ALGORITHM_NAMES[algorithm_of(chosen, view)]}"
    moment = f"step {number} of {len(found.steps)}"
    place = "system 0 · " if net.num_domains > 1 else ""
    stem = file_stem("trn2model", op, found.how, f"{chosen.members}", "step", f"{number}")
    words = Words(
        name,
        f"{moment} · {size_name(view.size)} · {place}{chart_subtitle(chosen)}",
        f"{name}. {sentence(chosen, found, number)}",
        stem,
    )
    return torus_planes(
        words, torus, "bytes against the fullest link of any step", table=_twin(net, found, number), mode=mode
    )


def _chips(chosen: Target) -> tuple[ChipMark, ...]:
    """Chips coloured by group; one with several groups is plain, the chips of group 0 are outlined."""
    net = chosen.fabric
    group = np.full(net.num_ranks, -1, dtype=np.int64)
    members = group_ranks(chosen.dims, chosen.num_ranks)
    group[members] = np.arange(len(members))[:, None]
    marks = []
    for chip in range(net.chips_per_domain):
        here = group[chip * net.ranks_per_chip : (chip + 1) * net.ranks_per_chip]
        known = sorted(set(here[here >= 0].tolist()))
        colour = _GROUP_COLOURS[known[0] % len(_GROUP_COLOURS)] if len(known) == 1 else None
        x, y, z = net.coordinates[chip].tolist()
        listed = "groups " + ", ".join(map(str, known)) if known else "idle"
        marks.append(
            ChipMark(str(chip), (x, y, z), colour, 0 in known, f"chip {chip} at x {x}, y {y}, z {z}<br>{listed}")
        )
    return tuple(marks)


def _links(net: Fabric, carried: Floats, fullest: float, unit: str) -> tuple[LinkMark, ...]:
    marks = []
    for chip, axis in np.argwhere(net.link_slot[:, :, 0] >= 0).tolist():
        up = int(net.link_slot[chip, axis, 0])
        pair = [up, int(net.link_slot[int(net.link_target[up]), axis, 1])]
        most = max(float(carried[link]) for link in pair)
        x, y, z = net.coordinates[chip].tolist()
        note = "<br>".join(f"{_link_name(net, link)}: {traffic(float(carried[link]))}" for link in pair)
        text = significant(from_si(most, unit), 2)
        marks.append(LinkMark(axis, (x, y, z), most / fullest if most > 0 else None, text, note))
    return tuple(marks)


def _link_name(net: Fabric, link: int) -> str:
    axis = int(net.link_axis[link])
    ends = [f"chip {end}" if end < net.chips_per_domain else "switch" for end in _ends(net, link)]
    return f"{ends[0]} → {ends[1]}" + (f" along {AXES[axis]}" if axis < len(AXES) else "")


def _ends(net: Fabric, link: int) -> Sequence[int]:
    return int(net.link_source[link]), int(net.link_target[link])


def _twin(net: Fabric, found: Score, number: int) -> Table:
    carried = found.steps[number - 1].link_bytes
    rows = [(*_ends(net, link), AXES[int(net.link_axis[link])], carried[link]) for link in range(net.num_links)]
    return table(("from chip", "to chip", "axis", "bytes in this step [B]"), rows)


def _listing(chosen: Target, view: Exploration, found: Score) -> Listing:
    rows = [
        (number, step.label, duration(step.time), traffic(float(step.link_bytes.max(initial=0.0))), _sum(step))
        for number, step in enumerate(found.steps, start=1)
    ]
    how = (
        "Played chunk by chunk, which checks that every rank ends with the right data."
        if found.played
        else "From the loads of the closed form: playing so many transfers would take seconds."
    )
    note = f"{OPERATION_NAMES[view.op].capitalize()} of {size_name(view.size)} over {chosen.words}, {found.how}. {how}"
    return Listing("All steps", note, table(("step", "what", "time", "fullest link", "all links"), rows))


def _sum(step: Step) -> str:
    return traffic(float(step.link_bytes.sum()))
