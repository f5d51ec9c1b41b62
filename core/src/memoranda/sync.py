"""The same stores without async: one background event loop serves every thread of the process.

with memoranda.sync.open("sqlite:///agent.db") as store:
    store.add(HumanMemory(content="Hello!"))
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from memoranda.errors import StoreMisuseError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.opening import open as open_async
from memoranda.plugins.observers import Observer
from memoranda.store.base import ScopedStore, Store
from memoranda.store.filters import Kinds, Moment, Narrowing
from memoranda.store.protocol import Capability
from memoranda.store.ranked import Recalled

P = ParamSpec("P")
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


def _blocking(
    method: Callable[Concatenate[Store, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncStore, P], T]:
    """Return a method of SyncStore that awaits the store's method of the same name."""

    @wraps(method)
    def call(self: SyncStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        work: Coroutine[Any, Any, T] = self._started(method.__name__, args, kwargs)
        return self._run(work)

    return call


def _streaming(
    method: Callable[Concatenate[Store, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[SyncStore, P], Iterator[T]]:
    """Return a method of SyncStore that yields what the store's method of the same name yields."""

    @wraps(method)
    def call(self: SyncStore, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        stream: AsyncGenerator[T, None] = self._started(method.__name__, args, kwargs)
        try:
            while batch := self._run(_next_batch(stream)):
                yield from batch
        finally:
            # When the process ends, the background loop has stopped: waiting for it would take forever.
            if not sys.is_finalizing():
                self._run(stream.aclose())

    return call


def _binding(
    method: Callable[Concatenate[Store, P], ScopedStore],
) -> Callable[Concatenate[SyncStore, P], SyncStore]:
    """Return a method of SyncStore that makes a handle, which blocks as well."""

    @wraps(method)
    def call(self: SyncStore, /, *args: P.args, **kwargs: P.kwargs) -> SyncStore:
        return SyncStore(self._started(method.__name__, args, kwargs), portal=self._portal)

    return call


class SyncStore:
    """A store whose methods block until they are done. Safe to share between threads.

    Every method does what the method of that name of :class:`memoranda.Store` does, with the same arguments. Called
    inside a running event loop, or in a forked child of the process that made it, each raises StoreMisuseError.
    """

    def __init__(self, store: Store, *, portal: _Portal | None = None) -> None:
        self._store = store
        self._portal = portal or _shared_portal()
        self._run = self._portal.run

    def __repr__(self) -> str:
        return f"SyncStore({self._store!r})"

    def __enter__(self) -> Self:
        self.init()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _started(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Start a method of the store. The caller's iterators are read in the caller's thread."""
        given = [list(arg) if isinstance(arg, Iterator) else arg for arg in args]
        named = {key: list(arg) if isinstance(arg, Iterator) else arg for key, arg in kwargs.items()}
        return getattr(self._store, name)(*given, **named)

    @property
    def awaitable(self) -> Store:
        """The same store with async methods, for code that needs one."""
        return self._store

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the store can do."""
        return self._store.capabilities

    def observe(self, observer: Observer) -> None:
        """Register an observer; its methods are called in the thread of the background loop."""
        self._store.observe(observer)

    def derived_id(self, text: str, *, digits: int = 32) -> str:
        """Return an id that is made from a text; see :meth:`memoranda.Store.derived_id`."""
        return self._store.derived_id(text, digits=digits)

    def expect_opening(self) -> None:
        """Refuse calls until ``init()`` or ``with``, also where the engine is ready at once."""
        self._store.expect_opening()

    def withheld(self, items: Sequence[MemoryItem]) -> set[str]:
        """Return the ids of those items that observers of this store or handle hide: they arrive deleted."""
        return self._store.withheld(items)

    init = _blocking(Store.init)
    close = _blocking(Store.close)
    exists = _blocking(Store.exists)
    scoped = _binding(Store.scoped)
    space = _binding(Store.space)

    add = _blocking(Store.add)
    add_many = _blocking(Store.add_many)
    append = _blocking(Store.append)
    apply = _blocking(Store.apply)
    update = _blocking(Store.update)
    update_many = _blocking(Store.update_many)
    approve = _blocking(Store.approve)
    check_grant = _blocking(Store.check_grant)
    touch = _blocking(Store.touch)
    sweep = _blocking(Store.sweep)
    fork = _blocking(Store.fork)

    get = _blocking(Store.get)
    get_many = _blocking(Store.get_many)
    search = _blocking(Store.search)
    search_ranked = _blocking(Store.search_ranked)
    if TYPE_CHECKING:

        @overload
        def recall(
            self,
            query: str,
            *,
            limit: int | None = None,
            window: Iterable[MemoryItem] = (),
            metadata: MemoryMetadata | None = None,
            memory_type: Kinds | None = None,
            min_score: float | None = None,
            current: bool = False,
            verdict: Literal[False] = False,
            now: Moment | None = None,
            shared: bool = False,
            **narrowing: Unpack[Narrowing],
        ) -> list[MemoryItem]: ...

        @overload
        def recall(
            self,
            query: str,
            *,
            limit: int | None = None,
            window: Iterable[MemoryItem] = (),
            metadata: MemoryMetadata | None = None,
            memory_type: Kinds | None = None,
            min_score: float | None = None,
            current: bool = False,
            verdict: Literal[True],
            now: Moment | None = None,
            shared: bool = False,
            **narrowing: Unpack[Narrowing],
        ) -> Recalled: ...

        def recall(self, query: str, **asked: Any) -> list[MemoryItem] | Recalled: ...
    else:
        recall = _blocking(Store.recall)
    window = _blocking(Store.window)
    shown = _blocking(Store.shown)
    known = _blocking(Store.known)
    outdated = _blocking(Store.outdated)
    payloads = _blocking(Store.payloads)
    payload_changes = _blocking(Store.payload_changes)
    head = _blocking(Store.head)
    versions = _blocking(Store.versions)
    count = _blocking(Store.count)
    scan = _streaming(Store.scan)
    owners = _streaming(Store.owners)

    clear = _blocking(Store.clear)
    pop = _blocking(Store.pop)
    delete = _blocking(Store.delete)
    restore = _blocking(Store.restore)
    purge = _blocking(Store.purge)
    purge_versions = _blocking(Store.purge_versions)

    def call(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        """Call an async function with the store behind this one: ``store.call(compact, metadata, …)``.

        The function runs in the background loop, and so does what it calls, a summarizer of yours included.
        """
        return self._run(function(self._store, *args, **kwargs))


async def _next_batch(stream: AsyncGenerator[T, None]) -> list[T]:
    batch = []
    async for item in stream:
        batch.append(item)
        if len(batch) == _SCAN_BATCH:
            break
    return batch
