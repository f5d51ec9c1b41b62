"""What becomes of open connections in a forked child: nothing may use them there, and nothing may close them.

SQLite forbids to carry a connection over a fork: its locks belong to the parent, its threads are gone, and one of its
mutexes may be held for ever by a thread that no longer exists. Even a connection that the child opens itself finds the
locks in its memory that the parent held at that moment, so a fork waits until no writer is within a transaction.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Protocol


class Abandonable(Protocol):
    """What holds connections."""

    def pause(self, seconds: float) -> bool:
        """Wait until the writer is in no transaction, no longer than this, keep it so, and return whether it is."""

    def go_on(self) -> None:
        """Let the writer work again."""

    def abandon(self) -> object:
        """Let go of every connection and return whatever holds them."""


PATIENCE = 1.0
"""How many seconds a fork waits for a writer; one that waits for another program's lock itself is not waited for."""

_watched: weakref.WeakSet[Abandonable] = weakref.WeakSet()
_paused: list[Abandonable] = []


def watch(holder: Abandonable) -> None:
    """Have the holder abandon its connections in every child that is forked from now on."""
    _watched.add(holder)


def forget(holder: Abandonable) -> None:
    """The holder has closed its connections."""
    _watched.discard(holder)


def _pause_all() -> None:
    _paused.extend(holder for holder in list(_watched) if holder.pause(PATIENCE))


def _go_on() -> None:
    while _paused:
        _paused.pop().go_on()


def _abandon_all() -> None:
    _paused.clear()
    for holder in list(_watched):
        # A reference that is never given back keeps the child from closing the connections, even at its end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder.abandon()))
    _watched.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pause_all, after_in_parent=_go_on, after_in_child=_abandon_all)
