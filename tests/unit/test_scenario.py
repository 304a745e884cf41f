"""The scenario table and the values it lets in."""

from __future__ import annotations

import copy
import enum
import json
import pickle
import re
from dataclasses import FrozenInstanceError, fields
from typing import Any, get_args

import numpy as np
import pytest

from trn2model.errors import InvalidInputError, InvalidPlanError, UnknownNameError
from trn2model.specs import catalog
from trn2model.specs.fields import Group, IntField, NumberField, ScenarioField
from trn2model.specs.scenario import FIELDS, KEYS, MAX_DEGREE, ROWS, Scenario

# name, URL key and default, as the public contract prints them
CONTRACT = {
    "model": ("m", "llama-3.1-70b"),
    "system": ("s", "trn2-ultraserver"),
    "count": ("n", 1),
    "lnc": ("lnc", 2),
    "tp": ("tp", "auto"),
    "pp": ("pp", 1),
    "cp": ("cp", 1),
    "ep": ("ep", 1),
    "dp": ("dp", "auto"),
    "sequence_parallel": ("sp", True),
    "zero": ("z", 1),
    "interleave": ("v", 1),
    "recompute": ("rc", "selective"),
    "microbatch_size": ("mb", 1),
    "global_batch_size": ("gb", 1024),
    "sequence_length": ("sl", 4096),
    "optimizer": ("opt", "adamw-fp32"),
    "precision": ("p", "bf16"),
    "weight_dtype": ("wd", "auto"),
    "kv_dtype": ("kd", "auto"),
    "sparsity": ("sx", "dense"),
    "peak_basis": ("pk", "neuron-docs"),
    "profile": ("pf", "auto"),
    "placement": ("pl", "tp,cp,ep,dp,pp"),
    "input_tokens": ("it", 2048),
    "output_tokens": ("ot", 512),
    "concurrency": ("c", 8),
    "compiled_batch": ("cb", "auto"),
    "draft_model": ("dm", None),
    "draft_tokens": ("dt", 0),
    "acceptance": ("da", None),
    "prefix_hit": ("ph", 0.0),
    "price_option": ("po", "auto"),
    "attention_kernel": ("ak", "flash"),
    "pipeline_schedule": ("ps", "1f1b"),
    "context_parallel_method": ("cm", "ring"),
    "moe_imbalance": ("mi", 1.0),
    "transposable_mask": ("tm", False),
    "prefill_chunk": ("pc", 0),
    "prefill_replicas": ("pr", 0),
    "context_bucket": ("bk", "auto"),
    "fsdp_prefetch": ("fp", 1),
    "lora_rank": ("lr", 0),
    "zero_group": ("zg", "all"),
    "saved_operators": ("so", None),
    "training_tokens": ("tt", 1e12),
    "instance_mtbf": ("mt", "auto"),
    "checkpoint_bandwidth": ("ck", "auto"),
    "restart_time": ("rs", "auto"),
    "overlap": ("ol", True),
}
WORDS = {
    "recompute": "none selective full",
    "optimizer": "adamw-fp32 adamw-bf16-sr",
    "precision": "bf16 fp16 fp8 fp32",
    "sparsity": "dense 4:16 4:12 4:8 2:8 2:4 1:4 1:2",
    "peak_basis": "neuron-docs launch",
    "price_option": "auto capacity-block on-demand spot reserved",
    "attention_kernel": "flash naive",
    "pipeline_schedule": "1f1b gpipe zb-h1",
    "context_parallel_method": "ring all-gather",
}
PLAN_FIELDS = (
    "tp cp ep dp pp microbatch_size global_batch_size sequence_length interleave zero "
    "input_tokens output_tokens concurrency compiled_batch context_bucket"
)
SENTENCE = re.compile(r"[A-Z].*\.")


def test_names_keys_and_defaults_are_those_of_the_contract() -> None:
    assert {row.name: (row.key, row.default) for row in FIELDS} == CONTRACT
    assert {f.name: getattr(Scenario(), f.name) for f in fields(Scenario)} == {n: d for n, (_, d) in CONTRACT.items()}


