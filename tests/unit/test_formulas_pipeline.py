"""Pipeline formulas against chunks dealt out one by one and schedules spelled out."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.formulas.pipeline import (
    bubble_fraction,
    exposed_transfers,
    gpipe_time,
    in_flight_microbatches,
    one_forward_one_backward_time,
    zero_bubble_time,
)


def last_stage(forward, backward, pp, interleave, num_microbatches):
    """Time that the last of equal stages sets."""
    before = (pp - 1.0) * (forward + backward)
    return one_forward_one_backward_time(forward, backward, before, 0.0, 0.0, interleave, num_microbatches)


@pytest.mark.parametrize(("pp", "v", "m"), [(1, 1, 5), (4, 1, 8), (8, 3, 16), (8, 2, 1)])
def test_bubble_is_what_equal_stages_add(pp, v, m):
    total = last_stage(1.0, 2.0, pp, v, m)
    assert bubble_fraction(pp, v, m) == pytest.approx(1.0 - 3.0 * m / total, rel=1e-12)


def test_one_stage_has_no_bubble():
    assert bubble_fraction(1.0, 1.0, 4.0) == 0.0
    assert last_stage(1.0, 1.0, 1.0, 1.0, 4.0) == 8.0


def test_light_stages_behind_a_slow_one_cost_nothing():
    """While the slow stage has forwards to do, their backward comes back in time."""
    assert one_forward_one_backward_time(2.0, 3.0, 2.0, 3.0, 2.0, 1.0, 10.0) == 10 * 5 + 2
    assert one_forward_one_backward_time(2.0, 3.0, 2.0, 5.0, 2.0, 1.0, 10.0) == 10 * 5 + 2 + (5 - 2 * 2)


def test_gpipe_fills_and_drains_at_the_slowest_stage():
    assert gpipe_time(3.0, 6.0, 6.0, 12.0, 4.0) == 18 + 3 * 9


def test_the_last_stage_of_1f1b_holds_one_and_the_first_all_stages():
    assert in_flight_microbatches(8.0, 7.0, 1.0, 64.0) == 1.0
    assert in_flight_microbatches(8.0, 0.0, 1.0, 64.0) == 8.0
    assert in_flight_microbatches(8.0, 0.0, 1.0, 3.0) == 3.0


def test_interleaving_holds_the_published_factor_on_the_last_stage():
    p, v = np.meshgrid([2.0, 8.0, 16.0, 64.0], [2.0, 3.0, 4.0])
    factor = in_flight_microbatches(p, 0.0, v, 1e9) / p
    np.testing.assert_allclose(factor, 1 + (p - 1) / (p * v), rtol=1e-15)


def test_zero_bubble_is_smaller_than_the_bubble_of_1f1b_by_two_weight_gradients():
    f, b, w, p, m = 1.0, 1.0, 0.75, 8.0, 32.0
    last = zero_bubble_time(f, b, w, (p - 1) * f, (p - 1) * b, 0.0, p - 1.0, 0.0, m)
    assert last_stage(f, b + w, p, 1.0, m) - last == pytest.approx((p - 1) * 2 * w)


def test_transfers_are_waited_for_in_every_round_or_once():
    assert exposed_transfers(1.0, 0.0, 8.0, 1.0, 64.0, 1.0, 1.0) == (2 * 7 / 8 * 64, 2 * 6)
    assert exposed_transfers(1.0, 20.0, 8.0, 1.0, 64.0, 1.0, 1.0) == (0.0, 2 * 6)
    assert exposed_transfers(1.0, 0.0, 8.0, 4.0, 64.0, 0.0, 1.0) == (0.0, 2 * 31)
    assert exposed_transfers(1.0, 0.0, 8.0, 1.0, 64.0, 0.0, 2.0) == (0.0, 4 * 7)
