"""One body serves one plan and a million: every formula gives a row of a batch what it gives alone."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trn2model.formulas import attention, economics, elementwise, matmul, memory, moe, pipeline, roofline, sparsity

MODULES = (attention, economics, elementwise, matmul, memory, moe, pipeline, roofline, sparsity)

# Ranges of the arguments by name; a pair is a real interval, a tuple of more is a choice.
RANGES = {
    "backward": (0.0, 1.0, 0.0),
    "component_mtbf": (1e5, 1e9),
    "checkpoint_time": (1.0, 1e3),
    "context_tokens": (5e3, 1e6),
    "contraction_tile": (64.0, 128.0, 256.0),
    "dense_rate": (1e14, 1e15),
    "dropout": (0.0, 1.0, 0.0),
    "element_bytes": (1.0, 2.0, 4.0),
    "experts_per_token": (1.0, 2.0, 8.0),
    "fill": (0.0, 64.0),
    "gated": (0.0, 1.0, 0.0),
    "goodput": (0.5, 1.0),
    "group": (4.0, 8.0, 16.0),
    "imbalance": (1.0, 3.0),
    "interleave": (1.0, 2.0, 3.0, 4.0),
    "interval": (10.0, 1e4),
    "kept": (1.0, 2.0, 4.0),
    "lanes": (1.0, 128.0, 256.0),
    "layer_norm": (0.0, 1.0, 0.0),
    "moving_tile": (128.0, 256.0, 512.0),
    "mtbf": (1e3, 1e6),
    "num_experts": (8.0, 64.0, 256.0),
    "num_selected": (1.0, 8.0, 50.0),
    "padding": (0.0, 1.0),
    "passes": (1.0, 2.0, 1.0),
    "pp": (1.0, 2.0, 8.0, 35.0),
    "query_block": (128.0, 2048.0, 1e9),
    "query_tokens": (1.0, 5e3),
    "sbuf_bytes": (1e5, 1e8),
    "sequence_parallel": (0.0, 1.0, 0.0),
    "sparse_peak": (1e15, 5e15),
    "speedup": (1.0, 2.0, 4.0),
    "stage_index": (0.0, 0.0, 0.0),
    "stationary_tile": (64.0, 128.0, 256.0),
    "tag_bytes": (0.0, 0.5, 1.0),
    "tp": (1.0, 2.0, 8.0, 64.0),
    "window": (0.0, 128.0, 4096.0),
    "zero_stage": (0.0, 1.0, 2.0, 3.0),
}
OTHER = (1.0, 1e4)


def formulas() -> list[tuple[str, object]]:
    """Public formulas of all modules."""
    return [
        (f"{module.__name__.rpartition('.')[2]}.{name}", function)
        for module in MODULES
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
    ]


def draw(rng, name, shape):
    choices = RANGES.get(name, OTHER)
    if len(choices) == 2:
        return np.exp(rng.uniform(np.log(choices[0]), np.log(choices[1]), shape)) if choices[0] else (
            rng.uniform(*choices, shape)
        )  # fmt: skip
    return rng.choice(np.array(choices), shape)


def results(value):
    return [np.asarray(part) for part in (value if isinstance(value, tuple) else (value,))]


def test_the_list_is_not_empty():
    names = [name for name, _ in formulas()]
    assert len(names) == len(set(names)) > 45


@pytest.mark.parametrize("formula", [formula for _, formula in formulas()], ids=[name for name, _ in formulas()])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_row_of_a_batch_equals_the_single_call(formula, seed):
    rng = np.random.default_rng(seed)
    columns = {p: draw(rng, p, 6) for p in inspect.signature(formula).parameters}
    batch = results(formula(**columns))
    for row in range(6):
        single = results(formula(**{p: float(column[row]) for p, column in columns.items()}))
        for whole, part in zip(batch, single, strict=True):
            assert whole.shape == (6,)
            assert part.shape == ()
            np.testing.assert_allclose(whole[row], part, rtol=1e-12)
            assert np.isfinite(part)


@pytest.mark.parametrize("formula", [formula for _, formula in formulas()], ids=[name for name, _ in formulas()])
def test_every_argument_spans_its_own_axis(formula):
    """Arguments of shapes (2, 1, ..), (1, 2, ..), .. give the outer product of all their values."""
    rng = np.random.default_rng(1)
    columns = {p: draw(rng, p, 2) for p in inspect.signature(formula).parameters}
    n = len(columns)
    shapes = np.where(np.eye(n, dtype=bool), 2, 1)
    outer = results(
        formula(**{p: column.reshape(shape) for (p, column), shape in zip(columns.items(), shapes, strict=True)})
    )
    for index in rng.integers(0, 2, (20, n)):
        single = results(
            formula(**{p: float(column[i]) for (p, column), i in zip(columns.items(), index, strict=True)})
        )
        for whole, part in zip(outer, single, strict=True):
            np.testing.assert_allclose(np.broadcast_to(whole, (2,) * n)[tuple(index)], part, rtol=1e-12)


@pytest.mark.parametrize("formula", [formula for _, formula in formulas()], ids=[name for name, _ in formulas()])
def test_inputs_are_left_as_they_were(formula):
    rng = np.random.default_rng(2)
    columns = {p: draw(rng, p, 4) for p in inspect.signature(formula).parameters}
    before = {p: column.copy() for p, column in columns.items()}
    formula(**columns)
    for p, column in columns.items():
        np.testing.assert_array_equal(column, before[p])
