"""A whole training run: time and cost of its tokens, with failures and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from trn2model.formulas import Numeric, economics
from trn2model.model.result import rent, scalar
from trn2model.specs.resolve import RUN_UNITS, Resolved, run_settings
from trn2model.units import to_si


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Time and cost to train on a number of tokens; arrays where the plan holds arrays."""

    tokens: float  # to train on
    time: Numeric  # failures and checkpoints included [s]
    cost_usd: Numeric | None  # None without a price [USD]
    goodput: Numeric  # share of the time that trains [1]
    checkpoint_bytes: Numeric  # of all ranks [B]
    checkpoint_time: Numeric  # to write one [s]
    checkpoint_interval: Numeric  # Daly's [s]
    restart_time: float  # after a failure [s]
    job_mtbf: float  # of all instances together [s]
    instance_mtbf: float  # of one [s]
    num_instances: float  # that may fail


def training_run(resolved: Resolved, tokens_per_second: Numeric, checkpoint_bytes: Numeric) -> TrainingRun:
    r"""Training run at a steady throughput, interrupted by failures, with checkpoints at Daly's interval.

    .. math:: t = \frac{N}{r\,g}, \quad \delta = \frac{bytes}{n\,\beta}, \quad M = \frac{M_1}{n}

    Notes
    -----
    Training stops while a checkpoint is written; all instances write their shares at once.

    References
    ----------
    .. [1] young-1974
    .. [2] daly-2006
    """
    scenario = resolved.scenario
    instances = float(resolved.system.num_instances * scenario.count)
    given = {name: to_si(value, RUN_UNITS[name]) for name, value in run_settings(scenario).items()}
    mtbf = float(economics.system_mtbf(given["instance_mtbf"], instances))
    restart = given["restart_time"]
    written = checkpoint_bytes / (instances * given["checkpoint_bandwidth"])
    interval = economics.optimal_checkpoint_interval(written, mtbf)
    goodput = economics.goodput_fraction(interval, written, restart, mtbf)
    usd_per_hour = rent(resolved, tokens_per_second).usd_per_hour
    run = (scenario.training_tokens, tokens_per_second, goodput)
    return TrainingRun(
        tokens=scenario.training_tokens,
        time=scalar(economics.training_time(*run)),
        cost_usd=None if usd_per_hour is None else scalar(economics.training_cost(usd_per_hour, *run)),
        goodput=scalar(goodput),
        checkpoint_bytes=scalar(checkpoint_bytes),
        checkpoint_time=scalar(written),
        checkpoint_interval=scalar(interval),
        restart_time=restart,
        job_mtbf=mtbf,
        instance_mtbf=given["instance_mtbf"],
        num_instances=instances,
    )
