"""From a row of the scenario or view table to its widget; every widget is bound to its key in the URL."""

from __future__ import annotations

from typing import Any, Final, Literal

import streamlit as st

from trn2model.errors import InvalidInputError
from trn2model.specs.fields import BoolField, FloatField, IntField, ScenarioField
from trn2model.specs.scenario import FIELDS

#: Numbers that a link or the exact-number form has brought in, by URL key, beside the stops of a slider.
_EXTRA_STOPS: Final = "_extra_stops"
_FEW_VALUES: Final = 16
_LONGEST_TIP: Final = 500
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

Look = Literal["buttons", "list", "slider", "number"]
Width = int | Literal["stretch"]


def draw(row: ScenarioField, look: Look | None = None, width: Width = "stretch") -> Any:  # noqa: ANN401 (the type is the field's)
    """Draw the widget of a field, bound to its key in the link, and read it.

    Without a look of their own, integers take a slider over the stops that people use, and words a list to open. A
    widget that holds nothing, because the link has what its control has not, reads as the default.
    """
    chosen = _chosen(row, look, width, dict(key=row.key, help=_tip(row), bind="query-params"))
    if isinstance(chosen, tuple | list):
        chosen = chosen[-1]
    if chosen is None:
        return row.default
    return row.read(chosen) if isinstance(chosen, str) else chosen


def _chosen(row: ScenarioField, look: Look | None, width: Width, bound: dict[str, Any]) -> object:
    """Draw the widget of a class of field, and what it holds."""
    if isinstance(row, BoolField):
        return st.toggle(row.label, row.default, **bound)
    if isinstance(row, FloatField):
        return _draw_float(row, bound)
    if isinstance(row, IntField):
        return _draw_stops(row, bound) if look is None else _draw_int(row, look, width, bound)
    return _draw_words(row, look, width, bound)


def _tip(row: ScenarioField) -> str:
    """Help text; in the sidebar also what is allowed, unless that is long, and the link key."""
    if row.group == "View":
        return row.help
    tip = f"{row.help} Allowed: {row.allowed()}. Link key: {row.key}."
    return tip if len(tip) <= _LONGEST_TIP else f"{row.help} Link key: {row.key}."


def stops(row: IntField) -> tuple[str, ...]:
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
    return (*row.options(), *(row.format(number) for number in sorted(numbers)))


def add_stop(row: ScenarioField, value: object) -> None:
    """Remember an integer of this session as a stop of its slider."""
    if isinstance(row, IntField) and isinstance(value, int):
        st.session_state.setdefault(_EXTRA_STOPS, {}).setdefault(row.key, set()).add(value)


def draw_exact_number() -> None:
    """Form that sets any integer field to any allowed number, for what lies between the stops of a slider."""
    rows = [row for row in FIELDS if isinstance(row, IntField) and row.maximum - row.minimum >= _FEW_VALUES]
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


def _draw_stops(row: IntField, bound: dict[str, Any]) -> object:
    options, default = stops(row), row.format(row.default)
    if len(options) == 2:
        return st.radio(row.label, options, options.index(default), horizontal=True, **bound)
    return st.select_slider(row.label, options, default, **bound)


def _draw_int(row: IntField, look: Look, width: Width, bound: dict[str, Any]) -> object:
    control = st.slider if look == "slider" else st.number_input
    return control(row.label, int(row.minimum), int(row.maximum), row.default, width=width, **bound)


def _draw_float(row: FloatField, bound: dict[str, Any]) -> object:
    """Slider for a share; else a number field, empty where the value is left unset."""
    low, high = float(row.minimum), float(row.maximum)
    default = row.default if isinstance(row.default, float) else None
    if (low, high) == (0.0, 1.0) and default is not None:
        return st.slider(row.label, low, high, default, 0.01, **bound)
    label = f"{row.label} [{row.unit}]" if row.unit else row.label
    step = _step(default, high)
    return st.number_input(label, low, high, default, step, "%g", placeholder=row.unset or None, **bound)


def _step(default: float | None, high: float) -> float:
    if default is not None:
        return max(default / 10, 0.05)
    return 1.0 if high > 1 else 0.05


def _draw_words(row: ScenarioField, look: Look | None, width: Width, bound: dict[str, Any]) -> object:
    options, default = row.options(), row.format(row.default)
    if look == "buttons":
        return st.segmented_control(row.label, options, default=default, required=True, width="content", **bound)
    if look == "slider":
        return st.select_slider(row.label, options, default, **bound)
    return st.selectbox(row.label, options, options.index(default), width=width, **bound)
