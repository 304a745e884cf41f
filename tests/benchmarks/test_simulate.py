"""Time of the event-driven twins: a queue of a thousand requests, a long pipeline, a batch of varied plans."""

from __future__ import annotations

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from trn2model.model.estimate import estimate
from trn2model.simulate.pipeline import simulate_pipeline
from trn2model.simulate.queue import simulate_scenario
from trn2model.specs.scenario import Scenario


@pytest.mark.parametrize("chunk", [0, 256])
def test_a_thousand_requests(benchmark: BenchmarkFixture, chunk: int) -> None:
    """Target: 2 s."""
    scenario = Scenario(prefill_chunk=chunk)
    trace = benchmark(lambda: simulate_scenario(scenario, 6.0, 1_000, variation=0.5))
    assert len(trace.finish) == 1_000


def test_an_interleaved_pipeline(benchmark: BenchmarkFixture) -> None:
    """Target: 0.5 s for 16 stages, 4 chunks each, 256 microbatches."""
    stage_times = np.linspace(1, 2, 16)
    trace = benchmark(lambda: simulate_pipeline("1f1b", stage_times, 2.0, num_microbatches=256, interleave=4))
    assert trace.total_time > 0


def test_a_thousand_plans_with_experts_and_stages(benchmark: BenchmarkFixture) -> None:
    """Target: 2 s for 1,000 plans of a mixture of experts over tp, pp, cp and ep."""
    rng = np.random.default_rng(7)
    tp, (pp, cp, ep) = rng.choice([2, 4, 8], 1000), rng.choice([1, 2, 4], (3, 1000))
    dp = 512 // (tp * pp * cp * ep)
    scenario = Scenario(model="qwen3-235b-a22b", count=2, global_batch_size=4096, tp=tp, pp=pp, cp=cp, ep=ep, dp=dp)
    result = benchmark(lambda: estimate(scenario))
    assert np.shape(result.step_time) == (1000,)
