"""Event-driven pipeline schedule: the oracle of the closed forms, and what the Gantt chart draws.

An order is an array of rows (kind, chunk, microbatch). Virtual stage ``chunk * num_stages + stage`` follows
``chunk * num_stages + stage - 1``. Each stage runs its tasks in the order of its schedule; a task starts as soon as
its stage is free and what it needs has arrived. Transfers are asynchronous: they delay the receiver and never occupy a
stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trn2model.errors import InvalidInputError, InvalidPlanError
from trn2model.model.training.step import TrainingEstimate

Order = NDArray[np.int64]

#: kinds of task, by code; a backward task holds the weight gradient too unless the schedule splits it off
KINDS: Final = ("forward", "backward", "weight_gradient")
FORWARD: Final = 0
BACKWARD: Final = 1
WEIGHT_GRADIENT: Final = 2

#: schedules by name; only "interleaved" has more than one chunk per stage
SCHEDULES: Final = ("gpipe", "1f1b", "interleaved", "zb-h1")


def stage_orders(schedule: str, num_stages: int, num_microbatches: int, interleave: int) -> tuple[Order, ...]:
    r"""Order of tasks on every stage of a pipeline schedule.

    GPipe: all forwards, then all backwards. 1F1B: stage :math:`s` runs :math:`p - s - 1` forwards ahead, then
    alternates. Interleaved: Megatron's order, :math:`2(p - s - 1) + (v - 1)p` chunk forwards ahead, microbatches in
    groups of :math:`p`. ZB-H1: 1F1B with the weight gradient split off and put off by :math:`s` microbatches.

    Raises InvalidPlanError (the schedule is unknown, a count is below 1, or GPipe or ZB-H1 is asked to interleave).

    Notes
    -----
    Free of deadlock for every `num_microbatches`. Where it is no multiple of the stages, the interleaved order is
    that of the next multiple with the absent microbatches struck out; removing tasks from an acyclic precedence
    graph leaves it acyclic.

    References
    ----------
    .. [1] megatron-sc21
    .. [2] gpipe
    .. [3] zero-bubble
    """
    _check(schedule, num_stages, num_microbatches, interleave)
    stages = range(num_stages)
    if schedule == "gpipe":
        return tuple(_gpipe(num_microbatches) for _ in stages)
    if schedule == "zb-h1":
        return tuple(_zero_bubble(num_stages, num_microbatches, stage) for stage in stages)
    if interleave == 1:
        return tuple(_one_forward_one_backward(num_stages, num_microbatches, stage) for stage in stages)
    return tuple(_interleaved(num_stages, num_microbatches, interleave, stage) for stage in stages)


def _check(schedule: str, num_stages: int, num_microbatches: int, interleave: int) -> None:
    if schedule not in SCHEDULES:
        field, allowed, remedy = "schedule", "one of " + ", ".join(SCHEDULES), "choose a listed schedule"
        raise InvalidPlanError(field, schedule, allowed, remedy)
    counts = {"pp": num_stages, "num_microbatches": num_microbatches, "interleave": interleave}
    for field, count in counts.items():
        if count < 1:
            raise InvalidPlanError(field, count, "an integer of at least 1", "raise it")
    if schedule in {"gpipe", "zb-h1"} and interleave > 1:
        allowed, remedy = f"1 under {schedule}", "use the interleaved schedule"
        raise InvalidPlanError("interleave", interleave, allowed, remedy)


def _tasks(kind: int, chunk: NDArray[np.int64], microbatch: NDArray[np.int64]) -> Order:
    return np.stack([np.full_like(microbatch, kind), chunk, microbatch], axis=1)


def _single(kind: int, num_microbatches: int) -> Order:
    microbatch = np.arange(num_microbatches)
    return _tasks(kind, np.zeros_like(microbatch), microbatch)


def _gpipe(num_microbatches: int) -> Order:
    return np.concatenate([_single(FORWARD, num_microbatches), _single(BACKWARD, num_microbatches)])


def _alternate(forward: Order, backward: Order, warm_up: int) -> Order:
    """One forward, one backward after `warm_up` forwards; the backwards that are left close the step."""
    steady = len(forward) - warm_up
    pairs = np.stack([forward[warm_up:], backward[:steady]], axis=1).reshape(-1, 3)
    return np.concatenate([forward[:warm_up], pairs, backward[steady:]])


def _one_forward_one_backward(num_stages: int, num_microbatches: int, stage: int) -> Order:
    warm_up = min(num_stages - stage - 1, num_microbatches)
    return _alternate(_single(FORWARD, num_microbatches), _single(BACKWARD, num_microbatches), warm_up)


def _interleaved(num_stages: int, num_microbatches: int, interleave: int, stage: int) -> Order:
    padded = -(-num_microbatches // num_stages) * num_stages
    group, within = np.divmod(np.arange(padded * interleave), num_stages * interleave)
    chunk, position = np.divmod(within, num_stages)
    microbatch = group * num_stages + position
    warm_up = min(2 * (num_stages - stage - 1) + (interleave - 1) * num_stages, len(microbatch))
    forward, backward = _tasks(FORWARD, chunk, microbatch), _tasks(BACKWARD, interleave - 1 - chunk, microbatch)
    order = _alternate(forward, backward, warm_up)
    return order[order[:, 2] < num_microbatches]


def _zero_bubble(num_stages: int, num_microbatches: int, stage: int) -> Order:
    """1F1B whose backward is split: weight gradients follow `stage` microbatches behind, the rest fill the end."""
    base = _one_forward_one_backward(num_stages, num_microbatches, stage)
    delay = min(stage, num_microbatches)
    is_backward = base[:, 0] == BACKWARD
    followed = np.flatnonzero(is_backward)[delay:] + 1
    weight = _single(WEIGHT_GRADIENT, num_microbatches)
    split = np.insert(base, followed, weight[: num_microbatches - delay], axis=0)
    return np.concatenate([split, weight[num_microbatches - delay :]])


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ActivationTimeline(NamedTuple):
    """Activations one stage holds: a step function that takes `value` from `time` on."""

    time: Floats
    value: Floats


@dataclass(frozen=True, slots=True)
class PipelineTrace:
    """One training step's pipeline schedule in time; arrays of tasks are sorted by stage, then by start."""

    schedule: str  # one of `SCHEDULES`
    num_stages: int  # of the pipeline
    num_microbatches: int  # of the step
    interleave: int  # chunks per stage
    stage: Ints  # of each task
    chunk: Ints  # of each task
    microbatch: Ints  # of each task
    kind: Ints  # of each task, a code into `KINDS`
    start: Floats  # of each task [s]
    end: Floats  # of each task [s]
    total_time: float  # end of the last task [s]
    busy_time: Floats  # of each stage [s]
    peak_activation: Floats  # of each stage, in the unit of what a forward keeps
    peak_activation_time: Floats  # when each stage reaches it [s]
    peak_in_flight: Ints  # microbatches, or chunks, that each stage holds at most
    activation: tuple[ActivationTimeline, ...]  # what each stage holds over time

    @property
    def bubble_time(self) -> Floats:
        """Time each stage idles during the step [s]."""
        return self.total_time - self.busy_time

    @property
    def bubble_fraction(self) -> float:
        """Idle share of all stages' time."""
        whole = self.total_time * self.num_stages
        return float(self.bubble_time.sum()) / whole if whole > 0.0 else 0.0


