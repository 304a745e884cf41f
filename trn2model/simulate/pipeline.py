"""Event-driven pipeline schedule: the oracle of the closed forms, and what the Gantt chart draws.

Each stage runs its tasks in the order of `simulate.schedules`; a task starts as soon as its stage is free and what
it needs has arrived. Transfers are asynchronous: they delay the receiver and never occupy a stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trn2model.errors import InvalidInputError
from trn2model.simulate.schedules import BACKWARD, FORWARD, KINDS, WEIGHT_GRADIENT, Order, stage_orders

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ActivationTimeline(NamedTuple):
    """Activations one stage holds: a step function that takes `value` from `time` on."""

    time: Floats
    value: Floats


@dataclass(frozen=True, slots=True)
class PipelineTrace:
    """One training step's pipeline schedule in time.

    Task arrays are aligned and sorted by stage, then by start; `kind` holds codes into ``schedules.KINDS``.
    """

    schedule: str
    num_stages: int
    num_microbatches: int
    interleave: int
    stage: Ints
    chunk: Ints
    microbatch: Ints
    kind: Ints
    start: Floats
    end: Floats
    total_time: float
    busy_time: Floats
    peak_activation: Floats
    peak_activation_time: Floats
    peak_in_flight: Ints
    activation: tuple[ActivationTimeline, ...]

    @property
    def bubble_time(self) -> Floats:
        """Time each stage idles during the step [s]."""
        return self.total_time - self.busy_time

    @property
    def bubble_fraction(self) -> float:
        """Idle share of all stages' time."""
        whole = self.total_time * self.num_stages
        return float(self.bubble_time.sum()) / whole if whole > 0.0 else 0.0

    def kind_names(self) -> list[str]:
        """Kind of each task in words."""
        return [KINDS[code] for code in self.kind.tolist()]


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
    queues = [_queue(order, stage, durations, link, num_microbatches) for stage, order in enumerate(orders)]
    ends = _run(queues, 3 * forward.size * num_microbatches)
    timelines = [
        _activations(order, end, durations[:, stage], kept[stage], held_fraction if schedule == "zb-h1" else 0.0)
        for stage, (order, end) in enumerate(zip(orders, ends, strict=True))
    ]
    return _trace(schedule, num_microbatches, orders, durations, ends, timelines)


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


def _queue(order: Order, stage: int, durations: Floats, link: Floats, num_microbatches: int) -> _Queue:
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


def _activations(order: Order, end: Floats, durations: Floats, kept: Floats, held_fraction: float) -> _Held:
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
