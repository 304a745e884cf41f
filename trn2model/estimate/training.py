"""Training step: from a resolved scenario to step time, memory, communication and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate import training_memory
from trn2model.estimate.communication import Call, Transfer, exposed_times, microbatch_calls, stage_transfer
from trn2model.estimate.feasibility import memory_violations
from trn2model.estimate.gradient_exchange import Windows, gradient_exchange
from trn2model.estimate.layer import RankWork
from trn2model.estimate.link_loads import LinkLoad, step_link_load
from trn2model.estimate.model_flop import forward_flop
from trn2model.estimate.model_states import ParameterShare, model_states, parameter_shares
from trn2model.estimate.network import Network, plan_network
from trn2model.estimate.operators import OperatorTable
from trn2model.estimate.rates import mfu_flop_rate
from trn2model.estimate.result import CommunicationUse, Cost, LinkUse, MemoryUse, Violation, to_json
from trn2model.estimate.stages import StageTable, stage_table
from trn2model.estimate.summary import assumptions, num_chips, rent, reserve_bytes, scalar
from trn2model.estimate.training_compute import TrainingCompute, training_compute, training_work
from trn2model.formulas import Numeric, pipeline
from trn2model.specs.optimizer import Optimizer, optimizer
from trn2model.specs.resolve import Resolved

#: Keeps the share of an axis that sends nothing at zero. [s]
_TINY_TIME = 1e-30

#: Parts of a stage's time for one microbatch, in the order of the part axis.
_STAGE_PARTS = ("forward", "backward", "recompute", "tp_exposed", "cp_exposed", "ep_exposed", "pp_exposed")


@dataclass(frozen=True)
class TrainingEstimate:
    """One training step; names are the JSON names, SI units, arrays where the plan holds arrays."""

    resolved: Resolved
    feasible: Any
    step_time: Numeric
    tokens_per_s: Numeric
    tokens_per_s_per_chip: Numeric
    mfu: Numeric
    hfu: Numeric
    bubble_fraction: Numeric
    model_flop_per_step: Numeric
    forward_flop: Numeric
    time: Mapping[str, Numeric]
    step_time_range: tuple[Numeric, Numeric]
    memory: MemoryUse
    hbm_bandwidth_utilization: Numeric
    communication: tuple[CommunicationUse, ...]
    cost: Cost
    assumptions: tuple[str, ...]
    operators: OperatorTable
    operator_blocks: tuple[str, ...]
    operator_count: NDArray[np.float64]
    network: Network

    @cached_property
    def violations(self) -> tuple[Violation, ...]:
        """Why a single plan does not fit; for a batch ask for one plan at a time.

        Returns
        -------
        tuple of Violation
            Empty when the plan fits.
        """
        return memory_violations(self.memory, self.resolved) if np.ndim(self.step_time) == 0 else ()

    @cached_property
    def link_load(self) -> LinkLoad:
        """Bytes and utilization of every directed link over the step of a single plan.

        Returns
        -------
        LinkLoad
            By axis and in all.
        """
        return step_link_load(self.network, self.communication, self.step_time)

    @property
    def links(self) -> LinkUse:
        """Utilization of the busiest link and of the mean link.

        Returns
        -------
        LinkUse
            Shares of the links' rates over the step. [1]
        """
        return self.link_load.use

    def to_dict(self) -> dict[str, Any]:
        """Estimate as JSON values.

        Returns
        -------
        dict
            The names of the public contract.
        """
        hidden = {"resolved", "operators", "operator_blocks", "operator_count", "network"}
        result: dict[str, Any] = {"scenario": self.resolved.to_dict()}
        result |= {f.name: to_json(getattr(self, f.name)) for f in fields(self) if f.name not in hidden}
        result["violations"] = to_json(self.violations)
        if np.ndim(self.step_time) == 0:
            result["links"] = to_json(self.links)
        return result


class _Step(NamedTuple):
    """Pipeline of one step: parts of the heaviest stage per microbatch, its blocks, and the whole's times."""

    parts: NDArray[np.float64]
    counts: NDArray[np.float64]
    pipeline_time: Numeric
    bubble: Numeric
    windows: Windows


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
    plan, model = resolved.plan, resolved.model
    network = plan_network(resolved)
    work = training_work(resolved)
    stages = stage_table(model, plan.pp, plan.interleave)
    compute = training_compute(resolved, work)
    calls = microbatch_calls(resolved, work, network, sequence_parallel=resolved.scenario.sequence_parallel)
    transfer = stage_transfer(resolved, work, network)
    step = _pipeline(resolved, stages, compute, calls, transfer.time)
    shares = parameter_shares(resolved, stages)
    adam = optimizer(resolved.scenario.optimizer)
    exchange = gradient_exchange(shares, network, adam, step.windows)
    update_time, update_bytes = _optimizer_step(resolved, shares, adam)
    time = _time_parts(resolved, step, exchange, update_time)
    step_time = step.pipeline_time + time["dp_exposed"] + time["optimizer"] + time["fixed"]
    memory = _memory(resolved, stages, work, shares, adam)
    hbm_bytes = (compute.hbm_bytes * step.counts).sum(axis=0) * plan.num_microbatches + update_bytes
    executed = _executed_flop(resolved, stages, compute)
    forward = forward_flop(model, plan.global_batch_size, plan.sequence_length)
    peak = mfu_flop_rate(resolved) * step_time
    rate = plan.global_batch_size * plan.sequence_length / step_time
    return TrainingEstimate(
        resolved=resolved,
        feasible=scalar(memory.used_bytes <= memory.capacity_bytes),
        step_time=scalar(step_time),
        step_time_range=tuple(scalar(factor * step_time) for factor in resolved.profile.spread("train")),
        tokens_per_s=scalar(rate),
        tokens_per_s_per_chip=scalar(rate / num_chips(resolved)),
        mfu=scalar(3.0 * forward / peak),
        hfu=scalar(executed / peak),
        bubble_fraction=scalar(step.bubble / step.pipeline_time),
        model_flop_per_step=scalar(3.0 * forward),
        forward_flop=scalar(forward),
        time={name: scalar(part) for name, part in time.items()},
        memory=memory,
        hbm_bandwidth_utilization=scalar(hbm_bytes / (step_time * resolved.core.hbm_bandwidth)),
        communication=(*_uses(calls, transfer, step, resolved, time), *exchange),
        cost=rent(resolved, rate),
        assumptions=assumptions(resolved),
        operators=compute.operators,
        operator_blocks=tuple(_block_names(resolved)[i] for i in compute.block_of_operator),
        operator_count=plan.num_microbatches * step.counts[compute.block_of_operator],
        network=network,
    )


