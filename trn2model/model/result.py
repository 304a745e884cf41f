"""What an estimate returns: frozen values whose names are the JSON names, and what both workloads share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trn2model.formulas import Numeric, economics
from trn2model.specs.resolve import Resolved


@dataclass(frozen=True, slots=True)
class Violation:
    """Why a plan does not fit: what it asks, what there is, and what would help."""

    resource: str  # what is short
    demand: float  # [unit]
    limit: float  # [unit]
    unit: str  # "B" or "s"
    remedy: str  # what would help, in words


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """HBM of one rank of the fullest stage."""

    capacity_bytes: float  # of the rank [B]
    used_bytes: Numeric  # sum of the parts, shape (...) [B]
    parts: Mapping[str, Numeric]  # weights, gradients, KV cache ..., each of shape (...) [B]


@dataclass(frozen=True, slots=True)
class Cost:
    """Rent of the machines and what a token costs; None where no price is published."""

    usd_per_hour: float | None  # of all systems [USD/h]
    usd_per_million_tokens: Numeric | None  # shape (...) [USD per million tokens]


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


def num_chips(resolved: Resolved) -> float:
    """Chips that are rented, idle ones included."""
    return float(resolved.system.num_chips * resolved.scenario.count)


def reserve_bytes(resolved: Resolved) -> float:
    """HBM of one rank that the runtime keeps for itself [B]."""
    return resolved.system.chip.figures["hbm_reserve_bytes"].number() / resolved.core.ranks_per_chip


def rent(resolved: Resolved, tokens_per_second: Numeric) -> Cost:
    """Rent of the systems and what a million tokens cost."""
    if resolved.price is None or resolved.price.value is None:
        return Cost(None, None)
    usd_per_hour = resolved.price.value * resolved.scenario.count
    per_token = economics.cost_per_token(usd_per_hour, tokens_per_second)
    return Cost(usd_per_hour, scalar(1e6 * per_token))


def assumptions(resolved: Resolved) -> tuple[str, ...]:
    """What the estimate takes for granted: notes on the scenario, assumed figures and constants."""
    said = list(resolved.notes)
    for figures, what in ((resolved.system.figures, resolved.system.name), (resolved.profile.figures, "profile")):
        said += [
            f"{what}: {name.replace('_', ' ')} is assumed ({figure.note})"
            if figure.note
            else f"{what}: {name} is assumed"
            for name, figure in figures.items()
            if figure.status == "assumed"
        ]
    if resolved.price is None or resolved.price.value is None:
        said.append(f"no public {resolved.price_option} price for {resolved.system.name}: cost is not given")
    return tuple(said)


def scalar(value: ArrayLike) -> Any:  # noqa: ANN401  bool, int, float or an array of them
    """Python scalar of a single plan's value, the array itself for a batch."""
    array = np.asarray(value)
    return array.item() if array.ndim == 0 else array
