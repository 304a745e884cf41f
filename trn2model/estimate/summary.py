"""What training and serving estimates share: chips, rent, assumptions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trn2model.estimate.result import Cost
from trn2model.formulas import Numeric, economics
from trn2model.specs.resolve import Resolved


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
