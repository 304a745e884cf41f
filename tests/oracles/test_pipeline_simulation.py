"""The event-driven pipeline against closed forms: equal on equal stages, inside derived bounds on uneven ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trn2model.formulas import pipeline as formulas
from trn2model.simulate.pipeline import simulate_pipeline

# The closed forms are written out here again, from the papers, so that the simulation stands on its own; the formulas
# are held to it in turn, here and in test_formulas_pipeline.
COMBINATIONS = [
    (pp, v, m)
    for pp, v, groups in itertools.product((1, 2, 3, 4, 6, 8, 16), (1, 2, 3, 4), (1, 2, 5))
    for m in (pp * groups,)
]
UNGROUPED = list(itertools.product((2, 3, 4, 8), (1,), (1, 2, 3, 5, 7, 11, 64)))


def upper_bound(stage_time: np.ndarray, num_microbatches: int) -> float:
    """All stages once, and the slowest for the other microbatches."""
    return float(stage_time.sum() + (num_microbatches - 1) * stage_time.max())


def closed_form(forward: np.ndarray, backward: np.ndarray, interleave: int, num_microbatches: int) -> float:
    """The formula's largest value over the stages."""
    total = forward + backward
    before = np.cumsum(total) - total
    after = total.sum() - before - total
    later = np.arange(forward.size, dtype=np.float64)[::-1]
    spans = formulas.one_forward_one_backward_time(
        forward, backward, before, after, later, interleave, num_microbatches
    )
    return float(np.max(spans))


def zero_bubble(f: np.ndarray, b: np.ndarray, w: np.ndarray, num_microbatches: int) -> float:
    after = (f + b).sum() - np.cumsum(f + b)
    stage = np.arange(f.size, dtype=np.float64)
    spans = formulas.zero_bubble_time(
        f, b, w, np.cumsum(f) - f, np.cumsum(b) - b, after, stage, stage[::-1], num_microbatches
    )
    return float(np.max(spans))


@pytest.mark.parametrize(("pp", "v", "m"), COMBINATIONS + UNGROUPED)
def test_equal_stages_give_the_closed_form(pp, v, m):
    trace = simulate_pipeline("1f1b", np.full(pp, 1.3), 2.1, 0.7, num_microbatches=m, interleave=v)
    assert trace.total_time == pytest.approx(4.1 * (m + (pp - 1) / v), rel=1e-9)
    assert trace.bubble_fraction == pytest.approx((pp - 1) / (v * m + pp - 1), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("pp", "v", "m"), COMBINATIONS)
def test_the_formulas_agree(pp, v, m):
    trace = simulate_pipeline("1f1b", np.full(pp, 1.0), 2.0, num_microbatches=m, interleave=v)
    bubble = formulas.bubble_fraction(pp, v, m)
    assert bubble == pytest.approx(trace.bubble_fraction, rel=1e-9, abs=1e-12)
    assert 3.0 * m / (1.0 - bubble) == pytest.approx(trace.total_time, rel=1e-9)
    in_flight = formulas.in_flight_microbatches(pp, np.arange(pp), v, m)
    np.testing.assert_allclose(in_flight, trace.peak_activation, rtol=1e-12)


