"""Profiles: complete, sourced, and true to the measured kernels of one logical core of Trainium2.

Measured rows: github.com/whn09/xpu-perf@cfb6ca5d, projects/micro_perf (2026-09), and nccom-test of
github.com/jimburtoft/cookbook@be3828d. A standalone operator carries one launch.
"""

from __future__ import annotations

import pytest

from trn2model.errors import UnknownNameError
from trn2model.formulas import matmul
from trn2model.specs import catalog
from trn2model.specs.hardware import logical_core
from trn2model.specs.profile import CONSTANT_NAMES, ComputeConstants, profile, profile_names
from trn2model.specs.provenance import sources

CORE = logical_core(catalog.system("trn2.48xlarge"), 2)
WIDTH = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp32": 4.0}

#: rows, contraction, columns, dtype, measured rate [TFLOP/s]
GEMM_ROWS: list[tuple[float, float, float, str, float]] = [
    (1024, 4096, 4096, "bf16", 124.1),
    (8192, 4096, 4096, "bf16", 143.0),
    (2048, 2048, 2048, "bf16", 91.71),
    (30720, 8192, 8192, "bf16", 150.21),
    (30720, 8192, 8192, "bf16", 149.59),
    (10240, 5120, 17408, "bf16", 148.9),
    (10240, 17408, 5120, "bf16", 152.7),
    (1024, 5120, 248320, "bf16", 147.0),
    (32768, 1024, 8192, "fp16", 146.38),
    (2048, 2048, 2048, "fp8", 128.71),
    (4096, 4096, 4096, "fp8", 245.0),
    (10240, 1024, 8192, "fp32", 37.67),
    (3968, 1024, 8192, "fp32", 36.93),
    (1024, 4096, 4096, "fp32", 34.7),
]


def gemm_time(m: float, k: float, n: float, dtype: str, c: ComputeConstants) -> float:
    """Device time of one GEMM on a logical core, from the formulas alone."""
    engine = CORE.chip.tensor_engine
    reach = 2 if dtype == "fp8" else 1
    padded = matmul.gemm_padded_flop(
        m, k, n, reach * engine.contraction_size, 2 * engine.stationary_size, engine.moving_size,
        c.tensor_fill, c.tile_padding,
    )  # fmt: skip
    share = {"fp8": c.fp8_efficiency, "fp32": c.fp32_efficiency}.get(dtype, 1.0)
    tensor = padded / (CORE.flop_rate(dtype) * c.tensor_efficiency * share)
    width = WIDTH[dtype]
    moved = matmul.gemm_hbm_bytes(m, k, n, width, width, max(width, 2.0), CORE.sbuf_bytes)
    hbm = moved / (CORE.hbm_bandwidth * c.hbm_efficiency)
    exposed = (1.0 - c.matmul_overlap_fraction) * min(tensor, hbm)
    return float(max(tensor, hbm) + exposed + c.operator_time)


@pytest.mark.parametrize("name", profile_names())
def test_a_profile_is_complete_and_sourced(name: str) -> None:
    loaded = profile(name)
    assert set(loaded.figures) == set(CONSTANT_NAMES)
    assert {figure.source for figure in loaded.figures.values()} <= sources().keys()
    assert set(loaded.fitted) <= set(CONSTANT_NAMES)
    assert len(loaded.fitted) <= 8
    assert loaded.title


@pytest.mark.parametrize("name", ["ideal", "achievable"])
def test_shares_are_shares_and_costs_are_not_negative(name: str) -> None:
    for key in CONSTANT_NAMES:
        value = profile(name).value(key)
        assert value >= 0, key
        if key.endswith(("_efficiency", "_fraction")):
            assert value <= 1, key


def test_ideal_costs_nothing_that_can_be_saved() -> None:
    ideal = profile("ideal")
    for key in CONSTANT_NAMES:
        if key.endswith(("_efficiency", "_fraction")):
            assert ideal.value(key) == 1, key
        if key.endswith(("_time", "_latency")) or key in {"tile_padding", "tensor_fill"}:
            assert ideal.value(key) == 0, key
    assert ideal.links.chip_bandwidth == pytest.approx(3.5e12 / 8)


def test_achievable_is_nowhere_better_than_ideal() -> None:
    ideal, real = profile("ideal"), profile("achievable")
    for key in CONSTANT_NAMES:
        better_is_more = key.endswith(("_efficiency", "_fraction", "_bandwidth"))
        low, high = (real, ideal) if better_is_more else (ideal, real)
        assert low.value(key) <= high.value(key), key


