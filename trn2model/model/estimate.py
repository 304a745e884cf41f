"""The one place where formulas meet specs: from a scenario to an estimate."""

from __future__ import annotations

from typing import Literal, overload

from trn2model.model.serving.steady import ServingEstimate, estimate_serving
from trn2model.model.training.step import TrainingEstimate, estimate_training
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario

__all__ = ["ServingEstimate", "TrainingEstimate", "estimate"]


@overload
def estimate(scenario: Scenario, workload: Literal["train"] = "train") -> TrainingEstimate: ...


@overload
def estimate(scenario: Scenario, workload: Literal["serve"]) -> ServingEstimate: ...


def estimate(scenario: Scenario, workload: Literal["train", "serve"] = "train") -> TrainingEstimate | ServingEstimate:
    """Estimate of a scenario: a training step, or serving.

    Parameters
    ----------
    scenario : Scenario
        Model, machine, plan and workload; plan fields may be arrays.
    workload : str
        "train" or "serve".

    Returns
    -------
    TrainingEstimate or ServingEstimate
        Attributes are the JSON names; arrays where the scenario holds arrays.

    Raises
    ------
    InvalidInputError
        The plan cannot be laid out on the model and the machine.
    UnsupportedError
        The chip publishes no rate for what was asked.

    Examples
    --------
    >>> estimate(Scenario(model="llama-3.1-8b", system="trn2.48xlarge", tp=8)).feasible
    True
    """
    resolved = resolve(scenario, workload)
    return estimate_serving(resolved) if workload == "serve" else estimate_training(resolved)
