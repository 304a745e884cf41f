"""Compute of one microbatch of training, per block: each layer kind, embedding, head, and LoRA adapters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.model.layers import (
    RankWork,
    activation_bytes,
    embedding_operators,
    head_operators,
    layer_operators,
    sparse_operators,
)
from trn2model.model.operators import Operator, OperatorTable, Widths, evaluate, rank_rates
from trn2model.model.stages import sparse_weight_width
from trn2model.specs.numerics import dtype
from trn2model.specs.plan import redone_operators, saved_groups
from trn2model.specs.resolve import Resolved

_PREFIX: Final = "lora_"
#: Trained matrices of a layer that get no adapter; routed experts are left out by their names' beginning.
_PLAIN: Final = frozenset({"router"})
_EXPERT: Final = "expert_"


def is_adapter(operator: Operator) -> bool:
    """Whether an operator belongs to an adapter."""
    return operator.name.startswith(_PREFIX)


def with_adapters(operators: list[Operator], resolved: Resolved) -> list[Operator]:
    r"""Operators of a layer with the adapters of its matrices: down to the rank, and up again.

    .. math:: y = W x + B (A x), \quad A: r \times K, \; B: N \times r

    References
    ----------
    .. [1] lora-2021
    """
    rank = float(resolved.scenario.lora_rank)
    if not rank:
        return operators
    added = []
    for base in operators:
        if _adapted(base):
            name = _PREFIX + base.name
            added.append(Operator(f"{name}_down", base.rows, base.contraction, rank, 1.0, True, beside=True))
            added.append(Operator(f"{name}_up", base.rows, rank, base.columns, 1.0, True, beside=True))
    return [*operators, *added]


def adapter_parameters(resolved: Resolved, work: RankWork) -> NDArray[np.float64]:
    r"""Adapter parameters of one rank per block.

    .. math:: P = \sum r (K + N)
    """
    model, rank = resolved.model, float(resolved.scenario.lora_rank)
    blocks = np.zeros((len(model.layer_kinds) + 2, *resolved.plan.shape))
    for index, layer in enumerate(model.layer_kinds):
        operators: Sequence[Operator] = layer_operators(layer, model, work) if rank else ()
        for base in filter(_adapted, operators):
            blocks[index] += rank * (base.contraction + base.columns)
    return blocks


def _adapted(operator: Operator) -> bool:
    return operator.weighted and operator.name not in _PLAIN and not operator.name.startswith(_EXPERT)


#: Keeps shares of nothing finite. [s]


@dataclass(frozen=True, slots=True)
class TrainingCompute:
    """Times, FLOP and HBM bytes of one microbatch on one rank; arrays have shape (blocks, ...).

    `attention` has a leading axis: the attention core in forward, and in backward with what is computed again.
    """

    operators: OperatorTable
    block_of_operator: NDArray[np.int64]
    forward: NDArray[np.float64]
    backward_input: NDArray[np.float64]
    backward_weight: NDArray[np.float64]
    recompute: NDArray[np.float64]
    attention: NDArray[np.float64]
    executed_flop: NDArray[np.float64]
    hbm_bytes: NDArray[np.float64]


def training_work(resolved: Resolved) -> RankWork:
    """What one rank computes for one microbatch."""
    plan, scenario = resolved.plan, resolved.scenario
    tokens = plan.microbatch_size * plan.sequence_length / plan.cp
    return RankWork(
        tokens=tokens,
        shard_tokens=tokens / plan.tp if scenario.sequence_parallel else tokens,
        sequences=plan.microbatch_size,
        query_tokens=plan.sequence_length,
        context_tokens=plan.sequence_length,
        tp=plan.tp,
        cp=plan.cp,
        ep=plan.ep,
        routed_tokens=tokens * plan.ep,
        element_bytes=activation_bytes(scenario.precision),
        kv_element_bytes=activation_bytes(scenario.precision),
        moe_imbalance=scenario.moe_imbalance,
        flash=scenario.attention_kernel == "flash",
        decode=False,
        query_block=float(resolved.system.chip.tensor_engine.moving_size),
    )


def training_compute(resolved: Resolved, work: RankWork) -> TrainingCompute:
    """Operators of forward, input-gradient and weight-gradient passes, timed at once and summed per block."""
    model = resolved.model
    blocks = [with_adapters(layer_operators(layer, model, work), resolved) for layer in model.layer_kinds]
    blocks += [embedding_operators(model, work), head_operators(model, work, work.tokens, loss=True)]
    operators = [operator for block in blocks for operator in block]
    starts = np.cumsum([0, *(len(block) for block in blocks)])[:-1]
    shape = resolved.plan.shape
    expand = (slice(None),) + (None,) * len(shape)
    table = _passes(operators, resolved, work)
    redone = _redone(operators, resolved, flash=work.flash)[expand]
    ran = np.stack([*np.ones((3, *redone.shape)), redone])
    forward, backward_input, backward_weight, recompute = _block_times(table, ran, starts, resolved)
    time, flop, moved = (a.reshape(3, len(operators), *shape) for a in (table.time, table.flop, table.hbm_bytes))
    core = np.array([o.name == "attention" for o in operators])[expand]
    return TrainingCompute(
        operators=_first(table, len(operators)),
        block_of_operator=np.repeat(np.arange(len(blocks)), [len(block) for block in blocks]),
        forward=forward,
        backward_input=backward_input,
        backward_weight=backward_weight,
        recompute=recompute,
        attention=np.add.reduceat(np.stack([time[0], time[1] + redone * time[0]]) * core, starts, axis=1),
        executed_flop=np.add.reduceat(flop.sum(axis=0) + flop[0] * redone, starts),
        hbm_bytes=np.add.reduceat(moved.sum(axis=0) + moved[0] * redone, starts),
    )


def _passes(operators: Sequence[Operator], resolved: Resolved, work: RankWork) -> OperatorTable:
    """Forward, input-gradient and weight-gradient rows of all operators, in this order."""
    scenario = resolved.scenario
    adapters = np.array([is_adapter(operator) for operator in operators])
    sparse = sparse_operators(operators, scenario.sparsity) & ~adapters
    never = np.zeros_like(sparse)
    frozen = scenario.lora_rank > 0
    weights = [_weight_gradient(o) if not frozen or is_adapter(o) else Operator(o.name) for o in operators]
    return evaluate(
        [*operators, *map(_input_gradient, operators), *weights],
        resolved.plan.shape,
        Widths(
            work.element_bytes,
            dtype(resolved.weight_dtype).storage_bytes,
            sparse_weight_width(resolved),
            work.element_bytes,
        ),
        np.concatenate([sparse, sparse & scenario.transposable_mask, never]),
        rank_rates(resolved),
        resolved.core,
        resolved.profile.compute,
    )


def _block_times(
    table: OperatorTable, ran: NDArray[np.float64], starts: NDArray[np.int64], resolved: Resolved
) -> NDArray[np.float64]:
    """Time of each pass over each block; where engines overlap across operators, down to the busiest engine's.

    The fourth pass runs again the forward operators that `ran` names.
    """
    passes = [0, 1, 2, 0]
    time = table.time.reshape(3, -1, *table.time.shape[1:])[passes] * ran
    whole = np.add.reduceat(time, starts, axis=1)
    fraction = resolved.profile.compute.engine_overlap_fraction
    if not fraction:
        return whole
    engines = np.stack([table.tensor_time, table.vector_time, table.scalar_time, table.hbm_time])
    engines = engines.reshape(len(engines), 3, *time.shape[1:])[:, passes] * ran
    busiest = np.add.reduceat(engines, starts, axis=2).max(axis=0)
    return np.asarray(whole - fraction * np.maximum(whole - busiest, 0.0))


def _redone(operators: Sequence[Operator], resolved: Resolved, *, flash: bool) -> NDArray[np.float64]:
    """Which forward operators run again in backward; a flash kernel already redoes its scores there."""
    scenario = resolved.scenario
    again = redone_operators(saved_groups(scenario.recompute, scenario.saved_operators))
    if scenario.recompute == "selective" and not flash:
        again = again | {"attention"}
    adapted = scenario.recompute == "full"
    return np.array([float(o.name in again or (adapted and is_adapter(o))) for o in operators])


def _input_gradient(forward: Operator) -> Operator:
    """Gradient of the inputs: GEMM with the weights transposed; elementwise work reads saved input and gradient."""
    return Operator(
        forward.name,
        rows=forward.rows,
        contraction=forward.columns,
        columns=forward.contraction,
        num_gemms=forward.num_gemms,
        weighted=forward.weighted,
        attention_flop=forward.attention_flop * forward.backward_flop_ratio,
        vector_elements=forward.backward_vector_elements,
        scalar_elements=forward.backward_scalar_elements,
        elementwise_bytes=1.5 * forward.elementwise_bytes,
        stream_bytes=2.0 * forward.stream_bytes,
        kv_bytes=forward.kv_bytes,
        beside=forward.beside,
    )


def _weight_gradient(forward: Operator) -> Operator:
    """Gradient of the weights: contraction over the tokens; nothing where no weight is trained."""
    if not forward.weighted:
        return Operator(forward.name)
    return Operator(
        forward.name,
        rows=forward.contraction,
        contraction=forward.rows,
        columns=forward.columns,
        num_gemms=forward.num_gemms,
        beside=forward.beside,
    )


def _first(table: OperatorTable, count: int) -> OperatorTable:
    return OperatorTable(
        names=table.names[:count],
        sparse=table.sparse[:count],
        flop=table.flop[:count],
        hbm_bytes=table.hbm_bytes[:count],
        tensor_time=table.tensor_time[:count],
        vector_time=table.vector_time[:count],
        scalar_time=table.scalar_time[:count],
        hbm_time=table.hbm_time[:count],
        time=table.time[:count],
    )
