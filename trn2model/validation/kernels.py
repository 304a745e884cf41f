"""Operators and collectives alone: their rows of the public tables, and their predicted times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from trn2model.errors import Trn2ModelError
from trn2model.model.operators import Operator, Rates, Widths, evaluate
from trn2model.network.cost import collective_cost
from trn2model.network.placement import group_dims
from trn2model.specs import catalog
from trn2model.specs.hardware import LogicalCore, logical_core
from trn2model.specs.numerics import dtype
from trn2model.specs.profile import ComputeConstants, Kind, Profile
from trn2model.specs.topology import fabric
from trn2model.units import GIB
from trn2model.validation.measurements import Measurement
from trn2model.validation.printed import (
    Row,
    captured,
    cell,
    leading_number,
    look_up,
    number,
    product,
    provenance,
    quotient,
)
from trn2model.validation.rules import fill


def _number(row: Measurement, column: str, blank: float) -> float:
    value = row.values.get(column)
    return value if isinstance(value, float) else blank


_OPS: Final = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
    "sendrecv": "permute",
    "permute": "permute",
}
#: data one rank moves over the bus, as a share of the message, for n ranks: nccom-test's definition
_BUS_FACTORS: Final = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}
_OPERATORS: Final = (
    (r"^(gemm|moe_gating_gemm)", "gemm"),
    (r"^attention decode", "attention_decode"),
    (r"^attention prefill", "attention_prefill"),
    (r"mlp|moe_swiglu", "mlp"),
    (r"norm", "norm"),
    (r"softmax", "softmax"),
    (r"topk", "topk"),
    (r"silu|gelu|swiglu", "activation"),
    (r"^reduce", "reduction"),
    (r"embedding|index_select|gather", "gather"),
    (r"^(device2device|cast)", "copy"),
    (r"^(add|sub|mul|div|exp)$|rotary", "elementwise"),
)
_DTYPES: Final = ("bf16", "fp16", "fp8", "fp32", "tf32")


def collective_rows(raw: Mapping[str, str]) -> list[Row]:
    """Normalised row of a printed one."""
    instance, layer = cell(raw, "instance"), cell(raw, "layer")
    op, ranks = _OPS.get(cell(raw, "op")), leading_number(cell(raw, "ranks"))
    system = look_up("systems", instance)[0]
    time, size = product(number(cell(raw, "time_us")), 1e-6), _message_bytes(raw, op, ranks)
    row = provenance(raw) | {
        "metric": "time",
        "measured": time if size is not None else None,
        "op": op,
        "system": system or None,
        "count": float(captured(r"^(\d+)x ", instance) or 1.0) if system else None,
        "lnc": _lnc(raw, instance) if system.startswith("trn2") else None,
        "ranks": ranks,
        "bytes": size,
        "dtype": cell(raw, "dtype") or None,
        "algorithm": cell(raw, "algorithm") or None,
        "layer": "device" if "nccom-test" in layer else "kernel" if "NKI" in layer else "framework",
    }
    if time is None and number(cell(raw, "busbw")) is not None:
        scale = GIB if cell(raw, "bw_unit").startswith("GiB") else 1e9
        row |= {"metric": "busbw", "measured": product(number(cell(raw, "busbw")), scale), "bytes": None}
    fill("collective", row, raw)
    row["launch_share"] = quotient(row.get("launch_time"), time)
    row["busbw"] = None if row["metric"] == "busbw" else product(quotient(size, time), _bus_factor(op, ranks))
    row["chips"] = _chips_of_ranks(row)
    return [row]


def operator_rows(raw: Mapping[str, str]) -> list[Row]:
    """Normalised row of a printed one."""
    shape, unit = cell(raw, "shape"), cell(raw, "unit_measured")
    op = next((ours for pattern, ours in _OPERATORS if re.search(pattern, cell(raw, "op"))), "other")
    gpu = "GPU" in unit
    row = provenance(raw) | {
        "op": op,
        "detail": f"{cell(raw, 'op')} {shape}".strip(),
        "system": look_up("systems", cell(raw, "instance") or cell(raw, "platform"))[0] or None,
        "count": 1.0,
        "lnc": None if gpu else 1.0 if "1 physical" in unit else 2.0,
        "cores": 1.0 if gpu or "1 physical" in unit else 2.0,
        "dtype": next((name for name in _DTYPES if cell(raw, "dtype").startswith(name)), None),
        "kernel": cell(raw, "provider") or None,
    }
    row["chips"] = 1.0 if gpu else float(row["cores"] or 1.0) / 8.0
    row["busy_share"] = 1.0 if re.search(r"4 cores busy|four LNC|TP8", f"{shape} {row['detail']}") else row["chips"]
    row |= _gemm(shape) if op == "gemm" else _attention(shape) if op.startswith("att") else {}
    row |= _measured(row, raw)
    fill("gemm", row, raw)
    time = row["measured"] if row["metric"] == "time" else None
    row["launch_share"] = quotient(row.get("launch_time"), time)
    return [row]


def _message_bytes(raw: Mapping[str, str], op: str | None, ranks: float | None) -> float | None:
    """Size column of nccom-test; the cookbook's all-gather gives what one rank contributes."""
    size = number(cell(raw, "bytes"))
    contributed = op == "all_gather" and "cookbook" in cell(raw, "source")
    return product(size, ranks) if contributed else size


