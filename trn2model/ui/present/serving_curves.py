"""Sweeps of the Inference page as curves: throughput against interactivity, and latency against context."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.serving.plan import OperatingPoint, ServingSweep
from trn2model.estimate.serving.steady import ServingEstimate
from trn2model.specs.plan import MAX_TOKENS
from trn2model.specs.scenario import ROWS
from trn2model.ui import estimates
from trn2model.ui.charts.chart import Chart
from trn2model.ui.charts.curves import Axes, Curve, Mark, Region, curves
from trn2model.ui.charts.template import Mode
from trn2model.ui.format import count, duration
from trn2model.ui.present.words import chart_words
from trn2model.ui.tables import Table, table
from trn2model.units import from_si

Floats = NDArray[np.float64]

_SHORTEST: Final = 512
_LONGEST: Final = 1_048_576
_HOLLOW: Final = "hollow: does not fit"


def interactivity(
    estimate: ServingEstimate, point: OperatingPoint, max_ttft: float, max_tpot: float, mode: Mode
) -> Chart:
    """Throughput against interactivity over concurrency, with the region that keeps the limits."""
    sweep = estimates.concurrency_sweep(estimate.resolved.scenario, _concurrencies(estimate, point))
    speed = 1.0 / np.asarray(sweep.estimate.tpot_with_stalls)
    rate = np.asarray(sweep.estimate.output_tokens_per_s_per_chip)
    fits = np.asarray(sweep.estimate.feasible)
    running = sweep.values.tolist()
    notes = [
        f"<b>{n:,} requests per replica</b><br>{count(x)} tok/s per user<br>{count(y)} tok/s per chip"
        f"{'' if fit else '<br>does not fit into HBM'}"
        for n, x, y, fit in zip(running, speed, rate, fits, strict=True)
    ]
    name = f"requests per replica ({_HOLLOW})"
    line = Curve(name, speed.tolist(), rate.tolist(), [f"{n:,}" for n in running], notes, fits.tolist(), 0)
    marks = _marks(estimate, point)
    late = float(estimate.ttft) > max_ttft
    region = Region(
        f"{duration(max_tpot)} per token or less", x_from=1.0 / max_tpot, limit=f"limit {duration(max_tpot)}"
    )
    if late:
        region = Region("the first token is late at any concurrency")
    promise = "no concurrency keeps the limit to the first token" if late else point.message
    words = chart_words(
        estimate.resolved,
        "Throughput against interactivity",
        "interactivity",
        f"Output tokens per second and chip against tokens per second of one user, for {running[0]:,} to "
        f"{running[-1]:,} requests per replica; {promise}.",
    )
    return curves(words, [line], marks, region, _interactivity_axes(), _concurrency_table(sweep, speed), mode)


def context_curves(estimate: ServingEstimate, max_ttft: float, max_tpot: float, mode: Mode) -> tuple[Chart, Chart]:
    """Both latencies over the prompt's length, at the scenario's concurrency."""
    sweep = estimates.context_sweep(estimate.resolved.scenario, _prompts(estimate))
    tokens, room, fits = sweep.values.tolist(), *_columns(sweep, "max_concurrency", "feasible")
    own = float(estimate.resolved.requests.input_tokens)
    twin = _context_table(sweep)
    charts = []
    for name, key, field, limit, title in (
        ("Time to first token", "ttft", "ttft", max_ttft, "time to first token [ms]"),
        (
            "Time per output token with stalls",
            "tpot",
            "tpot_with_stalls",
            max_tpot,
            "TPOT [ms], prefill stalls included",
        ),
    ):
        values = np.ravel(getattr(sweep.estimate, field))
        labels = [f"fits {most:,.0f}" for most in room] if key == "tpot" else [""] * len(tokens)
        notes = [
            f"<b>{n:,} tokens</b><br>{duration(value)}<br>{most:,.0f} requests fit per replica"
            for n, value, most in zip(tokens, values, room, strict=True)
        ]
        line = Curve(key.upper(), tokens, from_ms(values), labels, notes, fits.tolist(), 0)
        here = Mark("this scenario", own, from_si(float(getattr(estimate, field)), "ms"), "diamond", 1)
        region = Region(f"{duration(limit)} or less", y_to=from_si(limit, "ms"), limit=f"limit {duration(limit)}")
        ends = (
            f"{duration(float(values[0]))} at {tokens[0]:,} to {duration(float(values[-1]))} at {tokens[-1]:,} tokens"
        )
        words = chart_words(
            estimate.resolved, f"{key.upper()} over the prompt's length", f"context-{key}", f"{name}: {ends}."
        )
        axes = Axes(f"prompt [tokens] ({_HOLLOW})", title, "log", "log")
        charts.append(curves(words, [line], [here], region, axes, twin, mode))
    return charts[0], charts[1]


def from_ms(seconds: Floats) -> list[float]:
    """Times in milliseconds [ms].

    Examples
    --------
    >>> from_ms(np.array([0.5]))
    [500.0]
    """
    return [from_si(value, "ms") for value in seconds.tolist()]


def _marks(estimate: ServingEstimate, point: OperatingPoint) -> list[Mark]:
    """The scenario itself, and the best point within the limits if there is one."""
    requests = estimate.resolved.requests
    own = f"this scenario: {count(float(requests.concurrency))}"
    if requests.compiled_batch != requests.concurrency:
        own += f", graph of {count(float(requests.compiled_batch))}"
    speed = 1.0 / float(estimate.tpot_with_stalls)
    marks = [Mark(own, speed, float(estimate.output_tokens_per_s_per_chip), "diamond", 1)]
    if point.concurrency:
        best = f"best within the limits: {point.concurrency:,}"
        marks.append(Mark(best, 1.0 / point.tpot_with_stalls, point.output_tokens_per_s_per_chip, "star", 2))
    return marks


def _columns(sweep: ServingSweep, *names: str) -> list[Floats]:
    return [np.ravel(getattr(sweep.estimate, name)) for name in names]


def _concurrencies(estimate: ServingEstimate, point: OperatingPoint) -> tuple[int, ...]:
    """What fits, the scenario's own concurrency, and powers of two up to it and to the first that does not fit."""
    most, own = max(point.max_concurrency, 1), int(estimate.resolved.requests.concurrency)
    reach = max(min(2 * point.max_concurrency, int(ROWS["concurrency"].maximum)), own)
    powers = 2 ** np.arange(reach.bit_length())
    return tuple(np.union1d(powers, [most, own]).tolist())


