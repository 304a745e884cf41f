"""The request queue of a scenario: step times of its estimate as tables, requests of its lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.serving.steady import ServingEstimate, estimate_serving
from trn2model.simulate.replica import DecodeTime, decode_table, prefill_table
from trn2model.simulate.requests import MAX_TOKENS, Requests, poisson_requests
from trn2model.simulate.serving import Progress, ServingSetup, simulate_serving
from trn2model.simulate.serving_trace import ServingTrace
from trn2model.specs.fields import AUTO
from trn2model.specs.resolve import Resolved, resolve
from trn2model.specs.scenario import Scenario
from trn2model.specs.serving_engine import context_bucket, has_static_graphs

Floats = NDArray[np.float64]

#: Contexts of the decode table; step times are close to linear in between.
_CONTEXTS: Final = 17
_LENGTHS: Final = 24
_SHORTEST: Final = 16.0


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

    Parameters
    ----------
    scenario : Scenario
        A single plan; its prompt and output lengths are the means of the requests.
    rate : float
        Mean arrivals per second over all replicas. [1/s]
    num_requests : int
        How many arrive. [1]
    seed : int
        Same seed, same requests.
    variation : float
        Standard deviation over mean of both lengths. [1]
    trace : Requests, optional
        What arrives instead.
    progress : callable, optional
        Called every few hundred events.

    Returns
    -------
    ServingTrace
        Requests and workers over time.

    Raises
    ------
    InvalidInputError
        The scenario means nothing, or a number is outside its range.

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
    """Requests of a scenario's lengths with Poisson arrivals.

    Parameters
    ----------
    scenario : Scenario
        A single plan.
    rate : float
        Mean arrivals per second over all replicas. [1/s]
    num_requests : int
        How many arrive. [1]
    seed : int
        Same seed, same requests.
    variation : float
        Standard deviation over mean of both lengths. [1]

    Returns
    -------
    Requests
        In order of arrival.
    """
    means = float(scenario.input_tokens), float(scenario.output_tokens)
    return poisson_requests(rate, num_requests, *means, seed=seed, variation=variation)


def serving_setup(scenario: Scenario, requests: Requests) -> ServingSetup:
    """What serves the queue: tables of the scenario's own step times that cover the requests.

    Parameters
    ----------
    scenario : Scenario
        A single plan.
    requests : Requests
        What will arrive; the tables reach as far as the longest of them.

    Returns
    -------
    ServingSetup
        With static graphs a decode step costs the compiled batch and a prompt its bucket; without, what runs.

    Notes
    -----
    Every prompt is prefilled by itself, on all ranks of a replica.
    """
    resolved = resolve(scenario, "serve")
    longest = float((requests.input_tokens + requests.output_tokens).max())
    lengths = _prompt_lengths(resolved, float(requests.input_tokens.max()))
    prompts = _at(scenario, input_tokens=lengths, output_tokens=1)
    static = has_static_graphs(resolved.system.chip)
    transfer = prompts.kv_transfer_time
    apart = scenario.prefill_replicas
    return ServingSetup(
        prefill_time=prefill_table(*_steps(prompts, static), buckets=static and not scenario.prefill_chunk),
        decode_time=_decode(scenario, resolved, longest, static),
        max_concurrency=int(resolved.requests.compiled_batch),
        num_replicas=int(resolved.plan.dp) - apart,
        chunk_tokens=int(scenario.prefill_chunk),
        prefix_hit=float(scenario.prefix_hit),
        tokens_per_step=float(np.ravel(prompts.tokens_per_step)[0]),
        prefill_workers=apart,
        transfer_time=prefill_table(lengths, transfer) if apart else None,
    )


def _prompt_lengths(resolved: Resolved, longest: float) -> NDArray[np.int64]:
    """Prompt lengths whose computed tokens are the buckets, or a grid of chunks or lengths."""
    missed = 1.0 - resolved.requests.prefix_hit
    computed = max(np.ceil(longest * missed), 1.0)
    if resolved.requests.prefill_chunk:
        chunk = resolved.requests.prefill_chunk
        count = np.ceil(computed / chunk)
        sizes = chunk * np.unique(np.rint(np.geomspace(1.0, max(count, 2.0), _LENGTHS)))
    else:
        sizes = np.unique(np.rint(np.geomspace(1.0, max(computed, 2.0), _LENGTHS)))
        if has_static_graphs(resolved.system.chip):
            sizes = _buckets(resolved, np.unique(np.append(sizes, computed)))
    if missed <= 0.0:
        return np.array([int(longest)])
    return np.unique(np.clip(np.floor(sizes / missed), 1.0, MAX_TOKENS / 2)).astype(np.int64)


def _buckets(resolved: Resolved, tokens: Floats) -> Floats:
    """Buckets that hold the prompts: those of the engine, or a given one and what exceeds it."""
    buckets = np.unique(context_bucket(tokens))
    if resolved.scenario.context_bucket == AUTO:
        return buckets
    given = float(resolved.requests.context_bucket)
    return np.append(given, buckets[buckets > given])


def _at(scenario: Scenario, **values: NDArray[np.int64] | int) -> ServingEstimate:
    return estimate_serving(resolve(replace(scenario, context_bucket=AUTO, **values), "serve"))  # type: ignore[arg-type]


def _steps(prompts: ServingEstimate, static: bool) -> tuple[Floats, Floats]:
    """Computed tokens and times of the prefill table, rising."""
    requests = prompts.resolved.requests
    tokens = requests.context_bucket if static else requests.prefill_tokens
    times = np.ravel(prompts.prefill.time)
    distinct, first = np.unique(tokens, return_index=True)
    return distinct, times[first]


def _decode(scenario: Scenario, resolved: Resolved, longest: float, static: bool) -> DecodeTime:
    contexts = np.unique(np.rint(np.geomspace(_SHORTEST, max(longest, 2.0 * _SHORTEST), _CONTEXTS))).astype(np.int64)
    batch = int(resolved.requests.compiled_batch)
    batches = np.array([batch]) if static else np.unique(np.append(2 ** np.arange(int(np.log2(batch)) + 1), batch))
    grid = np.meshgrid(batches, contexts, indexing="ij")
    each, context = (axis.ravel().astype(np.int64) for axis in grid)
    steps = _at(scenario, input_tokens=context, output_tokens=1, concurrency=each, compiled_batch=each)
    per_step = np.ravel(steps.tpot) * np.ravel(steps.tokens_per_step)
    return decode_table(batches, contexts, per_step.reshape(len(batches), len(contexts)))
