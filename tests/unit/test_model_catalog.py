"""The catalog: names that must exist, published parameter counts, and what a broken file is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trn2model.errors import DataError, UnknownNameError
from trn2model.model.flop import model_report
from trn2model.model.parameters import model_parameters
from trn2model.specs.model import Attention, Layer, Mlp, ModelSpec, Moe, load_model, model_names, parse_model
from trn2model.specs.provenance import sources

# fmt: off
PROMISED = (
    "llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b",
    "llama-3.2-1b", "mistral-7b", "mixtral-8x7b", "mixtral-8x22b", "qwen3-4b", "qwen3-32b", "qwen3-30b-a3b",
    "qwen3-235b-a22b", "deepseek-v3", "gpt-oss-20b", "gpt-oss-120b", "gpt3-23b", "gpt3-46b", "gpt3-175b",
    "megatron-22b", "megatron-530b", "megatron-1t", "moe-1t",
)
# fmt: on

#: Parameters in the safetensors files of each model's public page.
PUBLISHED = {
    "codellama-13b": 13_016_028_160,
    "deepseek-v3": 671_026_419_200,
    "gpt-oss-120b": 116_829_156_672,
    "gpt-oss-20b": 20_914_757_184,
    "llama-2-13b": 13_015_864_320,
    "llama-3.3-70b": 70_553_706_496,
    "ministral-8b": 8_019_808_256,
    "mistral-7b": 7_241_732_096,
    "mistral-7b-v0.3": 7_248_023_552,
    "mistral-small-24b": 23_572_403_200,
    "mixtral-8x22b": 140_630_071_296,
    "qwen2-1.5b": 1_543_714_304,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-235b-a22b": 235_093_634_560,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-32b": 32_762_123_264,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-coder-480b-a35b": 480_154_875_392,
    "seed-oss-36b": 36_151_104_512,
}

#: Rounded figures that the makers print: total and active, in billions, and half a unit of the last digit.
ANNOUNCED = {
    "gpt3-175b": (175, None, 0.5),
    "megatron-22b": (22, None, 0.5),
    "megatron-530b": (530, None, 0.5),
    "megatron-1t": (1008, None, 0.5),
    "gpt3-6.7b": (6.7, None, 0.05),
    "gpt3-23b": (23, None, 0.5),
    "gpt3-46b": (46, None, 0.5),
    "mimo-v2-flash": (309, 15, 0.5),
    "mixtral-8x22b": (141, 39, 0.5),
    "ministral-3-14b": (13.5, None, 0.05),
    "ministral-3-3b": (3.4, None, 0.05),
    "moe-1t": (1026, 33, 0.5),
    "qwen3-235b-a22b": (235, 22, 0.5),
    "qwen3-coder-480b-a35b": (480, 35, 0.5),
    "solar-open-100b": (102.6, 12, 0.1),
}


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names_are_in_the_catalog(name: str) -> None:
    assert name in model_names()


@pytest.mark.parametrize("name", model_names())
def test_every_model_makes_sense(name: str) -> None:
    model = load_model(name)
    assert model is load_model(name)
    assert hash(model) == hash(load_model(name))
    assert model.name == name
    assert model.title
    assert model.source in sources()
    assert sum(model.layer_counts) == model.num_layers
    assert min(model.layer_counts) > 0
    for layer in model.layer_kinds:
        attention, block = layer.attention, layer.feed_forward
        assert attention.num_heads % attention.num_kv_heads == 0
        assert attention.window <= model.max_sequence_length
        if isinstance(block, Moe):
            assert block.experts_per_token < block.num_experts
            assert block.num_experts % block.num_expert_groups == 0
        if attention.latent is not None:
            assert attention.head_size == attention.latent.nope_head_size + attention.latent.rope_size


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED.items())
def test_published_parameter_counts(name: str, parameters: int) -> None:
    assert model_parameters(load_model(name)).total == parameters


@pytest.mark.parametrize(("name", "announced"), ANNOUNCED.items())
def test_announced_parameter_counts(name: str, announced: tuple[float, float | None, float]) -> None:
    total, active, tolerance = announced
    counted = model_parameters(load_model(name))
    assert counted.total / 1e9 == pytest.approx(total, abs=tolerance)
    if active is not None:
        assert counted.active / 1e9 == pytest.approx(active, abs=0.5)


@pytest.mark.parametrize(
    ("name", "with_vision"), [("llama-4-scout", 108_641_793_536), ("llama-4-maverick", 401_583_781_376)]
)
def test_llama_4_leaves_out_the_same_vision_tower(name: str, with_vision: int) -> None:
    assert with_vision - model_parameters(load_model(name)).total == 871_932_416


@pytest.mark.parametrize(("name", "active"), [("deepseek-v3", 36.6), ("gpt-oss-120b", 5.13), ("gpt-oss-20b", 3.61)])
def test_active_parameters_without_the_embedding(name: str, active: float) -> None:
    counted = model_parameters(load_model(name))
    assert (counted.active - counted.embedding) / 1e9 == pytest.approx(active, abs=0.05)


#: hidden, layers, heads, sequence length, and the parameters that the published table of MPT runs prints.
MPT = [
    (8192, 80, 64, 2048, 64_862_437_376),
    (7168, 48, 56, 2048, 29_975_214_080),
    (7168, 48, 56, 8192, 30_019_254_272),
    (5120, 40, 40, 512, 12_846_090_240),
    (4096, 32, 32, 65536, 6_918_905_856),
    (4096, 32, 32, 2048, 6_658_859_008),
    (2560, 32, 20, 32768, 2_730_480_640),
    (2048, 24, 16, 4096, 1_320_144_896),
    (1536, 24, 12, 16384, 782_490_624),
    (1024, 24, 16, 1024, 354_936_832),
    (768, 12, 12, 2048, 125_311_488),
]


@pytest.mark.parametrize(("hidden", "layers", "heads", "positions", "parameters"), MPT)
def test_mpt_counts_with_every_bias(hidden: int, layers: int, heads: int, positions: int, parameters: int) -> None:
    attention = Attention(heads, heads, hidden // heads, qkv_bias=True, output_bias=True, rotary=False)
    layer = Layer("block", attention, Mlp(4 * hidden, gated=False, bias=True))
    plain = ModelSpec("mpt", hidden, 50368, (layer,), (0,) * layers)
    model = replace(plain, tied_embeddings=True, learned_positions=positions, layer_norm=True)
    assert model_parameters(model).total == parameters


def test_windows_and_leading_dense_layers_stand_where_they_belong() -> None:
    oss = load_model("gpt-oss-120b")
    assert [oss.layer_kinds[k].attention.window for k in oss.layer_sequence[:4]] == [128, 0, 128, 0]
    deepseek = load_model("deepseek-v3")
    assert [type(deepseek.layer_kinds[k].feed_forward) for k in deepseek.layer_sequence[:4]] == [Mlp, Mlp, Mlp, Moe]
    mimo = load_model("mimo-v2-flash")
    full = [i for i, k in enumerate(mimo.layer_sequence) if not mimo.layer_kinds[k].attention.window]
    assert full == [0, 5, 11, 17, 23, 29, 35, 41, 47]


def test_explicit_head_size_wins() -> None:
    attention = load_model("qwen3-235b-a22b").layer_kinds[0].attention
    assert (attention.num_heads, attention.head_size) == (64, 128)


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"model = 'llama-9'.*llama-3\.1-70b.*config\.json"):
        load_model("llama-9")


GOOD: dict[str, Any] = {
    "title": "t",
    "source": "own-assumption",
    "hidden_size": 64,
    "vocab_size": 100,
    "attention": {"num_heads": 4, "num_kv_heads": 2, "head_size": 16},
    "mlp": {"ffn_size": 128},
    "sequence": [{"kinds": ["block"], "times": 2}],
}


def test_a_small_file_is_read() -> None:
    model = parse_model("small", GOOD)
    assert model.num_layers == 2
    assert model.layer_kinds[0] == Layer("block", Attention(4, 2, 16), Mlp(128))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden": 64}, "hidden"),
        ({"hidden_size": "64"}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"attention": {"num_heads": 4}}, "head_size"),
        ({"attention": {"num_heads": 4, "num_kv_heads": 2, "head_size": -1}}, "head_size"),
        ({"mlp": {"ffn_size": 128, "gated": 1}}, "gated"),
        ({"mlp": {}}, "ffn_size"),
        ({"moe": {"num_experts": 4, "experts_per_token": 1, "ffn_size": 8}}, "exactly one"),
        ({"latent": {"latent_size": 4}}, "query_rank"),
        ({"layers": {"block": {"mpl": {}}}}, "mpl"),
        ({"sequence": [{"kinds": ["other"], "times": 2}]}, "sequence"),
        ({"sequence": []}, "sequence"),
        ({"layers": {"block": {}, "spare": {}}}, "sequence"),
        ({"source": "nowhere"}, "nowhere"),
        ({"status": "guessed"}, "guessed"),
    ],
)
def test_a_broken_file_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        parse_model("broken", {**GOOD, **change})


def test_a_file_without_a_sequence_is_named() -> None:
    with pytest.raises(DataError, match="sequence"):
        parse_model("broken", {key: value for key, value in GOOD.items() if key != "sequence"})


@pytest.mark.parametrize("name", model_names())
def test_report_is_plain_and_consistent(name: str) -> None:
    report = model_report(load_model(name), context=4096)
    assert report["parameters"] == model_parameters(load_model(name)).total
    assert report["weight_bytes"] == 2 * report["parameters"]
    assert report["active_parameters"] <= report["parameters"]
    assert report["kv_bytes"] <= 4096 * report["kv_bytes_per_token"]
    without = model_report(load_model(name))
    assert report["forward_flop_per_token"] - without["forward_flop_per_token"] == report["attention_flop_per_token"]
    for layer in report["layers"]:
        assert sum(layer["parameters_by_part"].values()) == layer["parameters"]
    outside = report["embedding_parameters"] + report["lm_head_parameters"]
    layers = sum(layer["count"] * layer["parameters"] for layer in report["layers"])
    assert 0 < report["parameters"] - outside - layers <= 2 * report["hidden_size"]


def test_report_refuses_a_negative_context() -> None:
    with pytest.raises(ValueError, match="context = -1"):
        model_report(load_model("llama-2-7b"), context=-1)
