"""Properties of whole estimates over random plans: faster hardware never hurts, doubling doubles, batches agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trn2model.model.estimate import estimate
from trn2model.model.serving.steady import estimate_serving
from trn2model.model.training.step import estimate_training
from trn2model.specs.hardware import logical_core
from trn2model.specs.resolve import Resolved, resolve
from trn2model.specs.scenario import Scenario

RESOURCES = ("flop", "hbm", "vector", "scalar", "x", "y", "z", "nic")


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Plans that can be laid out on two UltraServers."""
    model = draw(st.sampled_from(["llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "gpt-oss-20b", "deepseek-v3"]))
    moe = model not in ("llama-3.1-8b", "llama-3.1-70b")
    plan: dict[str, Any] = {
        "model": model,
        "count": 2,
        "tp": draw(st.sampled_from([1, 4, 8, 32])),
        "pp": draw(st.sampled_from([1, 2])),
        "cp": draw(st.sampled_from([1, 2])),
        "ep": draw(st.sampled_from([1, 4])) if moe else 1,
        "zero": draw(st.integers(0, 3)),
        "recompute": draw(st.sampled_from(["none", "selective", "full"])),
        "sequence_parallel": draw(st.booleans()),
        "precision": draw(st.sampled_from(["bf16", "fp8"])),
        "profile": draw(st.sampled_from(["ideal", "achievable"])),
    }
    plan["dp"] = 512 // (plan["tp"] * plan["pp"] * plan["cp"] * plan["ep"])
    return plan


def _faster(resolved: Resolved, resource: str, factor: float) -> Resolved:
    """The same scenario on a machine with one faster resource."""
    system, chip = resolved.system, resolved.system.chip
    if resource == "flop":
        chip = replace(chip, flop_rate={k: v * factor for k, v in chip.flop_rate.items()})
    elif resource == "hbm":
        chip = replace(chip, hbm_bandwidth=chip.hbm_bandwidth * factor)
    elif resource in ("vector", "scalar"):
        name = f"{resource}_element_rate"
        chip = replace(chip, **{name: getattr(chip, name) * factor})
    elif resource == "nic":
        system = replace(system, nic_bandwidth=system.nic_bandwidth * factor)
    else:
        rates = [r * factor if axis == resource else r for axis, r in zip("xyz", system.link_bandwidth, strict=True)]
        system = replace(system, link_bandwidth=(rates[0], rates[1], rates[2]))
    system = replace(system, chip=chip)
    return replace(resolved, system=system, core=logical_core(system, resolved.scenario.lnc))


@settings(max_examples=60, deadline=None)
@given(plan=plans(), resource=st.sampled_from(RESOURCES), factor=st.floats(1.01, 4.0))
def test_a_faster_resource_never_slows_a_step(plan: dict[str, Any], resource: str, factor: float) -> None:
    """Monotone in every bandwidth and rate."""
    resolved = resolve(Scenario(**plan))
    before, after = estimate_training(resolved), estimate_training(_faster(resolved, resource, factor))
    assert after.step_time <= before.step_time * (1 + 1e-12)


@settings(max_examples=30, deadline=None)
@given(
    plan=plans(),
    resource=st.sampled_from(RESOURCES),
    factor=st.floats(1.01, 4.0),
    tokens=st.integers(1, 20000),
    concurrency=st.integers(1, 64),
)
def test_a_faster_resource_never_slows_serving(
    plan: dict[str, Any], resource: str, factor: float, tokens: int, concurrency: int
) -> None:
    """Monotone in every bandwidth and rate."""
    resolved = resolve(Scenario(**plan, input_tokens=tokens, concurrency=concurrency), "serve")
    before, after = estimate_serving(resolved), estimate_serving(_faster(resolved, resource, factor))
    assert after.ttft <= before.ttft * (1 + 1e-12)
    assert after.tpot <= before.tpot * (1 + 1e-12)
    assert after.output_tokens_per_s >= before.output_tokens_per_s * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(plan=plans())
def test_parts_sum_to_the_whole_and_fit_their_bounds(plan: dict[str, Any]) -> None:
    """Time and memory are sums of their parts; exposed time is at most link time; MFU is below HFU and 1."""
    result = estimate(Scenario(**plan))
    assert sum(result.time.values()) == pytest.approx(result.step_time, rel=1e-9)
    assert sum(result.memory.parts.values()) == pytest.approx(result.memory.used_bytes, rel=1e-9)
    assert min(result.time.values()) >= -1e-12 * result.step_time
    assert all(use.exposed_time <= use.link_time * (1 + 1e-12) for use in result.communication)
    assert 0 < result.mfu < 1
    assert 0 <= result.links.mean_utilization <= result.links.max_utilization <= 1 + 1e-9


@settings(max_examples=40, deadline=None)
@given(plan=plans())
def test_twice_the_microbatches_take_twice_the_steady_time(plan: dict[str, Any]) -> None:
    """Doubling the global batch doubles compute and leaves the bubble and the update as they are."""
    once = estimate(Scenario(**plan))
    twice = estimate(Scenario(**plan, global_batch_size=2048))
    assert twice.time["forward"] == pytest.approx(2 * once.time["forward"], rel=1e-12)
    assert twice.time["bubble"] == pytest.approx(once.time["bubble"], rel=1e-6, abs=1e-9)
    assert twice.time["optimizer"] == pytest.approx(once.time["optimizer"], rel=1e-12)
    assert twice.tokens_per_s >= once.tokens_per_s * (1 - 1e-12)


@settings(max_examples=25, deadline=None)
@given(plan=plans(), sizes=st.lists(st.sampled_from([1, 2, 4]), min_size=2, max_size=4))
def test_a_batch_of_plans_equals_single_plans(plan: dict[str, Any], sizes: list[int]) -> None:
    """Rows of a batch to 1e-12, training and serving."""
    plan = {**plan, "global_batch_size": 4096}
    batch = Scenario(**plan, microbatch_size=np.array(sizes), concurrency=np.array(sizes))
    train, serve = estimate(batch), estimate(batch, "serve")
    for row, size in enumerate(sizes):
        single = Scenario(**plan, microbatch_size=size, concurrency=size)
        assert np.asarray(train.step_time)[row] == pytest.approx(estimate(single).step_time, rel=1e-12)
        alone = estimate(single, "serve")
        assert np.asarray(serve.ttft)[row] == pytest.approx(alone.ttft, rel=1e-12)
        assert np.asarray(serve.tpot)[row] == pytest.approx(alone.tpot, rel=1e-12)
        assert np.asarray(serve.memory.used_bytes)[row] == pytest.approx(alone.memory.used_bytes, rel=1e-12)
