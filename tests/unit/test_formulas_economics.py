"""Money by hand; checkpoints against a search for the optimum and against simulated failures."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.formulas.economics import (
    cost_per_token,
    goodput_fraction,
    optimal_checkpoint_interval,
    system_mtbf,
    training_cost,
    training_time,
    young_checkpoint_interval,
)


def test_a_dollar_per_hour_buys_3600_tokens_at_one_per_second():
    assert cost_per_token(1.0, 1.0) == pytest.approx(1 / 3600, rel=1e-15)
    assert cost_per_token(36.0, 1e4) * 1e6 == pytest.approx(1.0)


def test_training_cost_is_the_price_of_its_time():
    assert training_time(1e12, 1e6) == 1e6
    assert training_cost(100.0, 1e12, 1e6) == pytest.approx(1e6 / 3600 * 100)
    assert training_cost(100.0, 1e12, 1e6) == pytest.approx(1e12 * cost_per_token(100.0, 1e6))


def test_lost_time_is_paid_for():
    assert training_cost(100.0, 1e12, 1e6, 0.8) == pytest.approx(training_cost(100.0, 1e12, 1e6) / 0.8)


def test_failures_add_up_over_components():
    assert system_mtbf(16384 * 3600.0, 16384.0) == 3600.0


def test_young_by_hand():
    assert young_checkpoint_interval(50.0, 10000.0) == 1000.0


@pytest.mark.parametrize("checkpoint", [1e-6, 1e-3, 0.05, 0.3, 1.0])
def test_daly_is_the_best_interval(checkpoint):
    intervals = np.geomspace(1e-4, 20, 200_001)
    best = np.max(goodput_fraction(intervals, checkpoint, 0.1, 1.0))
    chosen = goodput_fraction(optimal_checkpoint_interval(checkpoint, 1.0), checkpoint, 0.1, 1.0)
    assert best * (1 - 2e-4) <= chosen <= best * (1 + 1e-9)


def test_the_interval_scales_with_the_times():
    assert optimal_checkpoint_interval(0.3 * 7.0, 7.0) == pytest.approx(7.0 * optimal_checkpoint_interval(0.3, 1.0))


def test_daly_is_young_for_short_checkpoints_and_the_mtbf_for_long_ones():
    assert optimal_checkpoint_interval(1e-8, 1.0) == pytest.approx(young_checkpoint_interval(1e-8, 1.0), rel=1e-3)
    assert optimal_checkpoint_interval(2.0, 1.0) == optimal_checkpoint_interval(5.0, 1.0) == 1.0


def simulated_goodput(interval, checkpoint, restart, mtbf, segments, seed):
    """Run segments of work plus checkpoint; a failure throws the segment away and costs a restart, which may fail."""
    rng = np.random.default_rng(seed)
    clock, next_failure = 0.0, rng.exponential(mtbf)
    for _ in range(segments):
        need = interval + checkpoint
        while next_failure < clock + need:
            clock = next_failure
            next_failure = clock + rng.exponential(mtbf)
            need = restart + interval + checkpoint
        clock += need
    return segments * interval / clock


@pytest.mark.parametrize("interval", [0.1, 0.5, 1.5])
def test_goodput_is_that_of_simulated_failures_without_restart(interval):
    simulated = simulated_goodput(interval, 0.02, 0.0, 1.0, 60_000, seed=11)
    assert goodput_fraction(interval, 0.02, 0.0, 1.0) == pytest.approx(simulated, rel=0.01)


@pytest.mark.parametrize("restart", [0.01, 0.05])
def test_goodput_is_that_of_simulated_failures_with_restart(restart):
    simulated = simulated_goodput(0.3, 0.02, restart, 1.0, 100_000, seed=12)
    assert goodput_fraction(0.3, 0.02, restart, 1.0) == pytest.approx(simulated, rel=0.015)


def test_a_machine_that_never_fails_only_writes_checkpoints():
    assert goodput_fraction(900.0, 100.0, 60.0, 1e15) == pytest.approx(0.9)


def test_a_hopeless_machine_makes_no_progress_and_no_warning():
    assert 0.0 <= goodput_fraction(1e9, 1e9, 1e9, 1.0) < 1e-100