def _bus_factor(op: str | None, ranks: float | None) -> float | None:
    if op is None or ranks is None:
        return None
    return _BUS_FACTORS[op] * (ranks - 1.0) / ranks if op in _BUS_FACTORS else 1.0


def _lnc(raw: Mapping[str, str], instance: str) -> float:
    return number(cell(raw, "lnc")) or captured(r"LNC=(\d)", instance) or 2.0


def _chips_of_ranks(row: Row) -> float | None:
    if not isinstance(row["system"], str) or not isinstance(row["ranks"], float | int):
        return None
    chip = catalog.system(row["system"]).chip
    return row["ranks"] * float(row["lnc"] or 1.0) / chip.num_cores


def _gemm(shape: str) -> Row:
    named = [captured(rf"\b{letter}(\d+)", shape) for letter in "MKN"]
    if None not in named:
        m, k, n = named
    elif cube := captured(r"^(\d+)\^3", shape):
        m = k = n = cube
    elif found := re.match(r"(\d+)x(\d+)x(\d+)$", shape):
        m, n, k = (float(group) for group in found.groups())
    elif found := re.match(r"(\d+) tok x (\d+) -> (\d+)", shape):
        m, k, n = (float(group) for group in found.groups())
    else:
        return {}
    return {"m": m, "k": k, "n": n}


def _attention(shape: str) -> Row:
    heads = re.search(r"(\d+)/(\d+) d(\d+)", shape)
    if heads is None:
        return {}
    query = captured(r"q_len (\d+)", shape) or captured(r"\bq(\d+)\b", shape) or 1.0
    context = captured(r"(?:cache|kv) (\d{3,})", shape) or query
    names = ("num_heads", "num_kv_heads", "head_size")
    sizes: Row = {name: float(group) for name, group in zip(names, heads.groups(), strict=True)}
    return sizes | {"batch": captured(r"\bB(\d+)", shape) or 1.0, "query_tokens": query, "context_tokens": context}


def _measured(row: Row, raw: Mapping[str, str]) -> Row:
    """Time as printed, or from the rate of a gemm; else a rate or a bandwidth."""
    time = product(number(cell(raw, "latency_us")), 1e-6)
    rate, bandwidth = number(cell(raw, "tflops")), number(cell(raw, "mem_gbps"))
    flop = product(2.0, row.get("m"), row.get("k"), row.get("n"))
    if time is None and rate is not None:
        time = quotient(flop, product(rate, 1e12))
    if time is None and bandwidth is not None and flop is not None:
        read = sum(float(row[a] or 0.0) * float(row[b] or 0.0) for a, b in (("m", "k"), ("k", "n"), ("m", "n")))
        width = 4.0 if row["dtype"] == "fp32" else 2.0
        time = quotient(read * width, product(bandwidth, 1e9))
    if time is not None:
        return {"metric": "time", "measured": time}
    if bandwidth is not None:
        return {"metric": "bandwidth", "measured": bandwidth * 1e9}
    return {"metric": "flop_rate", "measured": product(rate, 1e12)}


@dataclass(frozen=True, slots=True)
class KernelPrediction:
    """Measured and predicted time of one kernel, in seconds."""

    kind: Kind
    measured: float
    predicted: float
    configuration: str


def kernel_prediction(row: Measurement, profile: Profile) -> KernelPrediction | str:
    """Prediction of a row of the collective or operator measurements."""
    if not row.measured:
        return "no time is given"
    try:
        return _collective(row, profile) if row.kind is Kind.COLLECTIVE else _matmul(row, profile)
    except Trn2ModelError as error:
        return str(error)


def _collective(row: Measurement, profile: Profile) -> KernelPrediction | str:
    if row.metric != "time" or row.values["bytes"] is None:
        return "a peak over sizes, not one time"
    if row.values.get("ranks_per_machine") is not None:
        return "lone ranks of several machines"
    system = catalog.system(row.text("system"))
    count, ranks = round(row.number("count")), round(row.number("ranks"))
    net = fabric(system, count, round(_number(row, "lnc", 2.0)))
    size = row.number("bytes")
    cost = collective_cost(net, row.text("op"), size, group_dims(((1, ranks),), ranks), constants=profile.links)
    text = f"{row.text('op')} of {size:,.0f} B over {ranks:,} ranks of {count} x {system.name}"
    predicted = float(cost.time) + _launch_time(row, profile)
    return KernelPrediction(Kind.COLLECTIVE, row.number("measured"), predicted, text)


def _matmul(row: Measurement, profile: Profile) -> KernelPrediction | str:
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
    time = matmul_time(core, name, (rows, contraction, columns), profile.compute) + _launch_time(row, profile)
    measured = row.number("measured")
    if row.metric == "flop_rate":
        measured = 2.0 * rows * contraction * columns / measured
    text = f"{name} matmul {rows:,.0f} x {contraction:,.0f} x {columns:,.0f} on one rank of {system.chip.name}"
    return KernelPrediction(Kind.GEMM, measured, time, text)


def matmul_time(
    core: LogicalCore, name: str, extents: tuple[float, float, float], constants: ComputeConstants
) -> float:
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
        rates=Rates(rate, rate, tile * passes, tile, rate),
        core=core,
        constants=constants,
    )
    return float(table.time[0])


def _launch_time(row: Measurement, profile: Profile) -> float:
    """Launch inside the measurement as its source states it; a bound knows none."""
    return _number(row, "launch_time", 0.0) if profile.compute.step_time > 0.0 else 0.0
