"""Measured rows of training and inference as scenarios, and their times under any constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import Trn2ModelError
from trn2model.model.calls import plan_network
from trn2model.model.serving.steady import decode_context, decode_pass, decode_span, estimate_serving, prefill_pass
from trn2model.model.training.step import estimate_training
from trn2model.specs import catalog
from trn2model.specs.fields import IntField
from trn2model.specs.model import ModelSpec
from trn2model.specs.profile import Kind, Profile
from trn2model.specs.resolve import Resolved, resolve
from trn2model.specs.scenario import FIELDS, ROWS, Scenario
from trn2model.validation.measurements import Measurement, holds_stalls, measured_model, selected_profile

_TRAINING_FIELDS: Final = (
    "tp",
    "cp",
    "ep",
    "dp",
    "pp",
    "interleave",
    "zero",
    "sequence_parallel",
    "microbatch_size",
    "global_batch_size",
    "sequence_length",
    "precision",
    "optimizer",
    "recompute",
    "attention_kernel",
    "lora_rank",
)
_SERVING_FIELDS: Final = (
    "tp",
    "dp",
    "concurrency",
    "compiled_batch",
    "input_tokens",
    "output_tokens",
    "precision",
    "weight_dtype",
    "kv_dtype",
)
#: Stacks that give every query head its own key/value head where tp does not divide those.
_EXPANDING_STACKS: Final = ("transformers-neuronx",)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One measured time with the scenario that predicts it.

    `profile` is the one that machine, workload and software path select; the model never does. `prompts` are those
    that one prefill takes. `nic_bandwidth` replaces the machine's where the source had another network. [B/s]
    `stalled` says that a time per token holds the prefills of other requests.
    """

    kind: Kind
    row: Measurement
    measured: float
    profile: str
    scenario: Scenario
    prompts: float = 1.0
    nic_bandwidth: float | None = None
    stalled: bool = False


def timed_case(row: Measurement, profile: str | None = None) -> Case | str:
    """Case of a row of training or inference, or why there is none."""
    kind = row.kind
    if kind is None or not row.measured:
        return f"{row.metric} is not the time of one pass or step"
    if row.values.get("draft_model"):
        return "speculative decoding: acceptance not measured"
    try:
        name = profile or selected_profile(row)
        scenario = _training_scenario(row, name) if kind is Kind.TRAIN else _serving_scenario(row, name)
    except Trn2ModelError as error:
        return str(error)
    prompts = row.values.get("prefill_batch") if kind is Kind.PREFILL else None
    nic = row.values.get("nic_bandwidth")
    return Case(
        kind=kind,
        row=row,
        measured=row.measured,
        profile=name,
        scenario=scenario,
        prompts=prompts if isinstance(prompts, float) else 1.0,
        nic_bandwidth=nic if isinstance(nic, float) else None,
        stalled=holds_stalls(row),
    )


@cache
def padded_model(name: str, tp: int, expand_kv: bool) -> ModelSpec:
    """Architecture as a Neuron stack shards it: heads padded to a multiple of the tensor-parallel degree.

    References
    ----------
    .. [1] neuron-gqa
    """
    model = measured_model(name)
    kinds = []
    for kind in model.layer_kinds:
        spec = kind.attention
        heads = math.ceil(spec.num_heads / tp) * tp
        own = spec.num_kv_heads
        if spec.latent is None and ((expand_kv and own % tp) or own == spec.num_heads):
            own = heads
        kinds.append(replace(kind, attention=replace(spec, num_heads=heads, num_kv_heads=own)))
    return model if tuple(kinds) == model.layer_kinds else replace(model, layer_kinds=tuple(kinds))


def _given(row: Measurement, names: tuple[str, ...]) -> dict[str, Any]:
    cells = {name: row.values.get(name) for name in (*names, "system", "count", "lnc")}
    return {
        name: int(cell) if isinstance(cell, float) and isinstance(ROWS[name], IntField) else cell
        for name, cell in cells.items()
        if cell is not None
    }


def _training_scenario(row: Measurement, profile: str) -> Scenario:
    fields = _given(row, _TRAINING_FIELDS)
    return Scenario(model=_scenario_model(row, fields), profile=profile, **fields)


def _serving_scenario(row: Measurement, profile: str) -> Scenario:
    fields = {"dp": 1, "output_tokens": 1} | _given(row, _SERVING_FIELDS)
    fields["dp"] = 1  # replicas work apart; their times are those of one
    fields.setdefault("concurrency", 1)
    fields["compiled_batch"] = max(fields.get("compiled_batch", 1), fields["concurrency"])
    return Scenario(model=_scenario_model(row, fields), profile=profile, **fields)


def _scenario_model(row: Measurement, fields: Mapping[str, Any]) -> str | ModelSpec:
    model = padded_model(row.text("model"), fields.get("tp", 1), row.text("stack") in _EXPANDING_STACKS)
    return model.name if model.name in catalog.model_names() and model is catalog.model(model.name) else model


Floats = NDArray[np.float64]
#: Spread of a bound: the best case of a mean time per token is that no other prompt enters.
_NO_RANGE = (1.0, 1.0)
_PLAN_FIELDS = tuple(row.name for row in FIELDS if row.plan)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Cases evaluated together: their places in the list they came from, and one resolved scenario for all."""

    kind: Kind
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
    resolved = resolve(scenario, "train" if first.kind is Kind.TRAIN else "serve")
    if first.nic_bandwidth:
        resolved = replace(resolved, system=replace(resolved.system, nic_bandwidth=first.nic_bandwidth))
    return Batch(first.kind, np.array(places), resolved, np.array([case.prompts for case in cases]), first.stalled)


def batch_times(batch: Batch, profile: Profile | None = None) -> Floats:
    """Predicted times of a batch [s]."""
    resolved = batch.resolved if profile is None else replace(batch.resolved, profile=profile)
    if batch.kind is Kind.TRAIN:
        return np.atleast_1d(estimate_training(resolved).step_time)
    network = plan_network(resolved)
    if batch.kind is Kind.PREFILL:
        one = np.atleast_1d(prefill_pass(resolved, network)[0].time)
        return one * batch.factor + resolved.profile.serving.request_time
    if batch.stalled and resolved.profile.spread(Kind.DECODE) != _NO_RANGE:
        return np.atleast_1d(estimate_serving(resolved).tpot_with_stalls)
    return np.atleast_1d(decode_pass(resolved, network, decode_context(resolved), decode_span(resolved)).time)


def predicted_times(batched: Sequence[Batch], num_cases: int, profile: Profile | None = None) -> Floats:
    """Predicted times of all cases [s]."""
    times = np.empty(num_cases)
    for batch in batched:
        times[batch.index] = batch_times(batch, profile)
    return times
