"""Widgets of the collective explorer; what they choose is part of the link, under keys of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import streamlit as st

from trn2model.ui.charts.size_lines import size_name
from trn2model.ui.present import collective_curves, collective_machines, collective_steps
from trn2model.ui.present.collective import ALGORITHM_NAMES, CHEAPEST, GROUPS, OPERATION_NAMES, OWN, SIZES, Exploration
from trn2model.ui.shell import Scene
from trn2model.ui.view import Builder

_SIZES: Final = {size_name(size): size for size in SIZES}
_OPERATIONS: Final = {name: op for op, name in OPERATION_NAMES.items()}
_ALGORITHMS: Final = {CHEAPEST: CHEAPEST} | {name: algorithm for algorithm, name in ALGORITHM_NAMES.items()}


def sections(scene: Scene) -> Iterator[Builder]:
    """Explorer and step player below the Topology page; each is drawn before its content is shown.

    Parameters
    ----------
    scene : Scene
        What the page works with.

    Yields
    ------
    Builder
        Content of a section in the colours asked for.
    """
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
    tip = "Colours the torus by the bytes of one step of the algorithm at a time."
    if st.toggle("Play the steps", key="xp", help=tip, bind="query-params"):
        count = len(collective_steps.score(estimate, view).steps)
        played = replace(view, step=_step(count) if count > 1 else 1)
        yield lambda mode: collective_steps.content(estimate, mode, played)


def _choose() -> Exploration:
    usual = Exploration()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        tip = "An axis of the plan, with all its groups at once, or a number of ranks alone on the machine."
        group = st.segmented_control(
            "Group",
            GROUPS,
            default=usual.group,
            key="xg",
            help=tip,
            bind="query-params",
            required=True,
            width="content",
        )
        ranks = usual.ranks
        if group == OWN:
            tip = "Consecutive ranks from the first."
            ranks = int(st.number_input("Ranks", 2, 65536, ranks, key="xn", help=tip, bind="query-params", width=130))
        names = tuple(_OPERATIONS)
        op = st.selectbox("Operation", names, key="xo", bind="query-params", width=160)
        algorithm = st.selectbox("Algorithm", tuple(_ALGORITHMS), key="xa", bind="query-params", width=160)
    tip = "Size column of nccom-test: the whole buffer of a rank."
    size = st.select_slider(
        "Message size", tuple(_SIZES), size_name(usual.size), key="xb", help=tip, bind="query-params"
    )
    return Exploration(str(group), ranks, _OPERATIONS[op], _SIZES[str(size)], _ALGORITHMS[algorithm])


def _step(count: int) -> int:
    return int(st.slider("Step", 1, count, 1, key="xs", bind="query-params"))
