"""Estimates shared by all visitors: the same scenario is calculated once.

An ordinary cache on the scenario's own equality: Streamlit's would pickle every result, at the cost of computing it.
"""

from __future__ import annotations

from functools import lru_cache

from trn2model.estimate import estimate
from trn2model.estimate.training import TrainingEstimate
from trn2model.specs.scenario import Scenario


@lru_cache(maxsize=512)
def training(scenario: Scenario) -> TrainingEstimate:
    """Training estimate of a scenario, from the cache if it was asked before.

    Parameters
    ----------
    scenario : Scenario
        The inputs.

    Returns
    -------
    TrainingEstimate
        Shared between visitors and never changed.

    Raises
    ------
    Trn2ModelError
        The scenario means nothing, or the hardware cannot run it.
    """
    return estimate(scenario)
