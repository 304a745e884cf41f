"""Command on measurements: ``validate``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trn2model.cli.command import Command, Outcome
from trn2model.cli.text import columns, sections
from trn2model.validation.report import FILE_KINDS, validate_report

_MOST_REASONS: Final = 12


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--csv", metavar="FILE", help="a file with the columns of the public tables, to compare with")
    kinds = ", ".join(FILE_KINDS)
    parser.add_argument("--kind", metavar="KIND", help=f"what is measured: {kinds}; needed with --csv")


def _validate(arguments: argparse.Namespace) -> Outcome:
    report = validate_report(arguments.csv, arguments.kind)
    return Outcome(report, lambda: validation_text(report))


def validation_text(report: Mapping[str, Any]) -> str:
    """Report of the validation as text for the terminal."""
    reasons = [(f"{count:,}", reason) for reason, count in list(report["left_out"].items())[:_MOST_REASONS]]
    return sections(
        [
            ("Errors by dataset, in percent of the measurement", _table(report["datasets"])),
            ("Sets of rows that may be fitted", _table(report["summaries"])),
            ("Rows left out", columns(reasons, right=[0], indent="  ")),
        ]
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ("name", "used", "of", "mean", "median", "largest", "out of group", "in range", "profile")
    lines = [head]
    for row in rows:
        errors = [f"{row[f'{name}_abs_pct_error']:.1f}" for name in ("mean", "median", "max", "loo_mean")]
        inside = f"{100 * row['within_range_fraction']:.0f} %"
        lines.append((row["name"], str(row["used"]), str(row["rows"]), *errors, inside, ", ".join(row["profiles"])))
    return columns(lines, right=range(1, 8)) if rows else ""


VALIDATE: Final = Command("validate", "predictions beside published measurements", _configure, _validate)
