"""Compute of one microbatch of training, per block: each layer kind, embedding, head, and LoRA adapters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.model.blocks import Blocks, block_times, model_blocks, rank_table
from trn2model.model.layers import RankWork, activation_bytes, layer_operators, sparse_operators
from trn2model.model.operators import Operator, OperatorTable
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


@dataclass(frozen=True, slots=True)
class TrainingCompute:
    """What one microbatch costs on one rank; arrays have shape (blocks, ...)."""

    blocks: Blocks
    operators: OperatorTable  # of the forward pass
    forward: NDArray[np.float64]  # [s]
    backward_input: NDArray[np.float64]  # gradients of the inputs [s]
    backward_weight: NDArray[np.float64]  # gradients of the weights [s]
    recompute: NDArray[np.float64]  # forward operators that run again in backward [s]
    attention: NDArray[np.float64]  # attention cores in forward, and in backward with recompute, (2, blocks, ...) [s]
    executed_flop: NDArray[np.float64]  # of all passes [FLOP]
    hbm_bytes: NDArray[np.float64]  # of all passes [B]

    @property
    def parts(self) -> dict[str, NDArray[np.float64]]:
        """Times by the names of an estimate's parts."""
        backward = self.backward_input + self.backward_weight
        return {"forward": self.forward, "backward": backward, "recompute": self.recompute}

    @property
    def phases(self) -> NDArray[np.float64]:
        """Time of forward, and of backward with what is computed again, shape (2, blocks, ...) [s]."""
        return np.stack([self.forward, self.backward_input + self.backward_weight + self.recompute])


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


#: Passes of the table that make up forward, both halves of backward, and recompute, which is forward again.
_FORWARD_TWICE: Final = (0, 1, 2, 0)


def training_compute(resolved: Resolved, work: RankWork) -> TrainingCompute:
    """Operators of forward, input-gradient and weight-gradient passes, timed at once and summed per block."""

    def adapt(operators: list[Operator]) -> list[Operator]:
        return with_adapters(operators, resolved)

    blocks = model_blocks(resolved.model, work, work.tokens, loss=True, adapt=adapt)
    table = _passes(blocks.operators, resolved, work)
    redone = _redone(blocks.operators, resolved, flash=work.flash).reshape(-1, *(1,) * len(resolved.plan.shape))
    ran = np.stack([*np.ones((3, *redone.shape)), redone])
    forward, backward_input, backward_weight, recompute = block_times(
        resolved, blocks, table, passes=_FORWARD_TWICE, ran=ran
    )
    time, flop, moved = (a.reshape(3, -1, *resolved.plan.shape) for a in (table.time, table.flop, table.hbm_bytes))
    return TrainingCompute(
        blocks=blocks,
        operators=table.first(len(blocks.operators)),
        forward=forward,
        backward_input=backward_input,
        backward_weight=backward_weight,
        recompute=recompute,
        attention=blocks.attention_sums(np.stack([time[0], time[1] + redone * time[0]]), axis=1),
        executed_flop=blocks.sums(flop.sum(axis=0) + flop[0] * redone),
        hbm_bytes=blocks.sums(moved.sum(axis=0) + moved[0] * redone),
    )


def _passes(operators: Sequence[Operator], resolved: Resolved, work: RankWork) -> OperatorTable:
    """Forward, input-gradient and weight-gradient rows of all operators, in this order."""
    scenario = resolved.scenario
    adapters = np.array([is_adapter(operator) for operator in operators])
    sparse = sparse_operators(operators, scenario.sparsity) & ~adapters
    never = np.zeros_like(sparse)
    frozen = scenario.lora_rank > 0
    weights = [_weight_gradient(o) if not frozen or is_adapter(o) else Operator(o.name) for o in operators]
    rows = [*operators, *map(_input_gradient, operators), *weights]
    return rank_table(resolved, work, rows, np.concatenate([sparse, sparse & scenario.transposable_mask, never]))


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
