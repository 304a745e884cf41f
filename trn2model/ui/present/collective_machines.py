"""Collective explorer: the same groups on UltraServers, with rings along z, and on their instances over EFA."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from trn2model.estimate.network.collective_parts import PARTS, cheapest_plan, collective_parts
from trn2model.estimate.network.collective_report import CollectiveCurves, collective_curves
from trn2model.estimate.network.placement import group_ranks
from trn2model.estimate.training.step import TrainingEstimate
from trn2model.specs import catalog
from trn2model.specs.topology import Fabric, fabric
from trn2model.ui.charts.chart import Chart, Words, file_stem
from trn2model.ui.charts.part_rows import PartRow, part_rows
from trn2model.ui.charts.size_lines import Mark, Marks, SizeLine, SizePlot, size_lines, size_name
from trn2model.ui.charts.template import Mode
from trn2model.ui.format import duration, significant
from trn2model.ui.present.collective import OPERATION_NAMES, SIZES, Exploration, Target, chart_subtitle, target
from trn2model.ui.present.content import Content, Verdict
from trn2model.ui.tables import table
from trn2model.units import from_si

TITLE: Final = "UltraServer against EFA"
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
_COLOURS: Final = (9, 4, 0, 2, 1, 3, 6, 5)
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


def content(estimate: TrainingEstimate, mode: Mode, view: Exploration) -> Content:
    """Ratio of the two machines in a sentence, and two charts where there is a difference."""
    chosen = target(estimate, view)
    found = compare(chosen, view.op)
    charts = (_lines_chart(chosen, view, found, mode), _parts_chart(chosen, view, found, mode))
    verdict = Verdict(ratio_sentence(chosen, view, found), "plain")
    return Content(TITLE, "", verdict, (), (charts,) if found.crosses else ())


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
        collective_curves(one, op, chosen.dims, chosen.num_ranks, SIZES, chosen.constants) for one in fabrics
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
    plans = (
        cheapest_plan(one, view.op, chosen.dims, chosen.num_ranks, view.size, chosen.constants) for one in found.fabrics
    )
    pairs = zip(found.fabrics, plans, strict=True)
    return tuple(collective_parts(one, plan, view.size, chosen.constants) for one, plan in pairs)


def _lines_chart(chosen: Target, view: Exploration, found: Machines, mode: Mode) -> Chart:
    op = OPERATION_NAMES[view.op]
    least = [np.min(list(curve.times.values()), axis=0) for curve in found.times]
    styles = ((0, "solid", "circle"), (5, "dash", "square"))
    labels = (f"{found.names[0]} (z rings)", f"{found.names[1]} (EFA)")
    lines = [
        SizeLine(label, tuple(times.tolist()), *style)
        for label, times, style in zip(labels, least, styles, strict=True)
    ]
    here = [sum(parts.values()) for parts in _parts(chosen, view, found)]
    marks = tuple(Mark(view.size, time, f"{size_name(view.size)}: {duration(time)}") for time in here)
    plot = SizePlot(SIZES, tuple(lines), marks=(Marks(f"at {size_name(view.size)}", marks, "circle", False),))
    rows = [
        (size, times[0], times[1], times[1] / times[0])
        for size, times in zip(SIZES, zip(*least, strict=True), strict=True)
    ]
    twin = table(("message [B]", f"{labels[0]} [s]", f"{labels[1]} [s]", "EFA over z rings"), rows)
    alt = f"Time of {op} against message size on both machines. {ratio_sentence(chosen, view, found)}"
    stem = file_stem("trn2model", op, "ultraserver-efa", chosen.axis or "ranks", f"{chosen.members}")
    words = Words(f"{op.capitalize()}: z rings against EFA", _subtitle(chosen), alt, stem)
    return size_lines(words, plot, ("time, cheapest algorithm", "s"), "top", twin, mode)


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
    names = [(PART_NAMES[part], colour) for part, colour in zip(PARTS, _COLOURS, strict=True)]
    twin = table(
        ("machine", "part", "time [s]"),
        [(name, PART_NAMES[part], one[part]) for name, one in zip(found.names, parts, strict=True) for part in PARTS],
    )
    alt = f"Where the time of {op} of {size} goes on both machines. {ratio_sentence(chosen, view, found)}"
    stem = file_stem("trn2model", op, "ultraserver-efa-parts", size, f"{chosen.members}")
    detail = f"{size}, by the busiest resource of each step · {chart_subtitle(chosen)}"
    words = Words(f"What {op} waits for", detail, alt, stem)
    axis = f"time [{'µs' if unit == 'us' else unit}]"
    return part_rows(words, names, rows, axis, twin, mode)


def _subtitle(chosen: Target) -> str:
    return f"the same groups and constants on both · {chart_subtitle(chosen)}"
