"""A store in memory whose every step can be overridden: for tests of what does one thing otherwise."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata, Payload, PayloadChanges
from memoranda.store import BaseStore, Order, Owner, RankedItem, Ranker, SearchMode
from memoranda.store.backend import (
    AS_ADDED,
    Change,
    Filter,
    Listing,
    Opening,
    Page,
    Write,
    best_of,
    items_of_ids,
    items_where,
    payloads_where,
    place_of,
)
from memoranda.store.in_memory import InMemoryEngine
from memoranda.store.ranked import installed_ranker


class StepwiseStore(BaseStore):
    """What :class:`memoranda.store.InMemoryStore` is, with the steps of a :class:`~memoranda.store.BaseStore`."""

    capabilities = InMemoryEngine.capabilities
    needs_init = False
    engine = InMemoryEngine
    """What keeps the items."""

    def __init__(self) -> None:
        self.items = self.engine(self._own_ranker)
        super().__init__()

    async def _own_ranker(self) -> Ranker:
        if self.ranker is None:
            self.ranker = installed_ranker()
        return self.ranker

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        # What the engine keeps, for stores that spoil it.
        if name in ("_live", "_hidden", "_added", "_put", "_page"):
            return getattr(self.items, name)
        raise AttributeError(name)

    def _stored(self, item_id: str) -> MemoryItem | None:
        entry = self._live.get(item_id) or self._hidden.get(item_id)
        return None if entry is None else entry.item

    async def _changed(self, change: Change) -> int:
        return (await self.items.write(Write(change=change))).changed

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await self.items.write(Write([item], within))

    async def _apply(self, write: Write) -> int:
        return (await self.items.write(write)).changed

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        return list((await self.items.write(Write(items, within, compared=True))).items)

    async def _get(self, item_id: str) -> MemoryItem | None:
        return next(iter(await self.items.read(items_of_ids([item_id]))), None)

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        return await self.items.read(items_of_ids(ids))

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return await self.items.read(items_where(wanted, page))

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        return await self.items.read(payloads_where(wanted, page))

    async def _payload_changes(self, wanted: Filter, since: object) -> PayloadChanges:
        changed: PayloadChanges = await self.items.changes(payloads_where(wanted, AS_ADDED), since)
        return changed

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        return await self.items.read(best_of(query, wanted, limit, mode))

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        counted: int = await self.items.count(items_where(wanted, deleted=include_deleted))
        return counted

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        async for item in self.items.stream(items_where(wanted, Page(order=order), deleted=include_deleted)):
            yield item

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        async for owner in self.items.owners(listing, items_where(wanted)):
            yield owner

    async def _place(self, item_id: str) -> int | None:
        return next(iter(await self.items.read(place_of(item_id))), None)

    async def _clear(self, wanted: Filter) -> int:
        return await self._changed(Change("delete", wanted))

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        return await self._changed(Change("delete", Filter(metadata=within, archived=None), [item_id])) > 0

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        return await self._changed(Change("restore", wanted, None if item_id is None else [item_id]))

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        ids = None if item_id is None else [item_id]
        return await self._changed(Change("purge", wanted, ids, deleted_only=deleted_only))

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        taken = (await self.items.write(Write(change=Change("pop", wanted, purge=purge)))).items
        return taken[0] if taken else None

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        wanted = Filter(metadata=within, archived=None)
        return await self._changed(Change("touch", wanted, ids, ttl=ttl, now=now))

    async def _soonest_expiry(self) -> str | None:
        opening = Opening(self.label, self.access, lambda: self.item_types, self._own_ranker)
        return (await self.items.open(opening)).next_expiry
