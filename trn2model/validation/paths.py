"""Software paths: which profile a machine, a workload and a stack select. A model never selects one."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from trn2model.errors import DataError
from trn2model.specs.provenance import read_toml
from trn2model.validation.measurements import Measurement

_CONDITIONS: Final = ("system", "stack", "version", "kernels", "kernel")


def selected_profile(row: Measurement) -> str:
    """Profile of a row's software path.

    Raises DataError (no path holds).
    """
    return str(_path(row)["profile"])


def holds_stalls(row: Measurement) -> bool:
    """Whether a time per token holds the prefills of the requests beside its own."""
    several = (row.values.get("concurrency") or 1.0) != 1.0
    mean = row.metric == "tpot" and row.text("statistic") == "mean"
    return several and mean and bool(_path(row).get("mean_holds_stalls"))


def _path(row: Measurement) -> dict[str, Any]:
    for path in fits()["paths"]:
        if row.kind in path["kinds"] and all(_holds(path, name, row) for name in _CONDITIONS):
            return dict(path)
    message = f"{row.id}: no software path of fits.toml fits the row"
    raise DataError(message)


@cache
def fits() -> dict[str, Any]:
    """Contents of fits.toml: software paths, and what is fitted for each profile."""
    return read_toml("fits.toml")


def _holds(path: dict[str, Any], name: str, row: Measurement) -> bool:
    pattern = path.get(name)
    return pattern is None or re.search(pattern, row.text(name)) is not None
