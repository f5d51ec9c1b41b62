"""The engine that a backend implements, and the layers between a store and its engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar

from memoranda.items import Changes, MemoryItem
from memoranda.loops import offload, ranking_weight
from memoranda.store.owners import Listing, Owner
from memoranda.store.protocol import Access, Capability
from memoranda.store.ranked import RankedItem, Ranker, rank_items
from memoranda.store.requests import AS_ADDED, Packer, Query, Write, Written, items_where

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Opening:
    """What a store tells its engine when it opens it.

    - ``label`` is how messages name the store: its URL without secrets.
    - ``access`` is what the store is opened for. With ``read`` nothing is written, not even tables or indexes.
    - ``item_types`` returns the classes that stored items are read as. They may be replaced while the store is open.
    - ``ranker`` returns what ranks text, for an engine without an index of its own. It raises UnsupportedError if none
      is installed.
    """

    label: str
    access: Access
    item_types: Callable[[], Mapping[str, type[MemoryItem]]]
    ranker: Callable[[], Awaitable[Ranker]]


@dataclass(frozen=True, slots=True)
class Opened:
    """What an engine finds when it is opened.

    - ``mark`` is the text that the last write of a mark left here (:class:`~memoranda.store.backend.Change`), or None.
    - ``next_expiry`` is when the next item expires, deleted ones included; None if none does.
    """

    mark: str | None = None
    next_expiry: str | None = None


class Engine(ABC):
    """Keeps items and answers requests. Requests are checked before they arrive here.

    A method that fails changes nothing and raises an error of :mod:`memoranda.errors`, never one of a driver.
    """

    capabilities: frozenset[Capability]
    """What this engine can do."""

    packer: Packer | None = None
    """Makes a list of rows of items; None if the engine takes items as they are.

    With it, large batches of adds reach :meth:`write` as ``write.packed``, and no item is copied.
    """

    shares_items: bool = False
    """True if a query for items that says ``shared`` may give the items that this engine keeps, not copies."""

    reads_staying: bool = False
    """True if a query for items in the order of adding may ask for what every window shows: see ``Query.staying``."""

    ranks_together: bool = False
    """True if a ranking may ask for several scopes: see ``Query.beside``."""

    async def open(self, opening: Opening) -> Opened:
        """Open the engine, make what it needs, and return what it holds. If this raises, nothing is left open.

        A closed engine may be opened again. An engine that is ready as soon as it is made may be used without it. See
        :meth:`memoranda.store.Store.init` for the errors; StoreNotFoundError is the engine's to raise, if there is
        nothing to open and ``opening.access`` does not allow making it.
        """
        return Opened()

    async def close(self) -> None:  # noqa: B027 - optional: not every engine holds something
        """Wait for calls under way, then release everything, in whichever event loops."""

    async def exists(self) -> bool:
        """Return True if there is something to open. Nothing is made by asking."""
        return True

    @abstractmethod
    async def write(self, write: Write) -> Written:
        """Carry out a write, and return what came of it; all of it or nothing, where the engine is ``atomic``.

        Take what is needed from the items before the first ``await``: the caller may change them afterwards, unless
        ``write.owned``.
        """

    @abstractmethod
    async def read(self, query: Query[T]) -> list[T]:
        """Return what a query asks for. Items are the caller's own copies, unless the query says ``shared``."""

    @abstractmethod
    def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield all items that match, oldest first in the order of the query's page, whatever its size."""

    @abstractmethod
    async def count(self, query: Query[MemoryItem]) -> int:
        """Return how many items match, on whatever page."""

    @abstractmethod
    def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        """Yield the owners of the items that match, in order; see :class:`memoranda.store.backend.Listing`."""

    async def changes(self, query: Query[T], since: object) -> Changes[T]:
        """Return how the items or payloads that match differ from what they were.

        ``since`` is the state that an earlier call with an equal query returned, or None. What has expired meanwhile is
        gone, too. An engine that cannot tell returns all.
        """
        return Changes.of_all(reversed(await self.read(query._replace(page=AS_ADDED))))

    def snapshot(self) -> AbstractAsyncContextManager[bool]:
        """Return a context in which every read of this task sees one state; it gives False if that cannot be had."""
        return nullcontext(False)


LAYER_ORDER = ("spaces", "scope", "observers", "lifetimes", "branches", "telemetry", "", "revisions", "encryption")
"""The order of layers by their names, the outermost first. Layers of other names stand where there is none."""


