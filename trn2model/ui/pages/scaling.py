"""Training over more machines, and the whole run: how fast, at what efficiency, for how long and how much."""

from __future__ import annotations

from typing import Final

import numpy as np

from trn2model.model.training.scaling import SCALINGS, ScalingCurve, scaling_counts
from trn2model.model.training.step import TrainingEstimate
from trn2model.specs import catalog
from trn2model.specs.scenario import Scenario
from trn2model.text import NOTHING, bandwidth, capacity, count, duration, percent, significant
from trn2model.ui import estimates
from trn2model.ui.charts.chart import Chart
from trn2model.ui.charts.curves import Axes, Curve, Mark, Marks, line_chart
from trn2model.ui.charts.style import Mode
from trn2model.ui.pages.content import Listing
from trn2model.ui.pages.words import chart_words
from trn2model.ui.tables import table
from trn2model.units import from_si

#: Machines of the same chips that are joined in another way.
_SIBLING: Final = {"trn2.48xlarge": "trn2-ultraserver", "trn2-ultraserver": "trn2.48xlarge"}
_COLOURS: Final = {"strong": 0, "weak": 2, "sibling": 1}


def scaling_chart(estimate: TrainingEstimate, mode: Mode) -> Chart | None:
    """Throughput per chip over the number of chips, at a fixed batch and with a batch that grows."""
    scenario = estimate.resolved.scenario
    found = [curve for curve in _curves(scenario) if len(curve.counts)]
    if not found:
        return None
    lines = [_line(curve, scenario) for curve in found]
    chips = float(estimate.resolved.system.num_chips * scenario.count)
    spot = Mark(chips, float(estimate.tokens_per_s_per_chip), "this plan")
    here = Marks("this plan", (spot,), "star", colour=5)
    alt = "Tokens per second and chip over chips. " + " ".join(_sentence(curve) for curve in found)
    rows = [row for curve in found for row in _rows(curve)]
    columns = (
        "machine",
        "scaling",
        "machines",
        "chips",
        "global batch",
        "step [s]",
        "tokens/s",
        "efficiency",
        "run [s]",
        "run [USD]",
        "goodput",
        "fits",
    )
    words = chart_words(estimate.resolved, "Scaling over chips", "scaling", alt)
    axes = Axes("chips (hollow: does not fit)", "tokens per second and chip", "log", "linear")
    return line_chart(words, lines, axes, table=table(columns, rows), mode=mode, marks=(here,))


def run_listing(estimate: TrainingEstimate) -> Listing:
    """Whole training run of a single plan."""
    run = estimate.run
    cost = NOTHING if run.cost_usd is None else f"${significant(float(run.cost_usd))}"
    rows = (
        ("tokens", count(run.tokens), "scenario"),
        ("time to train", _long(float(run.time)), "tokens over throughput and goodput"),
        ("cost", cost, f"{estimate.resolved.price_option} price"),
        ("goodput", percent(float(run.goodput)), "share of the time that becomes progress"),
        ("checkpoint", capacity(float(run.checkpoint_bytes)), "weights, master copy and moments"),
        ("writing it", duration(float(run.checkpoint_time)), f"{count(run.num_instances)} instances at once"),
        ("checkpoint interval", _long(float(run.checkpoint_interval)), "Daly's optimum, close to Young's"),
        ("failure of the job every", _long(run.job_mtbf), f"one instance every {_long(run.instance_mtbf)}"),
        ("restart", duration(run.restart_time), "from a failure until training goes on"),
        ("checkpoint rate", bandwidth(_rate(run.checkpoint_bytes, run.checkpoint_time)), "all instances together"),
    )
    note = "With failures and checkpoints; tokens, failures, rates and restarts are parameters under Training."
    return Listing("The whole training run", note, table(("quantity", "value", "meaning"), rows))


def _curves(scenario: Scenario) -> list[ScalingCurve]:
    counts = scaling_counts(scenario.system, scenario.count)
    sibling = _SIBLING.get(scenario.system)
    found = [estimates.scaling(scenario, "strong", scaling_counts(sibling, 0), sibling)] if sibling else []
    return found + [estimates.scaling(scenario, scaling, counts) for scaling in SCALINGS]


def _line(curve: ScalingCurve, scenario: Scenario) -> Curve:
    other = curve.system != scenario.system
    words = "batch fixed" if curve.scaling == "strong" else "batch grows"
    per_chip = curve.tokens_per_s / curve.num_chips
    return Curve(
        name=f"{curve.system}, {words}",
        x=curve.num_chips.tolist(),
        y=per_chip.tolist(),
        labels=["" if other or curve.scaling == "weak" else percent(value, 2) for value in curve.efficiency],
        notes=[
            f"{curve.system} × {n}, {words}: {count(rate)} tok/s, {percent(efficiency)} efficiency, "
            f"run {_long(run)}{'' if fits else ', does not fit'}"
            for n, rate, efficiency, run, fits in zip(
                curve.counts, curve.tokens_per_s, curve.efficiency, curve.run_time, curve.feasible, strict=True
            )
        ],
        solid=curve.feasible.tolist(),
        colour=_COLOURS["sibling" if other else curve.scaling],
    )


def _rows(curve: ScalingCurve) -> list[tuple[str | float | bool | None, ...]]:
    return [
        (
            curve.system,
            curve.scaling,
            int(curve.counts[i]),
            float(curve.num_chips[i]),
            float(curve.global_batch_size[i]),
            float(curve.step_time[i]),
            float(curve.tokens_per_s[i]),
            float(curve.efficiency[i]),
            float(curve.run_time[i]),
            None if np.isnan(curve.run_cost_usd[i]) else float(curve.run_cost_usd[i]),
            float(curve.goodput[i]),
            bool(curve.feasible[i]),
        )
        for i in range(len(curve.counts))
    ]


def _sentence(curve: ScalingCurve) -> str:
    chips = count(catalog.system(curve.system).num_chips * int(curve.counts[-1]))
    kind = "fixed" if curve.scaling == "strong" else "growing"
    return f"{curve.system}, {kind} batch: {percent(float(curve.efficiency[-1]))} efficiency at {chips} chips."


def _long(seconds: float) -> str:
    """Duration of a run in hours or days."""
    hours = from_si(seconds, "h")
    return f"{significant(hours / 24)} days" if hours > 48 else f"{significant(hours)} h"


def _rate(size: object, time: object) -> float:
    return float(np.asarray(size) / np.maximum(np.asarray(time), 1e-30))
