"""Where the words of a chart go: beside their marks, clear of lines and of each other.

Boxes are shares of the plot, counted for the width of a phone, where words take the most room.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

#: Plotly's text position, and where the box lies from the mark: right by, up by, in box sizes from its corner.
_PLACES: Final = (
    ("bottom center", -0.5, -1.6),
    ("top center", -0.5, 0.6),
    ("middle right", 0.0, -0.5),
    ("middle left", -1.0, -0.5),
    ("bottom right", 0.0, -1.3),
    ("top left", -1.0, 0.3),
)
_LETTER_WIDTH: Final = 6.6
_LINE_HEIGHT: Final = 14.0
_GAP: Final = 10.0


@dataclass(frozen=True, slots=True)
class Label:
    """A name at a place on the canvas, counted in pixels to the right and upwards."""

    text: str
    x: float
    y: float


Box = tuple[float, float, float, float]


def place_labels(labels: Sequence[Label], size: tuple[float, float]) -> tuple[str | None, ...]:
    """Text position of each label, the first ones first; None where every place is taken.

    Examples
    --------
    >>> place_labels([Label("a", 50, 50), Label("b", 50, 50)], (100, 100))
    ('bottom center', 'top center')
    """
    marks = [(label.x - 6, label.y - 6, label.x + 6, label.y + 6) for label in labels]
    taken: list[Box] = []
    places: list[str | None] = []
    for index, label in enumerate(labels):
        others = [mark for other, mark in enumerate(marks) if other != index and mark != marks[index]]
        free = ((name, box) for name, box in label_boxes(label) if _fits(box, size, [*taken, *others]))
        name, box = next(free, (None, None))
        places.append(name)
        taken += [box] if box else []
    return tuple(places)


def label_boxes(label: Label) -> list[tuple[str, Box]]:
    """Boxes that a label would cover at each of its places, the preferred one first [px]."""
    width = _LETTER_WIDTH * len(label.text)
    boxes = []
    for name, right, up in _PLACES:
        shift = _GAP if name == "middle right" else -_GAP if name == "middle left" else 0.0
        left, bottom = label.x + right * width + shift, label.y + up * _LINE_HEIGHT
        boxes.append((name, (left, bottom, left + width, bottom + _LINE_HEIGHT)))
    return boxes


def _fits(box: Box, size: tuple[float, float], taken: Sequence[Box]) -> bool:
    inside = box[0] >= 0 and box[1] >= 0 and box[2] <= size[0] and box[3] <= size[1]
    return inside and not any(_overlap(box, other) for other in taken)


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


Scale = Literal["linear", "log"]
Point = tuple[float, float]

_LETTER: Final = 0.021
_HEIGHT: Final = 0.06
_TEXT_GAP: Final = 0.012
#: A label may stand over the margins a little, but over no tick.
_BOUNDS: Final[Box] = (0.0, -0.01, 1.05, 1.03)
_MARK: Final = 0.03
_NOTE_LETTER: Final = 0.0235
_NOTE_LINE: Final = 0.055
_NOTE_MARGIN: Final = 0.02
#: Letters of a line that is not broken further.
_NOTE_LEAST: Final = 9
#: Places along a piece of a line where words would cover it.
_SAMPLES: Final = 8


@dataclass(frozen=True, slots=True)
class Plane:
    """Two axes with their ranges, in decades on a log axis."""

    x_scale: Scale
    y_scale: Scale
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def across(self, x: float) -> float:
        """Place of a value on the horizontal axis."""
        return _share(x, self.x_scale, self.x_range)

    def up(self, y: float) -> float:
        """Place of a value on the vertical axis."""
        return _share(y, self.y_scale, self.y_range)


def around(point: Point) -> Box:
    """Room of a mark."""
    return point[0] - _MARK, point[1] - _MARK, point[0] + _MARK, point[1] + _MARK


def along(points: Sequence[Point]) -> list[Point]:
    """Places on a line, close enough to each other to tell whether words would cover it."""
    found = list(points[:1])
    for (x, y), (to_x, to_y) in pairwise(points):
        steps = (step / _SAMPLES for step in range(1, _SAMPLES + 1))
        found += [(x + part * (to_x - x), y + part * (to_y - y)) for part in steps]
    return found


def label_places(
    points: Sequence[Point], labels: Sequence[str], obstacles: Sequence[Point], taken: Sequence[Box]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Side of its point for each label: above a rising line to the left, above a falling one to the right."""
    kept = list(taken)
    found = [("", "top center")] * len(points)
    for index, (point, label) in enumerate(zip(points, labels, strict=True)):
        for side in _sides(points, index) if label else ():
            box = _label_box(point, label, side)
            if _inside(box, _BOUNDS) and not any(_cover(box, other) for other in kept) and not _covered(box, obstacles):
                kept.append(box)
                found[index] = (label, side)
                break
    return tuple(label for label, _ in found), tuple(side for _, side in found)


def note_box(
    text: str, room: Box, from_left: bool, obstacles: Sequence[Point], taken: Sequence[Box]
) -> tuple[tuple[str, ...], Box]:
    """Corner of a room where words cover the least."""
    lines = textwrap.wrap(text, max(int((room[2] - room[0]) / _NOTE_LETTER), _NOTE_LEAST))
    width = _NOTE_LETTER * max(len(line) for line in lines)
    height = _NOTE_LINE * len(lines) + _NOTE_MARGIN
    low = room[1] if room[3] - room[1] >= height else room[3]
    high = max(room[3] - height, low)
    left, right = room[0], max(room[2] - width, 0.0)
    corners = [(left, low), (right, low), (left, high), (right, high)]
    if not from_left:
        corners = [corners[place] for place in (1, 0, 3, 2)]
    boxes = [(x, y, x + width, y + height) for x, y in corners]

    def covers(box: Box) -> float:
        beyond = box[2] > 1.0 + _TEXT_GAP
        return _covered(box, obstacles) + _SAMPLES * (beyond + sum(_cover(box, other) for other in taken))

    return tuple(lines), min(boxes, key=covers)


def _covered(box: Box, points: Sequence[Point]) -> int:
    left, bottom, right, top = box
    return sum(left <= x <= right and bottom <= y <= top for x, y in points)


def _share(value: float, scale: Scale, extent: tuple[float, float]) -> float:
    place = math.log10(value) if scale == "log" else value
    return (place - extent[0]) / (extent[1] - extent[0])


def _sides(points: Sequence[Point], index: int) -> tuple[str, str, str]:
    before, after = points[max(index - 1, 0)], points[min(index + 1, len(points) - 1)]
    rising = (after[0] - before[0]) * (after[1] - before[1]) >= 0
    return ("top left", "bottom right", "top center") if rising else ("top right", "bottom left", "top center")


def _label_box(point: Point, label: str, side: str) -> Box:
    width = _LETTER * len(label)
    vertical, horizontal = side.split()
    left = {"left": -_TEXT_GAP - width, "right": _TEXT_GAP, "center": -width / 2}[horizontal]
    bottom = {"top": _TEXT_GAP, "bottom": -_TEXT_GAP - _HEIGHT}[vertical]
    return point[0] + left, point[1] + bottom, point[0] + left + width, point[1] + bottom + _HEIGHT


def _inside(box: Box, bounds: Box) -> bool:
    return box[0] >= bounds[0] and box[1] >= bounds[1] and box[2] <= bounds[2] and box[3] <= bounds[3]


def _cover(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