def simulate_pipeline(
    schedule: str,
    forward_time: ArrayLike,
    backward_time: ArrayLike,
    weight_time: ArrayLike = 0.0,
    *,
    num_microbatches: int,
    interleave: int = 1,
    transfer_time: ArrayLike = 0.0,
    activation: ArrayLike | None = None,
    held_fraction: float = 1.0,
) -> PipelineTrace:
    r"""Schedule of one training step, task by task.

    .. math:: start(x) = \max(end(\text{previous on the stage}), end(\text{what } x \text{ needs}) + transfer)

    Raises InvalidPlanError (the schedule is unknown or a count means nothing); InvalidInputError (a time or an
    activation is negative, not finite, or of another shape).

    Notes
    -----
    Without transfers, against the closed form m t_max + (t_sum - t_max)/v:

    - equal stages and a multiple of the stages in microbatches (any number without interleave): equal;
    - one chunk, backward in proportion to forward: the closed form is never below; it is above by at most the sum of
      the stages after the slowest, so equal where the last stage is the slowest;
    - any case: between max over s of m t_s + the first chunks of the stages before s, and the same schedule with
      every chunk as long as the longest, (m' v + p - 1) times its time, m' the next multiple of p (m without
      interleave).

    ZB-H1 with equal stages, m >= p: m (f + b + w) + (p - 1)(f + max(b - w, 0)). Transfers x on equal stages with m a
    multiple of p add 2 (p - 1) m x / p + 2 (p - 2) x to 1F1B (p >= 2: it has no slack to hide them) and
    2 (p v - 1) x to the interleaved order.

    References
    ----------
    .. [1] megatron-sc21
    .. [2] zero-bubble
    """
    orders = stage_orders(schedule, _count_stages(forward_time), num_microbatches, interleave)
    shape = (len(orders), interleave)
    forward = _table(forward_time, "forward_time", shape, split=True)
    backward = _table(backward_time, "backward_time", shape, split=True)
    weight = _table(weight_time, "weight_time", shape, split=True)
    if schedule != "zb-h1":
        backward, weight = backward + weight, np.zeros(shape)
    link = _table(transfer_time, "transfer_time", (shape[0], 1), split=False)[:, 0]
    kept = _table(1.0 if activation is None else activation, "activation", shape, split=True)
    if not 0.0 <= held_fraction <= 1.0:
        raise InvalidInputError("held_fraction", held_fraction, "0 to 1", "give a share")
    durations = np.stack([forward, backward, weight])
    queues = [
        _queue(order, stage, durations, link, num_microbatches=num_microbatches) for stage, order in enumerate(orders)
    ]
    ends = _run(queues, 3 * forward.size * num_microbatches)
    held = held_fraction if schedule == "zb-h1" else 0.0
    timelines = [
        _activations(order, end, durations[:, stage], kept[stage], held_fraction=held)
        for stage, (order, end) in enumerate(zip(orders, ends, strict=True))
    ]
    return _trace(schedule, num_microbatches, orders, durations, ends=ends, held=timelines)


