"""A visitor's own model: a Hugging Face config.json that stays in the session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import streamlit as st

from trn2model.errors import DataError, InvalidInputError, Trn2ModelError
from trn2model.specs.hf import model_from_hf_config
from trn2model.specs.model import ModelSpec
from trn2model.ui.pages.words import code, legible, plain

_MAX_BYTES: Final = 262_144
_FIELD: Final = "_own_model_{}"
_HELD: Final = "_own_model_held"
_TURN: Final = "_own_model_turn"


@dataclass(frozen=True, slots=True)
class Held:
    """The last file that arrived: its name, and its model or what is wrong with it."""

    name: str
    spec: ModelSpec | None
    problem: str = ""


def draw() -> ModelSpec | None:
    """Upload field for a config.json.

    Notes
    -----
    Each file that arrives is kept in the session and the field starts anew, because the field itself would go on
    listing files that the browser refused beside the ones that came after them.
    """
    turn = st.session_state.setdefault(_TURN, 0)
    held: Held | None = st.session_state.get(_HELD)
    with st.popover("Your own model", icon=":material/upload_file:", width="stretch"):
        st.file_uploader(
            "Hugging Face config.json", type="json", max_upload_size=1, key=_FIELD.format(turn), on_change=_take
        )
        st.caption("Read as JSON only, up to 256 kB. It stays in this browser session and is not part of the link.")
        if held:
            st.button("Forget the file", on_click=_forget, key="_own_model_forget", width="stretch")
    if held is None:
        return None
    if held.spec is None:
        st.error(f"{code(held.name)} was not used: {held.problem}", icon=":material/error:")
        return None
    st.info(
        f"Using {plain(held.spec.name)} from {code(held.name)}; links open the model chosen above instead.",
        icon=":material/upload_file:",
    )
    return held.spec


def read(content: bytes) -> ModelSpec:
    """Model of a config.json.

    Raises DataError (the file is too large or is no text); InvalidInputError (the text is not one JSON object, or a
    field is missing, of the wrong type or out of range); UnsupportedError (the model type is not among the known
    families).
    """
    if len(content) > _MAX_BYTES:
        message = f"the file has {len(content):,} bytes; a config.json has at most {_MAX_BYTES:,}"
        raise DataError(message)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        message = "the file is not UTF-8 text"
        raise DataError(message) from None
    return model_from_hf_config(text, "your own model")


def held_file(name: str, content: bytes) -> Held:
    """What a file that arrived gives."""
    try:
        return Held(name, read(content))
    except InvalidInputError as error:
        value = "missing" if error.value is None else code(repr(error.value), 80)
        allowed, remedy = legible(error.allowed, 400), legible(error.remedy, 300)
        return Held(name, None, f"{code(error.field)} is {value}. Allowed: {allowed}. To fix it: {remedy}.")
    except Trn2ModelError as error:
        return Held(name, None, f"{legible(str(error), 500)}.")


def _take() -> None:
    upload = st.session_state.get(_FIELD.format(st.session_state[_TURN]))
    if upload is not None:
        st.session_state[_HELD] = held_file(upload.name, upload.getvalue())
        st.session_state[_TURN] += 1


def _forget() -> None:
    st.session_state.pop(_HELD, None)
