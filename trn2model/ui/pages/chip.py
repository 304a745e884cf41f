"""Chip page: roofline with every operator of the model, peaks by format and pattern, balance of the engines."""

from __future__ import annotations

from typing import Final

from trn2model.errors import UnsupportedError
from trn2model.model.operators import sparse_rate
from trn2model.model.training.step import TrainingEstimate
from trn2model.specs.hardware import LogicalCore
from trn2model.specs.numerics import sparsity
from trn2model.specs.profile import ComputeConstants, profile
from trn2model.text import NOTHING, bandwidth, count, duration, exact, percent, quantity, significant
from trn2model.ui.charts.chart import Chart, Words, file_stem
from trn2model.ui.charts.heat import Grid, heat_table
from trn2model.ui.charts.roofline import Ceiling, Point, roofline
from trn2model.ui.charts.style import Mode, share_scale
from trn2model.ui.pages.content import Content, Metric, Verdict
from trn2model.ui.pages.steps import GROUPS, OperatorRow, bound_sentence, operator_rows
from trn2model.ui.pages.words import chart_words, configuration
from trn2model.ui.tables import Cell, table
from trn2model.units import from_si

_ENGINES: Final = ("Tensor", "Vector", "Scalar", "HBM")
_DTYPES: Final = ("fp8", "bf16", "fp16", "tf32", "fp32")


def content(estimate: TrainingEstimate, mode: Mode) -> Content:
    """Chip page of a single plan."""
    return Content(
        title="Chip",
        configuration=configuration(estimate.resolved),
        verdict=Verdict(_verdict(estimate), "plain"),
        metrics=_metrics(estimate),
        rows=(
            (operator_roofline(estimate, mode),),
            (peak_table(estimate, mode), engine_balance(estimate, mode)),
        ),
    )


def operator_roofline(estimate: TrainingEstimate, mode: Mode) -> Chart:
    """Roofline of the whole chip with each forward operator on it."""
    rows = operator_rows(estimate)
    whole = sum(row.step_time for row in rows)
    chips = estimate.resolved.core.ranks_per_chip
    points, cells, off = [], [], []
    for row in rows:
        work = _operations(row, estimate)
        cells.append(_roofline_cells(row, work, chips))
        if work <= 0 or row.hbm_bytes <= 0:
            off.append(row.name)
            continue
        rate = from_si(chips * work / row.time, "TFLOP/s")
        points.append(
            Point(row.name, row.group, work / row.hbm_bytes, rate, row.step_time / whole, _note(row, rate, whole))
        )
    points.sort(key=lambda point: GROUPS.index(point.group))
    name = estimate.resolved.core.chip.name
    alt = f"Roofline of one {name}: " + ", ".join(f"{p.name} {significant(p.rate)} TFLOP/s" for p in points)
    words = chart_words(estimate.resolved, f"Roofline of one {name}", "roofline", alt)
    columns = ("operator", "kind", "intensity [FLOP/B]", "attained [FLOP/s]", "time per run [s]", "bound by")
    titles = ("operational intensity [FLOP per byte of HBM traffic]", "attained rate of one chip [TFLOP/s]")
    return roofline(words, _ceilings(estimate), points, titles, table=table(columns, cells), mode=mode)


