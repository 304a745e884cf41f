"""How an engine prefills: what its passes over prompts cost, and which prompts share one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.model.calls import plan_network
from trn2model.model.serving.steady import kv_transfer, prefill_pass
from trn2model.specs.fields import AUTO
from trn2model.specs.plan import MAX_TOKENS
from trn2model.specs.resolve import Resolved, has_static_graphs, held_bucket, prompts_per_pass, resolve

Floats = NDArray[np.float64]

#: Shares of a pass that sum to one do so up to rounding.
_ROUNDING: Final = 1e-9


class PassTime(NamedTuple):
    """Chunks of a pass: how long each takes, and how long it keeps the replica from other work.

    In seconds. The two are alike on one pipeline stage; with more, other work follows before the pass has left the
    last one.
    """

    latency: Floats
    interval: Floats


#: pass over prompts of one length: tokens of each, prompts. [token], [1] -> [s]
PromptTime = Callable[[float, int], PassTime]


def one_prompt(_tokens: float) -> int:
    """Prompts of a pass where every prompt is prefilled by itself."""
    return 1


@dataclass(frozen=True, slots=True)
class Prefill:
    """What a pass over prompts costs and holds."""

    prompt_time: PromptTime  # of a pass over prompts of one length
    most_prompts: Callable[[float], int] = one_prompt  # of a length that fill a pass; unequal ones in proportion
    padded: bool = True  # a pass of unequal prompts costs the longest, else the mean
    interleaved: bool = False  # one decode step runs between two chunks
    overlap: float = 0.0  # share of the shorter that is hidden where decode steps run inside the pass, 0: none do [1]

    def take(self, waiting: Iterable[float], most: int) -> tuple[int, bool]:
        """Prompts of the next pass, first come first served."""
        count, room = 0, 1.0 + _ROUNDING
        for tokens in waiting:
            room -= 1.0 / self.most_prompts(tokens)
            if room < 0.0:
                return max(count, 1), True
            if count == most:
                return count, False
            count += 1
        return count, room * self.most_prompts(tokens) < 1.0 if count else False

    def pass_time(self, lengths: Sequence[float]) -> PassTime:
        """Time of a pass."""
        number = len(lengths)
        if min(lengths) == max(lengths):
            return self.prompt_time(lengths[0], number)
        each = [self.prompt_time(tokens, number) for tokens in lengths]
        both = np.zeros((2, number, max(len(one.latency) for one in each)))
        for row, one in enumerate(each):
            both[:, row, : len(one.latency)] = one
        latency, interval = both.max(axis=1) if self.padded else both.mean(axis=1)
        return PassTime(latency, interval)

    def stall_per_pass(self, tokens: float) -> float:
        r"""Time for which a pass stalls decode however few prompts it holds [s].

        .. math:: (1 - f) \frac{p\,I_1 - I_p}{p - 1}
        """
        most = self.most_prompts(tokens)
        if most == 1:
            return 0.0
        alone, full = (float(self.prompt_time(tokens, number).interval.sum()) for number in (1, most))
        return (1.0 - self.overlap) * max(most * alone - full, 0.0) / (most - 1)


#: Lengths priced each by itself; of more, so many, evenly among them, and the others as the next longer one.
_MOST_LENGTHS: Final = 4096
#: Passes of one batched estimate.
_SLICE: Final = 4096
#: Contexts of a chunk that is neither the last nor computed alone; its time is close to linear in between.
_CONTEXTS: Final = 33


@dataclass(frozen=True, slots=True)
class Prompts:
    """Distinct prompts in order of length: tokens, those in cache, and how those computed are cut."""

    resolved: Resolved
    tokens: Floats
    cached: Floats
    size: Floats  # of a chunk; the whole prompt where it is not cut
    count: Floats  # of chunks
    last: Floats  # size of the last chunk
    most: NDArray[np.int64]  # prompts that fill a pass

    def place(self, tokens: float) -> int:
        """Row of a prompt."""
        return min(int(np.searchsorted(self.tokens, tokens)), len(self.tokens) - 1)


def scenario_prompts(resolved: Resolved, lengths: Floats) -> Prompts:
    """Prompts as the engine of a scenario cuts them."""
    tokens = np.unique(np.minimum(lengths, MAX_TOKENS - 1.0))
    if len(tokens) > _MOST_LENGTHS:
        tokens = tokens[np.unique(np.linspace(0, len(tokens) - 1, _MOST_LENGTHS).astype(np.int64))]
    scenario = replace(resolved.scenario, input_tokens=tokens.astype(np.int64), output_tokens=1, context_bucket=AUTO)
    requests = resolve(scenario, "serve").requests
    bucket = held_bucket(requests.prefill_tokens, requests.context_bucket, resolved.scenario.context_bucket)
    size = np.minimum(bucket, requests.prefill_chunk) if requests.prefill_chunk else bucket
    count = np.ceil(bucket / size)
    ranks, concurrency = resolved.plan.ep, resolved.requests.concurrency
    if has_static_graphs(resolved.system.chip):
        last, most = size, np.broadcast_to(ranks, bucket.shape)
    else:
        last = bucket - (count - 1.0) * size
        most = np.minimum(prompts_per_pass(bucket, concurrency) * ranks, concurrency)
    cached = tokens - requests.prefill_tokens
    return Prompts(resolved, tokens, cached, size, count, last, most.astype(np.int64))


def scenario_prefill(prompts: Prompts) -> Prefill:
    """Passes over prompts, priced chunk by chunk."""
    resolved = prompts.resolved
    static = has_static_graphs(resolved.system.chip)
    together = np.ones(1) if static else _together(int(prompts.most.max()))
    number = np.minimum(together, prompts.most[:, None].astype(np.float64))
    past = prompts.cached + (prompts.count - 1.0) * prompts.size
    last = _priced(resolved, prompts.last[:, None], past[:, None], number)
    tables = {size: _table(prompts, size, together) for size in np.unique(prompts.size[prompts.count > 1.0]).tolist()}

    @cache
    def at_row(row: int, others: int) -> PassTime:
        ends = [np.atleast_1d(np.interp(others, number[row], kind[row])) for kind in last]
        if prompts.count[row] == 1.0:
            return PassTime(*ends)
        size = float(prompts.size[row])
        before = prompts.cached[row] + size * np.arange(prompts.count[row] - 1.0)
        grid, kinds = tables[size]
        level = float(np.interp(others, together, np.arange(len(together))))
        low, share = int(level), level % 1.0
        high = min(low + 1, len(together) - 1)
        rows = [(1.0 - share) * kind[:, low] + share * kind[:, high] for kind in kinds]
        return PassTime(*(np.append(np.interp(before, grid, k), end) for k, end in zip(rows, ends, strict=True)))

    return Prefill(
        prompt_time=lambda tokens, others: at_row(prompts.place(tokens), 1 if static else others),
        most_prompts=lambda tokens: int(prompts.most[prompts.place(tokens)]),
        padded=static,
        interleaved=resolved.requests.prefill_chunk > 0,
        overlap=0.0 if static else resolved.profile.serving.phase_overlap_fraction,
    )


def transfer_times(prompts: Prompts) -> Floats:
    """Transfer of the cache of each prompt to a decode replica [s]."""
    each = priced_alike(prompts.resolved, input_tokens=prompts.tokens)
    return np.broadcast_to(kv_transfer(each, plan_network(each)), prompts.tokens.shape)


def priced_alike(resolved: Resolved, **columns: Floats) -> Resolved:
    """Scenario of a single plan with other requests, one entry each."""
    shape = next(iter(columns.values())).shape
    plan, requests = resolved.plan, resolved.requests
    wide = {f.name: np.broadcast_to(getattr(plan, f.name), shape) for f in fields(plan)}
    kept = {f.name: getattr(requests, f.name) for f in fields(requests)}
    spread: dict[str, Any] = {
        name: np.broadcast_to(value, shape) for name, value in kept.items() if isinstance(value, np.ndarray)
    }
    return replace(resolved, plan=replace(plan, **wide), requests=replace(requests, **(spread | columns)))


def _together(most: int) -> Floats:
    """Numbers of prompts priced: every small one, and powers of two."""
    powers = 2.0 ** np.arange(np.ceil(np.log2(most)) + 1.0)
    return np.union1d(np.arange(1.0, min(most, 8) + 1.0), powers)


def _table(prompts: Prompts, size: float, together: Floats) -> tuple[Floats, PassTime]:
    """Contexts before a chunk, and its times there by number of prompts."""
    mine = (prompts.size == size) & (prompts.count > 1.0)
    before = prompts.cached[mine] + (prompts.count[mine] - 2.0) * size
    grid = np.unique(np.linspace(prompts.cached[mine].min(), before.max(), _CONTEXTS))
    return grid, _priced(prompts.resolved, np.asarray(size), grid[:, None], together)


def _priced(resolved: Resolved, size: Floats, past: Floats, number: Floats) -> PassTime:
    """Single passes over so many tokens of so many prompts, with others before them in the cache."""
    shape = np.broadcast_shapes(size.shape, past.shape, number.shape)
    flat = [np.broadcast_to(values, shape).ravel() for values in (size, past, number)]
    times = np.empty((2, flat[0].size))
    uncut = replace(resolved, requests=replace(resolved.requests, prefill_chunk=0))
    static = has_static_graphs(resolved.system.chip)
    for start in range(0, flat[0].size, _SLICE):
        here = slice(start, start + _SLICE)
        tokens, before, prompts = (values[here] for values in flat)
        each = priced_alike(uncut, input_tokens=before + tokens, prefill_tokens=tokens, context_bucket=tokens)
        one, _ = prefill_pass(each, plan_network(each), None if static else prompts)
        times[0, here], times[1, here] = one.time, one.stage_time
    latency, interval = times.reshape(2, *shape)
    return PassTime(latency, interval)
