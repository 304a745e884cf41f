"""Widgets that belong to one page; what they choose is part of the link, under keys of its own."""

from __future__ import annotations

from typing import Any

import streamlit as st

from trn2model.specs.provenance import STATUSES
from trn2model.ui.present import sources, topology
from trn2model.ui.present.groups import axis_groups
from trn2model.ui.shell import Scene
from trn2model.ui.view_widgets import number, segments


def source_filter(scene: Scene) -> dict[str, Any]:
    """Which figures the Sources page lists."""
    left, right = st.columns(2)
    scopes = sources.scopes() if scene.estimate else sources.scopes()[1:]
    with left:
        scope = st.selectbox(
            "Figures of", scopes, key="source_scope", help="A system, a chip, a profile, or what this scenario uses."
        )
    with right:
        status = st.selectbox("Status", (sources.ALL, *STATUSES), key="source_status", help="How a figure came about.")
    return {"scope": scope, "status": status}


def topology_view(scene: Scene) -> dict[str, Any]:
    """Which axis, group and system the Topology page shows, and what colours its links."""
    estimate = scene.estimate
    if estimate is None:
        return {}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        axis = segments("ax")
        if axis not in topology.active_axes(estimate):
            axis = topology.ALL
        group = _index("gr", 1 if axis == topology.ALL else axis_groups(estimate, axis).number)
        domain = _index("dom", estimate.network.fabric.num_domains)
        basis = segments("by")
    return {"view": topology.View(axis, group, domain, "bytes" if basis == "bytes" else "utilisation", 4)}


def _index(key: str, count: int) -> int:
    """Number of one of several things; the widget is there only when there is something to choose."""
    if count == 1:
        return 0
    chosen, last = number(key, f"0 to {count - 1}."), count - 1
    if chosen > last:
        st.caption(f"There is no {chosen:,}: this plan has 0 to {last:,}, and {last:,} is shown.", width="content")
    return min(chosen, last)
