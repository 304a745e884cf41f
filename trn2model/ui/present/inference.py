"""Inference page: does it fit, how long does a user wait, how many users, and what binds each phase."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from trn2model.estimate.serving.plan import OperatingPoint
from trn2model.estimate.serving.steady import ServingEstimate
from trn2model.formulas import Numeric
from trn2model.specs.fields import AUTO
from trn2model.specs.resolve import Resolved
from trn2model.specs.scenario import Scenario
from trn2model.ui import estimates
from trn2model.ui.charts.bars import Row, row_bars
from trn2model.ui.charts.chart import Chart
from trn2model.ui.charts.template import Mode
from trn2model.ui.format import (
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
from trn2model.ui.present.content import Content, Links, Listing, Metric, Remarks, Verdict
from trn2model.ui.present.serving_curves import context_curves, interactivity
from trn2model.ui.present.serving_steps import PART_COLOURS, PART_NAMES, SHORT_NAMES, bound_by
from trn2model.ui.present.training import memory_bar
from trn2model.ui.present.trust import profile_links, range_text
from trn2model.ui.present.verdict import violation_sentence
from trn2model.ui.present.words import (
    AXIS_NAMES,
    changed_fields,
    changed_text,
    chart_words,
    linkable,
    machine,
    model_title,
)
from trn2model.ui.tables import table
from trn2model.ui.url_codec import query_string
from trn2model.ui.view_fields import VIEW_FIELDS
from trn2model.units import from_si

_MS_BELOW: Final = 2.0
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
            (memory_bar(estimate, mode), interactivity(estimate, point, limits.ttft, limits.tpot, mode)),
            context_curves(estimate, limits.ttft, limits.tpot, mode),
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
    unit = "ms" if total < _MS_BELOW else "s"
    rows, start = [], 0.0
    for name, part in parts.items():
        value = from_si(part, unit)
        label = f"{duration(part)} · {percent(part / total, 2)}"
        rows.append(Row(SHORT_NAMES.get(name, name), start, value, label, PART_COLOURS.get(name, 9)))
        start += value
    title, detail = "Time to first token by part", f"{duration(total)} in all"
    if phase == "decode":
        gained = float(estimate.tokens_per_step)
        guessed = f", {significant(gained)} tokens" if gained > 1.0 else ""
        title, detail = "Decode step by part", f"{duration(total)} in all{guessed}"
    listed = ", ".join(f"{PART_NAMES.get(name, name)} {percent(part / total, 2)}" for name, part in parts.items())
    twin = [(PART_NAMES.get(name, name), part, part / total) for name, part in parts.items()]
    words = chart_words(estimate.resolved, title, phase, f"{title}, {detail}: {listed}.", detail)
    axis = f"time from the start [{unit}], parts added up"
    whole = table(("part", "time [s]", "share of phase"), [*twin, ("total", total, 1.0)])
    return row_bars(words, rows, axis, None, whole, mode)


def configuration(resolved: Resolved) -> str:
    """What was estimated, with automatic values decided."""
    scenario, plan, requests = resolved.scenario, resolved.plan, resolved.requests
    degrees = [(axis, float(getattr(plan, axis))) for axis in AXIS_NAMES]
    shown = [f"{axis} {count(size)}" for axis, size in degrees if size > 1] or ["one rank"]
    sparse = "dense" if scenario.sparsity == "dense" else f"sparse {scenario.sparsity}"
    return " · ".join(
        (
            model_title(scenario.model),
            machine(scenario),
            " ".join(shown),
            f"{scenario.precision} {sparse}",
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
    return {key: text for key, text in texts.items() if text != VIEW_FIELDS[key].default}


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