def peak_table(estimate: TrainingEstimate, mode: Mode) -> Chart:
    """Peaks of the chip by number format and sparsity pattern."""
    core, basis = estimate.resolved.core, estimate.resolved.scenario.peak_basis
    chip = core.chip
    dtypes = tuple(dtype for dtype in _DTYPES if dtype in chip.flop_rate)
    patterns = ("dense", *chip.sparsity_patterns)
    rates = {(dtype, pattern): _peak(core, dtype, pattern, basis) for dtype in dtypes for pattern in patterns}
    top = max(rate for rate in rates.values() if rate is not None)
    grid = Grid(
        row_names=dtypes,
        column_names=tuple(pattern if pattern == "dense" else f"sparse<br>{pattern}" for pattern in patterns),
        shares=tuple(tuple(_share(rates[dtype, pattern], top) for pattern in patterns) for dtype in dtypes),
        texts=tuple(tuple(_tera(rates[dtype, pattern]) for pattern in patterns) for dtype in dtypes),
    )
    rows = [(dtype, pattern, rates[dtype, pattern]) for dtype in dtypes for pattern in patterns]
    twin = table(("format", "weights", "peak of a weight GEMM [FLOP/s]"), rows)
    alt = f"Peak TFLOP/s of {chip.name} by format and sparsity: " + "; ".join(
        f"{dtype} dense {_tera(rates[dtype, 'dense'])}" for dtype in dtypes
    )
    sparse = f", sparse by {basis}, in FLOP of the dense product" if chip.sparsity_patterns else ""
    words = Words(
        f"Peak of one {chip.name} [TFLOP/s]", f"weight GEMM{sparse}", alt, file_stem("trn2model", "peaks", chip.name)
    )
    return heat_table(words, grid, share_scale(mode), table=twin, mode=mode, row_height=34)


def engine_balance(estimate: TrainingEstimate, mode: Mode) -> Chart:
    """How busy each engine and HBM are while an operator runs."""
    rows = sorted(operator_rows(estimate), key=lambda row: -row.step_time)
    whole = sum(row.step_time for row in rows)
    busy = [(row.tensor_time, row.vector_time, row.scalar_time, row.hbm_time) for row in rows]
    grid = Grid(
        row_names=tuple(f"{row.name} · {percent(row.step_time / whole, 2)}" for row in rows),
        column_names=_ENGINES,
        shares=tuple(
            tuple(time / row.time if time else None for time in times) for row, times in zip(rows, busy, strict=True)
        ),
        texts=tuple(
            tuple(percent(time / row.time, 2) if time else NOTHING for time in times)
            for row, times in zip(rows, busy, strict=True)
        ),
    )
    columns = (
        "operator",
        "Tensor [s]",
        "Vector [s]",
        "Scalar [s]",
        "HBM [s]",
        "time per run [s]",
        "runs per step",
        "bound by",
    )
    cells = [(r.name, r.tensor_time, r.vector_time, r.scalar_time, r.hbm_time, r.time, r.runs, r.bound) for r in rows]
    alt = "Share of each operator's time in which an engine works: " + "; ".join(
        f"{row.name} bound by {row.bound}" for row in rows
    )
    title = "Engine balance by operator"
    words = chart_words(estimate.resolved, title, "engine-balance", alt)
    return heat_table(words, grid, share_scale(mode), table=table(columns, cells), mode=mode)


def _verdict(estimate: TrainingEstimate) -> str:
    core, scenario = estimate.resolved.core, estimate.resolved.scenario
    dense = core.chip.flop_rate[scenario.precision]
    ridge = dense / core.chip.hbm_bandwidth
    memory = bandwidth(core.chip.hbm_bandwidth)
    return (
        f"One {core.chip.name} peaks at {_printed(dense)} dense {scenario.precision} and {memory} of HBM: "
        f"operators below {significant(ridge)} FLOP/B wait for memory. "
        f"{bound_sentence(estimate)}"
    )


