"""LangGraph's sync methods: each runs its async counterpart, whose name begins with ``a``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import memoranda_messages.sessions

T = TypeVar("T")


def blocking(name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of a coroutine. ``name`` is the method that was called."""
    return memoranda_messages.sessions.blocking(f"{name}()", f"a{name}", work)
