"""Request queue on given step times: latency percentiles, utilisation and a timeline under continuous batching."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError
from trn2model.formulas.serving import expected_tokens
from trn2model.model.calls import plan_network
from trn2model.model.serving.steady import decode_pass, estimate_serving, steady_state
from trn2model.simulate.prefill import Prefill, priced_alike, scenario_prefill, scenario_prompts, transfer_times
from trn2model.simulate.replica import DECODE, PREFILL, DecodeTime, Job, Replica, Segment, decode_table
from trn2model.simulate.requests import Requests, poisson_requests, varied_lengths
from trn2model.specs.resolve import Resolved, has_static_graphs, resolve
from trn2model.specs.scenario import Scenario

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PERCENTILES: Final = (50, 90, 95, 99)


class StepFunction(NamedTuple):
    """A count that takes `value` from `time` on."""

    time: Floats
    value: Floats


@dataclass(frozen=True, slots=True)
class Timeline:
    """Segments of work in order of worker and time, shape (segments,).

    Where phases mix, a pass is followed by what its decode steps add to it.
    """

    worker: Ints  # that did it
    kind: Ints  # code into `SEGMENT_KINDS`
    start: Floats  # [s]
    end: Floats  # [s]
    batch: Ints  # prompts or running sequences


@dataclass(frozen=True, slots=True)
class ServingTrace:
    """What happened to every request, in order of arrival, and what every worker did; arrays have shape (requests,).

    Workers are the replicas, after the prefill workers where there are any.
    """

    arrival: Floats  # [s]
    input_tokens: Floats  # of the prompt
    output_tokens: Floats  # to generate
    start: Floats  # of prefill [s]
    first_token: Floats  # [s]
    finish: Floats  # last token [s]
    worker: Ints  # that decoded it
    timeline: Timeline  # of all workers
    num_workers: int  # replicas and prefill workers

    @property
    def ttft(self) -> Floats:
        """Time from arrival to the first token of each request [s]."""
        return self.first_token - self.arrival

    @property
    def tpot(self) -> Floats:
        """Mean time between tokens after the first, NaN for requests of one token [s]."""
        gaps = self.output_tokens - 1.0
        return np.where(gaps > 0.0, (self.finish - self.first_token) / np.maximum(gaps, 1.0), np.nan)

    @property
    def e2e(self) -> Floats:
        """Time from arrival to the last token of each request [s]."""
        return self.finish - self.arrival

    @property
    def span(self) -> float:
        """Time from the first arrival to the last token [s]."""
        return float(self.finish.max() - self.arrival.min())

    @property
    def output_tokens_per_s(self) -> float:
        """Generated tokens over the run's length [token/s]."""
        return float(self.output_tokens.sum()) / self.span

    def percentiles(self) -> dict[str, dict[str, float]]:
        """Percentiles and means of the latencies."""
        return {
            name: _summary(values) for name, values in (("ttft", self.ttft), ("tpot", self.tpot), ("e2e", self.e2e))
        }

    def utilization(self) -> dict[str, float]:
        """Shares of the workers' time over the run."""
        length = self.timeline.end - self.timeline.start
        whole = self.num_workers * self.span
        prefill = float(length[self.timeline.kind == PREFILL].sum()) / whole
        decode = float(length[self.timeline.kind == DECODE].sum()) / whole
        return {"prefill": prefill, "decode": decode, "idle": max(1.0 - prefill - decode, 0.0)}

    def queue_length(self) -> StepFunction:
        """Requests that have arrived and not begun."""
        return _count(self.arrival, self.start)

    def number_in_system(self) -> StepFunction:
        """Requests that have arrived and not finished."""
        return _count(self.arrival, self.finish)


def timeline(workers: Sequence[Sequence[Segment]]) -> Timeline:
    """Segments of all workers as arrays."""
    worker = np.repeat(np.arange(len(workers)), [len(segments) for segments in workers])
    flat = [segment for segments in workers for segment in segments]
    return Timeline(
        worker,
        np.array([segment.kind for segment in flat], dtype=np.int64),
        np.array([segment.start for segment in flat]),
        np.array([segment.end for segment in flat]),
        np.array([segment.batch for segment in flat], dtype=np.int64),
    )


def _summary(values: Floats) -> dict[str, float]:
    known = values[np.isfinite(values)]
    if known.size == 0:
        return dict.fromkeys(["mean", *(f"p{percent}" for percent in PERCENTILES)], float("nan"))
    at = np.percentile(known, PERCENTILES)
    return {"mean": float(known.mean())} | {
        f"p{percent}": float(value) for percent, value in zip(PERCENTILES, at, strict=True)
    }


def _count(enter: Floats, leave: Floats) -> StepFunction:
    """Entered less left, at each moment it changes; who leaves at a moment is gone before others enter."""
    time = np.concatenate([leave, enter])
    change = np.repeat([-1.0, 1.0], [len(leave), len(enter)])
    order = np.argsort(time, kind="stable")
    time, total = time[order], np.cumsum(change[order])
    last = np.append(time[1:] != time[:-1], True)
    return StepFunction(time[last], total[last])


DISPATCHES: Final = ("least-loaded", "round-robin")
_EVENTS_PER_REPORT: Final = 200


#: time of something that a prompt of so many tokens needs: shape in, same shape out. [token] -> [s]
TransferTime = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class ServingSetup:
    """What serves the queue."""

    prefill: Prefill  # passes over prompts
    decode_time: DecodeTime  # of a step
    max_concurrency: int  # sequences that a replica runs at once
    num_replicas: int = 1  # that decode
    tokens_per_step: float = 1.0  # above 1 with speculative decoding [token]
    dispatch: str = "least-loaded"  # one of `DISPATCHES`
    prefill_workers: int = 0  # above 0: prefill runs on workers of its own
    transfer_time: TransferTime | None = None  # of a prompt's cache from them to a decode replica


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


