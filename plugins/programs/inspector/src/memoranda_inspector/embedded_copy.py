"""A copy of an owner's newest items in memory, with an embedder, for a store that has none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from memoranda.items import MemoryMetadata
from memoranda.opening import open as open_store
from memoranda.plugins import Backend, EmbeddingsSpec, default_registry
from memoranda.store import Capability, Store
from memoranda.store.records import copying_records

COPIED = 5_000
"""How many of an owner's newest items are copied."""

_IN_MEMORY = {"vector": "vector://", "sqlite": "sqlite:///:memory:"}


def installed_embedders(store: Store) -> list[str]:
    """Return the names of the embedders that a copy can use; none if the store finds items by meaning itself."""
    if Capability.SEMANTIC in store.capabilities or not _url():
        return []
    return sorted(spec.name for spec in default_registry().specs(EmbeddingsSpec))


def _url() -> str:
    """Return the URL of an installed store in memory that takes an embedder; empty if there is none."""
    installed = {spec.name for spec in default_registry().specs(Backend)}
    return next((url for name, url in _IN_MEMORY.items() if name in installed), "")


class EmbeddedCopy:
    """Keeps the last copy, until another one is needed or the items have changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._opened = AsyncExitStack()
        self._copy: Store | None = None
        self._made_of: object = None

    @asynccontextmanager
    async def of(self, metadata: MemoryMetadata | None, embedder: str) -> AsyncIterator[Store]:
        """Give the copy of an owner's items to one search at a time."""
        async with self._lock:
            items = await self._store.search(metadata=metadata, limit=COPIED, order="added", mode="substring")
            made_of = embedder, [(item.id, item.version) for item in items]
            if self._copy is None or self._made_of != made_of:
                self._copy = None
                await self._opened.aclose()
                copy = await self._opened.enter_async_context(open_store(_url(), embeddings=embedder))
                with copying_records(copy):
                    await copy.add_many(items[::-1])
                self._copy, self._made_of = copy, made_of
            yield self._copy
