"""The request queue of a scenario: step times of its estimate, requests of its lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist
from typing import Final

import numpy as np

from trn2model.estimate.network.plan_network import plan_network
from trn2model.estimate.serving.state import steady_state
from trn2model.estimate.serving.steady import decode_pass, estimate_serving
from trn2model.formulas.speculation import expected_tokens
from trn2model.simulate.prompt_times import priced_alike, scenario_prefill, scenario_prompts, transfer_times
from trn2model.simulate.replica import DecodeTime, decode_table
from trn2model.simulate.requests import Requests, poisson_requests, varied_lengths
from trn2model.simulate.serving import Progress, ServingSetup, simulate_serving
from trn2model.simulate.serving_trace import ServingTrace
from trn2model.specs.resolve import Resolved, resolve
from trn2model.specs.scenario import Scenario
from trn2model.specs.serving_engine import has_static_graphs

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
    host = resolve(scenario, "serve").profile.constants.request_time
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
    padding = resolved.profile.constants.kv_padding
    whole = float(requests.input_tokens + requests.output_tokens)
    return lambda running, tokens: table(running, tokens + padding * np.maximum(whole - tokens, 0.0))
