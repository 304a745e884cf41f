"""Names beside marks, placed so that they do not cover each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
