"""Python's garbage collector under many sessions.

Streamlit collects everything after every run of the script, and a full collection walks all that lives: libraries,
caches, sessions. What lives is therefore set aside after each run; what sessions leave behind is collected from time
to time in a thread of its own.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

#: Seconds between two collections of what sessions that ended have left behind.
PERIOD: Final = 20.0


@contextmanager
def set_aside() -> Iterator[None]:
    """Run the script, and set aside what lives after it, so that the collection that follows finds almost nothing."""
    _start()
    try:
        yield
    finally:
        gc.freeze()


def collect() -> None:
    """Free what nothing reaches any more, and set the rest aside again."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@cache
def _start() -> threading.Thread:
    thread = threading.Thread(target=_collect_for_ever, name="collector", daemon=True)
    thread.start()
    return thread


def _collect_for_ever() -> None:
    never = threading.Event()
    while not never.wait(PERIOD):
        collect()
