"""Architecture from a Hugging Face config.json: one small reader per family, every wrong field one clear message."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from trn2model.errors import InvalidInputError, UnsupportedError
from trn2model.specs.fields import Abridged
from trn2model.specs.model import Attention, LatentAttention, Layer, Mlp, ModelSpec, Moe

#: Longest config.json that is read; real ones are below 64 KiB even with a quantization table.
MAX_CONFIG_CHARACTERS: Final = 1 << 20
#: Most layers, heads or experts that a field may name.
MAX_COUNT: Final = 4096
#: Largest width, vocabulary or position that a field may name.
MAX_SIZE: Final = 1 << 24

_SHOWN_CHARACTERS: Final = 60
_SHOWN_DIGITS: Final = 12
#: Python refuses to print integers of more than a few thousand digits.
_PRINTED_BITS: Final = 4096
_CORRECT: Final = "correct the field in config.json"


class ConfigFields:
    """Fields of one config.json, each checked as it is read."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content

    def has(self, key: str, null: bool = False) -> bool:
        """Whether a field is given."""
        return key in self._content and (null or self._content[key] is not None)

    def size(self, *keys: str, default: int | None = None, least: int = 1, most: int = MAX_SIZE) -> int:
        """Whole number of a field; of several names the first given counts.

        Raises InvalidInputError (the field is missing, not a whole number, or out of range).
        """
        key = next((k for k in keys if self.has(k)), keys[0])
        value = self._content.get(key)
        if value is None and default is not None:
            return default
        allowed = f"a whole number from {least} to {most}"
        if value is None:
            raise invalid(key, value, allowed, f"add {' or '.join(keys)} to config.json")
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise invalid(key, value, allowed)
        return number

    def count(self, *keys: str, default: int | None = None, least: int = 1) -> int:
        """Whole number of a field that counts layers, heads or experts.

        Raises InvalidInputError (the field is missing, not a whole number, or out of range).
        """
        return self.size(*keys, default=default, least=least, most=MAX_COUNT)

    def flag(self, key: str, default: bool) -> bool:
        """Truth value of a field.

        Raises InvalidInputError (the field is neither true nor false).
        """
        value = self._content.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise invalid(key, value, "true or false")
        return value

    def fraction(self, key: str, default: float) -> float:
        """Number between 0 and 1 of a field.

        Raises InvalidInputError (the field is not a number from 0 to 1).
        """
        value = self._content.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
            raise invalid(key, value, "a number from 0 to 1")
        return float(value)

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Object of a field.

        Raises InvalidInputError (the field is not an object).
        """
        value = self._content.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise invalid(key, value, "an object or null")
        return value

    def word(self, key: str) -> str:
        """Text of a field.

        Raises InvalidInputError (the field is not a text).
        """
        value = self._content.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise invalid(key, value, "a text")
        return value

    def entries(self, key: str) -> list[Any]:
        """List of a field.

        Raises InvalidInputError (the field is not a list, or longer than any model has layers).
        """
        value = self._content.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > MAX_COUNT:
            raise invalid(key, value, f"a list of at most {MAX_COUNT} entries")
        return value

    def words(self, key: str, allowed: Sequence[str], length: int) -> list[str]:
        """List of words, one per layer.

        Raises InvalidInputError (the list has another length or holds anything else).
        """
        values = self.entries(key)
        if values and len(values) != length:
            raise invalid(key, f"{len(values)} entries", f"one entry for each of {length} layers")
        wrong = [value for value in values if value not in allowed]
        if wrong:
            raise invalid(key, wrong[0], f"entries {' or '.join(allowed)}")
        return values


def config_fields(source: str | Mapping[str, Any]) -> ConfigFields:
    """Fields of a config.json given as text or already parsed.

    Raises InvalidInputError (the text is too long, is not JSON, or is not one object).
    """
    if isinstance(source, Mapping):
        return ConfigFields(source)
    remedy = "give the config.json of a Hugging Face model"
    if len(source) > MAX_CONFIG_CHARACTERS:
        allowed = f"at most {MAX_CONFIG_CHARACTERS} characters"
        raise invalid("model_config", f"{len(source)} characters", allowed, remedy)
    try:
        content = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise invalid("model_config", source, "valid JSON", remedy) from error
    if not isinstance(content, dict):
        raise invalid("model_config", content, "one JSON object", remedy)
    return ConfigFields(content)


def invalid(field: str, value: object, allowed: str, remedy: str = _CORRECT) -> InvalidInputError:
    """Error about one field, with the value cut to a line."""
    if value is None or isinstance(value, bool | float):
        return InvalidInputError(field, value, allowed, remedy)
    if isinstance(value, str):
        return InvalidInputError(field, _line(value), allowed, remedy)
    if isinstance(value, int):
        return InvalidInputError(field, _abridged_integer(value), allowed, remedy)
    return InvalidInputError(field, Abridged(_line(reprlib.repr(value))), allowed, remedy)


def _line(text: str) -> str:
    line = " ".join(text[: 2 * _SHOWN_CHARACTERS].split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


def _abridged_integer(value: int) -> int | Abridged:
    if abs(value) < MAX_SIZE**2:
        return value
    if value.bit_length() > _PRINTED_BITS:
        return Abridged(f"an integer of {value.bit_length():,} bits")
    digits = str(abs(value))
    return Abridged(f"{'-' if value < 0 else ''}{digits[:_SHOWN_DIGITS]}… ({len(digits):,} digits)")


_LAYER_TYPES: Final = ("full_attention", "sliding_attention")
#: Windows that the families' configuration classes take where config.json says nothing.
_MISTRAL_WINDOW: Final = 4096
_GPT_NEO_WINDOW: Final = 256
#: Dropout of GPT-2's configuration class.
_GPT2_DROPOUT: Final = 0.1


def model_types() -> tuple[str, ...]:
    """Values of `model_type` that can be read."""
    return tuple(sorted(_FAMILIES))


def model_from_hf_config(source: str | Mapping[str, Any], name: str = "custom") -> ModelSpec:
    """Architecture described by a Hugging Face config.json.

    Raises InvalidInputError (the text is not one JSON object, or a field is missing, of the wrong type or out of
    range); UnsupportedError (the model type is not among the known families).

    Examples
    --------
    >>> sizes = {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}
    >>> model_from_hf_config({"model_type": "gpt2", **sizes}, "gpt2").num_layers
    12
    """
    fields = config_fields(source)
    family = fields.word("model_type")
    if family not in _FAMILIES:
        known = ", ".join(model_types())
        advice = "; give its text_config if that is one of them" if fields.has("text_config") else ""
        message = f"model_type = {family[:60]!r} is not supported: known types are {known}{advice}"
        raise UnsupportedError(message)
    _check_optional(fields)
    model = _FAMILIES[family](fields)
    return replace(model, name=name, title=f"{name} ({family})", source="config.json")


def _check_optional(fields: ConfigFields) -> None:
    """Check the type of fields that a family may read or ignore: a wrong one means that the file is not what it seems.

    Windows and layer types that a family does read are checked further where it reads them.
    """
    for key in ("rope_scaling", "rope_parameters", "quantization_config"):
        fields.mapping(key)
    for key in ("layer_types", "architectures"):
        fields.entries(key)
    for key in ("torch_dtype", "dtype"):
        fields.word(key)
    for key in ("sliding_window", "max_window_layers"):
        fields.size(key, default=0, least=0)
    for key in ("use_sliding_window", "use_cache"):
        fields.flag(key, default=False)
    fields.fraction("attention_dropout", 0.0)


def _llama(fields: ConfigFields) -> ModelSpec:
    bias = fields.flag("attention_bias", default=False)
    attention = _attention(fields, kv_required=False, qkv_bias=bias, output_bias=bias)
    mlp = Mlp(fields.size("intermediate_size"), bias=fields.flag("mlp_bias", default=False))
    return _model(fields, [attention], [mlp])


def _seed_oss(fields: ConfigFields) -> ModelSpec:
    qkv_bias = fields.flag("attention_bias", default=True)
    output_bias = fields.flag("attention_out_bias", default=False)
    attention = _attention(fields, head_dim_required=True, qkv_bias=qkv_bias, output_bias=output_bias)
    mlp = Mlp(fields.size("intermediate_size"), bias=fields.flag("mlp_bias", default=False))
    return _model(fields, [attention], [mlp])


def _mistral(fields: ConfigFields) -> ModelSpec:
    default = 0 if fields.has("sliding_window", null=True) else _MISTRAL_WINDOW
    window = fields.size("sliding_window", default=default, least=0)
    attention = _windows(fields, _attention(fields), lambda _: window)
    return _model(fields, attention, [Mlp(fields.size("intermediate_size"))])


def _mixtral(fields: ConfigFields) -> ModelSpec:
    window = fields.size("sliding_window", default=0, least=0)
    experts = _experts(fields, "num_local_experts", width="intermediate_size")
    return _model(fields, _windows(fields, _attention(fields), lambda _: window), [experts])


def _qwen2(fields: ConfigFields) -> ModelSpec:
    attention = _qwen_windows(fields, _attention(fields, qkv_bias=True))
    return _model(fields, attention, [Mlp(fields.size("intermediate_size"))])


def _qwen2_moe(fields: ConfigFields) -> ModelSpec:
    shared = fields.size("shared_expert_intermediate_size", least=0)
    experts = replace(_experts(fields, "num_experts"), shared_ffn_size=shared, shared_gate=shared > 0)
    return _model(fields, _qwen_windows(fields, _attention(fields, qkv_bias=True)), _qwen_pattern(fields, experts))


def _qwen3(fields: ConfigFields) -> ModelSpec:
    attention = _qwen_windows(fields, _qwen3_attention(fields, head_dim_required=True))
    return _model(fields, attention, [Mlp(fields.size("intermediate_size"))])


def _qwen3_moe(fields: ConfigFields) -> ModelSpec:
    attention = _qwen_windows(fields, _qwen3_attention(fields, head_dim_required=False))
    return _model(fields, attention, _qwen_pattern(fields, _experts(fields, "num_experts")))


def _gpt_oss(fields: ConfigFields) -> ModelSpec:
    bias = fields.flag("attention_bias", default=True)
    attention = _attention(fields, head_dim_required=True, qkv_bias=bias, output_bias=bias)
    window = fields.size("sliding_window", least=1)
    layers = _windows(fields, replace(attention, sinks=True), lambda index: 0 if index % 2 else window)
    experts = _experts(fields, "num_local_experts", width="intermediate_size")
    return _model(fields, layers, [replace(experts, bias=True, router_bias=True)])


def _deepseek(fields: ConfigFields) -> ModelSpec:
    latent = LatentAttention(
        query_rank=fields.size("q_lora_rank", default=0, least=0),
        latent_size=fields.size("kv_lora_rank"),
        rope_size=fields.size("qk_rope_head_dim"),
        nope_head_size=fields.size("qk_nope_head_dim"),
        value_head_size=fields.size("v_head_dim"),
    )
    heads = fields.count("num_attention_heads")
    bias = fields.flag("attention_bias", default=False)
    head_size = latent.nope_head_size + latent.rope_size
    attention = Attention(heads, heads, head_size, qkv_bias=bias, output_bias=bias, latent=latent)
    experts = _deepseek_experts(fields)
    dense = Mlp(fields.size("intermediate_size"))
    first, step = fields.size("first_k_dense_replace", default=0, least=0), fields.count("moe_layer_freq", default=1)
    layers = range(fields.count("num_hidden_layers"))
    pattern = [experts if index >= first and index % step == 0 else dense for index in layers]
    return _model(fields, [attention], pattern)


def _deepseek_experts(fields: ConfigFields) -> Moe:
    experts = _experts(fields, "n_routed_experts")
    groups = fields.count("n_group", default=1)
    chosen = fields.count("topk_group", default=1)
    if experts.num_experts % groups or chosen > groups:
        raise invalid("n_group", groups, f"a divisor of {experts.num_experts} experts, not below topk_group")
    default = "greedy" if fields.word("model_type") == "deepseek_v2" else "noaux_tc"
    method = fields.word("topk_method") or default
    return replace(
        experts,
        shared_ffn_size=fields.count("n_shared_experts", default=0, least=0) * experts.ffn_size,
        router_bias=method == "noaux_tc",
        num_expert_groups=groups,
        groups_per_token=chosen,
    )


def _gpt2(fields: ConfigFields) -> ModelSpec:
    hidden = fields.size("n_embd", "hidden_size")
    heads = fields.count("n_head", "num_attention_heads")
    positions = fields.size("n_positions", "n_ctx")
    attention = _plain_attention(hidden, heads, "n_head", qkv_bias=True)
    mlp = Mlp(fields.size("n_inner", default=4 * hidden), gated=False, bias=True)
    num_layers = fields.count("n_layer", "num_hidden_layers")
    dropout = fields.fraction("resid_pdrop", _GPT2_DROPOUT) > 0.0
    return _gpt(fields, hidden, num_layers, positions, [attention] * num_layers, mlp, dropout)


def _gpt_neo(fields: ConfigFields) -> ModelSpec:
    hidden = fields.size("hidden_size")
    num_layers = fields.count("num_layers", "num_hidden_layers")
    heads = fields.count("num_heads", "num_attention_heads")
    attention = _plain_attention(hidden, heads, "num_heads", qkv_bias=False)
    window = fields.size("window_size", default=_GPT_NEO_WINDOW)
    pattern = [replace(attention, window=window if local else 0) for local in _gpt_neo_local(fields, num_layers)]
    mlp = Mlp(fields.size("intermediate_size", default=4 * hidden), gated=False, bias=True)
    positions = fields.size("max_position_embeddings")
    return _gpt(fields, hidden, num_layers, positions, pattern, mlp, fields.fraction("resid_dropout", 0.0) > 0.0)


def _gpt_neo_local(fields: ConfigFields, num_layers: int) -> list[bool]:
    allowed = f'[[["global" or "local", ...], times], ...] for {num_layers} layers'
    kinds: list[str] = []
    for run in fields.entries("attention_types"):
        if not (isinstance(run, list) and len(run) == 2 and isinstance(run[0], list) and isinstance(run[1], int)):
            raise invalid("attention_types", str(run), allowed)
        if not 0 < run[1] * len(run[0]) <= num_layers - len(kinds) or set(map(str, run[0])) - {"global", "local"}:
            raise invalid("attention_types", str(run), allowed)
        kinds += [str(kind) for kind in run[0]] * run[1]
    if len(kinds) != num_layers:
        raise invalid("attention_types", f"{len(kinds)} layers", allowed)
    return [kind == "local" for kind in kinds]


def _gpt_neox(fields: ConfigFields) -> ModelSpec:
    hidden = fields.size("hidden_size")
    bias = fields.flag("attention_bias", default=True)
    plain = _plain_attention(hidden, fields.count("num_attention_heads"), "num_attention_heads", qkv_bias=bias)
    attention = replace(plain, output_bias=bias, rotary=True)
    mlp = Mlp(fields.size("intermediate_size"), gated=False, bias=True)
    dropout = fields.fraction("hidden_dropout", 0.0) > 0.0
    return replace(_model(fields, [attention], [mlp]), layer_norm=True, dropout=dropout)


def _plain_attention(hidden: int, heads: int, field: str, qkv_bias: bool) -> Attention:
    if hidden % heads:
        raise invalid(field, heads, f"a divisor of the hidden size {hidden}")
    return Attention(heads, heads, hidden // heads, qkv_bias=qkv_bias, output_bias=True, rotary=False)


def _gpt(
    fields: ConfigFields,
    hidden: int,
    num_layers: int,
    positions: int,
    attention: Sequence[Attention],
    mlp: Mlp,
    dropout: bool,
) -> ModelSpec:
    kinds, sequence = _layers(attention, [mlp] * num_layers)
    return ModelSpec(
        name="",
        hidden_size=hidden,
        vocab_size=fields.size("vocab_size"),
        layer_kinds=kinds,
        layer_sequence=sequence,
        tied_embeddings=fields.flag("tie_word_embeddings", default=True),
        learned_positions=positions,
        layer_norm=True,
        dropout=dropout,
        max_sequence_length=positions,
    )


def _model(
    fields: ConfigFields, attention: Sequence[Attention], feed_forward: Sequence[Mlp] | Sequence[Moe | Mlp]
) -> ModelSpec:
    num_layers = fields.count("num_hidden_layers")
    mixers = list(attention) * (num_layers if len(attention) == 1 else 1)
    blocks = list(feed_forward) * (num_layers if len(feed_forward) == 1 else 1)
    kinds, sequence = _layers(mixers, blocks)
    return ModelSpec(
        name="",
        hidden_size=fields.size("hidden_size"),
        vocab_size=fields.size("vocab_size"),
        layer_kinds=kinds,
        layer_sequence=sequence,
        tied_embeddings=fields.flag("tie_word_embeddings", default=False),
        max_sequence_length=fields.size("max_position_embeddings", default=MAX_SIZE),
    )


def _layers(
    attention: Sequence[Attention], feed_forward: Sequence[Mlp | Moe]
) -> tuple[tuple[Layer, ...], tuple[int, ...]]:
    pairs = list(zip(attention, feed_forward, strict=True))
    distinct = list(dict.fromkeys(pairs))
    kinds = tuple(Layer(_kind_name(*pair), *pair) for pair in distinct)
    places = {pair: place for place, pair in enumerate(distinct)}
    return kinds, tuple(places[pair] for pair in pairs)


def _kind_name(attention: Attention, feed_forward: Mlp | Moe) -> str:
    reach = "windowed" if attention.window else "full"
    return f"{reach} {'sparse' if isinstance(feed_forward, Moe) else 'dense'}"


def _attention(
    fields: ConfigFields,
    kv_required: bool = True,
    head_dim_required: bool = False,
    qkv_bias: bool = False,
    output_bias: bool = False,
) -> Attention:
    heads = fields.count("num_attention_heads")
    kv_heads = fields.count("num_key_value_heads", default=None if kv_required else heads)
    if heads % kv_heads:
        raise invalid("num_key_value_heads", kv_heads, f"a divisor of num_attention_heads = {heads}")
    if fields.has("head_dim") or head_dim_required:
        head_size = fields.size("head_dim")
    else:
        hidden = fields.size("hidden_size")
        if hidden % heads:
            raise invalid(
                "num_attention_heads", heads, f"a divisor of hidden_size = {hidden} where head_dim is left out"
            )
        head_size = hidden // heads
    return Attention(heads, kv_heads, head_size, qkv_bias=qkv_bias, output_bias=output_bias)


def _qwen3_attention(fields: ConfigFields, head_dim_required: bool) -> Attention:
    bias = fields.flag("attention_bias", default=False)
    attention = _attention(fields, head_dim_required=head_dim_required, qkv_bias=bias, output_bias=bias)
    return replace(attention, qk_norm=True)


def _windows(fields: ConfigFields, attention: Attention, rule: Callable[[int], int]) -> list[Attention]:
    num_layers = fields.count("num_hidden_layers")
    types = fields.words("layer_types", _LAYER_TYPES, num_layers)
    windows = [rule(index) for index in range(num_layers)]
    if types:
        size = fields.size("sliding_window") if "sliding_attention" in types else 0
        windows = [size if kind == "sliding_attention" else 0 for kind in types]
    return [replace(attention, window=window) for window in windows]


def _qwen_windows(fields: ConfigFields, attention: Attention) -> list[Attention]:
    if not fields.flag("use_sliding_window", default=False):
        return _windows(fields, attention, lambda _: 0)
    window = fields.size("sliding_window")
    first = fields.size("max_window_layers", least=0)
    return _windows(fields, attention, lambda index: window if index >= first else 0)


def _experts(fields: ConfigFields, *count: str, width: str = "moe_intermediate_size") -> Moe:
    num_experts = fields.count(*count)
    chosen = fields.count("num_experts_per_tok", "experts_per_token")
    if chosen > num_experts:
        raise invalid("num_experts_per_tok", chosen, f"at most the {num_experts} experts")
    return Moe(num_experts, chosen, fields.size(width))


def _qwen_pattern(fields: ConfigFields, experts: Moe) -> list[Mlp | Moe]:
    step = fields.count("decoder_sparse_step", default=1)
    plain = fields.entries("mlp_only_layers")
    layers = range(fields.count("num_hidden_layers"))
    sparse = [index not in plain and (index + 1) % step == 0 for index in layers]
    dense = experts if all(sparse) else Mlp(fields.size("intermediate_size"))
    return [experts if routed else dense for routed in sparse]


_FAMILIES: Final[dict[str, Callable[[ConfigFields], ModelSpec]]] = {
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "glm4_moe_lite": _deepseek,
    "gpt2": _gpt2,
    "gpt_neo": _gpt_neo,
    "gpt_neox": _gpt_neox,
    "gpt_oss": _gpt_oss,
    "kimi_k2": _deepseek,
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "seed_oss": _seed_oss,
}