class Layer(Engine):
    """An engine around an engine: it changes some requests, and passes on the others as they are.

    What a layer does not change costs nothing: the method is that of the engine inside. A plugin's layer is put into a
    store by :func:`memoranda.store.layers.add_layer`.
    """

    name: ClassVar[str]
    """What the layer is called; it has its place in a store by that: see :data:`LAYER_ORDER`."""

    inner: Engine
    """The engine inside."""

    keeps_pages: ClassVar[bool] = False
    """True for a layer with a ``read`` of its own that returns as many items of a page as the engine inside does."""

    def __init__(self, inner: Engine) -> None:
        self.stand_on(inner)

    @classmethod
    def place(cls) -> int:
        """Return the position of this layer among all possible ones, counted from the outside."""
        return LAYER_ORDER.index(cls.name if cls.name in LAYER_ORDER else "")

    def stand_on(self, inner: Engine) -> None:
        """Make this the engine inside."""
        self.inner = inner
        self.reads_staying = inner.reads_staying and (self.keeps_pages or "read" in passed_on(type(self)))
        self._prepare_inside: Callable[[MemoryItem], MemoryItem] = (
            inner.prepare if isinstance(inner, Layer) else as_it_is
        )
        for name in passed_on(type(self)):
            self.__dict__[name] = self._prepare_inside if name == "prepare" else getattr(inner, name)

    @property
    def capabilities(self) -> frozenset[Capability]:  # type: ignore[override]  # read-only here
        """What the engine inside can do."""
        return self.inner.capabilities

    @property
    def packer(self) -> Packer | None:  # type: ignore[override]  # read-only here
        """What makes rows for the engine inside."""
        return self.inner.packer

    @property
    def shares_items(self) -> bool:  # type: ignore[override]  # read-only here
        """Whether the engine inside may give the items that it keeps."""
        return self.inner.shares_items

    @property
    def ranks_together(self) -> bool:  # type: ignore[override]  # read-only here
        """Whether a ranking may ask for several scopes.

        A layer that changes what is read says so itself: it has to change what is asked of each of them.
        """
        return self.inner.ranks_together and "read" in passed_on(type(self))

    def narrow(self, query: Query[T]) -> Query[T]:
        """Return the query for the engine inside."""
        return query

    def change(self, write: Write) -> Write:
        """Return the write for the engine inside."""
        return write

    def item_in(self, item: MemoryItem) -> MemoryItem:
        """Return the item for the engine inside."""
        return item

    def prepare(self, item: MemoryItem) -> MemoryItem:
        """Return a checked item as this layer and those inside it store it. A write holds only prepared items."""
        return self._prepare_inside(self.item_in(item))

    # What a layer only passes on needs no coroutine of its own: it returns that of the engine inside.

    def open(self, opening: Opening) -> Coroutine[Any, Any, Opened]:
        """Open the engine inside."""
        return self.inner.open(opening)

    def close(self) -> Coroutine[Any, Any, None]:
        """Close the engine inside."""
        return self.inner.close()

    def exists(self) -> Coroutine[Any, Any, bool]:
        """Return True if the engine inside has something to open."""
        return self.inner.exists()

    def write(self, write: Write) -> Coroutine[Any, Any, Written]:
        """Carry out the write as this layer changes it."""
        return self.inner.write(self.change(write))

    def read(self, query: Query[T]) -> Coroutine[Any, Any, list[T]]:
        """Return what the query asks for, as this layer narrows it."""
        return self.inner.read(self.narrow(query))

    def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield what matches the query, as this layer narrows it."""
        return self.inner.stream(self.narrow(query))

    def count(self, query: Query[MemoryItem]) -> Coroutine[Any, Any, int]:
        """Return how many items match the query, as this layer narrows it."""
        return self.inner.count(self.narrow(query))

    def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        """Yield the owners of what matches the query, as this layer narrows it."""
        return self.inner.owners(listing, self.narrow(query))

    def changes(self, query: Query[T], since: object) -> Coroutine[Any, Any, Changes[T]]:
        """Return how what matches the query, as this layer narrows it, differs from what it was."""
        return self.inner.changes(self.narrow(query), since)

    def snapshot(self) -> AbstractAsyncContextManager[bool]:
        """Return the context of the engine inside."""
        return self.inner.snapshot()


def as_it_is(item: MemoryItem) -> MemoryItem:
    """Return the item: what the innermost layer hands to its engine."""
    return item


@cache
def passed_on(layer: type[Layer]) -> tuple[str, ...]:
    """Return the methods that a layer leaves to the engine inside: it overrides neither them nor their hooks."""
    hooks = {"write": "change", "prepare": "item_in"}
    hooks |= dict.fromkeys(("read", "stream", "count", "owners", "changes"), "narrow")
    methods = (*hooks, "open", "close", "exists", "snapshot")
    return tuple(
        name
        for name in methods
        if all(getattr(layer, each) is getattr(Layer, each) for each in (name, hooks.get(name, name)))
    )


async def rank_scope(engine: Engine, query: Query[RankedItem], ranker: Ranker) -> list[RankedItem]:
    """Return what a query for ranked text asks for."""
    assert query.ranking is not None, "the query of a ranked search says what is asked"
    # Neighbours count whatever their type, so the other filters come after the ranking.
    scope = await engine.read(items_where(query.wanted.scope()))
    sought = query.wanted.sought()
    weight = ranking_weight(len(scope), (item.content for item in scope))
    chosen = sought if sought.conditions else None
    return await offload(weight, rank_items, ranker.index(), query.ranking.text, scope, chosen, query.page.limit)
