"""More stores that a third party could well write, each with one fault: see ``wrong_stores_model``."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import wrong_stores_model as known
from stepwise import StepwiseStore

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import InMemoryStore, Order, Owner, RankedItem, SearchMode, copy_item
from memoranda.store.backend import Expiry, Filter, Listing, Page, Write, metadata_matches
from memoranda.store.in_memory import InMemoryEngine

CALLS, LIVES, AGAIN, SIZES = known.CALLS, known.LIVES, known.AGAIN, known.SIZES
CANCELLED, APART, LEFT = known.CANCELLED, known.APART, known.LEFT
without, past = known.without, known.past


# The owner, forgotten in one of the methods


class GetForgetsTheFilter(StepwiseStore):
    async def get(self, item_id: str, *, metadata: Any = None, refresh: bool = False) -> MemoryItem | None:
        return await super().get(item_id, refresh=refresh)


class GetManyForgetsUsers(StepwiseStore):
    async def get_many(self, ids: Any, *, metadata: Any = None, refresh: bool = False) -> list[MemoryItem]:
        bounds = metadata and metadata.model_copy(update={"user_id": None})
        return await super().get_many(ids, metadata=bounds, refresh=refresh)


class HeadForgetsUsers(StepwiseStore):
    async def head(self, *, metadata: MemoryMetadata | None = None) -> str | None:
        return await super().head(metadata=metadata and metadata.model_copy(update={"user_id": None}))


class WindowForgetsTasks(StepwiseStore):
    async def window(self, *, metadata: MemoryMetadata | None = None, **bounds: Any) -> list[MemoryItem]:
        return await super().window(metadata=metadata and metadata.model_copy(update={"task_id": None}), **bounds)


class UpdateTakesOver(StepwiseStore):
    """Compares the version, and not the owner."""

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        for item in items:
            entry = self._live.get(item.id)
            if entry is not None and entry.item.version == item.version:
                stolen = copy_item(entry.item)
                stolen.__dict__["metadata"] = item.metadata
                self._put(stolen)
        return await super()._update_many(items, within)


class ClearForgetsUsersInNamespaces(StepwiseStore):
    async def _clear(self, wanted: Filter) -> int:
        placed = wanted.metadata is not None and wanted.metadata.namespace
        return await super()._clear(without(wanted, "user_id") if placed else wanted)


class OwnersForgetUsers(StepwiseStore):
    def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        return super()._owners(listing, without(wanted, "user_id"))


class ExtraOpensTheScope(StepwiseStore):
    """Asks for values of ``extra``, and no longer for the owner."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        if wanted.metadata is not None and wanted.metadata.extra:
            wanted = without(wanted, "user_id", "session_id", "task_id", "agent_id")
        return await super()._search(wanted, page)


class EmptyOwnerIsAnybody(StepwiseStore):
    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        if wanted.metadata is not None and wanted.metadata.user_id == "":
            wanted = without(wanted, "user_id")
        return await super()._count(wanted, include_deleted)


# Ids and places


class IdsWithoutCase(StepwiseStore):
    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        found = await super()._get_many(ids)
        folded = {item.id.lower(): item for item in found}
        return [item for item in found if folded[item.id.lower()] is item]


class IdsComposed(StepwiseStore):
    """Looks ids up in their composed form, as some file systems do."""

    async def _get(self, item_id: str) -> MemoryItem | None:
        return await super()._get(unicodedata.normalize("NFC", item_id))


class PlacesJoinedByDots(StepwiseStore):
    """Takes ("a.b",) for ("a", "b")."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        asked = wanted.metadata
        if asked is None or not asked.namespace:
            return await super()._search(wanted, page)
        prefix = ".".join((*asked.namespace, ""))
        found = await super()._search(without(wanted, "namespace"), Page(order=page.order))
        below = [item for item in found if ".".join((*item.metadata.namespace, "")).startswith(prefix)]
        return below[page.offset : page.end]


# Order, pages and caps


class TiesById(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        if page.order != "created":
            return await super()._search(wanted, page)
        found = await super()._search(wanted, Page(order=page.order))
        found.sort(key=lambda item: (item.created_at, item.id), reverse=True)
        return found[page.offset : page.end]


class OrderToTheSecond(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        if page.order != "created":
            return await super()._search(wanted, page)
        found = await super()._search(wanted, Page(order="added"))
        found.sort(key=lambda item: item.created_at[:19], reverse=True)
        return found[page.offset : page.end]


class TimesOf32Bits(StepwiseStore):
    """Cuts times off in January 2038 when it asks for them."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        found = await super()._search(wanted, Page(order="added"))
        if page.order == "created":
            found.sort(key=lambda item: min(item.created_at, "2038-01-19T03:14:07"), reverse=True)
            return found[page.offset : page.end]
        return await super()._search(wanted, page)