def _executed_flop(resolved: Resolved, stages: StageTable, compute: TrainingCompute) -> Numeric:
    """FLOP of all ranks in a step, recomputed ones included."""
    plan = resolved.plan
    per_pipeline = (compute.executed_flop * stages.totals).sum(axis=0) * plan.num_microbatches
    return np.asarray(per_pipeline * plan.num_ranks / plan.pp)


def _pipeline(
    resolved: Resolved,
    stages: StageTable,
    compute: TrainingCompute,
    calls: Sequence[Call],
    transfer_time: Numeric,
) -> _Step:
    plan = resolved.plan
    exposed = exposed_times(calls, compute, resolved)
    backward = compute.backward_input + compute.backward_weight
    blocks = np.stack([compute.forward, backward, compute.recompute, exposed["tp"], exposed["cp"], exposed["ep"]])
    per_stage = (blocks[:, None] * stages.counts).sum(axis=2)
    sent = np.broadcast_to(transfer_time, per_stage.shape[1:])[None]
    per_stage = np.concatenate([per_stage, sent])
    stage_time = per_stage.sum(axis=0)
    heaviest = stage_time.argmax(axis=0)[None]
    slowest = np.take_along_axis(stage_time, heaviest, axis=0)[0]
    whole = (blocks * stages.totals).sum(axis=(0, 1)) + plan.pp * transfer_time
    total = pipeline.pipeline_time(slowest, whole, plan.interleave, plan.num_microbatches)
    counts = np.take_along_axis(stages.counts, heaviest[None], axis=0)[0]
    return _Step(
        parts=np.take_along_axis(per_stage, heaviest[None], axis=1)[:, 0],
        counts=counts,
        pipeline_time=total,
        bubble=total - plan.num_microbatches * slowest,
        windows=_free_windows(compute, exposed, calls, counts),
    )


def _free_windows(
    compute: TrainingCompute,
    exposed: Mapping[str, NDArray[np.float64]],
    calls: Sequence[Call],
    counts: NDArray[np.float64],
) -> Windows:
    """Compute of one microbatch during which no other axis already hides its communication."""
    link = np.sum([call.time for call in calls], axis=0)
    hidden = ((link - sum(exposed.values())) * counts).sum(axis=0)
    forward = (compute.forward * counts).sum(axis=0)
    backward = ((compute.backward_input + compute.backward_weight + compute.recompute) * counts).sum(axis=0)
    free = np.maximum(1.0 - hidden / (forward + backward), 0.0)
    return Windows(free * forward, free * backward)


