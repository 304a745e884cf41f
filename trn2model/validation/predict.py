"""Predicted times of cases under any constants: cases that differ only in plan columns are evaluated as one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.network.plan_network import plan_network
from trn2model.estimate.serving.steady import (
    decode_context,
    decode_pass,
    decode_span,
    estimate_serving,
    prefill_pass,
)
from trn2model.estimate.training.step import estimate_training
from trn2model.specs.profile import Profile
from trn2model.specs.resolve import Resolved, resolve
from trn2model.specs.scenario import FIELDS
from trn2model.validation.cases import Case

Floats = NDArray[np.float64]
#: Spread of a bound: the best case of a mean time per token is that no other prompt enters.
_NO_RANGE = (1.0, 1.0)
_PLAN_FIELDS = tuple(row.name for row in FIELDS if row.plan)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Cases evaluated together: their places in the list they came from, and one resolved scenario for all."""

    kind: str
    index: NDArray[np.int64]
    resolved: Resolved
    factor: Floats  # passes in the measured time: prompts of one prefill
    stalled: bool = False  # times per token hold prefills of other requests


def batches(cases: Sequence[Case]) -> list[Batch]:
    """Group cases whose scenarios differ only in plan columns."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, case in enumerate(cases):
        groups.setdefault(_key(case), []).append(place)
    return [_batch([cases[i] for i in places], places) for places in groups.values()]


def _key(case: Case) -> tuple[object, ...]:
    scenario = case.scenario
    static = tuple(
        (value.name, id(value)) if name == "model" and not isinstance(value, str) else value
        for name, value in ((row.name, getattr(scenario, row.name)) for row in FIELDS)
        if name not in _PLAN_FIELDS
    )
    autos = tuple(isinstance(getattr(scenario, name), str) for name in _PLAN_FIELDS)
    return (case.kind, static, autos, case.nic_bandwidth, case.stalled)


def _batch(cases: Sequence[Case], places: Sequence[int]) -> Batch:
    first = cases[0]
    scenario = first.scenario
    if len(cases) > 1:
        columns: dict[str, Any] = {
            name: np.array([getattr(case.scenario, name) for case in cases])
            for name in _PLAN_FIELDS
            if not isinstance(getattr(scenario, name), str)
        }
        scenario = replace(scenario, **columns)
    resolved = resolve(scenario, "train" if first.kind == "train" else "serve")
    if first.nic_bandwidth:
        resolved = replace(resolved, system=replace(resolved.system, nic_bandwidth=first.nic_bandwidth))
    return Batch(first.kind, np.array(places), resolved, np.array([case.prompts for case in cases]), first.stalled)


def batch_times(batch: Batch, profile: Profile | None = None) -> Floats:
    """Predicted times of a batch [s]."""
    resolved = batch.resolved if profile is None else replace(batch.resolved, profile=profile)
    if batch.kind == "train":
        return np.atleast_1d(estimate_training(resolved).step_time)
    network = plan_network(resolved)
    if batch.kind == "prefill":
        one = np.atleast_1d(prefill_pass(resolved, network)[0].time)
        return one * batch.factor + resolved.profile.constants.request_time
    if batch.stalled and resolved.profile.spread("decode") != _NO_RANGE:
        return np.atleast_1d(estimate_serving(resolved).tpot_with_stalls)
    return np.atleast_1d(decode_pass(resolved, network, decode_context(resolved), decode_span(resolved)).time)


def predicted_times(batched: Sequence[Batch], num_cases: int, profile: Profile | None = None) -> Floats:
    """Predicted times of all cases [s]."""
    times = np.empty(num_cases)
    for batch in batched:
        times[batch.index] = batch_times(batch, profile)
    return times


def with_constants(profile: Profile, values: Mapping[str, Any]) -> Profile:
    """Profile with some constants replaced."""
    return replace(profile, constants=replace(profile.constants, **values))
