"""Operators as a structure of arrays: what each one asks of a rank, at what rates, and how long it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import UnsupportedError
from trn2model.formulas import Numeric, matmul, roofline
from trn2model.formulas import sparsity as sparsity_formulas
from trn2model.specs.hardware import Chip, LogicalCore, chip_flop_rate
from trn2model.specs.numerics import SparsityPattern, sparsity
from trn2model.specs.profile import ComputeConstants
from trn2model.specs.resolve import Resolved

#: Engines in the order of the codes of `roofline.bound_engine`.
ENGINES: Final = ("tensor", "vector", "scalar", "hbm")

_NUMERIC_COLUMNS: Final = (
    "rows",
    "contraction",
    "columns",
    "num_gemms",
    "attention_flop",
    "vector_elements",
    "scalar_elements",
    "elementwise_bytes",
    "stream_bytes",
    "kv_bytes",
)


@dataclass(slots=True)
class Operator:
    """One operator of one rank; a GEMM has rows, contraction and columns, the rest is what comes beside it."""

    name: str  # as in `specs.plan.SAVEABLE`
    rows: Numeric = 0.0  # of the moving operand: tokens
    contraction: Numeric = 0.0  # extent that is summed over
    columns: Numeric = 0.0  # of the stationary operand: weights
    num_gemms: Numeric = 0.0  # equal GEMMs
    weighted: bool = False  # the stationary operand is trained: it has a weight gradient and may be sparse
    attention_flop: Numeric = 0.0  # at the attention efficiency [FLOP]
    vector_elements: Numeric = 0.0  # passes of the Vector engine [element]
    scalar_elements: Numeric = 0.0  # passes of the Scalar engine [element]
    elementwise_bytes: Numeric = 0.0  # HBM traffic that may be fused away [B]
    stream_bytes: Numeric = 0.0  # HBM traffic that may not [B]
    kv_bytes: Numeric = 0.0  # read at the KV efficiency [B]
    backward_flop_ratio: float = 2.0  # attention FLOP of backward over those of forward [1]
    backward_vector_elements: Numeric = 0.0  # [element]
    backward_scalar_elements: Numeric = 0.0  # [element]
    gathered: bool = False  # weights that a router picks just before they are read, at an efficiency of their own
    beside: bool = False  # shares the operands of another GEMM, so that its traffic may be fused away too


class Widths(NamedTuple):
    """Bytes per element of a GEMM's operands."""

    input_bytes: float  # moving operand [B]
    weight_bytes: float  # weights as read [B]
    sparse_weight_bytes: float  # weights under a sparsity pattern, per element of the dense shape [B]
    output_bytes: float  # result [B]


class Rates(NamedTuple):
    """FLOP rates of one rank, and the reach of its matmul array along the contraction."""

    dense: float  # [FLOP/s]
    sparse: float  # in dense FLOP [FLOP/s]
    contraction_tile: float  # [element]
    sparse_contraction_tile: float  # of the dense shape [element]
    attention: float  # [FLOP/s]


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """Operators of one rank, executed once; arrays have shape (operators, ...), plans last."""

    names: tuple[str, ...]  # of the operators
    sparse: NDArray[np.bool_]  # run on thinned weights, shape (operators,)
    flop: NDArray[np.float64]  # of the dense shape [FLOP]
    hbm_bytes: NDArray[np.float64]  # [B]
    tensor_time: NDArray[np.float64]  # of the matmul array [s]
    vector_time: NDArray[np.float64]  # of the Vector engine [s]
    scalar_time: NDArray[np.float64]  # of the Scalar engine [s]
    hbm_time: NDArray[np.float64]  # of HBM [s]
    time: NDArray[np.float64]  # of the operator, fixed cost included [s]

    def first(self, count: int) -> OperatorTable:
        """Table of the first rows."""
        return OperatorTable(*(getattr(self, field.name)[:count] for field in fields(self)))

    @property
    def bound(self) -> NDArray[np.int64]:
        """Engine that takes longest, as an index into ENGINES."""
        return roofline.bound_engine(self.tensor_time, self.vector_time, self.scalar_time, self.hbm_time)


