"""Widgets of the Inference page: the latencies that a service promises, part of the link."""

from __future__ import annotations

from typing import Any

import streamlit as st

from trn2model.ui.present.inference import Limits
from trn2model.ui.shell import Scene
from trn2model.ui.view_widgets import slider
from trn2model.units import to_si


def limits(_scene: Scene) -> dict[str, Any]:
    """Longest latencies to accept."""
    left, right = st.columns(2)
    with left:
        ttft = float(slider("lt"))
    with right:
        tpot = float(slider("lp"))
    return {"limits": Limits(to_si(ttft, "ms"), to_si(tpot, "ms"))}
