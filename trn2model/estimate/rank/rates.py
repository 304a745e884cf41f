"""FLOP rates of a rank under a precision, a sparsity pattern and a reading of the published peaks."""

from __future__ import annotations

from trn2model.errors import UnsupportedError
from trn2model.estimate.rank.operators import Rates
from trn2model.formulas import sparsity as sparsity_formulas
from trn2model.specs.hardware import Chip, LogicalCore, chip_flop_rate
from trn2model.specs.numerics import SparsityPattern, sparsity
from trn2model.specs.profile import Constants
from trn2model.specs.resolve import Resolved


def rank_rates(resolved: Resolved) -> Rates:
    """Dense and sparse rates of one rank for the scenario's matmul dtype, as far as kernels of that dtype reach.

    Raises UnsupportedError (the chip publishes no rate for the dtype, or cannot run the pattern).
    """
    scenario, core = resolved.scenario, resolved.core
    pattern = sparsity(scenario.sparsity)
    tile = float(core.chip.tensor_engine.contraction_size)
    reached = _reached_fraction(scenario.precision, resolved.profile.constants)
    fp8_reach = max(core.chip.fp8_contraction_passes.values(), default=1.0)
    return Rates(
        dense=core.flop_rate(scenario.precision) * reached,
        sparse=sparse_rate(core, scenario.precision, pattern, scenario.peak_basis) * reached,
        contraction_tile=tile * (fp8_reach if scenario.precision == "fp8" else 1.0),
        sparse_contraction_tile=tile * pattern.group / pattern.kept,
        attention=attention_rate(core, scenario.precision),
    )


def _reached_fraction(precision: str, constants: Constants) -> float:
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
