"""The event-driven queue against a token-by-token one, queueing laws and the closed forms of its limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trn2model.simulate.prefill import PassTime, Prefill
from trn2model.simulate.queue import ServingSetup, simulate_serving
from trn2model.simulate.replica import DECODE, PREFILL
from trn2model.simulate.requests import Requests, poisson_requests


def prefill_time(tokens):
    return 0.015 + tokens * 8e-5 + tokens**2 * 1e-9


def decode_time(batch, context):
    return 0.009 + 1.5e-4 * batch + batch * context * 9e-8


def chunk_times(tokens, chunk, stages=1):
    """Latency of each chunk of a prompt, and how long it keeps the replica."""
    latency = []
    for done in np.arange(0.0, tokens, chunk or tokens):
        size = min(chunk or tokens, tokens - done)
        latency.append(max(prefill_time(done + size) - (prefill_time(done) if done else 0.0), prefill_time(size)))
    return PassTime(np.array(latency), np.array(latency) / stages)


def passes(chunk=0, together=1, stages=1, overlap=0.0):
    return Prefill(
        lambda tokens, _prompts: chunk_times(tokens, chunk, stages),
        most_prompts=lambda _tokens: together,
        interleaved=chunk > 0,
        overlap=overlap,
    )


def token_by_token(requests, max_concurrency, chunk=0, clients=None, together=1, stages=1, overlap=0.0):
    """One replica, one decode step at a time: slow, plain, written apart from the package's engine."""
    arrival, prompt, output = requests.arrival, requests.input_tokens, requests.output_tokens
    first, finish = np.full(len(arrival), np.nan), np.full(len(arrival), np.nan)
    queue = list(range(len(arrival))) if clients is None else list(clients)
    clock, idled, credit, decoded = 0.0, 0.0, 0.0, True
    running: dict[int, int] = {}
    flying: set[int] = set()
    group: list[int] = []
    pieces: list[tuple[float, float]] = []
    lag = 0.0

    def make_token(moment):
        for who in list(running):
            running[who] += 1
            if running[who] >= output[who]:
                finish[who] = moment
                del running[who]

    def step_time():
        return decode_time(len(running), sum(prompt[who] + made for who, made in running.items()) / len(running))

    while queue or running or group or flying:
        waiting = [who for who in queue if arrival[who] <= clock]
        for who in sorted(flying, key=lambda who: first[who]):
            if first[who] <= clock:
                flying.remove(who)
                if output[who] > 1:
                    running[who] = 1
        if not (group or running or waiting):
            events = [arrival[queue[0]]] if queue else []
            clock = min([*events, *(first[who] for who in flying)], default=clock)
            continue
        free = max_concurrency - len(running) - len(flying) - len(group)
        if not group and waiting and free > 0:
            fits = min(together, free, len(waiting))
            alone = max(sum(chunk_times(prompt[waiting[0]], chunk, stages).interval), 0.0) * (1.0 - overlap)
            worth = together == 1 or idled >= alone * len(running) * (1.0 - 1e-9)
            if fits == together or fits == len(waiting) or not running or worth:
                group, queue, idled, lag, decoded = waiting[:fits], queue[fits:], 0.0, 0.0, True
                each = [chunk_times(prompt[who], chunk, stages) for who in group]
                most = max(len(one.latency) for one in each)
                padded = [np.pad(np.asarray(one), ((0, 0), (0, most - len(one.latency)))) for one in each]
                pieces = [(float(late), float(held)) for late, held in np.max(padded, axis=0).T]
        if group and (decoded or not running):
            latency, interval = pieces.pop(0)
            begin, clock = clock, clock + interval
            late = [who for who in queue if arrival[who] <= begin]
            first_come = bool(late) and len(running) + len(flying) + len(group) < max_concurrency
            if overlap and running:
                credit += interval * (len(running) / max_concurrency if first_come else 1.0)
                one, left = step_time(), max(output[who] - made for who, made in running.items())
                steps = int(min(credit / one + 1e-12, left))
                credit = max(credit - steps * one, 0.0) if steps < left else 0.0
                clock += (1.0 - overlap) * steps * one
                for number in range(steps):
                    make_token(begin + (clock - begin) * (number + 1) / steps)
            lag += latency - interval
            decoded = not chunk or overlap > 0.0 or first_come
            if not pieces:
                for who in group:
                    first[who] = clock + lag
                    if output[who] == 1:
                        finish[who] = first[who]
                    if lag > 0.0:
                        flying.add(who)
                    elif output[who] > 1:
                        running[who] = 1
                group = []
        elif running:
            one = step_time()
            idled += one * min(free, together) if waiting and free > 0 and not group else 0.0
            clock, decoded = clock + one, True
            make_token(clock)
        elif flying:
            clock = min(first[who] for who in flying)
    return first, finish


