"""The pipeline of a training step: what each stage does in one microbatch, and how long the schedule takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric, pipeline
from trn2model.model.calls import Call, Transfer
from trn2model.model.stages import StageTable
from trn2model.model.training.compute import TrainingCompute
from trn2model.model.training.gradients import Windows
from trn2model.specs.resolve import Resolved

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Times of one microbatch on a stage of each run of equal stages, shape (runs, ...), in seconds.

    `forward` and `input_gradient` hold the exposed communication and `input_gradient` what is computed again;
    `transfer` is one send to the neighbour.
    """

    stages: StageTable
    forward: Floats
    input_gradient: Floats
    weight_gradient: Floats
    transfer: Numeric

    @property
    def backward(self) -> Floats:
        """Both halves of the backward pass [s]."""
        return self.input_gradient + self.weight_gradient


class PipelineStep(NamedTuple):
    """Pipeline of one step: its time by part of the heaviest stage, the blocks of that stage, and free windows."""

    parts: Mapping[str, Numeric]
    counts: Floats
    time: Numeric
    windows: Windows
    stage_times: StageTimes


def pipeline_step(
    resolved: Resolved, stages: StageTable, compute: TrainingCompute, calls: Sequence[Call], transfer: Transfer
) -> PipelineStep:
    """Time of all microbatches through all stages."""
    plan = resolved.plan
    exposed = exposed_times(calls, compute, resolved)
    times = _stage_times(stages, compute, exposed, transfer)
    busy = times.forward + times.backward
    heaviest = busy.argmax(axis=0)[None]
    counts = np.take_along_axis(stages.counts, heaviest[None], axis=0)[0]
    slowest = np.take_along_axis(busy, heaviest, axis=0)[0]
    slack = plan.pp * slowest - (stages.length * busy).sum(axis=0)
    steady, fill = _transfers(resolved, slowest, slack, transfer)
    total = _schedule_time(resolved, times)
    blocks = {
        "forward": compute.forward,
        "backward": compute.backward_input + compute.backward_weight,
        "recompute": compute.recompute,
        **{f"{axis}_exposed": part.sum(axis=0) for axis, part in exposed.items()},
    }
    parts = {name: plan.num_microbatches * (block * counts).sum(axis=0) for name, block in blocks.items()}
    parts["pp_exposed"] = steady
    parts["bubble"] = np.maximum(total - plan.num_microbatches * slowest, 0.0) + fill
    return PipelineStep(
        parts=parts,
        counts=counts,
        time=sum(parts.values(), np.zeros(plan.shape)),
        windows=_free_windows(compute, exposed, calls, counts, steady / plan.num_microbatches),
        stage_times=times,
    )


def _stage_times(
    stages: StageTable, compute: TrainingCompute, exposed: Mapping[str, Floats], transfer: Transfer
) -> StageTimes:
    waiting = np.sum(list(exposed.values()), axis=0)
    blocks = np.stack(
        [
            compute.forward + waiting[0],
            compute.backward_input + compute.recompute + waiting[1],
            compute.backward_weight,
        ]
    )
    forward, input_gradient, weight_gradient = (blocks[:, None] * stages.counts).sum(axis=2)
    return StageTimes(stages, forward, input_gradient, weight_gradient, transfer.cost.time)


def _schedule_time(resolved: Resolved, times: StageTimes) -> Numeric:
    """Largest over the stages; in a run of equal stages the last one paces the pipeline as much as any."""
    plan, schedule, stages = resolved.plan, resolved.scenario.pipeline_schedule, times.stages
    f, b, w, length = times.forward, times.input_gradient, times.weight_gradient, stages.length
    if schedule == "gpipe":
        back = b + w
        sums = (length * f).sum(axis=0), (length * back).sum(axis=0)
        return pipeline.gpipe_time(f.max(axis=0), back.max(axis=0), *sums, plan.num_microbatches)
    back = b if schedule == "zb-h1" else b + w
    forward_before, back_before = (np.cumsum(length * part, axis=0) - part for part in (f, back))
    after = (length * (f + back)).sum(axis=0) - forward_before - back_before - f - back
    last = stages.position + length - 1.0
    later = plan.pp - 1.0 - last
    if schedule == "zb-h1":
        spans = pipeline.zero_bubble_time(
            f, b, w, forward_before, back_before, after, last, later, plan.num_microbatches
        )
    else:
        spans = pipeline.one_forward_one_backward_time(
            f, back, forward_before + back_before, after, later, plan.interleave, plan.num_microbatches
        )
    return np.asarray(np.where(length > 0.0, spans, 0.0).max(axis=0))


