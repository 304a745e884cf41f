"""What a subcommand is: how it adds its arguments, and what it answers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from trn2model.errors import Trn2ModelError


class UsageError(Trn2ModelError):
    """The command line itself cannot be understood."""


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

        Parameters
        ----------
        message : str
            What is wrong.

        Raises
        ------
        UsageError
            Always.
        """
        hint = f"{message}; see {self.prog} --help"
        raise UsageError(hint)