class _Queue(NamedTuple):
    """Tasks of one stage in order: own slot, slot they wait for (-1 none), transfer to add, duration."""

    slot: list[int]
    needs: list[int]
    delay: list[float]
    duration: list[float]


def _count_stages(forward_time: ArrayLike) -> int:
    shape = np.shape(forward_time)
    if len(shape) not in {1, 2} or shape[0] == 0:
        allowed, remedy = "one entry per stage, or a row of chunks per stage", "pass an array"
        raise InvalidInputError("forward_time", shape, allowed, remedy)
    return int(shape[0])


def _table(value: ArrayLike, field: str, shape: tuple[int, int], *, split: bool) -> Floats:
    """Values per stage and chunk; a value per stage is divided over its chunks when `split`."""
    given = np.asarray(value, dtype=np.float64)
    if given.ndim < 2:
        given = np.broadcast_to(given, shape[:1]) if given.shape in {(), shape[:1], (1,)} else given
        given = given[:, None] / (shape[1] if split else 1)
    if given.shape not in {shape, (shape[0], 1)} or not np.all(np.isfinite(given)) or np.any(given < 0.0):
        allowed = f"finite, at least 0, of shape {shape[:1]} or {shape}"
        raise InvalidInputError(field, np.asarray(value).tolist(), allowed, "give one value per stage or per chunk")
    return np.broadcast_to(given, shape).astype(np.float64)


def _queue(order: Order, stage: int, durations: Floats, link: Floats, *, num_microbatches: int) -> _Queue:
    num_stages, interleave = durations.shape[1:]
    last = num_stages * interleave - 1
    kind, chunk, microbatch = order[:, 0], order[:, 1], order[:, 2]
    virtual = chunk * num_stages + stage

    def slot(of_kind: int | Ints, of_stage: Ints) -> Ints:
        index: Ints = (of_kind * (last + 1) + of_stage) * num_microbatches + microbatch
        return index

    from_neighbour = np.where(kind == FORWARD, virtual > 0, (kind == BACKWARD) & (virtual < last))
    neighbour = np.where(kind == FORWARD, virtual - 1, virtual + 1)
    own = np.where((kind == BACKWARD) & (virtual == last), slot(FORWARD, virtual), -1)
    needs = np.where(from_neighbour, slot(kind, neighbour), own)
    crossed = np.where(kind == FORWARD, stage - 1, stage)
    delay = np.where(from_neighbour & (num_stages > 1), link[crossed], 0.0)
    duration = durations[kind, stage, chunk]
    return _Queue(slot(kind, virtual).tolist(), needs.tolist(), delay.tolist(), duration.tolist())


