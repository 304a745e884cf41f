"""Validation page: can one trust the numbers; every published measurement beside what the model says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trn2model.specs.profile import Kind
from trn2model.text import duration, percent
from trn2model.ui.charts.bars import Row, row_bars
from trn2model.ui.charts.chart import Chart, Words, file_stem
from trn2model.ui.charts.parity import BAND, Dot, Picked, Series, parity, ratio_strip
from trn2model.ui.charts.style import Mode
from trn2model.ui.pages.content import Content, Listing, Metric, Verdict
from trn2model.ui.pages.evidence import KIND_NAMES, USE_NAMES, Evidence, Selection, by_kind, facts, signed
from trn2model.ui.tables import Table, table
from trn2model.units import from_si
from trn2model.validation.compare import ErrorRow, Point, error_table, out_of_group

#: Marker by trust class; those that are never fitted are hollow, bounds hollow with a dot.
_SYMBOLS: Final = {"A": "circle", "B": "diamond", "C": "triangle-up"}
_USES: Final = (("bound", "-open-dot", 7, None), ("check", "-open", 8, 1), ("fit", "", 8, 0))
#: What ranges should hold of the measurements of groups that were not fitted.
_AIM: Final = (0.75, 0.9)
_TITLE: Final = "Predicted against measured"


def scatter(evidence: Evidence, shown: Selection, chosen: Point | None, *, mode: Mode, picks: str) -> Chart:
    """Predicted against measured times of one kind."""
    whole = [point for point in (*evidence.points, *evidence.bounds) if point.kind == shown.kind]
    times = [time for point in whole for time in (point.measured, point.predicted)]
    picked = Picked(_dot(chosen, evidence), chosen.low, chosen.high) if chosen else None
    count = len(shown.points)
    inside = float(np.mean([point.error <= BAND for point in shown.points])) if count else 0.0
    said = f"{count} measurements, {percent(inside, 2)} of them within ±{percent(BAND, 2)}"
    above = sum(point.predicted > point.measured for point in shown.bounds)
    bounds = f" · {len(shown.bounds)} bounds, {above} of them predicted to take longer" if shown.bounds else ""
    detail = f"{shown.name} · {said}{bounds}"
    words = Words(_TITLE, detail, f"{_TITLE}, {shown.name}: {said}.", file_stem("trn2model", "validation", shown.name))
    extent = (min(times, default=0.1), max(times, default=1.0))
    rows = point_table(evidence, shown.everything)
    return parity(words, _series(evidence, shown.everything), picked, extent, table=rows, mode=mode, picks=picks)


def spread(
    evidence: Evidence, shown: Selection, named: Sequence[tuple[str, str]], *, group: str, mode: Mode, picks: str
) -> tuple[Chart, ...]:
    """Ratio of prediction to measurement, one strip per group."""
    if not shown.points:
        return ()
    strips: dict[str, list[str]] = {}
    for name, strip in named:
        strips.setdefault(strip, []).append(name)
    ordered = sorted(strips, key=lambda strip: -len(strips[strip]))
    groups = {name: strip for strip in ordered for name in strips[strip]}
    ratios = {point.id: point.ratio for point in shown.points}
    middles = "; ".join(
        f"{strip} {signed(float(np.median([ratios[name] for name in strips[strip]])))}" for strip in ordered
    )
    words = Words(
        f"Misses by {group}",
        f"{shown.name} · shaded: within ±{percent(BAND, 2)} · right of 1: predicted too slow",
        f"Median miss by {group}: {middles}.",
        file_stem("trn2model", "validation", "misses", group, shown.name),
    )
    cells = [(groups[point.id], point.id, point.ratio) for point in shown.points]
    rows = table((group, "id", "predicted over measured"), sorted(cells))
    return (ratio_strip(words, groups, _series(evidence, shown.points), table=rows, mode=mode, picks=picks),)


def coverage(points: Sequence[Point], mode: Mode) -> Chart:
    """Share of the measurements that lie in the range of their prediction, by kind."""
    bars, cells = [], []
    for kind, members in by_kind(points).items():
        inside = float(np.mean([point.within_range for point in members]))
        near = float(np.mean([point.error <= BAND for point in members]))
        width = float(np.median([(point.high - point.low) / (2.0 * point.predicted) for point in members]))
        label = f"{percent(inside, 2)} of {len(members)} (range ±{percent(width, 2)})"
        bars.append(Row(KIND_NAMES[kind], 0.0, from_si(inside, "%"), label, 0))
        cells.append((KIND_NAMES[kind], len(members), inside, near, width))
    listed = "; ".join(f"{bar.name} {bar.label}" for bar in bars)
    words = Words(
        "Measurements inside the stated range",
        f"of all kinds, bounds left out · the aim is {percent(_AIM[0], 2)} to {percent(_AIM[1], 2)} · range: median "
        "half-width over the prediction",
        f"Share of measurements inside the predicted range: {listed}.",
        file_stem("trn2model", "validation", "coverage"),
    )
    columns = (
        "kind",
        "measurements",
        "inside the range",
        f"within ±{percent(BAND, 2)}",
        "median half-width of the range",
    )
    return row_bars(words, bars, "share of the measurements [%]", table=table(columns, cells), mode=mode)


def point_table(evidence: Evidence, points: Sequence[Point]) -> Table:
    """Measurements as rows, the largest misses first, bounds last."""
    columns = (
        "id",
        "dataset",
        "model or operation",
        "system",
        "trust",
        "use",
        "measured [s]",
        "predicted [s]",
        "error [%]",
        "low [s]",
        "high [s]",
        "in range",
        "profile",
    )
    ordered = sorted(points, key=lambda point: (point.use == "bound", -abs(np.log(point.ratio))))
    rows = [
        (
            point.id,
            point.dataset,
            evidence.subject(point),
            evidence.system(point),
            point.trust,
            point.use,
            _digits(point.measured),
            _digits(point.predicted),
            round(from_si(point.ratio - 1.0, "%"), 1),
            _digits(point.low),
            _digits(point.high),
            point.within_range,
            point.profile,
        )
        for point in ordered
    ]
    return table(columns, rows)


def _series(evidence: Evidence, points: Sequence[Point]) -> list[Series]:
    """Points by use and trust class, those that may be fitted on top."""
    found = []
    for use, ending, size, colour in _USES:
        for trust, symbol in _SYMBOLS.items():
            dots = tuple(_dot(point, evidence) for point in points if point.use == use and point.trust == trust)
            if dots:
                found.append(Series(f"{trust}, {USE_NAMES[use]}", f"{symbol}{ending}", size, colour, dots))
    return found


def _dot(point: Point, evidence: Evidence) -> Dot:
    note = (
        f"{point.id} · trust {point.trust}, {USE_NAMES[point.use]}<br>{evidence.subject(point)}"
        f" on {evidence.system(point)}<br>measured {duration(point.measured)}, predicted {duration(point.predicted)} "
        f"({signed(point.ratio)})<br>{point.dataset}"
    )
    return Dot(point.measured, point.predicted, point.id, note)


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


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

    kind: Kind
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
            (scatter(evidence, shown, chosen, mode=mode, picks=PICKED), facts(evidence, chosen, view.picked)),
            (Listing("Measurements", _HOW, point_table(evidence, shown.everything), PICKED),),
            (_errors(evidence, shown, view),),
            (
                *spread(evidence, shown, named, group=view.group, mode=mode, picks=PICKED),
                coverage(evidence.points, mode),
            ),
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
        (len(ids), source, reason, ", ".join(sorted({evidence.rows[name].dataset for name in ids})))
        for source, reason, ids in evidence.left
    ]
    total = sum(row[0] for row in rows)
    note = f"{total:,} rows of the public tables are in no chart, for these reasons."
    return Listing("Left out", note, table(("rows", "table", "reason", "datasets"), rows))
