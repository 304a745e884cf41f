"""The exception tree: one root, and invalid input that names field, value, allowed range and remedy."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

from trn2model import errors

CLASSES = [
    c
    for _, c in inspect.getmembers(errors, inspect.isclass)
    if c.__module__ == errors.__name__ and not c.__name__.startswith("_")
]


@pytest.mark.parametrize("error", CLASSES)
def test_everything_has_one_root(error: type[Exception]) -> None:
    assert issubclass(error, errors.Trn2ModelError)


@pytest.mark.parametrize("error", [errors.InvalidInputError, errors.InvalidPlanError, errors.UnknownNameError])
def test_invalid_input_says_what_where_and_how_to_mend_it(error: type[errors.InvalidInputError]) -> None:
    raised = error("tp", 7, "a divisor of 64", "choose 8")
    assert (raised.field, raised.value, raised.allowed, raised.remedy) == ("tp", 7, "a divisor of 64", "choose 8")
    assert str(raised) == "tp = 7 is invalid: allowed is a divisor of 64; choose 8"
    assert isinstance(raised, ValueError)


@pytest.mark.parametrize("value", ["two\nlines", np.arange(10_000.0).reshape(100, 100), "x" * 100_000])
def test_the_message_stays_one_short_line_whatever_the_value(value: object) -> None:
    raised = errors.InvalidInputError("model", value, "a name", "choose one")
    assert "\n" not in str(raised)
    assert len(str(raised)) < 200
    assert raised.value is value


class Unprintable:
    """A value that cannot be printed."""

    def __repr__(self) -> str:
        message = "no text"
        raise RuntimeError(message)


def test_a_value_that_cannot_be_printed_is_named_by_its_type() -> None:
    raised = errors.InvalidInputError("model", Unprintable(), "a name", "choose one")
    assert str(raised).startswith("model = <Unprintable instance at ")
    assert str(raised).endswith("> is invalid: allowed is a name; choose one")
    assert "[<Unprintable instance" in str(errors.InvalidInputError("model", [Unprintable()], "a name", "choose one"))


def test_an_integer_that_python_does_not_print_is_named_by_its_size() -> None:
    raised = errors.InvalidInputError("tp", [1 << 20_000], "a degree", "lower it")
    assert "tp = [an integer of 20,001 bits] is" in str(raised)


def test_unsupported_and_infeasible_are_not_invalid_input() -> None:
    for error in (errors.UnsupportedError, errors.NothingFeasibleError, errors.DataError):
        assert not issubclass(error, ValueError)


def test_invalid_input_survives_the_way_between_processes() -> None:
    raised = errors.InvalidPlanError("tp", 7, "a divisor of 64", "choose 8")
    copy = pickle.loads(pickle.dumps(raised))
    assert type(copy) is errors.InvalidPlanError
    assert str(copy) == str(raised)
    assert copy.remedy == "choose 8"
