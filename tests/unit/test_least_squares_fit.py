"""Robust least squares against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from trn2model.validation.fit import solve

Floats = NDArray[np.float64]
X = np.linspace(0.0, 1.0, 30)
BOX = (np.array([-5.0, -5.0]), np.array([5.0, 5.0]))


def line(target: Floats) -> Floats:
    """Solution of a straight line through the targets."""
    return solve(lambda p: p[0] + p[1] * X - target, np.zeros(2), *BOX)


def test_an_exact_line_is_found() -> None:
    np.testing.assert_allclose(line(1.25 - 0.5 * X), [1.25, -0.5], atol=1e-4)


def test_outliers_pull_with_bounded_force() -> None:
    spoilt = 1.25 - 0.5 * X
    spoilt[[3, 17]] += 4.0
    plain = np.polynomial.polynomial.polyfit(X, spoilt, 1)
    robust = line(spoilt)
    assert abs(robust[0] - 1.25) < 0.1 < abs(plain[0] - 1.25)


def test_a_bound_holds_and_the_rest_adapts() -> None:
    low, high = np.array([-5.0, 0.0]), np.array([5.0, 5.0])
    found = solve(lambda p: p[0] + p[1] * X - (1.0 - 0.02 * X), np.array([0.0, 1.0]), low, high)
    assert found[1] == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(found[0], 0.99, atol=1e-3)


def test_the_search_is_deterministic() -> None:
    target = np.sin(3.0 * X)
    np.testing.assert_array_equal(line(target), line(target))
