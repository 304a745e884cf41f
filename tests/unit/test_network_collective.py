"""Published ranges of the collective algorithms."""

from __future__ import annotations

import pytest

from trn2model.network.collective import range_figures, sweet_ranges


def test_ranges_follow_on_each_other_and_cover_every_size() -> None:
    ranges = sweet_ranges(64)
    assert [one.algorithm for one in ranges] == ["mesh", "rdh", "kangaring"]
    assert [one.low for one in ranges] == [0.0, 1e6, 56e6]
    assert [one.high for one in ranges[:-1]] == [one.low for one in ranges[1:]]
    assert ranges[-1].high == float("inf")


@pytest.mark.parametrize("ranks", [1, 32, 63, 128])
def test_other_groups_have_none(ranks: int) -> None:
    assert sweet_ranges(ranks) == ()


def test_the_figures_are_published() -> None:
    assert {figure.status for figure in range_figures().values()} == {"published"}
