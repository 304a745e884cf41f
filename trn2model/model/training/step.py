"""Training step: from a resolved scenario to step time, memory, communication and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric, memory, roofline
from trn2model.model.blocks import INNER_AXES, communication_uses
from trn2model.model.calls import Call, Transfer, microbatch_calls, plan_network, stage_transfer
from trn2model.model.feasibility import memory_violations
from trn2model.model.flop import forward_flop
from trn2model.model.layers import RankWork
from trn2model.model.operators import OperatorTable, mfu_flop_rate, rank_rates
from trn2model.model.result import Cost, MemoryUse, Violation, assumptions, num_chips, rent, scalar, to_json
from trn2model.model.stages import ParameterShare, StageTable, parameter_shares, stage_table, training_optimizer
from trn2model.model.training.compute import TrainingCompute, adapter_parameters, training_compute, training_work
from trn2model.model.training.gradients import gradient_exchange
from trn2model.model.training.memory import StageMemory, stage_memory
from trn2model.model.training.pipeline import PipelineStep, StageTimes, pipeline_step
from trn2model.model.training.run import TrainingRun, training_run
from trn2model.network.cost import Network
from trn2model.network.loads import CommunicationUse, LinkLoad, LinkUse, step_link_load
from trn2model.network.ways import ALGORITHMS
from trn2model.specs.numerics import Optimizer
from trn2model.specs.profile import Kind
from trn2model.specs.resolve import Resolved


def optimizer_step(resolved: Resolved, shares: Sequence[ParameterShare], adam: Optimizer) -> tuple[Numeric, Numeric]:
    r"""Time and HBM bytes of the update on the fullest stage.

    .. math::
        t = \max(t_{vector}, t_{scalar}, t_{HBM}), \quad
        bytes = P (b_{gradient} + 2 b_{state}) + bytes_{weights}

    References
    ----------
    .. [1] adamw-2019
    .. [2] zero-2020
    """
    plan, core, constants = resolved.plan, resolved.core, resolved.profile.compute
    parameters: Numeric = np.zeros(plan.shape)
    moved: Numeric = np.zeros(plan.shape)
    for share in shares:
        held = np.where(plan.zero >= 1.0, share.shards, 1.0)
        trained_weights = share.weight_bytes * share.trained / np.maximum(share.parameters, 1.0)
        update = share.trained * (adam.gradient_bytes + 2.0 * adam.state_bytes) + trained_weights
        parameters = parameters + share.trained.max(axis=0) / held
        moved = moved + update.max(axis=0) / held
    time = roofline.operator_time(
        0.0,
        memory.adamw_vector_elements(parameters) / (core.vector_element_rate * constants.vector_efficiency),
        memory.adamw_scalar_elements(parameters) / (core.scalar_element_rate * constants.scalar_efficiency),
        moved / (core.hbm_bandwidth * constants.hbm_efficiency),
        0.0,
    )
    return time, moved


#: Attributes of an estimate that are no part of its JSON form.
_HIDDEN: Final = frozenset(
    {"resolved", "operators", "operator_blocks", "operator_count", "network", "stage_times", "stage_memory"}
)


@dataclass(frozen=True)
class TrainingEstimate:
    """One training step; names are the JSON names, arrays where the plan holds arrays."""

    resolved: Resolved  # scenario with everything decided
    feasible: Any  # whether it fits into HBM
    step_time: Numeric  # sum of the parts [s]
    tokens_per_s: Numeric  # of all replicas [token/s]
    tokens_per_s_per_chip: Numeric  # over the rented chips [token/s]
    mfu: Numeric  # model FLOP over the dense peak [1]
    mfu_sparse_adjusted: Numeric  # over the peaks that the weights may use [1]
    hfu: Numeric  # executed FLOP over the dense peak [1]
    bubble_fraction: Numeric  # of the pipeline's time [1]
    model_flop_per_step: Numeric  # forward and backward, without recompute [FLOP]
    forward_flop: Numeric  # of a step [FLOP]
    time: Mapping[str, Numeric]  # parts of the step on the heaviest stage [s]
    step_time_range: tuple[Numeric, Numeric]  # low and high [s]
    memory: MemoryUse  # of the fullest rank
    hbm_bandwidth_utilization: Numeric  # over the step [1]
    communication: tuple[CommunicationUse, ...]  # collectives of a rank of the heaviest stage
    cost: Cost  # of trained tokens
    checkpoint_bytes: Numeric  # of all ranks [B]
    assumptions: tuple[str, ...]  # what it takes for granted
    operators: OperatorTable  # forward pass, one row per operator of a block
    operator_blocks: tuple[str, ...]  # block of each operator
    operator_count: NDArray[np.float64]  # forward runs of each on the heaviest stage in a step, shape (operators, ...)
    network: Network  # fabric and placement
    stage_times: StageTimes  # of one microbatch
    stage_memory: StageMemory  # of each run of equal stages

    @cached_property
    def violations(self) -> tuple[Violation, ...]:
        """Why a single plan does not fit; for a batch ask for one plan at a time."""
        return memory_violations(self.memory, self.resolved) if np.ndim(self.step_time) == 0 else ()

    @cached_property
    def run(self) -> TrainingRun:
        """Whole training run of the scenario's tokens: time, cost and goodput with failures and checkpoints."""
        return training_run(self.resolved, self.tokens_per_s, self.checkpoint_bytes)

    @cached_property
    def link_load(self) -> LinkLoad:
        """Bytes and utilization of every directed link over the step of a single plan."""
        return step_link_load(self.network, self.communication, self.step_time)

    @property
    def links(self) -> LinkUse:
        """Utilization of the busiest link and of the mean link."""
        return self.link_load.use

    def to_dict(self) -> dict[str, Any]:
        """Estimate as JSON values.

        Returns
        -------
        dict
            The names of the public contract.
        """
        result: dict[str, Any] = {"scenario": self.resolved.to_dict()}
        result |= {f.name: to_json(getattr(self, f.name)) for f in fields(self) if f.name not in _HIDDEN}
        result |= {"violations": to_json(self.violations), "run": to_json(self.run)}
        if np.ndim(self.step_time) == 0:
            result["links"] = to_json(self.links)
            for use in result["communication"]:
                use["algorithm"] = ALGORITHMS[use["algorithm"]]
        return result


