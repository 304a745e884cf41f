"""What a subcommand is: its arguments, its answer, and aligned plain text for the terminal."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

from trn2model.errors import InvalidInputError, Trn2ModelError
from trn2model.specs.fields import BoolField, ScenarioField
from trn2model.specs.hf import model_from_hf_config
from trn2model.specs.model import ModelSpec
from trn2model.specs.provenance import MAX_JSON_BYTES, read_user_file
from trn2model.specs.scenario import FIELDS, Scenario
from trn2model.text import bandwidth, capacity, duration, flop_rate, quantity, significant

_GAP = "  "


def columns(rows: Iterable[Sequence[str]], right: Sequence[int] = (), indent: str = "") -> str:
    """Rows as aligned columns.

    Examples
    --------
    >>> print(columns([("a", "10 ms"), ("long", "2 ms")], right=[1]))
    a     10 ms
    long   2 ms
    """
    table = [tuple(row) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip_longest(*table, fillvalue="")]
    lines = []
    for row in table:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append((indent + _GAP.join(cells)).rstrip())
    return "\n".join(lines)


def sections(parts: Iterable[tuple[str, str]]) -> str:
    """Titled blocks, one blank line apart; empty ones are left out.

    Examples
    --------
    >>> print(sections([("", "head"), ("Parts", "  a"), ("None", "")]))
    head
    <BLANKLINE>
    Parts
      a
    """
    return "\n\n".join("\n".join(filter(None, part)) for part in parts if part[1])


def quantity_text(value: float, unit: str) -> str:
    """Number to three digits in its everyday unit.

    Examples
    --------
    >>> quantity_text(30.83 * 2**30, "B")
    '30.8 GiB'
    """
    writers = {"B": capacity, "s": duration, "B/s": bandwidth, "FLOP/s": flop_rate}
    return writers[unit](value) if unit in writers else quantity(float(significant(value).replace(",", "")), unit)


def share_text(fraction: float) -> str:
    """Share of a whole to a tenth of a percent.

    Examples
    --------
    >>> share_text(0.4061), share_text(0.00002)
    ('40.6 %', '0.0 %')
    """
    return f"{fraction:.1%}".replace("%", " %")


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


#: A list of allowed words that is longer stands in the documentation and in the message that refuses another word.
_LONGEST_LIST: Final = 100
_SHOWN: Final = 60


def add_scenario_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one flag per scenario field, grouped as in the table, and the two file options."""
    files = parser.add_argument_group("Files")
    files.add_argument("--model-config", metavar="FILE", help="Hugging Face config.json to use instead of --model")
    files.add_argument("--scenario", metavar="FILE", help="JSON file with scenario fields; flags override it")
    add_field_arguments(parser, FIELDS)


def add_field_arguments(parser: argparse.ArgumentParser, rows: Iterable[ScenarioField]) -> None:
    """Add the flags of some rows of the scenario table, in the groups of the table."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for row in rows:
        if row.group not in groups:
            groups[row.group] = parser.add_argument_group(row.group)
        if isinstance(row, BoolField):
            action = argparse.BooleanOptionalAction
            groups[row.group].add_argument(row.flag, action=action, default=None, help=_help(row))
        else:
            groups[row.group].add_argument(row.flag, metavar=row.placeholder, help=_help(row))


def scenario_from(arguments: argparse.Namespace) -> Scenario:
    """Scenario of a command line: the file's fields, then the flags.

    Raises InvalidInputError (a value is not allowed, or a file cannot be used).
    """
    scenario = Scenario() if arguments.scenario is None else _from_file(arguments.scenario)
    values = given_values(arguments, FIELDS)
    if arguments.model_config is not None:
        if "model" in values:
            remedy = "give only one of the two"
            raise InvalidInputError("model", arguments.model, "left out when --model-config is given", remedy)
        values["model"] = read_model(arguments.model_config)
    return replace(scenario, **values) if values else scenario


def given_values(arguments: argparse.Namespace, rows: Iterable[ScenarioField]) -> dict[str, Any]:
    """Values of the flags that were given, by field.

    Raises InvalidInputError (a value is not allowed).
    """
    given = ((row, getattr(arguments, row.name)) for row in rows)
    return {
        row.name: value if isinstance(value, bool) else row.parse(value) for row, value in given if value is not None
    }


def read_model(path: str) -> ModelSpec:
    """Model from a Hugging Face config.json.

    Raises InvalidInputError (the file cannot be read, or is no config.json of a model).
    """
    text = read_user_file("model_config", path, "JSON", MAX_JSON_BYTES)
    file = Path(path)
    name = file.parent.name if file.stem == "config" and file.parent.name else file.stem
    shown = "".join(character if character.isprintable() else "?" for character in name)
    return model_from_hf_config(text, shown or "custom")


def _from_file(path: str) -> Scenario:
    text = read_user_file("scenario", path, "JSON", MAX_JSON_BYTES)
    remedy = "give a JSON object of scenario fields, or the JSON of an estimate"
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("scenario", path, f"a file of JSON ({error})", remedy) from error
    if isinstance(content, dict) and isinstance(content.get("scenario"), dict):
        content = content["scenario"]
    if not isinstance(content, dict):
        raise InvalidInputError("scenario", path, "a JSON object", remedy)
    for name, value in content.items():
        if isinstance(value, list):
            raise InvalidInputError(name[:_SHOWN], "a list", "a single value on the command line", "give one plan")
    return Scenario.from_dict(content)


def _help(row: ScenarioField) -> str:
    default = row.format(row.default)
    listed = not isinstance(row, BoolField) and len(row.allowed()) <= _LONGEST_LIST
    allowed = f" Allowed: {row.allowed()}." if listed else ""
    return f"{row.help}{allowed} Default: {default}.".replace("%", "%%")
