"""What was measured, what the model says, how sure a number is, and a link to each measured scenario."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final
from urllib.parse import urlencode

from trn2model.errors import Trn2ModelError
from trn2model.formulas import Numeric
from trn2model.model.serving.steady import ServingEstimate
from trn2model.model.training.step import TrainingEstimate
from trn2model.specs import catalog
from trn2model.specs.link import query_string
from trn2model.specs.profile import Kind
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario
from trn2model.text import duration, percent, significant
from trn2model.ui.pages.content import Facts, Links
from trn2model.ui.pages.words import linkable
from trn2model.validation.compare import Point, out_of_group, points_of, validation_points
from trn2model.validation.measurements import TABLES, Measurement, left_out, measurements

#: What people call a kind, in the order of the page.
KIND_NAMES: Final = {
    Kind.TRAIN: "training step",
    Kind.PREFILL: "time to first token",
    Kind.DECODE: "time per output token",
    Kind.COLLECTIVE: "collectives",
    Kind.GEMM: "operators",
}


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Everything the page draws from.

    `points` are compared and may have been fitted on; `bounds` hold something unknown besides, so that the prediction
    should lie below them. `totals` are measured times by (dataset, kind). `left` gives table, reason and ids.
    """

    points: tuple[Point, ...]
    bounds: tuple[Point, ...]
    rows: Mapping[str, Measurement]
    totals: Mapping[tuple[str, Kind], int]
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

    kind: Kind
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
    rows = [row for table in TABLES for row in measurements(table)]
    points = validation_points()
    bounds, _ = points_of([row for row in rows if row.use == "bound"])
    kinds = Counter((row.dataset, row.kind) for row in rows if row.kind)
    shown = {point.id for point in (*points, *bounds)}
    return Evidence(points, bounds, {row.id: row for row in rows}, kinds, _left(rows, shown))


def by_kind(points: Sequence[Point]) -> dict[Kind, list[Point]]:
    """Points of each kind that has any."""
    found: dict[Kind, list[Point]] = {kind: [] for kind in KIND_NAMES}
    for point in points:
        found[point.kind].append(point)
    return {kind: members for kind, members in found.items() if members}


def _left(rows: list[Measurement], shown: set[str]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Rows that are in no chart by table and reason, the largest groups first."""
    found = [(table, reason, ids) for table in TABLES for reason, ids in left_out(table).items()]
    missing = [row for row in rows if row.use != "excluded" and row.id not in shown]
    _, unable = points_of(missing)
    tables = {row.id: row.table for row in missing}
    groups: dict[tuple[str, str], list[str]] = {}
    for item in unable:
        groups.setdefault((tables[item.id], item.reason), []).append(item.id)
    found += [(table, reason, tuple(ids)) for (table, reason), ids in groups.items()]
    return tuple(sorted(found, key=lambda entry: -len(entry[2])))


USE_NAMES: Final = {"fit": "may be fitted", "check": "check only", "bound": "bound only"}
_TRUST_NAMES: Final = {
    "A": "A: vendor, partner or peer-reviewed",
    "B": "B: third party, with its configuration",
    "C": "C: a bound at most",
}
_NOT_IN_CATALOG: Final = "Its architecture is kept with the measurements, not in the catalog, so no page can open it."
_PADDED: Final = "Its software pads the attention heads to the cores, which the published architecture does not allow."
_KERNEL: Final = "A kernel alone: no scenario stands for it."


def facts(evidence: Evidence, point: Point | None, picked: str) -> Facts:
    """What is known of a measurement."""
    if point is None:
        return Facts("No measurement", "Nothing was published for this choice of kind, system and trust class.", ())
    chosen = "Chosen from the chart or the table." if point.id == picked else "The largest miss of those shown."
    links, why = _scenario_link(point)
    said = " ".join(text for text in (chosen, why) if text)
    return Facts(f"{KIND_NAMES[point.kind].capitalize()}: {point.id}", said, _items(evidence, point), links)


def signed(ratio: float) -> str:
    """Distance of a prediction from its measurement.

    Examples
    --------
    >>> signed(1.25), signed(0.9)
    ('+25.0 %', '-10.0 %')
    """
    error = ratio - 1.0
    return f"{'+' if error >= 0 else '-'}{percent(abs(error))}"


def _items(evidence: Evidence, point: Point) -> tuple[tuple[str, str], ...]:
    row = evidence.rows[point.id]
    inside = "holds the measurement" if point.within_range else "misses the measurement"
    unseen = out_of_group().get(point.id)
    listed = (
        ("Measured", duration(point.measured)),
        ("Predicted", f"{duration(point.predicted)} ({signed(point.ratio)}, {significant(point.ratio)} times)"),
        ("Range", f"{duration(point.low)} to {duration(point.high)}, {inside}"),
        ("Without its group", "" if unseen is None else f"{signed(unseen)} with constants fitted on the others"),
        ("Configuration", point.configuration),
        ("Software", " ".join(part for part in (row.text("stack"), row.text("version"), row.text("date")) if part)),
        ("Profile", point.profile),
        ("Trust", _TRUST_NAMES[point.trust]),
        ("Use", f"{USE_NAMES[point.use]}{': ' if row.reason else ''}{row.reason}"),
        ("Assumed", row.text("assumed")),
        ("Source", point.source),
        ("Dataset", point.dataset),
        ("Note", point.note),
    )
    return tuple((name, text) for name, text in listed if text)


def _scenario_link(point: Point) -> tuple[Links | None, str]:
    """Link to the page of a measurement's scenario, or why there is none."""
    if point.scenario is None:
        return None, _KERNEL
    scenario = point.scenario
    name = scenario.model if isinstance(scenario.model, str) else scenario.model.name
    if name not in catalog.model_names():
        return None, _NOT_IN_CATALOG
    page = "Training" if point.kind is Kind.TRAIN else "Inference"
    linked: Scenario = replace(scenario, model=name)
    try:
        resolve(linked, "train" if point.kind is Kind.TRAIN else "serve")
    except Trn2ModelError:
        return None, _PADDED
    return Links("Scenario", ((f"open this scenario on the {page} page", query_string(linked)),), page.lower()), ""


_UNFITTED: Final = (1.0, 1.0)


def range_text(ends: tuple[Numeric, Numeric], write: Callable[[float], str] = duration) -> str:
    """Range of a number.

    Examples
    --------
    >>> range_text((0.9, 1.25)), range_text((1.0, 1.0))
    ('900 ms to 1.25 s', '')
    """
    low, high = (float(end) for end in ends)
    if low == high:
        return ""
    return f"{write(low)} to {write(high)}"


def profile_links(estimate: TrainingEstimate | ServingEstimate) -> Links:
    """Name of the profile in use, whether the configuration lies outside what it was fitted to, and its evidence."""
    resolved = estimate.resolved
    profile = resolved.profile
    said = resolved.notes[0].rstrip(".") if profile.widening != _UNFITTED else ""
    outside = f". {said[:1].upper()}{said[1:]}" if said else ""
    kind = Kind.TRAIN if isinstance(estimate, TrainingEstimate) else Kind.DECODE
    shown = {"vk": KIND_NAMES[kind], "vg": "profile"}
    query = "&".join(part for part in (query_string(linkable(resolved.scenario)), urlencode(shown)) if part)
    return Links(f"Profile {profile.name}{outside}", (("measurements behind it", query),), "validation")