#: Passes of a step over each weight: forward, input gradient, weight gradient.
_PASSES: Final = 3.0


class _Parts(NamedTuple):
    """What one step is made of, before it is summed up."""

    stages: StageTable
    work: RankWork
    compute: TrainingCompute
    step: PipelineStep
    communication: list[CommunicationUse]
    shares: tuple[ParameterShare, ParameterShare]
    adam: Optimizer
    time: Mapping[str, Numeric]
    update_bytes: Numeric


def estimate_training(resolved: Resolved) -> TrainingEstimate:
    """Estimate one training step.

    Parameters
    ----------
    resolved : Resolved
        The scenario with all names looked up.

    Returns
    -------
    TrainingEstimate
        Times, memory, communication and cost.

    Raises
    ------
    UnsupportedError
        The chip publishes no rate for the precision or pattern.
    """
    plan, network = resolved.plan, plan_network(resolved)
    parts = _parts(resolved, network)
    step_time = sum(parts.time.values(), np.zeros(plan.shape))
    memory = stage_memory(resolved, parts.stages, parts.work, parts.shares, adam=parts.adam)
    executed, model_flop, forward = _flop(resolved, parts)
    blocks = parts.compute.blocks
    peak = mfu_flop_rate(resolved) * step_time
    rate = plan.global_batch_size * plan.sequence_length / step_time
    return TrainingEstimate(
        resolved=resolved,
        feasible=scalar(memory.use.used_bytes <= memory.use.capacity_bytes),
        step_time=scalar(step_time),
        step_time_range=tuple(scalar(factor * step_time) for factor in resolved.profile.spread(Kind.TRAIN)),
        tokens_per_s=scalar(rate),
        tokens_per_s_per_chip=scalar(rate / num_chips(resolved)),
        mfu=scalar(model_flop / peak),
        mfu_sparse_adjusted=scalar(model_flop / peak * _sparse_adjustment(resolved, parts)),
        hfu=scalar(executed / peak),
        bubble_fraction=scalar(parts.time["bubble"] / parts.step.time),
        model_flop_per_step=scalar(model_flop),
        forward_flop=scalar(forward),
        time={name: scalar(part) for name, part in parts.time.items()},
        memory=memory.use,
        hbm_bandwidth_utilization=scalar(_hbm_bytes(resolved, parts) / (step_time * resolved.core.hbm_bandwidth)),
        communication=tuple(parts.communication),
        cost=rent(resolved, rate),
        checkpoint_bytes=scalar(_checkpoint_bytes(resolved, parts)),
        assumptions=assumptions(resolved),
        operators=parts.compute.operators,
        operator_blocks=tuple(blocks.names[i] for i in blocks.block_of),
        operator_count=plan.num_microbatches * parts.step.counts[blocks.block_of],
        network=network,
        stage_times=parts.step.stage_times,
        stage_memory=memory,
    )


