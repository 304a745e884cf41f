"""Sweeps and operating points: the largest throughput within memory and latency, and which of them holds it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trn2model.model.estimate import estimate
from trn2model.model.serving.sweeps import (
    concurrency_sweep,
    context_sweep,
    largest_concurrency,
    latency_violations,
    operating_point,
)
from trn2model.specs.scenario import MAX_CONCURRENCY, Scenario

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
    assert late.message.endswith("limit 10 ms: no concurrency keeps it")
    both = operating_point(SCENARIO, max_ttft=0.01, max_tpot=0.001)
    assert both.limited_by == "ttft"
    assert late.message in both.message
    assert slow.message in both.message


def test_prefill_that_sets_the_rate_is_named() -> None:
    apart = Scenario(model="llama-3.1-70b", system="trn2-ultraserver", prefill_replicas=1, profile="achievable")
    lone = Scenario(profile="achievable", output_tokens=1)
    for scenario, said in ((apart, "the prefill replicas bring no more"), (lone, "prefill alone sets the rate")):
        for limit in (None, 0.05):
            point = operating_point(scenario, max_tpot=limit)
            assert point.limited_by == "range"
            assert said in point.message
            more = estimate(replace(scenario, concurrency=point.concurrency + 40), "serve")
            assert more.output_tokens_per_s == pytest.approx(point.output_tokens_per_s, rel=1e-9)
            assert more.feasible
    tight = operating_point(apart, max_tpot=0.012)
    assert tight.limited_by == "tpot"
    assert tight.message.startswith("1 request per replica: 2 would take ")


def test_throughput_that_falls_again_is_no_matter_of_prefill() -> None:
    point = operating_point(Scenario(model="llama-3.1-8b", input_tokens=16, output_tokens=16))
    assert point.limited_by == "range"
    assert point.concurrency < point.max_concurrency
    assert "more bring no throughput" in point.message


def test_what_leaves_no_room_for_one_request_is_told_apart() -> None:
    box = Scenario(model="llama-3.1-70b", system="trn2.48xlarge", tp=8)
    weights = operating_point(replace(box, tp=4)).message
    assert "the weights alone take 32.86 GiB, more than the 24 GiB of HBM per logical core" in weights
    wide = replace(box, input_tokens=130_000, kv_dtype="fp8", cp=2, sequence_parallel=False)
    space = operating_point(wide).message
    assert space.startswith("the working space of a prefill pass takes 7.594 GiB, more than the weights (16.43 GiB)")
    long = operating_point(replace(box, input_tokens=100_000)).message
    assert long.startswith("KV cache and logits of one request take 3.8")
    drafted = replace(box, tp=4, draft_model="llama-3.1-8b", draft_tokens=2, acceptance=0.5)
    assert "the weights with those of the draft model alone take" in operating_point(drafted).message


def test_broken_limits_are_violations_with_a_remedy() -> None:
    result = estimate(SCENARIO, "serve")
    assert latency_violations(result, None, None) == ()
    assert latency_violations(result, 1.0, 1.0) == ()
    both = latency_violations(result, 0.01, 0.01)
    assert [v.resource for v in both] == ["time to first token", "time per output token"]
    assert all(v.demand > v.limit == 0.01 and v.unit == "s" and v.remedy for v in both)


def test_the_default_sweep_stays_within_the_field() -> None:
    sweep = concurrency_sweep(Scenario(input_tokens=1, output_tokens=1))
    assert sweep.values.max() <= MAX_CONCURRENCY
    assert len(sweep.values) > 10


def test_a_limit_at_the_estimate_itself_is_kept() -> None:
    scenario = Scenario(
        model="mixtral-8x7b",
        system="p5.48xlarge",
        count=16,
        tp=1,
        ep=2,
        output_tokens=100_000,
        concurrency=2,
        prefix_hit=0.5,
        kv_dtype="mxfp8",
        moe_imbalance=1.5,
    )
    limit = float(estimate(scenario, "serve").tpot_with_stalls)
    assert operating_point(scenario, None, limit).concurrency == 2
