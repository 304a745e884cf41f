"""A training estimate's own step, task by task: its pipeline schedule, and what HBM holds while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError
from trn2model.estimate.training.step import TrainingEstimate
from trn2model.simulate.pipeline import PipelineTrace, simulate_pipeline

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MemoryTimeline:
    """HBM of a rank of one stage over a step, in bytes.

    `fixed` are parts that stay; `activations` is a step function that takes its values from `time` on. `peak_bytes`
    is reached at `peak_time`.
    """

    stage: int
    fixed: Mapping[str, float]
    time: Floats
    activations: Floats
    peak_bytes: float
    peak_time: float
    step_time: float
    capacity_bytes: float


def simulate_step(estimate: TrainingEstimate, num_microbatches: int | None = None) -> PipelineTrace:
    """Pipeline schedule of a single plan, from the stage times of its estimate.

    Raises InvalidInputError (the estimate holds many plans).
    """
    if np.ndim(estimate.step_time):
        raise InvalidInputError("estimate", "a batch", "a single plan", "estimate one plan")
    resolved, times = estimate.resolved, estimate.stage_times
    length = times.stages.length.astype(np.int64)

    def per_stage(runs: Floats) -> Floats:
        return np.repeat(runs, length)

    return simulate_pipeline(
        resolved.scenario.pipeline_schedule,
        per_stage(times.forward),
        per_stage(times.input_gradient),
        per_stage(times.weight_gradient),
        num_microbatches=num_microbatches or int(resolved.plan.num_microbatches),
        interleave=int(resolved.plan.interleave),
        transfer_time=float(times.transfer),
        activation=per_stage(estimate.stage_memory.per_microbatch),
    )


def memory_timeline(estimate: TrainingEstimate, trace: PipelineTrace | None = None) -> MemoryTimeline:
    """HBM of the heaviest stage of a single plan over its step."""
    trace = trace or simulate_step(estimate)
    memory = estimate.stage_memory
    run = int(memory.heaviest)
    stage = int(estimate.stage_times.stages.position[run])
    fixed = {name: float(part[run]) for name, part in memory.parts.items() if name != "activations"}
    held = trace.activation[stage]
    step_time = trace.total_time + sum(float(estimate.time[part]) for part in ("dp_exposed", "optimizer", "fixed"))
    return MemoryTimeline(
        stage=stage,
        fixed=fixed,
        time=np.maximum.accumulate(np.concatenate([[0.0], held.time, [step_time]])),
        activations=np.concatenate([[0.0], held.value, [0.0]]),
        peak_bytes=sum(fixed.values()) + float(trace.peak_activation[stage]),
        peak_time=float(trace.peak_activation_time[stage]),
        step_time=step_time,
        capacity_bytes=estimate.memory.capacity_bytes,
    )
