"""More work never takes less, more hardware never takes longer, and scaling everything scales as it must."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trn2model.formulas import attention, economics, matmul, memory, moe, pipeline, roofline, sparsity

size = st.integers(1, 40_000).map(float)
small = st.integers(1, 64).map(float)
seconds = st.floats(0.0, 1e3)
flag = st.sampled_from([0.0, 1.0])

GEMM = {"rows": size, "contraction": size, "columns": size}
TILED = GEMM | {
    "contraction_tile": st.sampled_from([64.0, 128.0, 256.0]),
    "stationary_tile": st.sampled_from([64.0, 128.0, 256.0]),
    "moving_tile": st.sampled_from([128.0, 512.0]),
    "fill": st.floats(0.0, 128.0),
    "padding": st.floats(0.0, 1.0),
}
BLOCKED = GEMM | {
    "input_bytes": st.sampled_from([1.0, 2.0, 4.0]),
    "weight_bytes": st.floats(0.25, 4.0),
    "output_bytes": st.sampled_from([2.0, 4.0]),
    "sbuf_bytes": st.floats(1e4, 1e9),
}
PAIRS = {"query_tokens": size, "context_tokens": st.integers(40_000, 10**6).map(float), "window": size}
FLASH = PAIRS | {
    "num_heads": small,
    "num_kv_heads": small,
    "qk_size": small,
    "v_size": small,
    "element_bytes": small,
    "query_block": st.floats(1.0, 1e5),
}
SHARDS = {"zero_stage": st.sampled_from([0.0, 1.0, 2.0, 3.0]), "shards": small}
TIMES = dict.fromkeys(("tensor_time", "vector_time", "scalar_time", "hbm_time", "fixed_time"), seconds)

# formula: (domains, arguments that raise the result, arguments that lower it)
CASES = {
    matmul.gemm_flop: (GEMM, tuple(GEMM), ()),
    matmul.gemm_padded_flop: (TILED, (*GEMM, "fill", "padding"), ()),
    matmul.gemm_hbm_bytes: (BLOCKED, (*GEMM, "input_bytes", "weight_bytes", "output_bytes"), ("sbuf_bytes",)),
    attention.attention_pairs: (PAIRS, tuple(PAIRS), ()),
    attention.flash_hbm_bytes: (FLASH, tuple(f for f in FLASH if f != "query_block"), ("query_block",)),
    attention.decode_kv_bytes: (
        {"context_tokens": size, "window": size, "kv_bytes_per_token": size},
        ("context_tokens", "window", "kv_bytes_per_token"),
        (),
    ),
    moe.distinct_experts: (
        {"num_experts": st.sampled_from([64.0, 128.0]), "experts_per_token": small, "tokens": size},
        ("num_experts", "experts_per_token", "tokens"),
        (),
    ),
    moe.tokens_per_expert: (
        {"tokens": size, "num_experts": size, "experts_per_token": small, "imbalance": st.floats(1.0, 4.0)},
        ("tokens", "experts_per_token", "imbalance"),
        ("num_experts",),
    ),
    roofline.operator_time: (TIMES, tuple(TIMES), ()),
    sparsity.sparse_flop_rate: (
        {"dense_rate": size, "speedup": st.floats(1.0, 8.0), "passes": st.floats(1.0, 2.0), "sparse_peak": size},
        ("dense_rate", "speedup", "sparse_peak"),
        ("passes",),
    ),
    pipeline.bubble_fraction: (
        {"pp": small, "interleave": small, "num_microbatches": small},
        ("pp",),
        ("interleave", "num_microbatches"),
    ),
    pipeline.in_flight_microbatches: (
        {"pp": st.integers(8, 64).map(float), "stage_index": st.integers(0, 7).map(float),
         "interleave": st.integers(2, 8).map(float), "num_microbatches": small},
        ("pp", "num_microbatches"),
        ("stage_index",),
    ),
    pipeline.one_forward_one_backward_time: (
        dict.fromkeys(("forward_time", "backward_time", "before", "after"), seconds)
        | {"later_stages": small, "interleave": small, "num_microbatches": small},
        ("before", "after"),
        ("interleave", "later_stages"),
    ),
    pipeline.gpipe_time: (
        dict.fromkeys(("forward_max", "backward_max", "forward_sum", "backward_sum"), seconds)
        | {"num_microbatches": small},
        ("forward_max", "backward_max", "forward_sum", "backward_sum", "num_microbatches"),
        (),
    ),
    memory.activation_bytes: (
        dict.fromkeys(("tokens", "shard_tokens", "whole_bytes", "divided_bytes"), size) | {"tp": small},
        ("tokens", "shard_tokens", "whole_bytes", "divided_bytes"),
        ("tp",),
    ),
    economics.training_cost: (
        {"usd_per_hour": size, "tokens": size, "tokens_per_second": size, "goodput": st.floats(0.1, 1.0)},
        ("usd_per_hour", "tokens"),
        ("tokens_per_second", "goodput"),
    ),
    economics.goodput_fraction: (
        {"interval": size, "checkpoint_time": size, "restart_time": size, "mtbf": st.floats(1e5, 1e9)},
        ("mtbf",),
        ("checkpoint_time", "restart_time"),
    ),
}  # fmt: skip
DIRECTIONS = [
    pytest.param(formula, domains, argument, sign, id=f"{formula.__name__}-{argument}")
    for formula, (domains, rising, falling) in CASES.items()
    for argument, sign in [*((a, 1.0) for a in rising), *((a, -1.0) for a in falling)]
]


@pytest.mark.parametrize(("formula", "domains", "argument", "sign"), DIRECTIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_result_moves_one_way(formula, domains, argument, sign, data):
    assert set(domains) == set(inspect.signature(formula).parameters)
    arguments = {name: data.draw(domain, label=name) for name, domain in domains.items()}
    low, high = sorted((arguments[argument], data.draw(domains[argument], label=f"other {argument}")))
    less, more = (formula(**arguments | {argument: value}) for value in (low, high))
    assert sign * (more - less) >= -1e-12 * abs(more)


@given(m=size, k=size, n=size, axis=st.sampled_from([0, 1, 2]))
def test_k44_one_more_row_or_column_never_costs_less(m, k, n, axis):
    """The trap: efficiency steps that make a slightly larger product faster."""
    steps = np.zeros((3, 600))
    steps[axis] = np.arange(600)
    rows, contraction, columns = np.array([[m], [k], [n]]) + steps
    assert np.all(np.diff(matmul.gemm_padded_flop(rows, contraction, columns, 128.0, 128.0, 512.0, 48.0, 1.0)) >= 0)
    assert np.all(np.diff(matmul.gemm_hbm_bytes(rows, contraction, columns, 2.0, 2.0, 2.0, 56e6)) >= 0)


@given(m=size, k=size, n=size, padding=st.floats(0.0, 1.0))
def test_padding_never_hides_work(m, k, n, padding):
    exact = matmul.gemm_flop(m, k, n)
    assert matmul.gemm_padded_flop(m, k, n, 128.0, 128.0, 512.0, 48.0, padding) >= exact * (1 - 1e-12)


@given(m=size, k=size, n=size, sbuf=st.floats(1e4, 1e9))
def test_traffic_covers_each_operand_once(m, k, n, sbuf):
    assert matmul.gemm_hbm_bytes(m, k, n, 2.0, 0.625, 4.0, sbuf) >= (2 * m * k + 0.625 * k * n + 4 * m * n) * (
        1 - 1e-12
    )


@given(query=st.floats(0.0, 1e5), cached=st.floats(0.0, 1e5), window=st.floats(1.0, 2e5))
def test_pairs_lie_between_nothing_and_everything(query, cached, window):
    pairs = attention.attention_pairs(query, query + cached, window)
    unlimited = attention.attention_pairs(query, query + cached, 0.0)
    assert 0.0 <= pairs <= min(unlimited, query * window) * (1 + 1e-12)


@given(query=st.floats(1.0, 1e5), cached=st.floats(0.0, 1e5), window=st.floats(1.0, 2e5), factor=st.floats(1.0, 10.0))
def test_pairs_grow_with_the_square_of_all_lengths(query, cached, window, factor):
    pairs = attention.attention_pairs(query, query + cached, window)
    longer = attention.attention_pairs(factor * query, factor * (query + cached), factor * window)
    assert longer == pytest.approx(factor**2 * pairs, rel=1e-9)


@given(window=st.floats(1.0, 1e4), query=st.floats(1.0, 1e4), context=st.floats(1e4, 1e5))
def test_pairs_are_continuous(window, query, context):
    at = attention.attention_pairs(query, context, window)
    for step in ((1e-6, 0.0, 0.0), (0.0, 1e-6, 0.0), (0.0, 0.0, 1e-6)):
        moved = attention.attention_pairs(query + step[0], context + step[1], window + step[2])
        assert np.abs(np.subtract(moved, at)) <= 1e-6 * 1.1e5


@given(tensor=seconds, vector=seconds, scalar=seconds, hbm=seconds, fixed=seconds, factor=st.floats(0.01, 100.0))
def test_the_bound_engine_takes_all_but_the_fixed_time(tensor, vector, scalar, hbm, fixed, factor):
    time = roofline.operator_time(tensor, vector, scalar, hbm, fixed)
    code = roofline.bound_engine(tensor, vector, scalar, hbm)
    assert (tensor, vector, scalar, hbm)[int(code)] + fixed == time
    scaled = roofline.operator_time(factor * tensor, factor * vector, factor * scalar, factor * hbm, factor * fixed)
    assert scaled == pytest.approx(factor * time, rel=1e-12)


@given(dense=size, speedup=st.floats(1.0, 8.0), passes=st.floats(1.0, 2.0), peak=size)
def test_sparse_rate_lies_between_dense_and_speedup(dense, speedup, passes, peak):
    rate = sparsity.sparse_flop_rate(dense, speedup, passes, peak)
    assert dense <= rate <= max(dense, dense * speedup / passes, 0.0) * (1 + 1e-12)


@given(domains=st.fixed_dictionaries(SHARDS), parameters=size)
def test_states_over_all_shards_add_up(domains, parameters):
    whole = memory.model_state_bytes(parameters, 2.0, 4.0, 12.0, 0.0, domains["shards"])
    part = memory.model_state_bytes(parameters, 2.0, 4.0, 12.0, **domains)
    for index, (one, all_) in enumerate(zip(part, whole, strict=True)):
        copies = domains["shards"] if domains["zero_stage"] >= 3 - index else 1.0
        assert one * copies == pytest.approx(all_, rel=1e-12)


@given(pp=small, t=st.floats(0.1, 10.0), v=small, m=small)
def test_pipeline_time_of_equal_stages_holds_the_bubble(pp, t, v, m):
    total = pipeline.one_forward_one_backward_time(t / 3, 2 * t / 3, (pp - 1) * t, 0.0, 0.0, v, m)
    assert total * (1 - pipeline.bubble_fraction(pp, v, m)) == pytest.approx(m * t, rel=1e-12)
