"""Parallel plans as float64 columns: one plan (0-d) or many (one entry each), the same code for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trn2model.errors import InvalidInputError
from trn2model.specs.model import ModelSpec, Moe

Column = NDArray[np.float64]

#: columns that are given; `num_microbatches` follows from them
PLAN_COLUMNS: Final = (
    "tp",
    "cp",
    "ep",
    "dp",
    "pp",
    "zero",
    "interleave",
    "microbatch_size",
    "global_batch_size",
    "sequence_length",
)
MAX_TOKENS: Final = 10_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ParallelPlan:
    """Degrees, batch and sequence of one plan or of many; all columns have one shape.

    float64 holds every allowed integer exactly and does not overflow in FLOP counts.
    """

    tp: Column
    cp: Column
    ep: Column
    dp: Column
    pp: Column
    zero: Column
    interleave: Column
    microbatch_size: Column
    global_batch_size: Column
    sequence_length: Column
    num_ranks: Column  # tp·cp·ep·dp·pp, the ranks in use
    num_microbatches: Column  # per replica and step

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of every column."""
        return self.tp.shape

    def to_dict(self) -> dict[str, Any]:
        """Columns as JSON values."""
        names = (*PLAN_COLUMNS, "num_ranks", "num_microbatches")
        return {name: np.asarray(getattr(self, name)).astype(np.int64).tolist() for name in names}


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """What is served: tokens per request and requests per replica; the columns broadcast against those of the plan."""

    input_tokens: Column
    output_tokens: Column
    concurrency: Column
    compiled_batch: Column
    prefill_tokens: Column  # prompt tokens that miss the prefix cache
    context_bucket: Column  # prompt tokens that the prefill graphs compute for them
    prefix_hit: float
    prefill_chunk: float
    draft_tokens: float
    acceptance: float


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """What model, machine and schedule allow of a plan; all that the rules of validity read besides the plan."""

    model_name: str
    num_heads: int  # greatest common divisor over the kinds of layers
    num_layers: int
    num_experts: int  # greatest common divisor over the MoE layers; 1 for a dense model
    num_ranks: int
    pipeline_schedule: str = "1f1b"
    draft_heads: int = 0
    prefill_replicas: int = 0  # replicas set apart for prefill


def parallel_plan(
    *,
    tp: ArrayLike,
    cp: ArrayLike,
    ep: ArrayLike,
    dp: ArrayLike,
    pp: ArrayLike,
    zero: ArrayLike,
    interleave: ArrayLike,
    microbatch_size: ArrayLike,
    global_batch_size: ArrayLike,
    sequence_length: ArrayLike,
) -> ParallelPlan:
    r"""Plan from its columns, broadcast to one shape.

    .. math:: n_{ranks} = tp \cdot cp \cdot ep \cdot dp \cdot pp,
              \quad n_{microbatches} = \frac{B}{dp \cdot ep \cdot b}

    Raises InvalidInputError (the columns do not broadcast to one shape).
    """
    given = (tp, cp, ep, dp, pp, zero, interleave, microbatch_size, global_batch_size, sequence_length)
    columns = broadcast_columns(dict(zip(PLAN_COLUMNS, given, strict=True)))
    replicas = columns["dp"] * columns["ep"]
    num_ranks = columns["tp"] * columns["cp"] * replicas * columns["pp"]
    num_microbatches = columns["global_batch_size"] / (replicas * columns["microbatch_size"])
    return ParallelPlan(**columns, num_ranks=np.asarray(num_ranks), num_microbatches=np.asarray(num_microbatches))


def broadcast_columns(given: Mapping[str, ArrayLike]) -> dict[str, Column]:
    """Columns as float64 of one shape.

    Raises InvalidInputError (the shapes do not broadcast).
    """
    columns = {name: np.asarray(value, dtype=np.float64) for name, value in given.items()}
    shape = common_shape({name: column.shape for name, column in columns.items()})
    return {name: np.broadcast_to(column, shape) for name, column in columns.items()} if shape else columns


def common_shape(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Shape to which columns broadcast.

    Raises InvalidInputError (there is none; the message names every column that holds an array).
    """
    given = {name: shape for name, shape in shapes.items() if shape}
    if not given:
        return ()
    try:
        return np.broadcast_shapes(*given.values())
    except ValueError:
        remedy = "give every array one entry per plan"
        raise InvalidInputError(", ".join(given), tuple(given.values()), "arrays of a common shape", remedy) from None


@lru_cache(maxsize=512)
def plan_limits(
    model: ModelSpec,
    num_ranks: int,
    pipeline_schedule: str = "1f1b",
    draft: ModelSpec | None = None,
    prefill_replicas: int = 0,
) -> PlanLimits:
    """Limits that a model on a number of ranks sets to a plan."""
    experts = [kind.feed_forward.num_experts for kind in model.layer_kinds if isinstance(kind.feed_forward, Moe)]
    return PlanLimits(
        model_name=model.name,
        num_heads=_common_heads(model),
        num_layers=model.num_layers,
        num_experts=gcd(*experts) if experts else 1,
        num_ranks=num_ranks,
        pipeline_schedule=pipeline_schedule,
        draft_heads=_common_heads(draft) if draft else 0,
        prefill_replicas=prefill_replicas,
    )


def _common_heads(model: ModelSpec) -> int:
    return gcd(*(kind.attention.num_heads for kind in model.layer_kinds))
