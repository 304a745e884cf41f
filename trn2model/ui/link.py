"""The address: what it carries in, what was wrong with it, and how to hand it on."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import streamlit as st

from trn2model.specs.scenario import FIELDS, KEYS, Scenario
from trn2model.ui import widgets
from trn2model.ui.present.words import code, legible, linkable
from trn2model.ui.url_codec import Notice, decode, encode
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
    scenario, notices = decode(given)
    view, more = decode_view(given)
    st.session_state[_NOTICES] = (*notices, *more)
    for row in FIELDS:
        widgets.add_stop(row, getattr(scenario, row.name))
    kept = {key: [text] for key, text in (encode(scenario) | view).items()}
    kept |= {key: values for key, values in given.items() if key not in KEYS and key not in VIEW_FIELDS}
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
    return urlunsplit(
        (parts.scheme, parts.netloc, parts.path or "/", urlencode(values, quote_via=quote, safe=",:"), "")
    )
