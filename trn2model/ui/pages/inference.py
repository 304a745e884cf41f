"""Inference page: does it fit, how long does a user wait, how many users, and what binds each phase."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric
from trn2model.model.serving.steady import ServingEstimate
from trn2model.model.serving.sweeps import OperatingPoint, ServingSweep
from trn2model.specs.fields import AUTO
from trn2model.specs.link import query_string
from trn2model.specs.plan import MAX_TOKENS
from trn2model.specs.resolve import Resolved
from trn2model.specs.scenario import MAX_CONCURRENCY, Scenario
from trn2model.text import (
    NOTHING,
    bandwidth,
    capacity,
    count,
    duration,
    number_of_requests,
    percent,
    significant,
    traffic,
)
from trn2model.ui import estimates
from trn2model.ui.charts.bars import Row, row_bars
from trn2model.ui.charts.chart import Chart
from trn2model.ui.charts.colours import time_colour
from trn2model.ui.charts.curves import Axes, Curve, Mark, Marks, Region, line_chart
from trn2model.ui.charts.style import Mode
from trn2model.ui.pages.content import Content, Links, Listing, Metric, Remarks, Verdict
from trn2model.ui.pages.evidence import profile_links, range_text
from trn2model.ui.pages.steps import PHASE_NAMES, PHASE_SHORT_NAMES, bound_by, violation_sentence
from trn2model.ui.pages.training import memory_bar
from trn2model.ui.pages.words import (
    AXIS_NAMES,
    changed_fields,
    changed_text,
    chart_words,
    linkable,
    machine,
    model_title,
    parallel_words,
    time_unit,
)
from trn2model.ui.tables import Table, table
from trn2model.units import from_si

Floats = NDArray[np.float64]

_SHORTEST: Final = 512
_LONGEST: Final = 1_048_576
_HOLLOW: Final = "hollow: does not fit"


def interactivity(estimate: ServingEstimate, point: OperatingPoint, limits: Limits, mode: Mode) -> Chart:
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
    labels = [f"{n:,}" for n in running]
    line = Curve(name, speed.tolist(), rate.tolist(), 0, notes, labels, fits.tolist())
    marks = _marks(estimate, point)
    late = float(estimate.ttft) > limits.ttft
    region = Region(
        f"{duration(limits.tpot)} per token or less", x_from=1.0 / limits.tpot, limit=f"limit {duration(limits.tpot)}"
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
    axes = Axes("tokens/s of one user, prefill stalls included", "output tokens/s per chip")
    twin = _concurrency_table(sweep, speed)
    return line_chart(words, [line], axes, table=twin, mode=mode, marks=marks, region=region)


def context_curves(estimate: ServingEstimate, limits: Limits, mode: Mode) -> tuple[Chart, Chart]:
    """Both latencies over the prompt's length, at the scenario's concurrency."""
    sweep = estimates.context_sweep(estimate.resolved.scenario, _prompts(estimate))
    tokens, room, fits = sweep.values.tolist(), *_columns(sweep, "max_concurrency", "feasible")
    own = float(estimate.resolved.requests.input_tokens)
    twin = _context_table(sweep)
    charts = []
    for name, key, field, limit, title in (
        ("Time to first token", "ttft", "ttft", limits.ttft, "time to first token [ms]"),
        (
            "Time per output token with stalls",
            "tpot",
            "tpot_with_stalls",
            limits.tpot,
            "TPOT [ms], prefill stalls included",
        ),
    ):
        values = np.ravel(getattr(sweep.estimate, field))
        labels = [f"fits {most:,.0f}" for most in room] if key == "tpot" else [""] * len(tokens)
        notes = [
            f"<b>{n:,} tokens</b><br>{duration(value)}<br>{most:,.0f} requests fit per replica"
            for n, value, most in zip(tokens, values, room, strict=True)
        ]
        line = Curve(key.upper(), tokens, from_ms(values), 0, notes, labels, fits.tolist())
        here = _mark("this scenario", own, from_si(float(getattr(estimate, field)), "ms"), symbol="diamond", colour=1)
        region = Region(f"{duration(limit)} or less", y_to=from_si(limit, "ms"), limit=f"limit {duration(limit)}")
        ends = (
            f"{duration(float(values[0]))} at {tokens[0]:,} to {duration(float(values[-1]))} at {tokens[-1]:,} tokens"
        )
        words = chart_words(
            estimate.resolved, f"{key.upper()} over the prompt's length", f"context-{key}", f"{name}: {ends}."
        )
        axes = Axes(f"prompt [tokens] ({_HOLLOW})", title, "log", "log")
        charts.append(line_chart(words, [line], axes, table=twin, mode=mode, marks=[here], region=region))
    return charts[0], charts[1]


def from_ms(seconds: Floats) -> list[float]:
    """Times in milliseconds [ms].

    Examples
    --------
    >>> from_ms(np.array([0.5]))
    [500.0]
    """
    return [from_si(value, "ms") for value in seconds.tolist()]


def _mark(name: str, x: float, y: float, *, symbol: str, colour: int) -> Marks:
    return Marks(name, (Mark(x, y, name),), symbol, colour=colour)


def _marks(estimate: ServingEstimate, point: OperatingPoint) -> list[Marks]:
    """The scenario itself, and the best point within the limits if there is one."""
    requests = estimate.resolved.requests
    own = f"this scenario: {count(float(requests.concurrency))}"
    if requests.compiled_batch != requests.concurrency:
        own += f", graph of {count(float(requests.compiled_batch))}"
    speed = 1.0 / float(estimate.tpot_with_stalls)
    marks = [_mark(own, speed, float(estimate.output_tokens_per_s_per_chip), symbol="diamond", colour=1)]
    if point.concurrency:
        best = f"best within the limits: {point.concurrency:,}"
        marks.append(
            _mark(best, 1.0 / point.tpot_with_stalls, point.output_tokens_per_s_per_chip, symbol="star", colour=2)
        )
    return marks


def _columns(sweep: ServingSweep, *names: str) -> list[Floats]:
    return [np.ravel(getattr(sweep.estimate, name)) for name in names]


def _concurrencies(estimate: ServingEstimate, point: OperatingPoint) -> tuple[int, ...]:
    """What fits, the scenario's own concurrency, and powers of two up to it and to the first that does not fit."""
    most, own = max(point.max_concurrency, 1), int(estimate.resolved.requests.concurrency)
    reach = max(min(2 * point.max_concurrency, MAX_CONCURRENCY), own)
    powers = 2 ** np.arange(reach.bit_length())
    return tuple(np.union1d(powers, [most, own]).tolist())