def _parts(resolved: Resolved, network: Network) -> _Parts:
    plan = resolved.plan
    work = training_work(resolved)
    stages = stage_table(resolved.model, plan.pp, plan.interleave)
    compute = training_compute(resolved, work)
    calls = microbatch_calls(resolved, work, network, sequence_parallel=resolved.scenario.sequence_parallel)
    transfer = stage_transfer(resolved, work, network)
    step = pipeline_step(resolved, stages, work, compute, calls=calls, transfer=transfer)
    adapters = adapter_parameters(resolved, work) if resolved.scenario.lora_rank else None
    shares = parameter_shares(resolved, stages, adapters, network)
    adam = training_optimizer(resolved)
    exchange = gradient_exchange(resolved, shares, network, optimizer=adam, windows=step.windows)
    update_time, update_bytes = optimizer_step(resolved, shares, adam)
    time = dict(step.parts)
    bubble = time.pop("bubble")
    time["dp_exposed"] = sum((use.exposed_time for use in exchange), np.zeros(plan.shape))
    time["bubble"] = bubble
    time["optimizer"] = update_time
    time["fixed"] = np.full(plan.shape, resolved.profile.compute.step_time)
    counted: list[tuple[Call | Transfer, Numeric]] = [
        (call, plan.num_microbatches * ((call.forward + call.backward) * step.counts).sum(axis=0)) for call in calls
    ]
    counted.append((transfer, plan.num_microbatches * transfer.count))
    uses = communication_uses(counted, {axis: time[f"{axis}_exposed"] for axis in (*INNER_AXES, "pp")})
    return _Parts(stages, work, compute, step, [*uses, *exchange], shares, adam, time, update_bytes)


def _flop(resolved: Resolved, parts: _Parts) -> tuple[Numeric, Numeric, Numeric]:
    """FLOP of a step: executed on all ranks, of the model with its backward pass, and of the model's forward.

    A frozen base has no weight gradients: two passes for its matrices and attention, three for the adapters.
    """
    plan, compute = resolved.plan, parts.compute
    per_pipeline = (compute.executed_flop * parts.stages.totals).sum(axis=0) * plan.num_microbatches
    executed = np.asarray(per_pipeline * plan.num_ranks / plan.pp)
    forward = forward_flop(resolved.model, plan.global_batch_size, plan.sequence_length)
    if not resolved.scenario.lora_rank:
        return executed, 3.0 * forward, forward
    one_rank = replace(parts.work, tp=np.ones(plan.shape))
    adapters = (adapter_parameters(resolved, one_rank) * parts.stages.totals).sum(axis=0)
    added = 2.0 * plan.global_batch_size * plan.sequence_length * adapters
    return executed, 2.0 * forward + 3.0 * added, forward + added


def _sparse_adjustment(resolved: Resolved, parts: _Parts) -> Numeric:
    """Time of the model's FLOP at the peaks they may use, sparse ones included, over their time at the dense peak."""
    rates, compute = rank_rates(resolved), parts.compute
    flop = compute.operators.flop * parts.stages.totals[compute.blocks.block_of]
    passes = 1.0 + float(resolved.scenario.transposable_mask)
    share = flop[compute.operators.sparse].sum(axis=0) / flop.sum(axis=0) * passes / _PASSES
    return np.asarray(1.0 - share * (1.0 - rates.dense / rates.sparse))


def _hbm_bytes(resolved: Resolved, parts: _Parts) -> Numeric:
    per_microbatch = (parts.compute.hbm_bytes * parts.step.counts).sum(axis=0)
    return np.asarray(per_microbatch * resolved.plan.num_microbatches + parts.update_bytes)


def _checkpoint_bytes(resolved: Resolved, parts: _Parts) -> Numeric:
    """One copy of what training changes, over all ranks: weights, master and moments."""
    plan, length = resolved.plan, parts.stages.length
    total: Numeric = np.zeros(plan.shape)
    for share, spread in zip(parts.shares, (plan.tp, plan.tp * plan.ep), strict=True):
        width = share.weight_bytes / np.maximum(share.parameters, 1.0) + parts.adam.state_bytes
        total = total + spread * (length * share.trained * width).sum(axis=0)
    return total
