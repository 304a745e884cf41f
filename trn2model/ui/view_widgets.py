"""Widgets of a row of the view table: bound to its key in the URL, and at its default while nothing is chosen."""

from __future__ import annotations

import streamlit as st

from trn2model.specs.fields import ScenarioField
from trn2model.ui.view_fields import VIEW_FIELDS


def segments(key: str) -> str:
    """Draw a choice as buttons in a row."""
    row = VIEW_FIELDS[key]
    chosen = st.segmented_control(
        row.label,
        row.options(),
        default=row.default,
        key=key,
        help=row.help,
        bind="query-params",
        required=True,
        width="content",
    )
    return _text(row, chosen)


def picker(key: str, width: int) -> str:
    """Draw a choice as a list to open."""
    row, options = VIEW_FIELDS[key], VIEW_FIELDS[key].options()
    place = options.index(row.default)
    return _text(row, st.selectbox(row.label, options, place, key=key, help=row.help, bind="query-params", width=width))


def slider(key: str) -> str:
    """Draw a choice in ascending order as a slider."""
    row = VIEW_FIELDS[key]
    chosen = st.select_slider(row.label, row.options(), row.default, key=key, help=row.help, bind="query-params")
    return _text(row, chosen)


def number(key: str, more: str = "") -> int:
    """Draw a whole number as a field to type in."""
    row = VIEW_FIELDS[key]
    tip = f"{row.help} {more}".strip()
    low, high = int(row.minimum), int(row.maximum)
    value = st.number_input(row.label, low, high, row.default, key=key, help=tip, bind="query-params", width=130)
    return int(row.default if value is None else value)


def step(key: str, most: int) -> int:
    """Draw a whole number as a slider from the row's least value on."""
    row = VIEW_FIELDS[key]
    value = st.slider(row.label, int(row.minimum), most, row.default, key=key, bind="query-params")
    return int(row.default if value is None else value)


def toggle(key: str) -> bool:
    """Draw a switch."""
    row = VIEW_FIELDS[key]
    return bool(st.toggle(row.label, row.default, key=key, help=row.help, bind="query-params"))


def _text(row: ScenarioField, chosen: object) -> str:
    """What was chosen; Streamlit gives None for a value that its control does not have, such as an empty one."""
    return str(row.default if chosen is None else chosen)
