"""Rates of a rank: the published caps of sparse matmuls, and the dense base of MFU."""

from __future__ import annotations

import pytest

from trn2model.errors import UnsupportedError
from trn2model.model.operators import attention_rate, mfu_flop_rate, rank_rates, sparse_peak, sparse_rate
from trn2model.specs import catalog
from trn2model.specs.hardware import logical_core
from trn2model.specs.numerics import sparsity
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario

CORE = logical_core(catalog.system("trn2.48xlarge"), 2)


@pytest.mark.parametrize(
    ("precision", "pattern", "basis", "expected"),
    [
        ("bf16", "dense", "neuron-docs", 667.0),
        ("bf16", "2:4", "neuron-docs", 1334.0),
        ("bf16", "4:12", "neuron-docs", 2001.0),
        ("bf16", "4:16", "neuron-docs", 2563.0),
        ("bf16", "1:4", "neuron-docs", 2563.0),
        ("fp8", "4:8", "neuron-docs", 1299.0),
        ("fp8", "4:16", "neuron-docs", 2563.0),
        ("fp8", "4:16", "launch", 5196.0),
        ("bf16", "4:16", "launch", 2563.0),
    ],
)
def test_sparse_rate_of_a_chip(precision: str, pattern: str, basis: str, expected: float) -> None:
    """Speed-up over 16 bits is N/M up to the sparse peak; fp8 first has to win back its double contraction."""
    rate = sparse_rate(CORE, precision, sparsity(pattern), basis)
    assert 4 * rate / 1e12 == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("system", "pattern"), [("trn1.32xlarge", "4:16"), ("p5.48xlarge", "4:16")])
def test_unknown_patterns_raise(system: str, pattern: str) -> None:
    """Trainium1 has no sparsity, GPUs only 2:4."""
    with pytest.raises(UnsupportedError, match=pattern):
        sparse_peak(catalog.system(system).chip, "bf16", pattern, "neuron-docs")


def test_fp32_has_no_sparse_rate() -> None:
    """Nothing is extrapolated."""
    with pytest.raises(UnsupportedError, match="fp32"):
        sparse_peak(catalog.system("trn2.48xlarge").chip, "fp32", "4:16", "neuron-docs")


def test_fp8_doubles_the_contraction_and_attention_stays_in_16_bits() -> None:
    """Tiles reach 256 deep in fp8; scores and context do not use it."""
    rates = rank_rates(resolve(Scenario(precision="fp8")))
    assert rates.contraction_tile == 2 * rank_rates(resolve(Scenario())).contraction_tile == 256
    assert attention_rate(CORE, "fp8") == attention_rate(CORE, "bf16")


@pytest.mark.parametrize(("count", "sparsity_name"), [(1, "dense"), (2, "4:16")])
def test_mfu_base_is_dense_and_counts_every_chip(count: int, sparsity_name: str) -> None:
    """Idle chips are paid for, so they count."""
    resolved = resolve(Scenario(count=count, sparsity=sparsity_name, tp=8, dp=1))
    assert mfu_flop_rate(resolved) == pytest.approx(64 * count * 667e12)
