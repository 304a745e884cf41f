"""The closed unit table: prefixes by their definition, conversions that undo one another."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trn2model.errors import DataError
from trn2model.units import GIB, KIB, MIB, TIB, UNITS, from_si, si_unit, to_si

DECIMAL = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}
PREFIXED = re.compile(r"(?P<prefix>[kMGTP]i?|Ki)?(?P<base>FLOP|element|bit|B|Hz|W)(?P<rate>/s)?")


@pytest.mark.parametrize("unit", [unit for unit in UNITS if PREFIXED.fullmatch(unit)])
def test_prefixes_follow_their_definition(unit: str) -> None:
    match = PREFIXED.fullmatch(unit)
    assert match
    prefix = match["prefix"] or ""
    scale = 2.0 ** BINARY[prefix] if prefix in BINARY else 10.0 ** DECIMAL[prefix]
    base, factor = ("B", scale / 8) if match["base"] == "bit" else (match["base"], scale)
    assert UNITS[unit] == (base + (match["rate"] or ""), factor)


def test_decimal_binary_and_bits_are_three_things() -> None:
    assert to_si(1, "GB") == 1_000_000_000
    assert to_si(1, "GiB") == 1_073_741_824
    assert to_si(1, "Gbit/s") == 125_000_000
    assert (KIB, MIB, GIB, TIB) == (1024, 1024**2, 1024**3, 1024**4)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (96, "GiB", 103_079_215_104),
        (1.5, "TiB", 1_649_267_441_664),
        (3.2, "Tbit/s", 400e9),
        (2.9, "TB/s", 2.9e12),
        (820, "GiB/s", 880_468_295_680),
        (20.8, "PFLOP/s", 20.8e15),
        (2, "us", 2e-6),
        (1, "day", 86_400),
        (40, "%", 0.4),
    ],
)
def test_known_values(value: float, unit: str, expected: float) -> None:
    assert to_si(value, unit) == pytest.approx(expected, rel=1e-15)


@given(st.floats(1e-12, 1e18), st.sampled_from(sorted(UNITS)))
def test_from_si_undoes_to_si(value: float, unit: str) -> None:
    assert from_si(to_si(value, unit), unit) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("unit", UNITS)
def test_an_si_unit_is_its_own(unit: str) -> None:
    assert si_unit(si_unit(unit)) == si_unit(unit)
    assert to_si(1.0, si_unit(unit)) == 1.0


@pytest.mark.parametrize("unit", ["gb", "Gb/s", "GBps", "flops", "", "TFLOPS", "GB /s"])
def test_other_spellings_are_refused(unit: str) -> None:
    for call in (lambda: to_si(1.0, unit), lambda: from_si(1.0, unit), lambda: si_unit(unit)):
        with pytest.raises(DataError, match=re.escape(f"unknown unit {unit!r}")):
            call()
