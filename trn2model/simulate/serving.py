"""Request queue on given step times: latency percentiles, utilisation and a timeline under continuous batching."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError
from trn2model.simulate.prefill import Prefill
from trn2model.simulate.replica import PREFILL, DecodeTime, Job, Replica, Segment
from trn2model.simulate.requests import Requests
from trn2model.simulate.serving_trace import ServingTrace, timeline

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DISPATCHES: Final = ("least-loaded", "round-robin")
_EVENTS_PER_REPORT: Final = 200


#: time of something that a prompt of so many tokens needs: shape in, same shape out. [token] -> [s]
TransferTime = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class ServingSetup:
    """What serves the queue; times in seconds, lengths in tokens.

    `tokens_per_step` above 1 is speculative decoding. With `prefill_workers` above 0 prefill runs on workers of its
    own and `transfer_time` carries the prompt's cache to the decode replicas.
    """

    prefill: Prefill
    decode_time: DecodeTime
    max_concurrency: int
    num_replicas: int = 1
    tokens_per_step: float = 1.0
    dispatch: str = "least-loaded"
    prefill_workers: int = 0
    transfer_time: TransferTime | None = None


class Progress(NamedTuple):
    """How far a run is."""

    finished: int
    total: int
    time: float


def serving_steps(setup: ServingSetup, requests: Requests) -> Generator[Progress, None, ServingTrace]:
    """Run of the queue as a generator: it yields progress, and returns the trace.

    Leaving the generator ends the run: that is how a page cancels it.

    Raises InvalidInputError (a number of the setup is outside its range, or a step takes no time).
    """
    _check(setup)
    _check_times(setup, requests)
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
    apart = setup.prefill_workers > 0
    workers = _prefill_apart(setup, jobs) if apart else []
    ready = [job.first_token if apart else job.arrival for job in jobs]
    order = sorted(range(len(jobs)), key=lambda index: (ready[index], index))
    replicas = _replicas(setup)
    worker = yield from _run(replicas, [jobs[at] for at in order], [ready[at] for at in order], setup.dispatch)
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

    Raises InvalidInputError (a number of the setup is outside its range, or a step takes no time).
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
    least = {"max_concurrency": 1, "num_replicas": 1, "tokens_per_step": 1, "prefill_workers": 0}
    for name, minimum in least.items():
        value = getattr(setup, name)
        if not minimum <= value < float("inf"):
            raise InvalidInputError(name, value, f"at least {minimum}", "raise it")
    if not 0.0 <= setup.prefill.overlap <= 1.0:
        raise InvalidInputError("overlap", setup.prefill.overlap, "0 to 1", "give a share")
    if setup.dispatch not in DISPATCHES:
        allowed = "one of " + ", ".join(DISPATCHES)
        raise InvalidInputError("dispatch", setup.dispatch, allowed, "choose a listed one")


def _check_times(setup: ServingSetup, requests: Requests) -> None:
    longest = np.array([1.0, float((requests.input_tokens + requests.output_tokens).max())])
    decode = np.asarray(setup.decode_time(float(setup.max_concurrency), longest))
    alone = [setup.prefill.prompt_time(tokens, 1) for tokens in np.unique(requests.input_tokens).tolist()]
    prefill = np.concatenate([chunks for times in alone for chunks in times])
    for name, times in (("prefill_time", prefill), ("decode_time", decode)):
        if not np.all(np.isfinite(times) & (times > 0.0)):
            allowed, remedy = "finite times above 0", "check the step times"
            raise InvalidInputError(name, float(np.min(times)), allowed, remedy)


def _replicas(setup: ServingSetup) -> list[Replica]:
    prefill = None if setup.prefill_workers else setup.prefill
    return [
        Replica(setup.max_concurrency, setup.decode_time, prefill, setup.tokens_per_step)
        for _ in range(setup.num_replicas)
    ]


def _prefill_apart(setup: ServingSetup, jobs: Sequence[Job]) -> list[list[Segment]]:
    """Prefill on workers of its own, first come first served; the first token follows the cache's transfer."""
    segments: list[list[Segment]] = [[] for _ in range(setup.prefill_workers)]
    free = [(0.0, worker) for worker in range(setup.prefill_workers)]
    transfer = np.zeros(len(jobs))
    if setup.transfer_time is not None:
        transfer[:] = setup.transfer_time(np.array([job.input_tokens for job in jobs]))
    arrivals, taken = [job.arrival for job in jobs], 0
    while taken < len(jobs):
        available, worker = heapq.heappop(free)
        start = max(available, arrivals[taken])
        waiting = range(taken, bisect_right(arrivals, start))
        count, _ = setup.prefill.take((jobs[at].input_tokens for at in waiting), len(jobs))
        together = jobs[taken : taken + count]
        times = setup.prefill.pass_time([job.input_tokens for job in together])
        end = start + float(times.interval.sum())
        for job in together:
            job.start = start
            job.first_token = start + float(times.latency.sum()) + float(transfer[job.index])
        segments[worker].append(Segment(PREFILL, start, end, count))
        heapq.heappush(free, (end, worker))
        taken += count
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
