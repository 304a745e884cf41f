"""Words find a place that covers nothing, or none."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trn2model.ui.charts.labels import SIDES, Box, Placer, Plane, text_size

SIZE = (400.0, 200.0)
points = st.tuples(st.floats(0, 400), st.floats(0, 200))


def overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@given(st.lists(st.tuples(st.text("abc", min_size=1, max_size=12), points, st.floats(4, 30)), max_size=12))
def test_labels_cover_neither_marks_nor_each_other_nor_the_ticks(
    labels: list[tuple[str, tuple[float, float], float]],
) -> None:
    placer = Placer(SIZE)
    for _, point, marker in labels:
        placer.add_mark(point, marker)
    marks = list(placer.taken)
    sides = [placer.beside(*label) for label in labels]
    boxes = placer.taken[len(marks) :]
    assert len(boxes) == sum(side in SIDES for side in sides)
    assert all(box[0] >= 0 and box[1] >= 0 for box in boxes)
    assert not any(overlap(a, b) for a, b in [*itertools.combinations(boxes, 2), *itertools.product(boxes, marks)])


@given(st.lists(points, min_size=2, max_size=6), points)
def test_no_line_runs_through_a_label(line: list[tuple[float, float]], point: tuple[float, float]) -> None:
    placer = Placer(SIZE)
    placer.add_line(line)
    if placer.beside("a label", point, 8):
        left, bottom, right, top = placer.taken[-1]
        for (x, y), (to_x, to_y) in itertools.pairwise(line):
            spots = ((x + part / 99 * (to_x - x), y + part / 99 * (to_y - y)) for part in range(100))
            deep = [4 < a - left < right - left - 4 and 4 < b - bottom < top - bottom - 4 for a, b in spots]
            assert not any(deep)


def test_the_first_free_side_is_taken_and_none_is_left_in_the_end() -> None:
    placer = Placer(SIZE)
    assert [placer.beside("label", (200.0, 100.0), 8) for _ in range(3)] == ["bottom center", "top center", ""]


def test_a_name_gives_way_to_a_steep_line_and_to_a_flat_one() -> None:
    """Left of the corner is taken, below it the plot ends; above it the line rises, steeply or not."""
    for end in (50.0, 12.0):
        placer = Placer(SIZE, [(0.0, 10.0, 55.0, 40.0)])
        placer.add_line([(20.0, 8.0), (60.0, 8.0), (100.0, end)])
        assert placer.beside("a word", (60.0, 8.0), 8, ("top left", "bottom right", "top center")) == ""


def test_a_note_takes_the_corner_where_it_covers_least() -> None:
    placer = Placer(SIZE)
    placer.add_line([(0.0, 0.0), (400.0, 200.0)])
    lines, (left, _, right, top) = placer.corner("words", (0.0, 0.0, *SIZE), from_left=True)
    assert lines == ("words",)
    assert (right, top < 100) == (400.0, True)
    assert placer.corner("others", (0.0, 0.0, *SIZE), from_left=True)[1][0] == 0.0
    assert left > 300


def test_a_plane_counts_in_pixels_and_in_decades() -> None:
    plane = Plane(("log", "linear"), (0.0, 2.0), (0.0, 50.0), SIZE)
    assert plane.at([10.0, 0.0, 100.0], [25.0, 1.0, 50.0]) == [(200.0, 100.0), (400.0, 200.0)]


@pytest.mark.parametrize("size", [11.0, 12.0])
def test_words_take_room_by_their_letters(size: float) -> None:
    assert text_size("four", size)[0] == pytest.approx(4 * text_size("x", size)[0])
    assert math.isclose(text_size("x", size)[1], 1.3 * size)
