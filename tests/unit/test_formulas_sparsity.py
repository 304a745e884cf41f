"""Structured sparsity under both sets of published peaks."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.formulas.sparsity import sparse_flop_rate, sparse_weight_bytes

DOCS, LAUNCH = 2563e12, 5200e12
BF16, FP8 = 667e12, 1299e12


@pytest.mark.parametrize(
    ("dense", "speedup", "passes", "peak", "gain"),
    [
        (BF16, 4.0, 1.0, DOCS, 2563 / 667),  # 4:16, capped by the documented peak
        (BF16, 2.0, 1.0, DOCS, 2.0),  # 4:8
        (BF16, 3.0, 1.0, DOCS, 3.0),  # 4:12
        (FP8, 2.0, 2.0, DOCS, 1.0),  # 4:8 gains nothing: the double contraction is lost
        (FP8, 3.0, 2.0, DOCS, 1.5),
        (FP8, 4.0, 2.0, DOCS, 2563 / 1299),
        (FP8, 4.0, 1.0, LAUNCH, 4.0),
        (FP8, 2.0, 1.0, LAUNCH, 2.0),
        (BF16, 1.0, 1.0, DOCS, 1.0),  # dense
    ],
)
def test_gain_over_dense(dense, speedup, passes, peak, gain):
    assert sparse_flop_rate(dense, speedup, passes, peak) / dense == pytest.approx(gain, rel=1e-12)


def test_sparse_is_never_slower_than_dense():
    assert sparse_flop_rate(FP8, 1.0, 2.0, DOCS) == FP8
    assert sparse_flop_rate(FP8, 4.0, 1.0, 1e12) == FP8


def test_launch_peak_is_reached_within_a_permille():
    assert sparse_flop_rate(FP8, 4.0, 1.0, LAUNCH) == pytest.approx(5200e12, rel=1e-3)


def test_storage_counts_values_and_tags():
    kept, group = np.array([4.0, 4.0, 1.0, 1.0]), np.array([16.0, 8.0, 2.0, 1.0])
    np.testing.assert_allclose(sparse_weight_bytes(2.0, kept, group, 0.5), [0.625, 1.25, 1.25, 2.0], rtol=1e-15)
    np.testing.assert_allclose(sparse_weight_bytes(1.0, kept, group, 0.5), [0.375, 0.75, 0.75, 1.0], rtol=1e-15)


def test_a_group_kept_whole_is_dense_whatever_its_size():
    assert sparse_weight_bytes(2.0, 4.0, 4.0, 0.5) == 2.0
