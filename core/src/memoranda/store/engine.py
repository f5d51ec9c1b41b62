"""What keeps items: the engine that a backend writes, and the layers that stand between a store and its engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cache
from typing import TypeVar

from memoranda.items import MemoryItem, Payload, PayloadChanges
from memoranda.store.owners import Listing, Owner
from memoranda.store.protocol import Capability
from memoranda.store.query import AS_ADDED, Query, payloads_where
from memoranda.store.writes import Packer, Write, Written

T = TypeVar("T")


class Engine(ABC):
    """Keeps items, and answers requests. All that a request says was checked before it comes here.

    A method that fails changes nothing, and raises an error of :mod:`memoranda.errors`: no exception of a driver.
    """

    capabilities: frozenset[Capability]
    """What this engine can do."""

    @abstractmethod
    async def write(self, write: Write) -> Written:
        """Carry out a write, and return what came of it; all of it or nothing, where the engine is ``atomic``."""

    @abstractmethod
    async def read(self, query: Query[T]) -> list[T]:
        """Return what a query asks for. Items are the caller's own copies."""

    @abstractmethod
    def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield all items that match, oldest first in the order of the query's page, whatever its size."""

    @abstractmethod
    async def count(self, query: Query[MemoryItem]) -> int:
        """Return how many items match, on whatever page."""

    @abstractmethod
    def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        """Yield the owners of the items that match, in order; see :class:`memoranda.store.backend.Listing`."""

    async def changes(self, query: Query[Payload], since: object) -> PayloadChanges:
        """Return how the payloads that match differ from what they were; ``since`` is an earlier state, or None.

        An engine that cannot tell returns all.
        """
        return PayloadChanges.of_all(reversed(await self.read(payloads_where(query.wanted, AS_ADDED))))

    def snapshot(self) -> AbstractAsyncContextManager[bool]:
        """Return a context in which every read of this task sees one state; it gives False if that cannot be had."""
        return nullcontext(False)

    def prepare(self, item: MemoryItem) -> MemoryItem:
        """Return a checked item as a write must have it. Every item that is written was returned from here."""
        return item

    def packer(self) -> Packer | None:
        """Return what makes a list of rows of prepared items, each with the id first; None where items stay whole.

        With it, large batches of adds reach :meth:`write` as ``write.packed``, and no item is copied.
        """
        return None


class Layer(Engine):
    """An engine around an engine: it changes some requests, and passes on the others as they are.

    What a layer does not change costs nothing: the method is that of the engine inside.
    """

    def __init__(self, inner: Engine) -> None:
        self.inner = inner
        for name in passed_on(type(self)):
            self.__dict__[name] = getattr(inner, name)

    @property
    def capabilities(self) -> frozenset[Capability]:  # type: ignore[override]  # read-only here
        """What the engine inside can do."""
        return self.inner.capabilities

    def narrow(self, query: Query[T]) -> Query[T]:
        """Return a query as the engine inside is to answer it."""
        return query

    def change(self, write: Write) -> Write:
        """Return a write as the engine inside is to carry it out."""
        return write

    def item_in(self, item: MemoryItem) -> MemoryItem:
        """Return an item as the engine inside is to have it."""
        return item

    def prepare(self, item: MemoryItem) -> MemoryItem:
        """Return an item as this layer, and those inside, want it."""
        return self.inner.prepare(self.item_in(item))

    async def write(self, write: Write) -> Written:
        """Carry out the write as this layer changes it."""
        return await self.inner.write(self.change(write))

    async def read(self, query: Query[T]) -> list[T]:
        """Return what the query asks for, as this layer narrows it."""
        return await self.inner.read(self.narrow(query))

    def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield what matches the query, as this layer narrows it."""
        return self.inner.stream(self.narrow(query))

    async def count(self, query: Query[MemoryItem]) -> int:
        """Return how many items match the query, as this layer narrows it."""
        return await self.inner.count(self.narrow(query))

    def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        """Yield the owners of what matches the query, as this layer narrows it."""
        return self.inner.owners(listing, self.narrow(query))

    async def changes(self, query: Query[Payload], since: object) -> PayloadChanges:
        """Return how what matches the query, as this layer narrows it, differs from what it was."""
        return await self.inner.changes(self.narrow(query), since)

    def snapshot(self) -> AbstractAsyncContextManager[bool]:
        """Return the context of the engine inside."""
        return self.inner.snapshot()

    def packer(self) -> Packer | None:
        """Return that of the engine inside."""
        return self.inner.packer()


@cache
def passed_on(layer: type[Layer]) -> tuple[str, ...]:
    """Return the methods that a layer leaves to the engine inside: neither they nor their hooks are its own."""
    hooks = {"write": "change", "prepare": "item_in", "snapshot": "snapshot", "packer": "packer"}
    methods = ("write", "read", "stream", "count", "owners", "changes", "snapshot", "packer", "prepare")
    return tuple(
        name
        for name in methods
        if all(getattr(layer, each) is getattr(Layer, each) for each in (name, hooks.get(name, "narrow")))
    )
