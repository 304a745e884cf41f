"""Charts of the Validation page: predicted against measured, misses by group, and what the ranges hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trn2model.ui.charts.bars import Row, row_bars
from trn2model.ui.charts.chart import Chart, Words, file_stem
from trn2model.ui.charts.parity import BAND, Dot, Picked, Series, parity
from trn2model.ui.charts.strip import ratio_strip
from trn2model.ui.charts.template import Mode
from trn2model.ui.format import duration, percent
from trn2model.ui.present.evidence import KIND_NAMES, Evidence, Selection, by_kind
from trn2model.ui.present.evidence_point import USE_NAMES, signed
from trn2model.ui.tables import Table, table
from trn2model.units import from_si
from trn2model.validation.points import Point

#: Marker by trust class; those that are never fitted are hollow, bounds hollow with a dot.
_SYMBOLS: Final = {"A": "circle", "B": "diamond", "C": "triangle-up"}
_USES: Final = (("bound", "-open-dot", 7, None), ("check", "-open", 8, 1), ("fit", "", 8, 0))
#: What ranges should hold of the measurements of groups that were not fitted.
_AIM: Final = (0.75, 0.9)
_TITLE: Final = "Predicted against measured"


def scatter(evidence: Evidence, shown: Selection, chosen: Point | None, mode: Mode, picks: str) -> Chart:
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
    return parity(words, _series(evidence, shown.everything), picked, extent, rows, mode, picks)


def spread(
    evidence: Evidence, shown: Selection, named: Sequence[tuple[str, str]], group: str, mode: Mode, picks: str
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
    return (ratio_strip(words, groups, _series(evidence, shown.points), rows, mode, picks),)


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
    return row_bars(words, bars, "share of the measurements [%]", None, table(columns, cells), mode)


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
