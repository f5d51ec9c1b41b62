"""The same stores without async: one background event loop serves every thread of the process.

with memoranda.sync.open("sqlite:///agent.db") as store:
    store.add(HumanMemory(content="Hello!"))
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

from memoranda.errors import StoreMisuseError
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata, MemoryStatus, Payload
from memoranda.opening import open as open_async
from memoranda.plugins.observers import Observer
from memoranda.store.base import BaseStore
from memoranda.store.capabilities import Capability, SearchMode
from memoranda.store.filters import Moment
from memoranda.store.owners import Owner, OwnerField
from memoranda.store.pages import EVERYTHING, Order
from memoranda.store.ranked import RankedItem
from memoranda.store.scoped import UNSET
from memoranda.tokens import TokenCounter

T = TypeVar("T")

_SCAN_BATCH = 256


class _Portal:
    """The background loop. A forked child has no such thread any more and gets a portal of its own."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="memoranda-sync", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the background loop and return its result; an interrupt cancels it."""
        try:
            self._check()
        except StoreMisuseError:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _check(self) -> None:
        if os.getpid() != self.process:
            raise StoreMisuseError(
                "This store was opened before the process forked, and its connections stayed with the parent. Open a "
                "store of its own in the child."
            )
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise StoreMisuseError(
            "memoranda.sync was called inside a running event loop, which it would block. Use memoranda.open and await "
            "its methods, or call from another thread."
        )


_portal: _Portal | None = None
_portal_lock = threading.Lock()


