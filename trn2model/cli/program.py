"""Parse the command line, run the command, write its answer; errors become one line and an exit code."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TextIO

from trn2model.cli.command import Command, Outcome, OutputError, Parser, write
from trn2model.cli.facts import COLLECTIVE, MODELS, SPECS, VALIDATE
from trn2model.cli.workloads import LINK, SERVE, TRAIN
from trn2model.errors import NothingFeasibleError, Trn2ModelError
from trn2model.model.result import to_json

DONE: Final = 0
UNWRITABLE: Final = 1
INVALID: Final = 2
NOTHING_FEASIBLE: Final = 3
INTERRUPTED: Final = 130
MAX_LINE: Final = 1500

#: every subcommand, in the order of the help
COMMANDS: Final[tuple[Command, ...]] = (SPECS, MODELS, TRAIN, SERVE, COLLECTIVE, VALIDATE, LINK)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        _answer(arguments)
    except BrokenPipeError:
        _discard(sys.stdout)
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputError as error:
        _discard(sys.stdout)
        _complain(f"standard output cannot be written: {error}")
        return UNWRITABLE
    except Trn2ModelError as error:
        _complain(str(error))
        return NOTHING_FEASIBLE if isinstance(error, NothingFeasibleError) else INVALID
    return DONE


def parser() -> Parser:
    """Parser of the whole command line."""
    program = Parser("trn2model", description="Performance model of AWS Trainium2.", allow_abbrev=False)
    commands = program.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for command in COMMANDS:
        subparser = commands.add_parser(command.name, help=command.help, description=command.help, allow_abbrev=False)
        subparser.add_argument("--json", action="store_true", help="write JSON in SI units instead of text")
        subparser.set_defaults(run=command.run)
        command.configure(subparser)
    return program


def _answer(arguments: Sequence[str] | None) -> None:
    namespace = parser().parse_args(arguments)
    outcome: Outcome = namespace.run(namespace)
    write(as_json(outcome) if namespace.json else outcome.text())


def _complain(text: str) -> None:
    """Write one line to standard error; where that is closed or full, the exit code alone tells."""
    line = " ".join(text.split())[:MAX_LINE]
    try:
        if sys.stderr is not None:
            sys.stderr.write(f"trn2model: {line}\n")
            sys.stderr.flush()
    except (OSError, ValueError):
        _discard(sys.stderr)


def _discard(stream: TextIO | None) -> None:
    """Let what a stream still holds go nowhere, so that leaving the process does not fail on it."""
    if stream is None:
        return
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def as_json(outcome: Outcome) -> str:
    """Document of an outcome as JSON text without NaN or infinity."""
    return json.dumps(to_json(outcome.document), indent=2, allow_nan=False, ensure_ascii=False)
