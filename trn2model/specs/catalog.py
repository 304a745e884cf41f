"""Systems, chips and models by name."""

from __future__ import annotations

from trn2model.errors import UnknownNameError
from trn2model.specs.hardware import Chip, System
from trn2model.specs.model import ModelSpec
from trn2model.specs.model_file import load_model
from trn2model.specs.model_file import model_names as _model_names
from trn2model.specs.system_file import hardware_names, load_chip, load_system

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
