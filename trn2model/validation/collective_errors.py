"""Collectives alone against published measurements, row by row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trn2model.estimate.network.placement import group_dims
from trn2model.estimate.network.traffic import collective_cost
from trn2model.specs import catalog
from trn2model.specs.profile import profile
from trn2model.specs.topology import fabric
from trn2model.validation.measurements import Measurement, measurements


@dataclass(frozen=True, slots=True)
class CollectiveError:
    """A measured collective, its estimate with the launch inside the measurement added, and the relative error."""

    row: Measurement
    measured: float
    estimated: float

    @property
    def error(self) -> float:
        """Estimate over measurement, less 1."""
        return self.estimated / self.measured - 1.0


def collective_errors(layers: Iterable[str] = ("device",), profile_name: str = "") -> tuple[CollectiveError, ...]:
    """Errors of the model on the published times of collectives that it can be compared with.

    Notes
    -----
    Rows whose use is "bound" hold the real time from one side only; their error says which way, not how much.
    """
    wanted = frozenset(layers)
    return tuple(_compared(row, profile_name) for row in measurements("collective") if _comparable(row, wanted))


def _comparable(row: Measurement, layers: frozenset[str]) -> bool:
    usable = row.metric == "time" and row.values["bytes"] is not None and row.use != "excluded"
    return usable and row.values["layer"] in layers and row.values.get("ranks_per_machine") is None


def _compared(row: Measurement, profile_name: str) -> CollectiveError:
    system = catalog.system(row.text("system"))
    net = fabric(system, round(row.number("count")), round(_number(row, "lnc", 2.0)))
    groups = group_dims(((1, round(row.number("ranks"))),), round(row.number("ranks")))
    constants = profile(profile_name or system.default_profile).constants
    cost = collective_cost(net, row.text("op"), row.number("bytes"), groups, constants)
    launch = _number(row, "launch_time", 0.0)
    return CollectiveError(row, row.number("measured"), float(cost.time) + launch)


def _number(row: Measurement, column: str, blank: float) -> float:
    value = row.values.get(column)
    return value if isinstance(value, float) else blank
