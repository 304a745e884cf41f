"""The request queue of the Inference page: how fast requests arrive, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.model.serving.steady import ServingEstimate
from trn2model.simulate.queue import ServingTrace, full_rate
from trn2model.specs.fields import AUTO
from trn2model.specs.plan import MAX_TOKENS
from trn2model.text import NOTHING, capacity, count, duration, number_of_requests, percent
from trn2model.ui import estimates
from trn2model.ui.charts.chart import Chart
from trn2model.ui.charts.curves import Axes, Curve, line_chart
from trn2model.ui.charts.style import Mode
from trn2model.ui.pages.content import Listing
from trn2model.ui.pages.words import chart_words
from trn2model.ui.tables import table

NAMES: Final = {"ttft": "time to first token", "tpot": "time per output token", "e2e": "whole request"}
_SHOWN: Final = ("mean", "p50", "p95", "p99")
_MOST_POINTS: Final = 600


def arrival_rate(estimate: ServingEstimate, load: float, variation: float = 0.0) -> float:
    """Requests per second that load the replicas to a share of what they can serve [1/s]."""
    return load * full_rate(estimate.resolved.scenario, variation)


def summary(trace: ServingTrace) -> str:
    """Run in one sentence."""
    busy = ", ".join(f"{name} {percent(share, 2)}" for name, share in trace.utilization().items())
    return (
        f"{number_of_requests(len(trace.arrival))} in {duration(trace.span)}: "
        f"{count(trace.output_tokens_per_s)} tokens/s; replicas spend {busy} of their time."
    )


def room_warning(estimate: ServingEstimate, trace: ServingTrace) -> str | None:
    """What of a run HBM would not hold; the queue counts slots, not bytes."""
    memory, requests = estimate.memory, estimate.resolved.requests
    if not estimate.feasible:
        most, used = int(estimate.max_concurrency), float(memory.used_bytes)
        fits = "not even one request fits" if most == 0 else f"at most {number_of_requests(most)} per replica would fit"
        return (
            f"This scenario does not fit into HBM ({capacity(used)} of {capacity(memory.capacity_bytes)} per rank; "
            f"{fits}). The queue runs as if it did."
        )
    lengths = trace.input_tokens + trace.output_tokens
    longest = np.argsort(-lengths, kind="stable")[: int(requests.concurrency)]
    planned = float(requests.input_tokens + requests.output_tokens)
    needed = max(_room(estimate, trace, longest), _room(estimate, trace, longest[:1]))
    if lengths[longest[0]] <= planned or needed <= memory.capacity_bytes:
        return None
    return (
        f"Requests of this run have up to {lengths[longest[0]]:,.0f} tokens, those of the scenario {planned:,.0f}. The "
        f"{number_of_requests(len(longest))} with most tokens at once on one replica would need {capacity(needed)} per "
        f"rank, where there is {capacity(memory.capacity_bytes)}. The queue does not hold them back."
    )


def percentiles(trace: ServingTrace) -> Listing:
    """Latencies of the run."""
    found: Mapping[str, Mapping[str, float]] = trace.percentiles()
    rows = [(name, *(_text(found[key][shown]) for shown in _SHOWN)) for key, name in NAMES.items()]
    return Listing("Latencies in the queue", "Waiting for a free slot included.", table(("latency", *_SHOWN), rows))


def in_system(estimate: ServingEstimate, trace: ServingTrace, mode: Mode) -> Chart:
    """Requests waiting and in the system over the run."""
    lines, rows = [], []
    for name, steps, colour in (
        ("in the system", trace.number_in_system(), 0),
        ("waiting", trace.queue_length(), 1),
    ):
        at = np.linspace(trace.arrival[0], steps.time[-1], _MOST_POINTS)
        values = steps.value[np.maximum(np.searchsorted(steps.time, at, side="right") - 1, 0)]
        notes = [f"{name}: {value:,.0f} at {duration(moment)}" for moment, value in zip(at, values, strict=True)]
        lines.append(Curve(name, at.tolist(), values.tolist(), colour, notes, markers=False))
        rows += [(name, moment, value) for moment, value in zip(at, values, strict=True)]
    most = max(trace.number_in_system().value)
    words = chart_words(
        estimate.resolved,
        "Requests in the system",
        "queue",
        f"Requests in the system over the run, at most {most:,.0f}.",
    )
    axes = Axes("time [s]", "requests, all replicas")
    return line_chart(words, lines, axes, table=table(("curve", "time [s]", "requests"), rows), mode=mode)


def _text(seconds: float) -> str:
    return duration(seconds) if np.isfinite(seconds) else NOTHING


def _room(estimate: ServingEstimate, trace: ServingTrace, chosen: NDArray[np.int64]) -> float:
    """HBM of a rank that serves these requests at once, beside the prefill of the longest prompt of the run."""

    def parts(who: NDArray[np.int64], running: int) -> dict[str, float]:
        scenario = replace(
            estimate.resolved.scenario,
            input_tokens=int(min(np.ceil(trace.input_tokens[who].mean()), MAX_TOKENS / 2)),
            output_tokens=int(min(np.ceil(trace.output_tokens[who].mean()), MAX_TOKENS / 2 - 1)),
            context_bucket=AUTO,
            concurrency=running,
            compiled_batch=AUTO,
        )
        return {name: float(part) for name, part in estimates.serving(scenario).memory.parts.items()}

    together, alone = parts(chosen, len(chosen)), parts(np.argmax(trace.input_tokens, keepdims=True), 1)
    return sum(max(part, alone[name]) for name, part in together.items())
