"""Failures, checkpoints and restarts of a training run: the scenario's own figures, or published ones."""

from __future__ import annotations

from functools import cache
from typing import Final

from trn2model.specs.fields import AUTO
from trn2model.specs.provenance import Figure, read_figure, read_toml
from trn2model.specs.scenario import Scenario
from trn2model.units import from_si

#: Scenario field and the unit its value is given in.
RUN_UNITS: Final = {"instance_mtbf": "h", "checkpoint_bandwidth": "GB/s", "restart_time": "s"}


@cache
def reliability_figures() -> dict[str, Figure]:
    """Published failures, checkpoint rates and restarts."""
    tables = read_toml("reliability.toml")["run"]["figures"]
    return {name: read_figure(table, f"reliability, {name}") for name, table in tables.items()}


def run_settings(scenario: Scenario) -> dict[str, float]:
    """Failures, checkpoint rate and restart time of a scenario, in the units of its fields."""
    figures = reliability_figures()
    return {
        name: from_si(figures[name].number(), unit) if (given := getattr(scenario, name)) == AUTO else float(given)
        for name, unit in RUN_UNITS.items()
    }
