"""Transformer architectures as frozen values; one TOML document of data/models is one architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Any, Final

from trn2model.errors import DataError, UnknownNameError
from trn2model.specs.provenance import STATUSES, list_toml, read_toml, sources


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Low-rank sizes of multi-head latent attention (MLA); `query_rank` 0 projects queries directly."""

    query_rank: int
    latent_size: int
    rope_size: int
    nope_head_size: int
    value_head_size: int


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention block.

    `window` 0 means every earlier token is seen, otherwise each token sees the last `window` ones, itself
    included. `value_head_size` 0 means values are as wide as keys. `output_gate` is a query-shaped projection
    that scales the heads' outputs. `qk_norm` normalises each head (weights of one head size), or with
    `qk_norm_full` all heads together.
    """

    num_heads: int
    num_kv_heads: int
    head_size: int
    window: int = 0
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    rotary: bool = True
    sinks: bool = False
    latent: LatentAttention | None = None
    value_head_size: int = 0
    output_gate: bool = False
    qk_norm_full: bool = False


@dataclass(frozen=True, slots=True)
class Mlp:
    """Dense feed-forward block: gated (three matrices) or plain (two)."""

    ffn_size: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Moe:
    """Mixture of experts: routed experts, shared experts that every token visits, and the router.

    `ffn_size` is one expert's width, `shared_ffn_size` that of all shared experts together. `shared_gate` scales
    the shared experts by a learned gate. With `num_expert_groups` above 1, a token's experts come from at most
    `groups_per_token` groups of neighbouring experts.
    """

    num_experts: int
    experts_per_token: int
    ffn_size: int
    gated: bool = True
    bias: bool = False
    shared_ffn_size: int = 0
    router_bias: bool = False
    shared_gate: bool = False
    num_expert_groups: int = 1
    groups_per_token: int = 1


@dataclass(frozen=True, slots=True)
class Layer:
    """One kind of transformer layer; `num_norms` counts its hidden-size norms, those inside attention apart."""

    name: str
    attention: Attention
    feed_forward: Mlp | Moe
    num_norms: int = 2


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder-only transformer.

    `layer_kinds` lists the distinct layers; `layer_sequence` gives, for each layer from the first to the last,
    the index of its kind. `layer_norm` means norms that subtract the mean, with a bias if `norm_bias`; otherwise
    norms are root-mean-square with a weight alone. `learned_positions` is the length of a learned position table.
    """

    name: str
    hidden_size: int
    vocab_size: int
    layer_kinds: tuple[Layer, ...]
    layer_sequence: tuple[int, ...]
    tied_embeddings: bool = False
    learned_positions: int = 0
    layer_norm: bool = False
    dropout: bool = False
    lm_head_bias: bool = False
    max_sequence_length: int = 131072
    source: str = ""
    title: str = ""
    norm_bias: bool = True
    status: str = "published"
    note: str = ""

    @property
    def num_layers(self) -> int:
        """Number of transformer layers."""
        return len(self.layer_sequence)

    @property
    def layer_counts(self) -> tuple[int, ...]:
        """Number of layers of each kind."""
        return tuple(self.layer_sequence.count(index) for index in range(len(self.layer_kinds)))

    @property
    def has_experts(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return any(isinstance(layer.feed_forward, Moe) for layer in self.layer_kinds)


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
