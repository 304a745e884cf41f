"""Serving plans: throughput against interactivity over concurrency, and the point that meets latency limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trn2model.model.result import Violation, to_json
from trn2model.model.serving.steady import ServingEstimate, estimate_serving
from trn2model.specs.fields import AUTO
from trn2model.specs.resolve import held_bucket, resolve
from trn2model.specs.scenario import MAX_CONCURRENCY, Scenario
from trn2model.units import from_si

#: Every concurrency up to here is tried; beyond, steps of about 2 %.
_EACH: Final = 256
_COARSE: Final = 320
_MILLISECONDS: Final = 1e3
#: More requests for a gain below rounding are not worth having, and a limit is not broken by rounding.
_AS_GOOD: Final = 1.0 - 1e-9


@dataclass(frozen=True, slots=True)
class ServingSweep:
    """Estimates over one swept field."""

    field: str  # name in the scenario
    values: NDArray[np.int64]  # of the field, shape (points,)
    estimate: ServingEstimate  # with arrays of shape (points,)


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """Largest throughput within memory and latency limits, per replica and in all."""

    concurrency: int  # 0: not even one request meets the limits
    ttft: float  # [s]
    tpot: float  # without stalls by prefill [s]
    tpot_with_stalls: float  # [s]
    output_tokens_per_s: float  # of all replicas [token/s]
    output_tokens_per_s_per_chip: float  # [token/s]
    max_concurrency: int  # requests per replica that HBM holds
    limited_by: str  # memory, tpot, ttft or range (the largest concurrency there is)
    message: str  # why, in a sentence

    def to_dict(self) -> dict[str, Any]:
        """Point as JSON values."""
        return dict(to_json(self))


def concurrency_sweep(scenario: Scenario, concurrencies: NDArray[np.int64] | None = None) -> ServingSweep:
    """Estimates over concurrency, each with a graph compiled for it."""
    if concurrencies is None:
        most = largest_concurrency(scenario)
        powers = 2 ** np.arange(int(np.log2(max(most, 1))) + 2)
        concurrencies = np.union1d(powers[powers <= min(max(2 * most, 1), MAX_CONCURRENCY)], [max(most, 1)])
    return _sweep(replace(scenario, compiled_batch=AUTO), "concurrency", concurrencies)


def context_sweep(scenario: Scenario, tokens: NDArray[np.int64], *, own_bucket: bool = False) -> ServingSweep:
    """Estimates over the prompt's length, each in the bucket that holds it."""
    swept = replace(scenario, context_bucket=AUTO, input_tokens=np.asarray(tokens, dtype=np.int64))
    if not own_bucket or scenario.context_bucket == AUTO:
        return _sweep(swept, "input_tokens", tokens)
    requests = resolve(swept, "serve").requests
    buckets = held_bucket(requests.prefill_tokens, requests.context_bucket, scenario.context_bucket)
    return _sweep(replace(swept, context_bucket=buckets.astype(np.int64)), "input_tokens", tokens)


def largest_concurrency(scenario: Scenario) -> int:
    """Requests per replica that fit into HBM beside the weights."""
    one = replace(scenario, concurrency=1, compiled_batch=AUTO)
    return min(int(estimate_serving(resolve(one, "serve")).max_concurrency), MAX_CONCURRENCY)


def operating_point(scenario: Scenario, max_ttft: float | None = None, max_tpot: float | None = None) -> OperatingPoint:
    """Concurrency with the largest throughput among those that fit and meet the limits."""
    most = largest_concurrency(scenario)
    tried = _candidates(max(most, 1))
    estimate = _sweep(replace(scenario, compiled_batch=AUTO), "concurrency", tried).estimate
    best = _best(estimate, tried, most, max_ttft=max_ttft, max_tpot=max_tpot)
    if best is None:
        return _no_point(estimate, most, max_ttft, max_tpot)
    if tried[best] >= _EACH and most > _EACH:
        around = tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)]
        tried = np.union1d(tried, np.arange(around[0], around[1] + 1))
        estimate = _sweep(replace(scenario, compiled_batch=AUTO), "concurrency", tried).estimate
        best = _best(estimate, tried, most, max_ttft=max_ttft, max_tpot=max_tpot) or 0
    limited, message = _why(estimate, tried, best, most, max_tpot=max_tpot)
    return _point(estimate, best, int(tried[best]), most, limited_by=limited, message=message)


