"""Scaling: the same training step on more and more machines, at a fixed batch or with a batch that grows with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError, Trn2ModelError
from trn2model.model.training.step import TrainingEstimate, estimate_training
from trn2model.specs import catalog
from trn2model.specs.fields import AUTO
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario

Scaling = Literal["strong", "weak"]
SCALINGS: Final[tuple[Scaling, ...]] = ("strong", "weak")
#: Powers of two up to which machines are counted.
_MOST_CHIPS: Final = 1024


@dataclass(frozen=True, slots=True)
class ScalingCurve:
    """Estimates over the number of machines; arrays have shape (counts,), one entry per count that can be laid out."""

    system: str  # name
    scaling: Scaling  # strong or weak
    counts: NDArray[np.int64]  # machines
    num_chips: NDArray[np.float64]  # of them
    global_batch_size: NDArray[np.float64]  # [sequence]
    step_time: NDArray[np.float64]  # [s]
    tokens_per_s: NDArray[np.float64]  # [token/s]
    efficiency: NDArray[np.float64]  # throughput per chip over that of the first entry [1]
    run_time: NDArray[np.float64]  # of the whole training run [s]
    run_cost_usd: NDArray[np.float64]  # NaN without a price [USD]
    goodput: NDArray[np.float64]  # [1]
    feasible: NDArray[np.bool_]  # fits into HBM
    left_out: tuple[tuple[int, str], ...]  # other counts, and why they are missing


def scaling_counts(system: str, count: int) -> tuple[int, ...]:
    """Numbers of machines worth looking at: powers of two, and the scenario's own."""
    most = max(_MOST_CHIPS // catalog.system(system).num_chips, 1)
    return tuple(sorted({2**n for n in range(most.bit_length())} | ({count} if count else set())))


def scaling_curve(scenario: Scenario, scaling: Scaling, counts: Sequence[int], system: str = "") -> ScalingCurve:
    """Training over a number of machines; data parallelism takes the ranks that are added.

    Raises InvalidInputError (the scaling is neither strong nor weak).
    """
    if scaling not in SCALINGS:
        raise InvalidInputError("scaling", scaling, "strong or weak", "choose one of the two")
    name = system or scenario.system
    kept: list[tuple[int, TrainingEstimate]] = []
    left_out: list[tuple[int, str]] = []
    for count in counts:
        try:
            kept.append((count, estimate_training(resolve(_scaled(scenario, scaling, count, name)))))
        except Trn2ModelError as error:
            left_out.append((count, str(error)))
    return _curve(name, scaling, kept, tuple(left_out))


def _scaled(scenario: Scenario, scaling: Scaling, count: int, system: str) -> Scenario:
    before = catalog.system(scenario.system).num_chips * scenario.count
    chips = catalog.system(system).num_chips * count
    changes: dict[str, Any] = {"system": system, "count": count, "dp": AUTO}
    if not isinstance(scenario.tp, str):
        changes["tp"] = scenario.tp
    if scaling == "weak":
        changes["global_batch_size"] = max(round(int(scenario.global_batch_size) * chips / before), 1)
    return replace(scenario, **changes)


def _curve(
    system: str, scaling: Scaling, kept: list[tuple[int, TrainingEstimate]], left_out: tuple[tuple[int, str], ...]
) -> ScalingCurve:
    estimates = [estimate for _, estimate in kept]
    chips = np.array([count * catalog.system(system).num_chips for count, _ in kept], dtype=np.float64)
    rate = _column(estimate.tokens_per_s for estimate in estimates)
    per_chip = rate / chips
    runs = [estimate.run for estimate in estimates]
    return ScalingCurve(
        system=system,
        scaling=scaling,
        counts=np.array([count for count, _ in kept], dtype=np.int64),
        num_chips=chips,
        global_batch_size=_column(estimate.resolved.plan.global_batch_size for estimate in estimates),
        step_time=_column(estimate.step_time for estimate in estimates),
        tokens_per_s=rate,
        efficiency=per_chip / per_chip[:1],
        run_time=_column(run.time for run in runs),
        run_cost_usd=_column(np.nan if run.cost_usd is None else run.cost_usd for run in runs),
        goodput=_column(run.goodput for run in runs),
        feasible=np.array([bool(estimate.feasible) for estimate in estimates], dtype=np.bool_),
        left_out=left_out,
    )


def _column(values: Any) -> NDArray[np.float64]:  # noqa: ANN401 (a generator of numbers)
    return np.array([float(value) for value in values], dtype=np.float64)
