"""Evaluation of operators: each engine binds where it should, and peaks are reached but not passed."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.model.operators import ENGINES, Operator, OperatorTable, Rates, Widths, evaluate, stack, tile_cores
from trn2model.specs import catalog
from trn2model.specs.hardware import logical_core
from trn2model.specs.profile import profile

CORE = logical_core(catalog.system("trn2.48xlarge"), 2)
PEAK = 667e12 / 4
RATES = Rates(PEAK, 2 * PEAK, 128.0, 256.0, PEAK)
WIDTHS = Widths(2.0, 2.0, 0.625, 2.0)


def _table(*operators: Operator, name: str = "ideal", sparse: bool = False) -> OperatorTable:
    rows = np.full(len(operators), sparse)
    return evaluate(operators, (), WIDTHS, rows, rates=RATES, core=CORE, constants=profile(name).compute)


def test_each_engine_binds_its_own_operator() -> None:
    """A large GEMM, a long vector operation, exponentials, a cache read."""
    table = _table(
        Operator("gemm", 8192.0, 8192.0, 8192.0, 1.0, weighted=True),
        Operator("vector", vector_elements=1e9),
        Operator("exponentials", scalar_elements=1e9),
        Operator("cache", kv_bytes=1e9),
    )
    assert [ENGINES[code] for code in table.bound] == ["tensor", "vector", "scalar", "hbm"]


def test_ideal_reaches_the_peaks_exactly() -> None:
    """2·M·N·K over the peak, bytes over the bandwidth of a quarter chip."""
    table = _table(Operator("gemm", 8192.0, 8192.0, 8192.0, 1.0), Operator("cache", kv_bytes=725e9))
    assert table.time[0] == pytest.approx(2 * 8192**3 / PEAK, rel=1e-12)
    assert table.time[1] == pytest.approx(1.0, rel=1e-12)


def test_decode_gemm_reads_its_weights_once() -> None:
    """Few rows: weights bound by HBM; a 4:16 pattern reads 0.625 B of 2."""
    gemm = Operator("gemm", 1.0, 8192.0, 8192.0, 1.0, weighted=True)
    dense, sparse = _table(gemm), _table(gemm, sparse=True)
    assert dense.hbm_bytes[0] == pytest.approx(2 * 8192**2, rel=1e-3)
    assert sparse.hbm_bytes[0] / dense.hbm_bytes[0] == pytest.approx(0.625 / 2, rel=1e-3)
    assert ENGINES[dense.bound[0]] == "hbm"


def test_achievable_costs_more_and_a_fixed_time() -> None:
    """Nothing is free: an operator with no work still starts."""
    constants = profile("achievable").compute
    assert _table(Operator("nothing"), name="achievable").time[0] == pytest.approx(constants.operator_time)
    gemm = Operator("gemm", 100.0, 100.0, 100.0, 1.0)
    assert _table(gemm, name="achievable").time[0] > _table(gemm).time[0]


def test_columns_broadcast_over_plans() -> None:
    """Scalars and arrays fill rows of one table."""
    columns = stack([Operator("a", rows=np.array([1.0, 2.0]), num_gemms=1.0), Operator("b")], (2,))
    assert columns["rows"].tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert columns["num_gemms"].tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_a_gpu_tile_belongs_to_the_whole_device() -> None:
    """A logical core splits a GEMM between its two arrays."""
    assert tile_cores(CORE) == 2
    assert tile_cores(logical_core(catalog.system("p5.48xlarge"), 2)) == 1
