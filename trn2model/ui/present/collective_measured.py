"""Published measurements of the same collective on the same hardware."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from trn2model.specs import catalog
from trn2model.ui.charts.size_lines import Mark, Marks, size_name
from trn2model.ui.format import bandwidth, duration, percent
from trn2model.ui.present.collective import Target, line_time
from trn2model.ui.present.content import Listing
from trn2model.ui.tables import table
from trn2model.validation.measurements import Measurement, measurements

_LAYERS: Final = {"device": "on the device", "kernel": "with the launch of a graph", "framework": "with eager dispatch"}


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured call: size, time and bus bandwidth as published; `inside` is the layer whose time it holds."""

    row: Measurement
    size: float
    time: float
    busbw: float
    inside: str


@lru_cache(maxsize=256)
def measured_points(chosen: Target, op: str) -> tuple[Measured, ...]:
    """Measurements of the operation on as many ranks of the same hardware, filled in order."""
    found = [_point(row) for row in measurements("collective") if _matches(row, chosen, op)]
    return tuple(sorted(found, key=lambda point: (point.size, point.time)))


def measured_marks(points: tuple[Measured, ...], quantity: str) -> tuple[Marks, ...]:
    """Points of a chart: those of the device alone, with a launch inside, and with eager dispatch inside."""
    kinds = (
        ("device", "measured, device time", "diamond"),
        ("kernel", "measured, launch inside", "triangle-down" if quantity == "time" else "triangle-up"),
        ("framework", "measured, eager dispatch inside", "circle"),
    )
    return tuple(
        Marks(
            name,
            tuple(
                Mark(point.size, point.time if quantity == "time" else point.busbw, _note(point))
                for point in points
                if point.inside == kind and (quantity == "time" or point.busbw > 0)
            ),
            symbol,
            True,
        )
        for kind, name, symbol in kinds
    )


def measured_listing(chosen: Target, op: str, points: tuple[Measured, ...]) -> Listing:
    """Each measurement beside the estimate, with the launch that its source states added."""
    rows = []
    for point in points:
        estimated = line_time(chosen, op, point.size, "auto") + _launch(point.row)
        rows.append(
            (
                size_name(point.size),
                duration(point.time),
                duration(estimated),
                f"{'+' if estimated > point.time else ''}{percent(estimated / point.time - 1.0)}",
                bandwidth(point.busbw),
                _LAYERS[point.row.text("layer")],
                point.row.trust,
                point.row.use,
                point.row.text("source"),
            )
        )
    alone = " The estimate is of all groups of the plan at once." if chosen.number > 1 else ""
    note = (
        "One group alone, measured. The estimate includes the launch that the source states; "
        f"rows of use 'bound' hold an unknown launch or dispatch, so the estimate should lie below them.{alone}"
    )
    columns = ("size", "measured", "estimate", "difference", "busbw", "taken", "trust", "use", "source")
    return Listing("Measured", note, table(columns, rows))


def _matches(row: Measurement, chosen: Target, op: str) -> bool:
    if row.use == "excluded" or row.metric != "time" or row.values["bytes"] is None:
        return False
    if row.text("op") != op or row.values["ranks"] != chosen.members or chosen.dims != ((1, chosen.members),):
        return False
    lnc = row.values["lnc"]
    if row.values.get("ranks_per_machine") is not None or (lnc is not None and lnc != chosen.scenario.lnc):
        return False
    return _same_hardware(row, chosen)


def _same_hardware(row: Measurement, chosen: Target) -> bool:
    """The same system; or, inside one instance, another system of the same chip."""
    count = row.number("count")
    if count > 1:
        return row.text("system") == chosen.fabric.system and count == chosen.fabric.num_domains
    theirs, ours = catalog.system(row.text("system")), catalog.system(chosen.fabric.system)
    plane = chosen.fabric.shape[0] * chosen.fabric.shape[1] * chosen.fabric.ranks_per_chip
    inside = chosen.members <= (plane if ours.interconnect == "torus" else chosen.fabric.ranks_per_domain)
    return theirs.chip.name == ours.chip.name and inside


def _point(row: Measurement) -> Measured:
    busbw = row.values["busbw"]
    layer = row.text("layer")
    inside = "kernel" if layer == "device" and row.use == "bound" else layer  # a launch floor dominates
    return Measured(
        row, row.number("bytes"), row.number("measured"), busbw if isinstance(busbw, float) else 0.0, inside
    )


def _launch(row: Measurement) -> float:
    value = row.values["launch_time"]
    return value if isinstance(value, float) else 0.0


def _note(point: Measured) -> str:
    return (
        f"measured {_LAYERS[point.row.text('layer')]}, trust {point.row.trust}<br>{size_name(point.size)}: "
        f"{duration(point.time)}, {bandwidth(point.busbw)} busbw<br>{point.row.dataset}"
    )
