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
