"""One measurement of the Validation page: its configuration, where it was published, and a link to its scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trn2model.errors import Trn2ModelError
from trn2model.specs import catalog
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario
from trn2model.ui.format import duration, percent, significant
from trn2model.ui.present.content import Facts, Links
from trn2model.ui.present.evidence import KIND_NAMES, Evidence
from trn2model.ui.url_codec import query_string
from trn2model.validation.compare import out_of_group
from trn2model.validation.points import Point

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
    workload, page = ("train", "Training") if point.kind == "train" else ("serve", "Inference")
    linked: Scenario = replace(scenario, model=name)
    try:
        resolve(linked, "train" if workload == "train" else "serve")
    except Trn2ModelError:
        return None, _PADDED
    return Links("Scenario", ((f"open this scenario on the {page} page", query_string(linked)),), page.lower()), ""
