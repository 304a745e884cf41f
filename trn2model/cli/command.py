"""What a subcommand is: how it adds its arguments, and what it answers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from trn2model.errors import Trn2ModelError


class SupportsWrite(Protocol):
    """What a parser may write its help to."""

    def write(self, text: str, /) -> object:
        """Take some text."""


class UsageError(Trn2ModelError):
    """The command line itself cannot be understood."""


class OutputError(Trn2ModelError):
    """Standard output takes nothing: it is closed, or its device is full."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Answer of a command: a document for ``--json``, and how to write the same for people."""

    document: Mapping[str, Any]
    text: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand."""

    name: str
    help: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Outcome]


class Parser(argparse.ArgumentParser):
    """Argument parser that raises instead of printing its usage and leaving."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises UsageError (always).
        """
        hint = f"{message}; see {self.prog} --help"
        raise UsageError(hint)

    def print_help(self, file: SupportsWrite | None = None) -> None:
        """Write the help like any answer, so that what cannot be written is no silent success."""
        if file is None:
            write(self.format_help())
        else:
            file.write(self.format_help())


def write(text: str) -> None:
    """Write text to standard output, at once.

    Raises BrokenPipeError (the reader has left); OutputError (standard output is closed or full).
    """
    if sys.stdout is None:
        message = "it is closed"
        raise OutputError(message)
    try:
        sys.stdout.write(text.rstrip("\n") + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        message = getattr(error, "strerror", None) or str(error)
        raise OutputError(message) from error
