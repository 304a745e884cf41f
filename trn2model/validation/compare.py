"""Every measurement beside its prediction, and the errors by dataset."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np

from trn2model.errors import DataError, InvalidInputError
from trn2model.specs.profile import Kind, profile
from trn2model.specs.provenance import MAX_CSV_BYTES, read_user_file
from trn2model.specs.scenario import FIELDS, Scenario
from trn2model.validation.cases import Case, batches, predicted_times, timed_case
from trn2model.validation.curate import published
from trn2model.validation.kernels import KernelPrediction, kernel_prediction
from trn2model.validation.measurements import TABLES, Measurement, measurements, selected_profile

_COMPARED: Final = ("fit", "check")
#: Fields that a configuration text leaves out when they hold their default.
_HIDDEN: Final = ("profile", "price_option", "placement")


@dataclass(frozen=True, slots=True)
class Point:
    """A measured time and its prediction, in seconds; `low` and `high` bound what the profile expects to measure.

    `ratio` is prediction over measurement. `scenario` is None where no scenario stands for the row. `layer` is where a
    collective was timed: device, kernel or framework.
    """

    id: str
    dataset: str
    kind: Kind
    trust: str
    use: str
    measured: float
    predicted: float
    ratio: float
    low: float
    high: float
    profile: str
    source: str
    configuration: str
    note: str
    scenario: Scenario | None
    group: tuple[str, str]
    layer: str = ""

    @property
    def error(self) -> float:
        """Absolute relative error."""
        return abs(self.ratio - 1.0)

    @property
    def within_range(self) -> bool:
        """Whether the measurement lies in the predicted range."""
        return self.low <= self.measured <= self.high


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row that is not compared, and why."""

    id: str
    dataset: str
    trust: str
    reason: str


@cache
def validation_points(profile_name: str = "") -> tuple[Point, ...]:
    """Every row of the package's measurements that is compared."""
    rows = [row for table in TABLES for row in measurements(table) if row.use in _COMPARED]
    return points_of(rows, profile_name)[0]


def points_of(rows: Sequence[Measurement], profile_name: str = "") -> tuple[tuple[Point, ...], tuple[LeftOut, ...]]:
    """Points of measured rows, and those that cannot be compared."""
    cases: list[Case] = []
    points: list[Point] = []
    left: list[LeftOut] = []
    for row in rows:
        found: Case | Point | str
        if row.kind in (Kind.COLLECTIVE, Kind.GEMM):
            found = _kernel_point(row, profile_name)
        else:
            found = timed_case(row, profile_name or None)
        if isinstance(found, str):
            left.append(LeftOut(row.id, row.dataset, row.trust, found))
        elif isinstance(found, Case):
            cases.append(found)
        else:
            points.append(found)
    times = predicted_times(batches(cases), len(cases))
    timed = [_timed_point(case, float(time)) for case, time in zip(cases, times, strict=True)]
    return (*timed, *points), tuple(left)


def _timed_point(case: Case, time: float) -> Point:
    return _point(case, case.row, time, case.profile, text=configuration(case.scenario), scenario=case.scenario)


def _kernel_point(row: Measurement, profile_name: str) -> Point | str:
    name = profile_name or selected_profile(row)
    found = kernel_prediction(row, profile(name))
    if isinstance(found, str):
        return found
    return _point(found, row, found.predicted, name, text=found.configuration)


def _point(
    timed: Case | KernelPrediction,
    row: Measurement,
    time: float,
    name: str,
    *,
    text: str,
    scenario: Scenario | None = None,
) -> Point:
    low, high = profile(name).spread(timed.kind)
    return Point(
        id=row.id,
        dataset=row.dataset,
        kind=timed.kind,
        trust=row.trust,
        use=row.use,
        measured=timed.measured,
        predicted=time,
        ratio=time / timed.measured,
        low=low * time,
        high=high * time,
        profile=name,
        source=row.text("source"),
        configuration=text,
        note=row.text("note"),
        scenario=scenario,
        group=row.group,
        layer=row.text("layer") if timed.kind is Kind.COLLECTIVE else "",
    )


def configuration(scenario: Scenario) -> str:
    """What a scenario sets, in words."""
    model: Any = scenario.model
    name = model if isinstance(model, str) else model.name
    parts = [f"{name} on {scenario.count} x {scenario.system}"]
    for row in FIELDS:
        value = getattr(scenario, row.name)
        if row.name in ("model", "system", "count", *_HIDDEN) or np.array_equal(value, row.default):
            continue
        parts.append(f"{row.label.lower()} {value}")
    return ", ".join(parts)


#: Sets of points that a target is stated for: name, and which points belong.
SUMMARIES: Final[Mapping[str, Callable[[Point], bool]]] = {
    "Trn1 and Inf2 decode, trust A": lambda p: _on(p, Kind.DECODE, "trn1", "inf2") and p.trust == "A",
    "Trn2 decode, trust A and B": lambda p: _on(p, Kind.DECODE, "trn2") and p.trust in "AB",
    "Trn1 and Trn2 time to first token, trust A and B": lambda p: (
        _on(p, Kind.PREFILL, "trn1", "inf2", "trn2") and p.trust in "AB"
    ),
    "Trn1 training, trust A": lambda p: _on(p, Kind.TRAIN, "trn1") and p.trust == "A",
    "Trn2 pre-training": lambda p: _on(p, Kind.TRAIN, "trn2") and p.dataset.startswith("axlearn"),
    "A100 training, Korthikanti Table 5": lambda p: p.kind is Kind.TRAIN and p.dataset == "korthikanti-table5",
    "A100 training, SC21 Table 2": lambda p: p.kind is Kind.TRAIN and p.dataset == "megatron-sc21-table2",
    "H100 training, trust A": lambda p: _on(p, Kind.TRAIN, "p5") and p.trust == "A",
    "Trn2 matmul": lambda p: p.kind is Kind.GEMM and "trainium2" in p.configuration,
    "Collectives, device time": lambda p: p.kind is Kind.COLLECTIVE and p.layer == "device",
}


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """Errors of a set of points, in shares of the measurement; `out_of_group` is None where nothing was fitted."""

    name: str
    kind: Kind
    profiles: tuple[str, ...]
    rows: int
    used: int
    mean: float
    median: float
    largest: float
    within_range: float
    out_of_group_mean: float | None
    out_of_group_median: float | None


