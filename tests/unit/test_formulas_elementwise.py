"""Passes of the Vector and Scalar engines against measured operators of one logical core (LNC 2).

Figures are the best over a sweep, 16 bit, xpu-perf README at cfb6ca5d: bytes in and out per second. The core has
2 x 128 lanes at 0.96 GHz (Vector) and 1.2 GHz (Scalar), and a quarter of 2.9 TB/s.
"""

from __future__ import annotations

import pytest

from trn2model.formulas import elementwise
from trn2model.formulas.memory import adamw_scalar_elements, adamw_vector_elements
from trn2model.formulas.roofline import ENGINES, bound_engine, operator_time

VECTOR_RATE = 2 * 128 * 0.96e9
SCALAR_RATE = 2 * 128 * 1.2e9
HBM_BANDWIDTH = 2.9e12 / 4
ROWS, COLUMNS = 8192.0, 4096.0

MEASURED = {
    # operator: (bytes per element, GB/s, Vector elements, Scalar elements, engine that binds, share of the bound)
    "rms_norm": (4, 322.6, elementwise.norm_vector_elements(ROWS, COLUMNS), 0.0, "vector", 0.66),
    "layer_norm": (4, 172.7, elementwise.norm_vector_elements(ROWS, COLUMNS, 1.0), 0.0, "vector", 0.53),
    "softmax": (
        4,
        295.7,
        elementwise.softmax_vector_elements(ROWS, COLUMNS),
        elementwise.softmax_scalar_elements(ROWS, COLUMNS),
        "vector",
        0.60,
    ),
    "swiglu": (
        6,
        292.1,
        elementwise.activation_vector_elements(ROWS, COLUMNS),
        elementwise.activation_scalar_elements(ROWS, COLUMNS),
        "hbm",
        0.40,
    ),
    "add": (6, 599.9, elementwise.residual_vector_elements(ROWS, COLUMNS), 0.0, "hbm", 0.83),
}


@pytest.mark.parametrize("name", MEASURED)
def test_bounds_lie_below_the_measured_time_and_name_the_engine(name):
    width, gigabytes, vector, scalar, engine, share = MEASURED[name]
    measured = width * ROWS * COLUMNS / (gigabytes * 1e9)
    times = 0.0, vector / VECTOR_RATE, scalar / SCALAR_RATE, width * ROWS * COLUMNS / HBM_BANDWIDTH
    assert ENGINES[bound_engine(*times)] == engine
    assert operator_time(*times, 0.0) / measured == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(
    ("columns", "selected", "measured"),
    [
        (248320, 1, 557.0), (248320, 8, 558.3), (248320, 50, 5312.1),
        (62080, 1, 164.9), (62080, 8, 165.1), (62080, 50, 1368.2),
    ],
)  # fmt: skip
def test_top_k_of_one_row_takes_its_rounds(columns, selected, measured):
    """One row sits in one lane: 2 passes for up to 8 values, 20 for 50; about 38 us are fixed (xpu-perf)."""
    lanes = 256.0
    passes = elementwise.topk_vector_elements(1.0, columns, selected, lanes)
    assert passes / VECTOR_RATE * 1e6 + 38.0 == pytest.approx(measured, rel=0.05)


def test_rows_up_to_the_lanes_cost_the_same():
    one, full, next_ = (elementwise.topk_vector_elements(r, 1000.0, 8.0, 256.0) for r in (1.0, 256.0, 257.0))
    assert one == full == 0.5 * next_


def test_idle_lanes_are_left_out_on_request():
    assert elementwise.topk_vector_elements(11.0, 128.0, 8.0) == 11 * 128 * 2


def test_router_is_a_softmax_and_a_selection():
    assert elementwise.router_vector_elements(10.0, 128.0, 8.0) == 10 * 128 * (2 + 2)
    assert elementwise.router_vector_elements(10.0, 128.0, 9.0) == 10 * 128 * (2 + 5)


@pytest.mark.parametrize(("layer_norm", "backward", "passes"), [(0, 0, 2), (1, 0, 3), (0, 1, 4), (1, 1, 6)])
def test_passes_of_the_norms(layer_norm, backward, passes):
    assert elementwise.norm_vector_elements(3.0, 5.0, layer_norm, backward) == 15 * passes


@pytest.mark.parametrize(
    ("gated", "backward", "vector", "scalar"), [(1, 0, 1, 1), (1, 1, 3, 2), (0, 0, 0, 1), (0, 1, 1, 1)]
)
def test_passes_of_the_activations(gated, backward, vector, scalar):
    assert elementwise.activation_vector_elements(3.0, 5.0, gated, backward) == 15 * vector
    assert elementwise.activation_scalar_elements(3.0, 5.0, gated, backward) == 15 * scalar


def test_activations_are_gated_and_forward_unless_told():
    assert elementwise.activation_vector_elements(3.0, 5.0) == elementwise.activation_vector_elements(
        3.0, 5.0, 1.0, 0.0
    )
    assert elementwise.activation_scalar_elements(3.0, 5.0) == elementwise.activation_scalar_elements(
        3.0, 5.0, 1.0, 0.0
    )


def test_one_pass_of_sums_and_exponentials():
    assert elementwise.residual_vector_elements(3.0, 5.0) == elementwise.softmax_scalar_elements(3.0, 5.0) == 15.0


def test_rotary_turns_each_element_with_two_products_and_a_sum():
    assert elementwise.rotary_vector_elements(7.0, 128.0) == 3 * 7 * 128


def test_cross_entropy_is_a_softmax_without_its_scale():
    softmax, loss = (
        f(5.0, 100.0) for f in (elementwise.softmax_vector_elements, elementwise.cross_entropy_vector_elements)
    )
    assert softmax - loss == 500.0


def test_the_optimizer_waits_for_hbm():
    """AdamW moves fp32 weight and moments twice, a bf16 gradient and a bf16 weight: 28 B per parameter."""
    times = (
        0.0,
        adamw_vector_elements(1e9) / VECTOR_RATE,
        adamw_scalar_elements(1e9) / SCALAR_RATE,
        28e9 / HBM_BANDWIDTH,
    )
    assert ENGINES[bound_engine(*times)] == "hbm"
    assert operator_time(*times, 0.0) == pytest.approx(28e9 / HBM_BANDWIDTH)


def test_an_adamw_update_spelled_out():
    """Vector: two for m, one each for v, denominator, step, weight. Scalar: square, root."""
    assert adamw_vector_elements(10.0) == 10 * (2 + 1 + 1 + 1 + 1)
    assert adamw_scalar_elements(10.0) == 10 * (1 + 1)
