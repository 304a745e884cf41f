"""The queue on a scenario's own step times against the closed forms of its estimate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trn2model.errors import InvalidInputError
from trn2model.model.estimate import estimate
from trn2model.simulate.prefill import scenario_prompts
from trn2model.simulate.queue import full_rate, scenario_requests, serving_setup, simulate_scenario
from trn2model.simulate.requests import Requests, parse_trace
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario

DEEPSEEK: dict[str, Any] = {"model": "deepseek-v3", "count": 16, "tp": 32, "ep": 8}
GPU: dict[str, Any] = {"system": "p5.48xlarge", "model": "llama-3.1-8b", "tp": 1}
SCENARIOS: list[dict[str, Any]] = [
    {},
    {"input_tokens": 3_700, "output_tokens": 300, "compiled_batch": 32},
    {"profile": "achievable"},
    {"input_tokens": 200, "output_tokens": 4_000},
    {"model": "mixtral-8x7b", "tp": 4, "ep": 8, "concurrency": 32},
    {"model": "qwen3-30b-a3b", "tp": 4, "ep": 8, "concurrency": 64},
    {"model": "qwen3-30b-a3b", "tp": 4, "ep": 8, "concurrency": 16, "prefill_chunk": 512, "output_tokens": 2_000},
    DEEPSEEK | {"concurrency": 64},
    {"system": "p5.48xlarge", "model": "llama-3.1-70b", "concurrency": 64},
    {"system": "p5.48xlarge", "model": "mixtral-8x7b", "tp": 1, "ep": 8, "concurrency": 64},
    GPU | {"concurrency": 1},
    GPU | {"concurrency": 64, "input_tokens": 4_000, "output_tokens": 20},
    GPU | {"concurrency": 64, "input_tokens": 10_000, "output_tokens": 300, "prefill_chunk": 512},
    {"pp": 4, "tp": 16, "concurrency": 32},
    {"pp": 4, "tp": 16, "concurrency": 1, "input_tokens": 20_000, "output_tokens": 20},
    {"model": "mixtral-8x7b", "pp": 4, "tp": 4, "ep": 4, "concurrency": 32},
    {"prefill_chunk": 512},
    {"prefix_hit": 0.75, "input_tokens": 8_192},
    {"prefix_hit": 0.9, "input_tokens": 50_000},
    {"prefix_hit": 0.8, "input_tokens": 50_000, "prefill_chunk": 512},
    {"input_tokens": 20_000, "output_tokens": 50, "context_bucket": 32_768},
    {"input_tokens": 2_000, "output_tokens": 500, "context_bucket": 8_192, "prefix_hit": 0.5},
    {"prefill_replicas": 1, "tp": 16},
    {"model": "mixtral-8x7b", "tp": 4, "ep": 2, "pp": 2, "prefill_replicas": 4},
    {"draft_model": "eagle", "draft_tokens": 3, "acceptance": 0.7, "output_tokens": 2_000},
]


def capacity(scenario: Scenario) -> float:
    """Requests per second that the closed form gives full replicas."""
    return float(estimate(scenario, "serve").output_tokens_per_s) / float(scenario.output_tokens)


def alike(scenario: Scenario, number: int) -> Requests:
    """Requests of the scenario's own lengths, all at once."""
    lengths = (np.full(number, float(tokens)) for tokens in (scenario.input_tokens, scenario.output_tokens))
    return Requests(np.zeros(number), *lengths)


@pytest.mark.parametrize("values", SCENARIOS, ids=str)
def test_a_request_alone_gets_the_closed_form(values: dict[str, Any]) -> None:
    """1 %: TTFT (the chunks of a prompt, each at its context, against their mean) and TPOT.

    An engine without static graphs decodes a request alone faster than the full batch that the closed form takes.
    """
    scenario = Scenario(**values)
    closed = estimate(scenario, "serve")
    alone = simulate_scenario(scenario, trace=alike(scenario, 1))
    assert alone.ttft[0] == pytest.approx(closed.ttft, rel=0.01)
    if scenario.system == "p5.48xlarge":
        closed = estimate(replace(scenario, concurrency=1), "serve")
    assert alone.tpot[0] == pytest.approx(closed.tpot, rel=0.01)


@pytest.mark.parametrize("values", SCENARIOS, ids=str)
def test_an_empty_queue_gives_the_closed_form(values: dict[str, Any]) -> None:
    """5 %: TTFT at a hundredth of the capacity, where one request in a hundred meets another."""
    scenario = Scenario(**values)
    measured = simulate_scenario(scenario, 0.01 * capacity(scenario), 200).percentiles()
    assert measured["ttft"]["p50"] == pytest.approx(estimate(scenario, "serve").ttft, rel=0.05)


