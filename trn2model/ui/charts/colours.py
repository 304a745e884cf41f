"""The colour of every part that charts show, as its place in the palette: the same part looks the same everywhere."""

from __future__ import annotations

from typing import Final

#: What has no colour of its own.
OTHER: Final = 9
#: Where time goes; compute is blue and green, communication warm or dark.
TIME_COLOURS: Final = {
    "forward": 0,
    "backward": 4,
    "recompute": 2,
    "weight gradient": 2,
    "gemm": 0,
    "attention": 4,
    "elementwise": 2,
    "head": 2,
    "tp": 5,
    "cp": 1,
    "ep": 3,
    "pp": 7,
    "dp": 6,
    "kv_transfer": 8,
    "draft": 6,
    "optimizer": 8,
    "bubble": OTHER,
    "wait": OTHER,
    "fixed": OTHER,
    "request": OTHER,
}
#: What HBM holds.
MEMORY_COLOURS: Final = {
    "weights": 0,
    "gradients": 1,
    "optimizer": 2,
    "activations": 3,
    "logits": 4,
    "buffers": 5,
    "kv_cache": 8,
    "reserve": OTHER,
}
#: What a collective waits for.
RESOURCE_COLOURS: Final = {
    "start": OTHER,
    "latency": 4,
    "x/y links": 0,
    "z links": 2,
    "switch": 1,
    "chip": 3,
    "hbm": 6,
    "efa": 5,
}


def time_colour(part: str) -> int:
    """Palette entry of a part of a step or of a phase; exposed communication has the colour of its axis.

    Examples
    --------
    >>> time_colour("forward"), time_colour("tp_exposed") == time_colour("tp")
    (0, True)
    """
    return TIME_COLOURS.get(part.removesuffix("_exposed"), OTHER)


def memory_colour(part: str) -> int:
    """Palette entry of a part of HBM."""
    return MEMORY_COLOURS.get(part, OTHER)