@given(
    seed=st.integers(0, 10_000),
    rate=st.sampled_from([0.2, 2.0, 20.0, float("inf")]),
    concurrency=st.integers(1, 6),
    chunk=st.sampled_from([0, 37, 100]),
    together=st.integers(1, 4),
    stages=st.sampled_from([1, 1, 4]),
    overlap=st.sampled_from([0.0, 0.0, 0.7]),
)
def test_skipping_ahead_changes_nothing(seed, rate, concurrency, chunk, together, stages, overlap):
    requests = poisson_requests(rate, 25, 200, 20, seed=seed, variation=0.8)
    rules = {"chunk": chunk, "together": together, "stages": stages, "overlap": overlap}
    trace = simulate_serving(ServingSetup(passes(**rules), decode_time, concurrency), requests)
    first, finish = token_by_token(requests, concurrency, **rules)
    np.testing.assert_allclose(trace.first_token, first, rtol=1e-9)
    np.testing.assert_allclose(trace.finish, finish, rtol=1e-9)


def test_replicas_in_turn_are_queues_of_their_own():
    requests = poisson_requests(6.0, 60, 200, 40, seed=3, variation=0.5)
    trace = simulate_serving(ServingSetup(passes(), decode_time, 4, 3, dispatch="round-robin"), requests)
    for replica in range(3):
        mine = list(range(replica, 60, 3))
        first, finish = token_by_token(requests, 4, clients=mine)
        np.testing.assert_allclose(trace.first_token[mine], first[mine], rtol=1e-9)
        np.testing.assert_allclose(trace.finish[mine], finish[mine], rtol=1e-9)


@pytest.mark.parametrize("replicas", [1, 4])
@pytest.mark.parametrize("load", [0.3, 0.8])
def test_littles_law(load, replicas):
    """L = λ W over the middle of a long run, L counted from the workers' batches and W from the requests."""
    rate = load * replicas / (prefill_time(300) + 79 * decode_time(8, 340) / 8)
    requests = poisson_requests(rate, 12_000, 300, 80, seed=11)
    trace = simulate_serving(ServingSetup(passes(), decode_time, 8, replicas), requests)
    low, high = np.quantile(requests.arrival, [0.1, 0.9])
    inside = (requests.arrival >= low) & (requests.arrival < high)
    little = inside.sum() / (high - low) * trace.e2e[inside].mean()
    system = trace.number_in_system()
    edges = np.clip(np.append(system.time, trace.finish.max()), low, high)
    assert np.sum(system.value * np.diff(edges)) / (high - low) == pytest.approx(little, rel=0.02)
    # in service: decode batches and the prompts in prefill, against the mean time in service
    line = trace.timeline
    length = np.clip(line.end, low, high) - np.clip(line.start, low, high)
    decoding = np.sum(length * line.batch * (line.kind == DECODE)) / (high - low)
    prefilling = line.kind == PREFILL
    stalled = sum(
        np.sum(length[prefilling & (line.worker == worker)] * held)
        for worker in range(replicas)
        for held in [_running_beside(trace, worker)]
    ) / (high - low)
    service = (trace.finish - trace.start)[inside].mean() * inside.sum() / (high - low)
    assert decoding + stalled == pytest.approx(service, rel=0.02)


def _running_beside(trace, worker):
    """Sequences that hold a slot during each prefill of a worker: the one in prefill and those it stalls."""
    line, own = trace.timeline, trace.worker == worker
    starts = line.start[(line.kind == PREFILL) & (line.worker == worker)]
    begun, done = np.sort(trace.start[own]), np.sort(trace.finish[own])
    return np.searchsorted(begun, starts, side="right") - np.searchsorted(done, starts, side="right")


def test_an_empty_queue_gives_the_closed_form():
    requests = poisson_requests(0.02, 300, 2048, 512, seed=5)
    trace = simulate_serving(ServingSetup(passes(), decode_time, 8), requests)
    summary = trace.percentiles()
    assert summary["ttft"]["p50"] == pytest.approx(prefill_time(2048), rel=1e-6)
    assert summary["ttft"]["mean"] == pytest.approx(prefill_time(2048), rel=0.05)
    assert summary["tpot"]["mean"] == pytest.approx(decode_time(1, 2048 + 256), rel=0.05)
    assert trace.utilization()["idle"] > 0.8