def losing(size: int) -> type[InMemoryStore]:
    """Return a store that scans in pages, and loses the first item of each but the first."""

    class Losing(StepwiseStore):
        async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
            number = 0
            async for item in super()._scan(wanted, include_deleted, order):
                number += 1
                if number % size != 1 or number == 1:
                    yield item

    Losing.__name__ = Losing.__qualname__ = f"LosesOneBehind{size}"
    return Losing


def removing(size: int) -> type[InMemoryStore]:
    """Return a store that clears only so many."""

    class Removing(StepwiseStore):
        async def _clear(self, wanted: Filter) -> int:
            doomed = (await self._search(wanted, Page(order="added")))[::-1][:size]
            return sum([await self._delete(item.id, None) for item in doomed])

    Removing.__name__ = Removing.__qualname__ = f"ClearsOnly{size}"
    return Removing


class TouchesFiveHundred(StepwiseStore):
    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        return await super()._touch(ids[:500], ttl, now, within)


class UpdatesAThousand(StepwiseStore):
    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        updated = await super()._update_many(items[:1000], within)
        return [*updated, *items[1000:]]


class RestoresAThousand(StepwiseStore):
    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        if item_id is not None:
            return await super()._restore(item_id, wanted)
        doomed = [item async for item in self._scan(wanted, True, "added") if self._hidden.get(item.id) is not None]
        return sum([await super(RestoresAThousand, self)._restore(item.id, wanted) for item in doomed[:1000]])


# Values and versions


class ValuesByText(known._ValuesBy):
    """Compares values by their text."""

    def passes(self, condition: Any, item: MemoryItem) -> bool:
        if condition.operator == "$eq" and condition.in_extra and condition.name in item.metadata.extra:
            return str(item.metadata.extra[condition.name]) == str(condition.value)
        return bool(condition.matches(item))


class ListsWithoutOrder(known._ValuesBy):
    def passes(self, condition: Any, item: MemoryItem) -> bool:
        found = item.metadata.extra.get(condition.name)
        if condition.operator == "$eq" and isinstance(found, list) and isinstance(condition.value, list):
            return sorted(map(str, found)) == sorted(map(str, condition.value))
        return bool(condition.matches(item))


