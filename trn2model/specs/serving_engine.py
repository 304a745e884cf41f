"""How serving engines cut and batch prompts: context buckets of static graphs, tokens per pass of the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from trn2model.specs.hardware import Chip
from trn2model.specs.plan import Column
from trn2model.specs.provenance import Figure, read_figure, read_toml


@cache
def engine_figures(part: str) -> Mapping[str, Figure]:
    """Figures of one part of data/serving.toml [token]."""
    tables = read_toml("serving.toml")[part]["figures"]
    return {key: read_figure(table, f"serving, {part}, {key}") for key, table in tables.items()}


def has_static_graphs(chip: Chip) -> bool:
    """Whether passes are compiled for fixed shapes: every Neuron engine, no GPU engine."""
    return chip.family != "gpu"


def context_bucket(tokens: Column) -> Column:
    r"""Smallest bucket that holds a prompt [token].

    .. math::
        b = 2^{\lceil \log_2 n \rceil} \text{ up to } L, \quad
        b = L + s \left\lceil \frac{n - L}{s} \right\rceil \text{ beyond}

    Examples
    --------
    >>> context_bucket(np.array([3700.0, 4096.0, 10000.0])).tolist()
    [4096.0, 4096.0, 12288.0]
    """
    limit, step = (engine_figures("buckets")[name].number() for name in ("doubling_limit", "step"))
    beyond = limit + step * np.ceil((tokens - limit) / step)
    return np.where(tokens > limit, beyond, np.exp2(np.ceil(np.log2(tokens))))


def held_bucket(tokens: Column, automatic: Column, given: int | str | NDArray[np.int64]) -> Column:
    """Bucket of each prompt: a given one as far as it holds them, the automatic one of a longer prompt [token].

    Examples
    --------
    >>> held_bucket(np.array([100.0, 5000.0]), np.array([128.0, 8192.0]), 4096).tolist()
    [4096.0, 8192.0]
    """
    if isinstance(given, str):
        return automatic
    return np.where(tokens <= given, given, automatic).astype(np.float64)


def prompts_per_pass(tokens: Column, concurrency: Column) -> Column:
    """Prompts that an engine without static graphs prefills together.

    Examples
    --------
    >>> prompts_per_pass(np.array([1000.0, 10000.0]), np.array([64.0, 64.0])).tolist()
    [8.0, 1.0]
    """
    budget = engine_figures("batching")["prefill_tokens"].number()
    return np.clip(np.floor(budget / tokens), 1.0, concurrency)