@pytest.mark.parametrize("concurrency", [1, 8, 64])
@pytest.mark.parametrize("replicas", [1, 2])
def test_saturation_gives_the_closed_form_cycle(concurrency, replicas):
    """Full slots: while a sequence makes its tokens, every slot of the replica spends one prefill."""
    requests = poisson_requests(float("inf"), 40 * concurrency * replicas, 1000, 200)
    trace = simulate_serving(ServingSetup(passes(), decode_time, concurrency, replicas), requests)
    cycle = concurrency * prefill_time(1000) + 199 * decode_time(concurrency, 1100)
    assert trace.output_tokens_per_s == pytest.approx(replicas * concurrency * 200 / cycle, rel=0.05)
    busy = trace.utilization()
    assert busy["prefill"] == pytest.approx(concurrency * prefill_time(1000) / cycle, rel=0.05)
    assert busy["idle"] < 0.02


def test_single_slot_is_an_m_d_1_queue():
    """Pollaczek-Khinchine: mean wait ρ s / 2(1 - ρ) for a fixed service time s."""
    service = prefill_time(500) + sum(decode_time(1, 500 + step) for step in range(1, 50))
    requests = poisson_requests(0.6 / service, 60_000, 500, 50, seed=2)
    trace = simulate_serving(ServingSetup(passes(), decode_time, 1), requests)
    wait = (trace.start - trace.arrival).mean()
    assert wait == pytest.approx(0.6 * service / (2 * 0.4), rel=0.05)


def test_prefill_apart_is_never_stalled_and_pays_the_transfer():
    requests = poisson_requests(2.0, 400, 4000, 100, seed=9)
    shared = simulate_serving(ServingSetup(passes(), decode_time, 16, 2), requests)
    setup = ServingSetup(passes(), decode_time, 16, 1, prefill_workers=3, transfer_time=lambda n: n * 1e-5)
    apart = simulate_serving(setup, requests)
    assert apart.num_workers == 4
    assert apart.ttft.min() == pytest.approx(prefill_time(4000) + 0.04, rel=1e-9)
    assert apart.percentiles()["tpot"]["p99"] < shared.percentiles()["tpot"]["p99"]
    decode = apart.timeline.kind == DECODE
    assert set(apart.timeline.worker[decode].tolist()) == {3}
    assert set(apart.timeline.worker[~decode].tolist()) == {0, 1, 2}


def test_a_static_batch_decodes_as_slowly_alone_as_full():
    def compiled(_batch, context):
        return decode_time(32, context)

    one = simulate_serving(ServingSetup(passes(), compiled, 32), poisson_requests(0.01, 20, 1000, 100))
    alone = one.percentiles()["tpot"]["p50"]
    assert alone == pytest.approx(decode_time(32, 1050), rel=1e-6)


@given(seed=st.integers(0, 1000), rate=st.floats(0.1, 30.0), replicas=st.integers(1, 4), workers=st.integers(0, 2))
def test_what_must_hold_in_every_run(seed, rate, replicas, workers):
    requests = poisson_requests(rate, 40, 150, 15, seed=seed, variation=1.0)
    setup = ServingSetup(passes(), decode_time, 3, replicas, prefill_workers=workers)
    trace = simulate_serving(setup, requests)
    assert np.all(trace.arrival <= trace.start)
    assert np.all(trace.start < trace.first_token)
    assert np.all(trace.first_token <= trace.finish)
    assert trace.timeline.batch.max() <= 3
    assert sum(trace.utilization().values()) == pytest.approx(1.0)
    for worker in range(trace.num_workers):
        mine = trace.timeline.worker == worker
        assert np.all(trace.timeline.start[mine][1:] >= trace.timeline.end[mine][:-1] - 1e-9)
    for count in (trace.queue_length(), trace.number_in_system()):
        assert count.value.min() >= 0.0
        assert count.value[-1] == 0.0
    assert np.all(np.diff(trace.number_in_system().time) > 0.0)


def test_same_seed_same_percentiles():
    setup = ServingSetup(passes(), decode_time, 8, 2)
    one, two, other = (
        simulate_serving(setup, poisson_requests(3.0, 200, 500, 100, seed=seed, variation=0.7)).percentiles()
        for seed in (4, 4, 5)
    )
    assert one == two
    assert one != other


def test_speculation_makes_fewer_steps():
    requests = Requests(np.array([0.0]), np.array([100.0]), np.array([101.0]))
    setup = ServingSetup(passes(), lambda _batch, context: np.full_like(context, 0.01), 1, tokens_per_step=2.5)
    trace = simulate_serving(setup, requests)
    assert trace.finish[0] - trace.first_token[0] == pytest.approx(40 * 0.01)
    assert trace.tpot[0] == pytest.approx(0.01 / 2.5)
