"""One collective by itself: its time by algorithm, curves over the message size, and UltraServer against EFA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trn2model.errors import InvalidInputError
from trn2model.formulas import collectives
from trn2model.network.cost import Lines, bus_factor, lines
from trn2model.network.placement import Dims
from trn2model.network.ways import ALGORITHMS
from trn2model.specs.hardware import System
from trn2model.specs.profile import LinkConstants, profile
from trn2model.specs.provenance import Figure, read_figure, read_toml
from trn2model.specs.topology import Fabric, fabric

#: Chip whose instances the document describes.
CHIP: Final = "trainium2"


@dataclass(frozen=True, slots=True)
class SweetRange:
    """Sizes in bytes from `low` to `high` on which the document names an algorithm as the best."""

    algorithm: str
    low: float
    high: float


@cache
def range_figures() -> dict[str, Figure]:
    """Figures behind the ranges."""
    tables = read_toml("collectives.toml")["sweet_ranges"]["figures"]
    return {key: read_figure(table, f"collectives, {key}") for key, table in tables.items()}


def sweet_ranges(ranks: int) -> tuple[SweetRange, ...]:
    """Published ranges for a group on one Trn2 instance.

    References
    ----------
    .. [1] neuron-collectives

    Examples
    --------
    >>> [(one.algorithm, one.low, one.high) for one in sweet_ranges(64)]
    [('mesh', 0.0, 1000000.0), ('rdh', 1000000.0, 56000000.0), ('kangaring', 56000000.0, inf)]
    >>> sweet_ranges(32)
    ()
    """
    figures = {key: figure.number() for key, figure in range_figures().items()}
    if ranks != figures["ranks"]:
        return ()
    first, second = figures["mesh_below"], figures["rdh_below"]
    return (
        SweetRange("mesh", 0.0, first),
        SweetRange("rdh", first, second),
        SweetRange("kangaring", second, float("inf")),
    )


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveCurves:
    """Times and bus bandwidths of each algorithm over message sizes, and where the cheapest one changes."""

    message_bytes: Floats
    times: Mapping[str, Floats]
    busbw: Mapping[str, Floats]
    crossovers: tuple[tuple[float, str, str], ...]  # message size [B], cheapest below it, cheapest above it


def collective_report(
    op: str,
    system: System,
    count: int,
    lnc: int,
    *,
    ranks: int,
    message_bytes: float,
    algorithm: str = "auto",
    profile_name: str = "achievable",
) -> dict[str, Any]:
    """One group of the first ranks of a machine, alone on it: what nccom-test would print.

    Parameters
    ----------
    op : str
        all_reduce, all_gather, reduce_scatter, all_to_all or permute.
    system : System
        The machine.
    count : int
        How many of them, joined by EFA.
    lnc : int
        Logical NeuronCore configuration, read only where the system supports it.
    ranks : int
        Members, consecutive from rank 0.
    message_bytes : float
        Size column of nccom-test. [B]
    algorithm : str
        Name of an algorithm, or auto for the cheapest.
    profile_name : str
        Profile whose constants apply.

    Returns
    -------
    dict
        time [s], algorithm, algbw and busbw [B/s], by_algorithm {name: time [s]}, max_link_utilization [1].

    Raises
    ------
    InvalidInputError
        Unknown operation or algorithm, more ranks than the machine has, or a negative message.
    """
    net = fabric(system, count, lnc)
    if not 1 <= ranks <= net.num_ranks:
        allowed = f"1 to {net.num_ranks} on {count} × {system.name}"
        raise InvalidInputError("ranks", ranks, allowed, "lower the ranks or add systems")
    if not 0 < message_bytes < np.inf:
        raise InvalidInputError("bytes", message_bytes, "a positive number", "give the message size in bytes")
    constants = profile(profile_name).links
    dims: Dims = ((1, ranks),)
    every = lines(net, op, dims, ranks, constants=constants)
    chosen = lines(net, op, dims, ranks, constants=constants, algorithm=algorithm)
    best = chosen.best(message_bytes)
    time = float(chosen.times(message_bytes)[best])
    factor = float(bus_factor(op, float(ranks)))
    return {
        "time": time,
        "algorithm": ALGORITHMS[int(chosen.algorithm[best])],
        "algbw": message_bytes / time if time else 0.0,
        "busbw": factor * message_bytes / time if time else 0.0,
        "by_algorithm": {
            name: float(times)
            for name, times in _times_by_algorithm(every, np.asarray(message_bytes, dtype=np.float64)).items()
        },
        "max_link_utilization": float(chosen.link[best]) * message_bytes / time if time else 0.0,
    }


def collective_curves(
    net: Fabric, op: str, dims: Dims, num_ranks: int, *, message_bytes: ArrayLike, constants: LinkConstants
) -> CollectiveCurves:
    """Time and bus bandwidth of every algorithm over the message size.

    Raises InvalidInputError (unknown operation, or groups that do not fit).
    """
    sizes = np.asarray(message_bytes, dtype=np.float64)
    table = lines(net, op, dims, num_ranks, constants=constants)
    times = _times_by_algorithm(table, sizes)
    factor = bus_factor(op, float(table.size))
    busbw = {name: np.asarray(collectives.bus_bandwidth(sizes, curve, factor)) for name, curve in times.items()}
    return CollectiveCurves(sizes, times, busbw, _crossovers(table, sizes))


def _times_by_algorithm(table: Lines, sizes: Floats) -> dict[str, Floats]:
    if not table.ways:
        return {}
    times = table.times(sizes)
    present = sorted(set(table.algorithm.tolist()))
    return {ALGORITHMS[index]: times[..., table.algorithm == index].min(axis=-1) for index in present}


def _crossovers(table: Lines, sizes: Floats) -> tuple[tuple[float, str, str], ...]:
    """Sizes at which the cheapest algorithm changes: corners of the lower envelope of all lines."""
    if not sizes.size:
        return ()
    low, high = float(sizes.min()), float(sizes.max())
    here, best = low, table.best(low)
    found: list[tuple[float, str, str]] = []
    while True:
        fixed, slope = table.fixed - table.fixed[best], table.slope[best] - table.slope
        with np.errstate(divide="ignore", invalid="ignore"):
            meeting = np.where(slope > 0, fixed / slope, np.inf)
        meeting[meeting < here] = np.inf
        corner = float(meeting.min())
        if not corner < high:
            return tuple(found)
        ties = np.flatnonzero(meeting == corner)
        after = int(ties[np.argmin(table.slope[ties])])
        if table.algorithm[after] != table.algorithm[best]:
            found.append((corner, ALGORITHMS[table.algorithm[best]], ALGORITHMS[table.algorithm[after]]))
        here, best = corner, after
