"""The collector sets aside what lives and still frees what nothing reaches."""

from __future__ import annotations

import gc
import weakref

import pytest

from trn2model.ui import collector


class Knot:
    """Reachable only from itself: nothing but a collection frees it."""

    def __init__(self) -> None:
        self.self = self


def test_what_lives_after_a_run_is_set_aside() -> None:
    with collector.set_aside():
        kept = Knot()
    assert not any(thing is kept for thing in gc.get_objects())


def test_a_run_that_fails_is_set_aside_too() -> None:
    kept = Knot()
    with pytest.raises(ValueError, match="stopped"), collector.set_aside():
        raise ValueError("stopped")
    assert not any(thing is kept for thing in gc.get_objects())


def test_what_sessions_leave_behind_is_freed_though_it_was_set_aside() -> None:
    left = Knot()
    gone = weakref.ref(left)
    gc.freeze()
    del left
    gc.collect()
    assert gone() is not None
    collector.collect()
    assert gone() is None


def test_one_thread_collects_however_many_sessions_run() -> None:
    assert collector._start() is collector._start()
