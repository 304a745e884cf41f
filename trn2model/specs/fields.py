"""What one scenario field is: its type, bounds, choices and texts, and how a value of it is checked, read and written.

The table itself is the dataclass in ``specs/scenario.py``; URL keys, CLI flags, JSON, widgets and tooltips derive from
it.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError, InvalidPlanError, UnknownNameError
from trn2model.specs.model import ModelSpec

Kind = Literal["int", "bool", "choice", "float", "name", "order", "list"]
Group = Literal[
    "Model", "System", "Parallelism", "Precision & sparsity", "Training", "Inference", "Assumptions", "View"
]

AUTO: Final = "auto"
NONE: Final = "none"
AXES: Final = ("tp", "cp", "ep", "dp", "pp")

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{0,24})?([eE][+-]?[0-9]{1,3})?|-?\.[0-9]{1,24}")
_MISSPELT: Final = 0.6
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class ScenarioField:
    """One row of the scenario table.

    `unset` is the word that leaves the value to the model ("auto") or switches a feature off ("none", held as None);
    `plan` marks a field that may hold an integer array, one entry per plan.
    """

    key: str
    kind: Kind
    label: str
    group: Group
    help: str
    default: Any = None
    name: str = ""
    minimum: float = -math.inf
    maximum: float = math.inf
    unit: str = ""
    unset: str = ""
    plan: bool = False
    choices: Callable[[], tuple[str, ...]] = tuple

    @property
    def flag(self) -> str:
        """Flag of the field on the command line."""
        return "--" + self.name.replace("_", "-")

    def options(self) -> tuple[str, ...]:
        """Words that the field takes, the one that leaves it unset first."""
        choices = _ORDERS if self.kind == "order" else self.choices()
        if self.kind == "list":
            choices = _subsets(choices)
        return (self.unset, *choices) if self.unset else choices

    def allowed(self) -> str:
        """Allowed values in words, as messages and tooltips print them."""
        if self.kind == "bool":
            return "true or false"
        if self.kind == "order":
            return "an order of " + ", ".join(AXES) + " joined by commas, innermost first"
        if self.kind == "list":
            return f"{self.unset}, or any of {', '.join(self.choices())} joined by commas"
        if self.kind in ("choice", "name"):
            return "one of " + ", ".join(self.options())
        noun = "an integer" if self.kind == "int" else "a number"
        extent = f"{noun} from {self.minimum:,.10g} to {self.maximum:,.10g}"
        return f"{self.unset}, or {extent}" if self.unset else extent

    def check(self, value: object) -> Any:  # noqa: ANN401 (the type is the field's)
        """Value as the scenario holds it.

        Raises InvalidPlanError (the value is outside the allowed range or of another type); UnknownNameError (the name
        is not among the choices).
        """
        if isinstance(value, str):
            value = str.__str__(value)  # plain text also of np.str_ and of members of an enumeration
        if self.unset and (value is None or (isinstance(value, str) and value == self.unset)):
            return None if self.unset == NONE else self.unset
        if self.kind == "int":
            return self._integers(value)
        if self.kind == "float":
            return self._number(value)
        if self.kind == "bool":
            return self._boolean(value)
        if isinstance(value, ModelSpec) and self.name == "model":
            return value
        if self.kind == "list" and isinstance(value, str) and set(value.split(",")) <= set(self.choices()):
            return ",".join(word for word in self.choices() if word in value.split(","))
        if isinstance(value, str) and value in self.options():
            return value
        raise self._rejected(value)

    def parse(self, text: str) -> Any:  # noqa: ANN401 (the type is the field's)
        """Value from its text in a link or on the command line.

        Raises InvalidPlanError (the text is not a value of the field); UnknownNameError (the name is not among the
        choices).
        """
        if self.kind == "int" and _INTEGER.fullmatch(text):
            return self.check(int(text))
        if self.kind == "float" and _NUMBER.fullmatch(text):
            return self.check(float(text))
        if self.kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        return self.check(text)

    def format(self, value: object) -> str:
        """Text of a value, as `parse` reads it.

        Raises InvalidInputError (the value is an array or a model that is not in the catalog: neither has a short
        text).
        """
        if value is None:
            return self.unset
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            short = f"{value:g}" if float(f"{value:g}") == value else repr(value)
            return short.replace("e+", "e")
        if isinstance(value, ModelSpec):
            remedy = "choose a catalog model, or pass the same --model-config FILE where the link is opened"
            raise InvalidInputError(self.name, value.name, "a catalog name: a model of your own has no link", remedy)
        if isinstance(value, np.ndarray):
            remedy = "make one scenario per plan"
            raise InvalidInputError(self.name, reprlib.repr(value.tolist()), "a single value in a link", remedy)
        return str(value)

    def _integers(self, value: object) -> int | NDArray[np.int64]:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            whole = int(value)
            if self.minimum <= whole <= self.maximum:
                return whole
        if self.plan and isinstance(value, (list, tuple, np.ndarray)):
            return self._array(value)
        raise self._rejected(value)

    def _array(self, value: list[object] | tuple[object, ...] | NDArray[Any]) -> int | NDArray[np.int64]:
        if not isinstance(value, np.ndarray):
            for item in value:
                self._integers(item)
        if np.any(getattr(value, "mask", False)):
            raise self._rejected(value)
        try:
            array = np.array(value)
        except ValueError:
            raise self._rejected(value) from None
        if array.ndim == 0:
            return self._integers(array.item())
        if array.size == 0 or array.dtype.kind not in "iu":
            raise self._rejected(value)
        outside = (array < self.minimum) | (array > self.maximum)
        if outside.any():
            raise self._rejected(array[outside].flat[0].item())
        array = array.astype(np.int64)
        array.flags.writeable = False
        return array

    def _number(self, value: object) -> float:
        real = (int, float, np.integer, np.floating)
        if isinstance(value, real) and not isinstance(value, bool) and self.minimum <= value <= self.maximum:
            return float(value) + 0.0  # no negative zero
        raise self._rejected(value)

    def _boolean(self, value: object) -> bool:
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
        raise self._rejected(value)

    def _rejected(self, value: object) -> InvalidPlanError:
        shown = _shown(value)
        if self.kind != "name":
            return InvalidPlanError(self.name, shown, self.allowed(), f"set {self.name} to an allowed value")
        close = difflib.get_close_matches(str(shown), self.options(), 1, _MISSPELT)
        remedy = f"did you mean {close[0]}?" if close else f"choose a listed {self.name}"
        return UnknownNameError(self.name, shown, self.allowed(), remedy)


@dataclass(frozen=True, slots=True, repr=False)
class Abridged:
    """Stand-in for a value too long or too strange to print whole; prints without quotes."""

    text: str

    def __repr__(self) -> str:
        """Text as it is."""
        return self.text


def _shown(value: object) -> object:
    if isinstance(value, str):
        return value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
    if isinstance(value, int):
        return value if value.bit_length() <= _SHOWN else Abridged(f"an integer of {value.bit_length()} bits")
    if value is None or isinstance(value, float):
        return value
    return Abridged(" ".join(reprlib.repr(value).split())[:_SHOWN])


def _subsets(choices: tuple[str, ...]) -> tuple[str, ...]:
    sizes = range(1, len(choices) + 1)
    return tuple(",".join(chosen) for size in sizes for chosen in combinations(choices, size))


_ORDERS: Final = tuple(",".join(order) for order in permutations(AXES))


def scenario_field(
    default: Any,  # noqa: ANN401 (as dataclasses.field)
    key: str,
    kind: Kind,
    label: str,
    group: Group,
    text: str,
    **rules: Any,  # noqa: ANN401 (checked by ScenarioField)
) -> Any:  # noqa: ANN401 (as dataclasses.field)
    """Dataclass field that carries its row of the scenario table as `metadata["row"]`."""
    row = ScenarioField(key=key, kind=kind, label=label, group=group, help=text, default=default, **rules)
    return dataclasses.field(default=default, metadata={"row": row})


def words(*choices: str) -> Callable[[], tuple[str, ...]]:
    """Fixed choices in the form that `scenario_field` takes."""
    return lambda: choices


def table_of(scenario_class: type) -> tuple[ScenarioField, ...]:
    """Scenario table of a dataclass built with `scenario_field`."""
    return tuple(dataclasses.replace(f.metadata["row"], name=f.name) for f in dataclasses.fields(scenario_class))
