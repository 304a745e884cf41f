"""Links of pages in Streamlit's own test runner: a bad key of a page is said once, and is not handed on."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import ButtonGroup

from trn2model.ui.view_fields import VIEW_FIELDS

ROOT = Path(__file__).resolve().parents[2]
PAGE_KEYS = {
    "topology": ("ax", "gr", "dom", "by", "xg", "xn", "xo", "xa", "xb", "xp", "xs"),
    "inference": ("lt", "lp"),
    "validation": ("vk", "vt", "vs", "vg", "vb"),
}
SEGMENTS = {"topology": ("ax", "by", "xg"), "validation": ("vk", "vt")}


def opened(page: str, parameters: dict[str, str]) -> AppTest:
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=60)
    for key, value in parameters.items():
        app.query_params[key] = value
    return app.run().switch_page(f"pages/{page}.py").run()


def shared(app: AppTest) -> str:
    return app.code[0].value


def test_every_page_key_is_tried() -> None:
    assert {key for keys in PAGE_KEYS.values() for key in keys} == set(VIEW_FIELDS)


@pytest.mark.parametrize("text", ["", "bogus"])
@pytest.mark.parametrize("page", PAGE_KEYS)
def test_bad_keys_of_a_page_get_a_notice_each_and_leave_the_link(page: str, text: str) -> None:
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=60)
    for key in PAGE_KEYS[page]:
        app.query_params[key] = text
    app.query_params["tp"] = "8"
    app.run()
    said = [warning.value for warning in app.warning]
    assert len(said) == len(PAGE_KEYS[page])
    for key in PAGE_KEYS[page]:
        row = VIEW_FIELDS[key]
        notice = next(each for each in said if f"`{key}`" in each)
        assert ("(empty)" if text == "" else f"`{text}`") in notice
        assert f"The default `{row.format(row.default)}` is used" in notice
        assert "allowed is" in notice
    assert shared(app).endswith("?tp=8")
    app = app.switch_page(f"pages/{page}.py").run()
    assert not app.exception
    assert app.header[0].value == page.capitalize()
    for key in SEGMENTS.get(page, ()):
        control = app.get("button_group")[SEGMENTS[page].index(key)]
        assert isinstance(control, ButtonGroup)
        assert control.value == VIEW_FIELDS[key].default


@pytest.mark.parametrize("page", SEGMENTS)
def test_a_control_that_nothing_is_chosen_in_is_at_its_default(page: str) -> None:
    app = opened(page, {})
    for key in SEGMENTS[page]:
        app.session_state[key] = None
    app.run()
    assert not app.exception
    assert app.header[0].value == page.capitalize()


def test_good_keys_of_a_page_stay_in_its_link() -> None:
    app = opened("topology", {"xg": "ranks", "xn": "16", "xb": "16 MiB", "ax": "all"})
    assert not app.warning
    assert shared(app).endswith("?xg=ranks&xn=16&xb=16%20MiB")
