"""What an estimate returns: frozen values whose names are the JSON names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from trn2model.formulas import Numeric


@dataclass(frozen=True, slots=True)
class Violation:
    """Why a plan does not fit: what it asks, what there is, and what would help."""

    resource: str
    demand: float
    limit: float
    unit: str
    remedy: str


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """HBM of one rank of the heaviest stage, by part, in bytes."""

    capacity_bytes: float
    used_bytes: Numeric
    parts: Mapping[str, Numeric]


@dataclass(frozen=True, slots=True)
class CommunicationUse:
    """One kind of collective over one parallel axis, summed over a step of one rank.

    `scope` tells a whole group from the part "inside" a ZeRO group, or the replicas "across" such groups.
    """

    axis: str
    op: str
    bytes: Numeric
    count: Numeric
    algorithm: Any
    link_time: Numeric
    exposed_time: Numeric
    busbw: Numeric
    scope: str = "whole"


@dataclass(frozen=True, slots=True)
class LinkUse:
    """Utilization of the directed links over a step, as shares of their rates."""

    max_utilization: float
    mean_utilization: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Rent of the machines and what a token costs; None where no price is published."""

    usd_per_hour: float | None
    usd_per_million_tokens: Numeric | None


def to_json(value: object) -> Any:  # noqa: ANN401  JSON has no static type
    """Plain JSON value of a result: numbers, text, lists and objects, with null for what is not finite.

    Examples
    --------
    >>> to_json({"a": np.float64(1.5), "b": float("nan"), "c": np.array([1.0, 2.0])})
    {'a': 1.5, 'b': None, 'c': [1.0, 2.0]}
    """
    if isinstance(value, np.ndarray):
        return to_json(value.tolist())
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    return value
