"""What every store has: what it declares, the layers over its engine, its opening and closing, and common checks."""

from __future__ import annotations

import asyncio
import hashlib
import json
import weakref
from abc import ABC
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, Self, get_args

from memoranda.errors import (
    PluginNotFoundError,
    StoreClosedError,
    UnsupportedError,
    WrappedStoreError,
    unknown_name,
)
from memoranda.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata
from memoranda.loops import LoopLock
from memoranda.plugins.observers import Observer
from memoranda.store.branch_layer import BranchLayer
from memoranda.store.calls import Around
from memoranda.store.engine import Engine, Layer, Opening
from memoranda.store.filters import Filter, Order, check_order
from memoranda.store.lifetimes import LifetimeLayer, Lifetimes
from memoranda.store.observers import ObserverLayer, Observers
from memoranda.store.protocol import BASE_CAPABILITIES, Access, Capability, SearchMode
from memoranda.store.ranked import Ranker, Reranker, installed_ranker
from memoranda.store.requests import Write, Written


class Wrapping(Protocol):
    """A layer that stores items in another form, such as encrypted, so that what is added has to come through it."""

    def unwrapped(self, item: MemoryItem) -> MemoryItem:
        """Return an item that is given to be stored; one in the layer's form, as an export may have it, as it was."""
        ...

    def derived_id(self, text: str, *, digits: int) -> str:
        """Return an id that is made from a text, and that confirms no guess of the text."""
        ...


