"""Schedules in the estimate: order among them, what they hold, and parts that sum to the closed form."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.errors import InvalidPlanError
from trn2model.model.estimate import estimate
from trn2model.specs.scenario import Scenario

PLAN = {"tp": 8, "pp": 4, "profile": "achievable"}


def test_schedules_differ_where_they_should() -> None:
    """GPipe's bubble is that of 1F1B and holds every microbatch; interleaving and zero-bubble shrink it."""
    plain, gpipe, zero_bubble, interleaved = (
        estimate(Scenario(**PLAN, **change))  # type: ignore[arg-type]
        for change in ({}, {"pipeline_schedule": "gpipe"}, {"pipeline_schedule": "zb-h1"}, {"interleave": 2})
    )
    assert gpipe.time["bubble"] == pytest.approx(plain.time["bubble"], rel=0.02)
    assert zero_bubble.time["bubble"] < 0.7 * plain.time["bubble"]
    assert interleaved.time["bubble"] == pytest.approx(plain.time["bubble"] / 2, rel=0.05)
    assert gpipe.memory.parts["logits"] == 128 * zero_bubble.memory.parts["logits"]
    per_stage = plain.memory.parts["activations"] / 4
    assert gpipe.stage_memory.in_flight.max() == 128
    assert gpipe.memory.parts["activations"] == pytest.approx(128 * per_stage, rel=0.01)
    assert zero_bubble.memory.parts["activations"] == pytest.approx(4 * per_stage, rel=0.01)
    assert interleaved.memory.parts["activations"] == pytest.approx((4 * 2 + 3) / 2 * per_stage, rel=0.01)


def test_k32_through_the_estimate() -> None:
    """pp 8, 64 sequences per replica, equal stages: 7/71 and 7/39 up to embedding, head and transfers."""
    for microbatch, exact in ((1, 7 / 71), (2, 7 / 39)):
        result = estimate(
            Scenario(tp=32, pp=8, dp=1, count=2, microbatch_size=microbatch, global_batch_size=64, profile="ideal")
        )
        # the head makes the last stage the slowest, which shortens the share that it waits
        assert result.bubble_fraction == pytest.approx(exact, rel=0.12)


def test_interleaving_other_schedules_means_nothing() -> None:
    for schedule in ("gpipe", "zb-h1"):
        with pytest.raises(InvalidPlanError, match="interleave"):
            estimate(Scenario(**PLAN, interleave=2, pipeline_schedule=schedule))  # type: ignore[arg-type]


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb-h1"])
def test_a_batch_of_depths_equals_single_plans(schedule: str) -> None:
    pp = np.array([1, 2, 4, 8])
    batch = estimate(Scenario(tp=8, pp=pp, pipeline_schedule=schedule))
    for row, depth in enumerate(pp):
        single = estimate(Scenario(tp=8, pp=int(depth), pipeline_schedule=schedule))
        assert np.asarray(batch.step_time)[row] == pytest.approx(single.step_time, rel=1e-12)
        assert np.asarray(batch.memory.used_bytes)[row] == pytest.approx(single.memory.used_bytes, rel=1e-12)
        assert np.asarray(batch.run.time)[row] == pytest.approx(single.run.time, rel=1e-12)
