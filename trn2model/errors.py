"""Exception tree: everything the package raises on purpose derives from Trn2ModelError."""

from __future__ import annotations

from typing import Final

_SHOWN_LENGTH: Final = 80


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
        value = " ".join(repr(self.value).split())
        shown = value if len(value) <= _SHOWN_LENGTH else f"{value[:_SHOWN_LENGTH]}…"
        return f"{self.field} = {shown} is invalid: allowed is {self.allowed}; {self.remedy}"


class InvalidPlanError(InvalidInputError):
    """A parallel plan or workload that cannot be laid out on the model and the machine."""


class UnknownNameError(InvalidPlanError):
    """A name that the catalog does not hold."""
