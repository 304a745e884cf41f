"""Figures of a system or a chip with their origin, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trn2model.errors import UnknownNameError
from trn2model.specs import catalog
from trn2model.specs.hardware import Chip, System
from trn2model.specs.provenance import Figure
from trn2model.specs.system_file import hardware_title

#: Figures that every report has, with their units; null where nothing is published or they do not apply.
REQUIRED: Final[Mapping[str, str]] = {
    "num_chips": "1",
    "num_cores": "1",
    "hbm_bytes": "B",
    "hbm_bandwidth": "B/s",
    "fp8_flop_rate": "FLOP/s",
    "bf16_flop_rate": "FLOP/s",
    "fp32_flop_rate": "FLOP/s",
    "sparse_flop_rate": "FLOP/s",
    "link_bandwidth_intra": "B/s",
    "link_bandwidth_inter": "B/s",
    "nic_bandwidth": "B/s",
    "num_vcpus": "1",
    "host_bytes": "B",
    "num_links": "1",
}


def specs_report(name: str | None) -> dict[str, Any]:
    """Report of one system or chip, or of all of them.

    Raises UnknownNameError (no such system or chip).

    Examples
    --------
    >>> specs_report("trn2.48xlarge")["figures"]["num_cores"]["value"]
    128.0
    """
    if name is None:
        return {
            "systems": [specs_report(system) for system in catalog.system_names()],
            "chips": [specs_report(chip) for chip in catalog.chip_names()],
        }
    if name in catalog.system_names():
        system = catalog.system(name)
        return _report(name, system.title, "system", system_figures(system))
    if name in catalog.chip_names():
        return _report(name, hardware_title(name), "chip", _chip_report_figures(catalog.chip(name)))
    known = ", ".join((*catalog.system_names(), *catalog.chip_names()))
    raise UnknownNameError("system", name, f"one of {known}", "choose a listed system or chip")


def system_figures(system: System) -> dict[str, Figure]:
    """Every figure of a system: its own, its prices and its chip's."""
    figures = {key: system.figures[key] for key in REQUIRED}
    figures |= system.figures
    total = system.figures["nic_bandwidth"]
    figures["nic_bandwidth_per_chip"] = Figure(
        system.nic_bandwidth, "B/s", total.source, "derived", "one direction, the system's total over its chips"
    )
    figures |= {f"price_{option.replace('-', '_')}": price for option, price in system.prices.items()}
    figures |= {f"chip_{key}": figure for key, figure in system.chip.figures.items()}
    return figures


def _chip_report_figures(chip: Chip) -> dict[str, Figure]:
    figures = {key: chip.figures.get(key, _not_of_a_chip(chip, unit)) for key, unit in REQUIRED.items()}
    figures["num_chips"] = Figure(1.0, "1", "definition", "published")
    return {**figures, **chip.figures}


def _not_of_a_chip(chip: Chip, unit: str) -> Figure:
    return Figure(None, unit, chip.figures["num_cores"].source, "published", "a figure of a system, not of a chip")


def _report(name: str, title: str, kind: str, figures: Mapping[str, Figure]) -> dict[str, Any]:
    return {
        "system": name,
        "title": title,
        "kind": kind,
        "figures": {key: figure_data(figure) for key, figure in figures.items()},
    }


def figure_data(figure: Figure) -> dict[str, Any]:
    """Figure as plain data."""
    return {
        "value": figure.value,
        "unit": figure.unit,
        "source": figure.source,
        "status": figure.status,
        "note": figure.note,
        "alternatives": [
            {"value": other.value, "unit": other.unit, "source": other.source, "note": other.note}
            for other in figure.alternatives
        ],
    }