def _metrics(estimate: TrainingEstimate) -> tuple[Metric, ...]:
    core, scenario = estimate.resolved.core, estimate.resolved.scenario
    chip = core.chip
    sparse = _peak(core, scenario.precision, scenario.sparsity, scenario.peak_basis)
    peak = Metric(
        f"{scenario.precision} dense",
        _printed(chip.flop_rate[scenario.precision]),
        "Published dense peak of one chip.",
    )
    fitted = Metric(
        f"{scenario.precision} {scenario.sparsity}",
        _printed(sparse or 0.0),
        "Rate of weight GEMMs, in FLOP of the dense product.",
    )
    return (
        peak,
        *(() if scenario.sparsity == "dense" else (fitted,)),
        Metric("HBM bandwidth", bandwidth(chip.hbm_bandwidth), "Published, one chip."),
        Metric("HBM", quantity(chip.hbm_bytes, "B"), "Capacity of one chip."),
        Metric(
            "Ranks",
            f"{core.ranks_per_chip} per chip",
            f"Each computes with {count(core.cores_per_rank)} of {count(chip.num_cores)} cores.",
        ),
        Metric(
            "SBUF" if chip.family == "trainium" else "On-chip memory", quantity(core.sbuf_bytes, "B"), "Of one rank."
        ),
    )


def _ceilings(estimate: TrainingEstimate) -> tuple[Ceiling, ...]:
    resolved = estimate.resolved
    chip, precision, pattern = resolved.core.chip, resolved.scenario.precision, resolved.scenario.sparsity
    slope = from_si(chip.hbm_bandwidth, "TB/s")
    dense = from_si(chip.flop_rate[precision], "TFLOP/s")
    real = profile("achievable").compute
    reach, stream = dense * _gemm_efficiency(real, precision), slope * real.hbm_efficiency
    ceilings = [
        Ceiling(
            f"ideal: {_printed(chip.flop_rate[precision])} {precision} dense, {significant(slope)} TB/s",
            slope,
            dense,
            "solid",
            None,
        ),
        Ceiling(f"achievable: {significant(reach)} TFLOP/s, {significant(stream)} TB/s", stream, reach, "dash", 5),
    ]
    sparse = _peak(resolved.core, precision, pattern, resolved.scenario.peak_basis)
    if pattern != "dense" and sparse:
        roof = from_si(sparse, "TFLOP/s")
        ceilings.append(Ceiling(f"ideal sparse {pattern}: {_printed(sparse)}", slope, roof, "dot", None))
    return tuple(ceilings)


def _gemm_efficiency(constants: ComputeConstants, precision: str) -> float:
    extra = {"fp8": constants.fp8_efficiency, "fp32": constants.fp32_efficiency}
    return constants.tensor_efficiency * extra.get(precision, 1.0)


def _operations(row: OperatorRow, estimate: TrainingEstimate) -> float:
    """FLOP of a matmul; else the element operations of the Vector and Scalar engines."""
    if row.flop > 0:
        return row.flop
    core, constants = estimate.resolved.core, estimate.resolved.profile.compute
    vector = row.vector_time * core.vector_element_rate * constants.vector_efficiency
    return vector + row.scalar_time * core.scalar_element_rate * constants.scalar_efficiency


def _note(row: OperatorRow, rate: float, whole: float) -> str:
    unit = "TFLOP/s" if row.flop > 0 else "T element operations/s"
    return (
        f"{significant(rate)} {unit} per chip<br>{duration(row.time)} a run, "
        f"{percent(row.step_time / whole, 2)} of forward<br>bound by {row.bound}"
    )


def _roofline_cells(row: OperatorRow, work: float, chips: int) -> tuple[Cell, ...]:
    intensity = work / row.hbm_bytes if row.hbm_bytes > 0 else None
    return (row.name, row.group, intensity, chips * work / row.time, row.time, row.bound)


def _peak(core: LogicalCore, dtype: str, pattern: str, basis: str) -> float | None:
    try:
        return core.ranks_per_chip * sparse_rate(core, dtype, sparsity(pattern), basis)
    except UnsupportedError:
        return None


def _printed(rate: float) -> str:
    """Peak as its source prints it."""
    return f"{_tera(rate)} TFLOP/s"


def _share(rate: float | None, top: float) -> float | None:
    return None if rate is None else rate / top


def _tera(rate: float | None) -> str:
    return NOTHING if rate is None else exact(round(from_si(rate, "TFLOP/s")))
