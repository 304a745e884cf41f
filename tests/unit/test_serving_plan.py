"""Sweeps and operating points: the largest throughput within memory and latency, and which of them holds it."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.estimate import estimate
from trn2model.estimate.serving.plan import (
    concurrency_sweep,
    context_sweep,
    largest_concurrency,
    latency_violations,
    operating_point,
)
from trn2model.specs.scenario import Scenario

SCENARIO = Scenario(profile="achievable")


def test_a_sweep_is_one_batch_of_single_estimates() -> None:
    scenario = Scenario(profile="achievable", compiled_batch=512)
    sweep = concurrency_sweep(scenario, np.array([1, 7, 100]))
    for row, running in enumerate(sweep.values.tolist()):
        single = estimate(Scenario(profile="achievable", concurrency=running), "serve")
        assert np.asarray(sweep.estimate.tpot)[row] == pytest.approx(single.tpot, rel=1e-12)
        assert np.asarray(sweep.estimate.output_tokens_per_s)[row] == pytest.approx(
            single.output_tokens_per_s, rel=1e-12
        )


def test_the_sweep_reaches_what_fits_and_just_beyond() -> None:
    sweep = concurrency_sweep(SCENARIO)
    fits = np.asarray(sweep.estimate.feasible)
    assert sweep.values[fits].max() == largest_concurrency(SCENARIO) == 195
    assert not fits[-1]


def test_longer_prompts_take_longer_and_leave_room_for_fewer() -> None:
    sweep = context_sweep(Scenario(context_bucket=4_096), 2 ** np.arange(10, 18))
    assert np.all(np.diff(sweep.estimate.ttft) > 0)
    assert np.all(np.diff(sweep.estimate.tpot) > 0)
    assert np.all(np.diff(sweep.estimate.max_concurrency) < 0)


@pytest.mark.parametrize("limit", [0.0125, 0.02, 0.05])
def test_the_latency_limit_holds_and_the_next_request_breaks_it(limit: float) -> None:
    point = operating_point(SCENARIO, max_tpot=limit)
    assert point.limited_by == "tpot"
    assert "memory would hold" in point.message
    assert point.tpot <= point.tpot_with_stalls <= limit
    beyond = estimate(Scenario(profile="achievable", concurrency=point.concurrency + 1), "serve")
    assert beyond.tpot_with_stalls > limit
    assert point.output_tokens_per_s == pytest.approx(
        estimate(Scenario(profile="achievable", concurrency=point.concurrency), "serve").output_tokens_per_s, rel=1e-9
    )


def test_memory_and_latency_are_told_apart() -> None:
    roomy, tight = operating_point(SCENARIO), operating_point(SCENARIO, max_tpot=10.0)
    assert roomy.limited_by == tight.limited_by == "memory"
    assert roomy.concurrency == roomy.max_concurrency == 195
    assert "HBM holds no more" in tight.message
    small = Scenario(model="qwen3-32b", system="trn2.48xlarge", tp=2)
    nothing = operating_point(small, max_tpot=0.05)
    assert (nothing.concurrency, nothing.limited_by, nothing.output_tokens_per_s) == (0, "memory", 0.0)


def test_limits_that_one_request_breaks_are_named() -> None:
    slow, late = operating_point(SCENARIO, max_tpot=0.001), operating_point(SCENARIO, max_ttft=0.01)
    assert (slow.concurrency, slow.limited_by) == (0, "tpot")
    assert (late.concurrency, late.limited_by) == (0, "ttft")
    assert "even one request" in slow.message
    assert "first token" in late.message


def test_broken_limits_are_violations_with_a_remedy() -> None:
    result = estimate(SCENARIO, "serve")
    assert latency_violations(result, None, None) == ()
    assert latency_violations(result, 1.0, 1.0) == ()
    both = latency_violations(result, 0.01, 0.01)
    assert [v.resource for v in both] == ["time to first token", "time per output token"]
    assert all(v.demand > v.limit == 0.01 and v.unit == "s" and v.remedy for v in both)
