"""Known answers that only a whole estimate can give: memory, feasibility, bases and invariances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trn2model.errors import InvalidPlanError
from trn2model.formulas import pipeline
from trn2model.model.activations import saved_bytes
from trn2model.model.estimate import estimate
from trn2model.model.stages import model_states, parameter_shares, stage_table
from trn2model.model.training.compute import training_work
from trn2model.model.training.memory import activation_bytes_per_block
from trn2model.specs.numerics import optimizer
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario
from trn2model.units import GIB

GPT3: dict[str, Any] = {
    "model": "gpt3-175b",
    "system": "p4de.24xlarge",
    "count": 64,
    "sequence_length": 2048,
    "global_batch_size": 64,
    "precision": "bf16",
}


@pytest.mark.parametrize(("kernel", "expected"), [("naive", 2868903936.0), ("flash", 855638016.0)])
def test_saved_activations_of_one_layer(kernel: str, expected: float) -> None:
    """K22, K23: s·b·h·(34 + 5·a·s/h), and without the scores under flash attention."""
    scenario = Scenario(**GPT3, tp=1, pp=1, dp=1, recompute="none", attention_kernel=kernel, sequence_parallel=False)
    resolved = resolve(scenario)
    layer = resolved.model.layer_kinds[0]
    assert saved_bytes(layer, resolved.model, training_work(resolved), "none") == expected


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_saved_activations_without_sequence_parallel(tp: int) -> None:
    """Korthikanti equation 2 without its scores: s·b·h·(10 + 24/t)."""
    resolved = resolve(Scenario(**GPT3, tp=tp, dp=1, recompute="none", sequence_parallel=False))
    layer = resolved.model.layer_kinds[0]
    expected = 2048 * 12288 * (10 + 24 / tp)
    assert saved_bytes(layer, resolved.model, training_work(resolved), "none") == pytest.approx(expected, rel=1e-12)


def test_interleaved_first_stage_activations() -> None:
    """K26: s·b·h·L·34/t·(1 + 7/24) = 12.3516 GiB."""
    resolved = resolve(Scenario(**GPT3, tp=8, pp=8, interleave=3, dp=8 // 8, recompute="selective"))
    work, plan = training_work(resolved), resolved.plan
    stages = stage_table(resolved.model, plan.pp, plan.interleave)
    blocks = activation_bytes_per_block(resolved, work)[:-2]
    layers = stages.counts[stages.position == 0.0][0, :-2]
    held = pipeline.in_flight_microbatches(plan.pp, 0.0, plan.interleave, plan.num_microbatches)
    assert float((blocks * layers).sum() * held) / GIB == pytest.approx(12.3516, abs=5e-5)


@pytest.mark.parametrize(("zero", "dp", "expected"), [(0, 8, 45.5625), (1, 8, 18.984)])
def test_model_states_of_the_blocks(zero: int, dp: int, expected: float) -> None:
    """K24, K25: 18 B per parameter; 6 B unsharded and 12 B over dp with ZeRO-1 (matrices: 12·h²·L)."""
    resolved = resolve(Scenario(**GPT3, tp=8, pp=8, dp=dp, zero=zero))
    stages = stage_table(resolved.model, resolved.plan.pp, resolved.plan.interleave)
    dense, experts = parameter_shares(resolved, stages)
    matrices = np.full(1, 12.0 * 12288.0**2 * 96.0 / 64.0)
    dense = replace(dense, parameters=matrices, weight_bytes=2.0 * matrices, trained=matrices)
    none = replace(experts, parameters=0.0 * matrices, weight_bytes=0.0 * matrices, trained=0.0 * matrices)
    states = model_states((dense, none), resolved.plan.zero, optimizer("adamw-fp32"))
    total = float((states.weights + states.gradients + states.optimizer)[0])
    assert total / GIB == pytest.approx(expected, abs=5e-4)


def test_weights_that_do_not_fit_at_tp_2_fit_at_tp_8() -> None:
    """K30: about 33 B parameters in 16 bits on logical cores of 24 GiB."""
    small = estimate(Scenario(model="qwen3-32b", system="trn2.48xlarge", tp=2), "serve")
    large = estimate(Scenario(model="qwen3-32b", system="trn2.48xlarge", tp=8), "serve")
    assert small.memory.capacity_bytes == 24 * GIB
    assert small.memory.parts["weights"] == pytest.approx(4 * large.memory.parts["weights"], rel=1e-3)
    assert small.memory.parts["weights"] > 24 * GIB
    assert not small.feasible
    assert large.feasible


def test_a_model_larger_than_a_gpu_is_infeasible_not_an_error() -> None:
    """K38: 405 B parameters on one H100: weights alone are 811.7 GB."""
    result = estimate(Scenario(model="llama-3.1-405b", system="p5.48xlarge", tp=1, dp=1, concurrency=1), "serve")
    assert not result.feasible
    assert result.memory.parts["weights"] == pytest.approx(811.7e9, rel=1e-4)
    assert result.max_concurrency == 0
    (violation,) = result.violations
    assert violation.demand > violation.limit > 0
    assert violation.remedy


def test_training_175b_on_one_device_is_infeasible() -> None:
    """K39: a result with positive numbers, never a negative batch."""
    result = estimate(Scenario(model="gpt3-175b", system="trn2.3xlarge", tp=1, dp=1, sequence_length=2048))
    assert not result.feasible
    assert result.step_time > 0
    assert min(result.memory.parts.values()) >= 0


def test_forward_time_does_not_depend_on_dp() -> None:
    """K45: with ZeRO off only gradient communication is added at the same work per rank."""
    one = estimate(Scenario(model="llama-3.1-8b", tp=8, dp=1, global_batch_size=8, zero=0))
    eight = estimate(Scenario(model="llama-3.1-8b", tp=8, dp=8, global_batch_size=64, zero=0))
    changed = {part for part in one.time if one.time[part] != pytest.approx(eight.time[part], rel=1e-12, abs=0)}
    assert changed == {"dp_exposed"}
    assert eight.time["dp_exposed"] > one.time["dp_exposed"] == 0


@pytest.mark.parametrize(("precision", "expected"), [("bf16", 667e12), ("fp8", 1299e12)])
@pytest.mark.parametrize("sparsity", ["dense", "4:16"])
def test_mfu_stays_on_the_dense_base(precision: str, expected: float, sparsity: str) -> None:
    """K37: the sparse peak is never the base of MFU."""
    result = estimate(Scenario(model="llama-3.1-8b", precision=precision, sparsity=sparsity))
    peak = result.model_flop_per_step / (result.mfu * result.step_time * 64)
    assert peak == pytest.approx(expected, rel=1e-12)


def test_training_flop_of_llama_2_7b() -> None:
    """K12: 4 sequences of 8192 tokens cost 1510.11 TFLOP a step."""
    result = estimate(
        Scenario(model="llama-2-7b", system="trn2.48xlarge", tp=16, dp=4, global_batch_size=4, sequence_length=8192)
    )
    assert result.model_flop_per_step == pytest.approx(1510.11e12, rel=5e-6)
    assert result.model_flop_per_step == pytest.approx(3 * result.forward_flop, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tp": 3}, "tp"),
        ({"dp": 512, "global_batch_size": 256}, "dp"),
        ({"pp": 96, "tp": 1, "model": "mistral-7b"}, "pp"),
        ({"microbatch_size": 0}, "microbatch_size"),
        ({"sequence_length": 0}, "sequence_length"),
        ({"input_tokens": -1}, "input_tokens"),
    ],
)
def test_meaningless_plans_raise(changes: dict[str, Any], field: str) -> None:
    """K40, K41: the message names field, value, allowed range and remedy."""
    with pytest.raises(InvalidPlanError) as caught:
        estimate(Scenario(count=8, **changes))
    assert caught.value.field == field
    assert all([caught.value.allowed, caught.value.remedy])
    assert str(caught.value).count("\n") == 0
