"""Robust least squares within bounds: Levenberg-Marquardt on Huber-weighted residuals, in NumPy alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Residual above which a row pulls with constant force. [1]
HUBER: Final = 0.1
_STEP: Final = 0.01  # share of the interval for a difference quotient
_MAX_DAMPING: Final = 1e6


class Solution(NamedTuple):
    """Where the search ended."""

    values: Floats
    loss: float
    jacobian: Floats


def solve(
    residuals: Callable[[Floats], Floats], start: Floats, low: Floats, high: Floats, iterations: int = 12
) -> Solution:
    r"""Minimum of a Huber loss over a box.

    .. math:: \sum_i \rho(r_i(x)), \quad \rho(r) = \min(\tfrac{r^2}{2}, \delta (|r| - \tfrac{\delta}{2}))

    Notes
    -----
    Deterministic. Variables are scaled to shares of their interval; a step that leaves the box is cut at its sides.
    """
    width = high - low
    point = np.clip((start - low) / width, 0.0, 1.0)
    value = residuals(low + width * point)
    damping = 1e-2
    slopes = _jacobian(residuals, point, value, low, width)
    for _ in range(iterations):
        weight = np.minimum(1.0, HUBER / np.maximum(np.abs(value), HUBER))
        trial, found = point, value
        while damping < _MAX_DAMPING:
            trial = _step(point, value, slopes, weight, damping)
            found = residuals(low + width * trial)
            if _loss(found) < _loss(value):
                damping *= 0.2
                break
            damping *= 5.0
        if damping >= _MAX_DAMPING:
            break
        gain = _loss(value) - _loss(found)
        point, value = trial, found
        slopes = _jacobian(residuals, point, value, low, width)
        if gain < 1e-6 * _loss(value):
            break
    return Solution(low + width * point, _loss(value), slopes)


def _loss(residual: Floats) -> float:
    size = np.abs(residual)
    return float(np.sum(np.where(size < HUBER, 0.5 * size**2, HUBER * (size - 0.5 * HUBER))))


def _jacobian(
    residuals: Callable[[Floats], Floats], point: Floats, value: Floats, low: Floats, width: Floats
) -> Floats:
    slopes = np.empty((len(value), len(point)))
    for column in range(len(point)):
        step = _STEP if point[column] <= 0.5 else -_STEP
        moved = point.copy()
        moved[column] += step
        slopes[:, column] = (residuals(low + width * moved) - value) / step
    return slopes


def _step(point: Floats, value: Floats, slopes: Floats, weight: Floats, damping: float) -> Floats:
    """Damped step; variables held at a side of the box that the gradient pushes against stay there."""
    gradient = slopes.T @ (weight * value)
    free = ~((point <= 0.0) & (gradient > 0.0) | (point >= 1.0) & (gradient < 0.0))
    part = slopes[:, free]
    normal = part.T @ (weight[:, None] * part)
    normal[np.diag_indices_from(normal)] *= 1.0 + damping
    normal[np.diag_indices_from(normal)] += 1e-9
    trial = point.copy()
    trial[free] -= np.linalg.solve(normal, gradient[free])
    return np.clip(trial, 0.0, 1.0)
