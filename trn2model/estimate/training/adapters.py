"""LoRA: low-rank adapters beside frozen matrices, as operators and as parameters of a rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.rank.layer import layer_operators
from trn2model.estimate.rank.operators import Operator
from trn2model.estimate.rank.work import RankWork
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
