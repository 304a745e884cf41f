"""Performance model of AWS Trainium2 chips, Trn2 instances and Trn2 UltraServers.

`estimate(Scenario(...))` is the whole of it; `catalog` names the machines and models. Importing the package loads
NumPy and nothing heavier.
"""

from trn2model.errors import (
    DataError,
    InvalidInputError,
    InvalidPlanError,
    NothingFeasibleError,
    Trn2ModelError,
    UnknownNameError,
    UnsupportedError,
)
from trn2model.model.estimate import ServingEstimate, TrainingEstimate, estimate
from trn2model.specs import catalog
from trn2model.specs.scenario import Scenario

__all__ = [
    "DataError",
    "InvalidInputError",
    "InvalidPlanError",
    "NothingFeasibleError",
    "Scenario",
    "ServingEstimate",
    "TrainingEstimate",
    "Trn2ModelError",
    "UnknownNameError",
    "UnsupportedError",
    "catalog",
    "estimate",
]