def _shared_portal() -> _Portal:
    global _portal
    with _portal_lock:
        if _portal is None or _portal.process != os.getpid():
            _portal = _Portal()
        return _portal


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the background loop, from any thread, and return its result.

    Raises StoreMisuseError inside a running event loop, which this would block.
    """
    return _shared_portal().run(work)


def open(url: str | None = None, **options: Any) -> SyncStore:
    """Return the store that a URL names, ready for ``with``; see :func:`memoranda.open`."""
    return SyncStore(open_async(url, **options))


class SyncStore:
    """A store whose methods block until they are done. Safe to share between threads.

    Every method does what the method of that name of :class:`memoranda.BaseStore` does. Called inside a running event
    loop, or in a forked child of the process that made it, each raises StoreMisuseError.
    """

    def __init__(self, store: BaseStore, *, portal: _Portal | None = None) -> None:
        self._store = store
        self._portal = portal or _shared_portal()

    def __repr__(self) -> str:
        return f"SyncStore({self._store!r})"

    def __enter__(self) -> Self:
        self.init()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def awaitable(self) -> BaseStore:
        """The same store with methods to await, for what takes one."""
        return self._store

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the store can do."""
        return self._store.capabilities

    def init(self) -> None:
        """Open the store."""
        self._portal.run(self._store.init())

    def close(self) -> None:
        """Close the store."""
        self._portal.run(self._store.close())

    def exists(self) -> bool:
        """Whether there is such a store, opened or not; nothing is made by asking."""
        return self._portal.run(self._store.exists())

    def observe(self, observer: Observer) -> None:
        """Tell this observer of what is done from now on; its methods are called in the background loop's thread."""
        self._store.observe(observer)

    def add(
        self,
        item: MemoryItem,
        *,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        keep_created: bool = False,
    ) -> None:
        """Store an item."""
        self._portal.run(self._store.add(item, within=within, ttl=ttl, keep_created=keep_created))

    def add_many(
        self,
        items: Iterable[MemoryItem],
        *,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        deleted: Collection[str] = (),
        keep_created: bool = False,
    ) -> None:
        """Store several items."""
        self._portal.run(
            self._store.add_many(list(items), within=within, ttl=ttl, deleted=deleted, keep_created=keep_created)
        )

    def append(
        self,
        items: Iterable[MemoryItem],
        *,
        after: str | None,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
    ) -> str:
        """Store a turn whole, if nobody else has said anything meanwhile."""
        return self._portal.run(self._store.append(list(items), after=after, within=within, ttl=ttl))

    def apply(
        self,
        *,
        adds: Iterable[MemoryItem] = (),
        deletes: Iterable[str] = (),
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        keep_created: bool = False,
        purge: bool = False,
    ) -> int:
        """Delete some items and store others, all or none."""
        return self._portal.run(
            self._store.apply(
                adds=list(adds), deletes=deletes, within=within, ttl=ttl, keep_created=keep_created, purge=purge
            )
        )

    def update(self, item: MemoryItem, *, within: MemoryMetadata | None = None) -> MemoryItem:
        """Replace an item if the store still has its version."""
        return self._portal.run(self._store.update(item, within=within))

    def update_many(self, items: Iterable[MemoryItem], *, within: MemoryMetadata | None = None) -> list[MemoryItem]:
        """Compare-and-set several items, all or none."""
        return self._portal.run(self._store.update_many(list(items), within=within))

    def touch(self, ids: Iterable[str], *, ttl: float | None = None, metadata: MemoryMetadata | None = None) -> int:
        """Let items live longer."""
        return self._portal.run(self._store.touch(ids, ttl=ttl, metadata=metadata))

    def sweep(self) -> int:
        """Remove for good what has expired."""
        return self._portal.run(self._store.sweep())

    def get(self, item_id: str, *, metadata: MemoryMetadata | None = None, refresh: bool = False) -> MemoryItem | None:
        """Return the item of this id."""
        return self._portal.run(self._store.get(item_id, metadata=metadata, refresh=refresh))

    def get_many(
        self, ids: Iterable[str], *, metadata: MemoryMetadata | None = None, refresh: bool = False
    ) -> list[MemoryItem]:
        """Return the items of these ids."""
        return self._portal.run(self._store.get_many(ids, metadata=metadata, refresh=refresh))

    def search(
        self,
        *,
        query: str = "",
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        status: MemoryStatus | None = None,
        limit: int = 10,
        mode: SearchMode | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        where: Mapping[str, Any] | None = None,
        offset: int = 0,
        order: Order | None = None,
        refresh: bool = False,
    ) -> list[MemoryItem]:
        """Return the items that match."""
        return self._portal.run(
            self._store.search(
                query=query,
                metadata=metadata,
                memory_type=memory_type,
                status=status,
                limit=limit,
                mode=mode,
                since=since,
                until=until,
                where=where,
                offset=offset,
                order=order,
                refresh=refresh,
            )
        )

    def search_ranked(
        self,
        *,
        query: str,
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        status: MemoryStatus | None = None,
        limit: int = 10,
        mode: SearchMode | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        where: Mapping[str, Any] | None = None,
        offset: int = 0,
    ) -> list[RankedItem]:
        """Return the items that answer the query best, with their scores."""
        return self._portal.run(
            self._store.search_ranked(
                query=query,
                metadata=metadata,
                memory_type=memory_type,
                status=status,
                limit=limit,
                mode=mode,
                since=since,
                until=until,
                where=where,
                offset=offset,
            )
        )

    def window(
        self,
        *,
        metadata: MemoryMetadata | None = None,
        rounds: int | None = None,
        tokens: int | None = None,
        limit: int | None = None,
        counter: TokenCounter | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[MemoryItem]:
        """Return a conversation as a model may be shown it."""
        return self._portal.run(
            self._store.window(
                metadata=metadata,
                rounds=rounds,
                tokens=tokens,
                limit=limit,
                counter=counter,
                since=since,
                until=until,
                where=where,
            )
        )

    def payloads(
        self, *, metadata: MemoryMetadata | None = None, memory_type: str | None = None, limit: int = EVERYTHING
    ) -> list[Payload]:
        """Return what providers gave, oldest first, without making items of it."""
        return self._portal.run(self._store.payloads(metadata=metadata, memory_type=memory_type, limit=limit))

    def head(self, *, metadata: MemoryMetadata | None = None) -> str | None:
        """Return the id of the item that was added last."""
        return self._portal.run(self._store.head(metadata=metadata))

    def count(
        self,
        *,
        include_deleted: bool = False,
        metadata: MemoryMetadata | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> int:
        """Return the number of items."""
        return self._portal.run(
            self._store.count(include_deleted=include_deleted, metadata=metadata, since=since, until=until, where=where)
        )

    def scan(
        self,
        *,
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        status: MemoryStatus | None = None,
        archived: bool | None = None,
        include_deleted: bool = False,
        since: Moment | None = None,
        until: Moment | None = None,
        where: Mapping[str, Any] | None = None,
        order: Order | None = None,
    ) -> Iterator[MemoryItem]:
        """Yield every item that matches, oldest first."""
        return self._streamed(
            self._store.scan(
                metadata=metadata,
                memory_type=memory_type,
                status=status,
                archived=archived,
                include_deleted=include_deleted,
                since=since,
                until=until,
                where=where,
                order=order,
            )
        )

    def owners(
        self,
        by: OwnerField = "user_id",
        *,
        within: MemoryMetadata | None = None,
        depth: int | None = None,
        suffix: Iterable[str] = (),
        limit: int | None = None,
        offset: int = 0,
        counts: bool = True,
    ) -> Iterator[Owner]:
        """Yield who has something, in order."""
        return self._streamed(
            self._store.owners(by, within=within, depth=depth, suffix=suffix, limit=limit, offset=offset, counts=counts)
        )

    def fork(self, session_id: str, *, at: str, record: BranchMemory | None = None, deleted: bool = False) -> str:
        """Return a new session that shares the past of a session."""
        return self._portal.run(self._store.fork(session_id, at=at, record=record, deleted=deleted))

    def _streamed(self, stream: AsyncGenerator[T, None]) -> Iterator[T]:
        try:
            while batch := self._portal.run(_next_batch(stream)):
                yield from batch
        finally:
            # At the end of the process the background loop stands still, and who waits for it waits forever.
            if not sys.is_finalizing():
                self._portal.run(stream.aclose())

    def clear(
        self,
        *,
        metadata: MemoryMetadata | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> int:
        """Remove the items that match."""
        return self._portal.run(self._store.clear(metadata=metadata, since=since, until=until, where=where))

    def pop(
        self,
        *,
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        where: Mapping[str, Any] | None = None,
        purge: bool = False,
    ) -> MemoryItem | None:
        """Remove and return the item that was added last."""
        return self._portal.run(self._store.pop(metadata=metadata, memory_type=memory_type, where=where, purge=purge))

    def delete(self, item_id: str, *, metadata: MemoryMetadata | None = None) -> bool:
        """Delete an item; it can be restored."""
        return self._portal.run(self._store.delete(item_id, metadata=metadata))

    def restore(self, item_id: str | None = None, *, metadata: MemoryMetadata | None = None) -> int:
        """Bring deleted items back."""
        return self._portal.run(self._store.restore(item_id, metadata=metadata))

    def purge(
        self,
        item_id: str | None = None,
        *,
        metadata: MemoryMetadata | None = None,
        deleted_only: bool = False,
        since: Moment | None = None,
        until: Moment | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> int:
        """Remove items for good."""
        return self._portal.run(
            self._store.purge(
                item_id, metadata=metadata, deleted_only=deleted_only, since=since, until=until, where=where
            )
        )

    def scoped(
        self,
        *,
        user_id: str = UNSET,
        session_id: str = UNSET,
        task_id: str = UNSET,
        agent_id: str = UNSET,
        namespace: tuple[str, ...] = UNSET,
    ) -> SyncStore:
        """Return a handle that is bound to a scope."""
        handle = self._store.scoped(
            user_id=user_id, session_id=session_id, task_id=task_id, agent_id=agent_id, namespace=namespace
        )
        return SyncStore(handle, portal=self._portal)

    def call(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        """Call an async function with the store behind this one: ``store.call(compact, metadata, …)``.

        The function runs in the background loop, and so does what it calls, a summarizer of yours included.
        """
        return self._portal.run(function(self._store, *args, **kwargs))


async def _next_batch(stream: AsyncGenerator[T, None]) -> list[T]:
    batch = []
    async for item in stream:
        batch.append(item)
        if len(batch) == _SCAN_BATCH:
            break
    return batch
