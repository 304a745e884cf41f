"""Files that a user names: read whole as text within a limit, or refused in one line."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

from trn2model.errors import InvalidInputError

#: most bytes of a JSON file: a scenario, or a model's config.json
MAX_JSON_BYTES: Final = 1 << 20
#: most bytes of a CSV file: a trace of requests, or a table of measurements
MAX_CSV_BYTES: Final = 16 << 20
_SHOWN: Final = 60


def read_user_file(field: str, path: str, kind: str, most_bytes: int) -> str:
    """Text of a file that a user named.

    Raises InvalidInputError (the path is empty, names no regular file, cannot be read or is too large, or the content
    is not UTF-8).
    """
    shown = path[:_SHOWN]
    remedy = f"give the path of a readable {kind} file"
    if not path:
        raise InvalidInputError(field, shown, "the path of a file", remedy)
    try:
        data = _bytes(Path(path), most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(field, shown, f"a readable file ({reason})", remedy) from error
    if len(data) > most_bytes:
        raise InvalidInputError(field, shown, f"a file of at most {most_bytes:,} bytes", remedy)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(field, shown, "a file of UTF-8 text", remedy) from error


def _bytes(file: Path, most: int) -> bytes:
    """First bytes of a regular file; its kind is looked at before it is opened, which alone can block on a pipe."""
    mode = file.stat().st_mode
    if not stat.S_ISREG(mode):
        message = "Is a directory" if stat.S_ISDIR(mode) else "it is a device or a pipe, not a regular file"
        raise ValueError(message)
    with file.open("rb") as opened:
        return opened.read(most)
