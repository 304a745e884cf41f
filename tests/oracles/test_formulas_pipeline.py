"""Closed forms of the schedules against the schedules run task by task."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.formulas import pipeline
from trn2model.simulate.pipeline import simulate_pipeline


@pytest.mark.parametrize(("pp", "v"), [(1, 1), (2, 1), (5, 1), (8, 1), (2, 2), (4, 3), (8, 2), (8, 4)])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_in_flight_of_every_stage(pp, v, groups):
    m = pp * groups
    trace = simulate_pipeline("1f1b", np.ones(pp), 2.0, num_microbatches=m, interleave=v)
    formula = pipeline.in_flight_microbatches(pp, np.arange(float(pp)), v, m)
    np.testing.assert_allclose(trace.peak_activation, formula, rtol=1e-12)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_in_flight_of_a_short_step(m):
    trace = simulate_pipeline("1f1b", np.ones(8), 2.0, num_microbatches=m)
    np.testing.assert_allclose(trace.peak_activation, pipeline.in_flight_microbatches(8, np.arange(8.0), 1, m))


@pytest.mark.parametrize("m", [1, 8, 20])
def test_gpipe_in_flight(m):
    trace = simulate_pipeline("gpipe", np.ones(4), 2.0, num_microbatches=m)
    np.testing.assert_allclose(trace.peak_activation, pipeline.gpipe_in_flight_microbatches(m))


@pytest.mark.parametrize(("f", "b", "w"), [(1.0, 1.0, 1.0), (1.0, 2.0, 0.5), (1.0, 1.0, 2.0), (2.0, 1.0, 1.5)])
@pytest.mark.parametrize(("pp", "m"), [(1, 3), (2, 2), (4, 13), (8, 8), (16, 40)])
def test_zero_bubble_time(pp, m, f, b, w):
    trace = simulate_pipeline("zb-h1", np.full(pp, f), b, w, num_microbatches=m)
    bubble = pipeline.zero_bubble_time(pp, f, b, w)
    assert trace.total_time == pytest.approx(m * (f + b + w) + bubble, rel=1e-9)


@pytest.mark.parametrize("m", [1, 4, 11])
def test_uneven_gpipe(m):
    forward = np.array([1.0, 3.0, 2.0])
    trace = simulate_pipeline("gpipe", forward, 2 * forward, num_microbatches=m)
    assert trace.total_time == pytest.approx(pipeline.pipeline_time(9.0, 18.0, 1, m), rel=1e-12)


@pytest.mark.parametrize("m", [1, 4, 11])
@pytest.mark.parametrize("forward", [(1.0, 3.0, 2.0), (3.0, 1.0, 2.0), (1.0, 2.0, 3.0)])
def test_uneven_1f1b_is_shorter_by_at_most_the_later_stages(forward, m):
    stages = np.array(forward)
    simulated = simulate_pipeline("1f1b", stages, 2 * stages, num_microbatches=m).total_time
    formula = pipeline.pipeline_time(9.0, 18.0, 1, m)
    later = 3 * stages[stages.argmax() + 1 :].sum()
    assert formula - later - 1e-9 <= simulated <= formula + 1e-9
