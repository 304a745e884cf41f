"""Systems, chips and models by name, and their figures with origin as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trn2model.errors import UnknownNameError
from trn2model.specs.hardware import Chip, System, hardware_names, hardware_title, load_chip, load_system
from trn2model.specs.model import ModelSpec, load_model
from trn2model.specs.model import model_names as _model_names
from trn2model.specs.provenance import Figure

#: systems in the order menus show them
_ORDER = (
    "trn2.48xlarge",
    "trn2.3xlarge",
    "trn2-ultraserver",
    "trn1.32xlarge",
    "trn1n.32xlarge",
    "inf2.48xlarge",
    "p4de.24xlarge",
    "p5.48xlarge",
    "p5e.48xlarge",
    "p5en.48xlarge",
)


def system(name: str) -> System:
    """System by name.

    Parameters
    ----------
    name : str
        A name from `system_names`.

    Returns
    -------
    System
        The machine with its chip, links and prices.

    Raises
    ------
    UnknownNameError
        No such system.

    Examples
    --------
    >>> system("trn2.48xlarge").num_chips
    16
    """
    return load_system(_checked("system", name, system_names()))


def system_names() -> tuple[str, ...]:
    """Names of the systems, Trn2 first and extras last.

    Returns
    -------
    tuple of str
        Every system of the data.
    """
    names = hardware_names("system")
    return tuple(sorted(names, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)))


def chip(name: str) -> Chip:
    """Chip by name.

    Parameters
    ----------
    name : str
        A name from `chip_names`.

    Returns
    -------
    Chip
        The accelerator.

    Raises
    ------
    UnknownNameError
        No such chip.

    Examples
    --------
    >>> chip("trainium2").num_cores
    8
    """
    return load_chip(_checked("chip", name, chip_names()))


def chip_names() -> tuple[str, ...]:
    """Names of the chips.

    Returns
    -------
    tuple of str
        Sorted names.
    """
    return hardware_names("chip")


def model(name: str) -> ModelSpec:
    """Model by name.

    Parameters
    ----------
    name : str
        A name from `model_names`.

    Returns
    -------
    ModelSpec
        The architecture.

    Raises
    ------
    UnknownNameError
        No such model.
    """
    return load_model(_checked("model", name, model_names()))


def model_names() -> tuple[str, ...]:
    """Names of the models.

    Returns
    -------
    tuple of str
        Every model of the data.
    """
    return _model_names()


def _checked(kind: str, name: object, names: tuple[str, ...]) -> str:
    """Plain text of a name; loaders keep what they load by name, so that nothing else may reach them."""
    if isinstance(name, str):
        return str.__str__(name)
    raise UnknownNameError(kind, name, "one of " + ", ".join(names), f"choose a listed {kind}")


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
            "systems": [specs_report(each) for each in system_names()],
            "chips": [specs_report(each) for each in chip_names()],
        }
    if name in system_names():
        found = system(name)
        return _report(name, found.title, "system", system_figures(found))
    if name in chip_names():
        return _report(name, hardware_title(name), "chip", _chip_report_figures(chip(name)))
    known = ", ".join((*system_names(), *chip_names()))
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
