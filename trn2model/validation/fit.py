"""Fitting: the few free constants of each profile, by robust least squares on the rows of its software path.

``python -m trn2model.validation.fit [PROFILE ...]`` fits the profiles of fits.toml again and writes their files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import UnknownNameError
from trn2model.specs.profile import Profile, profile
from trn2model.specs.provenance import read_figure
from trn2model.units import to_si
from trn2model.validation.cases import TIMED_METRICS, Case, timed_case
from trn2model.validation.kernels import KernelPrediction, kernel_prediction
from trn2model.validation.least_squares import solve
from trn2model.validation.measurements import Measurement, measurements
from trn2model.validation.paths import fits, selected_profile
from trn2model.validation.predict import Batch, batches, predicted_times, with_constants
from trn2model.validation.profile_file import SOURCE, profile_text

Floats = NDArray[np.float64]
RATIO_COLUMNS: Final = ("id", "profile", "ratio", "trust", "source")
_FOLD_STEPS: Final = 4
_DIGITS: Final = 4
_KINDS: Final = ("training", "inference", "collective", "operator")
_KERNELS: Final = ("collective", "operator")


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


def fit_cases(name: str, uses: Sequence[str] = ("fit",)) -> list[Case | Measurement]:
    """Cases of a profile's software path, to be predicted from the profile it extends; kernels are rows."""
    base = _specification(name)["extends"]
    constants = profile(base).constants
    rows = [row for kind in _KINDS for row in measurements(kind) if row.use in uses and _on_path(row, name)]
    timed = [timed_case(row, base) for row in rows if row.metric in TIMED_METRICS and row.kind not in _KERNELS]
    alone = [row for row in rows if row.kind in _KERNELS]
    kernels = [row for row in alone if isinstance(kernel_prediction(row, constants), KernelPrediction)]
    return [*(case for case in timed if isinstance(case, Case)), *kernels]


def fit_profile(name: str, cross_validate: bool = True) -> Fit:
    """Fit the free constants of a profile.

    Raises UnknownNameError (fits.toml does not describe the profile).
    """
    specification = _specification(name)
    cases = fit_cases(name)
    problem = _Problem(specification, cases)
    start = np.array([getattr(problem.base.constants, key) for key in problem.names])
    found = solve(problem.residuals, np.clip(start, problem.low, problem.high), problem.low, problem.high)
    values = np.array([_rounded(value) for value in found.values])
    residuals = problem.residuals(values)
    outside = np.full(len(cases), np.nan)
    if cross_validate:
        outside = _out_of_group(problem, values)
    fixed = {key: read_figure(table, f"fits.toml, {name}").number() for key, table in specification["set"].items()}
    constants = fixed | dict(zip(problem.names, values.tolist(), strict=True))
    return Fit(name, constants, tuple(cases), residuals, outside)


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


class _Problem:
    """Residuals of the cases of a profile as a function of its free constants."""

    def __init__(self, specification: dict[str, Any], cases: Sequence[Case | Measurement]) -> None:
        free = specification["free"]
        self.names = tuple(free)
        self.low = np.array([to_si(table["low"], table["measured_in"]) for table in free.values()])
        self.high = np.array([to_si(table["high"], table["measured_in"]) for table in free.values()])
        fixed = {key: read_figure(table, key).number() for key, table in specification["set"].items()}
        self.base: Profile = with_constants(profile(specification["extends"]), fixed)
        self.groups = [_group(case) for case in cases]
        self.kernels = [case for case in cases if isinstance(case, Measurement)]
        timed = [case for case in cases if isinstance(case, Case)]
        self.num_timed = len(timed)
        self.batches: list[Batch] = batches(timed)
        self.measured = np.log([float(case.measured or 1.0) for case in cases])

    def residuals(self, values: Floats) -> Floats:
        trial = with_constants(self.base, dict(zip(self.names, values.tolist(), strict=True)))
        times = predicted_times(self.batches, self.num_timed, trial)
        found = [kernel_prediction(row, trial.constants) for row in self.kernels]
        alone = [kernel.predicted for kernel in found if isinstance(kernel, KernelPrediction)]
        return np.asarray(np.log(np.concatenate([times, alone])) - self.measured)


def _out_of_group(problem: _Problem, values: Floats) -> Floats:
    """Residuals of each group under constants fitted without it, starting from those fitted with it."""
    groups = problem.groups
    outside = np.full(len(groups), np.nan)
    for left in sorted(set(groups)):
        inside = np.array([group != left for group in groups])
        if not inside.any():
            continue

        def kept(trial: Floats, inside: NDArray[np.bool_] = inside) -> Floats:
            return problem.residuals(trial)[inside]

        found = solve(kept, values, problem.low, problem.high, _FOLD_STEPS)
        outside[~inside] = problem.residuals(found.values)[~inside]
    return outside


def _group(case: Case | Measurement) -> tuple[str, str]:
    if isinstance(case, Case):
        return case.row.group
    if case.kind == "operator":
        return case.dataset, " x ".join(f"{case.number(extent):g}" for extent in "mkn")
    return case.dataset, f"{case.text('op')} of {case.text('ranks')}"


def _on_path(row: Measurement, name: str) -> bool:
    return selected_profile(row) == name


def _specification(name: str) -> dict[str, Any]:
    profiles = fits()["profiles"]
    if name not in profiles:
        raise UnknownNameError("profile", name, "one of " + ", ".join(profiles), "choose a profile of fits.toml")
    return dict(profiles[name])


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


if __name__ == "__main__":
    write_profiles(sys.argv[1:])
