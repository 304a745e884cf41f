"""Whole runs and scaling: time, cost and goodput follow from throughput, failures and checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.errors import InvalidInputError
from trn2model.model.estimate import estimate
from trn2model.model.training.scaling import scaling_counts, scaling_curve
from trn2model.specs.resolve import reliability_figures, run_settings
from trn2model.specs.scenario import Scenario

PLAN = Scenario(model="llama-3.1-8b", system="trn2.48xlarge", count=4, tp=8)


def test_a_run_without_failures_is_tokens_over_throughput() -> None:
    scenario = Scenario(
        model="llama-3.1-8b", tp=8, training_tokens=1e12, instance_mtbf=1e9, checkpoint_bandwidth=1e5, restart_time=0
    )
    result = estimate(scenario)
    assert result.run.time == pytest.approx(1e12 / result.tokens_per_s, rel=1e-4)
    assert result.run.goodput == pytest.approx(1, abs=1e-4)


def test_failures_and_checkpoints_follow_daly() -> None:
    """One optimum: no other interval gives more goodput; more instances fail more often."""
    run = estimate(PLAN).run
    assert run.job_mtbf == pytest.approx(6334 * 3600 / 4)
    # 2 B weights, 4 B master, 8 B moments
    assert run.checkpoint_bytes == pytest.approx(14 * 8030261248, rel=1e-3)
    assert run.checkpoint_time == pytest.approx(run.checkpoint_bytes / (4 * 0.98e9), rel=1e-9)
    assert run.checkpoint_interval == pytest.approx(np.sqrt(2 * run.checkpoint_time * run.job_mtbf), rel=0.01)
    assert 0.95 < run.goodput < 1
    assert run.time == pytest.approx(1e12 / (estimate(PLAN).tokens_per_s * run.goodput), rel=1e-12)
    worse = estimate(Scenario(model="llama-3.1-8b", system="trn2.48xlarge", count=4, tp=8, instance_mtbf=10)).run
    assert worse.goodput < run.goodput
    assert worse.checkpoint_interval < run.checkpoint_interval


def test_cost_is_rent_times_time() -> None:
    result = estimate(Scenario(model="llama-3.1-8b", system="p5.48xlarge", count=2, tp=8))
    assert result.cost.usd_per_hour is not None
    assert result.run.cost_usd == pytest.approx(result.cost.usd_per_hour * result.run.time / 3600, rel=1e-12)
    assert estimate(Scenario()).run.cost_usd is None or estimate(Scenario()).cost.usd_per_hour is not None


def test_settings_are_the_scenarios_or_published() -> None:
    assert run_settings(Scenario())["instance_mtbf"] == pytest.approx(6334)
    assert run_settings(Scenario(restart_time=5))["restart_time"] == 5
    assert all(figure.source for figure in reliability_figures().values())


def test_weak_scaling_keeps_the_work_per_chip_and_strong_scaling_the_batch() -> None:
    counts = (1, 2, 4, 8)
    strong, weak = (scaling_curve(PLAN, kind, counts) for kind in ("strong", "weak"))
    assert strong.global_batch_size.tolist() == [1024] * 4
    assert weak.global_batch_size.tolist() == [256, 512, 1024, 2048]
    assert np.all(np.diff(strong.step_time) < 0)
    assert strong.efficiency[0] == weak.efficiency[0] == 1
    assert np.all(strong.efficiency <= 1 + 1e-9)
    assert np.all(weak.efficiency[1:] >= strong.efficiency[1:] - 1e-9) or weak.efficiency[-1] > strong.efficiency[-1]
    alone = estimate(PLAN)
    assert strong.tokens_per_s[2] == pytest.approx(alone.tokens_per_s, rel=1e-12)
    assert strong.run_time[2] == pytest.approx(alone.run.time, rel=1e-12)


def test_counts_that_mean_nothing_are_left_out_with_a_reason() -> None:
    curve = scaling_curve(Scenario(model="llama-3.1-8b", tp=8, global_batch_size=64), "strong", (1, 2, 4))
    assert curve.counts.tolist() == [1, 2]
    ((count, reason),) = curve.left_out
    assert count == 4
    assert "global_batch_size" in reason
    with pytest.raises(InvalidInputError, match="strong or weak"):
        scaling_curve(PLAN, "sideways", (1,))  # type: ignore[arg-type]


def test_counts_are_powers_of_two_and_ones_own() -> None:
    assert scaling_counts("trn2-ultraserver", 3) == (1, 2, 3, 4, 8, 16)
    assert scaling_counts("trn2.48xlarge", 0)[-1] == 64
