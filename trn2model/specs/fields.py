"""What one scenario field is: its texts, and how a value of it is checked, read and written, by class of field.

The table itself is the dataclass in ``specs/scenario.py``; URL keys, CLI flags, JSON, widgets and tooltips derive from
it.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from itertools import combinations, permutations
from typing import Any, ClassVar, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError, InvalidPlanError, UnknownNameError
from trn2model.specs.model import ModelSpec

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


@dataclass(frozen=True)
class ScenarioField(ABC):
    """One row of the scenario table."""

    key: str
    label: str
    group: Group
    _: KW_ONLY
    help: str
    name: str = ""
    default: Any = None
    unit: str = ""
    unset: str = ""  # word that leaves the value to the model ("auto") or switches a feature off ("none", held as None)
    plan: bool = False  # whether the field may hold an integer array, one entry per plan

    placeholder: ClassVar[str] = ""  # what stands for a value in a command's help

    @property
    def flag(self) -> str:
        """Flag of the field on the command line."""
        return "--" + self.name.replace("_", "-")

    def options(self) -> tuple[str, ...]:
        """Words that the field takes, the one that leaves it unset first."""
        return (self.unset,) if self.unset else ()

    @abstractmethod
    def allowed(self) -> str:
        """Allowed values in words, as messages and tooltips print them."""

    def check(self, value: object) -> Any:  # noqa: ANN401 (the type is the field's)
        """Value as the scenario holds it.

        Raises InvalidPlanError (the value is outside the allowed range or of another type); UnknownNameError (the name
        is not among the choices).
        """
        if isinstance(value, str):
            value = str.__str__(value)  # plain text also of np.str_ and of members of an enumeration
        if self.unset and (value is None or (isinstance(value, str) and value == self.unset)):
            return None if self.unset == NONE else self.unset
        return self._checked(value)

    def read(self, text: str) -> object:
        """Value that a text spells, which may not be allowed; the text itself where it spells nothing else."""
        return None if text == self.unset == NONE else text

    def parse(self, text: str) -> Any:  # noqa: ANN401 (the type is the field's)
        """Value from its text in a link or on the command line, checked.

        Raises as `check`.
        """
        return self.check(self.read(text))

    def format(self, value: object) -> str:
        """Text of a value, as `parse` reads it.

        Raises InvalidInputError (the value has no short text: an array, or a model that is not in the catalog).
        """
        return self.unset if value is None else str(value)

    @abstractmethod
    def _checked(self, value: object) -> Any:  # noqa: ANN401 (the type is the field's)
        """As `check`, for a value that does not leave the field unset."""

    def _rejected(self, value: object) -> InvalidPlanError:
        return InvalidPlanError(self.name, _shown(value), self.allowed(), f"set {self.name} to an allowed value")


@dataclass(frozen=True)
class BoolField(ScenarioField):
    """A switch."""

    def allowed(self) -> str:
        """Both words."""
        return "true or false"

    def read(self, text: str) -> object:
        """Truth that a word in any case spells."""
        return text.lower() == "true" if text.lower() in ("true", "false") else super().read(text)

    def format(self, value: object) -> str:
        """Word in lower case."""
        return "true" if value else "false"

    def _checked(self, value: object) -> bool:
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
        raise self._rejected(value)


@dataclass(frozen=True, kw_only=True)
class NumberField(ScenarioField):
    """A number between two bounds, both allowed."""

    minimum: float
    maximum: float
    noun: ClassVar[str] = "a number"

    def allowed(self) -> str:
        """Range, after the word that leaves the field unset."""
        extent = f"{self.noun} from {self.minimum:,.10g} to {self.maximum:,.10g}"
        return f"{self.unset}, or {extent}" if self.unset else extent


@dataclass(frozen=True, kw_only=True)
class IntField(NumberField):
    """A whole number, or an array of them where the field takes one entry per plan."""

    placeholder: ClassVar[str] = "N"
    noun: ClassVar[str] = "an integer"

    def read(self, text: str) -> object:
        """Integer that plain digits spell."""
        return int(text) if _INTEGER.fullmatch(text) else super().read(text)

    def format(self, value: object) -> str:
        """Plain digits.

        Raises InvalidInputError (the value is an array).
        """
        if isinstance(value, np.ndarray):
            remedy = "make one scenario per plan"
            raise InvalidInputError(self.name, reprlib.repr(value.tolist()), "a single value in a link", remedy)
        return super().format(value)

    def _checked(self, value: object) -> int | NDArray[np.int64]:
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
                self._checked(item)
        if np.any(getattr(value, "mask", False)):
            raise self._rejected(value)
        try:
            array = np.array(value)
        except ValueError:
            raise self._rejected(value) from None
        if array.ndim == 0:
            return self._checked(array.item())
        if array.size == 0 or array.dtype.kind not in "iu":
            raise self._rejected(value)
        outside = (array < self.minimum) | (array > self.maximum)
        if outside.any():
            raise self._rejected(array[outside].flat[0].item())
        array = array.astype(np.int64)
        array.flags.writeable = False
        return array


@dataclass(frozen=True, kw_only=True)
class FloatField(NumberField):
    """A real number."""

    placeholder: ClassVar[str] = "X"

    def read(self, text: str) -> object:
        """Number that decimal digits spell, with an exponent or not."""
        return float(text) if _NUMBER.fullmatch(text) else super().read(text)

    def format(self, value: object) -> str:
        """Shortest digits that give the same number."""
        if not isinstance(value, float):
            return super().format(value)
        short = f"{value:g}" if float(f"{value:g}") == value else repr(value)
        return short.replace("e+", "e")

    def _checked(self, value: object) -> float:
        real = (int, float, np.integer, np.floating)
        if isinstance(value, real) and not isinstance(value, bool) and self.minimum <= value <= self.maximum:
            return float(value) + 0.0  # no negative zero
        raise self._rejected(value)


@dataclass(frozen=True, kw_only=True)
class ChoiceField(ScenarioField):
    """One of a few words."""

    choices: Callable[[], tuple[str, ...]]
    placeholder: ClassVar[str] = "WORD"

    def options(self) -> tuple[str, ...]:
        """Words that the field takes, the one that leaves it unset first."""
        return (*super().options(), *self.choices())

    def allowed(self) -> str:
        """All words."""
        return "one of " + ", ".join(self.options())

    def _checked(self, value: object) -> Any:  # noqa: ANN401 (a model's field takes more than words)
        if isinstance(value, str) and value in self.options():
            return value
        raise self._rejected(value)


@dataclass(frozen=True, kw_only=True)
class NameField(ChoiceField):
    """One of many names, where a misspelt one is answered with what was probably meant."""

    placeholder: ClassVar[str] = "NAME"

    def _rejected(self, value: object) -> UnknownNameError:
        shown = _shown(value)
        close = difflib.get_close_matches(str(shown), self.options(), 1, _MISSPELT)
        remedy = f"did you mean {close[0]}?" if close else f"choose a listed {self.name}"
        return UnknownNameError(self.name, shown, self.allowed(), remedy)


@dataclass(frozen=True, kw_only=True)
class ModelField(NameField):
    """Name of a model in the catalog, or a model of one's own."""

    def format(self, value: object) -> str:
        """Name in the catalog.

        Raises InvalidInputError (the value is a model of one's own).
        """
        if isinstance(value, ModelSpec):
            remedy = "choose a catalog model, or pass the same --model-config FILE where the link is opened"
            raise InvalidInputError(self.name, value.name, "a catalog name: a model of your own has no link", remedy)
        return super().format(value)

    def _checked(self, value: object) -> str | ModelSpec:
        checked: str | ModelSpec = value if isinstance(value, ModelSpec) else super()._checked(value)
        return checked


