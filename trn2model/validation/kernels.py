"""Kernels alone against their measurements: one matmul on one rank, one collective on one group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trn2model.errors import Trn2ModelError
from trn2model.estimate.network.placement import group_dims
from trn2model.estimate.network.traffic import collective_cost
from trn2model.estimate.rank.operators import Operator, Rates, Widths, evaluate
from trn2model.specs import catalog
from trn2model.specs.hardware import LogicalCore, logical_core
from trn2model.specs.numerics import dtype
from trn2model.specs.profile import Constants
from trn2model.specs.topology import fabric
from trn2model.validation.measurements import Measurement


@dataclass(frozen=True, slots=True)
class KernelPrediction:
    """Measured and predicted time of one kernel, in seconds."""

    kind: str
    measured: float
    predicted: float
    configuration: str


def kernel_prediction(row: Measurement, constants: Constants) -> KernelPrediction | str:
    """Prediction of a row of the collective or operator measurements."""
    if not row.measured:
        return "no time is given"
    try:
        return _collective(row, constants) if row.kind == "collective" else _matmul(row, constants)
    except Trn2ModelError as error:
        return str(error)


def _collective(row: Measurement, constants: Constants) -> KernelPrediction | str:
    if row.metric != "time" or row.values["bytes"] is None:
        return "a peak over sizes, not one time"
    if row.values.get("ranks_per_machine") is not None:
        return "lone ranks of several machines"
    system = catalog.system(row.text("system"))
    count, ranks = round(row.number("count")), round(row.number("ranks"))
    net = fabric(system, count, round(_number(row, "lnc", 2.0)))
    size = row.number("bytes")
    cost = collective_cost(net, row.text("op"), size, group_dims(((1, ranks),), ranks), constants)
    text = f"{row.text('op')} of {size:,.0f} B over {ranks:,} ranks of {count} x {system.name}"
    predicted = float(cost.time) + _launch_time(row, constants)
    return KernelPrediction("collective", row.number("measured"), predicted, text)


def _matmul(row: Measurement, constants: Constants) -> KernelPrediction | str:
    shape = [row.values.get(name) for name in ("m", "k", "n")]
    if row.text("op") != "gemm" or not all(isinstance(extent, float) for extent in shape):
        return "no matmul of one shape"
    if row.metric not in ("time", "flop_rate"):
        return "a bandwidth, not one time"
    rows, contraction, columns = (float(str(extent)) for extent in shape)
    system = catalog.system(row.text("system"))
    lnc = 1 if row.number("cores") == 1.0 else 2
    core = logical_core(system, lnc)
    name = row.text("dtype") or "bf16"
    time = matmul_time(core, name, (rows, contraction, columns), constants) + _launch_time(row, constants)
    measured = row.number("measured")
    if row.metric == "flop_rate":
        measured = 2.0 * rows * contraction * columns / measured
    text = f"{name} matmul {rows:,.0f} x {contraction:,.0f} x {columns:,.0f} on one rank of {system.chip.name}"
    return KernelPrediction("gemm", measured, time, text)


def matmul_time(core: LogicalCore, name: str, extents: tuple[float, float, float], constants: Constants) -> float:
    """Device time of one matmul on one rank [s].

    Raises UnsupportedError (the chip publishes no rate for the dtype).
    """
    reach = {"fp8": constants.fp8_efficiency, "fp32": constants.fp32_efficiency}.get(name, 1.0)
    tile = core.chip.tensor_engine.contraction_size
    passes = max(core.chip.fp8_contraction_passes.values(), default=1.0) if name == "fp8" else 1.0
    rate = core.flop_rate(name) * reach
    width = dtype(name).storage_bytes
    table = evaluate(
        [Operator("gemm", *extents, 1.0)],
        (),
        Widths(width, width, width, max(width, dtype("bf16").storage_bytes)),
        np.zeros(1, dtype=np.bool_),
        Rates(rate, rate, tile * passes, tile, rate),
        core,
        constants,
    )
    return float(table.time[0])


def _launch_time(row: Measurement, constants: Constants) -> float:
    """Launch inside the measurement as its source states it; a bound knows none."""
    return _number(row, "launch_time", 0.0) if constants.step_time > 0.0 else 0.0


def _number(row: Measurement, column: str, blank: float) -> float:
    value = row.values.get(column)
    return value if isinstance(value, float) else blank
