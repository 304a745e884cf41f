"""Number formats, sparsity patterns, and optimizers as bytes per parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from trn2model.errors import UnknownNameError
from trn2model.specs.provenance import Figure, read_figure, read_toml


@dataclass(frozen=True, slots=True)
class Dtype:
    """A storage format: bytes per element with its share of scales, and the format it is multiplied in."""

    name: str
    storage_bytes: float
    matmul_dtype: str
    figure: Figure


@dataclass(frozen=True, slots=True)
class SparsityPattern:
    """`kept` of every `group` values along the contraction are stored; dense keeps 1 of 1."""

    name: str
    kept: int
    group: int
    tag_bytes: float
    source: str

    @property
    def is_dense(self) -> bool:
        """Whether nothing is left out."""
        return self.kept == self.group


def dtype(name: str) -> Dtype:
    """Number format by name.

    Raises UnknownNameError (no such format).

    Examples
    --------
    >>> dtype("nvfp4").storage_bytes
    0.5625
    """
    table = _dtypes()
    if name not in table:
        raise UnknownNameError("dtype", name, "one of " + ", ".join(table), "choose a listed number format")
    return table[name]


def dtype_names() -> tuple[str, ...]:
    """Names of the number formats."""
    return tuple(_dtypes())


def sparsity(name: str) -> SparsityPattern:
    """Sparsity pattern by name.

    Raises UnknownNameError (no such pattern).

    Examples
    --------
    >>> pattern = sparsity("4:16")
    >>> pattern.group / pattern.kept
    4.0
    """
    table = _patterns()
    if name not in table:
        raise UnknownNameError("sparsity", name, "one of " + ", ".join(table), "choose a listed pattern")
    return table[name]


def sparsity_names() -> tuple[str, ...]:
    """Names of the sparsity patterns."""
    return tuple(_patterns())


@cache
def _dtypes() -> Mapping[str, Dtype]:
    table = {}
    for name, row in read_toml("dtypes.toml").items():
        figure = read_figure(row["storage_bytes"], f"dtype {name}")
        table[name] = Dtype(name, figure.number(), row["matmul_dtype"], figure)
    return table


@cache
def _patterns() -> Mapping[str, SparsityPattern]:
    document = read_toml("sparsity.toml")
    tag_bytes = read_figure(document["tag"], "sparsity tag").number()
    return {
        name: SparsityPattern(
            name, row["kept"], row["group"], 0.0 if row["kept"] == row["group"] else tag_bytes, row["source"]
        )
        for name, row in document["patterns"].items()
    }


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