def stack(operators: Sequence[Operator], shape: tuple[int, ...]) -> dict[str, NDArray[np.float64]]:
    """Columns of the operators' quantities, one row each."""
    table = np.empty((len(_NUMERIC_COLUMNS), len(operators), *shape))
    for column, name in enumerate(_NUMERIC_COLUMNS):
        values = table[column]
        for row, operator in enumerate(operators):
            values[row] = getattr(operator, name)
    return dict(zip(_NUMERIC_COLUMNS, table, strict=True))


def evaluate(
    operators: Sequence[Operator],
    shape: tuple[int, ...],
    widths: Widths,
    sparse_rows: NDArray[np.bool_],
    *,
    rates: Rates,
    core: LogicalCore,
    constants: ComputeConstants,
) -> OperatorTable:
    r"""Time of every operator on one rank.

    .. math:: t = \max(t_{tensor}, t_{vector}, t_{scalar}, t_{HBM}) + (1 - o) \min(t_{tensor}, t_{HBM}) + t_{fixed}
    """
    c = stack(operators, shape)
    expand = (slice(None),) + (None,) * len(shape)
    weighted = np.array([o.weighted for o in operators])
    stored = np.where(sparse_rows, widths.sparse_weight_bytes, widths.weight_bytes)
    streamed = _stream_bytes(c, np.where(weighted, stored, widths.input_bytes)[expand], widths, core)
    beside = np.array([o.beside for o in operators])[expand]
    streamed = np.where(beside, (1.0 - constants.fusion_fraction) * streamed, streamed)
    streamed += c["stream_bytes"] + c["elementwise_bytes"] * (1.0 - constants.fusion_fraction)
    tensor_time = _gemm_time(c, sparse_rows[expand], rates=rates, core=core, constants=constants)
    tensor_time += c["attention_flop"] / (rates.attention * constants.attention_efficiency)
    vector_time = c["vector_elements"] / (core.vector_element_rate * constants.vector_efficiency)
    scalar_time = c["scalar_elements"] / (core.scalar_element_rate * constants.scalar_efficiency)
    gathered = np.array([o.gathered for o in operators])[expand]
    reach = np.where(gathered, constants.expert_read_efficiency, constants.hbm_efficiency)
    hbm_time = streamed / (core.hbm_bandwidth * reach)
    hbm_time += c["kv_bytes"] / (core.hbm_bandwidth * constants.kv_read_efficiency)
    exposed = roofline.exposed_time(tensor_time, hbm_time, constants.matmul_overlap_fraction)
    time = roofline.operator_time(tensor_time, vector_time, scalar_time, hbm_time, constants.operator_time + exposed)
    gemm_flop = c["num_gemms"] * matmul.gemm_flop(c["rows"], c["contraction"], c["columns"])
    return OperatorTable(
        names=tuple(o.name for o in operators),
        sparse=sparse_rows,
        flop=gemm_flop + c["attention_flop"],
        hbm_bytes=streamed + c["kv_bytes"],
        tensor_time=tensor_time,
        vector_time=vector_time,
        scalar_time=scalar_time,
        hbm_time=hbm_time,
        time=np.asarray(time),
    )


def _gemm_time(
    c: Mapping[str, NDArray[np.float64]],
    sparse: NDArray[np.bool_],
    *,
    rates: Rates,
    core: LogicalCore,
    constants: ComputeConstants,
) -> NDArray[np.float64]:
    engine = core.chip.tensor_engine
    padded = matmul.gemm_padded_flop(
        c["rows"],
        c["contraction"],
        c["columns"],
        np.where(sparse, rates.sparse_contraction_tile, rates.contraction_tile),
        engine.stationary_size * tile_cores(core),
        engine.moving_size,
        constants.tensor_fill,
        constants.tile_padding,
    )
    rate = np.where(sparse, rates.sparse, rates.dense) * constants.tensor_efficiency
    return np.asarray(c["num_gemms"] * padded / rate)


