"""Validation page: can one trust the numbers; every published measurement beside what the model says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trn2model.ui.charts.parity import BAND
from trn2model.ui.charts.template import Mode
from trn2model.ui.format import percent
from trn2model.ui.present.content import Content, Listing, Metric, Verdict
from trn2model.ui.present.evidence import KIND_NAMES, Evidence, Selection, by_kind
from trn2model.ui.present.evidence_point import facts
from trn2model.ui.present.validation_charts import coverage, point_table, scatter, spread
from trn2model.ui.tables import table
from trn2model.units import from_si
from trn2model.validation.compare import ErrorRow, error_table, out_of_group
from trn2model.validation.points import Point

ALL: Final = "all"
TRUST: Final = ("A", "B", "C")
#: Session key of the measurement that is looked at.
PICKED: Final = "_validation_picked"
#: What errors can be listed by.
GROUPS: Final = ("dataset", "profile", "trust class", "system")
_HOW: Final = "Largest misses first. Choose a row, or a point of a chart, to see its configuration and source above."


@dataclass(frozen=True, slots=True)
class View:
    """What the page's own widgets chose: kind of measurement, machine, trust class, grouping, bounds, and a point."""

    kind: str
    system: str = ALL
    trust: str = ALL
    group: str = "dataset"
    bounds: bool = True
    picked: str = ""


def content(_subject: object, mode: Mode, evidence: Evidence, view: View) -> Content:
    """Validation page."""
    shown = selected(evidence, view)
    chosen = _chosen(shown, view.picked)
    named = [(point.id, _group(evidence, point, view.group)) for point in shown.points]
    return Content(
        title="Validation",
        configuration="Measurements do not depend on the scenario in the sidebar; each opens with its own.",
        verdict=verdict(evidence.points),
        metrics=metrics(evidence.points),
        rows=(
            (scatter(evidence, shown, chosen, mode, PICKED), facts(evidence, chosen, view.picked)),
            (Listing("Measurements", _HOW, point_table(evidence, shown.everything), PICKED),),
            (_errors(evidence, shown, view),),
            (*spread(evidence, shown, named, view.group, mode, PICKED), coverage(evidence.points, mode)),
            (_left_out(evidence),),
        ),
    )


def selected(evidence: Evidence, view: View) -> Selection:
    """What a view shows."""

    def of(points: Sequence[Point]) -> tuple[Point, ...]:
        return tuple(
            point
            for point in points
            if point.kind == view.kind
            and view.trust in (ALL, point.trust)
            and (view.system == ALL or evidence.system(point) == view.system)
        )

    machine = () if view.system == ALL else (view.system,)
    trust = () if view.trust == ALL else (f"trust {view.trust}",)
    name = " · ".join((KIND_NAMES[view.kind], *machine, *trust))
    return Selection(view.kind, name, of(evidence.points), of(evidence.bounds) if view.bounds else ())


def verdict(points: Sequence[Point]) -> Verdict:
    """How far the numbers can be trusted, in words."""
    errors = np.array([point.error for point in points])
    medians = {kind: float(np.median([p.error for p in members])) for kind, members in by_kind(points).items()}
    best, worst = min(medians, key=lambda kind: medians[kind]), max(medians, key=lambda kind: medians[kind])
    inside = float(np.mean([point.within_range for point in points]))
    outside = [abs(out_of_group()[point.id] - 1.0) for point in points if point.id in out_of_group()]
    unseen = (
        f" With constants fitted without a row's own group the median is {percent(float(np.median(outside)), 2)} "
        f"({len(outside):,} rows)."
        if outside
        else ""
    )
    return Verdict(
        f"{len(points):,} published measurements of {len({p.dataset for p in points})} datasets are compared. "
        f"The median error is {percent(float(np.median(errors)), 2)}, the mean {percent(float(errors.mean()), 2)}; "
        f"{percent(float(np.mean(errors <= BAND)), 2)} are predicted within ±{percent(BAND, 2)}, and "
        f"{percent(inside, 2)} lie in the stated range. Surest: {KIND_NAMES[best]} (median "
        f"{percent(medians[best], 2)}); least sure: {KIND_NAMES[worst]} ({percent(medians[worst], 2)}).{unseen}",
        "plain",
    )


def metrics(points: Sequence[Point]) -> tuple[Metric, ...]:
    """Error of each kind of measurement."""
    found = []
    for kind, members in by_kind(points).items():
        errors = np.array([point.error for point in members])
        fitted = sum(point.use == "fit" for point in members)
        found.append(
            Metric(
                KIND_NAMES[kind].capitalize(),
                percent(float(np.median(errors)), 2),
                f"Median absolute error of {len(members)} measurements, {fitted} of them trusted and complete enough "
                f"to be fitted on. Largest error {percent(float(errors.max()), 2)}.",
                f"median · mean {percent(float(errors.mean()), 2)}",
            )
        )
    return tuple(found)


def _chosen(shown: Selection, picked: str) -> Point | None:
    """Measurement that is looked at: the one that was picked, else the largest miss."""
    named = next((point for point in shown.everything if point.id == picked), None)
    return named or max(shown.points or shown.bounds, key=lambda point: abs(np.log(point.ratio)), default=None)


def _group(evidence: Evidence, point: Point, group: str) -> str:
    if group == "system":
        return evidence.system(point)
    return {"dataset": point.dataset, "profile": point.profile, "trust class": f"trust {point.trust}"}[group]


def _errors(evidence: Evidence, shown: Selection, view: View) -> Listing:
    named = [replace(point, dataset=_group(evidence, point, view.group)) for point in shown.points]
    narrowed = view.group != "dataset" or (view.system, view.trust) != (ALL, ALL)
    totals = {} if narrowed else evidence.totals
    rows = [_error_cells(row) for row in sorted(error_table(named, totals), key=lambda row: -row.used)]
    columns = (
        view.group,
        "rows",
        "used",
        "mean abs [%]",
        "median abs [%]",
        "max abs [%]",
        "within range [%]",
        "left-one-group-out mean abs [%]",
        "profiles",
    )
    note = (
        "Absolute errors in percent of the measurement, of what the chart shows without bounds. Used are rows that "
        "could be compared. The last error is that of constants fitted without the row's own group (source and "
        "model), none where nothing was fitted."
    )
    return Listing(f"Errors by {view.group}: {KIND_NAMES[view.kind]}", note, table(columns, rows))


def _error_cells(row: ErrorRow) -> tuple[str | float | int | None, ...]:
    outside = row.out_of_group_mean
    return (
        row.name.removesuffix(f" {row.kind}"),
        row.rows,
        row.used,
        *(round(from_si(error, "%"), 1) for error in (row.mean, row.median, row.largest)),
        round(from_si(row.within_range, "%"), 1),
        None if outside is None else round(from_si(outside, "%"), 1),
        ", ".join(row.profiles),
    )


def _left_out(evidence: Evidence) -> Listing:
    rows = [
        (len(ids), file, reason, ", ".join(sorted({evidence.rows[name].dataset for name in ids})))
        for file, reason, ids in evidence.left
    ]
    total = sum(row[0] for row in rows)
    note = f"{total:,} rows of the public tables are in no chart, for these reasons."
    return Listing("Left out", note, table(("rows", "file", "reason", "datasets"), rows))
