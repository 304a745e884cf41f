"""Training page: where the step goes, what fills HBM, how hard HBM works, what is sent."""

from __future__ import annotations

from typing import Final

import numpy as np

from trn2model.model.serving.steady import ServingEstimate
from trn2model.model.training.step import TrainingEstimate
from trn2model.network.ways import ALGORITHMS
from trn2model.specs.resolve import Resolved
from trn2model.text import NOTHING, bandwidth, capacity, count, duration, percent, significant, traffic
from trn2model.ui.charts.bars import Limit, Part, Row, overlap_bars, row_bars, stacked_bar
from trn2model.ui.charts.chart import Chart, Words
from trn2model.ui.charts.colours import memory_colour, time_colour
from trn2model.ui.charts.style import Mode
from trn2model.ui.pages.content import Content, Listing, Metric, Remarks
from trn2model.ui.pages.evidence import profile_links, range_text
from trn2model.ui.pages.scaling import run_listing, scaling_chart
from trn2model.ui.pages.schedule import memory_chart, schedule_chart
from trn2model.ui.pages.steps import PART_NAMES, SHORT_NAMES, OperatorRow, operator_rows, training_verdict
from trn2model.ui.pages.words import AXIS_NAMES, chart_words, configuration, time_unit
from trn2model.ui.tables import Table, table
from trn2model.units import from_si

_SHOWN_OPERATORS: Final = 14


def content(estimate: TrainingEstimate, mode: Mode) -> Content:
    """Training page of a single plan."""
    return Content(
        title="Training",
        configuration=configuration(estimate.resolved),
        verdict=training_verdict(estimate),
        metrics=metrics(estimate),
        rows=(
            (profile_links(estimate),),
            (step_time_rows(estimate, mode), memory_bar(estimate, mode)),
            (schedule_chart(estimate, mode),),
            (memory_chart(estimate, mode), *_scaling(estimate, mode)),
            (_communication(estimate), run_listing(estimate)),
            (hbm_bars(estimate, mode), *((communication_bars(estimate, mode),) if estimate.communication else ())),
            (Remarks("Assumptions behind these numbers", tuple(estimate.assumptions)),),
        ),
    )


def _scaling(estimate: TrainingEstimate, mode: Mode) -> tuple[Chart, ...]:
    chart = scaling_chart(estimate, mode)
    return (chart,) if chart else ()


def metrics(estimate: TrainingEstimate) -> tuple[Metric, ...]:
    """Headline numbers of a training step."""
    low, high = (float(bound) for bound in estimate.step_time_range)
    step, rate, mfu = (float(part) for part in (estimate.step_time, estimate.tokens_per_s, estimate.mfu))
    memory, cost = estimate.memory, estimate.cost
    rank = estimate.resolved.core.rank_name
    per_token = cost.usd_per_million_tokens
    return (
        Metric("Step time", duration(step), _range_help(low, high), range_text((low, high))),
        Metric(
            "Throughput",
            f"{count(rate)} tok/s",
            "Tokens per second of the whole job.",
            range_text((rate * step / high, rate * step / low), count),
        ),
        Metric(
            "Per chip", f"{count(float(estimate.tokens_per_s_per_chip))} tok/s", "Over all chips rented, idle ones too."
        ),
        Metric(
            "MFU",
            percent(mfu),
            f"Model FLOP without recompute over the dense peak of all chips; HFU {percent(float(estimate.hfu))}.",
            range_text((mfu * step / high, mfu * step / low), percent),
        ),
        Metric(
            "HBM",
            percent(float(memory.used_bytes) / memory.capacity_bytes),
            f"{capacity(float(memory.used_bytes))} of {capacity(memory.capacity_bytes)} per {rank}, heaviest stage.",
        ),
        Metric(
            "Cost", NOTHING if per_token is None else f"${significant(float(per_token))}/M tok", _cost_help(estimate)
        ),
    )


