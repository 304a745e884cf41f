"""Whole training estimates against their own step run task by task: time, peak memory, and when it is reached."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trn2model.errors import InvalidInputError
from trn2model.model.estimate import estimate
from trn2model.simulate.pipeline import memory_timeline, simulate_step
from trn2model.specs.scenario import Scenario

UNEVEN: list[dict[str, Any]] = [
    {"model": "llama-3.1-405b", "count": 4, "tp": 16, "pp": 9, "dp": 7, "global_batch_size": 252},
    {"model": "deepseek-v3", "ep": 16, "tp": 4, "pp": 4},
    {"model": "gpt-oss-120b", "tp": 4, "pp": 4},
    {"model": "megatron-530b", "system": "p4de.24xlarge", "count": 35, "tp": 8, "pp": 35, "sequence_length": 2048,
     "global_batch_size": 280},
]  # fmt: skip
CHANGES: list[dict[str, Any]] = [
    {},
    {"recompute": "full"},
    {"interleave": 2},
    {"interleave": 5, "global_batch_size": 512},
    {"pipeline_schedule": "gpipe"},
    {"pipeline_schedule": "zb-h1"},
    {"pipeline_schedule": "zb-h1", "recompute": "full"},
    {"cp": 2, "sequence_length": 16384},
    {"microbatch_size": 4, "sequence_parallel": False},
]
PLANS = [
    {"pp": pp, "tp": 8, **change}
    for pp in (1, 2, 4, 8, 16)
    for change in CHANGES
    if pp * change.get("interleave", 1) <= 80 and (pp > 1 or "interleave" not in change)
] + UNEVEN


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_estimate_is_the_schedule(plan: dict[str, Any]) -> None:
    """Step time within 0.1 % (0.3 % interleaved), peak memory of the heaviest stage exactly."""
    result = estimate(Scenario(**plan))
    trace = simulate_step(result)
    pipeline = result.step_time - sum(result.time[part] for part in ("dp_exposed", "optimizer", "fixed"))
    assert pipeline == pytest.approx(trace.total_time, rel=3e-3 if trace.interleave > 1 else 1e-3)
    line = memory_timeline(result, trace)
    assert line.peak_bytes == pytest.approx(result.memory.used_bytes, rel=1e-9)
    assert line.peak_bytes == pytest.approx(sum(line.fixed.values()) + line.activations.max(), rel=1e-12)
    assert 0 <= line.peak_time <= line.step_time
    assert np.all(np.diff(line.time) >= 0)
    assert line.activations[-1] == 0


def test_no_stage_holds_more_than_the_heaviest() -> None:
    """The heaviest stage is a stage's own sum, never a mean."""
    result = estimate(Scenario(tp=8, pp=4))
    trace = simulate_step(result)
    memory = result.stage_memory
    length = result.stage_times.stages.length.astype(int)
    fixed = np.repeat(sum(part for name, part in memory.parts.items() if name != "activations"), length)
    held = fixed + trace.peak_activation
    assert held.max() == pytest.approx(result.memory.used_bytes, rel=1e-9)
    assert held.mean() < 0.9 * result.memory.used_bytes


def test_only_single_plans_are_run() -> None:
    with pytest.raises(InvalidInputError, match="single plan"):
        simulate_step(estimate(Scenario(tp=[8, 16])))  # type: ignore[arg-type]
