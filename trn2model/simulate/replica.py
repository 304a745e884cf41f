"""One serving replica under continuous batching, advanced from event to event."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trn2model.errors import InvalidInputError
from trn2model.simulate.prefill import Prefill

Floats = NDArray[np.float64]

#: time of one decode step: running sequences, tokens in cache per sequence (mean over them). [1], [token] -> [s]
DecodeTime = Callable[[float, Floats], Floats]

#: kinds of segment in a timeline, by code
SEGMENT_KINDS: Final = ("prefill", "decode")
PREFILL: Final = 0
DECODE: Final = 1

_MAX_STEPS: Final = 1024  # decode steps evaluated at once; bounds memory, not the result
_ROUNDING: Final = 1e-12


def decode_table(batches: ArrayLike, contexts: ArrayLike, times: ArrayLike) -> DecodeTime:
    """Decode step time from a table, linear in batch and context, along the last slope beyond the grid.

    Raises InvalidInputError (the table is no rising grid).
    """
    rows, columns = _grid(batches, "decode_batches"), _grid(contexts, "decode_contexts")
    values = np.asarray(times, dtype=np.float64)
    _same_shape(values, (len(rows), len(columns)), "decode_times")

    @cache
    def row_of(batch: float) -> Floats:
        low = int(np.clip(np.searchsorted(rows, batch) - 1, 0, max(len(rows) - 2, 0)))
        high = min(low + 1, len(rows) - 1)
        share = max((batch - rows[low]) / (rows[high] - rows[low]), 0.0) if high > low else 0.0
        return np.asarray(values[low] + share * (values[high] - values[low]))

    def lookup(batch: float, context: Floats) -> Floats:
        return _interpolate(columns, row_of(batch), context)

    return lookup


@dataclass(slots=True)
class Job:
    """One request on its way through a replica; times are NaN until they happen."""

    index: int
    arrival: float
    input_tokens: float
    output_tokens: float
    start: float = float("nan")
    first_token: float = float("nan")
    finish: float = float("nan")


@dataclass(slots=True)
class Segment:
    """What a replica did without a change of batch: a prefill pass (so many prompts) or decode steps."""

    kind: int
    start: float
    end: float
    batch: int


@dataclass(slots=True)
class Replica:
    """A model instance with a queue of its own, first come first served.

    All running sequences share each decode step. A prefill pass stalls them, or takes along as many steps as fit into
    its time where phases mix. It begins as soon as a slot is free for every prompt that waits. If more wait, it waits
    for more slots to get free, until those that are have idled as long as the pass would stall the others: a pass
    costs its time however few prompts it holds.

    While slots are free for prompts that wait, prompts come first: no decode step runs between chunks, and mixed
    steps get of a pass's time the share of the slots that run. Without `prefill`, prompts come prefilled. A prompt
    whose pass has left the first pipeline stages but not the last holds its slot and does not run yet.
    """

    max_concurrency: int
    decode_time: DecodeTime
    prefill: Prefill | None
    tokens_per_step: float = 1.0
    clock: float = 0.0
    segments: list[Segment] = field(default_factory=list)
    finished: list[Job] = field(default_factory=list)
    _waiting: deque[Job] = field(default_factory=deque)
    _batch: list[Job] = field(default_factory=list)  # prompts of the pass under way
    _landing: list[tuple[float, int, Job]] = field(default_factory=list)  # past their pass, not yet at the last stage
    _running: list[tuple[int, int, Job]] = field(default_factory=list)
    _offset: float = 0.0
    _steps: int = 0
    _chunks: deque[tuple[float, float]] = field(default_factory=deque)
    _lag: float = 0.0
    _decode_next: bool = False
    _credit: float = 0.0  # prefill time that mixed decode steps have not used
    _free: int = 0  # slots that idle until the next pass is worth its time
    _idled: float = 0.0
    _ends: Floats = field(default_factory=lambda: np.empty(0))
    _next: int = 0
    _settled: float = 0.0  # until then a full batch only decodes as planned

    def push(self, job: Job, moment: float) -> None:
        """Queue a job."""
        if not (self._waiting or self._running or self._batch):
            self.clock = max(self.clock, moment)
        self._waiting.append(job)

    @property
    def idle(self) -> bool:
        """Whether nothing waits or runs."""
        return not (self._waiting or self._running or self._batch or self._landing)

    def load(self, time: float) -> int:
        """Jobs not finished at a moment up to which the replica has been stepped."""
        late = 0
        for job in reversed(self.finished):
            if job.finish <= time:
                break
            late += 1
        return len(self._waiting) + len(self._running) + len(self._batch) + len(self._landing) + late

    def step(self, until: float) -> bool:
        """Do the next thing that begins before a moment."""
        if self.clock >= until or until <= self._settled or self.idle:
            return False
        while self._landing and self._landing[0][0] <= self.clock:
            self._join(heapq.heappop(self._landing)[2])
        landing = self._landing[0][0] if self._landing else math.inf
        if self._batch:
            if self._decode_next and self._running:
                self._decode(until, 1)
            else:
                self._advance()
        elif count := self._prompts():
            self._begin(count)
        elif self._running:
            self._decode(min(until, landing, self._pause_end()), _MAX_STEPS)
        elif landing < until:
            self.clock = landing
        else:
            return False
        return True

    def _prompts(self) -> int:
        """Prompts of a pass that begins now; none while slots are too few, or idle for a fuller pass."""
        self._free = 0
        free = self.max_concurrency - len(self._running) - len(self._landing)
        if not self._waiting or free <= 0:
            return 0
        if self.prefill is None:
            return min(free, len(self._waiting))
        count, full = self.prefill.take((job.input_tokens for job in self._waiting), free)
        if full or count == len(self._waiting) or not self._running or self._idled >= self._stall():
            return count
        self._free = count
        return 0

    def _stall(self) -> float:
        """Slot time that the next pass costs the running sequences."""
        if self.prefill is None:
            return 0.0
        return self.prefill.stall_per_pass(self._waiting[0].input_tokens) * len(self._running) * (1.0 - _ROUNDING)

    def _pause_end(self) -> float:
        if not self._free:
            return math.inf
        return self.clock + (self._stall() - self._idled) / self._free

    def _begin(self, count: int) -> None:
        jobs = [self._waiting.popleft() for _ in range(count)]
        self._idled = 0.0
        for job in jobs:
            job.start = self.clock if math.isnan(job.start) else job.start
        if self.prefill is None:
            for job in jobs:
                self._join(job)
            return
        times = self.prefill.pass_time([job.input_tokens for job in jobs])
        self._chunks.extend(zip(times.latency.tolist(), times.interval.tolist(), strict=True))
        self._batch, self._lag = jobs, 0.0
        self._advance()

    def _advance(self) -> None:
        """Run the next chunk of the pass under way."""
        latency, interval = self._chunks.popleft()
        begin = self.clock
        self.clock += interval
        self._record(PREFILL, begin, len(self._batch))
        overlap = self.prefill.overlap if self.prefill else 0.0
        taken = len(self._running) + len(self._landing) + len(self._batch)
        prompts_first = bool(self._waiting) and taken < self.max_concurrency
        if overlap and self._running:
            self._credit += interval * (len(self._running) / self.max_concurrency if prompts_first else 1.0)
            self._mix(interval, overlap)
        self._next = len(self._ends)
        self._decode_next = bool(self.prefill and self.prefill.interleaved) and not (overlap or prompts_first)
        self._lag += latency - interval
        if self._chunks:
            return
        for job in self._batch:
            job.first_token = self.clock + self._lag
            if self._lag > 0.0:
                heapq.heappush(self._landing, (job.first_token, job.index, job))
            else:
                self._join(job)
        self._batch = []

    def _mix(self, interval: float, overlap: float) -> None:
        """Decode steps inside a chunk: as many as fill the prefill time they may use, and are left."""
        batch, begin = len(self._running), self.clock - interval
        context = self._offset / batch + self._steps * self.tokens_per_step
        each = float(self.decode_time(float(batch), np.array([context]))[0])
        left = max(due for due, _, _ in self._running) - self._steps
        steps = min(int(self._credit / each + _ROUNDING), left)
        self._credit = max(self._credit - steps * each, 0.0) if steps < left else 0.0
        if steps == 0:
            return
        end = self.clock
        self.clock += (1.0 - overlap) * steps * each
        self._record(DECODE, end, batch)
        self._steps += steps
        self._retire(begin, (self.clock - begin) / steps, steps)

    def _join(self, job: Job) -> None:
        steps = math.ceil((job.output_tokens - 1.0) / self.tokens_per_step)
        if steps == 0:
            job.finish = job.first_token
            self.finished.append(job)
            return
        self._next = len(self._ends)
        heapq.heappush(self._running, (self._steps + steps, job.index, job))
        self._offset += job.input_tokens + 1.0 - self._steps * self.tokens_per_step

    def _decode(self, until: float, most: int) -> None:
        batch = len(self._running)
        if self._next == len(self._ends):
            self._plan(min(self._running[0][0] - self._steps, most))
        last = min(int(self._ends.searchsorted(until)), len(self._ends) - 1)
        begin, self.clock = self.clock, float(self._ends[last])
        self._idled += self._free * (self.clock - begin)
        self._record(DECODE, begin, batch)
        self._decode_next = False
        self._steps += last + 1 - self._next
        self._next = last + 1
        self._retire(self.clock, 0.0, 0)

    def _retire(self, begin: float, each: float, steps: int) -> None:
        """Finish what is due, at the end of its own among the last steps."""
        first = self._steps - steps
        while self._running and self._running[0][0] <= self._steps:
            due, _, job = heapq.heappop(self._running)
            own = math.ceil((job.output_tokens - 1.0) / self.tokens_per_step)
            self._offset -= job.input_tokens + 1.0 - (due - own) * self.tokens_per_step
            job.finish = max(begin + (due - first) * each, job.first_token)
            self.finished.append(job)
        if not self._running:
            self._offset = 0.0

    def _plan(self, steps: int) -> None:
        """Ends of the next decode steps, should the batch stay as it is that long."""
        batch = len(self._running)
        number = np.arange(self._steps, self._steps + steps, dtype=np.float64)
        times = np.empty(steps)
        times[:] = self.decode_time(float(batch), self._offset / batch + number * self.tokens_per_step)
        self._ends = self.clock + times.cumsum()
        self._next = 0
        self._settled = float(self._ends[-1]) if batch == self.max_concurrency else 0.0

    def _record(self, kind: int, begin: float, batch: int) -> None:
        last = self.segments[-1] if self.segments else None
        if last and kind == DECODE and (last.kind, last.end, last.batch) == (kind, begin, batch):
            last.end = self.clock
        elif self.clock > begin:
            self.segments.append(Segment(kind, begin, self.clock, batch))


def _grid(values: ArrayLike, field_name: str) -> Floats:
    grid = np.asarray(values, dtype=np.float64)
    if grid.ndim != 1 or grid.size == 0 or not np.all(np.isfinite(grid)) or np.any(np.diff(grid) <= 0.0):
        allowed, remedy = "a strictly rising list of numbers", "sort it and drop repeats"
        raise InvalidInputError(field_name, grid.tolist(), allowed, remedy)
    return grid


def _same_shape(values: Floats, shape: tuple[int, ...], field_name: str) -> None:
    if values.shape != shape or not np.all(np.isfinite(values)) or np.any(values < 0.0):
        allowed, remedy = f"finite times of at least 0, of shape {shape}", "give one per grid point"
        raise InvalidInputError(field_name, values.tolist(), allowed, remedy)


def _interpolate(grid: Floats, values: Floats, at: Floats) -> Floats:
    inside = np.interp(at, grid, values)
    if len(grid) == 1:
        return np.asarray(inside)
    slope = (values[-1] - values[-2]) / (grid[-1] - grid[-2])
    return np.asarray(inside + np.maximum(np.asarray(at) - grid[-1], 0.0) * slope)
