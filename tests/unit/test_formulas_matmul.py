"""Matrix products against loops over tiles and blocks that share no code with the formulas."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from trn2model.formulas.matmul import gemm_flop, gemm_hbm_bytes, gemm_padded_flop

TILES = (128.0, 128.0, 512.0)


def cycles(moving, stationary, contraction, kt, nt, mt, fill):
    """Cycles of an array that walks over every stationary tile and pass, one moving row per cycle."""
    total = 0
    for _ in range(0, contraction, kt):
        for _ in range(0, stationary, nt):
            for start in range(0, moving, mt):
                total += min(mt, moving - start) + fill
    return total


@pytest.mark.parametrize("shape", [(1, 128, 128), (100, 300, 500), (512, 128, 128), (513, 129, 129), (1000, 640, 96)])
@pytest.mark.parametrize("tiles", [(128, 128, 512), (256, 128, 512), (64, 32, 100)])
@pytest.mark.parametrize("fill", [0, 7, 48])
def test_padded_flop_is_the_busy_time_of_the_array(shape, tiles, fill):
    m, k, n = shape
    kt, nt, mt = tiles
    weights_stay = cycles(m, n, k, kt, nt, mt, fill)
    inputs_stay = cycles(n, m, k, kt, nt, mt, fill)
    expected = 2 * kt * nt * min(weights_stay, inputs_stay)
    assert gemm_padded_flop(m, k, n, kt, nt, mt, fill, 1.0) == pytest.approx(expected, rel=1e-12)


def test_aligned_product_without_fill_is_exact():
    assert gemm_padded_flop(1024.0, 4096.0, 512.0, *TILES, 0.0, 1.0) == gemm_flop(1024.0, 4096.0, 512.0)


def test_no_padding_is_the_exact_product():
    assert gemm_padded_flop(3.0, 5.0, 7.0, *TILES, 48.0, 0.0) == 2 * 3 * 5 * 7


def test_padding_blends_between_exact_and_padded():
    exact, padded = (gemm_padded_flop(100.0, 200.0, 300.0, *TILES, 48.0, p) for p in (0.0, 1.0))
    assert gemm_padded_flop(100.0, 200.0, 300.0, *TILES, 48.0, 0.25) == pytest.approx(0.75 * exact + 0.25 * padded)


def test_one_token_leaves_the_weights_in_place():
    """A decode GEMM pays one row and the fill per tile, not a padded tile of rows."""
    assert gemm_padded_flop(1.0, 4096.0, 4096.0, *TILES, 48.0, 1.0) == 2 * 49 * 4096 * 4096


def test_wide_product_of_few_rows_keeps_the_inputs_in_place():
    assert gemm_padded_flop(128.0, 128.0, 1e6, *TILES, 48.0, 1.0) < 2 * 128 * 1e6 * (128 + 48)


def test_fp8_pads_the_contraction_to_256():
    assert gemm_padded_flop(512.0, 128.0, 128.0, 256.0, 128.0, 512.0, 0.0, 1.0) == 2 * gemm_flop(512.0, 128.0, 128.0)


def test_large_bf16_products_reach_the_measured_share_of_the_peak():
    """The fill alone, 48 of 512 rows, explains the 90 to 92 % of the peak of the longest measured products.

    xpu-perf, one logical core: 150.21 and 152.7 TFLOP/s of 166.75.
    """
    for m, k, n, measured in ((30720.0, 8192.0, 8192.0, 150.21), (10240.0, 17408.0, 5120.0, 152.7)):
        rate = 166.75 * gemm_flop(m, k, n) / gemm_padded_flop(m, k, n, *TILES, 48.0, 1.0)
        assert rate == pytest.approx(measured, rel=0.02)


def blocked_traffic(m, k, n, rows, columns):
    """Elements read when a block of rows x columns of the output stays and both operands stream along k."""
    inputs = weights = 0
    for i, j in itertools.product(range(0, m, rows), range(0, n, columns)):
        inputs += min(rows, m - i) * k
        weights += min(columns, n - j) * k
    return inputs, weights


@pytest.mark.parametrize(("m", "k", "n"), [(4000, 50, 3000), (2000, 4000, 1000), (1000, 8000, 1000), (96, 5000, 4096)])
def test_traffic_is_that_of_the_best_blocking(m, k, n):
    """No blocking whose accumulators fit does better by more than rounding; no operand moves less than once."""
    sbuf = 4.0 * 300 * 300
    formula = gemm_hbm_bytes(m, k, n, 2.0, 2.0, 2.0, sbuf) - 2.0 * m * n
    best = min(
        2.0 * sum(blocked_traffic(m, k, n, rows, int(300 * 300 // rows))) for rows in (1, 10, 30, 100, 300, 900, 3000)
    )
    resident = 2.0 * (m * k + k * n * -(-2.0 * m * k // sbuf)), 2.0 * (k * n + m * k * -(-2.0 * k * n // sbuf))
    assert formula <= best * (1 + 1e-12)
    assert formula <= min(resident)
    assert formula >= 2.0 * (m * k + k * n)


@pytest.mark.parametrize("shape", [(64, 256, 256), (256, 64, 4096), (4096, 4096, 1)])
def test_what_fits_moves_once(shape):
    m, k, n = shape
    assert gemm_hbm_bytes(m, k, n, 2.0, 1.0, 4.0, 5e7) == 2 * m * k + k * n + 4 * m * n


def test_inputs_three_times_the_memory_read_the_weights_three_times():
    m, k, n, sbuf = 3072.0, 1024.0, 1e6, 2.0 * 1024 * 1024
    weights_again = 2 * m * k + 3 * 2 * k * n
    assert gemm_hbm_bytes(m, k, n, 2.0, 2.0, 2.0, sbuf) == weights_again + 2 * m * n


def test_long_contraction_keeps_the_outputs():
    """A weight gradient over a million tokens does not stream everything once per handful of rows."""
    tokens, sbuf = 2.0**20, 4.0 * 2048**2
    traffic = gemm_hbm_bytes(4096.0, tokens, 4096.0, 2.0, 2.0, 4.0, sbuf)
    assert traffic == 2 * (2 * 4096 * tokens * 2) + 4 * 4096 * 4096


def test_traffic_stays_above_the_known_lower_bound():
    """No schedule moves fewer than 2 M K N / sqrt(S) - 2 S elements through a memory of S elements."""
    rng = np.random.default_rng(3)
    m, k, n = rng.integers(1, 20000, (3, 2000)).astype(float)
    memory = rng.uniform(1e3, 1e7, 2000)
    traffic = gemm_hbm_bytes(m, k, n, 4.0, 4.0, 4.0, 4.0 * memory)
    assert np.all(traffic / 4.0 >= 2 * m * k * n / np.sqrt(memory) - 2 * memory)


def test_sparse_weights_move_less():
    dense, sparse = (gemm_hbm_bytes(1.0, 8192.0, 8192.0, 2.0, b, 2.0, 5e7) for b in (2.0, 0.625))
    assert dense - sparse == pytest.approx(1.375 * 8192 * 8192)