class ApplyKeepsTheVersion(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        entries = [self._live.get(item.id) for item in write.adds] if write.deletes else []
        before = {entry.item.id: entry.item.version for entry in entries if entry is not None}
        removed = await super()._apply(write)
        for item_id, version in before.items():
            entry = self._live.get(item_id)
            if entry is not None:
                entry.item.__dict__["version"] = version
        return removed


class RestoreRaisesTheVersion(StepwiseStore):
    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        before = {entry.item.id for entry in self._live.candidates(None)}
        restored = await super()._restore(item_id, wanted)
        for entry in self._live.candidates(None):
            if entry.item.id not in before:
                entry.item.__dict__["version"] += 1
        return restored


class CreatedIsNotKeptInTheBin(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        hidden = any(self._hidden.get(item.id) is not None for item in write.adds)
        return await super()._apply(write.but(keep_created=write.keep_created and not hidden))


class StampsTheUpdate(StepwiseStore):
    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        stamped = [copy_item(item) for item in items]
        for item in stamped:
            item.__dict__["updated_at"] = "2024-06-01T00:00:00.000000+00:00"
        return await super()._update_many(stamped, within)


# The bin, archives and lifetimes


class PurgedCanBeRestored(StepwiseStore):
    """Purges what is there, and only what is not in the bin."""

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        if deleted_only:
            return await super()._purge(item_id, wanted, deleted_only)
        hidden = [copy_item(entry.item) for entry in self._hidden.candidates(None)]
        purged = await super()._purge(item_id, wanted, deleted_only)
        for item in hidden:
            if self._live.get(item.id) is None and self._hidden.get(item.id) is None:
                self._put(item, hidden=True)
        return purged


class PopsTheArchived(StepwiseStore):
    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        return await super()._pop(replace(wanted, archived=None), purge)


class ClearLeavesTheArchived(StepwiseStore):
    async def _clear(self, wanted: Filter) -> int:
        return await super()._clear(replace(wanted, archived=False))


class DeletesTwice(StepwiseStore):
    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        entry = self._hidden.get(item_id)
        there = entry is not None and metadata_matches(within, entry.item.metadata)
        return await super()._delete(item_id, within) or there


class OwnersOfTheExpired(StepwiseStore):
    def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        return super()._owners(listing, past(wanted, Expiry))


class EndsAtFullSeconds(StepwiseStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        if item.expires_at is not None:
            item = item.model_copy(update={"expires_at": item.expires_at[:19] + ".000000+00:00"})
        await super()._add(item, within)


class ReplacementLivesOn(StepwiseStore):
    """Leaves a replaced item the end that it had."""

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        entry = self._live.get(item.id)
        ends = entry.item.expires_at if entry is not None else None
        await super()._add(item, within)
        stored = self._live.get(item.id)
        if ends is not None and stored is not None and stored.item.expires_at is None:
            stored.item.__dict__["expires_at"] = ends


# Sessions that are forked


class _SharesWithEverybody(InMemoryEngine):
    def _looked_at(self, shelf: Any, wanted: Filter) -> Any:
        branch = wanted.further[-1] if wanted.further else None
        if type(branch).__name__ != "InBranch":
            return super()._looked_at(shelf, wanted)
        entries, rest = super()._looked_at(shelf, wanted)
        for session, bound in branch.pasts:  # type: ignore[union-attr]  # it is one, as its name says
            entries += [
                entry
                for entry in shelf.candidates(MemoryMetadata(session_id=session))
                if entry.added <= bound and entry not in entries and entry.item.archived_by is None
            ]
        return sorted(entries), rest


class ForkShowsEverybodys(StepwiseStore):
    """Forgets the owner of a shared past."""

    engine = _SharesWithEverybody


class ForkGoesOn(StepwiseStore):
    """Shows in a forked session what was said in the old one afterwards."""

    async def _place(self, item_id: str) -> int | None:
        place = await super()._place(item_id)
        return None if place is None else 10**9


class ForkWithoutTheItem(StepwiseStore):
    async def _place(self, item_id: str) -> int | None:
        place = await super()._place(item_id)
        return None if place is None else place - 1


# What is given up, and what is left


class PopKeepsTheLock(StepwiseStore):
    def __init__(self) -> None:
        super().__init__()
        self.lock = asyncio.Lock()

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        await self.lock.acquire()
        await asyncio.sleep(0)
        popped = await super()._pop(wanted, purge)
        self.lock.release()
        return popped

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        async with self.lock:
            await super()._add(item, within)


class HalfAnUpdate(StepwiseStore):
    """Updates one by one, with time for the caller to give up in between."""

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        shelves = StepwiseStore()
        shelves.items._live, shelves.items._hidden = _copied(self._live), _copied(self._hidden)
        shelves.items._added = self._added
        await shelves._update_many(items, within)  # It raises what is to be raised before anything is written.
        updated = []
        for item in items:
            updated += await super()._update_many([item], within)
            await asyncio.sleep(0)
        return updated


def _copied(shelf: Any) -> Any:
    copied = type(shelf)()
    for entry in shelf.candidates(None):
        copied.put(replace_entry(entry))
    return copied


def replace_entry(entry: Any) -> Any:
    """Return an entry with a copy of its item."""
    return type(entry)(entry.created_at, entry.added, copy_item(entry.item), [])


class LeavesItsWorkers(StepwiseStore):
    needs_init = True

    async def _init(self) -> None:
        self.workers = ThreadPoolExecutor(1, thread_name_prefix="writer")
        await asyncio.get_running_loop().run_in_executor(self.workers, int)


# Rankings


class WordsOfEverybody(StepwiseStore):
    """Weighs words by how rare they are in the whole store."""

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        ranked = await super()._rank(query, wanted, limit, mode)
        everybody = len(await super()._rank(query, Filter(archived=None), 10**6, mode))
        return [replace(each, score=each.score / (1 + everybody)) for each in ranked]


class RanksTheArchived(StepwiseStore):
    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        return await super()._rank(query, replace(wanted, archived=None), limit, mode)


class VectorOfTheFirstEdit(known.MeaningStore):
    """Renews a vector where an item is added anew, and not where its text is edited by an update of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, int], Any] = {}

    async def vector(self, item: MemoryItem) -> Any:
        return self.kept.setdefault((item.id, len(item.content) // 8), await super().vector(item))


# Two stores on the same data


class RemembersItsCounts(known.SharedStore):
    """Keeps a count until it writes by itself."""

    def __init__(self, world: dict[str, Any] | None = None) -> None:
        super().__init__(world)
        self.counts: dict[str, int] = {}

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        key = f"{wanted!r} {include_deleted}"
        if key not in self.counts:
            self.counts[key] = await super()._count(wanted, include_deleted)
        return self.counts[key]

    def _put(self, item: MemoryItem, *, hidden: bool = False) -> None:
        self.counts = {}
        super()._put(item, hidden=hidden)

    async def _clear(self, wanted: Filter) -> int:
        self.counts = {}
        return await super()._clear(wanted)


class RemembersTheHead(known.SharedStore):
    """Keeps the last item of a conversation that it read."""

    def __init__(self, world: dict[str, Any] | None = None) -> None:
        super().__init__(world)
        self.heads: dict[str, list[MemoryItem]] = {}

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        if page.limit != 1 or page.order != "added":
            return await super()._search(wanted, page)
        key = f"{wanted!r} {page!r}"
        if key not in self.heads:
            self.heads[key] = await super()._search(wanted, page)
        return [copy_item(item) for item in self.heads[key]]

    def _put(self, item: MemoryItem, *, hidden: bool = False) -> None:
        self.heads = {}
        super()._put(item, hidden=hidden)


WRONG_STORES: list[tuple[type[InMemoryStore] | Callable[[], InMemoryStore], str]] = [
    *((store, CALLS) for store in (GetForgetsTheFilter, HeadForgetsUsers, WindowForgetsTasks)),
    (GetManyForgetsUsers, "every_method_does_right_by_every_state"),
    *((store, CALLS) for store in (UpdateTakesOver, ClearForgetsUsersInNamespaces)),
    *((store, CALLS) for store in (OwnersForgetUsers, ExtraOpensTheScope, EmptyOwnerIsAnybody)),
    *((store, CALLS) for store in (IdsWithoutCase, IdsComposed, PlacesJoinedByDots, TiesById, OrderToTheSecond)),
    *((store, CALLS) for store in (TimesOf32Bits, ValuesByText, ListsWithoutOrder, ApplyKeepsTheVersion)),
    *((losing(size), SIZES) for size in (100, 400, 500, 1_000, 5_000, 10_000)),
    *((removing(size), SIZES) for size in (100, 1_000, 5_000, 10_000)),
    *((store, SIZES) for store in (TouchesFiveHundred, UpdatesAThousand, RestoresAThousand)),
    *((store, CALLS) for store in (RestoreRaisesTheVersion, CreatedIsNotKeptInTheBin, StampsTheUpdate)),
    *((store, CALLS) for store in (PurgedCanBeRestored, PopsTheArchived, ClearLeavesTheArchived, DeletesTwice)),
    *((store, LIVES) for store in (OwnersOfTheExpired, EndsAtFullSeconds, ReplacementLivesOn)),
    *((store, CALLS) for store in (ForkShowsEverybodys, ForkGoesOn, ForkWithoutTheItem)),
    *((store, CANCELLED) for store in (PopKeepsTheLock, HalfAnUpdate)),
    (LeavesItsWorkers, LEFT),
    *((store, CALLS) for store in (WordsOfEverybody, RanksTheArchived)),
    (VectorOfTheFirstEdit, APART),
]
"""Each wrong store with the case that is to catch it."""

SHARING: list[type[known.SharedStore]] = [RemembersItsCounts, RemembersTheHead]
"""Wrong stores that only a second store on the same data brings to light."""
