"""A handle that is bound to a scope, so that one user's request cannot reach another user's memories."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from memoranda.errors import InputError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata, Payload, PayloadChanges
from memoranda.store.checks import check_metadata
from memoranda.store.codec import copy_item
from memoranda.store.engine import Engine
from memoranda.store.filters import Filter, Order, Page, merge_scope, metadata_matches
from memoranda.store.observers import Observers
from memoranda.store.owners import Listing, Owner, is_below
from memoranda.store.protocol import Capability, SearchMode
from memoranda.store.ranked import RankedItem, Ranker
from memoranda.store.writes import Packer, Write
from memoranda.trust import Trust, trusted_as

UNSET: Any = object()
"""The default of scope arguments, since None there is a mistake and not "any"."""


def scope_metadata(**named: Any) -> MemoryMetadata:
    """Return the scope that these fields name. Raises InputError for an empty one and for a field that is None."""
    given = {name: value for name, value in named.items() if value is not UNSET}
    for name, value in given.items():
        if value is None:
            raise InputError(f"scoped({name}=None) would not bind {name}. Leave it out, or give a value.", field=name)
    if not given:
        raise InputError(f"scoped() needs at least one of {', '.join(SCOPE_FIELDS)} and namespace.", field="scope")
    scope = MemoryMetadata(**given)
    check_metadata(scope, "scope")
    if "namespace" in given and not scope.namespace:
        raise InputError(
            "scoped(namespace=()) would not bind the namespace. Leave it out, or name a place.", field="namespace"
        )
    return scope


class ScopedEngine(Engine):
    """The methods of a store with a scope's conditions added to each; what it is for says :class:`ScopedStore`."""

    needs_init = False
    _bounded = True
    trust: Trust | None = None
    origin: str | None = None

    def __init__(self, store: Engine, scope: MemoryMetadata) -> None:
        self._store = store
        # A handle of a handle is bound to both; two that contradict each other are refused here and not at every call.
        outer: MemoryMetadata | None = store.scope if isinstance(store, ScopedEngine) else None
        self.scope: MemoryMetadata = merge_scope(scope, outer) or scope
        super().__init__()
        self.item_types = store.item_types
        self.reranker = store.reranker
        # A handle of a handle speaks for the same writer.
        self.trust = getattr(store, "trust", None)
        self.origin = getattr(store, "origin", None)
        self.access = store.access
        self._label = store._label
        self._observers = Observers(store._observers)
        self._serialises_writes = store._serialises_writes
        self._lifetimes = store._lifetimes
        self._writes = store._writes
        self.clock = lambda: store.clock()

    def _make_locks(self) -> None:
        """Share the one lock that is needed; the others guard what the store underneath alone has."""
        self._write_lock = self._store._write_lock
        self._handles = self._store._handles
        self._handles.add(self)

    def __repr__(self) -> str:
        names = [name for name in SCOPE_FIELDS if getattr(self.scope, name) is not None]
        bound = ", ".join(f"{name}=…" for name in (*names, *(["namespace"] if self.scope.namespace else [])))
        return f"{self._store!r}.scoped({bound})"

    @property
    def capabilities(self) -> frozenset[Capability]:  # type: ignore[override]  # read-only here, as the store says
        """What the store underneath can do."""
        return self._store.capabilities

    async def exists(self) -> bool:
        """Return True if the store underneath is there."""
        return await self._store.exists()

    async def init(self) -> None:
        """Do nothing: the store underneath has its own life."""

    async def close(self) -> None:
        """Do nothing: the store underneath has its own life."""

    def _ensure_open(self) -> None:
        self._store._ensure_open()

    def _bounds(self, metadata: MemoryMetadata | None) -> MemoryMetadata | None:
        return self._store._bounds(merge_scope(metadata, self.scope))

    def _checked_mode(self, mode: SearchMode | None) -> SearchMode:
        return self._store._checked_mode(mode)

    async def _text_ranker(self) -> Ranker:
        return await self._store._text_ranker()

    def derived_id(self, text: str, *, digits: int = 32) -> str:
        """Return an id that is made from a text, as the store underneath makes it."""
        return self._store.derived_id(text, digits=digits)

    def _stamped(self, item: MemoryItem) -> MemoryItem:
        """Return a copy that carries the scope. Raises InputError for an item that is stamped otherwise."""
        values = {}
        for name in SCOPE_FIELDS:
            bound, given = getattr(self.scope, name), getattr(item.metadata, name)
            if bound is not None and given is not None and given != bound:
                raise InputError(
                    f"The item {item.id!r} is stamped with another {name} than this handle's scope; it was not stored.",
                    field=f"metadata.{name}",
                )
            values[name] = given if bound is None else bound
        place = item.metadata.namespace or self.scope.namespace
        if not is_below(place, self.scope.namespace):
            raise InputError(
                f"The item {item.id!r} lies in another namespace than this handle's scope; it was not stored.",
                field="metadata.namespace",
            )
        stamped = copy_item(item)
        stamped.metadata.__dict__.update(values, namespace=place)  # The copy's own, and frozen for everyone else.
        if self.trust is not None:
            given = stamped.trust
            stamped.__dict__["trust"] = str(self.trust if given is None else min(self.trust, trusted_as("", given)))
            (stamped.__pydantic_extra__ or {}).pop("approval", None)  # What a handle with a trust writes approves none.
        if self.origin is not None:
            stamped.__dict__["origin"] = self.origin
        return self._store._stamped(stamped)

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await self._store._add(item, merge_scope(within, self.scope))

    async def _apply(self, write: Write) -> int:
        return await self._store._apply(write.narrowed(self.scope))

    def _packer(self) -> Packer | None:
        return self._store._packer()

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        return await self._store._update_many(items, merge_scope(within, self.scope))

    async def _get(self, item_id: str) -> MemoryItem | None:
        item = await self._store._get(item_id)
        return item if item is not None and metadata_matches(self.scope, item.metadata) else None

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        found = await self._store._get_many(ids)
        return [item for item in found if metadata_matches(self.scope, item.metadata)]

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return await self._store._search(wanted.narrowed(self.scope), page)

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        return await self._store._payloads(wanted.narrowed(self.scope), page)

    async def _payload_changes(self, wanted: Filter, since: object) -> PayloadChanges:
        return await self._store._payload_changes(wanted.narrowed(self.scope), since)

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        return await self._store._rank(query, wanted.narrowed(self.scope), limit, mode)

    async def _clear(self, wanted: Filter) -> int:
        return await self._store._clear(wanted.narrowed(self.scope))

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return await self._store._count(wanted.narrowed(self.scope), include_deleted)

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        async for item in self._store._scan(wanted.narrowed(self.scope), include_deleted, order):
            yield item

    def _one_state(self) -> AbstractAsyncContextManager[bool]:
        return self._store._one_state()

    async def _lineage(self, session_id: str, item: MemoryItem) -> dict[str, int]:
        return await self._store._lineage(session_id, item)

    async def _portable(self, item: MemoryItem, wanted: Filter, include_deleted: bool) -> MemoryItem:
        return await self._store._portable(item, wanted.narrowed(self.scope), include_deleted)

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        async for owner in self._store._owners(listing, wanted.narrowed(self.scope)):
            yield owner

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        return await self._store._pop(wanted.narrowed(self.scope), purge)

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        return await self._store._touch(ids, ttl, now, merge_scope(within, self.scope))

    async def _sweep(self, wanted: Filter) -> int:
        return await self._store._sweep(wanted.narrowed(self.scope))

    async def _sweep_anywhere(self, wanted: Filter) -> int:
        return await self._store._sweep_anywhere(wanted)

    async def _soonest_expiry(self) -> str | None:
        return await self._store._soonest_expiry()

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        return await self._store._delete(item_id, merge_scope(within, self.scope))

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        return await self._store._restore(item_id, wanted.narrowed(self.scope))

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        return await self._store._purge(item_id, wanted.narrowed(self.scope), deleted_only)
