"""Fitting: the few free constants of each profile, by robust least squares on the rows of its software path.

``python -m trn2model.validation.fit [PROFILE ...]`` fits the profiles of fits.toml again and writes their files.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from trn2model.errors import UnknownNameError
from trn2model.specs.profile import Kind, Profile, profile
from trn2model.specs.provenance import read_figure
from trn2model.units import from_si, to_si
from trn2model.validation.cases import Batch, Case, batches, predicted_times, timed_case
from trn2model.validation.kernels import KernelPrediction, kernel_prediction
from trn2model.validation.measurements import TABLES, Measurement, fits, measurements, selected_profile

Floats = NDArray[np.float64]
#: Residual above which a row pulls with constant force. [1]
HUBER: Final = 0.1
#: Share of its interval within which a constant lies at its end: the search approaches ends from inside. [1]
_AT_END: Final = 1e-6


def solve(residuals: Callable[[Floats], Floats], start: Floats, low: Floats, high: Floats) -> Floats:
    r"""Minimum of a Huber loss over a box.

    .. math:: \sum_i \rho(r_i(x)), \quad \rho(r) = \min(\tfrac{r^2}{2}, \delta (|r| - \tfrac{\delta}{2}))

    Notes
    -----
    Deterministic. Variables are scaled to shares of their interval.
    """
    width = high - low
    found = least_squares(
        lambda share: residuals(low + width * share),
        np.clip((start - low) / width, 0.0, 1.0),
        bounds=(0.0, 1.0),
        loss="huber",
        f_scale=HUBER,
    )
    share = np.where(found.x < _AT_END, 0.0, np.where(found.x > 1.0 - _AT_END, 1.0, found.x))
    return np.asarray(low + width * share)


SOURCE: Final = "own-fit"
#: Share of the out-of-group residuals that a range holds, and the rows from which less than all of them is trusted.
RANGE: Final = 0.8
FEW_ROWS: Final = 20
#: Least share by which a range opens on each side. [1]
LEAST_SPREAD: Final = 0.05


def profile_text(fit: Fit, specification: Mapping[str, Any]) -> str:
    """TOML of a fitted profile."""
    lines = [
        "# Written by trn2model.validation.fit from fits.toml and data/measurements; change those, then fit again.",
        f"title = {_quoted(specification['title'])}",
        f"note = {_quoted(specification['note'])}",
        f"extends = {_quoted(specification['extends'])}",
        f"fitted = {json.dumps(list(specification['free']))}",
    ]
    for key, table in specification["set"].items():
        lines += ["", f"[constants.{key}]", f"value = {_number(table['value'])}"]
        lines += [f"{name} = {_quoted(table[name])}" for name in ("unit", "source", "status", "note")]
    for key, table in specification["free"].items():
        value = _number(from_si(fit.constants[key], table["measured_in"]))
        ends = f"fitted within {_number(table['low'])} to {_number(table['high'])}: {table['within']}"
        lines += ["", f"[constants.{key}]", f"value = {value}", f"unit = {_quoted(table['measured_in'])}"]
        lines += [f'source = "{SOURCE}"', 'status = "derived"', f"note = {_quoted(ends)}"]
    return "\n".join([*lines, "", *_spread_lines(fit), "", *_fit_lines(fit, specification)]) + "\n"


def spread(residuals: NDArray[np.float64]) -> tuple[float, float]:
    r"""Factors on a prediction between which most measurements lie.

    .. math:: \arg\min_{[a, b]} (b - a), \quad \text{share of ratios in } [a, b] \ge 0.8
    """
    ratios = np.sort(np.exp(-residuals))
    share = RANGE if len(ratios) >= FEW_ROWS else 1.0
    held = round(share * len(ratios))
    widths = ratios[held - 1 :] - ratios[: len(ratios) - held + 1]
    first = int(np.argmin(widths))
    low, high = float(ratios[first]), float(ratios[first + held - 1])
    return (
        math.floor(1000.0 * min(low, 1.0 - LEAST_SPREAD)) / 1000.0,
        math.ceil(1000.0 * max(high, 1.0 + LEAST_SPREAD)) / 1000.0,
    )


def _spread_lines(fit: Fit) -> list[str]:
    lines = ["[spreads]"]
    for kind in Kind:
        rows = np.array([case.kind is kind for case in fit.cases])
        known = rows & np.isfinite(fit.out_of_group)
        if not known.any():
            continue
        low, high = spread(fit.out_of_group[known])
        how = "shortest range of 80 %" if known.sum() >= FEW_ROWS else "extremes"
        note = f"{how} of measured over predicted, {known.sum()} rows, each under constants fitted without its group"
        for end, value in (("low", low), ("high", high)):
            table = f'value = {value}, unit = "1", source = "{SOURCE}", status = "derived", note = "{note}"'
            lines.append(f"{kind}.{end} = {{ {table} }}")
    return lines


def _fit_lines(fit: Fit, specification: Mapping[str, Any]) -> list[str]:
    """What the fit rests on: date, rows, errors, and the region that the rows span."""
    systems = sorted({row.text("system") for row in fit.rows})
    rows = Counter(f"{row.dataset} {row.kind}" for row in fit.rows)
    lines = [
        "[fit]",
        f'source = "{SOURCE}"',
        f"date = {_quoted(specification['date'])}",
        f"systems = {json.dumps(systems)}",
    ]
    lines.append("rows = { " + ", ".join(f"{_quoted(name)} = {count}" for name, count in sorted(rows.items())) + " }")
    for label, residuals in (("error", fit.residuals), ("out_of_group_error", fit.out_of_group)):
        known = np.abs(np.expm1(residuals[np.isfinite(residuals)]))
        if known.size:
            lines.append(f"{label} = {{ mean = {known.mean():.4f}, median = {np.median(known):.4f} }}")
    return lines


def _quoted(text: object) -> str:
    return json.dumps(str(text), ensure_ascii=False)


def _number(value: float) -> str:
    return f"{float(f'{value:.4g}'):g}"


RATIO_COLUMNS: Final = ("id", "profile", "ratio", "trust", "source")
_DIGITS: Final = 4
_KERNELS: Final = (Kind.COLLECTIVE, Kind.GEMM)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted profile: its constants, the cases, and the log of prediction over measurement of each.

    `out_of_group` holds the same with the case's own group (dataset and model) left out of the fit; NaN where the
    profile was not cross-validated.
    """

    name: str
    constants: dict[str, float]
    cases: tuple[Case | Measurement, ...]
    residuals: Floats
    out_of_group: Floats

    @property
    def rows(self) -> tuple[Measurement, ...]:
        """Measured row of each case."""
        return tuple(case.row if isinstance(case, Case) else case for case in self.cases)


