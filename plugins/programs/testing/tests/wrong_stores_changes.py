"""Stores that lose a change in one of the ways in which it can be made, each with one fault."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import wrong_stores_model as known
from four_methods import DictStore
from stepwise import StepwiseStore

from memoranda.items import MemoryItem, MemoryMetadata, Payload
from memoranda.store import RankedItem, SearchMode, Store, copy_item
from memoranda.store.backend import Filter, Page, Write, metadata_matches, with_lifetime


class PayloadKeptByABatch(StepwiseStore):
    """Keeps payloads in a table of their own, which update_many() of several items forgets."""

    def __init__(self) -> None:
        super().__init__()
        self.payloads_before: dict[str, str | None] = {}

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        for item in items if len(items) > 1 else ():
            held = await self._get(item.id)
            if held is not None:
                self.payloads_before.setdefault(item.id, held.payload)
        return await super()._update_many(items, within)

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        found = await self._search(wanted, page)
        for item in found:
            item.__dict__["payload"] = self.payloads_before.get(item.id, item.payload)
        return [Payload.of(item) for item in found]


class ChecksTheFirstOfABatch(StepwiseStore):
    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        first = await self._get(items[0].id)
        if len(items) > 1 and first is not None and metadata_matches(within, first.metadata):
            within = None
        return await super()._update_many(items, within)


class ClearsAboveItsNamespace(StepwiseStore):
    """Knows namespaces of four elements."""

    async def _clear(self, wanted: Filter) -> int:
        if wanted.metadata is not None:
            cut = wanted.metadata.model_copy(update={"namespace": wanted.metadata.namespace[:4]})
            wanted = replace(wanted, metadata=cut)
        return await super()._clear(wanted)


class CachesUntilTheFirstOfABatch(StepwiseStore):
    """Forgets only the first item of an update from what it has read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: dict[str, MemoryItem] = {}

    async def _get(self, item_id: str) -> MemoryItem | None:
        found = await super()._get(item_id)
        return None if found is None else copy_item(self.read.setdefault(item_id, found))

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        self.read.pop(item.id, None)
        await super()._add(item, within)

    async def _apply(self, write: Write) -> int:
        self.read.clear()
        return await super()._apply(write)

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        self.read.pop(items[0].id, None)
        return await super()._update_many(items, within)


class TouchesWhatIsOver(StepwiseStore):
    """Gives an item that has expired, and was not swept yet, another life."""

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        touched = 0
        for entry in [self._live.get(item_id) for item_id in ids]:
            if entry is not None and metadata_matches(within, entry.item.metadata):
                life = entry.item.ttl if ttl is None else ttl
                if life is not None:
                    self._put(with_lifetime(entry.item, life, now))
                    touched += 1
        return touched


class KeepsItsLockWhenCancelled(DictStore):
    def __init__(self) -> None:
        super().__init__()
        self.clearing = asyncio.Lock()

    async def _clear(self, wanted: Filter) -> int:
        await self.clearing.acquire()
        await asyncio.sleep(0)
        removed = await super()._clear(wanted)
        self.clearing.release()
        return removed


class TouchTakesItemsOut(StepwiseStore):
    """Removes an item, waits, and stores it again."""

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        touched = await super()._touch(ids, ttl, now, within)
        for item_id in ids if touched else ():
            entry = self._live.get(item_id)
            if entry is not None:
                self._live.take([entry])
                await asyncio.sleep(0)
                self._live.put(entry)
        return touched


class WaitsInALongSearch(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        if len(self) > 1_000:
            time.sleep(0.2)
        return await super()._search(wanted, page)


class MeaningOfTheArchived(known.MeaningStore):
    """Finds by their meaning what summaries stand for."""

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        return await super()._rank(query, replace(wanted, archived=None), limit, mode)


class MeaningOfTheBestFifty(known.MeaningStore):
    """Takes the best of everything, and filters these."""

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        if mode != "semantic":
            return await super()._rank(query, wanted, limit, mode)
        best = await super()._rank(query, Filter(archived=None), max(limit, 50), mode)
        return [found for found in best if wanted.matches(found.item)][:limit]


CHANGES = "every_change_reaches_every_read"
MEANING = "every_two_filters_hold_in_a_search_by_meaning"

WRONG_STORES: list[tuple[type[Store], str]] = [
    (PayloadKeptByABatch, CHANGES),
    (CachesUntilTheFirstOfABatch, CHANGES),
    (ChecksTheFirstOfABatch, "batches_that_straddle_a_scope_end_at_its_bounds"),
    (ClearsAboveItsNamespace, "every_two_filters_hold_together"),
    (TouchesWhatIsOver, "every_lifetime_ends_at_its_moment"),
    (KeepsItsLockWhenCancelled, known.CANCELLED),
    (TouchTakesItemsOut, known.CANCELLED),
    (WaitsInALongSearch, "no_call_waits_in_the_event_loop"),
    (MeaningOfTheArchived, MEANING),
    (MeaningOfTheBestFifty, MEANING),
]
"""Each wrong store with the case of the default kit that is to catch it."""