def error_table(points: Iterable[Point], rows: Mapping[tuple[str, Kind], int] | None = None) -> list[ErrorRow]:
    """Errors by dataset and kind."""
    groups: dict[tuple[Kind, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.kind, point.dataset), []).append(point)
    table = []
    for (kind, dataset), members in sorted(groups.items()):
        total = (rows or {}).get((dataset, kind), len(members))
        table.append(_errors(f"{dataset} {kind}", kind, members, max(total, len(members))))
    return table


def summary_table(points: Sequence[Point]) -> list[ErrorRow]:
    """Errors of the sets that targets are stated for, on the rows that may be fitted."""
    table = []
    for name, belongs in SUMMARIES.items():
        members = [point for point in points if point.use == "fit" and belongs(point)]
        if members:
            table.append(_errors(name, members[0].kind, members, len(members)))
    return table


@cache
def out_of_group() -> Mapping[str, float]:
    """Ratio of prediction to measurement of the fitted rows under constants fitted without their group."""
    path = resources.files("trn2model").joinpath("data", "measurements", "out_of_group.csv")
    rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    return {row["id"]: float(row["ratio"]) for row in rows}


def _errors(name: str, kind: Kind, members: Sequence[Point], total: int) -> ErrorRow:
    errors = np.array([point.error for point in members])
    outside = [abs(out_of_group()[point.id] - 1.0) for point in members if point.id in out_of_group()]
    return ErrorRow(
        name=name,
        kind=kind,
        profiles=tuple(sorted({point.profile for point in members})),
        rows=total,
        used=len(members),
        mean=float(errors.mean()),
        median=float(np.median(errors)),
        largest=float(errors.max()),
        within_range=float(np.mean([point.within_range for point in members])),
        out_of_group_mean=float(np.mean(outside)) if outside else None,
        out_of_group_median=float(np.median(outside)) if outside else None,
    )


def _on(point: Point, kind: Kind, *systems: str) -> bool:
    scenario = point.scenario
    return point.kind is kind and scenario is not None and scenario.system.startswith(systems)


def validate_report(csv: str | None = None, kind: str | None = None) -> dict[str, Any]:
    """Errors by dataset as JSON values.

    Raises InvalidInputError (the kind is unknown or missing, or the file cannot be read or is no table of that kind).
    """
    if kind is not None and kind not in TABLES:
        raise InvalidInputError("kind", kind, "one of " + ", ".join(TABLES), "choose one of them")
    if csv is not None:
        return _file_report(csv, kind)
    rows = [row for table in ([kind] if kind else TABLES) for row in measurements(table) if row.kind]
    wanted = {row.id for row in rows}
    points = [point for point in validation_points() if point.id in wanted]
    shown = {point.id for point in points}
    left = [LeftOut(row.id, row.dataset, row.trust, row.reason) for row in rows if row.id not in shown]
    return _document(points, left, rows)


def _file_report(path: str, kind: str | None) -> dict[str, Any]:
    if kind is None:
        raise InvalidInputError("kind", None, "one of " + ", ".join(TABLES), "say what the file measures")
    text = read_user_file("csv", path, "CSV", MAX_CSV_BYTES)
    try:
        rows = published(kind, text, Path(path).stem)
    except DataError as error:
        remedy = "mend that place in the file"
        raise InvalidInputError("csv", path[:60], f"a table of {kind} measurements ({error})", remedy) from error
    timed = [row for row in rows if row.kind]
    points, left = points_of([row for row in timed if row.use in _COMPARED])
    omitted = [LeftOut(row.id, row.dataset, row.trust, row.reason) for row in timed if row.use not in _COMPARED]
    return _document(points, [*left, *omitted], timed)


def _document(points: Sequence[Point], left: Sequence[LeftOut], rows: Sequence[Measurement]) -> dict[str, Any]:
    kinds = {point.id: point.kind for point in points}
    totals = Counter((row.dataset, kinds[row.id]) for row in rows if row.id in kinds)
    return {
        "datasets": [_json(row) for row in error_table(points, totals)],
        "summaries": [_json(row) for row in summary_table(points)],
        "left_out": dict(Counter(item.reason for item in left).most_common()),
    }


def _json(row: ErrorRow) -> dict[str, Any]:
    outside = row.out_of_group_mean
    middle = row.out_of_group_median
    return {
        "name": row.name,
        "kind": row.kind,
        "profiles": list(row.profiles),
        "rows": row.rows,
        "used": row.used,
        "mean_abs_pct_error": 100.0 * row.mean,
        "median_abs_pct_error": 100.0 * row.median,
        "max_abs_pct_error": 100.0 * row.largest,
        "within_range_fraction": row.within_range,
        "loo_mean_abs_pct_error": 100.0 * (row.mean if outside is None else outside),
        "loo_median_abs_pct_error": 100.0 * (row.median if middle is None else middle),
    }