def test_keys_are_unique_and_flags_follow_names() -> None:
    assert len(KEYS) == len(ROWS) == len(FIELDS)
    assert {row.flag for row in FIELDS} == {"--" + name.replace("_", "-") for name in CONTRACT}


@pytest.mark.parametrize(("name", "words"), WORDS.items())
def test_words_are_those_of_the_contract(name: str, words: str) -> None:
    assert ROWS[name].options() == tuple(words.split())


def test_fields_that_take_arrays() -> None:
    assert {row.name for row in FIELDS if row.plan} == set(PLAN_FIELDS.split())


@pytest.mark.parametrize("row", FIELDS, ids=lambda row: row.name)
def test_every_row_can_label_and_explain_a_widget(row: ScenarioField) -> None:
    assert row.label
    assert row.group in get_args(Group)
    assert SENTENCE.fullmatch(row.help)
    assert row.check(row.default) == row.default
    assert row.parse(row.format(row.default)) == row.default
    if isinstance(row, NumberField):
        assert np.isfinite([row.minimum, row.maximum]).all()


def test_degrees_take_every_integer_up_to_1024() -> None:
    assert [Scenario(tp=n).tp for n in (1, 7, 35, 1024)] == [1, 7, 35, 1024]
    most = {name: row.maximum for name, row in ROWS.items() if isinstance(row, IntField)}
    assert most["tp"] == most["pp"] == most["cp"] == most["ep"] == MAX_DEGREE == 1024
    assert most["dp"] == 65536


REJECTED: list[tuple[str, object]] = [
    ("tp", 0),
    ("tp", -1),
    ("tp", 1025),
    ("tp", True),
    ("tp", 2.0),
    ("tp", float("nan")),
    ("tp", float("inf")),
    ("tp", "8"),
    ("tp", ""),
    ("tp", "Auto"),
    ("tp", b"8"),
    ("tp", {}),
    ("tp", 10**5000),
    ("pp", None),
    ("pp", "auto"),
    ("dp", 65537),
    ("count", 0),
    ("count", [1, 2]),
    ("lnc", 3),
    ("lnc", 0),
    ("zero", 4),
    ("zero", -1),
    ("interleave", 0),
    ("microbatch_size", 0),
    ("global_batch_size", 0),
    ("sequence_length", 0),
    ("sequence_length", 10_000_001),
    ("input_tokens", -5),
    ("output_tokens", -1),
    ("concurrency", 0),
    ("compiled_batch", 0),
    ("sequence_parallel", 1),
    ("sequence_parallel", "true"),
    ("sequence_parallel", None),
    ("recompute", "some"),
    ("recompute", None),
    ("precision", "fp7"),
    ("precision", "BF16"),
    ("weight_dtype", "fp3"),
    ("sparsity", "3:7"),
    ("peak_basis", "rumour"),
    ("profile", "../../secret"),
    ("placement", "tp"),
    ("placement", "tp,tp,ep,dp,pp"),
    ("placement", ["tp", "cp", "ep", "dp", "pp"]),
    ("price_option", "free"),
    ("prefix_hit", -0.1),
    ("prefix_hit", 1.1),
    ("prefix_hit", float("nan")),
    ("prefix_hit", "0.5"),
    ("prefix_hit", True),
    ("prefix_hit", 10**400),
    ("acceptance", 1.5),
    ("moe_imbalance", 0.99),
    ("moe_imbalance", float("inf")),
    ("draft_tokens", -1),
]


@pytest.mark.parametrize(("name", "value"), REJECTED, ids=lambda value: str(type(value).__name__))
def test_values_that_mean_nothing_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidPlanError) as refused:
        Scenario(**{name: value})  # type: ignore[arg-type]
    message = str(refused.value)
    assert refused.value.field == name
    assert message.startswith(f"{name} = ")
    assert ROWS[name].allowed() in message
    assert "\n" not in message
    assert len(message) < 600


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("model", "lama-3.1-70b", "llama-3.1-70b?"),
        ("model", "", "choose a listed model"),
        ("model", None, "choose a listed model"),
        ("system", "trn2.48xlrage", "trn2.48xlarge?"),
        ("system", 7, "choose a listed system"),
        ("draft_model", "llama-3.2-1", "llama-3.2-1b?"),
    ],
)
def test_unknown_names_say_what_is_known(name: str, value: Any, hint: str) -> None:
    with pytest.raises(UnknownNameError) as refused:
        Scenario(**{name: value})
    assert refused.value.remedy.endswith(hint)
    assert all(known in refused.value.allowed for known in ROWS[name].options())


