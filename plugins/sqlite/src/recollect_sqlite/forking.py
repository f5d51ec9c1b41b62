"""What becomes of open connections in a forked child: nothing may use them there, and nothing may close them.

SQLite forbids to carry a connection over a fork: its locks belong to the parent, its threads are gone, and one of its
mutexes may be held for ever by a thread that no longer exists.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Protocol


class Abandonable(Protocol):
    """What holds connections."""

    def abandon(self) -> object:
        """Let go of every connection and return whatever holds them."""


_watched: weakref.WeakSet[Abandonable] = weakref.WeakSet()


def watch(holder: Abandonable) -> None:
    """Have the holder abandon its connections in every child that is forked from now on."""
    _watched.add(holder)


def forget(holder: Abandonable) -> None:
    """The holder has closed its connections."""
    _watched.discard(holder)


def _abandon_all() -> None:
    for holder in list(_watched):
        # A reference that is never given back keeps the child from closing the connections, even at its end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder.abandon()))
    _watched.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
