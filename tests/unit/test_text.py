"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trn2model import text as fmt
from trn2model.units import GIB, KIB, TIB


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1234.5, "1,230"),
        (999.6, "1,000"),
        (0.0012345, "0.00123"),
        (-41.96, "-42.0"),
        (2e-7, "2.00e-07"),
        (math.inf, "–"),
        (math.nan, "–"),
    ],
)
def test_three_significant_digits(value: float, text: str) -> None:
    assert fmt.significant(value) == text


@given(st.floats(1e-5, 9e14))
def test_three_digits_are_right_to_half_a_unit(value: float) -> None:
    shown = float(fmt.significant(value).replace(",", ""))
    assert shown == pytest.approx(value, rel=5.1e-3)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (fmt.capacity(24 * GIB), "24.0 GiB"),
        (fmt.capacity(1.5 * TIB), "1.50 TiB"),
        (fmt.capacity(512 * KIB), "512 KiB"),
        (fmt.capacity(1023.9 * GIB), "1.00 TiB"),
        (fmt.traffic(2.9e12), "2.90 TB"),
        (fmt.bandwidth(725e9), "725 GB/s"),
        (fmt.bandwidth(999.7e9), "1.00 TB/s"),
        (fmt.bandwidth(866e3), "866 kB/s"),
        (fmt.bandwidth(2.5e6), "2.50 MB/s"),
        (fmt.flop_rate(667e12), "667 TFLOP/s"),
        (fmt.flop_rate(83.2e15), "83.2 PFLOP/s"),
        (fmt.duration(8.14e-4), "814 µs"),
        (fmt.duration(0.01966), "19.7 ms"),
        (fmt.duration(90.0), "90.0 s"),
        (fmt.duration(5400.0), "1.50 h"),
        (fmt.duration(864_000.0), "10.0 days"),
        (fmt.duration(0.0), "0 ns"),
        (fmt.percent(0.8234), "82.3 %"),
        (fmt.percent(1e-6), "<0.01 %"),
        (fmt.percent(0.0), "0 %"),
        (fmt.count(1024), "1,024"),
        (fmt.count(44_235.0), "44.2 k"),
        (fmt.count(70.6e9), "70.6 G"),
        (fmt.count(0.25), "0.250"),
    ],
)
def test_units_follow_the_size(shown: str, text: str) -> None:
    assert shown == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1299e12, "FLOP/s", "1.299 PFLOP/s"),
        (96 * GIB, "B", "96 GiB"),
        (1.5 * TIB, "B", "1.5 TiB"),
        (640e9, "B", "640 GB"),
        (1128e9, "B", "1.128 TB"),
        (0.0, "B", "0 B"),
        (2.4e9, "Hz", "2.4 GHz"),
        (960e6, "Hz", "960 MHz"),
        (46.4e12, "B/s", "46.4 TB/s"),
        (128.0, "1", "128"),
        (35.7608, "USD/h", "35.7608 USD/h"),
        (None, "B/s", "–"),
    ],
)
def test_figures_keep_every_digit_of_their_source(value: float | None, unit: str, text: str) -> None:
    assert fmt.quantity(value, unit) == text


def test_sizes_are_named_with_three_digits() -> None:
    names = [fmt.size_name(size) for size in (1024.0, 1.5 * 2**20, 2.0**34, 331.4 * 1024)]
    assert names == ["1 KiB", "1.5 MiB", "16 GiB", "331 KiB"]
