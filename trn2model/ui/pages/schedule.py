"""A training step in time: the pipeline's schedule, and what HBM holds while it runs."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.model.training.step import TrainingEstimate
from trn2model.simulate.pipeline import MemoryTimeline, PipelineTrace, memory_timeline, simulate_step
from trn2model.text import capacity, duration, percent
from trn2model.ui.charts.bars import Limit
from trn2model.ui.charts.chart import Chart
from trn2model.ui.charts.colours import memory_colour, time_colour
from trn2model.ui.charts.style import Mode
from trn2model.ui.charts.timeline import Layer, Peak, Tasks, gantt, layers
from trn2model.ui.pages.words import chart_words, time_unit
from trn2model.ui.tables import table
from trn2model.units import from_si

#: Kinds of task, in the order of their codes.
_KINDS: Final = ("forward", "backward", "weight gradient")
_MOST_BARS: Final = 3200
_MOST_POINTS: Final = 400
#: Shade of the chunks of an interleaved stage in turn.
_SHADES: Final = (1.0, 0.62)


def schedule_chart(estimate: TrainingEstimate, mode: Mode) -> Chart:
    """Pipeline schedule of a single plan; a long step is shortened in its steady part."""
    plan = estimate.resolved.plan
    stages, whole = int(plan.pp), int(plan.num_microbatches)
    shown = _shown_microbatches(stages, whole)
    trace = simulate_step(estimate, shown)
    per_stage = len(trace.stage) / stages
    rows = _shown_stages(stages, max(int(_MOST_BARS / per_stage), 2))
    unit = time_unit(trace.total_time)
    names = [f"stage {stage + 1}" for stage in rows]
    tasks = [_tasks(trace, code, rows, unit) for code in range(len(_KINDS))]
    part = f"{shown} of {whole} microbatches" if shown < whole else f"{whole} microbatches"
    some = "" if len(rows) == stages else f", {len(rows)} of {stages} stages"
    cut = ", steady part cut" if shown < whole else ""
    schedule = estimate.resolved.scenario.pipeline_schedule
    alt = (
        f"Pipeline schedule {schedule} of {stages} stages: {part}{some}{cut}. A whole step waits "
        f"{percent(float(estimate.bubble_fraction))} of its pipeline time on the heaviest stage."
    )
    held = zip(trace.peak_in_flight, trace.peak_activation, strict=True)
    work = zip(trace.busy_time, trace.bubble_time, trace.busy_time / trace.total_time, strict=True)
    twin = table(
        ("stage", "busy [s]", "waits [s]", "busy share", "chunks held at most", "their activations [B]"),
        [(stage + 1, *times, *most) for stage, (times, most) in enumerate(zip(work, held, strict=True))],
    )
    words = chart_words(estimate.resolved, "Pipeline schedule", "schedule", alt, detail=part)
    axis = f"time from the start of the step [{unit}]{cut}{some}"
    extent = from_si(trace.total_time, unit)
    return gantt(words, names, tasks, axis_title=axis, extent=extent, table=twin, mode=mode)


def memory_chart(estimate: TrainingEstimate, mode: Mode) -> Chart:
    """HBM of the heaviest stage over the step of a single plan, shortened as the schedule is unless all is held."""
    plan = estimate.resolved.plan
    whole = int(plan.num_microbatches)
    gpipe = estimate.resolved.scenario.pipeline_schedule == "gpipe"
    shown = whole if gpipe else _shown_microbatches(int(plan.pp), whole)
    cut = f", {shown} of {whole} microbatches" if shown < whole else ""
    line = memory_timeline(estimate, simulate_step(estimate, shown))
    unit = time_unit(line.step_time)
    times, held = _thinned(line)
    fixed = [
        Layer(name.replace("_", " "), [from_si(size, "GiB")] * len(times), memory_colour(name))
        for name, size in line.fixed.items()
    ]
    stack = [*fixed, Layer("activations", [from_si(v, "GiB") for v in held], memory_colour("activations"))]
    rank = estimate.resolved.core.rank_name
    limit = Limit(from_si(line.capacity_bytes, "GiB"), f"capacity {capacity(line.capacity_bytes)} per {rank}")
    peak = Peak(
        from_si(line.peak_time, unit),
        from_si(line.peak_bytes, "GiB"),
        f"peak {capacity(line.peak_bytes)} {_moment(line.peak_time)}",
    )
    alt = (
        f"HBM of one {rank} of stage {line.stage + 1} over the step{cut}: "
        f"{peak.label}, of {capacity(line.capacity_bytes)}."
    )
    twin = table(
        ("time [s]", "activations [B]", "all [B]"),
        [(t, v, v + sum(line.fixed.values())) for t, v in zip(times, held, strict=True)],
    )
    words = chart_words(
        estimate.resolved, "HBM over the step", "hbm-over-time", alt, detail=f"stage {line.stage + 1} of {int(plan.pp)}"
    )
    axes = (f"time from the start of the step [{unit}]{cut}", f"GiB per {rank}")
    shown_times = [from_si(float(t), unit) for t in times]
    return layers(words, shown_times, stack, limit=limit, peak=peak, axes=axes, table=twin, mode=mode)


def _moment(time: float) -> str:
    return f"at {duration(time)}" if time > 0.0 else "at the start"


def _shown_microbatches(stages: int, whole: int) -> int:
    """Enough for warm-up, some rounds of steady work, and the end; whole rounds, as interleaving needs."""
    return min(whole, stages * math.ceil(2 + 4 / stages))


def _shown_stages(stages: int, most: int) -> list[int]:
    """All stages, or some at even distances with the first and the last among them."""
    if stages <= most:
        return list(range(stages))
    return sorted({round(i * (stages - 1) / (most - 1)) for i in range(most)})


def _tasks(trace: PipelineTrace, code: int, rows: list[int], unit: str) -> Tasks:
    name = _KINDS[code]
    place = {stage: row for row, stage in enumerate(rows)}
    chosen = [i for i in np.flatnonzero(trace.kind == code).tolist() if int(trace.stage[i]) in place]
    starts, ends = trace.start[chosen], trace.end[chosen]
    microbatch, chunk, stage = trace.microbatch[chosen] + 1, trace.chunk[chosen] + 1, trace.stage[chosen] + 1
    inner = f" chunk {{}} of {trace.interleave}" if trace.interleave > 1 else ""
    return Tasks(
        name=name,
        rows=[place[int(s) - 1] for s in stage],
        starts=[from_si(float(t), unit) for t in starts],
        lengths=[from_si(float(t), unit) for t in ends - starts],
        texts=[str(m) for m in microbatch.tolist()],
        notes=[
            f"stage {s} {name}, microbatch {m}{inner.format(c)}: {duration(float(b - a))} from {duration(float(a))}"
            for s, m, c, a, b in zip(stage, microbatch, chunk, starts, ends, strict=True)
        ],
        colour=time_colour(name),
        shades=[_SHADES[(int(c) - 1) % len(_SHADES)] for c in chunk],
    )


def _thinned(line: MemoryTimeline) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times and activations, the largest of each stretch where there are too many."""
    if len(line.time) <= _MOST_POINTS:
        return line.time, line.activations
    first = np.unique(np.linspace(0, len(line.time) - 1, _MOST_POINTS).astype(np.int64))
    return line.time[first], np.maximum.reduceat(line.activations, first)