def _time_parts(
    resolved: Resolved, step: _Step, exchange: Sequence[CommunicationUse], update_time: Numeric
) -> dict[str, Numeric]:
    plan = resolved.plan
    time = {name: plan.num_microbatches * part for name, part in zip(_STAGE_PARTS, step.parts, strict=True)}
    time["dp_exposed"] = sum((use.exposed_time for use in exchange), np.zeros(plan.shape))
    time["bubble"] = step.bubble
    time["optimizer"] = update_time
    time["fixed"] = np.full(plan.shape, resolved.profile.constants.step_time)
    return time


def _optimizer_step(resolved: Resolved, shares: Sequence[ParameterShare], adam: Optimizer) -> tuple[Numeric, Numeric]:
    """Time and HBM bytes of the update: each state is read and written, gradients read, weights written."""
    plan, constants = resolved.plan, resolved.profile.constants
    moved: Numeric = np.zeros(plan.shape)
    for share in shares:
        held = np.where(plan.zero >= 1.0, share.shards, 1.0)
        update = share.parameters * (adam.gradient_bytes + 2.0 * adam.state_bytes) + share.weight_bytes
        moved = moved + update.max(axis=0) / held
    return moved / (resolved.core.hbm_bandwidth * constants.hbm_efficiency), moved


def _memory(
    resolved: Resolved, stages: StageTable, work: RankWork, shares: tuple[ParameterShare, ...], adam: Optimizer
) -> MemoryUse:
    plan = resolved.plan
    states = model_states(shares, plan.zero, adam)
    in_flight = pipeline.in_flight_microbatches(plan.pp, stages.position, plan.interleave, plan.num_microbatches)
    saved = training_memory.activation_bytes_per_block(resolved, work)
    is_last = stages.counts[:, -1]
    widest = np.max([share.weight_bytes.max(axis=0) for share in shares], axis=0) * plan.pp / resolved.model.num_layers
    shape = is_last.shape
    parts = {
        "weights": states.weights,
        "gradients": states.gradients,
        "optimizer": states.optimizer,
        "activations": (stages.counts * saved).sum(axis=1) * in_flight,
        "logits": is_last * training_memory.logits_bytes(resolved, work),
        "buffers": np.broadcast_to(training_memory.buffer_bytes(resolved, work, widest), shape),
        "reserve": np.full(shape, reserve_bytes(resolved)),
    }
    used = np.sum(list(parts.values()), axis=0)
    fullest = used.argmax(axis=0)[None]
    taken = {name: scalar(np.take_along_axis(part, fullest, axis=0)[0]) for name, part in parts.items()}
    total = scalar(np.take_along_axis(used, fullest, axis=0)[0])
    return MemoryUse(resolved.core.hbm_bytes, total, taken)


def _uses(
    calls: Sequence[Call], transfer: Transfer, step: _Step, resolved: Resolved, time: Mapping[str, Numeric]
) -> list[CommunicationUse]:
    """Calls of the heaviest stage over a step; an axis's exposed time is shared out by link time."""
    plan = resolved.plan
    uses = []
    for call in calls:
        count = plan.num_microbatches * ((call.forward + call.backward) * step.counts).sum(axis=0)
        uses.append((call.axis, call.op, call.message_bytes, count, call.cost))
    transfers = plan.num_microbatches * transfer.count
    uses.append(("pp", "permute", transfer.message_bytes, transfers, transfer.cost))
    link: dict[str, Numeric] = {}
    for axis, _, _, count, cost in uses:
        link[axis] = link.get(axis, 0.0) + count * cost.time
    return [
        CommunicationUse(
            axis=axis,
            op=op,
            bytes=payload,
            count=count,
            algorithm=cost.algorithm,
            link_time=count * cost.time,
            exposed_time=time[f"{axis}_exposed"] * count * cost.time / np.maximum(link[axis], _TINY_TIME),
            busbw=cost.busbw,
        )
        for axis, op, payload, count, cost in uses
        if np.any(link[axis] * count > 0.0)
    ]


def _block_names(resolved: Resolved) -> tuple[str, ...]:
    return (*(layer.name for layer in resolved.model.layer_kinds), "embedding", "head")
