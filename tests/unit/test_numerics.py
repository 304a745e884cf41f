"""Number formats and sparsity patterns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trn2model.errors import UnknownNameError
from trn2model.specs import catalog
from trn2model.specs.numerics import dtype, dtype_names, sparsity, sparsity_names

MX_BLOCK, NV_BLOCK = 32, 16


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("fp32", 4),
        ("bf16", 2),
        ("fp16", 2),
        ("fp8", 1),
        ("int8", 1),
        ("mxfp8", 1 + 1 / MX_BLOCK),
        ("mxfp4", 0.5 + 1 / MX_BLOCK),
        ("nvfp4", 0.5 + 1 / NV_BLOCK),
    ],
)
def test_storage_counts_the_scales(name: str, size: float) -> None:
    assert dtype(name).storage_bytes == size


def test_known_four_bit_formats() -> None:
    assert (dtype("nvfp4").storage_bytes, dtype("mxfp4").storage_bytes) == (0.5625, 0.53125)


@pytest.mark.parametrize("name", dtype_names())
def test_every_format_multiplies_in_one_that_trainium2_has(name: str) -> None:
    assert dtype(name).matmul_dtype in catalog.chip("trainium2").flop_rate
    assert dtype(name).figure.number() == dtype(name).storage_bytes


@pytest.mark.parametrize("name", [n for n in sparsity_names() if n != "dense"])
def test_a_pattern_is_what_its_name_says(name: str) -> None:
    pattern = sparsity(name)
    assert f"{pattern.kept}:{pattern.group}" == name
    assert pattern.tag_bytes == 0.5
    assert not pattern.is_dense


def test_dense_keeps_everything() -> None:
    pattern = sparsity("dense")
    assert pattern.is_dense
    assert pattern.kept == pattern.group
    assert pattern.tag_bytes == 0


def test_weight_bytes_of_the_sparsest_pattern() -> None:
    pattern = sparsity("4:16")
    assert pattern.kept / pattern.group * (dtype("bf16").storage_bytes + pattern.tag_bytes) == 0.625


def test_chips_only_name_known_patterns() -> None:
    for name in catalog.chip_names():
        assert set(catalog.chip(name).sparsity_patterns) <= set(sparsity_names())


@pytest.mark.parametrize(("call", "field"), [(dtype, "dtype"), (sparsity, "sparsity")])
def test_unknown_names(call: Callable[[str], object], field: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        call("fp7")
    assert (caught.value.field, caught.value.value) == (field, "fp7")