ARRAYS: list[object] = [
    [8, 16],
    (8, 16),
    np.array([8, 16]),
    np.array([8, 16], np.int8),
    np.array([[8], [16]], np.uint64),
]


@pytest.mark.parametrize("value", ARRAYS, ids=str)
def test_plan_fields_take_integer_arrays(value: Any) -> None:
    held = Scenario(tp=value).tp
    assert isinstance(held, np.ndarray)
    assert held.dtype == np.int64
    assert held.ravel().tolist() == [8, 16]
    assert not held.flags.writeable


def test_the_array_that_was_given_stays_apart() -> None:
    given = np.array([8, 16])
    scenario = Scenario(tp=given)
    given[0] = 1
    assert np.array_equal(scenario.tp, [8, 16])


@pytest.mark.parametrize("value", [np.int64(8), np.array(8), np.uint8(8)], ids=repr)
def test_single_numpy_integers_become_integers(value: Any) -> None:
    assert type(Scenario(tp=value).tp) is int


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([], "[]"),
        ([8, 0], "0"),
        (np.array([8, 2000]), "2000"),
        ([8, True], "True"),
        ([8.0], "8.0"),
        (np.array([8.0]), "array([8.])"),
        (np.array([True]), "array([ True])"),
        ([[8], [8, 16]], "[[8], [8, 16]]"),
        (np.array(["8"]), "array(['8'], dtype='<U1')"),
        (["8"], "'8'"),
        ([10**30], "an integer of 100 bits"),
    ],
    ids=repr,
)
def test_arrays_of_anything_else_are_refused(value: Any, shown: str) -> None:
    with pytest.raises(InvalidPlanError, match=re.escape(f"tp = {shown} is invalid")):
        Scenario(tp=value)


def test_none_leaves_a_value_open() -> None:
    assert Scenario(tp=None, dp=None, weight_dtype=None, acceptance=None) == Scenario()  # type: ignore[arg-type]
    assert Scenario(draft_model="none").draft_model is None


def test_scenarios_compare_and_hash_by_value() -> None:
    assert Scenario(tp=8) == Scenario(tp=8) != Scenario(tp=16)
    assert hash(Scenario(tp=8)) == hash(Scenario(tp=8))
    assert Scenario(tp=[8, 16]) == Scenario(tp=np.array([8, 16])) != Scenario(tp=[8, 8])  # type: ignore[arg-type]
    assert len({Scenario(tp=[8, 16]), Scenario(tp=[8, 16]), Scenario(tp=[[8, 16]])}) == 2  # type: ignore[arg-type]
    assert Scenario() != "scenario"
    with pytest.raises(FrozenInstanceError):
        Scenario().tp = 8  # type: ignore[misc]


def test_a_model_of_ones_own_is_a_model() -> None:
    own = catalog.model("llama-3.2-1b")
    scenario = Scenario(model=own)
    assert scenario.model is own
    assert scenario.to_dict()["model"] == "llama-3.2-1b"
    assert hash(scenario) == hash(Scenario(model=own))


def test_json_round_trip() -> None:
    scenario = Scenario(tp=np.array([8, 16]), prefix_hit=0.25, draft_model="eagle", draft_tokens=3, acceptance=0.7)
    content = json.loads(json.dumps(scenario.to_dict(), allow_nan=False))
    assert content["tp"] == [8, 16]
    assert content["dp"] == "auto"
    assert Scenario.from_dict(content) == scenario
    assert Scenario.from_dict({}) == Scenario()


