"""Properties of training estimates over random plans: overlap never slows, exposed is at most link, batches agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trn2model.model.estimate import estimate
from trn2model.specs.scenario import Scenario


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Plans over every switch of a training step, on two UltraServers or four instances."""
    model = draw(st.sampled_from(["llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "qwen3-235b-a22b", "deepseek-v3"]))
    moe = not model.startswith("llama")
    system, count, ranks = draw(st.sampled_from([("trn2-ultraserver", 2, 512), ("trn2.48xlarge", 4, 256)]))
    schedule = draw(st.sampled_from(["1f1b", "gpipe", "zb-h1"]))
    recompute = draw(st.sampled_from(["none", "selective", "full"]))
    plan: dict[str, Any] = {
        "model": model,
        "system": system,
        "count": count,
        "tp": draw(st.sampled_from([1, 4, 8])),
        "pp": draw(st.sampled_from([1, 2, 4])),
        "cp": draw(st.sampled_from([1, 2])),
        "ep": draw(st.sampled_from([1, 4])) if moe else 1,
        "zero": draw(st.integers(0, 3)),
        "zero_group": draw(st.sampled_from(["all", "domain", "instance"])),
        "fsdp_prefetch": draw(st.integers(0, 2)),
        "pipeline_schedule": schedule,
        "interleave": draw(st.sampled_from([1, 2])) if schedule == "1f1b" else 1,
        "recompute": recompute,
        "saved_operators": draw(st.sampled_from([None, "attention", "qkv,up"])) if recompute == "full" else None,
        "context_parallel_method": draw(st.sampled_from(["ring", "all-gather"])),
        "sequence_parallel": draw(st.booleans()),
        "lora_rank": draw(st.sampled_from([0, 0, 16])),
        "precision": draw(st.sampled_from(["bf16", "fp8"])),
        "optimizer": draw(st.sampled_from(["adamw-fp32", "adamw-bf16-sr"])),
        "profile": draw(st.sampled_from(["ideal", "achievable"])),
        "global_batch_size": 4096,
    }
    plan["dp"] = ranks // (plan["tp"] * plan["pp"] * plan["cp"] * plan["ep"])
    return plan


@settings(max_examples=120, deadline=None)
@given(plan=plans())
def test_overlap_never_slows_and_never_hides_more_than_there_is(plan: dict[str, Any]) -> None:
    """Each exposed time is between nothing and its link time; without overlap it is the link time."""
    on, off = (estimate(Scenario(**plan, overlap=overlap)) for overlap in (True, False))
    assert on.step_time <= off.step_time * (1 + 1e-12)
    for use in on.communication:
        assert -1e-12 <= use.exposed_time <= use.link_time * (1 + 1e-9)
    for use in off.communication:
        assert use.exposed_time == pytest.approx(use.link_time, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(plan=plans())
def test_parts_sum_and_stay_positive(plan: dict[str, Any]) -> None:
    result = estimate(Scenario(**plan))
    assert sum(result.time.values()) == pytest.approx(result.step_time, rel=1e-9)
    assert sum(result.memory.parts.values()) == pytest.approx(result.memory.used_bytes, rel=1e-9)
    assert min(*result.time.values(), *result.memory.parts.values()) >= 0
    exposed = sum(use.exposed_time for use in result.communication)
    parts = sum(part for name, part in result.time.items() if name.endswith("_exposed"))
    assert exposed == pytest.approx(parts, rel=1e-9, abs=1e-15)
    assert 0 < result.run.goodput < 1
    mean, most = result.links.mean_utilization, result.links.max_utilization
    assert 0 <= mean <= most * (1 + 1e-9) <= 1 + 1e-6


@settings(max_examples=25, deadline=None)
@given(plan=plans(), sizes=st.lists(st.sampled_from([1, 2, 4]), min_size=2, max_size=3))
def test_rows_of_a_batch_are_single_plans(plan: dict[str, Any], sizes: list[int]) -> None:
    batch = estimate(Scenario(**plan, microbatch_size=np.array(sizes)))
    for row, size in enumerate(sizes):
        single = estimate(Scenario(**plan, microbatch_size=size))
        assert np.asarray(batch.step_time)[row] == pytest.approx(single.step_time, rel=1e-12)
        assert np.asarray(batch.memory.used_bytes)[row] == pytest.approx(single.memory.used_bytes, rel=1e-12)
        assert np.asarray(batch.run.time)[row] == pytest.approx(single.run.time, rel=1e-12)
        for name, part in single.time.items():
            assert np.asarray(batch.time[name])[row] == pytest.approx(part, rel=1e-9, abs=1e-12)


def test_a_thousand_plans_with_experts_stages_and_long_context_at_once() -> None:
    """One batch of 1,000 equals the single calls."""
    rng = np.random.default_rng(7)
    columns = {
        "tp": rng.choice([2, 4, 8], 1000),
        "pp": rng.choice([1, 2, 4], 1000),
        "cp": rng.choice([1, 2, 4], 1000),
        "ep": rng.choice([1, 2, 4], 1000),
        "zero": rng.integers(0, 4, 1000),
        "microbatch_size": rng.choice([1, 2], 1000),
    }
    ranks = columns["tp"] * columns["pp"] * columns["cp"] * columns["ep"]
    columns["dp"] = 512 // ranks
    common = {"model": "qwen3-235b-a22b", "count": 2, "global_batch_size": 4096}
    batch = estimate(Scenario(**common, **columns))  # type: ignore[arg-type]
    for row in range(0, 1000, 41):
        single = estimate(Scenario(**common, **{name: int(column[row]) for name, column in columns.items()}))  # type: ignore[arg-type]
        assert np.asarray(batch.step_time)[row] == pytest.approx(single.step_time, rel=1e-12)
        assert np.asarray(batch.memory.used_bytes)[row] == pytest.approx(single.memory.used_bytes, rel=1e-12)