class Lifecycle(ABC):
    """The state of a store, and the layers between it and its engine, the outermost first: ``engine``.

    Observers are asked first, then comes what lifetimes do, then branches, and then what plugins bring: see the modules
    of these layers. A scoped handle has a layer of its scope around them.
    """

    capabilities: frozenset[Capability] = BASE_CAPABILITIES
    """What this store can do. A class or an instance replaces it with ``BASE_CAPABILITIES | {...}``."""

    item_types: Mapping[str, type[MemoryItem]] = BUILTIN_TYPES
    """The classes that stored items are read as, by ``memory_type``; others are read as MemoryItem."""

    ranker: Ranker | None = None
    """Ranks text, in a store without an index of its own; None is the installed one."""

    reranker: Reranker | None = None
    """Reorders the best results of every ranked search, where one is set."""

    default_mode: ClassVar[SearchMode] = "substring"
    """What ``search(mode=None)`` means."""

    default_order: ClassVar[Order] = "created"
    """What ``search(order=None)`` and ``scan(order=None)`` mean."""

    needs_init: ClassVar[bool] = True
    """True if the store must be opened by ``init()`` or ``async with`` before its first use."""

    access: Access = "create"
    """What the store is opened for; set before that, as :func:`memoranda.open` does. Where it is ``read``, nothing is
    written, not even tables or indexes, and every call that would write is an UnsupportedError."""

    wrapper: str | None = None
    """The prefix of the wrapper that this store is opened for, such as ``"encrypted"``: what is added comes through it
    alone. None for a store that is used as it is."""

    wrapping: Wrapping | None = None
    """The layer of that wrapper. Without it, a store that has a wrapper shows what is stored, and takes no items."""

    engine: Layer
    """What answers the requests of this store: its layers, the outermost first."""

    bottom: Engine
    """What keeps the items, below all layers."""

    measured_by: Sequence[Around] = ()
    """What is told of the public calls of this store or handle: see :func:`memoranda.store.calls.measure`."""

    _has_found_ranker: ClassVar[bool] = False
    _label = ""
    _mark_text: str | None = None
    _bounded: ClassVar[bool] = False
    _within: MemoryMetadata | None = None
    """The scope of a handle: requests that name it from the start are passed on as they are."""

    def __init__(self, bottom: Engine) -> None:
        self._state: Literal["new", "open", "closed"] = "new" if self.needs_init else "open"
        self._observers = Observers()
        self._lifecycle_lock = LoopLock()
        self._handles: weakref.WeakSet[Lifecycle] = weakref.WeakSet()
        self.bottom = bottom
        itself = weakref.proxy(self)
        self._branches = BranchLayer(bottom, lambda: itself._living.now())
        self._living = LifetimeLayer(self._branches)
        self.engine = ObserverLayer(self._living, self._observers, weakref.ref(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def label(self) -> str:
        """How messages name this store: the URL that it was opened with, without its secrets, or else its repr."""
        return self._label or repr(self)

    @property
    def present(self) -> str:
        """The present by the clock of this store, as items carry times."""
        return self._living.now()

    @property
    def lifetimes(self) -> Lifetimes:
        """What is known of the items that will expire. A layer that adds such items takes note of them here."""
        return self._living.lifetimes

    @property
    def layers(self) -> list[Layer]:
        """The layers between this store or handle and its engine, the outermost first."""
        found = [self.engine]
        while isinstance(found[-1].inner, Layer):
            found.append(found[-1].inner)
        return found

    @property
    def clock(self) -> Callable[[], float]:
        """Tells the present, in seconds of Unix time, by which items expire. Set it to have another clock."""
        return self._living.clock

    @clock.setter
    def clock(self, clock: Callable[[], float]) -> None:
        self._living.clock = clock

    # Opening and closing

    async def init(self) -> None:
        """Open the store and create what it needs. Calling it again while open does nothing.

        It is open for every event loop of the process then. A closed store may be opened again. Raises
        StoreUnavailableError when the engine cannot be reached, SchemaTooNewError before anything is touched when a
        later release wrote it, StoreNotFoundError when there is none and :attr:`access` does not allow making one, and
        WrappedStoreError when it is only to be opened with a wrapper, such as encryption.
        """
        async with self._lifecycle_lock.held():
            if self._state != "open":
                opened = await self.engine.open(self._opening())
                self._mark_text = opened.mark
                await self._check_wrapper()
                self._state = "open"

    def _opening(self) -> Opening:
        """Return what the engine is told. It does not keep the store alive."""
        itself = weakref.proxy(self)
        return Opening(self.label, self.access, lambda: itself.item_types, lambda: itself._text_ranker())

    async def _check_wrapper(self) -> None:
        """Raise WrappedStoreError, with everything released, if the store is only to be opened with a wrapper."""
        mark = None if self.wrapper is not None else self.wrapper_mark
        if mark is not None:
            self._state = "closed"
            await self.engine.close()
            raise WrappedStoreError(self.label, mark["prefix"])

    async def close(self) -> None:
        """Wait for calls under way, then release everything, in whichever loops. Calling it again does nothing.

        A loop that takes no turn for ten seconds is not waited for: its calls raise StoreClosedError when it goes on.
        """
        async with self._lifecycle_lock.held(by_force=True):
            was_open, self._state = self._state == "open", "closed"
            if not was_open:
                return
            await self.engine.close()

    async def exists(self) -> bool:
        """Return True if there is such a store, opened or not; nothing is made by asking.

        Raises StoreUnavailableError when the engine cannot be reached, and whatever else opening it would raise.
        """
        return self._state == "open" or await self.engine.exists()

    def expect_opening(self) -> None:
        """Refuse calls until ``init()`` or ``async with``, also where the engine is ready at once."""
        self._state = "new"

    async def __aenter__(self) -> Self:
        await self.init()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # What a wrapper notes

    @property
    def wrapper_mark(self) -> dict[str, Any] | None:
        """What a wrapper had noted in the store when it was opened: its ``prefix``, and what else it needs to know.

        None if there is no note. It is no item, so that nothing that is read or removed reaches it. A wrapper writes it
        as a change ``mark``, in JSON.
        """
        return None if self._mark_text is None else json.loads(self._mark_text)

    # Requests and their checks

    def _submit(self, write: Write) -> Coroutine[Any, Any, Written]:
        """Carry out a write through all layers."""
        if self.access == "read":
            self._ensure_writable()
        return self.engine.write(write)

    @property
    def observers(self) -> list[Observer]:
        """The observers of this store or handle, in the order in which they are asked."""
        return list(self._observers)

    def withheld(self, items: Sequence[MemoryItem]) -> set[str]:
        """Return the ids of those items that observers of this store or handle hide: they arrive deleted."""
        return self._observers.hidden(items)

    @property
    def is_open(self) -> bool:
        """True between the opening and the closing of the store."""
        return self._state == "open"

    @property
    def unobserved(self) -> Layer:
        """What answers requests that observers are neither asked about nor told of, such as those of their own."""
        return self._living

    def _reached(self, wanted: Filter) -> Filter:
        """Return a filter as it comes out of the layers of scope and lifetime."""
        return self._living.alive(wanted)

    def _ensure_open(self) -> None:
        if self._state != "open":
            raise StoreClosedError(self.label, opened=self._state == "closed")
        if self._living.lifetimes.soonest is not None and self.access != "read":
            self._living.sweep_when_due()

    def _ensure_writable(self) -> None:
        if self.access == "read":
            raise UnsupportedError(self.label, "writing", remedy="It was opened for reading only.")

    def derived_id(self, text: str, *, digits: int = 32) -> str:
        """Return an id of hexadecimal digits that is made from a text: the same for the same text.

        Ids stay readable in an encrypted store, so that one that is made from what is said must not confirm a guess. An
        encrypted store makes them with a key of its ring, of 32 digits at most; every other store has nothing to hide,
        and hashes the text.
        """
        if self.wrapping is not None:
            return self.wrapping.derived_id(text, digits=digits)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]

    def _bounds(self, metadata: MemoryMetadata | None) -> MemoryMetadata | None:
        """Return the filter that observers see; a scoped handle adds its scope here."""
        return metadata

    def _filter(self, **named: Any) -> Filter:
        """Return the checked filter that these arguments name, as the layers would narrow it."""
        if named.get("metadata") is None:
            named["metadata"] = self._within
        if self._living.lifetimes.in_use:
            named["now"] = self._living.now()
        return Filter.of(**named)

    def _require(self, capability: Capability) -> None:
        if capability not in self.capabilities:
            raise UnsupportedError(self.label, f"the capability {capability.value!r}")

    def _refuse_wrapped(self) -> None:
        """Raise WrappedStoreError where items come through a wrapper alone that is not there."""
        if self.root.wrapper is not None and self.root.wrapping is None:
            raise WrappedStoreError(self.root.label, self.root.wrapper)

    @property
    def root(self) -> Self:
        """The store that a handle is bound in; of a store, the store itself."""
        return self

    def _check_life(self, item: MemoryItem) -> None:
        """Take note of an item that is to expire. Raises UnsupportedError in a store where none does."""
        if item.ttl is not None or item.expires_at is not None:
            self._require(Capability.TTL)
            self._living.lifetimes.note(item.expires_at)

    def _order(self, order: Order | None) -> Order:
        return self.default_order if order is None else check_order(order)

    def _checked_mode(self, mode: SearchMode | None) -> SearchMode:
        if mode is None:
            return self.default_mode
        if mode not in get_args(SearchMode):
            raise unknown_name("search mode", mode, get_args(SearchMode), field="mode")
        if mode != "substring":
            self._require(Capability(mode))
        return mode

    async def _text_ranker(self) -> Ranker:
        """Return this store's ranker. Raises UnsupportedError, saying what to install, if there is none."""
        if self.ranker is None:
            try:
                # The first one has to be imported, which takes a while; further stores find it at once.
                known = Lifecycle._has_found_ranker
                self.ranker = installed_ranker() if known else await asyncio.to_thread(installed_ranker)
                Lifecycle._has_found_ranker = True
            except PluginNotFoundError as error:
                what = "ranked search without a ranker"
                raise UnsupportedError(self.label, what, remedy=error.remedy) from error
        return self.ranker