@pytest.mark.parametrize("content", [{"tensor_parallel": 8}, {"": 1}, {"x" * 500: 1}])
def test_json_with_unknown_fields_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="a field of the scenario") as refused:
        Scenario.from_dict(content)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("tp", "16", 16),
        ("tp", "auto", "auto"),
        ("sequence_parallel", "False", False),
        ("prefix_hit", ".5", 0.5),
        ("prefix_hit", "1e-3", 0.001),
        ("prefix_hit", "1", 1.0),
        ("prefix_hit", "-0", 0.0),
        ("draft_model", "none", None),
        ("acceptance", "none", None),
        ("placement", "dp,tp,cp,ep,pp", "dp,tp,cp,ep,pp"),
        ("sparsity", "4:16", "4:16"),
    ],
)
def test_text_is_read(name: str, text: str, value: object) -> None:
    read = ROWS[name].parse(text)
    assert repr(read) == repr(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tp", "1_6"),
        ("tp", " 16"),
        ("tp", "+16"),
        ("tp", "16.0"),
        ("tp", "٣"),
        ("tp", "9" * 5000),
        ("tp", "16\n"),
        ("tp", "8,16"),
        ("sequence_parallel", "1"),
        ("sequence_parallel", "yes"),
        ("prefix_hit", "nan"),
        ("prefix_hit", "inf"),
        ("prefix_hit", "1e999"),
        ("prefix_hit", "0x1"),
        ("prefix_hit", ""),
    ],
)
def test_other_text_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidPlanError):
        ROWS[name].parse(text)


class Degree(enum.IntEnum):
    """Degrees by name."""

    EIGHT = 8


class Machine(str, enum.Enum):  # noqa: UP042 (whose str is not its value)
    """Systems by name."""

    LARGE = "trn2.48xlarge"


def test_members_of_enumerations_are_stored_as_what_they_hold() -> None:
    scenario = Scenario(
        tp=Degree.EIGHT, pp=np.array([Degree.EIGHT, 1]), system=Machine.LARGE, model=np.str_("llama-3.1-8b")
    )
    assert scenario == Scenario(tp=8, pp=np.array([8, 1]), system="trn2.48xlarge", model="llama-3.1-8b")
    assert [type(value) for value in (scenario.tp, scenario.system, scenario.model)] == [int, str, str]
    json.dumps(scenario.to_dict())
    with pytest.raises(InvalidPlanError, match="tp"):
        Scenario(tp=True)


def test_masked_entries_are_refused() -> None:
    with pytest.raises(InvalidPlanError, match="tp"):
        Scenario(tp=np.ma.array([8, 16], mask=[False, True]))
    with pytest.raises(InvalidPlanError, match="tp"):
        ROWS["tp"].check(np.ma.masked)
    assert ROWS["pp"].check([Degree.EIGHT, 1]).tolist() == [8, 1]
    whole = Scenario(tp=np.ma.array([8, 16]))
    assert whole == Scenario(tp=np.array([8, 16]))
    assert type(whole.tp) is np.ndarray


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_are_equal_and_their_arrays_stay_read_only(again: Any) -> None:
    scenario = Scenario(tp=np.array([8, 16]), concurrency=np.array([1, 2]))
    twin = again(scenario)
    assert twin == scenario
    assert hash(twin) == hash(scenario)
    for name in ("tp", "concurrency"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(twin, name)[0] = 1


@pytest.mark.parametrize("values", [None, 7, "tp", [("tp", 8)], Scenario()], ids=repr)
def test_only_a_mapping_makes_a_scenario(values: Any) -> None:
    with pytest.raises(InvalidInputError, match="a mapping of field names to values"):
        Scenario.from_dict(values)


def test_a_name_that_is_no_text_is_no_field() -> None:
    with pytest.raises(InvalidInputError, match="a field of the scenario"):
        Scenario.from_dict({7: 1})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", [None, 7, ["trn2.48xlarge"], {}, object, b"trainium2", ""], ids=repr)
@pytest.mark.parametrize("get", [catalog.system, catalog.chip, catalog.model])
def test_what_is_no_name_is_an_unknown_name(get: Any, name: Any) -> None:
    with pytest.raises(UnknownNameError, match="one of"):
        get(name)
    assert catalog.system(np.str_("trn2.48xlarge")) is catalog.system("trn2.48xlarge")