def _prompts(estimate: ServingEstimate) -> tuple[int, ...]:
    """Powers of two up to the model's context or beyond it to the scenario's own prompt, with that one."""
    own = int(estimate.resolved.requests.input_tokens)
    context = min(max(estimate.resolved.model.max_sequence_length, 2 * _SHORTEST), _LONGEST)
    room = MAX_TOKENS - int(estimate.resolved.requests.output_tokens)
    powers = 2 ** np.arange(_SHORTEST.bit_length() - 1, max(own, min(context, room)).bit_length())
    return tuple(np.union1d(powers, [own]).tolist())


def _interactivity_axes() -> Axes:
    return Axes("tokens/s of one user, prefill stalls included", "output tokens/s per chip")


def _context_table(sweep: ServingSweep) -> Table:
    columns = (
        "input [tokens]",
        "TTFT [s]",
        "TPOT [s]",
        "TPOT with stalls [s]",
        "requests that fit per replica",
        "fits at this concurrency",
    )
    shown = _columns(sweep, "ttft", "tpot", "tpot_with_stalls", "max_concurrency", "feasible")
    return table(columns, list(zip(sweep.values, *shown, strict=True)))


def _concurrency_table(sweep: ServingSweep, speed: Floats) -> Table:
    tpot, stalled, rate, per_chip, fits = _columns(
        sweep, "tpot", "tpot_with_stalls", "output_tokens_per_s", "output_tokens_per_s_per_chip", "feasible"
    )
    used = np.ravel(sweep.estimate.memory.used_bytes)
    rows = zip(sweep.values, tpot, stalled, speed, rate, per_chip, used, fits, strict=True)
    columns = (
        "requests per replica",
        "TPOT [s]",
        "TPOT with stalls [s]",
        "tokens/s per user",
        "output tokens/s",
        "output tokens/s per chip",
        "HBM used per rank [B]",
        "fits",
    )
    return table(columns, list(rows))
