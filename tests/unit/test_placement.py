"""Strides of the parallel axes and the groups they make."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike

from trn2model.errors import InvalidInputError
from trn2model.network.placement import group_dims, group_ranks, member_offsets, merge_dims, placement

ORDER = ("tp", "cp", "ep", "dp", "pp")


def test_strides_are_products_of_the_inner_degrees() -> None:
    place = placement(ORDER, {"tp": 8, "cp": 2, "ep": 1, "dp": 4, "pp": 3})
    assert place.strides.tolist() == [1, 8, 16, 16, 64]
    assert int(place.num_ranks) == 192


def test_the_order_is_an_input() -> None:
    place = placement(("pp", "tp"), {"tp": 4, "pp": 2})
    assert place.group_dims(["tp"]).strides.tolist() == [2]
    assert place.group_dims(["tp", "pp"]).strides.tolist() == [1, 2]


def test_groups_of_several_axes_are_innermost_first_whatever_the_order_of_the_names() -> None:
    place = placement(ORDER, {"tp": 8, "cp": 2, "ep": 2, "dp": 4, "pp": 1})
    groups = place.group_dims(("dp", "cp"))
    assert groups.strides.tolist() == [8, 32]
    assert groups.sizes.tolist() == [2, 4]
    assert int(groups.size) == 8


@pytest.mark.parametrize("axes", [("tp",), ("cp",), ("dp",), ("pp",), ("tp", "dp"), ("cp", "ep", "dp"), ORDER])
def test_groups_part_the_ranks(axes: tuple[str, ...]) -> None:
    degrees = {"tp": 3, "cp": 2, "ep": 1, "dp": 5, "pp": 2}
    place = placement(ORDER, degrees)
    groups = place.group_dims(axes)
    dims = tuple(zip(groups.strides.tolist(), groups.sizes.tolist(), strict=True))
    ranks = group_ranks(dims, int(place.num_ranks))
    assert ranks.shape[1] == int(groups.size)
    assert sorted(ranks.reshape(-1).tolist()) == list(range(60))
    others = [axis for axis in ORDER if axis not in axes]
    for row in ranks:
        for axis in others:
            index = ORDER.index(axis)
            assert len(set((row // place.strides[index] % degrees[axis]).tolist())) == 1


def test_arrays_of_plans_give_the_rows_of_single_plans() -> None:
    rows = {"tp": [4, 8, 1], "cp": [1, 1, 1], "ep": [1, 2, 7], "dp": [3, 3, 3], "pp": [2, 2, 2]}
    columns: dict[str, ArrayLike] = {"tp": np.array([4.0, 8.0, 1.0]), "cp": 1, "ep": rows["ep"], "dp": 3, "pp": 2}
    many = placement(ORDER, columns)
    for row in range(3):
        one = placement(ORDER, {axis: rows[axis][row] for axis in ORDER})
        assert many.strides[row].tolist() == one.strides.tolist()
        assert int(many.num_ranks[row]) == int(one.num_ranks)
        assert many.group_dims(("dp", "ep")).size[row] == one.group_dims(("dp", "ep")).size


def test_merging_keeps_the_members() -> None:
    dims = ((1, 2), (2, 3), (6, 1), (12, 2), (24, 2))
    assert merge_dims(dims) == ((1, 6), (12, 4))
    assert member_offsets(dims).tolist() == member_offsets(merge_dims(dims)).tolist()
    assert merge_dims(((1, 1),)) == ()


def test_plain_pairs() -> None:
    groups = group_dims(((1, 4), (16, 2)), 64)
    assert groups.strides.tolist() == [1, 16]
    assert int(groups.num_ranks) == 64


def test_names_and_degrees_are_checked() -> None:
    with pytest.raises(InvalidInputError, match="tq"):
        placement(("tp",), {"tp": 2}).group_dims(["tq"])
    with pytest.raises(InvalidInputError, match="every axis once"):
        placement(("tp", "tp"), {"tp": 2})
    with pytest.raises(InvalidInputError, match="every axis once"):
        placement(("tp",), {"tp": 2, "dp": 1})
    with pytest.raises(InvalidInputError, match="degree"):
        placement(("tp",), {"tp": [2, 0]})
