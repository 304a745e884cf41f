"""Request queue on given step times: latency percentiles, utilisation and a timeline under continuous batching."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError
from trn2model.simulate.replica import (
    PREFILL,
    ChunkTime,
    DecodeTime,
    Job,
    PrefillTime,
    Replica,
    Segment,
)
from trn2model.simulate.requests import Requests
from trn2model.simulate.serving_trace import ServingTrace, timeline

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DISPATCHES: Final = ("least-loaded", "round-robin")
_EVENTS_PER_REPORT: Final = 200


@dataclass(frozen=True, slots=True)
class ServingSetup:
    """What serves the queue; times in seconds, lengths in tokens.

    `chunk_tokens` 0 runs each prompt whole. `chunk_time` prices a chunk by its tokens and those before it; left out,
    a chunk costs what it adds to `prefill_time`, and no less than a prompt of its size. `prefix_hit` is the share of
    each prompt found in cache. `tokens_per_step` above 1 is speculative decoding. With `prefill_workers` above 0
    prefill runs on workers of its own and `transfer_time` carries the prompt's cache to the decode replicas.
    """

    prefill_time: PrefillTime
    decode_time: DecodeTime
    max_concurrency: int
    num_replicas: int = 1
    chunk_tokens: int = 0
    chunk_time: ChunkTime | None = None
    prefix_hit: float = 0.0
    tokens_per_step: float = 1.0
    dispatch: str = "least-loaded"
    prefill_workers: int = 0
    transfer_time: PrefillTime | None = None


class Progress(NamedTuple):
    """How far a run is."""

    finished: int
    total: int
    time: float


def serving_steps(setup: ServingSetup, requests: Requests) -> Generator[Progress, None, ServingTrace]:
    """Run of the queue as a generator: it yields progress, and returns the trace.

    Leaving the generator ends the run: that is how a page cancels it.

    Parameters
    ----------
    setup : ServingSetup
        What serves.
    requests : Requests
        What arrives.

    Yields
    ------
    Progress
        Every few hundred events.

    Returns
    -------
    ServingTrace
        The generator's return value.

    Raises
    ------
    InvalidInputError
        A number of the setup is outside its range, or a prompt exceeds the largest bucket.
    """
    _check(setup)
    computed = np.maximum(np.ceil(requests.input_tokens * (1.0 - setup.prefix_hit)), 1.0)
    whole = _evaluate(setup.prefill_time, computed)
    _check_times(setup, requests, whole)
    jobs = [
        Job(index, *values)
        for index, values in enumerate(
            zip(
                requests.arrival.tolist(),
                requests.input_tokens.tolist(),
                requests.output_tokens.tolist(),
                strict=True,
            )
        )
    ]
    workers: list[list[Segment]] = []
    if setup.prefill_workers:
        workers = _prefill_apart(setup, jobs, whole)
        ready = sorted(jobs, key=lambda job: (job.first_token, job.index))
        replicas = _replicas(setup, lambda job: np.empty(0))
        worker = yield from _run(replicas, ready, [job.first_token for job in ready], setup.dispatch)
    else:
        durations = _durations(setup, computed, whole)
        replicas = _replicas(setup, durations)
        worker = yield from _run(replicas, jobs, [job.arrival for job in jobs], setup.dispatch)
    workers += [replica.segments for replica in replicas]
    return ServingTrace(
        requests.arrival,
        requests.input_tokens,
        requests.output_tokens,
        np.array([job.start for job in jobs]),
        np.array([job.first_token for job in jobs]),
        np.array([job.finish for job in jobs]),
        worker + setup.prefill_workers,
        timeline(workers),
        len(workers),
    )


def simulate_serving(
    setup: ServingSetup, requests: Requests, progress: Callable[[Progress], None] | None = None
) -> ServingTrace:
    """Run of the queue to its end.

    Parameters
    ----------
    setup : ServingSetup
        What serves.
    requests : Requests
        What arrives.
    progress : callable, optional
        Called every few hundred events.

    Returns
    -------
    ServingTrace
        Requests and workers over time.

    Raises
    ------
    InvalidInputError
        A number of the setup is outside its range, or a prompt exceeds the largest bucket.
    """
    steps = serving_steps(setup, requests)
    while True:
        try:
            report = next(steps)
        except StopIteration as stop:
            trace: ServingTrace = stop.value
            return trace
        if progress is not None:
            progress(report)


def _check(setup: ServingSetup) -> None:
    least = {"max_concurrency": 1, "num_replicas": 1, "chunk_tokens": 0, "tokens_per_step": 1, "prefill_workers": 0}
    for name, minimum in least.items():
        value = getattr(setup, name)
        if not minimum <= value < float("inf"):
            raise InvalidInputError(name, value, f"at least {minimum}", "raise it")
    if not 0.0 <= setup.prefix_hit <= 1.0:
        raise InvalidInputError("prefix_hit", setup.prefix_hit, "0 to 1", "give a share")
    if setup.dispatch not in DISPATCHES:
        allowed = "one of " + ", ".join(DISPATCHES)
        raise InvalidInputError("dispatch", setup.dispatch, allowed, "choose a listed one")


def _check_times(setup: ServingSetup, requests: Requests, whole: Floats) -> None:
    longest = np.array([1.0, float((requests.input_tokens + requests.output_tokens).max())])
    decode = np.asarray(setup.decode_time(float(setup.max_concurrency), longest))
    for name, times in (("prefill_time", whole), ("decode_time", decode)):
        if not np.all(np.isfinite(times) & (times > 0.0)):
            allowed, remedy = "finite times above 0", "check the step times"
            raise InvalidInputError(name, float(np.min(times)), allowed, remedy)


def _evaluate(function: PrefillTime, tokens: Floats) -> Floats:
    """Times of many prompts, the function seeing each length once."""
    distinct, inverse = np.unique(tokens, return_inverse=True)
    return np.asarray(np.broadcast_to(function(distinct), distinct.shape)[inverse], dtype=np.float64)


def _durations(setup: ServingSetup, computed: Floats, whole: Floats) -> Callable[[Job], Floats]:
    if setup.chunk_tokens == 0:
        return lambda job: whole[job.index : job.index + 1]

    def by_chunk(job: Job) -> Floats:
        tokens = float(computed[job.index])
        done = np.arange(0.0, tokens, setup.chunk_tokens)
        size = np.minimum(setup.chunk_tokens, tokens - done)
        past = done + job.input_tokens - tokens
        if setup.chunk_time is not None:
            return np.broadcast_to(setup.chunk_time(size, past), size.shape)
        added = setup.prefill_time(past + size) - np.where(past > 0.0, setup.prefill_time(np.maximum(past, 1.0)), 0.0)
        return np.maximum(added, setup.prefill_time(size))

    return by_chunk


def _replicas(setup: ServingSetup, durations: Callable[[Job], Floats]) -> list[Replica]:
    return [
        Replica(
            max_concurrency=setup.max_concurrency,
            decode_time=setup.decode_time,
            durations=durations,
            tokens_per_step=setup.tokens_per_step,
            chunked=setup.chunk_tokens > 0,
        )
        for _ in range(setup.num_replicas)
    ]


def _prefill_apart(setup: ServingSetup, jobs: Sequence[Job], whole: Floats) -> list[list[Segment]]:
    """Prefill on workers of its own, first come first served; the first token follows the cache's transfer."""
    segments: list[list[Segment]] = [[] for _ in range(setup.prefill_workers)]
    free = [(0.0, worker) for worker in range(setup.prefill_workers)]
    transfer = np.zeros(len(jobs))
    if setup.transfer_time is not None:
        transfer = _evaluate(setup.transfer_time, np.array([job.input_tokens for job in jobs]))
    for job in jobs:
        available, worker = heapq.heappop(free)
        job.start = max(available, job.arrival)
        end = job.start + float(whole[job.index])
        job.first_token = end + float(transfer[job.index])
        segments[worker].append(Segment(PREFILL, job.start, end, 1))
        heapq.heappush(free, (end, worker))
    return segments


def _run(
    replicas: Sequence[Replica], jobs: Sequence[Job], ready: Sequence[float], dispatch: str
) -> Generator[Progress, None, Ints]:
    """Deal the jobs out as they get ready, run every replica up to each, then to the end."""
    worker = np.zeros(len(jobs), dtype=np.int64)
    events = 0
    for number, (job, moment) in enumerate([*zip(jobs, ready, strict=True), (None, float("inf"))]):
        for replica in replicas:
            while replica.clock < moment and replica.step(moment):
                events += 1
                if events % _EVENTS_PER_REPORT == 0:
                    finished = sum(len(each.finished) for each in replicas)
                    yield Progress(finished, len(jobs), min(replica.clock, moment))
        if job is not None:
            chosen = number % len(replicas)
            if dispatch == "least-loaded":
                loads = [replica.load(moment) for replica in replicas]
                chosen = loads.index(min(loads))
            worker[job.index] = chosen
            replicas[chosen].push(job, moment)
    return worker
