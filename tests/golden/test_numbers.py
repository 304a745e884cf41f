"""Regression: the numbers of the public face are those kept with a date and a reason (see `tests.golden.numbers`)."""

from __future__ import annotations

from tests.golden.numbers import differences, kept, moved


def test_no_number_has_moved() -> None:
    assert differences() == []


def test_what_is_kept_says_when_and_why() -> None:
    assert kept()["date"]
    assert kept()["reason"]


def test_a_number_that_moves_by_more_than_rounding_is_seen() -> None:
    before = {"step_time": 1.0, "algorithms": "ring"}
    assert moved(before, {"step_time": 1.0 + 1e-13, "algorithms": "ring"}) == []
    assert moved(before, {"step_time": 1.0 + 1e-11, "algorithms": "ring"}) == ["step_time"]
    assert moved(before, {"step_time": 1.0, "algorithms": "mesh"}) == ["algorithms"]
    assert moved(before, None) == ["the whole answer"]
