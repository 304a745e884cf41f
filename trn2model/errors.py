"""Exception tree: everything the package raises on purpose derives from Trn2ModelError."""

from __future__ import annotations

import reprlib
from typing import Final

_SHOWN_LENGTH: Final = 80
_SHOWN_ENTRIES: Final = 16
_PRINTED_BITS: Final = 4096


class _Text(reprlib.Repr):
    """Text of any value: a value whose own text cannot be had is named by its type."""

    def __init__(self) -> None:
        super().__init__()
        self.maxtuple = self.maxlist = self.maxdict = _SHOWN_ENTRIES
        self.maxother = 2 * _SHOWN_LENGTH

    def repr_str(self, x: str, _level: int) -> str:
        return str.__repr__(x)

    def repr_int(self, x: int, _level: int) -> str:
        return int.__repr__(x) if x.bit_length() <= _PRINTED_BITS else f"an integer of {x.bit_length():,} bits"


_TEXT: Final = _Text()


class Trn2ModelError(Exception):
    """Root of every exception raised on purpose."""


class DataError(Trn2ModelError):
    """A file of the package's own data, or an uploaded one, breaks its schema."""


class UnsupportedError(Trn2ModelError):
    """The hardware has no published rate or mechanism for what was asked; nothing is extrapolated."""


class NothingFeasibleError(Trn2ModelError):
    """A search finished and no candidate fits."""


class InvalidInputError(Trn2ModelError, ValueError):
    """An input that means nothing.

    Parameters
    ----------
    field : str
        Public name of the offending scenario field.
    value : object
        What was given.
    allowed : str
        The allowed range, in words.
    remedy : str
        What to do about it.
    """

    def __init__(self, field: str, value: object, allowed: str, remedy: str) -> None:
        self.field = field
        self.value = value
        self.allowed = allowed
        self.remedy = remedy
        super().__init__(field, value, allowed, remedy)

    def __str__(self) -> str:
        """One line, however long or multi-line the value is.

        Returns
        -------
        str
            Field, value, allowed range and remedy.
        """
        value = " ".join(_TEXT.repr(self.value).split())
        shown = value if len(value) <= _SHOWN_LENGTH else f"{value[:_SHOWN_LENGTH]}…"
        return f"{self.field} = {shown} is invalid: allowed is {self.allowed}; {self.remedy}"


class InvalidPlanError(InvalidInputError):
    """A parallel plan or workload that cannot be laid out on the model and the machine."""


class UnknownNameError(InvalidPlanError):
    """A name that the catalog does not hold."""
