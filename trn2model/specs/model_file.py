"""Model files: one TOML document of data/models is one architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, Final

from trn2model.errors import DataError, UnknownNameError
from trn2model.specs.model import Attention, LatentAttention, Layer, Mlp, ModelSpec, Moe
from trn2model.specs.provenance import STATUSES, list_toml, read_toml, sources

FOLDER: Final = "models"
_TYPES: Final[dict[str, type]] = {"int": int, "bool": bool, "str": str}
_MODEL_KEYS: Final = {f.name for f in fields(ModelSpec)} - {"name", "layer_kinds", "layer_sequence"}
_OPTIONAL_ZERO: Final = {
    "window", "value_head_size", "shared_ffn_size", "learned_positions", "query_rank", "num_norms",
}  # fmt: skip


def model_names() -> tuple[str, ...]:
    """Names of the models of the catalog.

    Examples
    --------
    >>> "llama-3.1-70b" in model_names()
    True
    """
    return _names()


@cache
def load_model(name: str) -> ModelSpec:
    """Architecture of a model of the catalog.

    Raises UnknownNameError (the catalog holds no such model); DataError (the model's file breaks the schema).

    Examples
    --------
    >>> load_model("llama-3.1-70b").num_layers
    80
    """
    if name not in _names():
        remedy = "choose one of them or give a Hugging Face config.json"
        raise UnknownNameError("model", name, f"one of {', '.join(_names())}", remedy)
    return parse_model(name, read_toml(FOLDER, f"{name}.toml"))


def parse_model(name: str, document: Mapping[str, Any]) -> ModelSpec:
    """Architecture from a parsed model file.

    Raises DataError (a key is unknown or missing, a value has the wrong type or the source is not listed).
    """
    layers = document.get("layers", {"block": {}})
    common = {key: document[key] for key in ("attention", "latent", "mlp", "moe") if key in document}
    plain = {key: value for key, value in document.items() if key not in {*common, "layers", "sequence"}}
    unknown = plain.keys() - _MODEL_KEYS
    if unknown or "sequence" not in document:
        message = f"model {name}: unknown keys {sorted(unknown)} or no sequence of layers"
        raise DataError(message)
    kinds = tuple(_layer(f"model {name}, layer {kind}", kind, common, table) for kind, table in layers.items())
    sequence = _sequence(f"model {name}", tuple(layers), document["sequence"])
    checked = _checked(ModelSpec, f"model {name}", {"name": name, **plain}, skip={"layer_kinds", "layer_sequence"})
    spec = ModelSpec(**checked, layer_kinds=kinds, layer_sequence=sequence)
    if spec.source not in sources() or spec.status not in STATUSES:
        message = f"model {name}: source {spec.source!r} or status {spec.status!r} is unknown"
        raise DataError(message)
    return spec


@cache
def _names() -> tuple[str, ...]:
    return list_toml(FOLDER)


def _layer(where: str, kind: str, common: Mapping[str, Any], table: Mapping[str, Any]) -> Layer:
    unknown = table.keys() - {"attention", "latent", "mlp", "moe", "num_norms"}
    if unknown:
        message = f"{where}: unknown keys {sorted(unknown)}"
        raise DataError(message)
    own = {key for key in ("mlp", "moe") if key in table} or {key for key in ("mlp", "moe") if key in common}
    if len(own) != 1:
        message = f"{where}: exactly one of mlp and moe is needed"
        raise DataError(message)
    attention = {**common.get("attention", {}), **table.get("attention", {})}
    latent = {**common.get("latent", {}), **table.get("latent", {})}
    if latent:
        attention["latent"] = LatentAttention(**_checked(LatentAttention, where, latent))
    key = own.pop()
    block: type[Mlp | Moe] = Moe if key == "moe" else Mlp
    feed_forward = block(**_checked(block, where, {**common.get(key, {}), **table.get(key, {})}))
    built = Attention(**_checked(Attention, where, attention, skip={"latent"}), latent=attention.get("latent"))
    return Layer(kind, built, feed_forward, int(table.get("num_norms", 2)))


def _sequence(where: str, kinds: tuple[str, ...], runs: list[Mapping[str, Any]]) -> tuple[int, ...]:
    names = [kind for run in runs for kind in list(run["kinds"]) * int(run["times"])]
    unknown = set(names) - set(kinds)
    if unknown or not names or set(kinds) - set(names):
        message = f"{where}: the sequence must use exactly the kinds {kinds}"
        raise DataError(message)
    return tuple(kinds.index(kind) for kind in names)


def _checked(
    cls: type, where: str, table: Mapping[str, Any], skip: frozenset[str] | set[str] = frozenset()
) -> dict[str, Any]:
    known: dict[str, Field[Any]] = {f.name: f for f in fields(cls) if f.name not in skip}
    given = {key: value for key, value in table.items() if key not in skip}
    required = {key for key, f in known.items() if f.default is MISSING}
    wrong = (given.keys() - known.keys()) | (required - given.keys())
    wrong |= {key for key in given.keys() & known.keys() if not _fits(known[key], given[key])}
    if wrong:
        message = f"{where}: {sorted(wrong)} of {cls.__name__} unknown, missing or of the wrong type"
        raise DataError(message)
    return given


def _fits(field: Field[Any], value: object) -> bool:
    kind = _TYPES.get(str(field.type))
    if kind is not int:
        return kind is None or isinstance(value, kind)
    least = 0 if field.name in _OPTIONAL_ZERO else 1
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
