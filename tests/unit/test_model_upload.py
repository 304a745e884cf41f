"""A visitor's config.json: read with or without a byte order mark, and refused in words that show what is wrong."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from trn2model.specs.provenance import MAX_CSV_BYTES
from trn2model.ui.controls import MAX_TRACE_MB
from trn2model.ui.model_upload import held_file, read
from trn2model.ui.pages.words import code

ROOT = Path(__file__).resolve().parents[2]
LLAMA = {
    "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "vocab_size": 32000,
    "intermediate_size": 1024,
}  # fmt: skip


def problem(content: bytes, name: str = "config.json") -> str:
    held = held_file(name, content)
    assert held.spec is None
    return held.problem


def with_field(key: str, value: object) -> bytes:
    return json.dumps({**LLAMA, key: value}).encode()


def test_a_byte_order_mark_is_no_obstacle() -> None:
    text = json.dumps(LLAMA)
    assert read(text.encode("utf-8-sig")) == read(text.encode())
    assert held_file("a.json", text.encode("utf-8-sig")).problem == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[[[", "`model_config` is `'[[['`. Allowed: valid JSON."),
        (with_field("hidden_size", 10**30), "is `100000000000… (31 digits)`. Allowed: a whole number from 1 to"),
        (with_field("hidden_size", None), "`hidden_size` is missing."),
        (with_field("layer_types", "x"), "`layer_types` is `'x'`. Allowed: a list"),
        (with_field("rope_scaling", 5), "`rope_scaling` is `5`. Allowed: an object or null."),
        (with_field("quantization_config", [1]), "`quantization_config` is `[1]`."),
        (with_field("sliding_window", -1), "`sliding_window` is `-1`. Allowed: a whole number from 0 to"),
        (with_field("model_type", "<img src=x>"), "`model_type = '<img src=x>' is not supported"),
        (b"\xff\xfe{", "the file is not UTF-8 text"),
        (b" " * 300_000, "the file has 300,000 bytes; a config.json has at most 262,144"),
    ],
)
def test_a_refused_file_shows_what_was_wrong(content: bytes, said: str) -> None:
    text = problem(content)
    assert said in text
    assert "·" not in text


def test_a_code_span_cannot_be_left() -> None:
    assert code("a`b``c") == "``` a`b``c ```"
    assert code("a\nb\u202ec\x00") == "`a b\\u202ec\\x00`"
    assert code("") == code(" \n") == "(empty)"
    assert len(code("x" * 1000)) == 63


def test_the_servers_limit_lets_every_upload_of_a_page_through() -> None:
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert config["server"]["maxUploadSize"] == MAX_TRACE_MB
    assert MAX_TRACE_MB << 20 == MAX_CSV_BYTES


def test_a_file_replaces_what_was_said_of_the_one_before() -> None:
    def field() -> None:
        from trn2model.ui import model_upload

        model_upload.draw()

    app = AppTest.from_function(field).run()
    app.file_uploader[0].upload("broken.json", b"[[[", "application/json").run()
    assert app.error[0].value.startswith("`broken.json` was not used: ")
    app.file_uploader[0].upload("good.json", json.dumps(LLAMA).encode(), "application/json").run()
    assert not app.exception
    assert not app.error
    assert "your own model from `good.json`" in app.info[0].value
    assert not app.file_uploader[0].value
    app.run()
    assert app.info
    app.button(key="_own_model_forget").click().run()
    assert not app.info
    assert not app.exception
