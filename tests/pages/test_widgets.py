"""One factory draws the widget of every row, of the scenario and of what a page shows."""

from __future__ import annotations

from typing import Any

from streamlit.testing.v1 import AppTest

from trn2model.specs.fields import BoolField, ChoiceField, FloatField, IntField, ScenarioField
from trn2model.specs.scenario import FIELDS, ROWS
from trn2model.ui.view_fields import VIEW_FIELDS

TABLES = (*FIELDS, *VIEW_FIELDS.values())


def _draw_all() -> None:
    import streamlit as st

    from trn2model.specs.scenario import FIELDS
    from trn2model.ui.view_fields import VIEW_FIELDS
    from trn2model.ui.widgets import draw

    st.session_state["read"] = {row.name: draw(row) for row in (*FIELDS, *VIEW_FIELDS.values())}


def _draw_looks() -> None:
    import streamlit as st

    from trn2model.ui.view_fields import VIEW_FIELDS
    from trn2model.ui.widgets import draw

    looks = {"by": "buttons", "vs": "list", "lt": "slider", "xn": "number", "xs": "slider"}
    st.session_state["read"] = {key: draw(VIEW_FIELDS[key], look) for key, look in looks.items()}  # type: ignore[arg-type]


def drawn(script: Any) -> AppTest:
    """Session that has run a script."""
    app = AppTest.from_function(script, default_timeout=60).run()
    assert not app.exception
    return app


def test_names_of_both_tables_are_apart() -> None:
    assert len({row.name for row in TABLES}) == len({row.key for row in TABLES}) == len(TABLES)


def test_every_row_has_a_widget_of_its_class_that_reads_its_default() -> None:
    app = drawn(_draw_all)
    assert app.session_state["read"] == {row.name: row.default for row in TABLES}
    kinds: dict[type[ScenarioField], list[Any]] = {
        BoolField: [app.toggle],
        IntField: [app.select_slider, app.radio],
        FloatField: [app.slider, app.number_input],
        ChoiceField: [app.selectbox],
    }
    for kind, groups in kinds.items():
        keys = {widget.key for group in groups for widget in group}
        assert keys == {row.key for row in TABLES if isinstance(row, kind)}


def test_a_row_may_look_otherwise_and_reads_the_same() -> None:
    app = drawn(_draw_looks)
    assert app.session_state["read"] == {key: VIEW_FIELDS[key].default for key in ("by", "vs", "lt", "xn", "xs")}
    app.select_slider(key="lt").set_value("500").run()
    app.number_input(key="xn").set_value(7).run()
    app.slider(key="xs").set_value(3).run()
    assert [app.session_state["read"][key] for key in ("lt", "xn", "xs")] == ["500", 7, 3]


def test_a_chosen_stop_is_read_as_a_number_and_an_empty_number_as_unset() -> None:
    app = drawn(_draw_all)
    app.select_slider(key="tp").set_value("8").run()
    app.number_input(key="mt").set_value(1000.0).run()
    assert app.session_state["read"]["tp"] == 8
    assert app.session_state["read"]["instance_mtbf"] == 1000.0
    app.number_input(key="mt").set_value(None).run()
    assert app.session_state["read"]["instance_mtbf"] == ROWS["instance_mtbf"].default == "auto"
