"""The queue on a scenario's own step times against the closed forms of its estimate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trn2model.errors import InvalidInputError
from trn2model.estimate import estimate
from trn2model.simulate.requests import Requests, parse_trace
from trn2model.simulate.serving_scenario import serving_setup, simulate_scenario
from trn2model.specs.scenario import Scenario

SCENARIOS: list[dict[str, Any]] = [
    {},
    {"input_tokens": 3_700, "output_tokens": 300, "compiled_batch": 32},
    {"prefill_chunk": 512},
    {"profile": "achievable"},
    {"prefix_hit": 0.75, "input_tokens": 8_192},
    {"prefill_replicas": 2},
    {"draft_model": "eagle", "draft_tokens": 3, "acceptance": 0.7, "output_tokens": 2_000},
    {"model": "llama-3.1-8b", "system": "p5.48xlarge", "tp": 1, "concurrency": 1},
    {"input_tokens": 20_000, "output_tokens": 50, "context_bucket": 32_768},
]


def capacity(scenario: Scenario) -> float:
    """Requests per second that the closed form gives full replicas."""
    return float(estimate(scenario, "serve").output_tokens_per_s) / float(scenario.output_tokens)


@pytest.mark.parametrize("values", SCENARIOS, ids=str)
def test_an_empty_queue_gives_the_closed_form(values: dict[str, Any]) -> None:
    """5 %: TTFT, TPOT and the whole request at a hundredth of the capacity."""
    scenario = Scenario(**values)
    closed = estimate(scenario, "serve")
    measured = simulate_scenario(scenario, 0.01 * capacity(scenario), 200).percentiles()
    assert measured["ttft"]["p50"] == pytest.approx(closed.ttft, rel=0.05)
    assert measured["tpot"]["p50"] == pytest.approx(closed.tpot, rel=0.05)
    alone = closed.ttft + (float(scenario.output_tokens) - 1) * closed.tpot
    assert measured["e2e"]["p50"] == pytest.approx(alone, rel=0.05)


@pytest.mark.parametrize("values", [v for v in SCENARIOS if "compiled_batch" not in v], ids=str)
def test_full_replicas_reach_the_closed_throughput(values: dict[str, Any]) -> None:
    """5 %, ends of the run cut off. Output lengths vary, or the slots would prefill and decode in step."""
    scenario = Scenario(**values)
    closed = estimate(scenario, "serve")
    number = 60 * int(scenario.concurrency) * int(closed.resolved.plan.dp)
    mean = int(scenario.output_tokens)
    outputs = np.random.default_rng(1).integers(mean // 2, mean + mean // 2 + 1, number).astype(float)
    requests = Requests(np.zeros(number), np.full(number, float(scenario.input_tokens)), outputs)
    trace = simulate_scenario(scenario, trace=requests)
    ends = np.argsort(trace.finish)
    middle = ends[number // 4 : 3 * number // 4]
    rate = outputs[middle].sum() / (trace.finish[middle[-1]] - trace.finish[middle[0]])
    assert rate == pytest.approx(closed.output_tokens_per_s, rel=0.05)
    if not scenario.prefill_replicas:
        token_time = (trace.finish - trace.first_token)[middle].sum() / (outputs[middle] - 1).sum()
        assert token_time == pytest.approx(closed.tpot_with_stalls, rel=0.05)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_requests_in_the_system_are_arrivals_times_time(load: float) -> None:
    """Little's law to 2 %: the mean number in the system, counted over time, against rate × mean time."""
    scenario = Scenario()
    trace = simulate_scenario(scenario, load * capacity(scenario), 3_000, seed=3, variation=0.5)
    inside = trace.number_in_system()
    length = inside.time[-1] - trace.arrival[0]
    area = float((np.diff(inside.time) * inside.value[:-1]).sum())
    arrivals = len(trace.arrival) / length
    assert area / length == pytest.approx(arrivals * float(trace.e2e.mean()), rel=0.02)


def test_waiting_grows_with_the_load() -> None:
    scenario = Scenario()
    waits = [
        simulate_scenario(scenario, load * capacity(scenario), 1_000).percentiles()["ttft"]["p99"]
        for load in (0.2, 0.8, 1.2)
    ]
    assert waits[0] < waits[1] < 0.5 * waits[2]


def test_the_same_seed_gives_the_same_percentiles() -> None:
    runs = [simulate_scenario(Scenario(), 4.0, 400, seed=seed, variation=0.3).percentiles() for seed in (5, 5, 6)]
    assert runs[0] == runs[1] != runs[2]


def test_a_thousand_requests_all_finish_in_chunks() -> None:
    trace = simulate_scenario(Scenario(prefill_chunk=256), 6.0, 1_000, variation=0.5)
    assert len(trace.finish) == 1_000
    assert np.isfinite(trace.finish).all()


def test_a_trace_of_other_lengths_is_covered_by_the_tables() -> None:
    requests = parse_trace("arrival,input,output\n0,10,5\n0.1,30000,20\n0.2,1,1\n9,4097,300\n")
    trace = simulate_scenario(Scenario(), trace=requests)
    alone = [float(estimate(Scenario(input_tokens=n), "serve").ttft) for n in (10, 4_097)]
    assert trace.ttft[0] == pytest.approx(alone[0], rel=0.02)
    assert trace.ttft[3] == pytest.approx(alone[1], rel=0.02)


def test_a_given_bucket_is_the_smallest_graph() -> None:
    scenario = Scenario(context_bucket=16_384)
    requests = Requests(np.array([0.0]), np.array([100.0]), np.array([10.0]))
    first = serving_setup(scenario, requests).prefill_time(np.array([100.0]))
    assert first == pytest.approx(float(estimate(scenario, "serve").prefill.time), rel=1e-9)


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="rate"):
        simulate_scenario(Scenario(), 0.0)
