"""Predictions beside published measurements: the targets, the bound, honest ranges, and no dataset that gets worse.

Every figure is compared with rows of data/measurements, each with its citation there.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trn2model.specs.profile import Kind, profile
from trn2model.validation.cases import Case
from trn2model.validation.compare import (
    ErrorRow,
    Point,
    error_table,
    out_of_group,
    points_of,
    summary_table,
    validation_points,
)
from trn2model.validation.fit import fitted_names, problem_of
from trn2model.validation.measurements import TABLES, measurements

BASELINE: dict[str, Any] = tomllib.loads((Path(__file__).parent / "baseline.toml").read_text(encoding="utf-8"))
FITTED = [point for point in validation_points() if point.use == "fit"]
ERRORS = {row.name: row for row in error_table(FITTED)}
SETS = {row.name: row for row in summary_table(validation_points())}
ONE_POINT = 1.0  # percent of the measurement


def percent(share: float | None) -> float:
    """Percent, where a share must exist."""
    assert share is not None
    return 100.0 * share


@pytest.mark.parametrize("name", BASELINE)
def test_no_dataset_gets_worse_without_a_recorded_reason(name: str) -> None:
    now, before = ERRORS[name], BASELINE[name]
    assert before["reason"]
    assert now.used == before["rows"]
    assert percent(now.mean) <= before["error"] + ONE_POINT
    if "out_of_group" in before:
        assert percent(now.out_of_group_mean) <= before["out_of_group"] + ONE_POINT


def test_every_dataset_has_a_baseline() -> None:
    assert ERRORS.keys() == BASELINE.keys()


def _outside_mean(row: ErrorRow) -> float:
    return percent(row.out_of_group_mean)


def _outside_median(row: ErrorRow) -> float:
    return percent(row.out_of_group_median)


@pytest.mark.parametrize(
    ("name", "figure", "most"),
    [
        ("Trn1 and Inf2 decode, trust A", _outside_mean, 8.0),
        ("Trn2 decode, trust A and B", _outside_median, 18.0),
        ("Trn1 and Trn2 time to first token, trust A and B", _outside_median, 25.0),
        ("Trn1 training, trust A", _outside_mean, 15.0),
        ("Trn2 pre-training", _outside_mean, 15.0),
        ("A100 training, Korthikanti Table 5", _outside_mean, 4.0),
        ("A100 training, SC21 Table 2", _outside_mean, 6.0),
        ("H100 training, trust A", _outside_mean, 10.0),
        ("Collectives, device time", lambda row: percent(row.median), 20.0),
        ("Collectives, device time", _outside_median, 20.5),
        ("Trn2 matmul", lambda row: percent(row.mean), 6.0),
    ],
)
def test_the_targets_hold_outside_the_group(name: str, figure: Any, most: float) -> None:
    assert figure(SETS[name]) <= most


def test_nothing_trusted_is_faster_than_ideal() -> None:
    rows = [row for table in TABLES for row in measurements(table) if row.use != "excluded" and row.trust in "AB"]
    points, _ = points_of(rows, "ideal")
    assert len(points) > 1000
    assert {point.id: point.ratio for point in points if point.ratio > 1.0} == {}


def _outside(kind: Kind) -> list[Point]:
    return [point for point in FITTED if point.kind is kind and point.id in out_of_group()]


@pytest.mark.parametrize("kind", [Kind.TRAIN, Kind.PREFILL, Kind.DECODE, Kind.COLLECTIVE])
def test_ranges_hold_about_four_in_five_rows_outside_their_group(kind: Kind) -> None:
    points = _outside(kind)
    factors = [1.0 / out_of_group()[point.id] for point in points]
    inside = [p.low <= f * p.predicted <= p.high for p, f in zip(points, factors, strict=True)]
    assert len(points) >= 20
    assert 0.75 <= np.mean(inside) <= 0.90


def test_ranges_of_matmuls_hold_about_four_in_five_rows() -> None:
    points = [point for point in FITTED if point.kind is Kind.GEMM]
    assert len(points) >= 20
    assert 0.75 <= np.mean([point.within_range for point in points]) <= 0.90
    assert np.median([(point.high - point.low) / (2.0 * point.predicted) for point in points]) <= 0.30


def test_device_times_are_told_from_times_with_a_launch() -> None:
    points = [point for point in FITTED if point.kind is Kind.COLLECTIVE]
    layers = {layer: [p for p in points if p.layer == layer] for layer in ("device", "kernel", "framework")}
    assert SETS["Collectives, device time"].used == len(layers["device"]) == 47
    assert len(layers["kernel"]) == len(points) - 47
    assert layers["framework"] == []


@pytest.mark.parametrize("kind", [Kind.TRAIN, Kind.PREFILL, Kind.DECODE, Kind.COLLECTIVE])
def test_ranges_are_narrow_enough_to_be_of_use(kind: Kind) -> None:
    widths = [(point.high - point.low) / (2.0 * point.predicted) for point in _outside(kind)]
    assert np.median(widths) <= 0.30


def test_out_of_group_ratios_are_of_rows_that_were_fitted() -> None:
    known = {point.id: point.profile for point in FITTED}
    assert set(out_of_group()) <= known.keys()


@pytest.mark.parametrize("name", fitted_names())
def test_a_fold_fitted_again_is_that_of_the_data_file(name: str) -> None:
    """The group with the most rows: it leaves the fewest to fit on."""
    problem = problem_of(name)
    group = Counter(problem.groups).most_common(1)[0][0]
    rows, ratios = problem.without(group, np.array([profile(name).value(key) for key in problem.names]))
    kept = out_of_group()
    for place, ratio in zip(rows, ratios, strict=True):
        case = problem.cases[place]
        row = case.row if isinstance(case, Case) else case
        assert ratio == pytest.approx(kept[row.id], rel=2e-3), row.id


def test_the_model_never_selects_a_profile() -> None:
    paths: dict[tuple[str, ...], set[str]] = {}
    for point in FITTED:
        if point.scenario is None:
            continue
        row = next(row for table in ("train", "serve") for row in measurements(table) if row.id == point.id)
        key = (point.kind, *(str(row.values.get(name)) for name in ("system", "stack", "version", "kernels")))
        paths.setdefault(key, set()).add(point.profile)
    assert {key: names for key, names in paths.items() if len(names) > 1} == {}
