"""An observer that measures the public calls of a store and its handles, and the layer that tells it of their steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from memoranda.items import MemoryItem
from memoranda.store import Observer, Owner, Store
from memoranda.store.backend import Engine, Layer, Listing, Query, Write, Written
from memoranda.store.calls import WATCHING, Begin, Call, End, measure, reported

__all__ = ["Call", "Measuring"]


class Measuring(Observer, ABC):
    """An observer that measures: it is told of calls, and of nothing else.

    What :meth:`around`, or what it returned, raises is logged and changes nothing. Of two that are equal, a store has
    the first.
    """

    only_removals = True  # A store need not prepare anything for the methods of observers that change items.

    @abstractmethod
    def around(self, call: Call) -> End | None:
        """Take note of a call before it begins; return what to call when it has ended, or None to ignore it."""

    def attached(self, store: Store) -> None:
        """Let a store or handle report its calls here, each once."""
        if not any(getattr(around, "__self__", None) == self for around in store.measured_by):
            measure(store, self.around)


T = TypeVar("T")


class TelemetryLayer(Layer):
    """Tells ``begin`` of rankings and of the steps of a stream, and ``expired`` how many items a sweep removed.

    The other steps are told to ``begin`` while a call is measured. ``observer`` is whose layer it is: a store has one
    for each.
    """

    name = "telemetry"
    keeps_pages = True

    def __init__(self, inner: Engine, observer: object, begin: Begin, expired: Callable[[int], None]) -> None:
        super().__init__(inner)
        self.observer = observer
        self.begin = begin
        self._expired = expired

    @property
    def ranks_together(self) -> bool:  # type: ignore[override]  # read-only, as in every layer
        return self.inner.ranks_together

    def write(self, write: Write) -> Coroutine[Any, Any, Written]:
        inner = self.inner.write(write)
        return self._swept(inner) if write.change is not None and write.change.action == "sweep" else inner

    async def _swept(self, sweep: Awaitable[Written]) -> Written:
        written = await sweep
        self._expired(written.changed)
        return written

    def read(self, query: Query[T]) -> Coroutine[Any, Any, list[T]]:
        """Return what the query asks for; a ranking is a step."""
        inner = self.inner.read(query)
        return inner if query.ranking is None else reported(self.begin, "rank", inner)

    def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        return self._watched(self.inner.stream(query))

    def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        return self._watched(self.inner.owners(listing, query))

    async def _watched(self, found: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Yield what a stream yields, and tell of its steps. What its reader does in between is none of them."""
        async with aclosing(found):
            while True:
                token = WATCHING.set(self.begin)
                try:
                    item = await anext(found)
                except StopAsyncIteration:
                    return
                finally:
                    WATCHING.reset(token)
                yield item
