from __future__ import annotations

import numpy as np
import pytest

from trn2model.errors import InvalidInputError, InvalidPlanError
from trn2model.simulate.pipeline import KINDS, simulate_pipeline, stage_orders


def test_two_stages_by_hand():
    trace = simulate_pipeline("1f1b", [1.0, 1.0], [2.0, 2.0], num_microbatches=2, transfer_time=0.5)
    table = {
        (stage, kind, mb): (start, end)
        for stage, kind, mb, start, end in zip(
            trace.stage.tolist(),
            [KINDS[code] for code in trace.kind],
            trace.microbatch.tolist(),
            trace.start.tolist(),
            trace.end.tolist(),
            strict=True,
        )
    }
    assert table == {
        (0, "forward", 0): (0.0, 1.0),
        (0, "forward", 1): (1.0, 2.0),
        (1, "forward", 0): (1.5, 2.5),
        (1, "backward", 0): (2.5, 4.5),
        (1, "forward", 1): (4.5, 5.5),
        (0, "backward", 0): (5.0, 7.0),
        (1, "backward", 1): (5.5, 7.5),
        (0, "backward", 1): (8.0, 10.0),
    }
    assert trace.total_time == 10.0
    assert trace.busy_time.tolist() == [6.0, 6.0]
    assert trace.bubble_time.tolist() == [4.0, 4.0]
    assert trace.bubble_fraction == pytest.approx(0.4)
    assert trace.peak_in_flight.tolist() == [2, 1]
    assert trace.peak_activation_time.tolist() == [1.0, 1.5]


def test_orders_of_the_published_schedules():
    first, last = stage_orders("1f1b", 2, 3, 1)
    assert first.tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0, 2], [1, 0, 1], [1, 0, 2]]
    assert last.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1], [0, 0, 2], [1, 0, 2]]
    _, last = stage_orders("zb-h1", 2, 3, 1)
    assert last[:, 0].tolist() == [0, 1, 0, 1, 2, 0, 1, 2, 2]
    first, _ = stage_orders("interleaved", 2, 4, 2)
    forwards = first[first[:, 0] == 0][:, 1:]
    assert forwards.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3]]
    assert first[:5, 0].tolist() == [0, 0, 0, 0, 0]  # 2 (2 - 1) + (2 - 1) 2 = 4 ahead, then one more, then back
    assert first[5].tolist() == [1, 1, 0]


def test_uneven_chunks_and_weighted_activations():
    trace = simulate_pipeline(
        "interleaved",
        [[1.0, 2.0], [1.0, 3.0]],
        [[2.0, 4.0], [2.0, 6.0]],
        num_microbatches=2,
        interleave=2,
        activation=[[10.0, 1.0], [10.0, 2.0]],
    )
    assert trace.busy_time.tolist() == [18.0, 24.0]
    assert trace.peak_activation.tolist() == [22.0, 22.0]
    assert trace.peak_in_flight.tolist() == [4, 3]


def test_zero_bubble_may_give_activations_back_at_the_input_gradient():
    held = {
        fraction: simulate_pipeline(
            "zb-h1", np.ones(4), 1.0, 1.0, num_microbatches=12, held_fraction=fraction
        ).peak_activation
        for fraction in (0.0, 0.5, 1.0)
    }
    assert held[1.0].tolist() == [4.0, 4.0, 4.0, 4.0]
    assert held[0.0].tolist() == [4.0, 3.0, 2.0, 1.0]
    np.testing.assert_allclose(held[0.5], [4.0, 3.5, 3.0, 2.5])  # (p - s) + s / 2


@pytest.mark.parametrize(("pp", "v"), [(2, 3), (5, 2), (8, 4)])
def test_any_number_of_microbatches_interleaves(pp, v):
    for m in range(1, 3 * pp):
        trace = simulate_pipeline("1f1b", np.ones(pp), 2.0, num_microbatches=m, interleave=v)
        padded = -(-m // pp) * pp
        assert 3 * (m + (pp - 1) / v) - 1e-9 <= trace.total_time <= 3 * (padded + (pp - 1) / v) + 1e-9


def test_repeats_bit_for_bit():
    one = simulate_pipeline("1f1b", np.linspace(1, 2, 16), 2.0, num_microbatches=256, interleave=4)
    two = simulate_pipeline("1f1b", np.linspace(1, 2, 16), 2.0, num_microbatches=256, interleave=4)
    np.testing.assert_array_equal(one.end, two.end)
    assert len(one.stage) == 16 * 256 * 4 * 2


@pytest.mark.parametrize(
    ("schedule", "arguments", "field"),
    [
        ("pipedream", {}, "schedule"),
        ("1f1b", {"num_microbatches": 0}, "num_microbatches"),
        ("1f1b", {"interleave": 0}, "interleave"),
        ("gpipe", {"interleave": 2}, "interleave"),
        ("zb-h1", {"interleave": 2}, "interleave"),
    ],
)
def test_plans_that_mean_nothing(schedule, arguments, field):
    with pytest.raises(InvalidPlanError) as caught:
        simulate_pipeline(schedule, [1.0, 1.0], 2.0, **{"num_microbatches": 4, **arguments})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"forward_time": 1.0}, "forward_time"),
        ({"forward_time": []}, "forward_time"),
        ({"forward_time": [1.0, -1.0]}, "forward_time"),
        ({"backward_time": [1.0, 2.0, 3.0]}, "backward_time"),
        ({"backward_time": float("nan")}, "backward_time"),
        ({"weight_time": float("inf")}, "weight_time"),
        ({"transfer_time": -0.1}, "transfer_time"),
        ({"activation": [[1.0, 2.0]]}, "activation"),
        ({"held_fraction": 1.5}, "held_fraction"),
    ],
)
def test_times_that_mean_nothing(arguments, field):
    given = {"schedule": "1f1b", "forward_time": [1.0, 1.0], "backward_time": 2.0, "num_microbatches": 2, **arguments}
    with pytest.raises(InvalidInputError) as caught:
        simulate_pipeline(**given)
    assert caught.value.field == field


def test_nothing_to_do_takes_no_time():
    trace = simulate_pipeline("1f1b", [0.0, 0.0], 0.0, num_microbatches=2)
    assert trace.total_time == 0.0
    assert trace.bubble_fraction == 0.0
