"""Widgets of the Validation page, part of the link, and its evidence, gathered once for all visitors."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from trn2model.ui.present import validation
from trn2model.ui.present.evidence import KIND_NAMES, Evidence, gather
from trn2model.ui.shell import Scene
from trn2model.ui.view_widgets import picker, segments, toggle

_KINDS: Final = {name: kind for kind, name in KIND_NAMES.items()}


def choose(_scene: Scene) -> dict[str, Any]:
    """Which measurements the page shows, and which one it looks at."""
    evidence = _evidence()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind, trust = segments("vk"), segments("vt")
        system, group = picker("vs", 190), picker("vg", 140)
        bounds = toggle("vb")
    picked = str(st.session_state.get(validation.PICKED, ""))
    return {
        "evidence": evidence,
        "view": validation.View(_KINDS[kind], system, trust, group, bounds, picked),
    }


@st.cache_resource(show_spinner="Comparing every published measurement …")
def _evidence() -> Evidence:
    return gather()