@pytest.mark.parametrize("values", SCENARIOS, ids=str)
def test_full_replicas_reach_the_closed_throughput(values: dict[str, Any]) -> None:
    """5 %: equal requests that all wait from the start, ten times as many as there are slots, after six times."""
    scenario = Scenario(**values)
    closed = estimate(scenario, "serve")
    slots = int(scenario.concurrency) * (int(closed.resolved.plan.dp) - scenario.prefill_replicas)
    finish = np.sort(simulate_scenario(scenario, trace=alike(scenario, 19 * slots)).finish)
    rate = 10 * slots * float(scenario.output_tokens) / (finish[16 * slots - 1] - finish[6 * slots - 1])
    assert rate == pytest.approx(closed.output_tokens_per_s, rel=0.05)


@pytest.mark.parametrize("values", SCENARIOS, ids=str)
def test_a_load_of_seven_tenths_is_carried(values: dict[str, Any]) -> None:
    """Varied requests at 70 % of what full replicas finish: the last do not wait longer than the first."""
    scenario = Scenario(**values)
    rate = 0.7 * full_rate(scenario, 0.25)
    trace = simulate_scenario(scenario, rate, 2_000, variation=0.25)
    waits = trace.start - trace.arrival
    service = float(np.median(trace.finish - trace.start))
    assert np.median(waits[1_000:]) < np.median(waits[:1_000]) + 0.5 * service
    assert np.median(waits[1_000:]) < 2.0 * service


def test_full_replicas_finish_varied_requests_at_their_own_rate() -> None:
    equal, varied = Scenario(**SCENARIOS[4]), Scenario(**SCENARIOS[7])
    assert full_rate(equal) == pytest.approx(capacity(equal))
    assert full_rate(equal, 1e-9) == pytest.approx(capacity(equal), rel=1e-6)
    # eight prompts share a pass that costs the longest of them: mostly the next bucket after the mean's
    slots = 64 * int(estimate(varied, "serve").resolved.plan.dp)
    requests = scenario_requests(varied, float("inf"), 12 * slots, variation=0.25)
    finish = np.sort(simulate_scenario(varied, trace=requests).finish)
    reached = 6 * slots / (finish[9 * slots - 1] - finish[3 * slots - 1])
    assert reached < 0.7 * capacity(varied)
    assert reached == pytest.approx(full_rate(varied, 0.25), rel=0.1)


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


def test_a_given_bucket_holds_what_fits_and_a_longer_prompt_gets_its_own() -> None:
    scenario = Scenario(context_bucket=4_096)
    requests = Requests(np.zeros(3), np.array([100.0, 4_096.0, 5_000.0]), np.full(3, 10.0))
    prefill = serving_setup(scenario, requests).prefill
    times = [float(prefill.prompt_time(tokens, 1).latency[0]) for tokens in requests.input_tokens]
    own = float(estimate(Scenario(input_tokens=8_192), "serve").prefill.time)
    assert times == pytest.approx([float(estimate(scenario, "serve").prefill.time)] * 2 + [own], rel=1e-9)


@pytest.mark.parametrize("system", ["trn2.48xlarge", "p5.48xlarge"])
def test_chunks_are_padded_by_static_graphs_alone(system: str) -> None:
    """1,100 tokens in chunks of 512: three whole ones, or two and a rest of 76."""
    scenario = Scenario(model="llama-3.1-8b", system=system, tp=8, input_tokens=1_100, prefill_chunk=512)
    times = serving_setup(scenario, alike(scenario, 1)).prefill.prompt_time(1_100.0, 1).latency
    assert len(times) == 3
    assert times[0] <= times[1]
    assert (times[2] >= times[1]) == (system == "trn2.48xlarge")


def test_many_lengths_are_priced_at_the_next_longer_ones() -> None:
    scenario = Scenario(model="llama-3.1-8b", system="p5.48xlarge", tp=8)
    lengths = np.arange(1.0, 10_001.0)
    prompts = scenario_prompts(resolve(scenario, "serve"), lengths)
    assert len(prompts.tokens) == 4_096
    rows = [prompts.place(tokens) for tokens in lengths]
    gaps = prompts.tokens[rows] - lengths
    assert gaps.min() == 0.0
    assert gaps.max() <= 3.0


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="rate"):
        simulate_scenario(Scenario(), 0.0)
