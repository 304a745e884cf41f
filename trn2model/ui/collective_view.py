"""Widgets of the collective explorer; what they choose is part of the link, under keys of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import streamlit as st

from trn2model.ui.charts.size_lines import size_name
from trn2model.ui.present import collective_curves, collective_machines, collective_steps
from trn2model.ui.present.collective import ALGORITHM_NAMES, CHEAPEST, OPERATION_NAMES, OWN, SIZES, Exploration
from trn2model.ui.shell import Scene
from trn2model.ui.view import Builder
from trn2model.ui.view_widgets import number, picker, segments, slider, step, toggle

_SIZES: Final = {size_name(size): size for size in SIZES}
_OPERATIONS: Final = {name: op for op, name in OPERATION_NAMES.items()}
_ALGORITHMS: Final = {CHEAPEST: CHEAPEST} | {name: algorithm for algorithm, name in ALGORITHM_NAMES.items()}


def sections(scene: Scene) -> Iterator[Builder]:
    """Explorer and step player below the Topology page; each is drawn before its content is shown."""
    estimate = scene.estimate
    if estimate is None:
        return
    st.subheader(collective_curves.TITLE, anchor="collective", divider="gray")
    view = _choose()
    yield lambda mode: collective_curves.content(estimate, mode, view)
    if collective_machines.applies(estimate, view):
        st.markdown(f"#### {collective_machines.TITLE}")
        yield lambda mode: collective_machines.content(estimate, mode, view)
    st.markdown(f"#### {collective_steps.TITLE}")
    if toggle("xp"):
        count = len(collective_steps.score(estimate, view).steps)
        played = replace(view, step=step("xs", count) if count > 1 else 1)
        yield lambda mode: collective_steps.content(estimate, mode, played)


def _choose() -> Exploration:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        group = segments("xg")
        ranks = number("xn") if group == OWN else Exploration().ranks
        op, algorithm = picker("xo", 160), picker("xa", 160)
    return Exploration(group, ranks, _OPERATIONS[op], _SIZES[slider("xb")], _ALGORITHMS[algorithm])