def step_time_rows(estimate: TrainingEstimate, mode: Mode) -> Chart:
    """Step time part by part, each bar beginning where the last one ended."""
    unit, rows, start = time_unit(float(estimate.step_time)), [], 0.0
    for name, part in _spent(estimate).items():
        label, length = f"{duration(part)} · {_share(estimate, part)}", from_si(part, unit)
        rows.append(Row(SHORT_NAMES.get(name, name), start, length, label, time_colour(name)))
        start += length
    axis = f"time from the start of the step [{unit}]"
    return row_bars(_time_words(estimate), rows, axis, table=_time_table(estimate), mode=mode)


def step_time_bar(estimate: TrainingEstimate, mode: Mode) -> Chart:
    """Step time as one bar of parts."""
    unit = time_unit(float(estimate.step_time))
    parts = [
        Part(SHORT_NAMES.get(name, name), from_si(part, unit), _share(estimate, part), time_colour(name))
        for name, part in _spent(estimate).items()
    ]
    return stacked_bar(_time_words(estimate), parts, f"step time [{unit}]", table=_time_table(estimate), mode=mode)


def memory_bar(estimate: TrainingEstimate | ServingEstimate, mode: Mode) -> Chart:
    """HBM of one rank by part against its capacity."""
    memory, rank = estimate.memory, estimate.resolved.core.rank_name
    sizes = {name: float(size) for name, size in memory.parts.items()}
    segments = [
        Part(name.replace("_", " "), from_si(size, "GiB"), capacity(size), memory_colour(name))
        for name, size in sizes.items()
    ]
    limit = Limit(from_si(memory.capacity_bytes, "GiB"), f"capacity {capacity(memory.capacity_bytes)} per {rank}")
    used = float(memory.used_bytes)
    alt = f"HBM of one {rank}: {capacity(used)} used of {capacity(memory.capacity_bytes)}; " + ", ".join(
        f"{name} {capacity(size)}" for name, size in sizes.items()
    )
    rows = [(name, size, size / memory.capacity_bytes) for name, size in sizes.items()]
    rows.append(("used", used, used / memory.capacity_bytes))
    twin = table(("part", "size [B]", "share of capacity"), rows)
    words = chart_words(estimate.resolved, f"HBM of one {rank}", "hbm", alt, detail="heaviest stage")
    return stacked_bar(words, segments, "GiB", limit, table=twin, mode=mode)


def hbm_bars(estimate: TrainingEstimate, mode: Mode) -> Chart:
    """HBM bandwidth that each operator uses while it runs, against the peak."""
    core = estimate.resolved.core
    rows = sorted(operator_rows(estimate), key=lambda row: -row.step_time)
    bars = [
        Row(row.name, 0.0, from_si(row.hbm_bytes / row.time, "GB/s"), _hbm_label(row, core.hbm_bandwidth), 0)
        for row in rows[:_SHOWN_OPERATORS]
    ]
    rank = estimate.resolved.core.rank_name
    limit = Limit(from_si(core.hbm_bandwidth, "GB/s"), f"peak {bandwidth(core.hbm_bandwidth)} per {rank}")
    mean = float(estimate.hbm_bandwidth_utilization)
    alt = f"HBM bandwidth used per {rank}: {percent(mean)} of the peak over the whole step."
    twin = table(
        (
            "operator",
            "forward runs per step",
            "HBM traffic per run [B]",
            "time per run [s]",
            "bandwidth [B/s]",
            "share of peak",
        ),
        [
            (
                row.name,
                row.runs,
                row.hbm_bytes,
                row.time,
                row.hbm_bytes / row.time,
                row.hbm_bytes / row.time / core.hbm_bandwidth,
            )
            for row in rows
        ],
    )
    words = chart_words(
        estimate.resolved,
        "HBM bandwidth by operator",
        "hbm-bandwidth",
        alt,
        detail=f"{percent(mean)} of peak over the step",
    )
    return row_bars(words, bars, f"GB/s per {rank}, longest-running operators first", limit, table=twin, mode=mode)


