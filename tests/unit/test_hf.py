"""Hugging Face config.json: the public files give the catalog's models, and anything else one clear message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trn2model.errors import InvalidInputError, Trn2ModelError, UnsupportedError
from trn2model.model.parameters import model_parameters
from trn2model.specs.hf import MAX_CONFIG_CHARACTERS, model_from_hf_config, model_types
from trn2model.specs.model import ModelSpec, Moe, load_model

Config = dict[str, Any]


def config(family: str, hidden: int, layers: int, heads: int, vocab: int, **more: Any) -> Config:
    """Fields that most families share."""
    return {
        "model_type": family,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": vocab,
        "torch_dtype": "bfloat16",
        "rope_theta": 500000.0,
        **more,
    }


LLAMA_2_70B = config(
    "llama", 8192, 80, 64, 32000, num_key_value_heads=8, intermediate_size=28672, max_position_embeddings=4096
)
LLAMA_32_1B = config(
    "llama", 2048, 16, 32, 128256, num_key_value_heads=8, intermediate_size=8192, head_dim=64,
    tie_word_embeddings=True, max_position_embeddings=131072, rope_scaling={"factor": 32.0},
)  # fmt: skip
MHA = config("llama", 8192, 80, 64, 32000, intermediate_size=28672)
MISTRAL = config(
    "mistral", 4096, 32, 32, 32000, num_key_value_heads=8, intermediate_size=14336, sliding_window=4096,
    max_position_embeddings=32768,
)  # fmt: skip
MISTRAL_03 = {**MISTRAL, "vocab_size": 32768, "sliding_window": None}
MIXTRAL = config(
    "mixtral", 4096, 32, 32, 32000, num_key_value_heads=8, intermediate_size=14336, num_local_experts=8,
    num_experts_per_tok=2, sliding_window=None, max_position_embeddings=32768,
)  # fmt: skip
QWEN25 = config(
    "qwen2", 3584, 28, 28, 152064, num_key_value_heads=4, intermediate_size=18944, use_sliding_window=False,
    sliding_window=131072, max_window_layers=28, max_position_embeddings=131072,
)  # fmt: skip
QWEN3 = config(
    "qwen3", 2560, 36, 32, 151936, num_key_value_heads=8, head_dim=128, intermediate_size=9728,
    tie_word_embeddings=True, max_position_embeddings=40960, use_sliding_window=False, sliding_window=None,
)  # fmt: skip
QWEN3_MOE = config(
    "qwen3_moe", 4096, 94, 64, 151936, num_key_value_heads=4, head_dim=128, intermediate_size=12288,
    moe_intermediate_size=1536, num_experts=128, num_experts_per_tok=8, decoder_sparse_step=1, mlp_only_layers=[],
    max_position_embeddings=40960,
)  # fmt: skip
QWEN2_MOE = config(
    "qwen2_moe", 2048, 24, 16, 151936, num_key_value_heads=16, intermediate_size=5632, moe_intermediate_size=1408,
    num_experts=60, num_experts_per_tok=4, shared_expert_intermediate_size=5632, use_sliding_window=False,
)  # fmt: skip
DEEPSEEK = config(
    "deepseek_v3", 7168, 61, 128, 129280, num_key_value_heads=128, intermediate_size=18432, kv_lora_rank=512,
    q_lora_rank=1536, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=256,
    n_shared_experts=1, num_experts_per_tok=8, moe_intermediate_size=2048, first_k_dense_replace=3, moe_layer_freq=1,
    n_group=8, topk_group=4, topk_method="noaux_tc", num_nextn_predict_layers=1, max_position_embeddings=163840,
)  # fmt: skip
DEEPSEEK_V2_LITE = {
    **DEEPSEEK, "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
    "vocab_size": 102400, "intermediate_size": 10944, "q_lora_rank": None, "n_routed_experts": 64,
    "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
    "n_group": 1, "topk_group": 1, "topk_method": "greedy",
}  # fmt: skip
KIMI = {
    **DEEPSEEK, "model_type": "kimi_k2", "num_attention_heads": 64, "vocab_size": 163840, "n_routed_experts": 384,
    "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "max_position_embeddings": 131072,
}  # fmt: skip
GPT_OSS = config(
    "gpt_oss", 2880, 24, 64, 201088, num_key_value_heads=8, head_dim=64, intermediate_size=2880, attention_bias=True,
    num_local_experts=32, num_experts_per_tok=4, experts_per_token=4, sliding_window=128,
    layer_types=["sliding_attention", "full_attention"] * 12, max_position_embeddings=131072,
)  # fmt: skip
SEED_OSS = config(
    "seed_oss", 5120, 64, 80, 155136, num_key_value_heads=8, head_dim=128, intermediate_size=27648,
    attention_bias=True, attention_out_bias=False, mlp_bias=False, max_position_embeddings=524288,
)  # fmt: skip
GPT2 = {
    "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "n_ctx": 1024,
    "vocab_size": 50257, "resid_pdrop": 0.1,
}  # fmt: skip
GPT_NEO = {
    "model_type": "gpt_neo", "hidden_size": 2560, "num_layers": 32, "num_heads": 20, "vocab_size": 50257,
    "max_position_embeddings": 2048, "attention_types": [[["global", "local"], 16]], "window_size": 256,
    "intermediate_size": None, "resid_dropout": 0,
}  # fmt: skip
GPT_NEOX = config("gpt_neox", 6144, 44, 64, 50432, intermediate_size=24576, tie_word_embeddings=False)

EQUAL = [
    (LLAMA_2_70B, "llama-2-70b"),
    (LLAMA_32_1B, "llama-3.2-1b"),
    (MISTRAL, "mistral-7b"),
    (MISTRAL_03, "mistral-7b-v0.3"),
    (MIXTRAL, "mixtral-8x7b"),
    (QWEN25, "qwen2.5-7b"),
    (QWEN3, "qwen3-4b"),
    (QWEN3_MOE, "qwen3-235b-a22b"),
    (DEEPSEEK, "deepseek-v3"),
    (KIMI, "moe-1t"),
    (GPT_OSS, "gpt-oss-20b"),
    (SEED_OSS, "seed-oss-36b"),
]

#: Parameters of the public checkpoints: GPT-2 small, GPT-Neo 2.7B, GPT-NeoX 20B, Qwen1.5-MoE-A2.7B, DeepSeek-V2-Lite.
COUNTED = [
    (GPT2, 124_439_808),
    (GPT_NEO, 2_651_307_520),
    (GPT_NEOX, 20_554_567_680),
    (QWEN2_MOE, 14_315_784_192),
    (DEEPSEEK_V2_LITE, 15_706_484_224),
]

EVERY = [first for first, _ in EQUAL] + [first for first, _ in COUNTED]


def architecture(model: ModelSpec) -> tuple[object, ...]:
    """Everything that decides sizes and costs; not names and sources."""
    layers = [(k.attention, k.feed_forward, k.num_norms) for k in (model.layer_kinds[i] for i in model.layer_sequence)]
    sizes = (model.hidden_size, model.vocab_size, model.learned_positions, model.max_sequence_length)
    flags = (model.tied_embeddings, model.layer_norm, model.norm_bias, model.dropout, model.lm_head_bias)
    return (layers, sizes, flags)


@pytest.mark.parametrize(("content", "name"), EQUAL, ids=[name for _, name in EQUAL])
def test_public_configs_give_the_catalog_models(content: Config, name: str) -> None:
    model = model_from_hf_config(json.dumps(content), name)
    assert model.name == name
    assert architecture(model) == architecture(load_model(name))


@pytest.mark.parametrize(("content", "parameters"), COUNTED, ids=[c["model_type"] for c, _ in COUNTED])
def test_public_configs_give_published_counts(content: Config, parameters: int) -> None:
    assert model_parameters(model_from_hf_config(content)).total == parameters


def test_every_family_is_tried() -> None:
    assert {c["model_type"] for c in EVERY} | {"glm4_moe_lite"} == set(model_types())


def test_llama_without_kv_heads_has_as_many_as_heads() -> None:
    content = {**LLAMA_2_70B}
    del content["num_key_value_heads"]
    assert model_from_hf_config(content).layer_kinds[0].attention.num_kv_heads == 64


def test_mistral_takes_its_class_default_only_where_the_window_is_left_out() -> None:
    content = {**MISTRAL}
    del content["sliding_window"]
    assert model_from_hf_config(content).layer_kinds[0].attention.window == 4096
    assert model_from_hf_config(MISTRAL_03).layer_kinds[0].attention.window == 0


def test_qwen_windows_start_at_the_named_layer() -> None:
    model = model_from_hf_config({**QWEN25, "use_sliding_window": True, "max_window_layers": 20})
    windows = [model.layer_kinds[k].attention.window for k in model.layer_sequence]
    assert windows == [0] * 20 + [131072] * 8


def test_layer_types_win() -> None:
    types = ["full_attention", "sliding_attention", "sliding_attention"]
    model = model_from_hf_config({**QWEN3, "num_hidden_layers": 3, "layer_types": types, "sliding_window": 64})
    assert [model.layer_kinds[k].attention.window for k in model.layer_sequence] == [0, 64, 64]


def test_gpt_oss_alternates_without_layer_types() -> None:
    content = {**GPT_OSS}
    del content["layer_types"]
    assert architecture(model_from_hf_config(content)) == architecture(load_model("gpt-oss-20b"))


def test_qwen_sparse_step_and_dense_layers() -> None:
    change = {"num_hidden_layers": 6, "decoder_sparse_step": 2, "mlp_only_layers": [3]}
    model = model_from_hf_config({**QWEN3_MOE, **change})
    sparse = [isinstance(model.layer_kinds[k].feed_forward, Moe) for k in model.layer_sequence]
    assert sparse == [False, True, False, False, False, True]


def test_gpt_neo_local_layers() -> None:
    model = model_from_hf_config(GPT_NEO)
    assert [model.layer_kinds[k].attention.window for k in model.layer_sequence[:4]] == [0, 256, 0, 256]
    assert not model.dropout


def test_whole_numbers_written_as_floats_are_taken() -> None:
    assert model_from_hf_config({**LLAMA_2_70B, "hidden_size": 8192.0}).hidden_size == 8192


@pytest.mark.parametrize("family", ["bert", "", "llama4", "LLAMA", "x" * 5000])
def test_unknown_families_list_the_known_ones(family: str) -> None:
    with pytest.raises(UnsupportedError, match=r"deepseek_v3.*gpt2.*llama.*qwen3_moe") as raised:
        model_from_hf_config({**LLAMA_2_70B, "model_type": family})
    assert len(str(raised.value)) < 500


def test_a_multimodal_config_is_told_about_its_text_part() -> None:
    with pytest.raises(UnsupportedError, match="text_config"):
        model_from_hf_config({"model_type": "mistral3", "text_config": MISTRAL})


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", "null", '"llama"', "not json", "{'a': 1}", "[" * 100_000, " " * (MAX_CONFIG_CHARACTERS + 1)],
    ids=["empty", "open", "list", "number", "null", "text", "words", "quotes", "deep", "long"],
)
def test_anything_but_one_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"model_config = .*config\.json") as raised:
        model_from_hf_config(text)
    assert raised.value.field == "model_config"
    assert len(str(raised.value)) < 300
    assert "\n" not in str(raised.value)


WRONG: list[tuple[Config, str, Any]] = [
    (LLAMA_2_70B, "hidden_size", None),
    (LLAMA_2_70B, "hidden_size", "8192"),
    (LLAMA_2_70B, "hidden_size", True),
    (LLAMA_2_70B, "hidden_size", 0),
    (LLAMA_2_70B, "hidden_size", -8192),
    (LLAMA_2_70B, "hidden_size", 8192.5),
    (LLAMA_2_70B, "hidden_size", float("nan")),
    (LLAMA_2_70B, "hidden_size", float("inf")),
    (LLAMA_2_70B, "hidden_size", 10**400),
    (LLAMA_2_70B, "hidden_size", [8192]),
    (LLAMA_2_70B, "hidden_size", {"a": "b" * 10_000}),
    (LLAMA_2_70B, "num_hidden_layers", 10**9),
    (MHA, "num_attention_heads", 60),
    (LLAMA_2_70B, "num_key_value_heads", 7),
    (LLAMA_2_70B, "vocab_size", None),
    (LLAMA_2_70B, "intermediate_size", None),
    (LLAMA_2_70B, "tie_word_embeddings", "false"),
    (LLAMA_2_70B, "attention_bias", 1),
    (LLAMA_2_70B, "max_position_embeddings", -1),
    (LLAMA_2_70B, "model_type", 3),
    (MISTRAL, "sliding_window", -4096),
    (MISTRAL, "num_key_value_heads", None),
    (MIXTRAL, "num_experts_per_tok", 9),
    (MIXTRAL, "num_local_experts", None),
    (QWEN3, "head_dim", None),
    (QWEN3, "layer_types", ["full_attention"]),
    (QWEN3, "layer_types", ["linear_attention"] * 36),
    (QWEN3, "layer_types", [{}] * 36),
    (QWEN3, "layer_types", "full_attention"),
    (LLAMA_2_70B, "layer_types", "x"),
    (LLAMA_2_70B, "rope_scaling", 5),
    (LLAMA_2_70B, "quantization_config", [1]),
    (LLAMA_2_70B, "sliding_window", -1),
    (LLAMA_2_70B, "torch_dtype", 16),
    (GPT2, "architectures", "GPT2LMHeadModel"),
    (QWEN3_MOE, "mlp_only_layers", 3),
    (QWEN3_MOE, "decoder_sparse_step", 0),
    (QWEN2_MOE, "shared_expert_intermediate_size", None),
    (DEEPSEEK, "kv_lora_rank", None),
    (DEEPSEEK, "n_group", 7),
    (DEEPSEEK, "topk_method", 1),
    (DEEPSEEK, "first_k_dense_replace", -1),
    (GPT_OSS, "sliding_window", None),
    (GPT2, "n_head", 11),
    (GPT2, "n_positions", None),
    (GPT2, "resid_pdrop", 1.5),
    (GPT2, "resid_pdrop", "0.1"),
    (GPT_NEO, "attention_types", None),
    (GPT_NEO, "attention_types", [[["global", "local"], 15]]),
    (GPT_NEO, "attention_types", [[["global", "local"], 10**9]]),
    (GPT_NEO, "attention_types", [[["global"] * 1000, 1]]),
    (GPT_NEO, "attention_types", [[["global", "other"], 16]]),
    (GPT_NEO, "attention_types", [["global", 16]]),
]


@pytest.mark.parametrize(("content", "field", "value"), WRONG)
def test_a_wrong_field_is_named_in_one_line(content: Config, field: str, value: object) -> None:
    broken = {**content, field: value}
    if field == "n_positions":
        del broken["n_ctx"]
    with pytest.raises(InvalidInputError) as raised:
        model_from_hf_config(broken)
    text = str(raised.value)
    assert raised.value.field == field
    assert text.startswith(f"{field} = ")
    assert "allowed is" in text
    assert "config.json" in text
    assert "\n" not in text
    assert len(text) < 300


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10**6) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(EVERY), st.data())
def test_no_content_gets_past_the_checks(content: Config, data: st.DataObject) -> None:
    changed = data.draw(st.dictionaries(st.sampled_from(sorted(content)), json_values, min_size=1, max_size=4))
    said = ""
    try:
        model = model_from_hf_config({**content, **changed})
        parameters = model_parameters(model).total
    except Trn2ModelError as error:
        said, parameters = str(error), 1.0
    assert parameters > 0
    assert len(said) < 1000
    assert "\n" not in said