def _best(
    estimate: ServingEstimate, tried: NDArray[np.int64], most: int, *, max_ttft: float | None, max_tpot: float | None
) -> int | None:
    """Row of the largest throughput within the limits, the first of equals; None where no row keeps them."""
    late = np.asarray(estimate.ttft) > (np.inf if max_ttft is None else max_ttft / _AS_GOOD)
    slow = np.asarray(estimate.tpot_with_stalls) > (np.inf if max_tpot is None else max_tpot / _AS_GOOD)
    allowed = ~late & ~slow & (tried <= most)
    if not allowed.any():
        return None
    rate = np.where(allowed, estimate.output_tokens_per_s, -1.0)
    return int(np.argmax(rate >= _AS_GOOD * rate.max()))


def latency_violations(
    estimate: ServingEstimate, max_ttft: float | None, max_tpot: float | None
) -> tuple[Violation, ...]:
    """Latency limits that a single plan breaks; memory has violations of its own."""
    found = []
    if max_ttft is not None and estimate.ttft > max_ttft:
        remedy = "raise tp or cp, shorten the prompt or its bucket, or use fp8"
        found.append(Violation("time to first token", float(estimate.ttft), max_ttft, "s", remedy))
    if max_tpot is not None and estimate.tpot_with_stalls > max_tpot:
        remedy = "lower the concurrency, raise tp, or set replicas apart for prefill"
        found.append(Violation("time per output token", float(estimate.tpot_with_stalls), max_tpot, "s", remedy))
    return tuple(found)


def _sweep(scenario: Scenario, field: str, values: NDArray[np.int64]) -> ServingSweep:
    swept: dict[str, Any] = {field: np.asarray(values, dtype=np.int64)}
    return ServingSweep(field, swept[field], estimate_serving(resolve(replace(scenario, **swept), "serve")))


def _candidates(most: int) -> NDArray[np.int64]:
    """What is tried: up to what fits, and one more to see whether it would bring anything."""
    each = np.arange(1, min(most, _EACH) + 1)
    beyond = np.rint(np.geomspace(_EACH, most, _COARSE)) if most > _EACH else np.empty(0)
    return np.union1d(np.union1d(each, beyond), min(most + 1, MAX_CONCURRENCY)).astype(np.int64)


def _no_point(estimate: ServingEstimate, most: int, max_ttft: float | None, max_tpot: float | None) -> OperatingPoint:
    """Point of no request, with every limit that a single one breaks."""
    if most < 1:
        return _point(estimate, 0, 0, most, limited_by="memory", message=_no_room(estimate))
    ttft, tpot = float(np.ravel(estimate.ttft)[0]), float(np.ravel(estimate.tpot_with_stalls)[0])
    late = max_ttft is not None and ttft > max_ttft
    said = []
    if max_ttft is not None and late:
        limit = f"limit {_time(max_ttft)}"
        said.append(f"a prompt takes {_time(ttft)} to its first token, {limit}: no concurrency keeps it")
    if max_tpot is not None and tpot > max_tpot:
        said.append(f"even one request takes {_time(tpot)} per token, limit {_time(max_tpot)}")
    return _point(estimate, 0, 0, most, limited_by="ttft" if late else "tpot", message="; ".join(said))


