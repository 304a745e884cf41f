"""Collective explorer: time and bus bandwidth over the message size, and the sentence that says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np

from trn2model.estimate.network.collective_parts import cheapest_plan, collective_parts
from trn2model.estimate.network.collective_report import CollectiveCurves
from trn2model.estimate.network.link_loads import SPANNED
from trn2model.estimate.network.placement import Dims, merge_dims
from trn2model.estimate.network.traffic import plan_link_bytes
from trn2model.estimate.result import CommunicationUse
from trn2model.estimate.training.step import TrainingEstimate
from trn2model.specs import catalog
from trn2model.specs.sweet_ranges import CHIP, sweet_ranges
from trn2model.ui.charts.chart import Chart, Words, file_stem
from trn2model.ui.charts.size_lines import Band, Crossing, Mark, Marks, SizeLine, SizePlot, size_lines, size_name
from trn2model.ui.charts.template import Mode
from trn2model.ui.format import bandwidth, duration, percent
from trn2model.ui.present.collective import (
    ALGORITHM_NAMES,
    OPERATION_NAMES,
    SIZES,
    Exploration,
    Target,
    algorithm_of,
    best_by_size,
    bus_bandwidth,
    chart_subtitle,
    curves,
    line_time,
    target,
)
from trn2model.ui.present.collective_machines import PART_NAMES
from trn2model.ui.present.collective_measured import Measured, measured_listing, measured_marks, measured_points
from trn2model.ui.present.content import Content, Metric, Remarks, Row, Verdict
from trn2model.ui.tables import Table, table

TITLE: Final = "Collective explorer"
#: palette entry, dash and marker of each algorithm
_STYLES: Final[Mapping[str, tuple[int, str, str]]] = {
    "kangaring": (0, "solid", "circle"),
    "rdh": (2, "dash", "square"),
    "mesh": (5, "dot", "triangle-up"),
    "hierarchical": (3, "dashdot", "star"),
    "ring": (9, "longdash", "x"),
}


def content(estimate: TrainingEstimate, mode: Mode, view: Exploration) -> Content:
    """Time and bus bandwidth of one collective over sizes, beside what was published."""
    chosen = target(estimate, view)
    if chosen.members == 1:
        return Content(TITLE, "", Verdict("A group of one has nothing to send. Choose more ranks.", "plain"), (), ())
    points = measured_points(chosen, view.op)
    sent = _sent_sizes(estimate, chosen, view.op)
    shown = tuple(point for point in points if SIZES[0] <= point.size <= SIZES[-1])
    more = {*sent, view.size, *(point.size for point in shown)}
    found = curves(chosen, view.op, tuple(sorted(more)))
    plot = [curve_chart(chosen, view, found, shown, sent, quantity, mode) for quantity in ("time", "busbw")]
    rows: list[Row] = [tuple(plot)]
    if points:
        rows.append((measured_listing(chosen, view.op, points),))
    notes = _notes(chosen, view)
    if notes:
        rows.append((Remarks("About this group", notes),))
    verdict = Verdict(sentence(chosen, view), "plain")
    return Content(TITLE, "", verdict, _metrics(chosen, view), tuple(rows))


def sentence(chosen: Target, view: Exploration) -> str:
    """What one call takes by which algorithm, and which is the cheapest on which sizes."""
    name = algorithm_of(chosen, view)
    time = line_time(chosen, view.op, view.size, name)
    what = f"{OPERATION_NAMES[view.op].capitalize()} of {size_name(view.size)} over {chosen.words}"
    said = [f"{what}: {duration(time)} by {ALGORITHM_NAMES[name]}, {_busbw(chosen, view, time)} busbw."]
    least = line_time(chosen, view.op, view.size, "auto")
    if time > least:
        said.append(f"The cheapest algorithm takes {duration(least)}.")
    return " ".join([*said, best_by_size(chosen, view.op)])


def curve_chart(
    chosen: Target,
    view: Exploration,
    found: CollectiveCurves,
    points: tuple[Measured, ...],
    sent: Sequence[float],
    quantity: str,
    mode: Mode,
) -> Chart:
    """One line per algorithm over the message size."""
    values = found.times if quantity == "time" else found.busbw
    least = np.min(list(values.values()), axis=0) if quantity == "time" else np.max(list(values.values()), axis=0)
    names = [name for name in ALGORITHM_NAMES if name in values]
    plot = SizePlot(
        sizes=tuple(found.message_bytes.tolist()),
        lines=tuple(SizeLine(ALGORITHM_NAMES[name], tuple(values[name].tolist()), *_STYLES[name]) for name in names),
        least=tuple(least.tolist()),
        marks=(*_estimated_marks(chosen, view, sent, quantity), *measured_marks(points, quantity)),
        bands=_bands(chosen, view.op),
        crossings=tuple(Crossing(size, size_name(size)) for size, _, _ in found.crossovers),
    )
    axis = ("time", "s") if quantity == "time" else ("bus bandwidth", "B/s")
    edge: Literal["top", "bottom"] = "top" if quantity == "time" else "bottom"
    return size_lines(_words(chosen, view, axis[0]), plot, axis, edge, _twin(found, points), mode)


def _words(chosen: Target, view: Exploration, what: str) -> Words:
    op = OPERATION_NAMES[view.op]
    bands = " Bands: sizes for which Neuron's documents name an algorithm." if _bands(chosen, view.op) else ""
    alt = f"{what.capitalize()} of {op} against message size, one line per algorithm. {sentence(chosen, view)}{bands}"
    scenario = chosen.scenario
    stem = file_stem(
        "trn2model", op, what, chosen.axis or "ranks", f"{chosen.members}", f"{scenario.count}x{scenario.system}"
    )
    return Words(f"{op.capitalize()}: {what} by size", chart_subtitle(chosen), alt, stem)


def _twin(found: CollectiveCurves, points: tuple[Measured, ...]) -> Table:
    names = [name for name in ALGORITHM_NAMES if name in found.times]
    columns = ["message [B]", "cheapest"]
    for name in names:
        columns += [f"{ALGORITHM_NAMES[name]} time [s]", f"{ALGORITHM_NAMES[name]} busbw [B/s]"]
    measured: dict[float, list[Measured]] = {}
    for point in points:
        measured.setdefault(point.size, []).append(point)
    rows = []
    for index, size in enumerate(found.message_bytes.tolist()):
        best = min(names, key=lambda name: float(found.times[name][index]))
        cells = [value for name in names for value in (found.times[name][index], found.busbw[name][index])]
        here = measured.get(size, ())
        seen = "; ".join(f"{point.time:.6g}" for point in here)
        rows.append((size, ALGORITHM_NAMES[best], *cells, *([seen] if points else [])))
    return table([*columns, *(["measured time [s]"] if points else [])], rows)


def _estimated_marks(chosen: Target, view: Exploration, sent: Sequence[float], quantity: str) -> tuple[Marks, ...]:
    name = algorithm_of(chosen, view)
    time = line_time(chosen, view.op, view.size, name)
    busbw = bus_bandwidth(chosen, view.op, view.size, time)
    here = f"{size_name(view.size)}: {duration(time)}, {bandwidth(busbw)} busbw"
    spot = Mark(view.size, time if quantity == "time" else busbw, here)
    marks = (Marks(f"chosen: {ALGORITHM_NAMES[name]}", (spot,), "circle", False),)
    calls = []
    for size in sent:
        least = line_time(chosen, view.op, size, "auto")
        rate = bus_bandwidth(chosen, view.op, size, least)
        note = f"this plan sends {size_name(size)}<br>{duration(least)}, {bandwidth(rate)} busbw (estimate)"
        calls.append(Mark(size, least if quantity == "time" else rate, note))
    return (*marks, Marks("sent by this plan", tuple(calls), "pentagon", False))


def _sent_sizes(estimate: TrainingEstimate, chosen: Target, op: str) -> tuple[float, ...]:
    """Sizes within the charts that the plan sends over exactly these groups by this operation."""
    uses = [use for use in estimate.communication if use.op == op and float(use.count) > 0]
    sizes = {float(use.bytes) for use in uses if chosen.axis and _dims(estimate, use) == chosen.dims}
    return tuple(sorted(size for size in sizes if SIZES[0] <= size <= SIZES[-1]))


def _dims(estimate: TrainingEstimate, use: CommunicationUse) -> Dims:
    groups = estimate.network.groups(SPANNED[use.axis], use.scope)
    return merge_dims(tuple(zip(groups.strides.tolist(), groups.sizes.tolist(), strict=True)))


def _bands(chosen: Target, op: str) -> tuple[Band, ...]:
    """Published ranges; they are about one Trn2 instance, and about operations that these algorithms run."""
    plane = chosen.fabric.shape[0] * chosen.fabric.shape[1] * chosen.fabric.ranks_per_chip
    if op in {"all_to_all", "permute"} or chosen.dims != ((1, chosen.members),) or chosen.members > plane:
        return ()
    if catalog.system(chosen.fabric.system).chip.name != CHIP:
        return ()
    names = [ALGORITHM_NAMES[one.algorithm] for one in sweet_ranges(chosen.members)]
    labels = [f"published: {name}" if name == names[0] else name for name in names]
    ranges = sweet_ranges(chosen.members)
    return tuple(Band(one.low, one.high, label) for one, label in zip(ranges, labels, strict=True))


def _metrics(chosen: Target, view: Exploration) -> tuple[Metric, ...]:
    name = algorithm_of(chosen, view)
    plan = cheapest_plan(chosen.fabric, view.op, chosen.dims, chosen.num_ranks, view.size, chosen.constants, name)
    time = line_time(chosen, view.op, view.size, name)
    parts = collective_parts(chosen.fabric, plan, view.size, chosen.constants)
    largest = max(parts, key=lambda part: parts[part])
    metrics = [
        Metric("Time", duration(time), f"One call of {size_name(view.size)}, {plan.detail}."),
        Metric("Bus bandwidth", _busbw(chosen, view, time), "As nccom-test counts it."),
        Metric("Algorithm bandwidth", bandwidth(view.size / time), "Message size over time."),
        Metric("Waits most for", PART_NAMES[largest], f"{percent(parts[largest] / time)} of the time."),
    ]
    if chosen.fabric.num_links:
        busy = float((view.size * plan_link_bytes(plan) / chosen.fabric.link_bandwidth).max()) / time
        metrics.append(Metric("Busiest link", percent(busy), "Share of the call that it sends at its full rate."))
    return tuple(metrics)


def _notes(chosen: Target, view: Exploration) -> tuple[str, ...]:
    notes = []
    if view.group != (chosen.axis or "ranks"):
        notes.append(f"{view.group} has degree 1 in this plan; shown is {chosen.words}.")
    if not chosen.axis and view.ranks != chosen.members:
        notes.append(f"The machine has {chosen.members:,} ranks, fewer than the {view.ranks:,} asked for.")
    if view.algorithm not in ("cheapest", algorithm_of(chosen, view)):
        notes.append(f"{ALGORITHM_NAMES[view.algorithm]} does not run on this group; shown is the cheapest.")
    return tuple(notes)


def _busbw(chosen: Target, view: Exploration, time: float) -> str:
    return bandwidth(bus_bandwidth(chosen, view.op, view.size, time))
