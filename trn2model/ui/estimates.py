"""Estimates shared by all visitors: the same scenario is calculated once.

An ordinary cache on the scenario's own equality: Streamlit's would pickle every result, at the cost of computing it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from trn2model.model.estimate import ServingEstimate, estimate
from trn2model.model.serving import sweeps as serving_plan
from trn2model.model.training.scaling import Scaling, ScalingCurve, scaling_curve
from trn2model.model.training.step import TrainingEstimate
from trn2model.specs.scenario import Scenario


@lru_cache(maxsize=512)
def training(scenario: Scenario) -> TrainingEstimate:
    """Training estimate of a scenario, from the cache if it was asked before.

    Raises Trn2ModelError (the scenario means nothing, or the hardware cannot run it).
    """
    return estimate(scenario)


@lru_cache(maxsize=512)
def serving(scenario: Scenario) -> ServingEstimate:
    """Serving estimate of a scenario, from the cache if it was asked before.

    Raises Trn2ModelError (the scenario means nothing, or the hardware cannot run it).
    """
    return estimate(scenario, "serve")


@lru_cache(maxsize=256)
def operating_point(scenario: Scenario, max_ttft: float, max_tpot: float) -> serving_plan.OperatingPoint:
    """Largest throughput within latency limits, from the cache if it was asked before."""
    return serving_plan.operating_point(scenario, max_ttft, max_tpot)


@lru_cache(maxsize=128)
def concurrency_sweep(scenario: Scenario, concurrencies: tuple[int, ...]) -> serving_plan.ServingSweep:
    """Serving over concurrency, from the cache if it was asked before."""
    return serving_plan.concurrency_sweep(scenario, np.array(concurrencies))


@lru_cache(maxsize=128)
def context_sweep(scenario: Scenario, tokens: tuple[int, ...]) -> serving_plan.ServingSweep:
    """Serving over the prompt's length, from the cache if it was asked before."""
    return serving_plan.context_sweep(scenario, np.array(tokens), own_bucket=True)


@lru_cache(maxsize=256)
def scaling(scenario: Scenario, kind: Scaling, counts: tuple[int, ...], system: str = "") -> ScalingCurve:
    """Training over a number of machines, from the cache if it was asked before."""
    return scaling_curve(scenario, kind, counts, system)
