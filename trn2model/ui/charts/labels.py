"""Where the words of a chart go: beside their marks or in a corner, clear of lines, marks, ticks and each other."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal

Scale = Literal["linear", "log"]
Range = tuple[float, float]
Point = tuple[float, float]
#: Left, bottom, right and top [px].
Box = tuple[float, float, float, float]

#: Plotly's text positions, the preferred ones first.
SIDES: Final = (
    "bottom center",
    "top center",
    "middle right",
    "middle left",
    "bottom right",
    "bottom left",
    "top right",
    "top left",
)
SMALL: Final = 11
USUAL: Final = 12
#: Width and height of a letter as shares of its size.
_WIDTH: Final = 0.55
_HEIGHT: Final = 1.3
#: Room that words may take beyond the right and the upper end of the axes, where no ticks stand. [px]
_SPILL: Final = (12.0, 6.0)
#: Distance between the places on a line that words must not cover. [px]
_STEP: Final = 4.0
#: Covering a mark, other words or a tick is as bad as so many places on a line.
_WORSE: Final = 8
#: Letters of a line that is not broken further.
_LEAST: Final = 9
_MARGIN: Final = 6.0


@dataclass(frozen=True, slots=True)
class Plane:
    """Two axes with their ranges, in decades on a log axis, and the room that they span [px]."""

    scales: tuple[Scale, Scale]
    x_range: Range
    y_range: Range
    size: tuple[float, float]

    def across(self, x: float) -> float:
        """Distance of a value from the left [px]."""
        return self.size[0] * _share(x, self.scales[0], self.x_range)

    def up(self, y: float) -> float:
        """Distance of a value from the bottom [px]."""
        return self.size[1] * _share(y, self.scales[1], self.y_range)

    def at(self, xs: Sequence[float], ys: Sequence[float]) -> list[Point]:
        """Places of pairs of values [px]; those without a place on a log axis are left out."""
        return [
            (self.across(x), self.up(y))
            for x, y in zip(xs, ys, strict=True)
            if all(value > 0 or scale == "linear" for value, scale in zip((x, y), self.scales, strict=True))
        ]


def reach(marker: float) -> float:
    """Distance at which Plotly sets a text beside a marker of this size [px]."""
    return marker / 1.6 + 1.0


def text_size(text: str, size: float = SMALL) -> tuple[float, float]:
    """Width and height of one line of words [px]."""
    return _WIDTH * size * len(text), _HEIGHT * size


@dataclass(slots=True)
class Placer:
    """What stands on a plot already, and the search for a place beside it [px]."""

    size: tuple[float, float]
    taken: list[Box] = field(default_factory=list)
    lines: list[Point] = field(default_factory=list)

    def add_mark(self, point: Point, marker: float) -> None:
        """Keep words off a marker of a size."""
        half = marker / 2
        self.taken.append((point[0] - half, point[1] - half, point[0] + half, point[1] + half))

    def add_line(self, points: Sequence[Point]) -> None:
        """Keep words off a line."""
        self.lines += points[:1]
        for start, end in pairwise(points):
            steps = max(math.ceil(math.dist(start, end) / _STEP), 1)
            parts = (step / steps for step in range(1, steps + 1))
            self.lines += [(start[0] + p * (end[0] - start[0]), start[1] + p * (end[1] - start[1])) for p in parts]

    def beside(
        self, text: str, point: Point, marker: float, sides: Sequence[str] = SIDES, *, size: float = SMALL
    ) -> str:
        """First side of a marker where words cover nothing; empty where there is none."""
        for side in sides:
            box = _beside(text_size(text, size), point, reach(marker), side)
            if not self._cost(box):
                self.taken.append(box)
                return side
        return ""

    def corner(self, text: str, room: Box, *, from_left: bool) -> tuple[tuple[str, ...], Box]:
        """Lines of a note, and the corner of a room where they cover the least."""
        letter, line = text_size("x", USUAL)
        lines = textwrap.wrap(text, max(int((room[2] - room[0]) / letter), _LEAST))
        width, height = letter * max(len(line) for line in lines), line * len(lines) + _MARGIN
        low = room[1] if room[3] - room[1] >= height else room[3]
        high = max(room[3] - height, low)
        across = (room[0], max(room[2] - width, 0.0))
        places = [(x, y) for y in (low, high) for x in (across if from_left else across[::-1])]
        boxes = [(x, y, x + width, y + height) for x, y in places]
        return tuple(lines), boxes[self.best(boxes)]

    def best(self, boxes: Sequence[Box]) -> int:
        """Number of the box that covers the least, the first of equals; it is taken from then on."""
        costs = [self._cost(box) for box in boxes]
        found = costs.index(min(costs))
        self.taken.append(boxes[found])
        return found

    def _cost(self, box: Box) -> int:
        left, bottom, right, top = box
        outside = left < 0 or bottom < 0 or right > self.size[0] + _SPILL[0] or top > self.size[1] + _SPILL[1]
        covered = sum(left < x < right and bottom < y < top for x, y in self.lines)
        overlaps = sum(left < b[2] and b[0] < right and bottom < b[3] and b[1] < top for b in self.taken)
        return covered + _WORSE * (outside + overlaps)


def _beside(size: tuple[float, float], point: Point, gap: float, side: str) -> Box:
    (x, y), (width, height) = point, size
    up, across = side.split()
    left = x + {"left": -gap - width, "center": -width / 2, "right": gap}[across]
    bottom = y + {"bottom": -gap - height, "middle": -height / 2, "top": gap}[up]
    return left, bottom, left + width, bottom + height


def _share(value: float, scale: Scale, extent: Range) -> float:
    place = math.log10(value) if scale == "log" else value
    return (place - extent[0]) / (extent[1] - extent[0])
