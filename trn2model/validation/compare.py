"""Errors of the model by dataset: how far predictions lie from measurements, and whether ranges hold them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

import numpy as np

from trn2model.validation.points import Point

#: Sets of points that a target is stated for: name, and which points belong.
SUMMARIES: Final[Mapping[str, Callable[[Point], bool]]] = {
    "Trn1 and Inf2 decode, trust A": lambda p: _on(p, "decode", "trn1", "inf2") and p.trust == "A",
    "Trn2 decode, trust A and B": lambda p: _on(p, "decode", "trn2") and p.trust in "AB",
    "Trn1 and Trn2 time to first token, trust A and B": lambda p: (
        _on(p, "prefill", "trn1", "inf2", "trn2") and p.trust in "AB"
    ),
    "Trn1 training, trust A": lambda p: _on(p, "train", "trn1") and p.trust == "A",
    "Trn2 pre-training": lambda p: _on(p, "train", "trn2") and p.dataset.startswith("axlearn"),
    "A100 training, Korthikanti Table 5": lambda p: p.kind == "train" and p.dataset == "korthikanti-table5",
    "A100 training, SC21 Table 2": lambda p: p.kind == "train" and p.dataset == "megatron-sc21-table2",
    "H100 training, trust A": lambda p: _on(p, "train", "p5") and p.trust == "A",
    "Trn2 matmul": lambda p: p.kind == "gemm" and "trainium2" in p.configuration,
    "Collectives, device time": lambda p: p.kind == "collective" and p.layer == "device",
}


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """Errors of a set of points, in shares of the measurement; `out_of_group` is None where nothing was fitted."""

    name: str
    kind: str
    profiles: tuple[str, ...]
    rows: int
    used: int
    mean: float
    median: float
    largest: float
    within_range: float
    out_of_group_mean: float | None
    out_of_group_median: float | None


def error_table(points: Iterable[Point], rows: Mapping[tuple[str, str], int] | None = None) -> list[ErrorRow]:
    """Errors by dataset and kind."""
    groups: dict[tuple[str, str], list[Point]] = {}
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


def _errors(name: str, kind: str, members: Sequence[Point], total: int) -> ErrorRow:
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


def _on(point: Point, kind: str, *systems: str) -> bool:
    scenario = point.scenario
    return point.kind == kind and scenario is not None and scenario.system.startswith(systems)
