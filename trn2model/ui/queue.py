"""Queue of the Inference page: runs on demand, shows how far it is, and ends when a visitor moves on."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from trn2model.errors import Trn2ModelError
from trn2model.estimate.serving.steady import ServingEstimate
from trn2model.simulate.requests import Requests, parse_trace
from trn2model.simulate.serving import Progress
from trn2model.simulate.serving_scenario import simulate_scenario
from trn2model.simulate.serving_trace import ServingTrace
from trn2model.ui import view
from trn2model.ui.charts.template import Mode
from trn2model.ui.format import count
from trn2model.ui.present import queue
from trn2model.ui.present.words import code, legible
from trn2model.ui.shell import Scene
from trn2model.units import to_si

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
        view.show_block(queue.percentiles(kept[1]), "queue-table")
    with right:
        view.show_block(queue.in_system(estimate, kept[1], mode), "queue-chart")


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
