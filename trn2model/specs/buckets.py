"""Context buckets: the prompt lengths for which a static-graph engine compiles prefill; facts in data/serving.toml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from trn2model.specs.plan import Column
from trn2model.specs.provenance import Figure, read_figure, read_toml


@cache
def bucket_figures() -> Mapping[str, Figure]:
    """Where buckets stop doubling, and the step beyond.

    Returns
    -------
    Mapping
        Figures `doubling_limit` and `step`. [token]
    """
    tables = read_toml("serving.toml")["buckets"]["figures"]
    return {key: read_figure(table, f"buckets, {key}") for key, table in tables.items()}


def context_bucket(tokens: Column) -> Column:
    r"""Smallest bucket that holds a prompt.

    .. math::
        b = 2^{\lceil \log_2 n \rceil} \text{ up to } L, \quad
        b = L + s \left\lceil \frac{n - L}{s} \right\rceil \text{ beyond}

    Parameters
    ----------
    tokens : numpy.ndarray
        Prompt tokens to compute, >= 1. [token]

    Returns
    -------
    numpy.ndarray
        Tokens that the graph computes. [token]

    Examples
    --------
    >>> context_bucket(np.array([3700.0, 4096.0, 10000.0])).tolist()
    [4096.0, 4096.0, 12288.0]
    """
    limit, step = (bucket_figures()[name].number() for name in ("doubling_limit", "step"))
    beyond = limit + step * np.ceil((tokens - limit) / step)
    return np.where(tokens > limit, beyond, np.exp2(np.ceil(np.log2(tokens))))
