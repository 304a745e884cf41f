"""What a scenario leaves open is decided, and plans that mean nothing are named."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trn2model.errors import InvalidInputError, InvalidPlanError, UnsupportedError
from trn2model.specs import catalog
from trn2model.specs.plan import (
    MAX_TOKENS,
    PLAN_COLUMNS,
    RULES,
    WORKLOADS,
    broadcast_columns,
    check_plan,
    check_requests,
    parallel_plan,
    plan_limits,
)
from trn2model.specs.resolve import Resolved, resolve
from trn2model.specs.scenario import ROWS, Scenario


def degrees(resolved: Resolved) -> tuple[float, ...]:
    """Degrees of a single plan: tp, cp, ep, dp, pp."""
    plan = resolved.plan
    return tuple(float(column) for column in (plan.tp, plan.cp, plan.ep, plan.dp, plan.pp))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_default_scenario_fills_one_ultraserver(workload: Any) -> None:
    resolved = resolve(Scenario(), workload)
    assert resolved.num_ranks == 4 * 16 * 4
    assert degrees(resolved) == (32, 1, 1, 8, 1)
    assert resolved.plan.num_ranks == 256
    assert resolved.plan.num_microbatches == 128
    assert (resolved.weight_dtype, resolved.kv_dtype) == ("bf16", "bf16")
    assert resolved.core.hbm_bytes == 24 * 2**30
    assert len(resolved.notes) == 1
    assert "no UltraServer measurement has been published" in resolved.notes[0]


@pytest.mark.parametrize(
    ("system", "lnc", "tp", "num_ranks"),
    [
        ("trn2.48xlarge", 2, 32, 64),
        ("trn2.48xlarge", 1, 64, 128),
        ("trn2.3xlarge", 2, 4, 4),
        ("trn2.3xlarge", 1, 8, 8),
        ("trn2-ultraserver", 2, 32, 256),
        ("trn2-ultraserver", 1, 64, 512),
        ("trn1.32xlarge", 2, 32, 32),
        ("trn1.32xlarge", 1, 32, 32),
        ("trn1n.32xlarge", 2, 32, 32),
        ("inf2.48xlarge", 2, 16, 24),
        ("p4de.24xlarge", 2, 8, 8),
        ("p5.48xlarge", 1, 8, 8),
        ("p5e.48xlarge", 2, 8, 8),
        ("p5en.48xlarge", 2, 8, 8),
    ],
)
def test_tp_auto(system: str, lnc: int, tp: int, num_ranks: int) -> None:
    resolved = resolve(Scenario(system=system, lnc=lnc))
    assert resolved.num_ranks == num_ranks
    assert resolved.plan.tp == tp
    assert resolved.plan.dp == num_ranks // tp


@pytest.mark.parametrize(
    ("model", "tp"),
    [("llama-2-13b", 8), ("mixtral-8x22b", 16), ("llama-3.1-405b", 32), ("gpt3-175b", 32)],
)
def test_tp_auto_divides_the_heads(model: str, tp: int) -> None:
    assert resolve(Scenario(model=model)).plan.tp == tp


def test_tp_auto_leaves_room_for_the_degrees_that_are_set() -> None:
    instance = Scenario(system="trn2.48xlarge")
    assert degrees(resolve(replace(instance, pp=4))) == (16, 1, 1, 1, 4)
    assert degrees(resolve(replace(instance, dp=16))) == (4, 1, 1, 16, 1)
    assert degrees(resolve(replace(instance, cp=2, pp=2))) == (16, 2, 1, 1, 2)


def test_autos_of_arrays_are_decided_row_by_row() -> None:
    plan = resolve(Scenario(pp=np.array([1, 2, 4, 16]))).plan
    assert plan.shape == (4,)
    assert plan.tp.tolist() == [32, 32, 32, 16]
    assert plan.dp.tolist() == [8, 4, 2, 1]
    assert {getattr(plan, name).dtype for name in PLAN_COLUMNS} == {np.dtype(np.float64)}


def test_a_batch_row_is_the_single_plan() -> None:
    tp, mb = np.array([[4], [8], [64]]), np.array([1, 2, 4])
    plan = resolve(Scenario(tp=tp, microbatch_size=mb)).plan
    for i, j in itertools.product(range(3), range(3)):
        single = resolve(Scenario(tp=int(tp[i, 0]), microbatch_size=int(mb[j]))).plan
        for name in (*PLAN_COLUMNS, "num_ranks", "num_microbatches"):
            assert getattr(plan, name)[i, j] == getattr(single, name)


def test_storage_follows_precision_unless_set() -> None:
    resolved = resolve(Scenario(precision="fp8", kv_dtype="bf16"))
    assert (resolved.weight_dtype, resolved.kv_dtype) == ("fp8", "bf16")


def test_profile_and_price_follow_the_system_unless_set() -> None:
    system = catalog.system("trn2.48xlarge")
    resolved = resolve(Scenario(system="trn2.48xlarge"))
    assert resolved.profile.name == system.default_profiles["train"]
    assert resolve(Scenario(system="trn2.48xlarge"), "serve").profile.name == system.default_profiles["serve"]
    assert resolved.price_option == system.default_price_option
    assert resolved.price == system.prices[system.default_price_option]
    chosen = resolve(Scenario(system="trn2.48xlarge", profile="ideal", price_option="spot"))
    assert chosen.profile.name == "ideal"
    assert chosen.price_option == "spot"
    assert chosen.price == system.prices.get("spot")


def test_default_price_options_are_in_the_table() -> None:
    names = catalog.system_names()
    assert {catalog.system(name).default_price_option for name in names} <= set(ROWS["price_option"].options())
    assert {option for name in names for option in catalog.system(name).prices} <= set(ROWS["price_option"].options())


def test_notes_say_what_is_ignored_or_idle() -> None:
    assert any("lnc is ignored" in note for note in resolve(Scenario(system="p5.48xlarge", lnc=1)).notes)
    idle = resolve(Scenario(dp=4, profile="achievable")).notes
    assert idle == ("128 of 256 ranks are idle: tp x cp x ep x dp x pp is smaller.",)
    many = resolve(Scenario(dp=[4, 8], profile="achievable"))  # type: ignore[arg-type]
    assert many.notes[0].startswith("up to 128 of 256 ranks")
    assert "131,073 tokens" in resolve(Scenario(sequence_length=131073, profile="achievable")).notes[0]


def test_a_resolved_scenario_is_a_scenario() -> None:
    for scenario in (Scenario(), Scenario(tp=[8, 16], precision="fp8"), Scenario(draft_model="eagle")):  # type: ignore[arg-type]
        content = resolve(scenario).to_dict()
        assert content.keys() == scenario.to_dict().keys()
        assert "auto" not in content.values()
        assert resolve(Scenario.from_dict(content)).to_dict() == content


# known answers K40 and K41, and every other rule of a plan
INVALID_PLANS: list[tuple[dict[str, Any], str, str]] = [
    ({"tp": 3}, "tp", "64 attention heads"),
    ({"tp": 24, "model": "llama-2-13b"}, "tp", "40 attention heads"),
    ({"dp": 512, "global_batch_size": 256}, "dp", "global_batch_size = 256"),
    ({"dp": 512, "global_batch_size": 256, "system": "trn2-ultraserver", "count": 64}, "dp", "global_batch_size = 256"),
    ({"pp": 96, "model": "gpt-oss-120b"}, "pp", "36 layers"),
    ({"pp": 128}, "pp", "80 layers"),
    ({"pp": 16, "interleave": 8}, "pp", "80 layers"),
    ({"ep": 2}, "ep", "dense"),
    ({"ep": 3, "model": "mixtral-8x7b"}, "ep", "8 experts"),
    ({"cp": 7, "tp": 1}, "cp", "sequence_length = 4096"),
    ({"dp": 8, "global_batch_size": 100}, "global_batch_size", "8 x 1 x 1"),
    ({"dp": 4, "microbatch_size": 3}, "global_batch_size", "4 x 1 x 3"),
    ({"count": 3}, "global_batch_size", "24 x 1 x 1"),
    ({"pp": 4, "interleave": 2, "dp": 1, "global_batch_size": 6}, "interleave", "6 microbatches"),
    ({"pp": 4, "interleave": 2, "pipeline_schedule": "gpipe"}, "interleave", "gpipe"),
    ({"tp": 64, "dp": 64}, "tp", "256 ranks"),
    ({"tp": 32, "dp": 16}, "tp", "256 ranks"),
    ({"tp": 1, "dp": 1, "pp": 80, "cp": 4}, "pp", "256 ranks"),
]


@pytest.mark.parametrize(("values", "field", "said"), INVALID_PLANS, ids=lambda value: str(value)[:40])
def test_plans_that_mean_nothing_are_named(values: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InvalidPlanError) as refused:
        resolve(Scenario(**values))
    assert refused.value.field == field
    assert said in str(refused.value)
    assert refused.value.remedy
    if field in values:
        assert refused.value.value == values[field]


def test_what_auto_chose_is_said_to_be_autos_choice() -> None:
    with pytest.raises(InvalidPlanError, match=r"^dp = 512 \(chosen by auto\) is invalid") as refused:
        resolve(Scenario(count=2, tp=1, global_batch_size=16))
    assert refused.value.value == 512
    assert json.dumps(refused.value.value) == "512"
    with pytest.raises(InvalidPlanError, match=r"16 x 1 x 1 = 16, where auto chose dp = 16;"):
        resolve(Scenario(tp=16, global_batch_size=17))
    with pytest.raises(InvalidPlanError, match=r"^dp = 16 is invalid"):
        resolve(Scenario(tp=16, dp=16, global_batch_size=8))


def test_the_tokens_of_a_request_are_announced_as_they_are_checked() -> None:
    most = MAX_TOKENS - 1
    resolve(Scenario(input_tokens=most, output_tokens=1, model="llama-3.2-1b"), "serve")
    with pytest.raises(InvalidPlanError, match=r"input_tokens \+ output_tokens up to 10,000,000"):
        resolve(Scenario(input_tokens=most, output_tokens=2), "serve")
    for name in ("input_tokens", "output_tokens"):
        with pytest.raises(InvalidPlanError, match="1 to 9,999,999"):
            Scenario(**{name: most + 1})  # type: ignore[arg-type]
    assert all("10,000,000" in ROWS[name].help for name in ("input_tokens", "output_tokens"))


def test_rules_of_the_batch_do_not_bind_serving() -> None:
    serving = {"dp": 8, "global_batch_size": 100, "cp": 1, "interleave": 90, "pipeline_schedule": "gpipe"}
    resolve(Scenario(**serving), "serve")  # type: ignore[arg-type]
    resolve(Scenario(cp=7, tp=1), "serve")
    for values in ({"tp": 3}, {"pp": 96}, {"ep": 2}, {"tp": 64, "dp": 64}):
        with pytest.raises(InvalidPlanError):
            resolve(Scenario(**values), "serve")  # type: ignore[arg-type]


def test_tp_above_the_kv_heads_replicates_them() -> None:
    assert resolve(Scenario(tp=64)).plan.tp == 64
    assert catalog.model("llama-3.1-70b").layer_kinds[0].attention.num_kv_heads == 8


def test_the_first_offending_row_is_named() -> None:
    with pytest.raises(InvalidPlanError, match="tp = 48 "):
        resolve(Scenario(tp=[[8, 16], [48, 3]]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values",
    [
        {"tp": [8, 16], "pp": [1, 2, 4]},
        {"tp": [8, 16], "microbatch_size": [1, 2, 4]},
        {"zero": [0, 1], "sequence_length": [4096, 4096, 4096]},
        {"tp": [8, 16], "concurrency": [1, 2, 4]},
        {"input_tokens": [8, 16], "concurrency": [1, 2, 4]},
        {"cp": [1, 2], "ep": [1, 1, 1], "dp": 1},
    ],
    ids=str,
)
def test_arrays_of_different_shapes_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="common shape") as caught:
        resolve(Scenario(**values), "serve")
    arrays = {name: (len(value),) for name, value in values.items() if isinstance(value, list)}
    assert set(caught.value.field.split(", ")) == set(arrays)
    assert str(arrays[caught.value.field.split(", ")[0]]) in str(caught.value)


@pytest.mark.parametrize("given", [None, {}, "tp=8", 7, Scenario, [Scenario()]], ids=repr)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_only_a_scenario_is_resolved(given: Any, workload: Any) -> None:
    with pytest.raises(InvalidInputError, match="allowed is an instance of Scenario") as caught:
        resolve(given, workload)
    assert caught.value.field == "scenario"


@pytest.mark.parametrize("workload", [None, ["train"], {}, "fly"], ids=repr)
def test_an_unknown_workload_is_named(workload: Any) -> None:
    with pytest.raises(InvalidInputError, match="train or serve"):
        resolve(Scenario(), workload)


REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"concurrency": 16, "compiled_batch": 8}, "compiled_batch"),
    ({"input_tokens": 4097, "context_bucket": 4096}, "context_bucket"),
    ({"input_tokens": 9_999_999, "output_tokens": 2}, "input_tokens"),
    ({"draft_tokens": 4}, "draft_tokens"),
    ({"acceptance": 0.7}, "acceptance"),
    ({"draft_model": "llama-3.2-1b"}, "draft_tokens"),
    ({"draft_model": "llama-3.2-1b", "draft_tokens": 4}, "acceptance"),
    ({"draft_model": "llama-2-7b", "draft_tokens": 4, "acceptance": 0.7}, "draft_model"),
    ({"tp": 64, "prefill_replicas": 4}, "dp"),
]


@pytest.mark.parametrize(("values", "field"), REQUESTS, ids=lambda value: str(value)[:40])
def test_requests_that_the_graphs_cannot_hold_are_named(values: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidPlanError) as refused:
        resolve(Scenario(**values), "serve")
    assert refused.value.field == field
    resolve(Scenario(**values), "train")


def test_what_is_served() -> None:
    requests = resolve(Scenario(input_tokens=3700, prefix_hit=0.25), "serve").requests
    assert requests.prefill_tokens == 2775
    assert requests.context_bucket == 4096
    assert requests.compiled_batch == requests.concurrency == 8
    assert resolve(Scenario(input_tokens=4096), "serve").requests.context_bucket == 4096
    assert resolve(Scenario(input_tokens=10000), "serve").requests.context_bucket == 12288
    assert resolve(Scenario(input_tokens=3700, context_bucket=8192), "serve").requests.context_bucket == 8192
    assert resolve(Scenario(input_tokens=3700, prefill_chunk=512), "serve").requests.context_bucket == 4096
    assert resolve(Scenario(input_tokens=3700, system="p5.48xlarge"), "serve").requests.context_bucket == 3700
    assert resolve(Scenario(prefix_hit=1.0), "serve").requests.prefill_tokens == 1
    assert resolve(Scenario(compiled_batch=32), "serve").requests.compiled_batch == 32
    many = resolve(Scenario(concurrency=np.array([1, 8, 64])), "serve").requests
    assert many.compiled_batch.tolist() == [1, 8, 64]
    assert many.input_tokens.shape == (3,)


def test_draft_models() -> None:
    speculation: dict[str, Any] = {"draft_tokens": 4, "acceptance": 0.7}
    small = resolve(Scenario(draft_model="llama-3.2-1b", **speculation), "serve")
    assert small.draft == catalog.model("llama-3.2-1b")
    assert (small.requests.draft_tokens, small.requests.acceptance) == (4, 0.7)
    eagle = resolve(Scenario(draft_model="eagle", **speculation), "serve").draft
    assert eagle is not None
    assert eagle.num_layers == 1
    assert eagle.hidden_size == 8192
    assert resolve(Scenario(), "serve").draft is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"precision": "fp8", "system": "p4de.24xlarge"}, "fp8"),
        ({"sparsity": "4:16", "system": "trn1.32xlarge"}, "no sparsity pattern"),
        ({"sparsity": "4:16", "system": "p5.48xlarge"}, "4:16"),
        ({"sparsity": "4:16", "precision": "fp32"}, "fp32"),
    ],
    ids=str,
)
def test_what_the_chip_cannot_do_is_unsupported(values: dict[str, Any], said: str) -> None:
    for workload in WORKLOADS:
        with pytest.raises(UnsupportedError, match=said):
            resolve(Scenario(**values), workload)


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="workload = 'play'"):
        resolve(Scenario(), "play")  # type: ignore[arg-type]


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("model", ["llama-3.1-70b", "mixtral-8x7b"])
def test_mask_and_error_come_from_the_same_rules(workload: Any, model: str) -> None:
    values = {"tp": [1, 3, 8], "cp": [1, 3], "ep": [1, 2, 3], "dp": [1, 4, 600], "pp": [1, 4, 96], "interleave": [1, 3]}
    rows = list(itertools.product(*values.values()))
    common = {"zero": 1, "microbatch_size": 2, "global_batch_size": 32, "sequence_length": 4096}
    columns = dict(zip(values, np.array(rows).T, strict=True))
    limits = plan_limits(catalog.model(model), 256)
    broken = _broken(parallel_plan(**columns, **common), limits, workload)
    allowed = ~np.any([rows for _, rows in broken], axis=0)
    assert 0 < allowed.sum() < len(rows)
    for row, fits in zip(rows, allowed, strict=True):
        single = parallel_plan(**dict(zip(values, row, strict=True)), **common)
        if fits:
            check_plan(single, limits, workload)
        else:
            with pytest.raises(InvalidPlanError):
                check_plan(single, limits, workload)


def test_reasons_name_the_rule() -> None:
    plan = resolve(Scenario()).plan
    limits = plan_limits(catalog.model("llama-3.1-70b"), 256)
    tried = {"tp": (3, "tp_heads"), "pp": (90, "pp_layers"), "ep": (2, "ep_experts")}
    for name, value, reason in ((name, *told) for name, told in tried.items()):
        assert _broken_first(plan, limits, {name: value}) == reason
    assert _broken_first(plan, limits, {"dp": 9}) == "batch"
    assert _broken_first(plan, limits, {"dp": 16}) == "ranks"


def _broken(plan: Any, limits: Any, workload: Any) -> list[tuple[str, Any]]:
    """Reason of each rule of a workload, and which plans break it."""
    rules = [rule for rule in RULES if workload in rule.workloads]
    return [(rule.reason, np.broadcast_to(rule.broken(plan, limits), plan.shape)) for rule in rules]


def _broken_first(plan: Any, limits: Any, change: dict[str, int]) -> str:
    changed = parallel_plan(**_columns(plan) | change)
    return next(reason for reason, broken in _broken(changed, limits, "train") if broken)


def _columns(plan: Any) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in PLAN_COLUMNS}


def test_limits_hold_for_every_kind_of_layer() -> None:
    model = catalog.model("deepseek-v3")
    limits = plan_limits(model, 64)
    assert (limits.num_heads, limits.num_layers, limits.num_experts) == (128, 61, 256)
    kind = model.layer_kinds[0]
    odd = replace(
        model, layer_kinds=(replace(kind, attention=replace(kind.attention, num_heads=96)), *model.layer_kinds[1:])
    )
    assert plan_limits(odd, 64).num_heads == 32


def test_columns_do_not_overflow() -> None:
    huge = parallel_plan(
        tp=1024, cp=1024, ep=1024, dp=65536, pp=1024, zero=0, interleave=1, microbatch_size=1,
        global_batch_size=2**24, sequence_length=10_000_000,
    )  # fmt: skip
    assert huge.num_ranks == 1024.0**4 * 65536
    assert huge.to_dict()["sequence_length"] == 10_000_000


def test_broadcast_keeps_single_values_single() -> None:
    columns = broadcast_columns({"a": 1, "b": 2.5})
    assert {name: (float(value), value.shape) for name, value in columns.items()} == {"a": (1.0, ()), "b": (2.5, ())}


def test_good_requests_pass() -> None:
    check_requests(resolve(Scenario()).requests)
