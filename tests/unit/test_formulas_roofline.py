"""Rooflines: which resource binds, and where the roof bends."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from trn2model.formulas.roofline import (
    ENGINES,
    bound_engine,
    exposed_time,
    operator_time,
)


@pytest.mark.parametrize("order", list(itertools.permutations((1.0, 2.0, 3.0, 4.0))))
def test_the_slowest_decides(order):
    tensor, vector, scalar, hbm = order
    assert operator_time(tensor, vector, scalar, hbm, 0.5) == 4.5
    assert bound_engine(tensor, vector, scalar, hbm) == order.index(4.0)


def test_codes_name_the_engines_in_argument_order():
    assert [ENGINES[code] for code in bound_engine(*np.eye(4))] == ["tensor", "vector", "scalar", "hbm"]


def test_equals_go_to_the_first():
    assert bound_engine(1.0, 1.0, 1.0, 1.0) == 0
    assert bound_engine(0.0, 1.0, 1.0, 1.0) == 1


def test_an_idle_operator_costs_its_start():
    assert operator_time(0.0, 0.0, 0.0, 0.0, 2e-6) == 2e-6


def test_the_shorter_of_array_and_memory_shows_by_what_is_not_hidden():
    assert exposed_time(3.0, 2.0, 0.75) == exposed_time(2.0, 3.0, 0.75) == 0.5
    assert exposed_time(3.0, 2.0, 1.0) == exposed_time(0.0, 2.0, 0.0) == 0.0
    assert operator_time(3.0, 0.0, 0.0, 2.0, exposed_time(3.0, 2.0, 0.0)) == 5.0


def test_axes_broadcast():
    tensor, hbm = np.ones((3, 1)), np.array([0.5, 2.0])
    np.testing.assert_array_equal(operator_time(tensor, 0.0, 0.0, hbm, 0.0), [[1.0, 2.0]] * 3)
    np.testing.assert_array_equal(bound_engine(tensor, 0.0, 0.0, hbm), [[0, 3]] * 3)
    assert bound_engine(tensor, 0.0, 0.0, hbm).dtype == np.int64
