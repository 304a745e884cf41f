"""A visitor's own model: a Hugging Face config.json that stays in the session."""

from __future__ import annotations

from typing import Final

import streamlit as st

from trn2model.errors import DataError, Trn2ModelError
from trn2model.specs.hf_config import model_from_hf_config
from trn2model.specs.model import ModelSpec
from trn2model.ui.present.words import plain

_MAX_BYTES: Final = 262_144


def draw() -> ModelSpec | None:
    """Upload field for a config.json.

    Returns
    -------
    ModelSpec or None
        The visitor's model while a usable file is held.
    """
    with st.popover("Your own model", icon=":material/upload_file:", width="stretch"):
        upload = st.file_uploader("Hugging Face config.json", type="json", max_upload_size=1, key="_own_model")
        st.caption("Read as JSON only, up to 256 kB. It stays in this browser session and is not part of the link.")
    if upload is None:
        return None
    try:
        spec = read(upload.getvalue())
    except Trn2ModelError as error:
        st.error(f"This config.json was not used: {plain(str(error), 300)}", icon=":material/error:")
        return None
    st.info(f"Using {plain(spec.name)} from your file; links open the model chosen above instead.")
    return spec


def read(content: bytes) -> ModelSpec:
    """Model of a config.json.

    Parameters
    ----------
    content : bytes
        The file.

    Returns
    -------
    ModelSpec
        The model it describes.

    Raises
    ------
    DataError
        The file is too large or is no text.
    InvalidInputError
        The text is not one JSON object, or a field is missing, of the wrong type or out of range.
    UnsupportedError
        The model type is not among the known families.
    """
    if len(content) > _MAX_BYTES:
        message = f"the file has {len(content):,} bytes; a config.json has at most {_MAX_BYTES:,}"
        raise DataError(message)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        message = "the file is not UTF-8 text"
        raise DataError(message) from None
    return model_from_hf_config(text, "your own model")
