"""Widgets that belong to one page; what they choose is part of the link, under keys of its own."""

from __future__ import annotations

from typing import Any

import streamlit as st

from trn2model.specs.fields import AXES
from trn2model.specs.provenance import STATUSES
from trn2model.ui.present import sources, topology
from trn2model.ui.present.groups import axis_groups
from trn2model.ui.shell import Scene


def source_filter(scene: Scene) -> dict[str, Any]:
    """Which figures the Sources page lists.

    Parameters
    ----------
    scene : Scene
        What the page works with.

    Returns
    -------
    dict
        Scope and status.
    """
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
    """Which axis, group and system the Topology page shows, and what colours its links.

    Parameters
    ----------
    scene : Scene
        What the page works with; its estimate exists.

    Returns
    -------
    dict
        The view.
    """
    estimate = scene.estimate
    if estimate is None:
        return {}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        axis = _choice("Traffic and groups of", "ax", (topology.ALL, *AXES), "An axis of degree 1 has nothing to send.")
        if axis not in topology.active_axes(estimate):
            axis = topology.ALL
        number = 1 if axis == topology.ALL else axis_groups(estimate, axis).number
        group = _index("Group", "gr", number, "Which of the axis's groups is outlined.")
        domain = _index("System", "dom", estimate.network.fabric.num_domains, "Which of the systems is drawn.")
        help_basis = "Share of the step a link is busy, or bytes against the fullest link."
        basis = _choice("Colour links by", "by", ("utilisation", "bytes"), help_basis)
    return {"view": topology.View(axis, group, domain, "bytes" if basis == "bytes" else "utilisation", 4)}


def _choice(label: str, key: str, options: tuple[str, ...], tip: str) -> str:
    return st.segmented_control(
        label, options, default=options[0], key=key, help=tip, bind="query-params", required=True, width="content"
    )


def _index(label: str, key: str, number: int, tip: str) -> int:
    """Number of one of several things; the widget is there only when there is something to choose."""
    if number < 2:
        return 0
    value = st.number_input(
        label, 0, 65535, 0, key=key, help=f"{tip} 0 to {number - 1}.", bind="query-params", width=130
    )
    return min(int(value), number - 1)