def communication_bars(estimate: TrainingEstimate, mode: Mode) -> Chart:
    """Time of each kind of collective on the links, and how much of it nothing hides."""
    uses = estimate.communication
    unit = time_unit(max(float(use.link_time) for use in uses))
    rows = [
        Row(
            f"{use.axis} {use.op.replace('_', ' ')}",
            from_si(float(use.exposed_time), unit),
            from_si(float(use.link_time), unit),
            f"{duration(float(use.link_time))}, exposed {duration(float(use.exposed_time))}",
            time_colour(use.axis.partition(" ")[0]),
        )
        for use in uses
    ]
    columns = (
        "axis",
        "operation",
        "bytes per call [B]",
        "calls",
        "time on links [s]",
        "exposed [s]",
        "bus bandwidth [B/s]",
    )
    cells = [
        (
            use.axis,
            use.op,
            float(use.bytes),
            float(use.count),
            float(use.link_time),
            float(use.exposed_time),
            float(use.busbw),
        )
        for use in uses
    ]
    alt = "Time on the links per step: " + "; ".join(f"{row.name} {row.label}" for row in rows)
    words = chart_words(estimate.resolved, "Communication time per step", "communication", alt)
    names = ("exposed", "on the links")
    return overlap_bars(words, rows, names, f"time per step [{unit}]", table=table(columns, cells), mode=mode)


def _communication(estimate: TrainingEstimate) -> Listing:
    rows = [
        (
            f"{AXIS_NAMES.get(use.axis, use.axis)} ({use.axis})",
            use.op.replace("_", " "),
            traffic(float(use.bytes)),
            count(float(use.count)),
            ALGORITHMS[int(np.asarray(use.algorithm))].replace("_", " "),
            duration(float(use.link_time)),
            duration(float(use.exposed_time)),
            bandwidth(float(use.busbw)),
        )
        for use in estimate.communication
    ]
    columns = ("axis", "operation", "bytes per call", "calls", "algorithm", "on the links", "exposed", "bus bandwidth")
    note = (
        "Per step and rank. Exposed is the time that compute does not hide; bus bandwidth is nccom-test's definition."
    )
    return Listing("Communication", note if rows else "This plan sends nothing.", table(columns, rows))


def _spent(estimate: TrainingEstimate) -> dict[str, float]:
    """Parts of the step that take any time [s]."""
    return {name: float(part) for name, part in estimate.time.items() if float(part) > 0}


def _share(estimate: TrainingEstimate, part: float) -> str:
    return percent(part / float(estimate.step_time), 2)


def _time_table(estimate: TrainingEstimate) -> Table:
    whole = float(estimate.step_time)
    rows = [(PART_NAMES.get(name, name), float(part), float(part) / whole) for name, part in estimate.time.items()]
    return table(("part", "time [s]", "share of step"), [*rows, ("step", whole, 1.0)])


def _time_words(estimate: TrainingEstimate) -> Words:
    parts = _spent(estimate).items()
    listed = ", ".join(f"{PART_NAMES.get(name, name)} {_share(estimate, part)}" for name, part in parts)
    alt = f"A step of {duration(float(estimate.step_time))} by part: {listed}."
    return chart_words(estimate.resolved, "Step time by part", "step-time", alt)


def _hbm_label(row: OperatorRow, peak: float) -> str:
    return percent(row.hbm_bytes / row.time / peak, 2)


def _range_help(low: float, high: float) -> str:
    if low == high:
        return "One optimizer step over the global batch."
    return (
        f"One optimizer step over the global batch; the profile's residuals give {duration(low)} to {duration(high)}."
    )


def _cost_help(estimate: TrainingEstimate) -> str:
    resolved: Resolved = estimate.resolved
    rent = estimate.cost.usd_per_hour
    option = resolved.price_option
    return (
        f"No {option} price is published."
        if rent is None
        else f"{option}: ${significant(rent)} per hour for all machines."
    )
