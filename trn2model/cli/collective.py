"""Command on one collective: ``collective``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from trn2model.cli.arguments import add_field_arguments
from trn2model.cli.command import Command, Outcome
from trn2model.cli.text import columns, sections
from trn2model.estimate.network.collective_report import collective_report
from trn2model.specs import catalog
from trn2model.specs.fields import AUTO, ScenarioField, words
from trn2model.specs.hardware import logical_core
from trn2model.specs.scenario import ROWS
from trn2model.ui.format import bandwidth, duration, percent, traffic

_OPS: Final = ScenarioField(
    "op", "choice", "Operation", "System", "Collective operation", name="op",
    choices=words("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"),
)  # fmt: skip
_RANKS: Final = ScenarioField(
    "ranks", "int", "Ranks", "System", "Members of the group, consecutive from rank 0; auto takes every rank", AUTO,
    "ranks", minimum=1, maximum=1 << 20, unset=AUTO,
)  # fmt: skip
_BYTES: Final = ScenarioField(
    "bytes", "float", "Bytes", "System", "Message size, nccom-test's size column, in bytes", name="bytes",
    minimum=1, maximum=1e15,
)  # fmt: skip
_FIELDS: Final = tuple(ROWS[name] for name in ("system", "count", "lnc", "profile"))


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--op", required=True, metavar="OP", help=f"{_OPS.help}: {_OPS.allowed()}")
    parser.add_argument("--bytes", required=True, metavar="B", help=_BYTES.help)
    parser.add_argument("--ranks", default=AUTO, metavar="N", help=_RANKS.help)
    parser.add_argument("--algorithm", default=AUTO, metavar="NAME", help="algorithm to use; auto takes the cheapest")
    add_field_arguments(parser, _FIELDS)


def _collective(arguments: argparse.Namespace) -> Outcome:
    op, size = _OPS.parse(arguments.op), _BYTES.parse(arguments.bytes)
    ranks = _RANKS.parse(arguments.ranks)
    given = {row.name: getattr(arguments, row.name) for row in _FIELDS}
    values = {row.name: row.default if given[row.name] is None else row.parse(given[row.name]) for row in _FIELDS}
    system = catalog.system(values["system"])
    if ranks == AUTO:
        ranks = system.num_chips * values["count"] * logical_core(system, values["lnc"]).ranks_per_chip
    name = system.default_profile if values["profile"] == AUTO else values["profile"]
    report = collective_report(op, system, values["count"], values["lnc"], ranks, size, arguments.algorithm, name)
    title = f"{op} of {traffic(size)} over {ranks:,} ranks of {values['count']} x {system.name}, profile {name}"
    return Outcome(report, lambda: collective_text(title, report))


def collective_text(title: str, report: Mapping[str, Any]) -> str:
    """One collective as text for the terminal."""
    head = [
        ("time", duration(report["time"])),
        ("algorithm", report["algorithm"]),
        ("algbw", bandwidth(report["algbw"])),
        ("busbw", bandwidth(report["busbw"])),
        ("busiest link", percent(report["max_link_utilization"])),
    ]
    others = sorted(report["by_algorithm"].items(), key=lambda item: item[1])
    rows = [(name, duration(time)) for name, time in others]
    return sections([("", title), ("", columns(head)), ("By algorithm", columns(rows, right=[1], indent="  "))])


COLLECTIVE: Final = Command("collective", "time and bus bandwidth of one collective", _configure, _collective)
