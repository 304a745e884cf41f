"""Points: every measurement that can be compared, beside its prediction, as plain rows for tables and charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from trn2model.specs.profile import profile
from trn2model.specs.scenario import FIELDS, Scenario
from trn2model.validation.cases import TIMED_METRICS, Case, timed_case
from trn2model.validation.kernels import kernel_prediction
from trn2model.validation.measurements import Measurement, measurements
from trn2model.validation.paths import selected_profile
from trn2model.validation.predict import batches, predicted_times

#: Kinds of points in the order of reports, and the measurement files they come from.
KINDS: Final = ("train", "prefill", "decode", "collective", "gemm")
_FILES: Final = ("training", "inference", "collective", "operator")
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
    kind: str
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
    rows = [row for kind in _FILES for row in measurements(kind) if row.use in _COMPARED]
    return points_of(rows, profile_name)[0]


def points_of(rows: Sequence[Measurement], profile_name: str = "") -> tuple[tuple[Point, ...], tuple[LeftOut, ...]]:
    """Points of measured rows, and those that cannot be compared."""
    cases: list[Case] = []
    points: list[Point] = []
    left: list[LeftOut] = []
    for row in rows:
        found: Case | Point | str
        if row.kind in ("training", "inference"):
            found = timed_case(row, profile_name or None)
        else:
            found = _kernel_point(row, profile_name)
        if isinstance(found, str):
            left.append(LeftOut(row.id, row.dataset, row.trust, found))
        elif isinstance(found, Case):
            cases.append(found)
        else:
            points.append(found)
    times = predicted_times(batches(cases), len(cases))
    timed = [_timed_point(case, float(time)) for case, time in zip(cases, times, strict=True)]
    return (*timed, *points), tuple(left)


def is_timed(row: Measurement) -> bool:
    """Whether a row measures one pass or step."""
    return row.kind not in ("training", "inference") or row.metric in TIMED_METRICS


def _timed_point(case: Case, time: float) -> Point:
    return _point(case.row, case.kind, case.measured, time, case.profile, case.scenario, configuration(case.scenario))


def _kernel_point(row: Measurement, profile_name: str) -> Point | str:
    name = profile_name or selected_profile(row)
    found = kernel_prediction(row, profile(name).constants)
    if isinstance(found, str):
        return found
    return _point(row, found.kind, found.measured, found.predicted, name, None, found.configuration)


def _point(
    row: Measurement, kind: str, measured: float, time: float, name: str, scenario: Scenario | None, text: str
) -> Point:
    low, high = profile(name).spread(kind)
    return Point(
        id=row.id,
        dataset=row.dataset,
        kind=kind,
        trust=row.trust,
        use=row.use,
        measured=measured,
        predicted=time,
        ratio=time / measured,
        low=low * time,
        high=high * time,
        profile=name,
        source=row.text("source"),
        configuration=text,
        note=row.text("note"),
        scenario=scenario,
        group=row.group,
        layer=row.text("layer") if row.kind == "collective" else "",
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
