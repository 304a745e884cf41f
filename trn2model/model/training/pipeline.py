"""The pipeline of a training step: what each stage does in one microbatch, and how long the schedule takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric, pipeline
from trn2model.model.blocks import exposed_times, link_times
from trn2model.model.calls import Call, Transfer
from trn2model.model.layers import RankWork
from trn2model.model.stages import StageTable, at_stage
from trn2model.model.training.compute import TrainingCompute
from trn2model.model.training.gradients import Windows
from trn2model.specs.resolve import Resolved

Floats = NDArray[np.float64]

#: Directions of a microbatch through the stages.
PHASES: Final = ("forward", "backward")


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Times of one microbatch on a stage of each run of equal stages, shape (runs, ...)."""

    stages: StageTable  # the runs
    forward: Floats  # exposed communication included [s]
    input_gradient: Floats  # exposed communication and what is computed again included [s]
    weight_gradient: Floats  # [s]
    transfer: Numeric  # one send to the neighbour, shape (...) [s]

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
    resolved: Resolved,
    stages: StageTable,
    work: RankWork,
    compute: TrainingCompute,
    *,
    calls: Sequence[Call],
    transfer: Transfer,
) -> PipelineStep:
    """Time of all microbatches through all stages."""
    plan = resolved.plan
    link = link_times(calls, compute.forward.shape, PHASES)
    exposed = exposed_times(resolved, work, link, busy=compute.phases, attention=compute.attention)
    times = _stage_times(stages, compute, exposed, transfer)
    busy = times.forward + times.backward
    heaviest = np.asarray(busy.argmax(axis=0))
    counts, slowest = at_stage(stages.counts, heaviest), at_stage(busy, heaviest)
    slack = plan.pp * slowest - (stages.length * busy).sum(axis=0)
    steady, fill = _transfers(resolved, slowest, slack, transfer)
    total = _schedule_time(resolved, times)
    blocks = compute.parts | {f"{axis}_exposed": part.sum(axis=0) for axis, part in exposed.items()}
    parts = {name: plan.num_microbatches * (block * counts).sum(axis=0) for name, block in blocks.items()}
    parts["pp_exposed"] = steady
    parts["bubble"] = np.maximum(total - plan.num_microbatches * slowest, 0.0) + fill
    hiding = [link[axis] - exposed[axis] for axis in link]
    free = np.maximum(((compute.phases - np.sum(hiding, axis=0)) * counts).sum(axis=1), 0.0)
    return PipelineStep(
        parts=parts,
        counts=counts,
        time=sum(parts.values(), np.zeros(plan.shape)),
        windows=Windows(*(free + steady / plan.num_microbatches / len(PHASES))),
        stage_times=times,
    )


def _stage_times(
    stages: StageTable, compute: TrainingCompute, exposed: Mapping[str, Floats], transfer: Transfer
) -> StageTimes:
    waiting = np.sum(list(exposed.values()), axis=0)
    return StageTimes(
        stages,
        stages.sums(compute.forward + waiting[0]),
        stages.sums(compute.backward_input + compute.recompute + waiting[1]),
        stages.sums(compute.backward_weight),
        transfer.cost.time,
    )


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
