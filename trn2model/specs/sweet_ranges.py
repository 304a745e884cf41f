"""Published message sizes on which each collective algorithm does best: data/collectives.toml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from trn2model.specs.provenance import Figure, read_figure, read_toml

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
