"""Read one state of a store while others write."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from memoranda.store.base import Store


@asynccontextmanager
async def one_state(store: Store) -> AsyncGenerator[bool, None]:
    """Let every read of this task within ``async with one_state(store) as certain:`` see one state of the store.

    ``certain`` is False on a store that cannot do that: its reads see what others write meanwhile. Handles of the store
    read the same state; write outside of it. Leave it soon on a busy store, which keeps what others remove until then.
    """
    store._ensure_open()
    async with store.engine.snapshot() as certain:
        yield certain
