"""Links carry a scenario and survive anything that people paste."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, parse_qsl

import numpy as np
import pytest

from trn2model.errors import InvalidInputError
from trn2model.specs import catalog
from trn2model.specs.link import decode, encode, query_string
from trn2model.specs.scenario import FIELDS, Scenario

FULL: dict[str, tuple[Any, str]] = {
    "model": ("mixtral-8x7b", "m=mixtral-8x7b"),
    "system": ("trn2.48xlarge", "s=trn2.48xlarge"),
    "count": (4, "n=4"),
    "lnc": (1, "lnc=1"),
    "price_option": ("spot", "po=spot"),
    "tp": (32, "tp=32"),
    "pp": (7, "pp=7"),
    "cp": (2, "cp=2"),
    "ep": (8, "ep=8"),
    "dp": (3, "dp=3"),
    "sequence_parallel": (False, "sp=false"),
    "zero": (0, "z=0"),
    "fsdp_prefetch": (2, "fp=2"),
    "interleave": (2, "v=2"),
    "pipeline_schedule": ("zb-h1", "ps=zb-h1"),
    "context_parallel_method": ("all-gather", "cm=all-gather"),
    "placement": ("dp,tp,cp,ep,pp", "pl=dp,tp,cp,ep,pp"),
    "precision": ("fp8", "p=fp8"),
    "weight_dtype": ("fp8", "wd=fp8"),
    "kv_dtype": ("bf16", "kd=bf16"),
    "sparsity": ("4:16", "sx=4:16"),
    "transposable_mask": (True, "tm=true"),
    "microbatch_size": (2, "mb=2"),
    "global_batch_size": (2048, "gb=2048"),
    "sequence_length": (8192, "sl=8192"),
    "recompute": ("full", "rc=full"),
    "optimizer": ("adamw-bf16-sr", "opt=adamw-bf16-sr"),
    "attention_kernel": ("naive", "ak=naive"),
    "lora_rank": (16, "lr=16"),
    "saved_operators": ("qkv,attention", "so=qkv,attention"),
    "training_tokens": (15e12, "tt=1.5e13"),
    "instance_mtbf": (1000.0, "mt=1000"),
    "checkpoint_bandwidth": (2.5, "ck=2.5"),
    "restart_time": (300.0, "rs=300"),
    "zero_group": ("domain", "zg=domain"),
    "overlap": (False, "ol=false"),
    "input_tokens": (20000, "it=20000"),
    "output_tokens": (50, "ot=50"),
    "concurrency": (64, "c=64"),
    "compiled_batch": (128, "cb=128"),
    "context_bucket": (32768, "bk=32768"),
    "prefill_chunk": (512, "pc=512"),
    "prefix_hit": (0.25, "ph=0.25"),
    "prefill_replicas": (1, "pr=1"),
    "draft_model": ("llama-3.2-1b", "dm=llama-3.2-1b"),
    "draft_tokens": (4, "dt=4"),
    "acceptance": (0.7, "da=0.7"),
    "profile": ("ideal", "pf=ideal"),
    "peak_basis": ("launch", "pk=launch"),
    "moe_imbalance": (1.5, "mi=1.5"),
}


def test_the_default_has_an_empty_link() -> None:
    assert encode(Scenario()) == {}
    assert query_string(Scenario()) == ""
    assert decode({}) == (Scenario(), ())


def test_every_field_travels_in_readable_text() -> None:
    assert set(FULL) == {row.name for row in FIELDS}
    scenario = Scenario(**{name: value for name, (value, _) in FULL.items()})
    text = query_string(scenario)
    assert text.split("&") == [FULL[row.name][1] for row in FIELDS]
    assert decode(dict(parse_qsl(text))) == (scenario, ())


@pytest.mark.parametrize("name", FULL)
def test_each_field_travels_alone(name: str) -> None:
    value, text = FULL[name]
    scenario = Scenario(**{name: value})
    assert query_string(scenario) == text
    assert decode(dict([text.split("=")])) == (scenario, ())


def test_a_written_out_default_is_the_default() -> None:
    written = {row.key: row.format(row.default) for row in FIELDS}
    assert decode(written) == (Scenario(), ())


def test_the_order_of_axes_and_the_pattern_stay_readable() -> None:
    assert query_string(Scenario(sparsity="4:16", placement="dp,tp,cp,ep,pp")) == "pl=dp,tp,cp,ep,pp&sx=4:16"


@pytest.mark.parametrize("value", [1 / 3, 0.1 + 0.2, 1e-9, 5e-324, 0.5, 1e-5 / 3, 1e-3 / 3, 1e-4 * (1 + 2**-52)])
def test_fractions_travel_exactly(value: float) -> None:
    assert decode(encode(Scenario(prefix_hit=value)))[0].prefix_hit == value


BAD = [
    ("tp", "0"),
    ("tp", "-1"),
    ("tp", "99999999999999999999999999"),
    ("tp", "1e3"),
    ("tp", "NaN"),
    ("tp", ""),
    ("tp", "8,16"),
    ("tp", "٣"),
    ("tp", "<script>alert(1)</script>"),
    ("lnc", "3"),
    ("z", "4"),
    ("sp", "maybe"),
    ("p", "fp7"),
    ("m", "no-such-model"),
    ("m", "../../../etc/passwd"),
    ("s", "trn9"),
    ("ph", "nan"),
    ("ph", "1e999"),
    ("da", "-inf"),
    ("mi", "0.5"),
    ("pl", "tp,tp,tp,tp,tp"),
    ("sl", "9" * 10_000),
    ("gb", "\ud800"),
    ("gb", "\x00"),
]


@pytest.mark.parametrize(("key", "text"), BAD, ids=lambda text: ascii(text)[:30])
def test_a_bad_value_gives_its_default_and_a_notice(key: str, text: str) -> None:
    scenario, notices = decode({key: text, "c": "3"})
    assert scenario == Scenario(concurrency=3)
    (notice,) = notices
    row = next(row for row in FIELDS if row.key == key)
    assert (notice.key, notice.name) == (key, row.name)
    assert notice.allowed == row.allowed()
    assert row.parse(notice.fallback) == row.default
    assert len(notice.value) <= 70
    notice.value.encode("utf-8")


def test_each_bad_value_has_its_own_notice() -> None:
    _, notices = decode({"tp": "x", "dp": "y", "tm": "true"})
    assert [notice.key for notice in notices] == ["tp", "dp"]


def test_unknown_keys_are_ignored() -> None:
    assert decode({"utm_source": "mail", "TP": "4", "": "x", "embed": "true"}) == (Scenario(), ())


def test_of_repeated_values_the_last_one_counts() -> None:
    assert decode(parse_qs("tp=4&tp=8"))[0].tp == 8
    scenario, notices = decode({"tp": []})
    assert scenario == Scenario()
    assert len(notices) == 1


def test_values_that_are_no_text_do_no_harm() -> None:
    strange: Any = {"tp": None, "dp": 8, "pp": [None], "lnc": {}, "c": b"8"}
    scenario, notices = decode(strange)
    assert scenario == Scenario(dp=8)
    assert {notice.key for notice in notices} == {"tp", "pp", "lnc", "c"}


def test_rules_across_fields_are_not_the_links_business() -> None:
    assert decode({"tp": "3"}) == (Scenario(tp=3), ())


def test_models_of_ones_own_and_arrays_have_no_link() -> None:
    with pytest.raises(InvalidInputError, match="a model of your own has no link"):
        encode(Scenario(model=catalog.model("llama-3.2-1b")))
    with pytest.raises(InvalidInputError, match=r"tp = .*8, 16"):
        query_string(Scenario(tp=np.array([8, 16])))
