"""Arguments shared by commands: one flag per row of the scenario table, and the files that may stand in for them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trn2model.errors import InvalidInputError
from trn2model.specs.fields import ScenarioField
from trn2model.specs.hf_config import model_from_hf_config
from trn2model.specs.model import ModelSpec
from trn2model.specs.scenario import FIELDS, Scenario
from trn2model.specs.user_file import MAX_JSON_BYTES, read_user_file

_METAVARS: Final = {"int": "N", "float": "X", "name": "NAME", "choice": "WORD", "order": "AXES", "list": "WORDS"}
_MANY: Final = 16
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
        if row.kind == "bool":
            action = argparse.BooleanOptionalAction
            groups[row.group].add_argument(row.flag, action=action, default=None, help=_help(row))
        else:
            groups[row.group].add_argument(row.flag, metavar=_METAVARS[row.kind], help=_help(row))


def scenario_from(arguments: argparse.Namespace) -> Scenario:
    """Scenario of a command line: the file's fields, then the flags.

    Raises InvalidInputError (a value is not allowed, or a file cannot be used).
    """
    scenario = Scenario() if arguments.scenario is None else _from_file(arguments.scenario)
    values: dict[str, Any] = {}
    for row in FIELDS:
        given = getattr(arguments, row.name)
        if given is not None:
            values[row.name] = given if isinstance(given, bool) else row.parse(given)
    if arguments.model_config is not None:
        if "model" in values:
            remedy = "give only one of the two"
            raise InvalidInputError("model", arguments.model, "left out when --model-config is given", remedy)
        values["model"] = read_model(arguments.model_config)
    return replace(scenario, **values) if values else scenario


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
    few = (row.kind not in ("name", "bool") and len(row.options()) < _MANY) or row.kind in ("order", "list")
    allowed = f" Allowed: {row.allowed()}." if few else ""
    return f"{row.help}{allowed} Default: {default}.".replace("%", "%%")
