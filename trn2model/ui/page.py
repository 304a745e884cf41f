"""Draws a page's content: verdict, metrics, charts with their tables, and what can be taken away."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import escape
from typing import Any, Final, Literal

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from trn2model.specs.model import ModelSpec
from trn2model.text import NOTHING
from trn2model.ui import app, report
from trn2model.ui.app import Scene
from trn2model.ui.charts.chart import Chart, file_stem
from trn2model.ui.charts.style import Mode, ready
from trn2model.ui.pages.content import Block, Content, Facts, Folded, Links, Listing, Metric, Remarks, Verdict
from trn2model.ui.pages.overview import preset_links
from trn2model.ui.pages.words import model_title
from trn2model.ui.tables import Cell, Table, to_csv, to_csv_book

_TABLE_HEIGHT: Final = 420
_LONG_TABLE: Final = 13
#: The browser would print four decimals, which is nothing for microseconds.
_SECONDS: Final = "%.4g"
#: Columns of text that the browser would cut too short.
_WIDTHS: Final[dict[str, Literal["small", "medium", "large"]]] = {
    "value": "small",
    "figure": "medium",
    "source": "medium",
    "note": "large",
    "reason": "large",
    "alternatives": "large",
}

Builder = Callable[[Mode], Content]


def page(
    scene: Scene,
    title: str,
    content: Callable[..., Content],
    controls: Callable[[Scene], dict[str, Any]] | None = None,
    *,
    always: bool = False,
    sections: Callable[[Scene], Iterator[Builder]] | None = None,
    verdict_first: bool = False,
) -> None:
    """Draw a page: title, link and downloads, its own controls, and its content in the colours of the screen."""
    head = st.container()
    if scene.problem:
        with head:
            _head(scene, title, None)
        st.error(scene.problem, icon=":material/block:")
        st.caption("Change the parameter in the sidebar, or start from a preset.")
        _show_links(preset_links())
        if not always:
            return
    top = st.container() if verdict_first else None
    options = controls(scene) if controls else {}

    parts: list[Builder] = []

    def build(mode: Mode) -> Content:
        return content(scene.subject, mode, **options).joined([part(mode) for part in parts])

    if not scene.problem:
        with head:
            _head(scene, title, build)
    _show(build(scene.mode), top)
    for part in sections(scene) if sections and not scene.problem else ():
        _show(part(scene.mode))
        parts.append(part)


def _show(content: Content, top: DeltaGenerator | None = None) -> None:
    with top or st.container():
        if content.configuration:
            st.caption(content.configuration)
        if content.verdict:
            _show_verdict(content.verdict)
        _show_metrics(content.metrics)
    for number, row in enumerate(content.rows):
        for place, block in zip(st.columns(len(row), gap="medium"), row, strict=True):
            with place:
                show_block(block, f"{content.title}-{number}")


def _head(scene: Scene, title: str, build: Builder | None) -> None:
    left, right = st.columns([4, 1], vertical_alignment="center")
    left.header(title, anchor=False)
    with right.popover("Share", icon=":material/ios_share:", width="stretch", key="share"):
        address = app.address(scene.scenario)
        st.caption("Link to this page with this scenario")
        st.code(address, language=None, wrap_lines=True)
        if isinstance(scene.scenario.model, ModelSpec):
            st.caption("Your own model is not part of the link.")
        if build:
            _downloads(scene, build, title, address)


def _downloads(scene: Scene, build: Builder, title: str, address: str) -> None:
    stem = file_stem("trn2model", title, model_title(scene.scenario.model), scene.scenario.system)

    def page() -> Content:
        return build("light")

    def as_json() -> str:
        estimate = scene.subject.to_dict() if scene.subject else None
        return json.dumps(page().to_dict() | {"link": address, "estimate": estimate}, indent=1)

    kinds: tuple[tuple[str, str, str, Callable[[], str]], ...] = (
        ("Report (HTML)", "html", "text/html", lambda: report.html(page(), address)),
        ("Tables (CSV)", "csv", "text/csv", lambda: to_csv_book(page().tables())),
        ("Everything (JSON)", "json", "application/json", as_json),
    )
    for label, ending, mime, make in kinds:
        st.download_button(
            label,
            make,
            f"{stem}.{ending}",
            mime,
            key=f"download-{ending}",
            on_click="ignore",
            icon=":material/download:",
            width="stretch",
        )


def _show_verdict(verdict: Verdict) -> None:
    if verdict.tone == "good":
        st.success(verdict.text, icon=":material/check_circle:")
    elif verdict.tone == "bad":
        st.error(verdict.text, icon=":material/block:")
    else:
        st.info(verdict.text, icon=":material/info:")


def _show_metrics(metrics: tuple[Metric, ...]) -> None:
    if not metrics:
        return
    with st.container(horizontal=True, gap="small"):
        for metric in metrics:
            st.metric(
                metric.label,
                metric.value,
                metric.range or None,
                delta_color="off",
                delta_arrow="off",
                help=metric.help,
                border=True,
                width="stretch",
                height="stretch",
            )


def show_block(block: Block, place: str) -> None:
    """Draw one block of a page."""
    if isinstance(block, Chart):
        _show_chart(block, place)
    elif isinstance(block, Listing):
        st.markdown(f"##### {block.title}")
        if block.note:
            st.caption(block.note)
        _show_table(block.table, block.picks, file_stem(place, block.title))
    elif isinstance(block, Facts):
        _show_facts(block)
    elif isinstance(block, Remarks):
        with st.expander(f"{block.title} ({len(block.lines)})"):
            st.markdown("\n".join(f"- {line}" for line in block.lines))
    elif isinstance(block, Folded):
        folder = st.expander(block.title, key=file_stem(place, block.title), on_change="rerun")
        if folder.open:
            with folder:
                for equation in block.equations:
                    st.markdown(f"**{equation.name}**: {equation.says}")
                    st.latex(equation.latex)
    else:
        _show_links(block)


def _show_links(links: Links) -> None:
    anchors = " · ".join(
        f'<a href="{escape(links.page)}?{escape(query)}" target="_self">{escape(title)}</a>'
        for title, query in links.items
    )
    st.html(f'<p class="presets">{escape(links.title)}: {anchors}</p>')


def _show_facts(facts: Facts) -> None:
    st.markdown(f"##### {facts.title}")
    st.caption(facts.note)
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts.items)
    st.html(f'<dl class="facts" style="padding: 0">{rows}</dl>')
    if facts.links:
        _show_links(facts.links)


def _show_chart(chart: Chart, place: str) -> None:
    key = file_stem(place, chart.words.title)
    config: dict[str, Any] = {
        "displaylogo": False,
        "displayModeBar": True,
        "modeBarButtons": [["toImage"]],
        "toImageButtonOptions": {"format": "png", "scale": 3, "filename": chart.words.file_name},
    }
    with st.container(key=f"{'wide' if chart.wide else 'chart'}-{key}"):
        choosing: dict[str, Any] = {}
        if chart.picks:
            choosing = {"on_select": partial(_pick_point, key, chart.picks), "selection_mode": "points"}
        st.plotly_chart(ready(chart.figure), theme=None, key=key, config=config, alt=chart.words.alt, **choosing)
    twin = st.expander("Table", key=f"{key}-table", type="compact", on_change="rerun")
    if twin.open:
        with twin:
            _show_table(chart.table)
            st.download_button(
                "CSV",
                to_csv(chart.table),
                f"{chart.words.file_name}.csv",
                "text/csv",
                key=f"{key}-csv",
                on_click="ignore",
                icon=":material/download:",
            )


def _pick_point(key: str, target: str) -> None:
    """Keep what a clicked point carries; a click on nothing keeps the last one."""
    points = st.session_state[key].selection.points
    if points and points[0].get("customdata"):
        st.session_state[target] = points[0]["customdata"][0]


def _pick_row(key: str, target: str, names: tuple[Any, ...]) -> None:
    rows = st.session_state[key].selection.rows
    if rows and rows[0] < len(names):
        st.session_state[target] = names[rows[0]]


def _show_table(table: Table, picks: str = "", key: str | None = None) -> None:
    frame = pd.DataFrame(list(table.rows), columns=list(table.columns))
    columns = {name: st.column_config.Column(width=width) for name, width in _WIDTHS.items() if name in table.columns}
    for name in table.columns:
        if name.endswith("[s]"):
            columns[name] = st.column_config.NumberColumn(format=_SECONDS)
        elif name.endswith("[%]") and _to_a_tenth(table.column(name)):
            columns[name] = st.column_config.NumberColumn(format="%.1f")
    if "locator" in table.columns:
        columns["locator"] = st.column_config.LinkColumn(width="medium")
    choosing: dict[str, Any] = {}
    if picks and key:
        names = table.column(table.columns[0])
        choosing = {"key": key, "on_select": partial(_pick_row, key, picks, names), "selection_mode": "single-row"}
    height: Any = "content" if len(table.rows) < _LONG_TABLE else _TABLE_HEIGHT
    st.dataframe(frame, hide_index=True, column_config=columns, height=height, placeholder=NOTHING, **choosing)


def _to_a_tenth(cells: Sequence[Cell]) -> bool:
    """Whether a column of shares was rounded to one decimal place; the browser would drop those that are zero."""
    return all(cell is None or (isinstance(cell, float) and cell == round(cell, 1)) for cell in cells)
