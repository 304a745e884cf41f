"""Commands that print facts: ``specs`` and ``models``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from trn2model.cli.arguments import read_model
from trn2model.cli.command import Command, Outcome, UsageError
from trn2model.cli.text import columns, quantity_text, sections
from trn2model.estimate.model.report import model_report
from trn2model.specs import catalog
from trn2model.specs.fields import ScenarioField
from trn2model.specs.figures_report import specs_report
from trn2model.specs.plan import MAX_TOKENS
from trn2model.specs.scenario import ROWS
from trn2model.ui.format import capacity, count, quantity

_CONTEXT: Final = ScenarioField(
    "context",
    "int",
    "Context",
    "Model",
    "Tokens the next token attends to",
    0,
    "context",
    minimum=0,
    maximum=MAX_TOKENS,
)
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
