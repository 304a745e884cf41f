"""Recompute and saved operators, frozen bases, narrow weights, the optimizer's update."""

from __future__ import annotations

import pytest

from trn2model.errors import InvalidPlanError
from trn2model.model.estimate import estimate
from trn2model.model.stages import training_optimizer
from trn2model.specs.plan import SAVEABLE, redone_operators, saved_groups
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario

PLAN = {"model": "llama-3.1-8b", "system": "trn2.48xlarge", "tp": 8, "global_batch_size": 64}


def test_saving_everything_is_recomputing_nothing() -> None:
    """Time, memory and traffic of "full, but keep all" are those of "none"."""
    none = estimate(Scenario(**PLAN, recompute="none"))  # type: ignore[arg-type]
    kept = estimate(Scenario(**PLAN, recompute="full", saved_operators=",".join(SAVEABLE)))  # type: ignore[arg-type]
    assert kept.step_time == pytest.approx(none.step_time, rel=1e-12)
    assert kept.memory.parts["activations"] == pytest.approx(none.memory.parts["activations"], rel=1e-12)
    assert kept.hfu == pytest.approx(none.hfu, rel=1e-12)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"])
@pytest.mark.parametrize("group", SAVEABLE)
def test_each_saved_group_costs_memory_and_saves_time(model: str, group: str) -> None:
    plan = {**PLAN, "model": model, "recompute": "full"}
    full, kept = (estimate(Scenario(**plan, saved_operators=saved)) for saved in (None, group))  # type: ignore[arg-type]
    assert kept.time["recompute"] < full.time["recompute"]
    assert kept.step_time < full.step_time
    assert kept.memory.parts["activations"] >= full.memory.parts["activations"]
    if group != "down":
        assert kept.memory.parts["activations"] > full.memory.parts["activations"]


def test_full_recompute_keeps_the_input_of_each_layer() -> None:
    """Tokens / tp · hidden · 2 B per layer under sequence parallelism, and head and final norm."""
    result = estimate(Scenario(**PLAN, recompute="full"))  # type: ignore[arg-type]
    boundary = 4096 * 4096 * 2 / 8
    assert result.memory.parts["activations"] == pytest.approx((32 + 2) * boundary, rel=1e-12)


def test_what_is_kept_is_not_exchanged_again() -> None:
    """Full recompute redoes both gathers and both scatters of a layer; keeping the outputs leaves the gathers."""
    counts = {}
    for saved in (None, "output,down", "qkv,up"):
        result = estimate(Scenario(**PLAN, recompute="full", saved_operators=saved))  # type: ignore[arg-type]
        counts[saved] = {u.op: u.count / 8 for u in result.communication if u.axis == "tp" and u.bytes > 1e7}
    layers = 32
    assert counts[None]["all_gather"] - counts["qkv,up"]["all_gather"] == 2 * layers
    assert counts[None]["reduce_scatter"] - counts["output,down"]["reduce_scatter"] == 2 * layers
    assert counts["output,down"]["all_gather"] == counts[None]["all_gather"]


def test_saved_operators_need_full_recompute() -> None:
    with pytest.raises(InvalidPlanError, match="saved_operators"):
        resolve(Scenario(recompute="selective", saved_operators="qkv"))
    with pytest.raises(InvalidPlanError, match="norm, qkv, attention"):
        Scenario(saved_operators="qkv,nothing")
    assert Scenario(recompute="full", saved_operators="attention,qkv").saved_operators == "qkv,attention"


def test_groups_name_every_operator_of_a_layer_once() -> None:
    names = [name for group in SAVEABLE.values() for name in group]
    assert len(names) == len(set(names))
    assert redone_operators(saved_groups("none", None)) == frozenset()
    assert redone_operators(saved_groups("full", None)) == set(names)
    for model in ("llama-3.1-8b", "deepseek-v3", "gpt3-175b", "qwen3-235b-a22b"):
        result = estimate(Scenario(model=model, tp=8))
        inner = {
            name
            for name, block in zip(result.operators.names, result.operator_blocks, strict=True)
            if block not in ("embedding", "head")
        }
        assert inner <= set(names)


def test_a_frozen_base_trains_its_adapters_alone() -> None:
    """States of the adapters: r (K + N) per matrix; no weight gradients of the base."""
    rank = 16
    plain = estimate(Scenario(**PLAN, zero=0))  # type: ignore[arg-type]
    lora = estimate(Scenario(**PLAN, zero=0, lora_rank=rank))  # type: ignore[arg-type]
    h, f, kv, tp = 4096, 14336, 1024, 8
    qkv, output = h + (h + 2 * kv) / tp, h / tp + h
    up, down = h + 2 * f / tp, f / tp + h
    adapters = 32 * rank * (qkv + output + up + down)
    assert lora.memory.parts["optimizer"] == pytest.approx(12 * adapters, rel=1e-12)
    assert lora.memory.parts["gradients"] == pytest.approx(4 * adapters, rel=1e-12)
    extra = lora.memory.parts["weights"] - plain.memory.parts["weights"]
    assert extra == pytest.approx(2 * adapters, rel=1e-9)
    ideal = [estimate(Scenario(**PLAN, lora_rank=r, profile="ideal")).time["backward"] for r in (0, rank)]  # type: ignore[arg-type]
    assert 0.5 < ideal[1] / ideal[0] < 0.62
    assert lora.model_flop_per_step == pytest.approx(2 / 3 * plain.model_flop_per_step, rel=0.02)
    gradients = next(use for use in lora.communication if use.op == "all_reduce" and use.axis == "dp")
    assert gradients.bytes == pytest.approx(4 * adapters, rel=1e-12)
    assert lora.checkpoint_bytes < 0.02 * plain.checkpoint_bytes


def test_narrow_weights_keep_a_master() -> None:
    """fp8 weights under bf16 with stochastic rounding: a 16-bit master beside them; fp32 has its own."""
    plan = {**PLAN, "optimizer": "adamw-bf16-sr"}
    wide, narrow = (training_optimizer(resolve(Scenario(**plan, precision=p))) for p in ("bf16", "fp8"))  # type: ignore[arg-type]
    assert (wide.master_bytes, narrow.master_bytes) == (0, 2)
    assert narrow.moment_bytes == wide.moment_bytes == 4
    fp32 = training_optimizer(resolve(Scenario(**PLAN, precision="fp8")))  # type: ignore[arg-type]
    assert fp32.master_bytes == 4


def test_the_update_takes_as_long_as_its_slowest_engine() -> None:
    """Ideal: HBM binds at 30 B per fp32 parameter; ZeRO 1 divides it by the replicas."""
    one, sharded = (estimate(Scenario(**PLAN, zero=z, profile="ideal")) for z in (0, 1))  # type: ignore[arg-type]
    parameters = 8030261248 / 8
    bandwidth = one.resolved.core.hbm_bandwidth
    assert one.time["optimizer"] == pytest.approx(parameters * (4 + 2 * 12 + 2) / bandwidth, rel=1e-3)
    assert one.time["optimizer"] == pytest.approx(8 * sharded.time["optimizer"], rel=1e-9)
    slow = estimate(Scenario(**PLAN, zero=0, profile="achievable"))  # type: ignore[arg-type]
    constants, core = slow.resolved.profile.compute, slow.resolved.core
    vector = 6 * parameters / (core.vector_element_rate * constants.vector_efficiency)
    assert slow.time["optimizer"] >= vector * (1 - 1e-3)
