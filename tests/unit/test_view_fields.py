"""What a page shows travels in a link like the scenario: checked in one place, and never handed on when refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trn2model.specs.scenario import KEYS
from trn2model.ui.view_fields import VIEW_FIELDS, decode_view

UI = Path(__file__).resolve().parents[2] / "trn2model" / "ui"
GOOD = {
    "ax": "tp", "gr": "5", "dom": "2", "by": "bytes", "lt": "500", "lp": "20", "xg": "ranks", "xn": "7",
    "xo": "all-gather", "xa": "KangaRing", "xb": "16 MiB", "xp": "true", "xs": "3", "vk": "collectives",
    "vs": "trn1.32xlarge", "vt": "B", "vg": "profile", "vb": "false",
}  # fmt: skip


def test_every_key_travels_and_none_is_a_key_of_the_scenario() -> None:
    assert set(GOOD) == set(VIEW_FIELDS)
    assert not set(VIEW_FIELDS) & set(KEYS)
    assert decode_view(GOOD) == (GOOD, ())


def test_defaults_leave_the_link() -> None:
    assert decode_view({key: row.format(row.default) for key, row in VIEW_FIELDS.items()}) == ({}, ())


@pytest.mark.parametrize("text", ["", " ", "None", "nonsense", "-1", "1.5", "99999999999999999999", "<b>", "\ud800"])
@pytest.mark.parametrize("key", VIEW_FIELDS)
def test_what_is_not_allowed_is_named_with_the_default(key: str, text: str) -> None:
    texts, notices = decode_view({key: text})
    assert texts == {}
    (notice,) = notices
    assert (notice.key, notice.allowed) == (key, VIEW_FIELDS[key].allowed())
    assert VIEW_FIELDS[key].parse(notice.fallback) == VIEW_FIELDS[key].default
    assert notice.value == text or text == "\ud800"


@given(st.dictionaries(st.sampled_from([*VIEW_FIELDS, "utm"]), st.text(max_size=9) | st.sampled_from([*GOOD.values()])))
def test_what_is_accepted_once_is_accepted_again(given_texts: dict[str, str]) -> None:
    texts, _ = decode_view(given_texts)
    assert decode_view(texts) == (texts, ())


def test_a_machine_without_a_measurement_is_no_choice() -> None:
    assert "trn2.48xlarge" in VIEW_FIELDS["vs"].options()
    assert [notice.key for notice in decode_view({"vs": "trn2-ultraserver"})[1]] == ["vs"]


def test_only_the_tables_bind_widgets_to_the_link() -> None:
    """A key that is bound elsewhere would not be checked."""
    binding = {path.name for path in UI.rglob("*.py") if re.search(r'bind="query-params"', path.read_text("utf-8"))}
    assert binding == {"widgets.py"}