def fitted_names() -> tuple[str, ...]:
    """Names of the profiles that fits.toml describes, each after the one it extends."""
    return tuple(fits()["profiles"])


def fit_cases(name: str) -> list[Case | Measurement]:
    """Cases of a profile's software path, to be predicted from the profile it extends; kernels are rows."""
    base = _specification(name)["extends"]
    unfitted = profile(base)
    rows = [row for table in TABLES for row in measurements(table) if row.kind and row.use == "fit"]
    rows = [row for row in rows if selected_profile(row) == name]
    alone = [row for row in rows if row.kind in _KERNELS]
    timed = [timed_case(row, base) for row in rows if row.kind not in _KERNELS]
    kernels = [row for row in alone if isinstance(kernel_prediction(row, unfitted), KernelPrediction)]
    return [*(case for case in timed if isinstance(case, Case)), *kernels]


def fit_profile(name: str, cross_validate: bool = True) -> Fit:
    """Fit the free constants of a profile.

    Raises UnknownNameError (fits.toml does not describe the profile).
    """
    problem = problem_of(name)
    specification, cases = problem.specification, problem.cases
    start = np.array([problem.base.value(key) for key in problem.names])
    found = solve(problem.residuals, np.clip(start, problem.low, problem.high), problem.low, problem.high)
    values = np.array([_rounded(value) for value in found])
    residuals = problem.residuals(values)
    outside = np.full(len(cases), np.nan)
    if cross_validate:
        for left in set(problem.groups):
            rows, ratios = problem.without(left, values)
            outside[rows] = np.log(ratios)
    fixed = {key: read_figure(table, f"fits.toml, {name}").number() for key, table in specification["set"].items()}
    constants = fixed | dict(zip(problem.names, values.tolist(), strict=True))
    return Fit(name, constants, cases, residuals, outside)


