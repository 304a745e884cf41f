"""Pipeline formulas against chunks dealt out one by one and schedules spelled out."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.formulas.pipeline import (
    bubble_fraction,
    gpipe_in_flight_microbatches,
    in_flight_microbatches,
    layers_in_largest_chunk,
    layers_on_heaviest_stage,
    pipeline_time,
    zero_bubble_time,
)


@pytest.mark.parametrize("pp", [1, 2, 8, 35])
@pytest.mark.parametrize("interleave", [1, 2, 3])
@pytest.mark.parametrize("layers", [1, 32, 105, 126])
def test_layers_are_dealt_to_chunks_in_turn(layers, pp, interleave):
    sizes = [layers // (pp * interleave) + (c < layers % (pp * interleave)) for c in range(pp * interleave)]
    stages = [sum(sizes[stage::pp]) for stage in range(pp)]
    assert sum(stages) == layers
    assert layers_on_heaviest_stage(layers, pp, interleave) == max(stages)
    assert layers_in_largest_chunk(layers, pp, interleave) == max(sizes)


@pytest.mark.parametrize(("pp", "v", "m"), [(1, 1, 5), (4, 1, 8), (8, 3, 16), (8, 2, 1)])
def test_bubble_is_what_equal_stages_add(pp, v, m):
    total = pipeline_time(3.0, 3.0 * pp, v, m)
    assert bubble_fraction(pp, v, m) == pytest.approx(1.0 - 3.0 * m / total, rel=1e-12)


def test_one_stage_has_no_bubble():
    assert bubble_fraction(1.0, 1.0, 4.0) == 0.0
    assert pipeline_time(2.0, 2.0, 1.0, 4.0) == 8.0


def test_uneven_stages_fill_and_drain_once():
    assert pipeline_time(5.0, 2.0 + 5.0 + 3.0, 1.0, 10.0) == 10 * 5 + 2 + 3


def test_the_last_stage_of_1f1b_holds_one_and_the_first_all_stages():
    assert in_flight_microbatches(8.0, 7.0, 1.0, 64.0) == 1.0
    assert in_flight_microbatches(8.0, 0.0, 1.0, 64.0) == 8.0
    assert in_flight_microbatches(8.0, 0.0, 1.0, 3.0) == 3.0


def test_interleaving_holds_the_published_factor_on_the_first_stage():
    p, v = np.meshgrid([2.0, 8.0, 16.0, 64.0], [2.0, 3.0, 4.0])
    factor = in_flight_microbatches(p, 0.0, v, 1e9) / p
    np.testing.assert_allclose(factor, 1 + (p - 1) / (p * v), rtol=1e-15)


def test_gpipe_holds_every_microbatch():
    assert gpipe_in_flight_microbatches(17.0) == 17.0


def test_zero_bubble_is_smaller_than_the_bubble_of_1f1b_by_two_weight_gradients():
    f, b, w, p = 1.0, 1.0, 0.75, 8.0
    plain = pipeline_time(f + b + w, p * (f + b + w), 1.0, 32.0) - 32.0 * (f + b + w)
    assert plain - zero_bubble_time(p, f, b, w) == pytest.approx((p - 1) * 2 * w)
