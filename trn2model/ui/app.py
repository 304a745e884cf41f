"""The frame round every page: page list, sidebar, address, and what a page gets to work with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

import streamlit as st
from PIL import Image

from trn2model.errors import InvalidInputError, Trn2ModelError
from trn2model.model.serving.steady import ServingEstimate
from trn2model.model.training.step import TrainingEstimate
from trn2model.specs.link import Notice, decode_rows, encode, link_texts, query_string
from trn2model.specs.scenario import FIELDS, KEYS, Scenario
from trn2model.ui import collector, estimates, model_upload, widgets
from trn2model.ui.charts.style import Mode
from trn2model.ui.pages.words import code, complaint, legible, linkable
from trn2model.ui.view_fields import VIEW_FIELDS, decode_view

_SWEPT: Final = "_link_swept"
_NOTICES: Final = "_link_notices"


def sweep() -> None:
    """On a session's first run, before any widget: check the link, note what is wrong, and run again without it.

    Streamlit drops a bad value silently, and clamps some instead; here the value gives way to its default and the
    address follows.
    """
    if st.session_state.get(_SWEPT):
        return
    st.session_state[_SWEPT] = True
    given = {key: st.query_params.get_all(key) for key in st.query_params}
    rows = (*FIELDS, *VIEW_FIELDS.values())
    values, st.session_state[_NOTICES] = decode_rows(rows, given)
    for row in FIELDS:
        widgets.add_stop(row, values.get(row.name))
    kept = {key: [text] for key, text in link_texts(rows, values).items()}
    kept |= {key: texts for key, texts in given.items() if key not in KEYS and key not in VIEW_FIELDS}
    if kept != given:
        st.query_params.from_dict(kept)
        st.rerun()


def show_notices() -> None:
    """One warning per value of the link that fell back to its default."""
    notices: tuple[Notice, ...] = st.session_state.get(_NOTICES, ())
    for notice in notices:
        st.warning(
            f"The link sets `{notice.key}` ({notice.name.replace('_', ' ')}) to {code(notice.value, 40)}, which is not "
            f"possible: allowed is {legible(notice.allowed, 800)}. The default `{notice.fallback}` is used.",
            icon=":material/link_off:",
        )
    if notices and st.button("Dismiss", type="tertiary", key="_dismiss_notices"):
        st.session_state[_NOTICES] = ()
        st.rerun()


def address(scenario: Scenario) -> str:
    """Link to the page on show with this scenario; a model of one's own is left out."""
    values = encode(linkable(scenario))
    values |= decode_view({key: st.query_params.get_all(key) for key in st.query_params})[0]
    parts = urlsplit(st.context.url or "")
    return urlunsplit((parts.scheme, parts.netloc, parts.path or "/", query_string(values), ""))


#: file and title; no icons, because Streamlit fetches a page's icon from the network as its favicon
PAGES: Final = (
    ("pages/overview.py", "Overview"),
    ("pages/chip.py", "Chip"),
    ("pages/topology.py", "Topology"),
    ("pages/training.py", "Training"),
    ("pages/inference.py", "Inference"),
    ("pages/validation.py", "Validation"),
    ("pages/sources.py", "Sources"),
)
_SIDEBAR_WIDTH: Final = 330
#: A click on the page list before all bound widgets are mounted would lose the link's parameters: it waits for them.
#: Only in a session's first run, for the browser pays for :has at every repaint.
_FIRST_STYLE: Final = """<style>
.stApp:not(:has(.st-key-LAST input)) :is([data-testid="stTopNavLink"], [data-testid="stSidebarNavLink"]),
.stApp:has([data-testid="stSidebar"] [data-testid="stSkeleton"])
  :is([data-testid="stTopNavLink"], [data-testid="stSidebarNavLink"]) {pointer-events: none}
</style>""".replace("LAST", FIELDS[-1].key)
_STYLE: Final = """<style>
[data-testid="stMainBlockContainer"] {padding: 4.5rem 2rem 3rem}
[data-testid="stMetricValue"] {font-size: 1.35rem}
.presets, .presets a {color: var(--text-color, inherit); font-size: 0.95rem}
dl.facts {display: grid; grid-template-columns: max-content 1fr; gap: 0.3rem 0.9rem; margin: 0; font-size: 0.95rem}
dl.facts :is(dt, dd) {margin: 0; padding: 0; overflow-wrap: anywhere} dl.facts dt {opacity: 0.75}
@media (max-width: 640px) {
  [data-testid="stMainBlockContainer"] {padding: 4.5rem 1rem 2rem}
  [class*="st-key-wide-"] {overflow-x: auto}
  [class*="st-key-wide-"] > div {min-width: 760px}
}
</style>"""
_OPEN_GROUPS: Final = ("Model", "System", "Parallelism")
_ENTERED: Final = "_entered_by_dashboard"
_SCENARIO: Final = "_scenario"
_PROBLEM: Final = "_scenario_problem"


