"""Widgets of the Inference page: the latencies that a service promises, part of the link."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from trn2model.ui.present.inference import Limits
from trn2model.ui.shell import Scene
from trn2model.units import to_si

_TTFT_MS: Final = (100, 200, 300, 500, 1000, 2000, 5000, 10000, 30000)
_TPOT_MS: Final = (5, 10, 15, 20, 30, 40, 50, 75, 100, 200, 500)


def limits(scene: Scene) -> dict[str, Any]:
    """Longest latencies to accept.

    Parameters
    ----------
    scene : Scene
        What the page works with.

    Returns
    -------
    dict
        The limits.
    """
    left, right = st.columns(2)
    with left:
        what = "for a prompt that finds its replica free"
        ttft = _slider("Promised time to first token [ms]", "lt", _TTFT_MS, 1000, what)
    with right:
        what = "prefill stalls of full replicas included"
        tpot = _slider("Promised time per output token [ms]", "lp", _TPOT_MS, 50, what)
    return {"limits": Limits(to_si(ttft, "ms"), to_si(tpot, "ms"))}


def _slider(label: str, key: str, stops: tuple[int, ...], default: int, what: str) -> float:
    chosen = st.select_slider(
        label,
        tuple(str(stop) for stop in stops),
        str(default),
        key=key,
        help=f"Shades the region that keeps the promise, {what}. Link key: {key}.",
        bind="query-params",
    )
    return float(str(chosen))
