"""Evidence of the Validation page: what was measured, what the model says, and what is not compared and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from trn2model.validation.cases import TIMED_METRICS
from trn2model.validation.columns import KINDS as FILES
from trn2model.validation.measurements import Measurement, left_out, measurements
from trn2model.validation.points import Point, is_timed, points_of, validation_points

#: Kinds of points as people call them, in the order of the page.
KIND_NAMES: Final = {
    "train": "training step",
    "prefill": "time to first token",
    "decode": "time per output token",
    "collective": "collectives",
    "gemm": "operators",
}
_KERNEL_KINDS: Final = {"collective": "collective", "operator": "gemm"}


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Everything the page draws from.

    `points` are compared and may have been fitted on; `bounds` hold something unknown besides, so that the prediction
    should lie below them. `totals` are measured times by (dataset, kind). `left` gives file, reason and ids.
    """

    points: tuple[Point, ...]
    bounds: tuple[Point, ...]
    rows: Mapping[str, Measurement]
    totals: Mapping[tuple[str, str], int]
    left: tuple[tuple[str, str, tuple[str, ...]], ...]

    def system(self, point: Point) -> str:
        """Machine of a measurement."""
        return self.rows[point.id].text("system")

    def subject(self, point: Point) -> str:
        """What ran: the model, or the operation of a kernel alone."""
        row = self.rows[point.id]
        return row.text("model" if "model" in row.values else "op")

    def systems(self) -> tuple[str, ...]:
        """Machines that anything was measured on."""
        return tuple(sorted({self.system(point) for point in (*self.points, *self.bounds)}))


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Points and bounds of one kind that the page shows, and how it calls them."""

    kind: str
    name: str
    points: tuple[Point, ...]
    bounds: tuple[Point, ...]

    @property
    def everything(self) -> tuple[Point, ...]:
        """Points and bounds."""
        return (*self.points, *self.bounds)


@cache
def gather() -> Evidence:
    """Compare every published measurement; takes a second or two the first time."""
    rows = [row for file in FILES for row in measurements(file)]
    points = validation_points()
    bounds, _ = points_of([row for row in rows if row.use == "bound"])
    kinds = Counter((row.dataset, _kind(row)) for row in rows if is_timed(row))
    shown = {point.id for point in (*points, *bounds)}
    return Evidence(points, bounds, {row.id: row for row in rows}, kinds, _left(rows, shown))


def by_kind(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Points of each kind that has any."""
    found: dict[str, list[Point]] = {kind: [] for kind in KIND_NAMES}
    for point in points:
        found[point.kind].append(point)
    return {kind: members for kind, members in found.items() if members}


def _kind(row: Measurement) -> str:
    return TIMED_METRICS.get(row.metric) or _KERNEL_KINDS.get(row.kind, row.kind)


def _left(rows: list[Measurement], shown: set[str]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Rows that are in no chart by file and reason, the largest groups first."""
    found = [(file, reason, ids) for file in FILES for reason, ids in left_out(file).items()]
    missing = [row for row in rows if row.use != "excluded" and row.id not in shown]
    _, unable = points_of(missing)
    files = {row.id: row.kind for row in missing}
    groups: dict[tuple[str, str], list[str]] = {}
    for item in unable:
        groups.setdefault((files[item.id], item.reason), []).append(item.id)
    found += [(file, reason, tuple(ids)) for (file, reason), ids in groups.items()]
    return tuple(sorted(found, key=lambda entry: -len(entry[2])))