#: Contexts of the decode table; step times are close to linear in between.
_CONTEXTS: Final = 17
_SHORTEST: Final = 16.0
#: Prompt lengths that stand for all of a distribution.
_QUANTILES: Final = 128


def simulate_scenario(
    scenario: Scenario,
    rate: float = 1.0,
    num_requests: int = 1000,
    *,
    seed: int = 0,
    variation: float = 0.0,
    trace: Requests | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> ServingTrace:
    """Run a queue of requests through the replicas of a scenario.

    Raises InvalidInputError (the scenario means nothing, or a number is outside its range).

    Notes
    -----
    The host's time per request passes before a replica takes it, and keeps no replica busy.
    """
    requests = trace or scenario_requests(scenario, rate, num_requests, seed=seed, variation=variation)
    host = resolve(scenario, "serve").profile.serving.request_time
    queued = replace(requests, arrival=requests.arrival + host)
    served = simulate_serving(serving_setup(scenario, requests), queued, progress)
    return replace(served, arrival=requests.arrival)


def scenario_requests(
    scenario: Scenario, rate: float, num_requests: int, *, seed: int = 0, variation: float = 0.0
) -> Requests:
    """Requests of a scenario's lengths with Poisson arrivals."""
    means = float(scenario.input_tokens), float(scenario.output_tokens)
    return poisson_requests(rate, num_requests, *means, seed=seed, variation=variation)


def full_rate(scenario: Scenario, variation: float = 0.0) -> float:
    """Requests per second that full replicas finish, in the closed form with the mean pass over varied prompts [1/s].

    Notes
    -----
    A padded pass costs its longest prompt, so that varied prompts cost more than the mean one.
    """
    closed = estimate_serving(resolve(scenario, "serve"))
    outputs = float(scenario.output_tokens)
    if variation == 0.0:
        return float(closed.output_tokens_per_s) / outputs
    resolved = closed.resolved
    shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    normal = np.array([NormalDist().inv_cdf(share) for share in shares])
    lengths = varied_lengths(float(scenario.input_tokens), variation, normal)
    prefill = scenario_prefill(scenario_prompts(resolved, lengths))
    most = np.array([prefill.most_prompts(tokens) for tokens in lengths.tolist()], dtype=np.float64)
    each = [prefill.prompt_time(tokens, int(n)) for tokens, n in zip(lengths.tolist(), most, strict=True)]
    times = np.array([[one.latency.sum(), one.interval.sum()] for one in each]).T
    if prefill.padded:
        edges = np.linspace(0.0, 1.0, _QUANTILES + 1) ** most[0]
        latency, interval = (np.sort(times) * np.diff(edges)).sum(axis=1)
        together = most[0]
    else:
        together = 1.0 / (1.0 / most).mean()
        latency, interval = (times / most).mean(axis=1) * together
    full = replace(closed.prefill, time=latency, stage_time=interval)
    state = steady_state(resolved, (full, together), closed.tpot, closed.kv_transfer_time)
    return float(state.token_rate) / outputs


def serving_setup(scenario: Scenario, requests: Requests) -> ServingSetup:
    """What serves the queue: the scenario's own step times for these requests.

    Notes
    -----
    With static graphs a prefill pass takes one prompt per expert-parallel rank; without, as many prompts as fill its
    budget of tokens. A pass never holds more than what waits and finds a free slot.
    """
    resolved = resolve(scenario, "serve")
    prompts = scenario_prompts(resolved, requests.input_tokens)
    longest = float((requests.input_tokens + requests.output_tokens).max())
    apart = scenario.prefill_replicas
    transfer = transfer_times(prompts) if apart else np.zeros(1)
    return ServingSetup(
        prefill=scenario_prefill(prompts),
        decode_time=_decode(resolved, longest),
        max_concurrency=int(resolved.requests.concurrency),
        num_replicas=int(resolved.plan.dp) - apart,
        tokens_per_step=float(expected_tokens(resolved.requests.draft_tokens, resolved.requests.acceptance)),
        prefill_workers=apart,
        transfer_time=(lambda tokens: np.interp(tokens, prompts.tokens, transfer)) if apart else None,
    )


def _decode(resolved: Resolved, longest: float) -> DecodeTime:
    """Step times over contexts, and over batches unless the graph is compiled for one."""
    requests = resolved.requests
    contexts = np.unique(np.rint(np.geomspace(_SHORTEST, max(longest, 2.0 * _SHORTEST), _CONTEXTS)))
    compiled, most = float(requests.compiled_batch), float(requests.concurrency)
    batches = np.array([compiled])
    if not has_static_graphs(resolved.system.chip) and compiled == most:
        batches = np.unique(np.append(2.0 ** np.arange(int(np.log2(most)) + 1), most))
    batch, context = (axis.ravel() for axis in np.meshgrid(batches, contexts, indexing="ij"))
    each = priced_alike(resolved, compiled_batch=batch)
    steps = np.asarray(decode_pass(each, plan_network(each), context).time).reshape(len(batches), len(contexts))
    table = decode_table(batches, contexts, steps)
    padding = resolved.profile.serving.kv_padding
    whole = float(requests.input_tokens + requests.output_tokens)
    return lambda running, tokens: table(running, tokens + padding * np.maximum(whole - tokens, 0.0))