@dataclass(frozen=True, slots=True)
class Scene:
    """What a page works with: the scenario, its estimate unless it means nothing, and the colours on the screen.

    Of the two estimates only the one that the page asked for is there.
    """

    scenario: Scenario
    estimate: TrainingEstimate | None
    problem: str | None
    mode: Mode
    serving: ServingEstimate | None = None

    @property
    def subject(self) -> TrainingEstimate | ServingEstimate | None:
        """Estimate that the page is about."""
        return self.serving or self.estimate


def run() -> None:
    """Draw the frame and run the chosen page; the whole of ``dashboard.py``."""
    st.html(_STYLE)
    st.html("<style></style>" if st.session_state.get(_SCENARIO) else _FIRST_STYLE)
    page = st.navigation(_pages(), position="top")
    st.set_page_config(f"{page.title} · trn2model", _icon(), layout="wide", initial_sidebar_state=_SIDEBAR_WIDTH)
    sweep()
    st.session_state[_ENTERED] = True
    with st.sidebar:
        _draw_scenario()
    show_notices()
    with collector.set_aside():
        page.run()


def enter(workload: Literal["train", "serve"] | None = "train") -> Scene:
    """First call of every page: its scenario and estimate, once the frame stands.

    Notes
    -----
    A fresh server whose first visitor opens a page's own address runs that page's file alone, because it lies in a
    folder called pages. Then the pages are declared here and the session starts again from ``dashboard.py``.
    """
    if not st.session_state.get(_ENTERED):
        st.navigation(_pages(), position="hidden")
        st.rerun()
    scenario: Scenario = st.session_state[_SCENARIO]
    mode: Mode = "dark" if st.context.theme.type == "dark" else "light"
    if workload is None:
        return Scene(scenario, None, None, mode)
    if problem := st.session_state[_PROBLEM]:
        return Scene(scenario, None, problem, mode)
    try:
        if workload == "serve":
            return Scene(scenario, None, None, mode, estimates.serving(scenario))
        return Scene(scenario, estimates.training(scenario), None, mode)
    except Trn2ModelError as error:
        return Scene(scenario, None, complaint(error), mode)


@cache
def _icon() -> Image.Image:
    """Sixteen chips on a grid; drawn here because Streamlit fetches its named icons from the network."""
    icon = Image.new("RGB", (32, 32), "white")
    for corner in range(16):
        x, y = 8 * (corner % 4) + 1, 8 * (corner // 4) + 1
        icon.paste((0, 114, 178), (x, y, x + 6, y + 6))
    return icon


def _pages() -> list[Any]:
    return [st.Page(path, title=title, default=index == 0) for index, (path, title) in enumerate(PAGES)]


def _draw_scenario() -> None:
    groups = dict.fromkeys(row.group for row in FIELDS)
    values: dict[str, Any] = {}
    for group in groups:
        with st.expander(f"**{group}**", expanded=group in _OPEN_GROUPS):
            for row in FIELDS:
                if row.group == group:
                    values[row.name] = widgets.draw(row)
            if group == "Model":
                values["model"] = model_upload.draw() or values["model"]
    widgets.draw_exact_number()
    st.session_state[_PROBLEM] = None
    try:
        st.session_state[_SCENARIO] = Scenario(**values)
    except InvalidInputError as error:
        st.session_state[_SCENARIO] = Scenario()
        st.session_state[_PROBLEM] = complaint(error)
