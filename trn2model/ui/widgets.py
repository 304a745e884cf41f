"""From a row of the scenario or view table to its widget; every widget is bound to its key in the URL."""

from __future__ import annotations

from typing import Final

import streamlit as st

from trn2model.errors import InvalidInputError
from trn2model.specs.fields import ScenarioField
from trn2model.specs.scenario import FIELDS
from trn2model.ui.view_fields import VIEW_FIELDS

#: Numbers that a link or the exact-number form has brought in, by URL key, beside the stops of a slider.
_EXTRA_STOPS: Final = "_extra_stops"
_FEW_VALUES: Final = 16
_FIRST_EXACT: Final = "Tensor parallel (tp)"
#: First and last power of two on the slider of a field; any other integer in range still arrives.
_USUAL: Final = {
    "count": (1, 64),
    "tp": (1, 512),
    "pp": (1, 128),
    "cp": (1, 128),
    "ep": (1, 256),
    "dp": (1, 1024),
    "interleave": (1, 16),
    "microbatch_size": (1, 64),
    "global_batch_size": (16, 16384),
    "sequence_length": (512, 1_048_576),
    "lora_rank": (4, 512),
    "input_tokens": (128, 1_048_576),
    "output_tokens": (16, 65536),
    "concurrency": (1, 1024),
    "compiled_batch": (1, 1024),
    "context_bucket": (128, 1_048_576),
    "prefill_chunk": (128, 16384),
    "prefill_replicas": (1, 64),
}


def draw(row: ScenarioField) -> object:
    """Draw the widget of a field, bound to the URL, and read it."""
    label, tip = row.label, f"{row.help} Allowed: {row.allowed()}. Link key: {row.key}."
    if len(tip) > 500:
        tip = f"{row.help} Link key: {row.key}."
    if row.kind == "bool":
        return st.toggle(label, row.default, key=row.key, help=tip, bind="query-params")
    if row.kind == "float":
        return _draw_float(row, label, tip)
    if row.kind == "int":
        return row.parse(_last(_draw_int(row, label, tip)))
    options = row.options()
    text = st.selectbox(
        label, options, options.index(row.format(row.default)), key=row.key, help=tip, bind="query-params"
    )
    return row.parse(text)


def stops(row: ScenarioField) -> tuple[str, ...]:
    """Values on the slider of an integer field: a handful, or the powers of two that people use."""
    first, last = _USUAL.get(row.name, (row.minimum, row.maximum))
    if row.maximum - row.minimum < _FEW_VALUES:
        numbers = set(range(int(row.minimum), int(row.maximum) + 1))
    else:
        numbers = {2**power for power in range(25) if first <= 2**power <= last}
        numbers |= {int(row.minimum)} if row.minimum == 0 else set()
    if isinstance(row.default, int):
        numbers.add(row.default)
    numbers |= st.session_state.get(_EXTRA_STOPS, {}).get(row.key, set())
    return ((row.unset,) if row.unset else ()) + tuple(row.format(number) for number in sorted(numbers))


def add_stop(row: ScenarioField, value: object) -> None:
    """Remember an integer of this session as a stop of its slider."""
    if row.kind == "int" and isinstance(value, int):
        st.session_state.setdefault(_EXTRA_STOPS, {}).setdefault(row.key, set()).add(value)


def draw_exact_number() -> None:
    """Form that sets any integer field to any allowed number, for what lies between the stops of a slider."""
    rows = [row for row in FIELDS if row.kind == "int" and row.maximum - row.minimum >= _FEW_VALUES]
    with st.popover("Set an exact number", icon=":material/dialpad:", width="stretch"):
        with st.form("exact", border=False, enter_to_submit=True):
            labels = [row.label for row in rows]
            st.selectbox("Parameter", labels, labels.index(_FIRST_EXACT), key="_exact_field")
            st.text_input("Value", key="_exact_value", placeholder="for example 7", max_chars=20)
            st.form_submit_button("Set", on_click=_set_exact, width="stretch")
        st.caption("Sliders stop at powers of two; here any integer in range works.")
    if problem := st.session_state.pop("_exact_problem", None):
        st.warning(problem)


def _set_exact() -> None:
    row = next(row for row in FIELDS if row.label == st.session_state["_exact_field"])
    text = str(st.session_state["_exact_value"]).strip().replace(",", "")
    try:
        value = row.parse(text)
    except InvalidInputError as error:
        st.session_state["_exact_problem"] = f"{row.label}: allowed is {error.allowed}."
        return
    add_stop(row, value)
    st.session_state[row.key] = row.format(value)


def _draw_int(row: ScenarioField, label: str, tip: str) -> object:
    options = stops(row)
    default = row.format(row.default)
    if len(options) == 2:
        return st.radio(
            label, options, options.index(default), key=row.key, help=tip, horizontal=True, bind="query-params"
        )
    return st.select_slider(label, options, default, key=row.key, help=tip, bind="query-params")


def _draw_float(row: ScenarioField, label: str, tip: str) -> object:
    """Slider for a share; else a number field, empty where the value is left unset."""
    low, high = float(row.minimum), float(row.maximum)
    default = row.default if isinstance(row.default, float) else None
    if (low, high) == (0.0, 1.0) and default is not None:
        return row.check(st.slider(label, low, high, default, 0.01, key=row.key, help=tip, bind="query-params"))
    number = st.number_input(
        f"{label} [{row.unit}]" if row.unit else label,
        low,
        high,
        default,
        _step(default, high),
        "%g",
        key=row.key,
        help=tip,
        placeholder=row.unset or None,
        bind="query-params",
    )
    return row.check(row.unset if number is None else number)


def _step(default: float | None, high: float) -> float:
    if default is not None:
        return max(default / 10, 0.05)
    return 1.0 if high > 1 else 0.05


def _last(text: object) -> str:
    return str(text[-1]) if isinstance(text, tuple | list) else str(text)


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
