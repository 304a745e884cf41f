"""Files of fitted profiles: constants with provenance, spreads from out-of-group residuals, the region of the rows."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from trn2model.units import from_si

if TYPE_CHECKING:
    from trn2model.validation.fit import Fit

SOURCE: Final = "own-fit"
#: Share of the out-of-group residuals that a range holds, and the rows from which less than all of them is trusted.
RANGE: Final = 0.8
FEW_ROWS: Final = 20
#: Least share by which a range opens on each side. [1]
LEAST_SPREAD: Final = 0.05
_WORKLOADS: Final = ("train", "prefill", "decode", "collective", "gemm")
#: Workload of the kinds of rows that are no cases.
_KERNELS: Final = {"operator": "gemm"}


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
    for kind in _WORKLOADS:
        rows = np.array([_KERNELS.get(case.kind, case.kind) == kind for case in fit.cases])
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
    rows = Counter(
        f"{row.dataset} {_KERNELS.get(case.kind, case.kind)}" for row, case in zip(fit.rows, fit.cases, strict=True)
    )
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
