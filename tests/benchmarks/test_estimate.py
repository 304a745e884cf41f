"""Time of one estimate, and of a batch of plans."""

from __future__ import annotations

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from trn2model.model.estimate import estimate
from trn2model.specs.scenario import Scenario


@pytest.mark.parametrize("workload", ["train", "serve"])
def test_one_estimate(benchmark: BenchmarkFixture, workload: str) -> None:
    """Target: 2 ms median."""
    scenario = Scenario(sequence_length=8192)
    result = benchmark(lambda: estimate(scenario, workload))  # type: ignore[call-overload]
    assert result.feasible


def test_a_batch_of_plans(benchmark: BenchmarkFixture) -> None:
    """4,096 plans in one call."""
    rng = np.random.default_rng(0)
    tp, pp = 2 ** rng.integers(2, 6, 4096), 2 ** rng.integers(0, 3, 4096)
    scenario = Scenario(tp=tp, pp=pp, sequence_length=8192)
    result = benchmark(lambda: estimate(scenario))
    assert result.step_time.shape == (4096,)
