"""A framework's sync methods: each runs its async counterpart in the background loop that serves every thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from memoranda import sync
from memoranda.errors import StoreMisuseError
from memoranda.store import Store
from memoranda.sync import SyncStore

T = TypeVar("T")


class SyncCallError(StoreMisuseError, asyncio.InvalidStateError):
    """A sync method was called inside a running event loop, which it would block."""

    def __init__(self, name: str, instead: str) -> None:
        super().__init__(
            f"{name} was used inside a running event loop, which it would block. Await {instead}(), or use it from "
            f"another thread."
        )


def blocking(name: str, instead: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of a coroutine. ``name`` is what was called, ``instead`` its async counterpart."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return sync.run(work())
    raise SyncCallError(name, instead)


def beside(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, for a framework that calls sync methods inside its event loop, which waits."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return sync.run(work)
    return _threads(os.getpid()).submit(sync.run, work).result()


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process; those of its parent are not there any more after a fork."""
    return ThreadPoolExecutor(thread_name_prefix="memoranda-beside")


def awaitable_store(store: Store | SyncStore) -> Store:
    """Return the async store: the store itself, or the one behind a sync store."""
    return store.awaitable if isinstance(store, SyncStore) else store
