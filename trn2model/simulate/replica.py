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

Floats = NDArray[np.float64]

#: time of a prefill of so many computed tokens: shape in, same shape out. [token] -> [s]
PrefillTime = Callable[[Floats], Floats]
#: time of one chunk: tokens of the chunk, tokens before it. [token], [token] -> [s]
ChunkTime = Callable[[Floats, Floats], Floats]
#: time of one decode step: running sequences, tokens in cache per sequence (mean over them). [1], [token] -> [s]
DecodeTime = Callable[[float, Floats], Floats]

#: kinds of segment in a timeline, by code
SEGMENT_KINDS: Final = ("prefill", "decode")
PREFILL: Final = 0
DECODE: Final = 1

_MAX_STEPS: Final = 1024  # decode steps evaluated at once; bounds memory, not the result


def prefill_table(tokens: ArrayLike, times: ArrayLike, *, buckets: bool = False) -> PrefillTime:
    """Prefill time from a table.

    Parameters
    ----------
    tokens : array_like, shape (n,)
        Computed tokens, strictly rising. [token]
    times : array_like, shape (n,)
        Time of each. [s]
    buckets : bool
        True: static graphs, a prompt costs the smallest bucket that holds it. False: linear in between, and beyond
        the last along the last slope.

    Returns
    -------
    PrefillTime
        The function.

    Raises
    ------
    InvalidInputError
        The table is no rising grid, or later a prompt exceeds the largest bucket.
    """
    grid, values = _grid(tokens, "prefill_tokens"), np.asarray(times, dtype=np.float64)
    _same_shape(values, grid.shape, "prefill_times")

    def linear(count: Floats) -> Floats:
        return _interpolate(grid, values, count)

    def stepped(count: Floats) -> Floats:
        index = np.searchsorted(grid, count, side="left")
        if np.any(index == len(grid)):
            allowed, remedy = f"at most {grid[-1]:.0f} tokens, the largest bucket", "add a larger context bucket"
            raise InvalidInputError("input_tokens", float(np.max(count)), allowed, remedy)
        return np.asarray(values[index])

    return stepped if buckets else linear


def decode_table(batches: ArrayLike, contexts: ArrayLike, times: ArrayLike) -> DecodeTime:
    """Decode step time from a table, linear in batch and context, along the last slope beyond the grid.

    Parameters
    ----------
    batches : array_like, shape (b,)
        Running sequences, strictly rising; a single entry serves any batch (one compiled batch). [1]
    contexts : array_like, shape (c,)
        Tokens in cache per sequence, strictly rising. [token]
    times : array_like, shape (b, c)
        Step times. [s]

    Returns
    -------
    DecodeTime
        The function.

    Raises
    ------
    InvalidInputError
        The table is no rising grid.
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
    """What a replica did without a change of batch: a prefill (one prompt) or decode steps."""

    kind: int
    start: float
    end: float
    batch: int


@dataclass(slots=True)
class Replica:
    """A model instance with a queue of its own, first come first served.

    A prompt runs alone and stalls decode; in chunks, one decode step runs between two chunks. All running sequences
    share each decode step. `durations` gives the time of each chunk of a job's prefill (none: already prefilled).
    """

    max_concurrency: int
    decode_time: DecodeTime
    durations: Callable[[Job], Floats]
    tokens_per_step: float = 1.0
    chunked: bool = False
    clock: float = 0.0
    segments: list[Segment] = field(default_factory=list)
    finished: list[Job] = field(default_factory=list)
    _waiting: deque[Job] = field(default_factory=deque)
    _running: list[tuple[int, int, Job]] = field(default_factory=list)
    _offset: float = 0.0
    _steps: int = 0
    _prefilling: Job | None = None
    _chunks: deque[float] = field(default_factory=deque)
    _decode_next: bool = False
    _ends: Floats = field(default_factory=lambda: np.empty(0))
    _next: int = 0
    _settled: float = 0.0  # until then a full batch only decodes as planned

    def push(self, job: Job, moment: float) -> None:
        """Queue a job.

        Parameters
        ----------
        job : Job
            What to serve.
        moment : float
            When it gets here; never earlier than the job before. [s]
        """
        if self.idle:
            self.clock = max(self.clock, moment)
        self._waiting.append(job)

    @property
    def idle(self) -> bool:
        """Whether nothing waits or runs.

        Returns
        -------
        bool
            True when the replica waits for work.
        """
        return not (self._waiting or self._running or self._prefilling)

    def load(self, time: float) -> int:
        """Jobs not finished at a moment up to which the replica has been stepped.

        Parameters
        ----------
        time : float
            The moment. [s]

        Returns
        -------
        int
            Waiting, in prefill and running jobs.
        """
        late = 0
        for job in reversed(self.finished):
            if job.finish <= time:
                break
            late += 1
        return len(self._waiting) + len(self._running) + (self._prefilling is not None) + late

    def step(self, until: float) -> bool:
        """Do the next thing that begins before a moment.

        Parameters
        ----------
        until : float
            The moment: decode steps end with the first that reaches it. [s]

        Returns
        -------
        bool
            False when nothing is left to begin before the moment, or nothing that could change what runs.
        """
        if self.clock >= until or until <= self._settled or self.idle:
            return False
        if self._prefilling is None and self._waiting and len(self._running) < self.max_concurrency:
            self._begin(self._waiting.popleft())
        elif self._prefilling is not None and not (self._decode_next and self._running):
            self._prefill(self._prefilling)
        else:
            self._decode(until, single=self._prefilling is not None)
        return True

    def _begin(self, job: Job) -> None:
        job.start = self.clock if math.isnan(job.start) else job.start
        self._chunks.extend(self.durations(job).tolist())
        if self._chunks:
            self._prefilling = job
        else:
            self._join(job)

    def _prefill(self, job: Job) -> None:
        begin = self.clock
        self.clock += self._chunks.popleft()
        self._next = len(self._ends)
        self._record(PREFILL, begin, 1)
        self._decode_next = self.chunked
        if not self._chunks:
            self._prefilling = None
            job.first_token = self.clock
            self._join(job)

    def _join(self, job: Job) -> None:
        steps = math.ceil((job.output_tokens - 1.0) / self.tokens_per_step)
        if steps == 0:
            self._finish(job)
            return
        self._next = len(self._ends)
        heapq.heappush(self._running, (self._steps + steps, job.index, job))
        self._offset += job.input_tokens + 1.0 - self._steps * self.tokens_per_step

    def _decode(self, until: float, *, single: bool) -> None:
        batch = len(self._running)
        if self._next == len(self._ends):
            self._plan(1 if single else min(self._running[0][0] - self._steps, _MAX_STEPS))
        last = min(int(self._ends.searchsorted(until)), len(self._ends) - 1)
        begin, self.clock = self.clock, float(self._ends[last])
        self._record(DECODE, begin, batch)
        self._decode_next = False
        self._steps += last + 1 - self._next
        self._next = last + 1
        while self._running and self._running[0][0] <= self._steps:
            due, _, job = heapq.heappop(self._running)
            steps = math.ceil((job.output_tokens - 1.0) / self.tokens_per_step)
            self._offset -= job.input_tokens + 1.0 - (due - steps) * self.tokens_per_step
            self._finish(job)
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

    def _finish(self, job: Job) -> None:
        job.finish = max(self.clock, job.first_token)
        self.finished.append(job)

    def _record(self, kind: int, begin: float, batch: int) -> None:
        last = self.segments[-1] if self.segments else None
        if last and kind == DECODE and (last.kind, last.end, last.batch) == (kind, begin, batch):
            last.end = self.clock
        else:
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