_ORDERS: Final = tuple(",".join(order) for order in permutations(AXES))


@dataclass(frozen=True, kw_only=True)
class OrderField(ChoiceField):
    """An order of the parallel axes."""

    choices: Callable[[], tuple[str, ...]] = lambda: _ORDERS
    placeholder: ClassVar[str] = "AXES"

    def allowed(self) -> str:
        """What an order is; the orders themselves are too many to list."""
        return "an order of " + ", ".join(AXES) + " joined by commas, innermost first"


@dataclass(frozen=True, kw_only=True)
class SubsetField(ChoiceField):
    """Any of a few words, joined by commas."""

    placeholder: ClassVar[str] = "WORDS"

    def options(self) -> tuple[str, ...]:
        """Every subset in the order of the choices, the word that leaves the field unset first."""
        words = self.choices()
        sizes = range(1, len(words) + 1)
        return (self.unset, *(",".join(chosen) for size in sizes for chosen in combinations(words, size)))

    def allowed(self) -> str:
        """Words to choose from; the subsets themselves are too many to list."""
        return f"{self.unset}, or any of {', '.join(self.choices())} joined by commas"

    def _checked(self, value: object) -> str:
        words = self.choices()
        given = value.split(",") if isinstance(value, str) else []
        if not given or not set(given) <= set(words):
            raise self._rejected(value)
        return ",".join(word for word in words if word in given)


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


_Value = TypeVar("_Value")


def row(default: _Value, field: ScenarioField) -> _Value:
    """Dataclass field with its default, which carries its row of the scenario table."""
    return dataclasses.field(default=default, metadata={"row": field})


def words(*choices: str) -> Callable[[], tuple[str, ...]]:
    """Fixed choices in the form that `ChoiceField` takes."""
    return lambda: choices


def table_of(scenario_class: type) -> tuple[ScenarioField, ...]:
    """Scenario table of a dataclass whose fields are made by `row`."""
    fields = dataclasses.fields(scenario_class)
    return tuple(dataclasses.replace(f.metadata["row"], name=f.name, default=f.default) for f in fields)
