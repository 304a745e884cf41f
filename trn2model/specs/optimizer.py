"""Optimizers as bytes per parameter; the facts live in data/optimizers.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from trn2model.errors import UnknownNameError
from trn2model.specs.provenance import Figure, read_figure, read_toml


@dataclass(frozen=True, slots=True)
class Optimizer:
    """Training state per parameter, beside the weight itself, in bytes."""

    name: str
    title: str
    gradient_bytes: float
    master_bytes: float
    moment_bytes: float
    narrow_master_bytes: float  # master copy where the weights themselves are stored in fewer than 16 bits
    figures: Mapping[str, Figure]

    @property
    def state_bytes(self) -> float:
        """Bytes that ZeRO-1 shards: master weights and moments [B]."""
        return self.master_bytes + self.moment_bytes


@cache
def optimizer(name: str) -> Optimizer:
    """Optimizer by name.

    Raises UnknownNameError (no such optimizer).
    """
    document = read_toml("optimizers.toml")
    if name not in document:
        raise UnknownNameError("optimizer", name, "one of " + ", ".join(document), "choose a listed optimizer")
    tables = document[name]["figures"]
    figures = {key: read_figure(table, f"optimizer {name}, {key}") for key, table in tables.items()}
    numbers = {key: figure.number() for key, figure in figures.items()}
    return Optimizer(name, document[name]["title"], figures=figures, **numbers)


@cache
def optimizer_names() -> tuple[str, ...]:
    """Names of the optimizers in the package's data."""
    return tuple(read_toml("optimizers.toml"))