def _transfers(resolved: Resolved, slowest: Numeric, slack: Numeric, transfer: Transfer) -> tuple[Numeric, Numeric]:
    """Exposed transfers of the step: in every round, and while the pipeline fills and drains.

    Without overlap a stage waits for each of its transfers.
    """
    plan, schedule = resolved.plan, resolved.scenario.pipeline_schedule
    waits = np.where(plan.interleave > 1.0, 0.0, 1.0) if schedule == "1f1b" else np.zeros(plan.shape)
    chains = 2.0 if schedule == "zb-h1" else 1.0
    steady, fill = pipeline.exposed_transfers(
        transfer.cost.time, slack, plan.pp, plan.interleave, plan.num_microbatches, waits, chains
    )
    hidden = slowest if resolved.scenario.overlap else 0.0
    beyond = plan.num_microbatches * np.maximum(transfer.time - hidden, 0.0)
    return np.maximum(steady, beyond), fill


def _free_windows(
    compute: TrainingCompute,
    exposed: Mapping[str, Floats],
    calls: Sequence[Call],
    counts: Floats,
    waiting_time: Numeric,
) -> Windows:
    """Time of one microbatch in which no other axis hides its communication: compute, and waits for a neighbour."""
    link = [np.sum([call.cost.time * getattr(call, phase) for call in calls], axis=0) for phase in _PHASES]
    busy = (compute.forward, compute.backward_input + compute.backward_weight + compute.recompute)
    waiting = np.sum(list(exposed.values()), axis=0)
    free = [((busy[i] - link[i] + waiting[i]) * counts).sum(axis=0) for i in range(len(_PHASES))]
    return Windows(*(np.maximum(window, 0.0) + waiting_time / len(_PHASES) for window in free))


_PHASES = ("forward", "backward")


def exposed_times(
    calls: Sequence[Call], compute: TrainingCompute, resolved: Resolved
) -> dict[str, NDArray[np.float64]]:
    r"""Exposed communication per axis and block of one microbatch: what compute of the same block cannot hide [s].

    Each axis hides in turn in the compute that the axes before it left free:

    .. math:: t_{exposed} = t_{link} - \min(f\,t_{link}, t_{free})

    A ring of context-parallel ranks hides behind the attention of the pieces it has already, (cp-1)/cp of all; where
    engines overlap across operators, behind the other work of the layer too.
    """
    constants, scenario = resolved.profile.compute, resolved.scenario
    on = float(scenario.overlap)
    free = np.stack([compute.forward, compute.backward_input + compute.backward_weight + compute.recompute])
    link = {axis: np.zeros_like(free) for axis in ("tp", "cp", "ep")}
    for call in calls:
        link[call.axis][0] += call.cost.time * call.forward
        link[call.axis][1] += call.cost.time * call.backward
    cp_limit, cp_fraction = free, on * constants.tp_overlap_fraction
    if scenario.context_parallel_method == "ring":
        pieces = compute.attention * (resolved.plan.cp - 1.0) / resolved.plan.cp
        cp_limit, cp_fraction = pieces + constants.engine_overlap_fraction * np.maximum(free - pieces, 0.0), on
    exposed: dict[str, NDArray[np.float64]] = {}
    for axis, fraction, limit in (
        ("tp", on * constants.tp_overlap_fraction, free),
        ("cp", cp_fraction, cp_limit),
        ("ep", on * constants.ep_overlap_fraction, free),
    ):
        hidden = np.minimum(fraction * link[axis], np.minimum(limit, free))
        free = free - hidden
        exposed[axis] = link[axis] - hidden
    return exposed