def _stream_bytes(
    c: Mapping[str, NDArray[np.float64]], weight_bytes: NDArray[np.float64], widths: Widths, core: LogicalCore
) -> NDArray[np.float64]:
    moved = matmul.gemm_hbm_bytes(
        c["rows"],
        c["contraction"],
        c["columns"],
        widths.input_bytes,
        weight_bytes,
        widths.output_bytes,
        core.sbuf_bytes,
    )
    return np.asarray(c["num_gemms"] * moved)


def tile_cores(core: LogicalCore) -> int:
    """Physical matmul arrays among which one GEMM of a rank is split."""
    return core.cores_per_rank if core.chip.family == "trainium" else 1


def rank_rates(resolved: Resolved) -> Rates:
    """Dense and sparse rates of one rank for the scenario's matmul dtype, as far as kernels of that dtype reach.

    Raises UnsupportedError (the chip publishes no rate for the dtype, or cannot run the pattern).
    """
    scenario, core = resolved.scenario, resolved.core
    pattern = sparsity(scenario.sparsity)
    tile = float(core.chip.tensor_engine.contraction_size)
    reached = _reached_fraction(scenario.precision, resolved.profile.compute)
    fp8_reach = max(core.chip.fp8_contraction_passes.values(), default=1.0)
    return Rates(
        dense=core.flop_rate(scenario.precision) * reached,
        sparse=sparse_rate(core, scenario.precision, pattern, scenario.peak_basis) * reached,
        contraction_tile=tile * (fp8_reach if scenario.precision == "fp8" else 1.0),
        sparse_contraction_tile=tile * pattern.group / pattern.kept,
        attention=attention_rate(core, scenario.precision),
    )


def _reached_fraction(precision: str, constants: ComputeConstants) -> float:
    return {"fp8": constants.fp8_efficiency, "fp32": constants.fp32_efficiency}.get(precision, 1.0)


def sparse_rate(core: LogicalCore, precision: str, pattern: SparsityPattern, peak_basis: str) -> float:
    """Rate of one rank on weights with a pattern, counted in dense FLOP [FLOP/s].

    Raises UnsupportedError (the chip has no such pattern, or no sparse rate for the dtype).
    """
    dense = core.flop_rate(precision)
    if pattern.kept == pattern.group:
        return dense
    peak = sparse_peak(core.chip, precision, pattern.name, peak_basis)
    passes = core.chip.fp8_contraction_passes.get(peak_basis, 1.0) if precision == "fp8" else 1.0
    speedup = pattern.group / pattern.kept
    return float(sparsity_formulas.sparse_flop_rate(dense, speedup, passes, peak / core.ranks_per_chip))


def sparse_peak(chip: Chip, precision: str, pattern: str, peak_basis: str) -> float:
    """Published sparse peak of a chip [FLOP/s].

    Raises UnsupportedError (the chip has no such pattern, or no sparse rate for the dtype).
    """
    if pattern not in chip.sparsity_patterns:
        known = ", ".join(chip.sparsity_patterns) or "none"
        message = f"{chip.name} does not run sparsity {pattern}; its patterns: {known}; use --sparsity dense"
        raise UnsupportedError(message)
    rates = chip.sparse_flop_rate.get(peak_basis, {})
    if precision not in rates:
        message = f"{chip.name} has no published sparse {precision} rate; it has {', '.join(rates)}"
        raise UnsupportedError(message)
    return rates[precision]


def attention_rate(core: LogicalCore, precision: str) -> float:
    """Rate of the attention matmuls: fp8 plans keep them in 16 bits [FLOP/s]."""
    return core.flop_rate("bf16" if precision == "fp8" else precision)


def mfu_flop_rate(resolved: Resolved) -> float:
    """Dense peak of all rented chips in the compute dtype: the base of MFU, never sparse [FLOP/s].

    Raises UnsupportedError (the chip publishes no rate for the dtype).
    """
    chips = resolved.system.num_chips * resolved.scenario.count
    return chips * chip_flop_rate(resolved.system.chip, resolved.scenario.precision)