def _no_room(estimate: ServingEstimate) -> str:
    """Which part of the fullest rank leaves no room for a single request, in GiB."""
    parts = {name: float(np.ravel(part)[0]) for name, part in estimate.memory.parts.items()}
    capacity = estimate.memory.capacity_bytes
    weights, reserve = parts["weights"], parts["reserve"]
    space = parts["activations"] + parts["buffers"]
    whose = "weights with those of the draft model" if estimate.resolved.draft is not None else "weights"
    hbm = f"the {_gib(capacity)} of HBM per {estimate.resolved.core.rank_name}"
    if weights > capacity:
        return f"the {whose} alone take {_gib(weights)}, more than {hbm}"
    if weights + reserve > capacity:
        return f"the {whose} take {_gib(weights)} and the runtime {_gib(reserve)}, together more than {hbm}"
    if weights + reserve + space > capacity:
        return (
            f"the working space of a prefill pass takes {_gib(space)}, more than the {whose} ({_gib(weights)}) and the "
            f"runtime ({_gib(reserve)}) leave of {hbm}"
        )
    one, left = parts["kv_cache"] + parts["logits"], capacity - weights - reserve - space
    return (
        f"KV cache and logits of one request take {_gib(one)}, more than the {_gib(left)} that {whose}, runtime and "
        f"working space leave of {hbm}"
    )


def _why(
    estimate: ServingEstimate, tried: NDArray[np.int64], best: int, most: int, *, max_tpot: float | None
) -> tuple[str, str]:
    """What keeps a point from more throughput, and a sentence on it."""
    rate, tpot = np.ravel(estimate.output_tokens_per_s), np.ravel(estimate.tpot_with_stalls)
    head = f"{_requests(int(tried[best]))} per replica"
    more = np.flatnonzero((rate > rate[best] / _AS_GOOD) & (tried > tried[best]) & (tried <= most))
    if max_tpot is not None and len(more):
        late = more[0]
        return "tpot", (
            f"{head}: {tried[late]:,} would take {_beyond(tpot[late], max_tpot)} per token, more than the limit of "
            f"{_time(max_tpot)}; memory would hold {most:,}"
        )
    tail = f"{_time(tpot[best])} per token" + ("" if max_tpot is None else f", limit {_time(max_tpot)}")
    if tried[best] == MAX_CONCURRENCY:
        return "range", f"{head}: the largest concurrency there is; {tail}"
    following = rate[best + 1]
    scenario = estimate.resolved.scenario
    prefill = bool(scenario.prefill_replicas) or np.max(estimate.resolved.requests.output_tokens) == 1
    level = prefill and _AS_GOOD * rate[best] <= following <= rate[best] / _AS_GOOD
    if tried[best] == most and not level:
        return "memory", f"{head}: HBM holds no more; {tail}"
    if not level:
        return "range", f"{head}: more bring no throughput; {tail}"
    bound = "the prefill replicas bring no more" if scenario.prefill_replicas else "prefill alone sets the rate"
    return "range", f"{head}: {bound}; {tail}"


def _point(
    estimate: ServingEstimate, row: int, concurrency: int, most: int, *, limited_by: str, message: str
) -> OperatingPoint:
    one = 0.0 if concurrency == 0 else 1.0
    return OperatingPoint(
        concurrency=concurrency,
        ttft=float(np.ravel(estimate.ttft)[row]),
        tpot=float(np.ravel(estimate.tpot)[row]),
        tpot_with_stalls=float(np.ravel(estimate.tpot_with_stalls)[row]),
        output_tokens_per_s=one * float(np.ravel(estimate.output_tokens_per_s)[row]),
        output_tokens_per_s_per_chip=one * float(np.ravel(estimate.output_tokens_per_s_per_chip)[row]),
        max_concurrency=most,
        limited_by=limited_by,
        message=message,
    )


def _beyond(seconds: float, limit: float) -> str:
    """Time beyond a limit, in words that are not those of the limit itself."""
    return _time(seconds) if _time(seconds) != _time(limit) else f"a little more than {_time(limit)}"


def _time(seconds: float) -> str:
    return f"{seconds:,.4g} s" if seconds >= 1.0 else f"{_MILLISECONDS * seconds:,.4g} ms"


def _requests(number: int) -> str:
    return f"{number:,} request" + ("" if number == 1 else "s")


def _gib(value: float) -> str:
    return f"{from_si(value, 'GiB'):,.4g} GiB"
