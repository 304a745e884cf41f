"""Commands that ask no plan: ``specs``, ``models``, ``collective`` and ``validate``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trn2model.cli.command import (
    Command,
    Outcome,
    UsageError,
    add_field_arguments,
    columns,
    given_values,
    quantity_text,
    read_model,
    sections,
)
from trn2model.model.flop import model_report
from trn2model.network.collective import collective_report
from trn2model.specs import catalog
from trn2model.specs.catalog import specs_report
from trn2model.specs.fields import AUTO, ChoiceField, FloatField, IntField, words
from trn2model.specs.hardware import logical_core
from trn2model.specs.plan import MAX_TOKENS
from trn2model.specs.scenario import ROWS
from trn2model.text import bandwidth, capacity, count, duration, percent, quantity, traffic
from trn2model.validation.compare import validate_report
from trn2model.validation.measurements import TABLES

_CONTEXT: Final = IntField(
    "context", "Context", "Model", help="Tokens the next token attends to",
    name="context", default=0, minimum=0, maximum=MAX_TOKENS,
)  # fmt: skip
_SYSTEM_FIGURES: Final = ("num_chips", "num_cores", "hbm_bytes", "hbm_bandwidth", "bf16_flop_rate", "fp8_flop_rate")


def _configure_specs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("system", nargs="?", metavar="SYSTEM", help="a system or a chip; all of them if left out")


def _specs(arguments: argparse.Namespace) -> Outcome:
    report = specs_report(arguments.system)
    return Outcome(report, lambda: _systems_text(report) if arguments.system is None else _system_text(report))


def _systems_text(report: Mapping[str, Any]) -> str:
    head = ("system", "chips", "cores", "HBM", "HBM bandwidth", "bf16 dense", "fp8 dense", "title")
    rows = [head]
    for system in report["systems"]:
        figures = (system["figures"][name] for name in _SYSTEM_FIGURES)
        rows.append((system["system"], *(_rounded(f) for f in figures), system["title"]))
    return sections([("", columns(rows, right=range(1, 7))), ("", "trn2model specs SYSTEM prints every figure.")])


def _rounded(figure: Mapping[str, Any]) -> str:
    return "–" if figure["value"] is None else quantity_text(figure["value"], figure["unit"])


def _system_text(report: Mapping[str, Any]) -> str:
    rows = [("figure", "value", "status", "source", "other sources say")]
    for name, figure in report["figures"].items():
        others = "; ".join(f"{quantity(o['value'], o['unit'])} ({o['source']})" for o in figure["alternatives"])
        value = quantity(figure["value"], figure["unit"])
        rows.append((name.replace("_", " "), value, figure["status"], figure["source"], others))
    return sections([("", report["title"]), ("", columns(rows, right=[1]))])


def _configure_models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a catalog name; all models if left out")
    parser.add_argument("--model-config", metavar="FILE", help="Hugging Face config.json to describe instead")
    parser.add_argument("--context", metavar="N", default="0", help="tokens that the next token attends to (default 0)")


def _models(arguments: argparse.Namespace) -> Outcome:
    context = _CONTEXT.parse(arguments.context)
    if arguments.model_config is not None:
        if arguments.name is not None:
            message = "models takes a NAME or --model-config, not both"
            raise UsageError(message)
        report = model_report(read_model(arguments.model_config), context)
        return Outcome(report, lambda: _model_text(report))
    if arguments.name is not None:
        report = model_report(catalog.model(ROWS["model"].check(arguments.name)), context)
        return Outcome(report, lambda: _model_text(report))
    reports = [model_report(catalog.model(name), context) for name in catalog.model_names()]
    return Outcome({"models": reports}, lambda: _models_text(reports))


def _models_text(reports: list[dict[str, Any]]) -> str:
    head = ("model", "parameters", "active", "layers", "weights (16-bit)", "KV per token", "forward FLOP per token")
    rows = [head]
    for report in reports:
        rows.append(
            (
                report["name"],
                count(report["parameters"]),
                count(report["active_parameters"]),
                str(report["num_layers"]),
                capacity(report["weight_bytes"]),
                capacity(report["kv_bytes_per_token"]),
                quantity_text(report["forward_flop_per_token"], "FLOP"),
            )
        )
    return columns(rows, right=range(1, 7))


def _model_text(report: Mapping[str, Any]) -> str:
    rows = [
        ("parameters", f"{report['parameters']:,}"),
        ("active parameters", f"{report['active_parameters']:,}"),
        ("layers", f"{report['num_layers']:,}"),
        ("hidden size", f"{report['hidden_size']:,}"),
        ("vocabulary", f"{report['vocab_size']:,}"),
        ("longest sequence", f"{report['max_sequence_length']:,} tokens"),
        ("weights, 16-bit", capacity(report["weight_bytes"])),
        ("KV cache per token, 16-bit", capacity(report["kv_bytes_per_token"])),
        (f"KV cache at {report['context']:,} tokens", capacity(report["kv_bytes"])),
        (f"forward per token at {report['context']:,} tokens", quantity_text(report["forward_flop_per_token"], "FLOP")),
        ("source", report["source"]),
    ]
    layers = [("kind", "layers", "parameters each")]
    layers += [(kind["name"], f"{kind['count']:,}", f"{kind['parameters']:,}") for kind in report["layers"]]
    return sections(
        [
            ("", report["title"] or report["name"]),
            ("", columns(rows)),
            ("Layers", columns(layers, right=[1, 2], indent="  ")),
            ("", report["note"]),
        ]
    )


SPECS: Final = Command("specs", "figures of the machines with their sources", _configure_specs, _specs)
MODELS: Final = Command("models", "size and cost of the models", _configure_models, _models)


_OPS: Final = ChoiceField(
    "op", "Operation", "System", help="Collective operation",
    name="op", choices=words("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"),
)  # fmt: skip
_RANKS: Final = IntField(
    "ranks", "Ranks", "System", help="Members of the group, consecutive from rank 0; auto takes every rank",
    name="ranks", default=AUTO, minimum=1, maximum=1 << 20, unset=AUTO,
)  # fmt: skip
_BYTES: Final = FloatField(
    "bytes", "Bytes", "System", help="Message size, nccom-test's size column, in bytes",
    name="bytes", minimum=1, maximum=1e15,
)  # fmt: skip
_FIELDS: Final = tuple(ROWS[name] for name in ("system", "count", "lnc", "profile"))


def _configure_collective(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--op", required=True, metavar="OP", help=f"{_OPS.help}: {_OPS.allowed()}")
    parser.add_argument("--bytes", required=True, metavar="B", help=_BYTES.help)
    parser.add_argument("--ranks", default=AUTO, metavar="N", help=_RANKS.help)
    parser.add_argument("--algorithm", default=AUTO, metavar="NAME", help="algorithm to use; auto takes the cheapest")
    add_field_arguments(parser, _FIELDS)


def _collective(arguments: argparse.Namespace) -> Outcome:
    op, size = _OPS.parse(arguments.op), _BYTES.parse(arguments.bytes)
    ranks = _RANKS.parse(arguments.ranks)
    values = {row.name: row.default for row in _FIELDS} | given_values(arguments, _FIELDS)
    system = catalog.system(values["system"])
    if ranks == AUTO:
        ranks = system.num_chips * values["count"] * logical_core(system, values["lnc"]).ranks_per_chip
    name = system.default_profile if values["profile"] == AUTO else values["profile"]
    machine = system, values["count"], values["lnc"]
    report = collective_report(
        op, *machine, ranks=ranks, message_bytes=size, algorithm=arguments.algorithm, profile_name=name
    )
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


COLLECTIVE: Final = Command(
    "collective", "time and bus bandwidth of one collective", _configure_collective, _collective
)


_MOST_REASONS: Final = 12


def _configure_validate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--csv", metavar="FILE", help="a file with the columns of the public tables, to compare with")
    kinds = ", ".join(TABLES)
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


VALIDATE: Final = Command("validate", "predictions beside published measurements", _configure_validate, _validate)