def test_notes_say_where_measured_constants_come_from() -> None:
    for key, figure in profile("achievable").figures.items():
        assert figure.note, key


@pytest.mark.parametrize(("m", "k", "n", "dtype", "rate"), GEMM_ROWS)
def test_achievable_gemm(m: float, k: float, n: float, dtype: str, rate: float) -> None:
    constants = profile("achievable").compute
    measured = matmul.gemm_flop(m, k, n) / (rate * 1e12)
    predicted = gemm_time(m, k, n, dtype, constants) + constants.step_time
    assert predicted == pytest.approx(measured, rel=0.085)


def test_achievable_gemm_error_on_average() -> None:
    constants = profile("achievable").compute
    errors = []
    for m, k, n, dtype, rate in GEMM_ROWS:
        measured = float(matmul.gemm_flop(m, k, n)) / (rate * 1e12)
        errors.append(abs(gemm_time(m, k, n, dtype, constants) + constants.step_time - measured) / measured)
    assert sum(errors) / len(errors) < 0.04


@pytest.mark.parametrize(("m", "k", "n", "dtype", "rate"), GEMM_ROWS)
def test_nobody_beats_ideal(m: float, k: float, n: float, dtype: str, rate: float) -> None:
    assert gemm_time(m, k, n, dtype, profile("ideal").compute) <= matmul.gemm_flop(m, k, n) / (rate * 1e12)


@pytest.mark.parametrize("rate", [559.2, 573.3])
def test_reading_weights_for_128_rows(rate: float) -> None:
    constants = profile("achievable").compute
    moved = (128 * 8192 + 8192 * 8192 + 128 * 8192) * 2
    predicted = gemm_time(128, 8192, 8192, "bf16", constants)
    assert predicted < moved / (rate * 1e9) < predicted + constants.step_time


@pytest.mark.parametrize(("tokens", "time"), [(4096, 7407.4e-6), (10240, 39969.3e-6), (10240, 39782.3e-6)])
def test_achievable_attention(tokens: int, time: float) -> None:
    constants = profile("achievable").compute
    heads, head_size = 80, 128
    pairs = heads * tokens**2 / 2
    tensor = 4 * pairs * head_size / (CORE.flop_rate("bf16") * constants.attention_efficiency)
    exponentials = pairs / (CORE.scalar_element_rate * constants.scalar_efficiency)
    maxima = pairs / (CORE.vector_element_rate * constants.vector_efficiency)
    assert max(tensor, exponentials, maxima) == pytest.approx(time, rel=0.10)
    ideal = max(4 * pairs * head_size / CORE.flop_rate("bf16"), pairs / CORE.scalar_element_rate)
    assert ideal < time


@pytest.mark.parametrize(
    ("batch", "context", "time"),
    [
        (16, 4096, 950.9e-6),
        (16, 10240, 2337.8e-6),
        (16, 16384, 3372.2e-6),
        (64, 4096, 3343.8e-6),
        (64, 10240, 8814.1e-6),
    ],
)
def test_achievable_decode_attention(batch: int, context: int, time: float) -> None:
    constants = profile("achievable").compute
    cache = batch * context * 2 * 8 * 128 * 2
    predicted = cache / (CORE.hbm_bandwidth * constants.kv_read_efficiency)
    assert predicted == pytest.approx(time, rel=0.12)
    assert cache / CORE.hbm_bandwidth < time


@pytest.mark.parametrize(("passes", "rate"), [(2, 322.6e9 / 4), (2, 295.7e9 / 4), (1, 315.4e9 / 2)])
def test_achievable_vector_operators(passes: int, rate: float) -> None:
    constants = profile("achievable").compute
    reached = CORE.vector_element_rate * constants.vector_efficiency
    assert reached == pytest.approx(passes * rate, rel=0.08)


def test_streaming_reaches_what_four_busy_cores_reach() -> None:
    reached = CORE.hbm_bandwidth * profile("achievable").compute.hbm_efficiency
    assert reached == pytest.approx(634e9, rel=2e-3)


def test_a_die_pair_and_a_chip() -> None:
    constants = profile("achievable").links
    assert 103.8e9 < constants.chip_bandwidth < 123.9e9
    point_to_point = constants.collective_time + constants.chip_latency
    assert point_to_point < 12.6e-6
    assert 1e-6 <= constants.link_latency <= 2e-6
    assert constants.nic_latency == pytest.approx(15e-6)


def test_unknown_profile() -> None:
    with pytest.raises(UnknownNameError, match="ideal"):
        profile("perfect")
