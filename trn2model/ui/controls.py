"""Widgets that belong to one page, what they choose kept in the link, and the sections they open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import streamlit as st

from trn2model.errors import Trn2ModelError
from trn2model.model.serving.steady import ServingEstimate
from trn2model.simulate.queue import Progress, ServingTrace, simulate_scenario
from trn2model.simulate.requests import Requests, parse_trace
from trn2model.specs.provenance import STATUSES
from trn2model.text import count, size_name
from trn2model.ui import page
from trn2model.ui.app import Scene
from trn2model.ui.charts.style import Mode
from trn2model.ui.page import Builder
from trn2model.ui.pages import explorer, queue, replay, sources, topology, validation
from trn2model.ui.pages.collective import ALGORITHM_NAMES, CHEAPEST, OPERATION_NAMES, OWN, SIZES, Exploration
from trn2model.ui.pages.evidence import KIND_NAMES, Evidence, gather
from trn2model.ui.pages.inference import Limits
from trn2model.ui.pages.topology import axis_groups
from trn2model.ui.pages.words import code, legible
from trn2model.ui.view_fields import PLAYED_STEP, VIEW_FIELDS
from trn2model.ui.widgets import draw
from trn2model.units import to_si

_NUMBER_WIDTH: Final = 130


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
        axis = draw(VIEW_FIELDS["ax"], "buttons")
        if axis not in topology.active_axes(estimate):
            axis = topology.ALL
        group = _index("gr", 1 if axis == topology.ALL else axis_groups(estimate, axis).number)
        domain = _index("dom", estimate.network.fabric.num_domains)
        basis = draw(VIEW_FIELDS["by"], "buttons")
    return {"view": topology.View(axis, group, domain, "bytes" if basis == "bytes" else "utilisation", 4)}


def _index(key: str, count: int) -> int:
    """Number of one of several things; the widget is there only when there is something to choose."""
    if count == 1:
        return 0
    row, last = VIEW_FIELDS[key], count - 1
    chosen = int(draw(replace(row, help=f"{row.help} 0 to {last}."), "number", _NUMBER_WIDTH))
    if chosen > last:
        st.caption(f"There is no {chosen:,}: this plan has 0 to {last:,}, and {last:,} is shown.", width="content")
    return min(chosen, last)


def limits(_scene: Scene) -> dict[str, Any]:
    """Longest latencies to accept."""
    left, right = st.columns(2)
    with left:
        ttft = float(draw(VIEW_FIELDS["lt"], "slider"))
    with right:
        tpot = float(draw(VIEW_FIELDS["lp"], "slider"))
    return {"limits": Limits(to_si(ttft, "ms"), to_si(tpot, "ms"))}


_KINDS: Final = {name: kind for kind, name in KIND_NAMES.items()}


def choose(_scene: Scene) -> dict[str, Any]:
    """Which measurements the page shows, and which one it looks at."""
    evidence = _evidence()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind, trust = draw(VIEW_FIELDS["vk"], "buttons"), draw(VIEW_FIELDS["vt"], "buttons")
        system, group = draw(VIEW_FIELDS["vs"], "list", 190), draw(VIEW_FIELDS["vg"], "list", 140)
        bounds = draw(VIEW_FIELDS["vb"])
    picked = str(st.session_state.get(validation.PICKED, ""))
    return {
        "evidence": evidence,
        "view": validation.View(_KINDS[kind], system, trust, group, bounds, picked),
    }


@st.cache_resource(show_spinner="Comparing every published measurement …")
def _evidence() -> Evidence:
    return gather()


_SIZES: Final = {size_name(size): size for size in SIZES}
_OPERATIONS: Final = {name: op for op, name in OPERATION_NAMES.items()}
_ALGORITHMS: Final = {CHEAPEST: CHEAPEST} | {name: algorithm for algorithm, name in ALGORITHM_NAMES.items()}


def sections(scene: Scene) -> Iterator[Builder]:
    """Explorer and step player below the Topology page; each is drawn before its content is shown."""
    estimate = scene.estimate
    if estimate is None:
        return
    st.subheader(explorer.TITLE, anchor="collective", divider="gray")
    view = _choose()
    yield lambda mode: explorer.content(estimate, mode, view)
    if explorer.applies(estimate, view):
        st.markdown(f"#### {explorer.MACHINES_TITLE}")
        yield lambda mode: explorer.machines_content(estimate, mode, view)
    st.markdown(f"#### {replay.TITLE}")
    if draw(VIEW_FIELDS["xp"]):
        count = len(replay.score(estimate, view).steps)
        step = draw(replace(PLAYED_STEP, maximum=count), "slider") if count > 1 else 1
        played = replace(view, step=step)
        yield lambda mode: replay.content(estimate, mode, played)


def _choose() -> Exploration:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        group = draw(VIEW_FIELDS["xg"], "buttons")
        ranks = draw(VIEW_FIELDS["xn"], "number", _NUMBER_WIDTH) if group == OWN else Exploration().ranks
        op, algorithm = draw(VIEW_FIELDS["xo"], "list", 160), draw(VIEW_FIELDS["xa"], "list", 160)
    return Exploration(group, ranks, _OPERATIONS[op], _SIZES[draw(VIEW_FIELDS["xb"], "slider")], _ALGORITHMS[algorithm])


_RUN: Final = "_queue_run"
_POISSON: Final = "Poisson"
_TRACE: Final = "your own trace"
#: Largest trace; the server takes nothing larger.
MAX_TRACE_MB: Final = 16
_LOADS: Final = ("5", "25", "50", "70", "80", "90", "100", "120")
_COUNTS: Final = ("200", "1000", "5000")
_SPREADS: Final = ("0", "25", "50", "100")


def section(scene: Scene) -> None:
    """Draw the queue below the page, unless the scenario means nothing."""
    if scene.serving is not None:
        st.subheader("Request queue", anchor=False)
        _queue(scene.serving, scene.mode)


@st.fragment
def _queue(estimate: ServingEstimate, mode: Mode) -> None:
    """Controls and result; a change in the sidebar stops a run, because the page then starts again."""
    st.caption(
        "Poisson arrivals, or your own trace, through the replicas: first come first served, continuous batching. "
        "Every prompt costs its own length and context; prompts that wait share a prefill pass where the engine "
        "computes several."
    )
    options = _options(estimate)
    key = (estimate.resolved.scenario, *options.values())
    ready = options["number"] is not None or options["trace"] is not None
    if st.button("Run the queue", icon=":material/play_arrow:", key="queue-run", type="primary", disabled=not ready):
        st.session_state[_RUN] = (key, _run(estimate, options))
    kept: tuple[Any, ServingTrace | None] | None = st.session_state.get(_RUN)
    if kept is None or kept[1] is None:
        return
    if kept[0] != key:
        st.info("The scenario or the arrivals have changed since the last run.", icon=":material/update:")
        return
    warning = queue.room_warning(estimate, kept[1])
    if warning:
        st.warning(warning, icon=":material/memory:")
    st.markdown(queue.summary(kept[1]))
    left, right = st.columns(2, gap="medium")
    with left:
        page.show_block(queue.percentiles(kept[1]), "queue-table")
    with right:
        page.show_block(queue.in_system(estimate, kept[1], mode), "queue-chart")


def _options(estimate: ServingEstimate) -> dict[str, Any]:
    """Arrivals: Poisson with its settings, or a trace, which is None until one has arrived whole."""
    arrivals = st.segmented_control(
        "Arrivals", (_POISSON, _TRACE), default=_POISSON, key="queue-arrivals", required=True
    )
    return _own_trace() if arrivals == _TRACE else _poisson(estimate)


def _poisson(estimate: ServingEstimate) -> dict[str, Any]:
    first, second, third = st.columns(3)
    with first:
        load = st.select_slider("Load [% of full replicas]", _LOADS, "70", key="queue-load")
    with second:
        number = st.select_slider("Requests", _COUNTS, "1000", key="queue-count")
    with third:
        spread = st.select_slider("Spread of lengths [%]", _SPREADS, "25", key="queue-spread")
    variation = to_si(float(spread), "%")
    rate = queue.arrival_rate(estimate, to_si(float(load), "%"), variation)
    st.caption(f"{count(rate)} requests/s over all replicas.")
    return {"rate": rate, "number": int(number), "variation": variation, "trace": None}


def _own_trace() -> dict[str, Any]:
    upload = st.file_uploader(
        "CSV with arrival, input, output", type="csv", max_upload_size=MAX_TRACE_MB, key="queue-trace"
    )
    if upload is None:
        st.caption("No trace has arrived yet, so there is nothing to run; a file marked as failed above is not used.")
        return {"rate": 1.0, "number": None, "variation": 0.0, "trace": None}
    st.caption(f"Arrivals come from {code(upload.name)}.")
    return {"rate": 1.0, "number": None, "variation": 0.0, "trace": upload.getvalue()}


def _run(estimate: ServingEstimate, options: dict[str, Any]) -> ServingTrace | None:
    bar = st.progress(0.0, "Serving requests …")

    def show(progress: Progress) -> None:
        bar.progress(progress.finished / progress.total, f"{progress.finished:,} of {progress.total:,} requests served")

    try:
        trace = simulate_scenario(
            estimate.resolved.scenario,
            options["rate"],
            options["number"] or 1,
            variation=options["variation"],
            trace=_trace(options["trace"]),
            progress=show,
        )
    except Trn2ModelError as error:
        bar.empty()
        st.error(legible(str(error), 400), icon=":material/error:")
        return None
    bar.empty()
    return trace


def _trace(content: bytes | None) -> Requests | None:
    return None if content is None else parse_trace(content.decode("utf-8", "replace"))
