"""What training and serving share: one pass of one rank over the blocks of a model, and what of its calls is exposed.

A block is a layer of each kind, the embedding or the head, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric
from trn2model.model.calls import Call, Transfer
from trn2model.model.layers import RankWork, embedding_operators, head_operators, layer_operators
from trn2model.model.operators import Operator, OperatorTable, Widths, evaluate, rank_rates
from trn2model.model.stages import sparse_weight_width
from trn2model.network.loads import CommunicationUse
from trn2model.specs.model import ModelSpec
from trn2model.specs.numerics import dtype
from trn2model.specs.resolve import Resolved

Floats = NDArray[np.float64]

#: Axes whose collectives run inside a pass, in the order in which they hide behind its compute.
INNER_AXES: Final = ("tp", "cp", "ep")
#: Keeps the exposed share of an axis that sends nothing finite. [s]
_TINY_TIME: Final = 1e-30


@dataclass(frozen=True, slots=True)
class Blocks:
    """Operators of a forward pass, one block after another."""

    names: tuple[str, ...]  # of the blocks
    operators: tuple[Operator, ...]
    block_of: NDArray[np.int64]  # index into `names` of each operator, shape (operators,)
    starts: NDArray[np.int64]  # first operator of each block, shape (blocks,)

    def sums(self, values: Floats, axis: int = 0) -> Floats:
        """Sums per block of values that hold an entry per operator along an axis."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=axis))

    def attention_sums(self, values: Floats, axis: int = 0) -> Floats:
        """As `sums`, of the attention cores alone."""
        core = np.array([operator.name == "attention" for operator in self.operators])
        return self.sums(values * core.reshape(-1, *(1,) * (values.ndim - axis - 1)), axis)


def model_blocks(
    model: ModelSpec,
    work: RankWork,
    head_tokens: Numeric,
    *,
    loss: bool,
    adapt: Callable[[list[Operator]], list[Operator]] = list,
) -> Blocks:
    """Operators of all blocks; `adapt` may add to those of a layer."""
    blocks = [adapt(layer_operators(layer, model, work)) for layer in model.layer_kinds]
    blocks += [embedding_operators(model, work), head_operators(model, work, head_tokens, loss)]
    sizes = [len(block) for block in blocks]
    return Blocks(
        names=(*(layer.name for layer in model.layer_kinds), "embedding", "head"),
        operators=tuple(operator for block in blocks for operator in block),
        block_of=np.repeat(np.arange(len(blocks)), sizes),
        starts=np.cumsum([0, *sizes[:-1]]),
    )


def rank_table(
    resolved: Resolved, work: RankWork, operators: Sequence[Operator], sparse_rows: NDArray[np.bool_]
) -> OperatorTable:
    """Operators at the rates, widths and constants of a rank of the scenario."""
    stored = dtype(resolved.weight_dtype).storage_bytes
    return evaluate(
        operators,
        resolved.plan.shape,
        Widths(work.element_bytes, stored, sparse_weight_width(resolved), work.element_bytes),
        sparse_rows,
        rates=rank_rates(resolved),
        core=resolved.core,
        constants=resolved.profile.compute,
    )


def block_times(
    resolved: Resolved, blocks: Blocks, table: OperatorTable, *, passes: Sequence[int] = (0,), ran: Numeric = 1.0
) -> Floats:
    r"""Time of passes over each block, shape (passes, blocks, ...) [s].

    Where engines overlap across operators, it shrinks towards that of the busiest engine:

    .. math:: t = \sum_i t_i - f \max\left(0, \sum_i t_i - \max_e \sum_i t_{e,i}\right)

    `table` holds the rows of one or several passes, one after another; `passes` says which of them to take, and `ran`
    which share of an operator runs in each.
    """
    chosen, size = list(passes), len(blocks.operators)

    def rows(values: Floats) -> Floats:
        return np.asarray(values.reshape(-1, size, *values.shape[1:])[chosen] * ran)

    whole = blocks.sums(rows(table.time), axis=1)
    fraction = resolved.profile.compute.engine_overlap_fraction
    if not fraction:
        return whole
    engines = (table.tensor_time, table.vector_time, table.scalar_time, table.hbm_time)
    busiest = np.max([blocks.sums(rows(engine), axis=1) for engine in engines], axis=0)
    return np.asarray(whole - fraction * np.maximum(whole - busiest, 0.0))


def link_times(calls: Sequence[Call], shape: tuple[int, ...], phases: Sequence[str]) -> dict[str, Floats]:
    """Link time of each inner axis per phase ("forward", "backward") and block, of shape (phases, blocks, ...) [s]."""
    link = {axis: np.zeros((len(phases), *shape)) for axis in INNER_AXES}
    for call in calls:
        for row, phase in enumerate(phases):
            link[call.axis][row] += call.cost.time * getattr(call, phase)
    return link


def exposed_times(
    resolved: Resolved, work: RankWork, link: Mapping[str, Floats], *, busy: Floats, attention: Floats
) -> dict[str, Floats]:
    r"""Exposed communication of each inner axis: what the compute beside it cannot hide [s].

    Each axis hides in turn in the compute that the axes before it left free:

    .. math:: t_{exposed} = t_{link} - \min(f\,t_{link}, t_{free})

    A ring of context-parallel ranks hides behind the attention of the pieces it has already, (cp-1)/cp of all; where
    engines overlap across operators, behind the other work beside it too. A decode step has no ring. Link times, busy
    times and those of the attention cores have one shape, whatever stretch of a pass an entry stands for.
    """
    constants, on = resolved.profile.compute, float(resolved.scenario.overlap)
    free = busy
    cp_fraction, cp_limit = on * constants.tp_overlap_fraction, busy
    if resolved.scenario.context_parallel_method == "ring" and not work.decode:
        pieces = attention * (resolved.plan.cp - 1.0) / resolved.plan.cp
        cp_fraction, cp_limit = on, pieces + constants.engine_overlap_fraction * np.maximum(busy - pieces, 0.0)
    fractions = (on * constants.tp_overlap_fraction, cp_fraction, on * constants.ep_overlap_fraction)
    exposed: dict[str, Floats] = {}
    for axis, fraction, limit in zip(INNER_AXES, fractions, (busy, cp_limit, busy), strict=True):
        hidden = np.minimum(fraction * link[axis], np.minimum(limit, free))
        free = free - hidden
        exposed[axis] = link[axis] - hidden
    return exposed


def exposed_share(exposed: Numeric, link: Numeric) -> Numeric:
    """Exposed part of a link time."""
    return exposed / np.maximum(link, _TINY_TIME)


def communication_uses(
    counted: Sequence[tuple[Call | Transfer, Numeric]], exposed: Mapping[str, Numeric]
) -> list[CommunicationUse]:
    """Calls with how often each runs; the exposed time of an axis is shared out by link time."""
    link: dict[str, Numeric] = {}
    for call, count in counted:
        link[call.axis] = link.get(call.axis, 0.0) + count * call.cost.time
    shares = {axis: exposed_share(exposed[axis], total) for axis, total in link.items()}
    return [
        CommunicationUse(
            axis=call.axis,
            op=call.op,
            bytes=call.message_bytes,
            count=count,
            algorithm=call.cost.algorithm,
            link_time=count * call.cost.time,
            exposed_time=shares[call.axis] * count * call.cost.time,
            busbw=call.cost.busbw,
        )
        for call, count in counted
        if np.any(count * call.cost.time)
    ]