def problem_of(name: str) -> Problem:
    """Problem of a profile of fits.toml.

    Raises UnknownNameError (fits.toml does not describe the profile).
    """
    return Problem(_specification(name), fit_cases(name))


def write_profiles(names: Sequence[str] = ()) -> None:
    """Fit profiles and write their files, each before the ones that extend it."""
    data = Path(str(resources.files("trn2model").joinpath("data")))
    ratios = data / "measurements" / "out_of_group.csv"
    kept = [line for line in ratios.read_text(encoding="utf-8").splitlines()[1:] if line.strip()]
    for name in names or fitted_names():
        found = fit_profile(name)
        text = profile_text(found, _specification(name))
        (data / "profiles" / f"{name}.toml").write_text(text, encoding="utf-8")
        profile.cache_clear()
        kept = [line for line in kept if line.split(",")[1] != name] + out_of_group_lines(found)
        ratios.write_text("\n".join([",".join(RATIO_COLUMNS), *sorted(kept)]) + "\n", encoding="utf-8")


def out_of_group_lines(fit: Fit) -> list[str]:
    """Lines of out_of_group.csv: row, profile, and prediction over measurement with the row's group left out."""
    return [
        f"{row.id},{fit.name},{np.exp(residual):.4f},{row.trust},{SOURCE}"
        for row, residual in zip(fit.rows, fit.out_of_group, strict=True)
        if np.isfinite(residual)
    ]


class Problem:
    """Residuals of the cases of a profile as a function of its free constants."""

    def __init__(self, specification: dict[str, Any], cases: Sequence[Case | Measurement]) -> None:
        self.specification, self.cases = specification, tuple(cases)
        free = specification["free"]
        self.names = tuple(free)
        self.low = np.array([to_si(table["low"], table["measured_in"]) for table in free.values()])
        self.high = np.array([to_si(table["high"], table["measured_in"]) for table in free.values()])
        fixed = {key: read_figure(table, key).number() for key, table in specification["set"].items()}
        self.base: Profile = profile(specification["extends"]).with_values(fixed)
        self.groups = [_group(case) for case in cases]
        self.kernels = [case for case in cases if isinstance(case, Measurement)]
        timed = [case for case in cases if isinstance(case, Case)]
        self.num_timed = len(timed)
        self.batches: list[Batch] = batches(timed)
        self.measured = np.log([float(case.measured or 1.0) for case in cases])

    def residuals(self, values: Floats) -> Floats:
        """Logarithm of prediction over measurement of each case."""
        trial = self.base.with_values(dict(zip(self.names, values.tolist(), strict=True)))
        times = predicted_times(self.batches, self.num_timed, trial)
        found = [kernel_prediction(row, trial) for row in self.kernels]
        alone = [kernel.predicted for kernel in found if isinstance(kernel, KernelPrediction)]
        return np.asarray(np.log(np.concatenate([times, alone])) - self.measured)

    def without(self, group: tuple[str, str], start: Floats) -> tuple[NDArray[np.intp], Floats]:
        """Places of a group's cases, and prediction over measurement of each under constants fitted on the others."""
        left = np.array([each == group for each in self.groups])
        if left.all():
            return np.flatnonzero(left), np.full(len(left), np.nan)
        others = Problem(self.specification, [case for case, out in zip(self.cases, left, strict=True) if not out])
        found = solve(others.residuals, start, self.low, self.high)
        return np.flatnonzero(left), np.exp(self.residuals(found)[left])


def _group(case: Case | Measurement) -> tuple[str, str]:
    if isinstance(case, Case):
        return case.row.group
    if case.kind is Kind.GEMM:
        return case.dataset, " x ".join(f"{case.number(extent):g}" for extent in "mkn")
    return case.dataset, f"{case.text('op')} of {case.text('ranks')}"


def _specification(name: str) -> dict[str, Any]:
    profiles = fits()["profiles"]
    if name not in profiles:
        raise UnknownNameError("profile", name, "one of " + ", ".join(profiles), "choose a profile of fits.toml")
    return dict(profiles[name])


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


if __name__ == "__main__":
    write_profiles(sys.argv[1:])
