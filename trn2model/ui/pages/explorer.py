"""Collective explorer: time and bus bandwidth over the message size, and UltraServers against EFA."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from trn2model.model.training.step import TrainingEstimate
from trn2model.network.collective import CHIP, CollectiveCurves, collective_curves, sweet_ranges
from trn2model.network.cost import way_link_bytes
from trn2model.network.loads import PARTS, SPANNED, CommunicationUse, collective_parts
from trn2model.network.placement import Dims, group_ranks, merge_dims
from trn2model.specs import catalog
from trn2model.specs.topology import Fabric, fabric
from trn2model.text import bandwidth, duration, percent, significant, size_name
from trn2model.ui.charts.bars import PartRow, part_rows
from trn2model.ui.charts.chart import Chart, Words, file_stem
from trn2model.ui.charts.colours import RESOURCE_COLOURS
from trn2model.ui.charts.curves import Axes, Band, Crossing, Curve, Mark, Marks, line_chart
from trn2model.ui.charts.style import Mode
from trn2model.ui.pages.collective import (
    ALGORITHM_NAMES,
    OPERATION_NAMES,
    SIZES,
    Exploration,
    Measured,
    Target,
    algorithm_of,
    best_by_size,
    bus_bandwidth,
    chart_subtitle,
    curves,
    legs_text,
    line_table,
    line_time,
    measured_listing,
    measured_marks,
    measured_points,
    target,
)
from trn2model.ui.pages.content import Content, Metric, Remarks, Row, Verdict
from trn2model.ui.tables import Table, table
from trn2model.units import from_si

MACHINES_TITLE: Final = "UltraServer against EFA"
PART_NAMES: Final[Mapping[str, str]] = {
    "start": "start of the call",
    "latency": "latency of steps",
    "x/y links": "x and y links",
    "z links": "z links",
    "switch": "switch ports",
    "chip": "paths on chip",
    "hbm": "HBM",
    "efa": "EFA",
}
#: Ratio of times up to which they print as the same.
_ALIKE: Final = 1.005
_ULTRASERVER: Final = "trn2-ultraserver"
_INSTANCE: Final = "trn2.48xlarge"


@dataclass(frozen=True, slots=True, eq=False)
class Machines:
    """The two machines with the groups on them: names, fabrics, and times over the sizes."""

    names: tuple[str, str]
    fabrics: tuple[Fabric, Fabric]
    times: tuple[CollectiveCurves, CollectiveCurves]
    crosses: bool


def applies(estimate: TrainingEstimate, view: Exploration) -> bool:
    """Whether there is an UltraServer to compare with."""
    chosen = target(estimate, view)
    return chosen.fabric.system in (_ULTRASERVER, _INSTANCE) and chosen.members > 1


def machines_content(estimate: TrainingEstimate, mode: Mode, view: Exploration) -> Content:
    """Ratio of the two machines in a sentence, and two charts where there is a difference."""
    chosen = target(estimate, view)
    found = compare(chosen, view.op)
    charts = (_lines_chart(chosen, view, found, mode), _parts_chart(chosen, view, found, mode))
    verdict = Verdict(ratio_sentence(chosen, view, found), "plain")
    return Content(MACHINES_TITLE, "", verdict, (), (charts,) if found.crosses else ())


@lru_cache(maxsize=128)
def compare(chosen: Target, op: str) -> Machines:
    """The groups of a plan on as many UltraServers as they need, and on the same instances over EFA."""
    lnc = chosen.scenario.lnc
    instance = fabric(catalog.system(_INSTANCE), 1, lnc)
    each = fabric(catalog.system(_ULTRASERVER), 1, lnc).ranks_per_domain
    count = math.ceil(chosen.num_ranks / each)
    number = count * each // instance.ranks_per_domain
    fabrics = (fabric(catalog.system(_ULTRASERVER), count, lnc), fabric(catalog.system(_INSTANCE), number, lnc))
    names = ("UltraServer" if count == 1 else f"{count} × UltraServer", f"{number} × trn2.48xlarge")
    ranks = group_ranks(chosen.dims, chosen.num_ranks) // instance.ranks_per_domain
    crosses = bool((ranks.max(axis=1) > ranks.min(axis=1)).any())
    first, second = (
        collective_curves(one, op, chosen.dims, chosen.num_ranks, message_bytes=SIZES, constants=chosen.constants)
        for one in fabrics
    )
    return Machines(names, fabrics, (first, second), crosses)


def ratio_sentence(chosen: Target, view: Exploration, found: Machines) -> str:
    """How much longer the instances take than the UltraServer, and what each waits for."""
    op, size = OPERATION_NAMES[view.op], size_name(view.size)
    if not found.crosses:
        return (
            f"{_first_capital(chosen.words)}: no group leaves its instance, so neither the rings along z nor EFA carry "
            f"any of this {op}; {found.names[0]} and {found.names[1]} take the same time. "
            "Choose a group that spans instances to see a difference."
        )
    parts = _parts(chosen, view, found)
    fast, slow = (sum(one.values()) for one in parts)
    ratio = f"{significant(slow / fast)} times as long as" if slow > _ALIKE * fast else "as long as"
    over = f", by EFA {duration(parts[0]['efa'])}" if parts[0]["efa"] > 0 else ""
    return (
        f"{op.capitalize()} of {size} over {chosen.words}: {found.names[1]} over EFA takes {duration(slow)}, {ratio} "
        f"{found.names[0]} ({duration(fast)}). Steps that EFA binds take {duration(parts[1]['efa'])} of it; on "
        f"{found.names[0]}, steps that z links bind take {duration(parts[0]['z links'])}{over}."
    )


def _first_capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _parts(chosen: Target, view: Exploration, found: Machines) -> tuple[dict[str, float], ...]:
    tables = (line_table(replace(chosen, fabric=one), view.op) for one in found.fabrics)
    return tuple(
        collective_parts(one, lines.way(view.size), view.size, chosen.constants)
        for one, lines in zip(found.fabrics, tables, strict=True)
    )


def _lines_chart(chosen: Target, view: Exploration, found: Machines, mode: Mode) -> Chart:
    op = OPERATION_NAMES[view.op]
    least = [np.min(list(curve.times.values()), axis=0) for curve in found.times]
    styles = ((0, "solid", "circle"), (5, "dash", "square"))
    labels = (f"{found.names[0]} (z rings)", f"{found.names[1]} (EFA)")
    lines = [
        Curve(label, SIZES, times.tolist(), colour, dash=dash, symbol=symbol)
        for label, times, (colour, dash, symbol) in zip(labels, least, styles, strict=True)
    ]
    here = [sum(parts.values()) for parts in _parts(chosen, view, found)]
    marks = tuple(Mark(view.size, time, f"{size_name(view.size)}: {duration(time)}") for time in here)
    chosen_size = Marks(f"at {size_name(view.size)}", marks, "circle")
    rows = [
        (size, times[0], times[1], times[1] / times[0])
        for size, times in zip(SIZES, zip(*least, strict=True), strict=True)
    ]
    twin = table(("message [B]", f"{labels[0]} [s]", f"{labels[1]} [s]", "EFA over z rings"), rows)
    alt = f"Time of {op} against message size on both machines. {ratio_sentence(chosen, view, found)}"
    stem = file_stem("trn2model", op, "ultraserver-efa", chosen.axis or "ranks", f"{chosen.members}")
    words = Words(f"{op.capitalize()}: z rings against EFA", _subtitle(chosen), alt, stem)
    axes = Axes("message size", "time, cheapest algorithm", "log", "log", "B", "s")
    return line_chart(words, lines, axes, table=twin, mode=mode, marks=(chosen_size,))


def _parts_chart(chosen: Target, view: Exploration, found: Machines, mode: Mode) -> Chart:
    op, size = OPERATION_NAMES[view.op], size_name(view.size)
    parts = _parts(chosen, view, found)
    unit = "ms" if max(sum(one.values()) for one in parts) >= 1e-3 else "us"
    rows = [
        PartRow(
            name,
            tuple(from_si(one[part], unit) for part in PARTS),
            tuple(duration(one[part]) for part in PARTS),
            duration(sum(one.values())),
        )
        for name, one in zip(found.names, parts, strict=True)
    ]
    names = [(PART_NAMES[part], RESOURCE_COLOURS[part]) for part in PARTS]
    twin = table(
        ("machine", "part", "time [s]"),
        [(name, PART_NAMES[part], one[part]) for name, one in zip(found.names, parts, strict=True) for part in PARTS],
    )
    alt = f"Where the time of {op} of {size} goes on both machines. {ratio_sentence(chosen, view, found)}"
    stem = file_stem("trn2model", op, "ultraserver-efa-parts", size, f"{chosen.members}")
    detail = f"{size}, by the busiest resource of each step · {chart_subtitle(chosen)}"
    words = Words(f"What {op} waits for", detail, alt, stem)
    axis = f"time [{'µs' if unit == 'us' else unit}]"
    return part_rows(words, names, rows, axis, table=twin, mode=mode)


def _subtitle(chosen: Target) -> str:
    return f"the same groups and constants on both · {chart_subtitle(chosen)}"


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
    plot = [
        curve_chart(chosen, view, found, points=shown, sent=sent, quantity=quantity, mode=mode)
        for quantity in ("time", "busbw")
    ]
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
    *,
    points: tuple[Measured, ...],
    sent: Sequence[float],
    quantity: str,
    mode: Mode,
) -> Chart:
    """One line per algorithm over the message size."""
    values = found.times if quantity == "time" else found.busbw
    least = np.min(list(values.values()), axis=0) if quantity == "time" else np.max(list(values.values()), axis=0)
    names = [name for name in ALGORITHM_NAMES if name in values]
    title, unit = ("time", "s") if quantity == "time" else ("bus bandwidth", "B/s")
    return line_chart(
        _words(chosen, view, title),
        [_curve(name, found.message_bytes.tolist(), values[name].tolist()) for name in names],
        Axes("message size", title, "log", "log", "B", unit),
        table=_twin(found, points),
        mode=mode,
        least=least.tolist(),
        marks=(*_estimated_marks(chosen, view, sent, quantity), *measured_marks(points, quantity)),
        bands=_bands(chosen, view.op),
        crossings=[Crossing(size, size_name(size)) for size, _, _ in found.crossovers],
    )


def _curve(name: str, sizes: Sequence[float], values: Sequence[float]) -> Curve:
    colour, dash, symbol = _STYLES[name]
    return Curve(ALGORITHM_NAMES[name], sizes, values, colour, dash=dash, symbol=symbol)


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
    way = line_table(chosen, view.op, name).way(view.size)
    time = line_time(chosen, view.op, view.size, name)
    parts = collective_parts(chosen.fabric, way, view.size, chosen.constants)
    largest = max(parts, key=lambda part: parts[part])
    metrics = [
        Metric("Time", duration(time), f"One call of {size_name(view.size)}, {legs_text(way.legs)}."),
        Metric("Bus bandwidth", _busbw(chosen, view, time), "As nccom-test counts it."),
        Metric("Algorithm bandwidth", bandwidth(view.size / time), "Message size over time."),
        Metric("Waits most for", PART_NAMES[largest], f"{percent(parts[largest] / time)} of the time."),
    ]
    if chosen.fabric.num_links:
        busy = float((view.size * way_link_bytes(way) / chosen.fabric.link_bandwidth).max()) / time
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
