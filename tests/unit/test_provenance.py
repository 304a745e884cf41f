"""Files that a user names: read within a limit, or refused in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trn2model.errors import InvalidInputError
from trn2model.specs.provenance import read_user_file


def test_text_comes_without_its_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"\xef\xbb\xbfa,b\r\n\xc2\xb5")
    assert read_user_file("csv", str(file), "CSV", 11) == "a,b\r\nµ"


def test_the_limit_is_the_last_size_that_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"x" * 11)
    assert read_user_file("csv", str(file), "CSV", 11) == "x" * 11
    with pytest.raises(InvalidInputError, match="at most 10 bytes"):
        read_user_file("csv", str(file), "CSV", 10)


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InvalidInputError, match="not a regular file"):
        read_user_file("trace", str(pipe), "CSV", 10)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "the path of a file"),
        (".", "Is a directory"),
        ("\0", "null"),
        ("missing", "No such file"),
        ("x" * 9999, "too long"),
        ("/dev/zero", "not a regular file"),
    ],
    ids=ascii,
)
def test_field_and_remedy_are_named(path: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as caught:
        read_user_file("scenario", path, "JSON", 10)
    assert caught.value.field == "scenario"
    assert str(caught.value).endswith("give the path of a readable JSON file")
    assert len(str(caught.value)) < 300
