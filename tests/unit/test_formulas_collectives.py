"""Alpha-beta forms of collectives: hand-worked values, limits, and one body for scalars and arrays."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from trn2model.formulas import collectives

FORMULAS = [
    function
    for name, function in inspect.getmembers(collectives, inspect.isfunction)
    if function.__module__ == collectives.__name__ and not name.startswith("_")
]


def test_the_busiest_resource_decides() -> None:
    for place in range(4):
        times = [1.0, 1.0, 1.0, 1.0]
        times[place] = 3.0
        assert collectives.busiest_resource_time(*times) == 3.0
    assert collectives.line_time(1e-6, 1e-9, 1e3) == pytest.approx(2e-6)


def test_bus_bandwidth_of_nothing_is_zero() -> None:
    assert collectives.bus_bandwidth(1e6, 1e-3, 1.75) == pytest.approx(1.75e9)
    assert collectives.bus_bandwidth(1e6, 0.0, 1.0) == 0.0
    assert collectives.gather_bus_factor(1.0) == 0.0
    assert collectives.gather_bus_factor(8.0) == 0.875


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda formula: formula.__name__)
def test_a_batch_row_is_a_single_call(formula) -> None:
    count = len(inspect.signature(formula).parameters)
    columns = np.random.default_rng(5).uniform(1.0, 1e3, (count, 50))
    batch = formula(*columns)
    assert batch.shape == (50,)
    for row in range(50):
        np.testing.assert_allclose(batch[row], formula(*(float(value) for value in columns[:, row])), rtol=1e-12)
    spread = formula(columns[0][:, None], *columns[1:])
    assert spread.shape == ((50, 50) if count > 1 else (50, 1))
