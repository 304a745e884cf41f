"""Fitting profiles: constants within their intervals, reproducible files, folds that leave a whole group out."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

from trn2model.errors import UnknownNameError
from trn2model.model.serving.steady import estimate_serving
from trn2model.specs.profile import CONSTANT_NAMES, Kind, profile
from trn2model.specs.resolve import resolve
from trn2model.units import to_si
from trn2model.validation.cases import Case, batches, predicted_times
from trn2model.validation.compare import out_of_group
from trn2model.validation.fit import (
    FEW_ROWS,
    LEAST_SPREAD,
    Fit,
    fit_cases,
    fit_profile,
    fitted_names,
    out_of_group_lines,
    profile_text,
    spread,
)
from trn2model.validation.measurements import fits, selected_profile

QUICK = ("trn1-links", "trn2-compiled-matmul", "trn1-training", "neuron-2.2x-training", "neuron-2.2x-kernels")


@pytest.mark.parametrize("name", fitted_names())
def test_a_profile_fits_few_constants_within_intervals(name: str) -> None:
    table = fits()["profiles"][name]
    assert 1 <= len(table["free"]) <= 8
    assert not table["free"].keys() & table["set"].keys()
    for key, free in table["free"].items():
        assert key in CONSTANT_NAMES
        low, high = to_si(free["low"], free["measured_in"]), to_si(free["high"], free["measured_in"])
        value = profile(name).value(key)
        assert low <= value <= high * (1 + 1e-9)
        assert free["within"]


@pytest.mark.parametrize("name", QUICK)
def test_fitting_again_gives_the_committed_constants(name: str) -> None:
    found = fit_profile(name, cross_validate=False)
    for key, value in found.constants.items():
        assert profile(name).value(key) == pytest.approx(value, rel=1e-9), key


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(fitted_names()) - set(QUICK)))
def test_fitting_the_larger_profiles_again_gives_the_committed_constants(name: str) -> None:
    found = fit_profile(name, cross_validate=False)
    for key, value in found.constants.items():
        assert profile(name).value(key) == pytest.approx(value, rel=1e-9), key


def test_fitting_again_gives_the_committed_file() -> None:
    found = fit_profile("trn1-links")
    written = resources.files("trn2model").joinpath("data", "profiles", "trn1-links.toml").read_text(encoding="utf-8")
    assert profile_text(found, fits()["profiles"]["trn1-links"]) == written
    lines = out_of_group_lines(found)
    assert {line.split(",")[0]: float(line.split(",")[2]) for line in lines}.items() <= out_of_group().items()


@pytest.mark.parametrize("name", fitted_names())
def test_only_trusted_rows_of_the_path_are_fitted_on(name: str) -> None:
    rows = [case.row if isinstance(case, Case) else case for case in fit_cases(name)]
    assert rows
    assert {row.use for row in rows} == {"fit"}
    assert {row.trust for row in rows} <= {"A", "B"}
    assert {selected_profile(row) for row in rows} == {name}


def test_a_fit_without_groups_says_nothing_outside() -> None:
    found = fit_profile("neuron-2.2x-training", cross_validate=False)
    assert isinstance(found, Fit)
    assert np.isnan(found.out_of_group).all()
    assert np.isfinite(found.residuals).all()
    assert out_of_group_lines(found) == []


def test_unknown_profiles_are_refused() -> None:
    with pytest.raises(UnknownNameError):
        fit_profile("achievable")


def test_a_spread_holds_four_in_five_of_many_rows_and_all_of_a_few() -> None:
    generator = np.random.default_rng(7)
    many = generator.normal(0.0, 0.3, 4000)
    low, high = spread(many)
    ratios = np.exp(-many)
    assert np.mean((ratios >= low) & (ratios <= high)) == pytest.approx(0.8, abs=0.01)
    few = many[: FEW_ROWS - 1]
    low, high = spread(few)
    assert low <= np.exp(-few).min() + 1e-3
    assert high >= np.exp(-few).max() - 1e-3
    skewed = np.concatenate([np.zeros(80), np.full(20, -1.0)])
    assert spread(skewed) == (1 - LEAST_SPREAD, 1 + LEAST_SPREAD)
    assert spread(np.zeros(5)) == (1 - LEAST_SPREAD, 1 + LEAST_SPREAD)


def test_means_under_load_hold_the_prefills_of_others() -> None:
    """A mean over 32 requests is the time on a full replica; a median, and the bound, are of decode alone."""
    cases = [case for case in fit_cases("gpu-inference") if isinstance(case, Case) and case.kind is Kind.DECODE]
    stalled = [case for case in cases if case.stalled]
    assert {(case.row.text("statistic"), case.row.number("concurrency") > 1) for case in stalled} == {("mean", True)}
    assert {case.row.text("statistic") for case in cases if not case.stalled} == {"p50", "mean"}
    one = next(case for case in stalled if case.row.number("concurrency") == 32)
    estimate = estimate_serving(resolve(one.scenario, "serve"))
    median = replace(one, stalled=False)
    times = predicted_times(batches([one, median]), 2)
    expected = [float(estimate.tpot_with_stalls), float(estimate.tpot)]
    assert times.tolist() == pytest.approx(expected, rel=1e-12)
    assert times[0] > times[1]
    bound = predicted_times(batches([one, median]), 2, profile("ideal"))
    assert bound[0] == bound[1]