def _run(queues: Sequence[_Queue], num_slots: int) -> list[Floats]:
    """End of every task; stages are advanced in turn as far as what they wait for is known."""
    finished: list[float | None] = [None] * num_slots
    ends: list[list[float]] = [[] for _ in queues]
    clock = [0.0] * len(queues)
    remaining = sum(len(queue.slot) for queue in queues)
    while remaining:
        for stage, queue in enumerate(queues):
            done = ends[stage]
            now = clock[stage]
            begun = len(done)
            for index in range(begun, len(queue.slot)):
                needed = queue.needs[index]
                if needed >= 0:
                    arrival = finished[needed]
                    if arrival is None:
                        break
                    arrival += queue.delay[index]
                    now = max(now, arrival)
                now += queue.duration[index]
                finished[queue.slot[index]] = now
                done.append(now)
            clock[stage] = now if len(done) > begun else clock[stage]
            remaining -= len(done) - begun
    return [np.array(end) for end in ends]


class _Held(NamedTuple):
    timeline: ActivationTimeline
    peak: float
    peak_time: float
    peak_count: int


def _activations(order: Order, end: Floats, durations: Floats, kept: Floats, *, held_fraction: float) -> _Held:
    """Activations of a stage: taken when a forward starts, given back when its backward (or weight) task ends."""
    kind, chunk = order[:, 0], order[:, 1]
    change = np.select(
        [kind == FORWARD, kind == BACKWARD, kind == WEIGHT_GRADIENT],
        [kept[chunk], -kept[chunk] * (1.0 - held_fraction), -kept[chunk] * held_fraction],
    )
    time = np.where(kind == FORWARD, end - durations[kind, chunk], end)
    value = np.cumsum(change)
    top = int(np.argmax(value))
    release = WEIGHT_GRADIENT if held_fraction > 0.0 else BACKWARD
    count = np.cumsum((kind == FORWARD).astype(np.int64) - (kind == release))
    return _Held(ActivationTimeline(time, value), float(value[top]), float(time[top]), int(count.max()))


def _trace(
    schedule: str,
    num_microbatches: int,
    orders: Sequence[Order],
    durations: Floats,
    *,
    ends: Sequence[Floats],
    held: Sequence[_Held],
) -> PipelineTrace:
    stage = np.repeat(np.arange(len(orders)), [len(order) for order in orders])
    kind, chunk, microbatch = np.concatenate(orders).T
    end = np.concatenate(ends)
    duration = durations[kind, stage, chunk]
    return PipelineTrace(
        schedule=schedule,
        num_stages=len(orders),
        num_microbatches=num_microbatches,
        interleave=durations.shape[2],
        stage=stage,
        chunk=chunk,
        microbatch=microbatch,
        kind=kind,
        start=end - duration,
        end=end,
        total_time=float(end.max()),
        busy_time=np.bincount(stage, weights=duration, minlength=len(orders)).astype(np.float64),
        peak_activation=np.array([item.peak for item in held]),
        peak_activation_time=np.array([item.peak_time for item in held]),
        peak_in_flight=np.array([item.peak_count for item in held]),
        activation=tuple(item.timeline for item in held),
    )


@dataclass(frozen=True, slots=True)
class MemoryTimeline:
    """HBM of a rank of one stage over a step."""

    stage: int  # place in the pipeline
    fixed: Mapping[str, float]  # parts that stay [B]
    time: Floats  # from which on `activations` takes each of its values [s]
    activations: Floats  # held by the stage [B]
    peak_bytes: float  # all parts together [B]
    peak_time: float  # [s]
    step_time: float  # [s]
    capacity_bytes: float  # of the rank [B]


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
