"""The queue says in words what HBM would not hold of a run, and counts one request as one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trn2model.model.serving.sweeps import largest_concurrency
from trn2model.simulate.queue import ServingTrace, simulate_scenario
from trn2model.simulate.requests import Requests
from trn2model.specs.scenario import Scenario
from trn2model.ui import estimates
from trn2model.ui.pages import queue


def run(scenario: Scenario, tokens: float, number: int = 8) -> ServingTrace:
    """Equal requests that arrive at once."""
    trace = Requests(np.zeros(number), np.full(number, tokens), np.full(number, float(scenario.output_tokens)))
    return simulate_scenario(scenario, trace=trace)


def said(scenario: Scenario, tokens: float, number: int = 8) -> str | None:
    return queue.room_warning(estimates.serving(scenario), run(scenario, tokens, number))


def test_what_fits_needs_no_word() -> None:
    scenario = Scenario(concurrency=8)
    assert said(scenario, float(scenario.input_tokens)) is None
    assert said(scenario, 2.0 * float(scenario.input_tokens)) is None


def test_a_scenario_that_does_not_fit_runs_with_a_word() -> None:
    full = said(Scenario(concurrency=512), 4_096.0)
    assert full is not None
    assert "does not fit into HBM" in full
    assert "at most 195 requests per replica would fit" in full
    none = said(Scenario(model="qwen3-32b", system="trn2.48xlarge", tp=2), 4_096.0)
    assert none is not None
    assert "not even one request fits" in none


@pytest.mark.parametrize("model", ["llama-3.1-70b", "gpt-oss-20b"])
def test_longer_requests_are_held_to_the_cache_of_their_own_length(model: str) -> None:
    """As many as run at once, against what a scenario of that length would hold beside the same working space."""
    scenario = Scenario(model=model, concurrency=64, prefill_chunk=1024)
    output = int(scenario.output_tokens)
    longest = next(n for n in range(4_096, 2_000_000, 512) if largest_concurrency(_with(scenario, n)) < 64)
    assert said(scenario, float(longest - 1_024), 64) is None
    beyond = said(scenario, float(longest + 1_024), 64)
    assert beyond is not None
    assert f"up to {longest + 1_024 + output:,} tokens" in beyond
    assert "The 64 requests with most tokens" in beyond
    assert said(scenario, float(longest + 1_024), 8) is None


@pytest.mark.parametrize(
    ("scenario", "tokens"),
    [
        (Scenario(tp=8, concurrency=1), 131_072),
        (Scenario(tp=8, concurrency=4), 32_768),
        (Scenario(system="p5.48xlarge", concurrency=1), 1_000_000),
        (Scenario(model="gpt-oss-120b", tp=4, ep=16, concurrency=1, compiled_batch=16, prefill_chunk=1024), 3_000_000),
    ],
)
def test_longer_prompts_widen_the_working_space_and_lie_whole_on_one_expert_rank(
    scenario: Scenario, tokens: int
) -> None:
    assert not estimates.serving(replace(_with(scenario, tokens), compiled_batch="auto")).feasible
    assert "would need" in (said(scenario, float(tokens), int(scenario.concurrency)) or "")


def _with(scenario: Scenario, tokens: int) -> Scenario:
    return Scenario.from_dict(scenario.to_dict() | {"input_tokens": tokens, "context_bucket": "auto"})


def test_one_request_is_one() -> None:
    assert queue.summary(run(Scenario(), 100.0, 1)).startswith("1 request in ")
