"""How sure a number is: its range, and the profile behind it with a link to what was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from trn2model.estimate.serving.steady import ServingEstimate
from trn2model.estimate.training.step import TrainingEstimate
from trn2model.formulas import Numeric
from trn2model.ui.format import duration
from trn2model.ui.present.content import Links
from trn2model.ui.present.evidence import KIND_NAMES
from trn2model.ui.present.words import linkable
from trn2model.ui.url_codec import query_string

_UNFITTED: Final = (1.0, 1.0)


def range_text(ends: tuple[Numeric, Numeric], write: Callable[[float], str] = duration) -> str:
    """Range of a number.

    Examples
    --------
    >>> range_text((0.9, 1.25)), range_text((1.0, 1.0))
    ('900 ms to 1.25 s', '')
    """
    low, high = (float(end) for end in ends)
    if low == high:
        return ""
    return f"{write(low)} to {write(high)}"


def profile_links(estimate: TrainingEstimate | ServingEstimate) -> Links:
    """Name of the profile in use, whether the configuration lies outside what it was fitted to, and its evidence."""
    resolved = estimate.resolved
    profile = resolved.profile
    said = resolved.notes[0].rstrip(".") if profile.widening != _UNFITTED else ""
    outside = f". {said[:1].upper()}{said[1:]}" if said else ""
    kind = "train" if isinstance(estimate, TrainingEstimate) else "decode"
    shown = {"vk": KIND_NAMES[kind], "vg": "profile"}
    query = "&".join(part for part in (query_string(linkable(resolved.scenario)), urlencode(shown)) if part)
    return Links(f"Profile {profile.name}{outside}", (("measurements behind it", query),), "validation")