def test_k32_bubble_of_64_sequences_on_8_stages():
    for microbatch, exact, printed in ((1, 7 / 71, 0.0986), (2, 7 / 39, 0.1795)):
        trace = simulate_pipeline("1f1b", np.ones(8), 2.0, num_microbatches=64 // microbatch)
        assert trace.bubble_fraction == pytest.approx(exact, rel=1e-12)
        assert trace.bubble_fraction == pytest.approx(printed, abs=5e-5)


def test_k26_in_flight_factor_of_interleaving():
    trace = simulate_pipeline("interleaved", np.ones(8), 2.0, num_microbatches=64, interleave=3)
    assert trace.peak_activation[0] / 8 == pytest.approx(1 + 7 / 24, rel=1e-12)
    # 34 s b h L / t of selective recompute with sequence parallel, GPT-3 175B, times the factor: 12.3516 GiB
    assert 2048 * 12288 * 96 * 34 / 8 / 2**30 * trace.peak_activation[0] / 8 == pytest.approx(12.3516, abs=5e-5)


@pytest.mark.parametrize(("pp", "v", "m"), COMBINATIONS)
def test_peak_activations_of_every_stage(pp, v, m):
    trace = simulate_pipeline("1f1b", np.ones(pp), 2.0, num_microbatches=m, interleave=v)
    stage = np.arange(pp)
    ahead = pp - stage if v == 1 else 2 * (pp - stage - 1) + (v - 1) * pp + 1
    np.testing.assert_array_equal(trace.peak_in_flight, np.minimum(ahead, m * v))
    np.testing.assert_allclose(trace.peak_activation, np.minimum(ahead, m * v) / v, rtol=1e-12)


@pytest.mark.parametrize("m", [1, 3, 8, 20])
@pytest.mark.parametrize("pp", [1, 2, 5, 8])
def test_gpipe_is_two_flow_shops(pp, m):
    rng = np.random.default_rng(pp * 100 + m)
    forward, backward = rng.uniform(0.1, 2.0, pp), rng.uniform(0.1, 2.0, pp)
    trace = simulate_pipeline("gpipe", forward, backward, num_microbatches=m)
    exact = formulas.gpipe_time(forward.max(), backward.max(), forward.sum(), backward.sum(), m)
    assert trace.total_time == pytest.approx(exact, rel=1e-12)
    np.testing.assert_array_equal(trace.peak_in_flight, m)


@pytest.mark.parametrize(
    ("f", "b", "w"), [(1, 1, 1), (1, 2, 0.5), (1, 1, 2), (2, 1, 1.5), (1, 1.2, 0.9), (1, 3, 2.9), (1, 2, 2)]
)
@pytest.mark.parametrize(("pp", "m"), [(2, 2), (2, 9), (4, 4), (4, 13), (8, 8), (8, 32), (16, 40)])
def test_zero_bubble_gives_the_published_bubble(pp, m, f, b, w):
    trace = simulate_pipeline("zb-h1", np.full(pp, float(f)), b, w, num_microbatches=m)
    bubble = (pp - 1) * max(f + max(b - w, 0), b)  # (p - 1)(f + b - w) in the paper, for w <= b and w <= f
    assert trace.total_time == pytest.approx(m * (f + b + w) + bubble, rel=1e-9)
    forward, inputs, weights = (np.full(pp, float(time)) for time in (f, b, w))
    assert zero_bubble(forward, inputs, weights, m) == pytest.approx(trace.total_time, rel=1e-12)
    assert trace.peak_in_flight.max() == pp  # as much memory as 1F1B, on every stage
    plain = simulate_pipeline("1f1b", np.full(pp, float(f)), b, w, num_microbatches=m)
    assert trace.total_time < plain.total_time
    assert trace.peak_in_flight.max() == plain.peak_in_flight.max()


@pytest.mark.parametrize("x", [0.01, 0.4])
@pytest.mark.parametrize(("pp", "groups"), [(2, 1), (2, 6), (4, 2), (4, 5), (8, 4), (8, 7)])
def test_transfers_cost_1f1b_every_microbatch_and_interleaving_once(pp, groups, x):
    m = pp * groups
    plain = simulate_pipeline("1f1b", np.ones(pp), 2.0, num_microbatches=m, transfer_time=x)
    assert plain.total_time == pytest.approx(3 * (m + pp - 1) + x * (2 * (pp - 1) * groups + 2 * (pp - 2)), rel=1e-9)
    if groups >= 2 and x < 0.1:
        for v in (2, 4):
            trace = simulate_pipeline("1f1b", np.ones(pp), 2.0, num_microbatches=m, transfer_time=x, interleave=v)
            assert trace.total_time == pytest.approx(3 * (m + (pp - 1) / v) + 2 * (pp * v - 1) * x, rel=1e-9)


def stages(low=0.05):
    return st.lists(st.floats(low, 4.0), min_size=1, max_size=7).map(np.array)


@given(forward=stages(), ratio=st.floats(0.3, 4.0), m=st.integers(1, 20))
def test_uneven_stages_stay_between_the_closed_form_and_the_bound(forward, ratio, m):
    """Backward in proportion to forward."""
    simulated = simulate_pipeline("1f1b", forward, forward * ratio, num_microbatches=m).total_time
    assert closed_form(forward, forward * ratio, 1, m) <= simulated + 1e-9
    assert simulated <= upper_bound(forward * (1 + ratio), m) + 1e-9


@given(
    pp=st.integers(2, 8),
    m=st.integers(1, 40),
    longer=st.integers(0, 7),
    ends=st.tuples(st.floats(0.0, 0.1), st.floats(0.0, 0.6)),
    ratio=st.floats(1.8, 3.2),
)
def test_stages_of_a_model_are_exact(pp, m, longer, ends, ratio):
    """A remainder of layers on the stages after the first, embedding on the first and head on the last."""
    forward = np.where((np.arange(pp) >= 1) & (np.arange(pp) <= longer), 1.1, 1.0)
    forward[0] += ends[0]
    forward[-1] += ends[1]
    backward = ratio * forward
    backward[-1] = ratio * (forward[-1] - ends[1]) + 2.0 * ends[1]
    simulated = simulate_pipeline("1f1b", forward, backward, num_microbatches=m).total_time
    assert closed_form(forward, backward, 1, m) == pytest.approx(simulated, rel=1e-9)


@given(forward=stages(0.3), seed=st.integers(0, 1000), m=st.integers(7, 40))
def test_uneven_zero_bubble_is_close(forward, seed, m):
    """Within 3 % for at least as many microbatches as stages."""
    ratios = np.random.default_rng(seed).uniform(0.6, 1.6, 2)
    backward, weight = forward * ratios[0], forward * ratios[1]
    simulated = simulate_pipeline("zb-h1", forward, backward, weight, num_microbatches=m).total_time
    assert zero_bubble(forward, backward, weight, m) == pytest.approx(simulated, rel=0.08)


@given(forward=stages(), ratio=st.floats(0.3, 4.0), m=st.integers(1, 20), head=st.floats(1.0, 3.0))
def test_a_slowest_last_stage_makes_the_closed_form_exact(forward, ratio, m, head):
    forward = np.append(forward, forward.max() * head)
    simulated = simulate_pipeline("1f1b", forward, forward * ratio, num_microbatches=m).total_time
    assert simulated == pytest.approx(closed_form(forward, forward * ratio, 1, m), rel=1e-9)
    assert simulated == pytest.approx(upper_bound(forward * (1 + ratio), m), rel=1e-9)


@given(forward=stages(), seed=st.integers(0, 1000), m=st.integers(1, 20))
def test_backward_out_of_proportion_is_bounded_by_the_two_slowest(forward, seed, m):
    backward = np.random.default_rng(seed).uniform(0.05, 4.0, forward.size)
    total = forward + backward
    simulated = simulate_pipeline("1f1b", forward, backward, num_microbatches=m).total_time
    lead = np.cumsum(total) - total
    assert simulated >= (m * total + lead).max() - 1e-9
    assert simulated <= total.sum() + (m - 1) * (forward.max() + backward.max()) + 1e-9


@given(forward=stages(), ratio=st.floats(0.3, 4.0), v=st.integers(2, 4), m=st.integers(1, 20))
def test_uneven_interleaved_stages_stay_between_the_bounds(forward, ratio, v, m):
    pp = forward.size
    stage_time = forward * (1 + ratio)
    simulated = simulate_pipeline("1f1b", forward, forward * ratio, num_microbatches=m, interleave=v).total_time
    lead = (np.cumsum(stage_time) - stage_time) / v
    padded = -(-m // pp) * pp
    low, high = (m * stage_time + lead).max(), (padded + (pp - 1) / v) * stage_time.max()
    assert low - 1e-9 <= simulated <= high + 1e-9
    assert (
        low - 1e-9 <= closed_form(forward, forward * ratio, v, m) <= high + 1e-9
    )  # so the two differ by at most high - low


@given(
    pp=st.integers(1, 6),
    v=st.integers(1, 4),
    m=st.integers(1, 17),
    seed=st.integers(0, 10_000),
    schedule=st.sampled_from(["1f1b", "gpipe", "zb-h1"]),
)
def test_every_schedule_runs_every_task_once_in_a_legal_order(pp, v, m, seed, schedule):
    v = v if schedule == "1f1b" else 1
    rng = np.random.default_rng(seed)
    forward, backward, weight = rng.uniform(0.0, 2.0, (3, pp, v))
    link = rng.uniform(0.0, 0.5, pp)
    trace = simulate_pipeline(schedule, forward, backward, weight, num_microbatches=m, interleave=v, transfer_time=link)
    ends = {}
    for stage, chunk, mb, kind, start, end in zip(
        trace.stage.tolist(), trace.chunk.tolist(), trace.microbatch.tolist(), trace.kind.tolist(),
        trace.start.tolist(), trace.end.tolist(), strict=True,
    ):  # fmt: skip
        key = (kind, chunk * pp + stage, mb)
        assert key not in ends
        ends[key] = (start, end)
    kinds = 3 if schedule == "zb-h1" else 2
    assert len(ends) == kinds * pp * v * m
    for (kind, virtual, mb), (start, _) in ends.items():
        if kind == 0 and virtual > 0:
            crossing = link[(virtual - 1) % pp] if pp > 1 else 0.0
            assert start >= ends[0, virtual - 1, mb][1] + crossing - 1e-9
        if kind == 1:
            assert start >= ends[0, virtual, mb][1] - 1e-9
            if virtual < pp * v - 1:
                assert start >= ends[1, virtual + 1, mb][1] + (link[virtual % pp] if pp > 1 else 0.0) - 1e-9
        if kind == 2:
            assert start >= ends[1, virtual, mb][1] - 1e-9
    for stage in range(pp):
        mine = trace.stage == stage
        assert np.all(trace.start[mine][1:] >= trace.end[mine][:-1] - 1e-9)
        assert trace.activation[stage].value[-1] == pytest.approx(0.0, abs=1e-9)
        assert trace.activation[stage].value.max() == pytest.approx(trace.peak_activation[stage])
    assert trace.bubble_time.min() >= -1e-9
