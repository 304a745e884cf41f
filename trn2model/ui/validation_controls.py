"""Widgets of the Validation page, part of the link, and its evidence, gathered once for all visitors."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from trn2model.ui.present import validation
from trn2model.ui.present.evidence import KIND_NAMES, Evidence, gather
from trn2model.ui.shell import Scene

_KINDS: Final = {name: kind for kind, name in KIND_NAMES.items()}


def choose(scene: Scene) -> dict[str, Any]:
    """Which measurements the page shows, and which one it looks at.

    Parameters
    ----------
    scene : Scene
        What the page works with.

    Returns
    -------
    dict
        Evidence and view.
    """
    evidence = _evidence()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = _segments("Measured", "vk", tuple(_KINDS), "What was measured.")
        tip = "A: vendor, partner or peer-reviewed; B: third party with its configuration; C: a bound at most."
        trust = _segments("Trust class", "vt", (validation.ALL, *validation.TRUST), tip)
        machines = (validation.ALL, *evidence.systems())
        system = st.selectbox("Measured on", machines, key="vs", bind="query-params", width=190)
        group = st.selectbox("Errors by", validation.GROUPS, key="vg", bind="query-params", width=140)
        tip = "Measurements that hold something unknown besides, such as waiting: the prediction should lie below them."
        bounds = st.toggle("Bounds", True, key="vb", help=tip, bind="query-params")
    picked = str(st.session_state.get(validation.PICKED, ""))
    return {
        "evidence": evidence,
        "view": validation.View(_KINDS[kind], str(system), trust, str(group), bool(bounds), picked),
    }


@st.cache_resource(show_spinner="Comparing every published measurement …")
def _evidence() -> Evidence:
    return gather()


def _segments(label: str, key: str, options: tuple[str, ...], tip: str) -> str:
    chosen = st.segmented_control(
        label, options, default=options[0], key=key, help=tip, bind="query-params", required=True, width="content"
    )
    return str(chosen)
