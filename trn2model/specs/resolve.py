"""From a scenario to what the estimate reads: specs looked up, autos decided, cross-field rules checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trn2model.errors import InvalidInputError, InvalidPlanError, UnsupportedError
from trn2model.specs import catalog
from trn2model.specs.fields import AUTO
from trn2model.specs.hardware import Chip, LogicalCore, System, chip_flop_rate, logical_core
from trn2model.specs.model import ModelSpec
from trn2model.specs.plan import (
    PLAN_COLUMNS,
    WORKLOADS,
    Column,
    ParallelPlan,
    PlanLimits,
    Requests,
    Workload,
    broadcast_columns,
    check_plan,
    check_requests,
    common_shape,
    parallel_plan,
    plan_limits,
)
from trn2model.specs.profile import Profile, chosen_profile
from trn2model.specs.provenance import Figure, read_figure, read_toml
from trn2model.specs.scenario import MAX_DEGREE, Scenario
from trn2model.units import from_si


@cache
def engine_figures(part: str) -> Mapping[str, Figure]:
    """Figures of one part of data/serving.toml [token]."""
    tables = read_toml("serving.toml")[part]["figures"]
    return {key: read_figure(table, f"serving, {part}, {key}") for key, table in tables.items()}


def has_static_graphs(chip: Chip) -> bool:
    """Whether passes are compiled for fixed shapes: every Neuron engine, no GPU engine."""
    return chip.family != "gpu"


def context_bucket(tokens: Column) -> Column:
    r"""Smallest bucket that holds a prompt [token].

    .. math::
        b = 2^{\lceil \log_2 n \rceil} \text{ up to } L, \quad
        b = L + s \left\lceil \frac{n - L}{s} \right\rceil \text{ beyond}

    Examples
    --------
    >>> context_bucket(np.array([3700.0, 4096.0, 10000.0])).tolist()
    [4096.0, 4096.0, 12288.0]
    """
    limit, step = (engine_figures("buckets")[name].number() for name in ("doubling_limit", "step"))
    beyond = limit + step * np.ceil((tokens - limit) / step)
    return np.where(tokens > limit, beyond, np.exp2(np.ceil(np.log2(tokens))))


def held_bucket(tokens: Column, automatic: Column, given: int | str | NDArray[np.int64]) -> Column:
    """Bucket of each prompt: a given one as far as it holds them, the automatic one of a longer prompt [token].

    Examples
    --------
    >>> held_bucket(np.array([100.0, 5000.0]), np.array([128.0, 8192.0]), 4096).tolist()
    [4096.0, 8192.0]
    """
    if isinstance(given, str):
        return automatic
    return np.where(tokens <= given, given, automatic).astype(np.float64)


def prompts_per_pass(tokens: Column, concurrency: Column) -> Column:
    """Prompts that an engine without static graphs prefills together.

    Examples
    --------
    >>> prompts_per_pass(np.array([1000.0, 10000.0]), np.array([64.0, 64.0])).tolist()
    [8.0, 1.0]
    """
    budget = engine_figures("batching")["prefill_tokens"].number()
    return np.clip(np.floor(budget / tokens), 1.0, concurrency)


#: Scenario field and the unit its value is given in.
RUN_UNITS: Final = {"instance_mtbf": "h", "checkpoint_bandwidth": "GB/s", "restart_time": "s"}


@cache
def reliability_figures() -> dict[str, Figure]:
    """Published failures, checkpoint rates and restarts."""
    tables = read_toml("reliability.toml")["run"]["figures"]
    return {name: read_figure(table, f"reliability, {name}") for name, table in tables.items()}


def run_settings(scenario: Scenario) -> dict[str, float]:
    """Failures, checkpoint rate and restart time of a scenario, in the units of its fields."""
    figures = reliability_figures()
    return {
        name: from_si(figures[name].number(), unit) if (given := getattr(scenario, name)) == AUTO else float(given)
        for name, unit in RUN_UNITS.items()
    }


GPU_TP: Final = 8
TRAINIUM_TP: Final = 32
TRAINIUM2_CORES_TP: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """A scenario with everything decided."""

    scenario: Scenario  # as given
    workload: Workload  # "train" or "serve"
    system: System  # one of the machines
    model: ModelSpec  # architecture
    draft: ModelSpec | None  # of speculative decoding
    core: LogicalCore  # what one rank computes with
    num_ranks: int  # of all machines, idle ones included
    limits: PlanLimits  # what model and machine allow of a plan
    plan: ParallelPlan  # columns of shape (...)
    requests: Requests  # columns that broadcast against the plan's
    weight_dtype: str  # as stored
    kv_dtype: str  # as stored
    profile: Profile  # constants
    price_option: str  # such as on-demand
    price: Figure | None  # of one system, if one is published [USD/h]
    notes: tuple[str, ...]  # what was decided or left aside, in sentences

    def to_dict(self) -> dict[str, Any]:
        """Scenario as JSON values, with every "auto" replaced by what it became."""
        decided: dict[str, Any] = {name: _integers(getattr(self.plan, name)) for name in PLAN_COLUMNS}
        decided |= {name: _integers(getattr(self.requests, name)) for name in ("compiled_batch", "context_bucket")}
        names = {"weight_dtype": self.weight_dtype, "kv_dtype": self.kv_dtype}
        return (
            self.scenario.to_dict()
            | decided
            | names
            | run_settings(self.scenario)
            | {"profile": self.profile.name, "price_option": self.price_option}
        )


def resolve(scenario: Scenario, workload: Workload = "train") -> Resolved:
    """Decide what the scenario leaves open, and check what only holds across its fields.

    Parameters
    ----------
    scenario : Scenario
        The inputs; plan fields may be arrays.
    workload : str
        "train" or "serve": the rules of the batch hold for training alone, those of the requests for serving alone.

    Returns
    -------
    Resolved
        Specs, plan columns and notes.

    Raises
    ------
    InvalidInputError
        What is given is no scenario, the workload is unknown, or arrays have no common shape.
    InvalidPlanError
        The plan cannot be laid out on the model and the machine.
    UnsupportedError
        The chip has no rate for the precision or no mechanism for the sparsity pattern.
    """
    _check_arguments(scenario, workload)
    system, core = _machine(scenario.system, scenario.lnc)
    model = _model(scenario.model)
    draft = _draft(scenario, model) if workload == "serve" else None
    _check_numerics(scenario, core)
    if scenario.saved_operators and scenario.recompute != "full":
        allowed = f"none with recompute = {scenario.recompute}, which keeps them anyway"
        raise InvalidPlanError("saved_operators", scenario.saved_operators, allowed, "set recompute to full")
    num_ranks = system.num_chips * scenario.count * core.ranks_per_chip
    apart = scenario.prefill_replicas if workload == "serve" else 0
    limits = plan_limits(model, num_ranks, scenario.pipeline_schedule, draft=draft, prefill_replicas=apart)
    plan = _plan(scenario, limits, _preferred_tp(system, core))
    auto = [name for name in PLAN_COLUMNS if isinstance(getattr(scenario, name), str)]
    check_plan(plan, limits, workload, auto)
    requests = _requests(scenario, system, plan)
    if workload == "serve":
        check_requests(requests)
    chosen, extrapolated = chosen_profile(system, workload, None if scenario.profile == AUTO else scenario.profile)
    option = system.default_price_option if scenario.price_option == AUTO else scenario.price_option
    return Resolved(
        scenario=scenario,
        workload=workload,
        system=system,
        model=model,
        draft=draft,
        core=core,
        num_ranks=num_ranks,
        limits=limits,
        plan=plan,
        requests=requests,
        weight_dtype=scenario.precision if scenario.weight_dtype == AUTO else scenario.weight_dtype,
        kv_dtype=scenario.precision if scenario.kv_dtype == AUTO else scenario.kv_dtype,
        profile=chosen,
        price_option=option,
        price=system.prices.get(option),
        notes=(*extrapolated, *_notes(scenario, workload, system, model, plan=plan, num_ranks=num_ranks)),
    )


def _integers(column: Column) -> Any:  # noqa: ANN401 (int or nested list of int)
    return column.astype(np.int64).tolist()


@cache
def _machine(name: str, lnc: int) -> tuple[System, LogicalCore]:
    system = catalog.system(name)
    return system, logical_core(system, lnc)


def _model(model: str | ModelSpec) -> ModelSpec:
    return catalog.model(model) if isinstance(model, str) else model


def _draft(scenario: Scenario, model: ModelSpec) -> ModelSpec | None:
    name, tokens, acceptance = scenario.draft_model, scenario.draft_tokens, scenario.acceptance
    if name is None:
        if tokens:
            raise InvalidPlanError("draft_tokens", tokens, "0 without a draft_model", "choose a draft_model")
        if acceptance is not None:
            raise InvalidPlanError("acceptance", acceptance, "none without a draft_model", "choose a draft_model")
        return None
    if tokens == 0:
        raise InvalidPlanError("draft_tokens", 0, "1 to 64 with a draft_model", "set draft_tokens, or no draft_model")
    if acceptance is None:
        raise InvalidPlanError("acceptance", None, "0 to 1 with a draft_model", "state the measured acceptance")
    draft = _eagle(model) if name == "eagle" else catalog.model(name)
    if draft.vocab_size != model.vocab_size:
        allowed = (
            f"a model with the vocabulary of {model.name} ({model.vocab_size:,}; this one has {draft.vocab_size:,})"
        )
        raise InvalidPlanError("draft_model", name, allowed, "choose a draft of the same family, or eagle")
    return draft


def _eagle(model: ModelSpec) -> ModelSpec:
    last = model.layer_kinds[model.layer_sequence[-1]]
    return replace(model, name=f"{model.name} eagle", layer_kinds=(last,), layer_sequence=(0,))


def _check_arguments(scenario: object, workload: object) -> None:
    if not isinstance(scenario, Scenario):
        remedy = "build one with Scenario(...) or Scenario.from_dict(...)"
        raise InvalidInputError("scenario", scenario, "an instance of Scenario", remedy)
    if not isinstance(workload, str) or workload not in WORKLOADS:
        raise InvalidInputError("workload", workload, "train or serve", "choose one of the two")
    common_shape({name: value.shape for name, value in vars(scenario).items() if isinstance(value, np.ndarray)})


def _check_numerics(scenario: Scenario, core: LogicalCore) -> None:
    chip_flop_rate(core.chip, scenario.precision)
    if scenario.sparsity == "dense":
        return
    patterns = core.chip.sparsity_patterns
    if scenario.sparsity not in patterns:
        has = ", ".join(patterns) if patterns else "no sparsity pattern"
        message = (
            f"sparsity = {scenario.sparsity!r} is not supported by {core.chip.name}, which has {has}; choose dense"
        )
        raise UnsupportedError(message)
    if scenario.precision == "fp32":
        message = f"sparsity = {scenario.sparsity!r} has no published rate at precision fp32; choose bf16, fp16 or fp8"
        raise UnsupportedError(message)


def _preferred_tp(system: System, core: LogicalCore) -> int:
    if core.chip.family == "gpu":
        return GPU_TP
    return TRAINIUM2_CORES_TP // core.cores_per_rank if system.supports_lnc else TRAINIUM_TP


def _plan(scenario: Scenario, limits: PlanLimits, preferred_tp: int) -> ParallelPlan:
    columns: dict[str, ArrayLike] = {name: getattr(scenario, name) for name in PLAN_COLUMNS}
    if isinstance(scenario.tp, str):
        others = _product(scenario.cp, scenario.ep, scenario.pp, 1 if isinstance(scenario.dp, str) else scenario.dp)
        columns["tp"] = _auto_tp(preferred_tp, limits, limits.num_ranks // others)
    if isinstance(scenario.dp, str):
        used = _product(columns["tp"], scenario.cp, scenario.ep, scenario.pp)
        columns["dp"] = np.maximum(limits.num_ranks // used, 1.0)
    return parallel_plan(**columns)


def _product(*degrees: ArrayLike) -> Column:
    product = np.asarray(1.0)
    for degree in degrees:
        product = product * np.asarray(degree, dtype=np.float64)
    return product


def _auto_tp(preferred: int, limits: PlanLimits, available: Column) -> Column:
    most = np.minimum(np.maximum(available, 1.0), preferred)
    powers = _powers_of_two(limits.num_heads, limits.draft_heads)
    below = powers[np.searchsorted(powers, most, side="right") - 1]
    fits = (np.remainder(limits.num_heads, most) == 0) & (np.remainder(limits.draft_heads, most) == 0)
    return np.where(fits, most, below)


@cache
def _powers_of_two(heads: int, draft_heads: int) -> Column:
    powers = [2**n for n in range(MAX_DEGREE.bit_length()) if heads % 2**n == 0 and draft_heads % 2**n == 0]
    return np.asarray(powers, dtype=np.float64)


def _requests(scenario: Scenario, system: System, plan: ParallelPlan) -> Requests:
    tokens, batch, bucket = scenario.input_tokens, scenario.compiled_batch, scenario.context_bucket
    missed = np.maximum(np.ceil(np.asarray(tokens, dtype=np.float64) * (1 - scenario.prefix_hit)), 1.0)
    given: dict[str, ArrayLike] = {
        "input_tokens": tokens,
        "output_tokens": scenario.output_tokens,
        "concurrency": scenario.concurrency,
        "compiled_batch": scenario.concurrency if isinstance(batch, str) else batch,
        "prefill_tokens": missed,
        "context_bucket": _auto_bucket(missed, scenario.prefill_chunk, system) if isinstance(bucket, str) else bucket,
    }
    columns = broadcast_columns({"tp": plan.tp, **given})  # tp brings the shape of the plan
    return Requests(
        **{name: columns[name] for name in given},
        prefill_chunk=scenario.prefill_chunk,
        draft_tokens=scenario.draft_tokens,
        acceptance=scenario.acceptance or 0.0,
    )


def _auto_bucket(tokens: Column, chunk: int, system: System) -> Column:
    if not has_static_graphs(system.chip):
        return tokens
    bucket = context_bucket(tokens)
    size = np.minimum(bucket, chunk) if chunk else bucket
    return np.ceil(tokens / size) * size


def _notes(
    scenario: Scenario, workload: Workload, system: System, model: ModelSpec, *, plan: ParallelPlan, num_ranks: int
) -> tuple[str, ...]:
    notes = []
    if not system.supports_lnc:
        notes.append(f"lnc is ignored: {system.chip.name} has no configurable logical NeuronCores.")
    idle = num_ranks - float(plan.num_ranks.min())
    if idle > 0:
        up_to = "up to " if plan.shape else ""
        notes.append(f"{up_to}{idle:,.0f} of {num_ranks:,} ranks are idle: tp x cp x ep x dp x pp is smaller.")
    tokens = scenario.sequence_length if workload == "train" else scenario.input_tokens + scenario.output_tokens
    if np.max(tokens) > model.max_sequence_length:
        notes.append(
            f"Sequences of {np.max(tokens):,} tokens are longer than the {model.max_sequence_length:,} "
            f"that {model.name} was made for."
        )
    if system.extra:
        notes.append(f"{system.title}: figures are preliminary.")
    return tuple(notes)