def _prompts(estimate: ServingEstimate) -> tuple[int, ...]:
    """Powers of two up to the model's context or beyond it to the scenario's own prompt, with that one."""
    own = int(estimate.resolved.requests.input_tokens)
    context = min(max(estimate.resolved.model.max_sequence_length, 2 * _SHORTEST), _LONGEST)
    room = MAX_TOKENS - int(estimate.resolved.requests.output_tokens)
    powers = 2 ** np.arange(_SHORTEST.bit_length() - 1, max(own, min(context, room)).bit_length())
    return tuple(np.union1d(powers, [own]).tolist())


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


#: What the configuration names where it is not at its default.
_ENGINE_FIELDS: Final = (
    "weight_dtype",
    "kv_dtype",
    "prefix_hit",
    "prefill_chunk",
    "prefill_replicas",
    "draft_model",
    "draft_tokens",
    "acceptance",
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Latencies that a service promises, in seconds."""

    ttft: float
    tpot: float


#: promised latencies unless a link says otherwise, by link key [ms]
USUAL_LIMITS: Final = {"lt": "1000", "lp": "50"}


@dataclass(frozen=True, slots=True)
class Preset:
    """Lengths of a kind of request, and how many a replica answers at a time."""

    title: str
    input_tokens: int
    output_tokens: int
    concurrency: int


PRESETS: Final = (
    Preset("Chat 2k/512", 2048, 512, 16),
    Preset("Summarise 15k/1k", 15_360, 1024, 8),
    Preset("Code 20k/50", 20_480, 50, 4),
    Preset("Agent 100k/2k", 102_400, 2048, 2),
)


def content(estimate: ServingEstimate, mode: Mode, limits: Limits) -> Content:
    """Inference page of a single plan."""
    scenario = estimate.resolved.scenario
    point = estimates.operating_point(scenario, limits.ttft, limits.tpot)
    return Content(
        title="Inference",
        configuration=configuration(estimate.resolved),
        verdict=verdict(estimate, point, limits),
        metrics=metrics(estimate),
        rows=(
            (Links("Kinds of request", presets(scenario, limits)), profile_links(estimate)),
            (phase_rows(estimate, "prefill", mode), phase_rows(estimate, "decode", mode)),
            (memory_bar(estimate, mode), interactivity(estimate, point, limits, mode)),
            context_curves(estimate, limits, mode),
            (_communication(estimate),),
            (Remarks("Assumptions behind these numbers", tuple(estimate.assumptions)),),
        ),
    )


def presets(scenario: Scenario, limits: Limits) -> tuple[tuple[str, str], ...]:
    """Links that change the requests and keep model, machine, plan and what the service promises."""
    promised = urlencode(_promise_keys(limits))
    found = []
    for preset in PRESETS:
        changed = replace(
            linkable(scenario),
            input_tokens=preset.input_tokens,
            output_tokens=preset.output_tokens,
            concurrency=preset.concurrency,
            compiled_batch=AUTO,
            context_bucket=AUTO,
        )
        found.append((preset.title, "&".join(part for part in (query_string(changed), promised) if part)))
    return tuple(found)


def verdict(estimate: ServingEstimate, point: OperatingPoint, limits: Limits) -> Verdict:
    """Whether the plan serves, how fast, what binds each phase, and how far it can go within the limits."""
    promised = _promise(estimate, point, limits)
    if not estimate.feasible:
        broken = " ".join(violation_sentence(violation) for violation in estimate.violations)
        return Verdict(f"{broken} {promised}", "bad")
    fill = float(estimate.memory.used_bytes) / estimate.memory.capacity_bytes
    bounds = [(phase, *bound_by(estimate, phase)) for phase in ("prefill", "decode")]
    binds = ", ".join(f"{phase} by {name} ({percent(share, 2)})" for phase, name, share in bounds)
    text = (
        f"Fits: {percent(fill)} of HBM. {duration(float(estimate.ttft))} to the first token, then "
        f"{duration(float(estimate.tpot))} per token ({duration(float(estimate.tpot_with_stalls))} with prefill "
        f"stalls); {count(float(estimate.output_tokens_per_s))} tokens/s in all. Bound: {binds}. {promised}"
    )
    met = float(estimate.ttft) <= limits.ttft and float(estimate.tpot_with_stalls) <= limits.tpot
    return Verdict(text, "good" if met else "plain")


def metrics(estimate: ServingEstimate) -> tuple[Metric, ...]:
    """Headline numbers of serving."""
    cost = estimate.cost.usd_per_million_tokens
    requests = estimate.resolved.requests
    bucket = f"of a prompt that finds its replica free; its bucket is {count(float(requests.context_bucket))} tokens"
    stalls = f"without prefill stalls; {duration(float(estimate.tpot_with_stalls))} with them on a full replica"
    ttft, tpot = (_range(ends) for ends in (estimate.ttft_range, estimate.tpot_range))
    per_token = capacity(float(estimate.kv_bytes_per_token))
    cache = f"KV cache {per_token} per token, each head held {significant(float(estimate.kv_replication))} times"
    option = estimate.resolved.price_option
    return (
        Metric(
            "TTFT",
            duration(float(estimate.ttft)),
            f"Time to first token {bucket}. {ttft}",
            range_text(estimate.ttft_range),
        ),
        Metric(
            "TPOT",
            duration(float(estimate.tpot)),
            f"Time per output token {stalls}. {tpot}",
            range_text(estimate.tpot_range),
        ),
        Metric(
            "Throughput",
            f"{count(float(estimate.output_tokens_per_s))} tok/s",
            f"Output of all full replicas; {count(float(estimate.output_tokens_per_s_per_chip))} per chip.",
        ),
        Metric("Fits at most", number_of_requests(float(estimate.max_concurrency)), f"Per replica. {cache}."),
        Metric("HBM bandwidth", percent(float(estimate.hbm_bandwidth_utilization)), "Of the peak, over a decode step."),
        Metric("Cost", NOTHING if cost is None else f"${significant(float(cost))}/M tok", f"Output tokens, {option}."),
    )


def phase_rows(estimate: ServingEstimate, phase: str, mode: Mode) -> Chart:
    """Time of a phase part by part, each bar beginning where the last one ended."""
    parts = {name: float(part) for name, part in estimate.time[phase].items() if float(part) > 0}
    total = sum(parts.values())
    unit = time_unit(total)
    rows, start = [], 0.0
    for name, part in parts.items():
        value = from_si(part, unit)
        label = f"{duration(part)} · {percent(part / total, 2)}"
        rows.append(Row(PHASE_SHORT_NAMES.get(name, name), start, value, label, time_colour(name)))
        start += value
    title, detail = "Time to first token by part", f"{duration(total)} in all"
    if phase == "decode":
        gained = float(estimate.tokens_per_step)
        guessed = f", {significant(gained)} tokens" if gained > 1.0 else ""
        title, detail = "Decode step by part", f"{duration(total)} in all{guessed}"
    listed = ", ".join(f"{PHASE_NAMES.get(name, name)} {percent(part / total, 2)}" for name, part in parts.items())
    twin = [(PHASE_NAMES.get(name, name), part, part / total) for name, part in parts.items()]
    words = chart_words(estimate.resolved, title, phase, f"{title}, {detail}: {listed}.", detail=detail)
    axis = f"time from the start [{unit}], parts added up"
    whole = table(("part", "time [s]", "share of phase"), [*twin, ("total", total, 1.0)])
    return row_bars(words, rows, axis, table=whole, mode=mode)


def configuration(resolved: Resolved) -> str:
    """What was estimated, with automatic values decided."""
    scenario, requests = resolved.scenario, resolved.requests
    return " · ".join(
        (
            model_title(scenario.model),
            machine(scenario),
            *parallel_words(resolved),
            f"{count(float(requests.input_tokens))} tokens in (bucket {count(float(requests.context_bucket))})",
            f"{count(float(requests.output_tokens))} out",
            f"{number_of_requests(float(requests.concurrency))} per replica (graph of "
            f"{count(float(requests.compiled_batch))})",
            *(changed_text(scenario, row) for row in changed_fields(scenario) if row.name in _ENGINE_FIELDS),
            f"profile {resolved.profile.name}",
        )
    )


def _promise(estimate: ServingEstimate, point: OperatingPoint, limits: Limits) -> str:
    """How far it can go within the limits; the point has a graph of its own, whatever the scenario compiled."""
    requests = estimate.resolved.requests
    within = f"ithin {duration(limits.ttft)} to the first token and {duration(limits.tpot)} per token"
    if point.concurrency and requests.compiled_batch != requests.concurrency:
        compiled = count(float(requests.compiled_batch))
        return f"With a graph compiled for it instead of one for {compiled}, w{within}: {point.message}."
    return f"W{within}: {point.message}."


def _promise_keys(limits: Limits) -> dict[str, str]:
    """Link keys of the promised latencies, apart from the usual ones."""
    texts = {key: f"{from_si(value, 'ms'):g}" for key, value in (("lt", limits.ttft), ("lp", limits.tpot))}
    return {key: text for key, text in texts.items() if text != USUAL_LIMITS[key]}


def _communication(estimate: ServingEstimate) -> Listing:
    rows = [
        (
            phase,
            f"{AXIS_NAMES.get(use.axis, use.axis)} ({use.axis})",
            use.op.replace("_", " "),
            traffic(float(use.bytes)),
            count(float(use.count)),
            str(use.algorithm).replace("_", " "),
            duration(float(use.link_time)),
            duration(float(use.exposed_time)),
            bandwidth(float(use.busbw)),
        )
        for phase, uses in estimate.communication.items()
        for use in uses
    ]
    columns = ("phase", "axis", "operation", "bytes per call", "calls", "algorithm", "on the links", "exposed", "busbw")
    note = "Per prompt, or per decode step, and rank; busbw is nccom-test's definition."
    return Listing("Communication", note if rows else "This plan sends nothing.", table(columns, rows))


def _range(ends: tuple[Numeric, Numeric]) -> str:
    low, high = (float(end) for end in ends)
    return "" if low == high else f"The profile's residuals give {duration(low)} to {duration(high)}."
