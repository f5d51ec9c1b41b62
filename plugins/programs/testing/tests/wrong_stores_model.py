"""Stores that a third party could well write, each with one fault that no example of the kit need look at."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepwise import StepwiseStore

from memoranda.errors import TurnConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import (
    Capability,
    InMemoryStore,
    Order,
    Owner,
    RankedItem,
    SearchMode,
    Store,
    copy_item,
    namespace_key,
)
from memoranda.store.backend import (
    Created,
    Expiry,
    Filter,
    Listing,
    Page,
    Value,
    Write,
    end_of_life,
    metadata_matches,
    with_lifetime,
)
from memoranda_backend.ranking import HashingEmbeddings, cosines, pack_vector


def without(wanted: Filter, *fields: str) -> Filter:
    """Return a filter in which some fields of the metadata were forgotten."""
    if wanted.metadata is None:
        return wanted
    blank = {name: () if name == "namespace" else {} if name == "extra" else None for name in fields}
    return replace(wanted, metadata=wanted.metadata.model_copy(update=blank))


def past(wanted: Filter, *kinds: type) -> Filter:
    """Return a filter in which some kinds of conditions were forgotten."""
    return replace(wanted, further=tuple(each for each in wanted.further if not isinstance(each, kinds)))


# An id column that was forgotten in one of the methods


class SearchForgetsAgents(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return await super()._search(without(wanted, "agent_id"), page)


class CountForgetsTasks(StepwiseStore):
    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return await super()._count(without(wanted, "task_id"), include_deleted)


class ScanForgetsSessions(StepwiseStore):
    def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        return super()._scan(without(wanted, "session_id"), include_deleted, order)


class RankForgetsAgents(StepwiseStore):
    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        return await super()._rank(query, without(wanted, "agent_id"), limit, mode)


class ClearForgetsAgents(StepwiseStore):
    async def _clear(self, wanted: Filter) -> int:
        return await super()._clear(without(wanted, "agent_id"))


class RestoreForgetsTasks(StepwiseStore):
    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        return await super()._restore(item_id, without(wanted, "task_id"))


class PurgeForgetsSessions(StepwiseStore):
    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        return await super()._purge(item_id, without(wanted, "session_id"), deleted_only)


class PopForgetsAgents(StepwiseStore):
    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        return await super()._pop(without(wanted, "agent_id"), purge)


class DeleteForgetsTasks(StepwiseStore):
    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        return await super()._delete(item_id, within and within.model_copy(update={"task_id": None}))


class OwnersForgetNamespaces(StepwiseStore):
    def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        return super()._owners(listing, without(wanted, "namespace"))


class TouchForgetsTheScope(StepwiseStore):
    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        return await super()._touch(ids, ttl, now, None)


class UpdateForgetsWithin(StepwiseStore):
    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        return await super()._update_many(items, within and MemoryMetadata(user_id=within.user_id))


class DeletesOutsideWithin(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        removed = await super()._apply(write.but(adds=(), within=None, expected=None))
        return removed + await super()._apply(write.but(deletes=()))


class PurgeByIdForgetsTheFilter(StepwiseStore):
    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        return await super()._purge(item_id, Filter(archived=None) if item_id else wanted, deleted_only)


# Keys, prefixes and comparisons


class KeysJoinedByColons(StepwiseStore):
    """Looks conversations up under ``user:session``."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        asked = wanted.metadata
        if asked is None or asked.user_id is None or asked.session_id is None:
            return await super()._search(wanted, page)
        key = f"{asked.user_id}:{asked.session_id}"
        found = await super()._search(without(wanted, "user_id", "session_id"), Page(order=page.order))
        mine = [item for item in found if f"{item.metadata.user_id}:{item.metadata.session_id}" == key]
        return mine[page.offset : page.end]


class PlacesByPrefix(StepwiseStore):
    """Takes ("ab",) for a place below ("a",)."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        asked = wanted.metadata
        if asked is None or not asked.namespace:
            return await super()._search(wanted, page)
        prefix = namespace_key(asked.namespace)[:-1]
        found = await super()._search(without(wanted, "namespace"), Page(order=page.order))
        below = [item for item in found if namespace_key(item.metadata.namespace).startswith(prefix)]
        return below[page.offset : page.end]


class PlacesJoinedBySlashes(StepwiseStore):
    """Takes ("a/b",) for ("a", "b")."""

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        asked = wanted.metadata
        if asked is None or not asked.namespace:
            return await super()._count(wanted, include_deleted)
        prefix = "".join(f"{element}/" for element in asked.namespace)
        rest = without(wanted, "namespace")
        return len(
            [
                item
                async for item in self._scan(rest, include_deleted, "added")
                if "".join(f"{element}/" for element in item.metadata.namespace).startswith(prefix)
            ]
        )


class _ValuesBy(StepwiseStore):
    """Decides conditions on values by itself."""

    def passes(self, condition: Value, item: MemoryItem) -> bool:
        return condition.matches(item)

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        values = [each for each in wanted.further if isinstance(each, Value)]
        found = await super()._search(past(wanted, Value), Page(order=page.order))
        passed = [item for item in found if all(self.passes(each, item) for each in values)]
        return passed[page.offset : page.end]


class MissingKeysAreNeverUnequal(_ValuesBy):
    """As SQL has it: NULL is not unequal to anything."""

    def passes(self, condition: Value, item: MemoryItem) -> bool:
        if condition.operator == "$ne" and condition.in_extra and condition.name not in item.metadata.extra:
            return False
        return condition.matches(item)


class TruthIsOne(_ValuesBy):
    def passes(self, condition: Value, item: MemoryItem) -> bool:
        if condition.operator == "$eq" and condition.in_extra:
            return condition.name in item.metadata.extra and item.metadata.extra[condition.name] == condition.value
        return condition.matches(item)


class NumbersAsText(_ValuesBy):
    def passes(self, condition: Value, item: MemoryItem) -> bool:
        if condition.operator == "$gt" and condition.in_extra:
            found = item.metadata.extra.get(condition.name)
            return found is not None and str(found) > str(condition.value)
        return condition.matches(item)


class KeysWithoutCase(_ValuesBy):
    def passes(self, condition: Value, item: MemoryItem) -> bool:
        keys = [key for key in item.metadata.extra if key.lower() == condition.name.lower()]
        return condition.matches(item) or any(replace(condition, name=key).matches(item) for key in keys)


class FieldsAsExtra(_ValuesBy):
    """Looks for a key of ``extra`` under the name of a field."""

    def passes(self, condition: Value, item: MemoryItem) -> bool:
        return replace(condition, in_extra=condition.name != "status").matches(item)


# Times and pages


class SinceIsExclusive(StepwiseStore):
    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        since = next((each.since for each in wanted.further if isinstance(each, Created)), None)
        found = [item async for item in self._scan(wanted, include_deleted, "added")]
        return sum(item.created_at != since for item in found)


class UntilIsInclusive(StepwiseStore):
    async def _clear(self, wanted: Filter) -> int:
        further = tuple(
            replace(each, until=each.until and f"{each.until}+") if isinstance(each, Created) else each
            for each in wanted.further
        )
        return await super()._clear(replace(wanted, further=further))


class PageEndsEarly(StepwiseStore):
    """Reads one page of 500 and thinks that a full page is the last."""

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        number = 0
        async for item in super()._scan(wanted, include_deleted, order):
            number += 1
            if number > 500:
                return
            yield item


class PageLosesTies(StepwiseStore):
    """Goes on behind the time of a page's last item, in pages of 400."""

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        number, after, last = 0, "", None
        async for item in super()._scan(wanted, include_deleted, order):
            if last is not None and number % 400 == 0:
                after = last.created_at
            if number >= 400 and item.created_at == after and order == "created":
                continue
            number, last = number + 1, item
            yield item


def capped(number: int) -> type[InMemoryStore]:
    """Return a store that binds at most so many ids to a statement."""

    class Capped(StepwiseStore):
        async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
            return await super()._get_many(ids[:number])

    Capped.__name__ = Capped.__qualname__ = f"ReadsOnly{number}Ids"
    return Capped


ReadsOnly100Ids, ReadsOnly1000Ids, ReadsOnly5000Ids = capped(100), capped(1000), capped(5000)


class ListsTenThousand(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return await super()._search(wanted, replace(page, limit=min(page.limit, 10_000)))

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return min(10_000, await super()._count(wanted, include_deleted))


class WritesFourHundredAtOnce(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        return await super()._apply(write.but(adds=write.adds[:400]))


class ListsAThousandOwners(StepwiseStore):
    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        number = 0
        async for owner in super()._owners(listing, wanted):
            number += 1
            if number <= 1000:
                yield owner


class OffsetBeforeTheFilter(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        if page.order != "updated":
            return await super()._search(wanted, page)
        found = await super()._search(Filter(archived=None), replace(page, limit=10**6))
        return [item for item in found if wanted.matches(item)][: page.limit]


class UpdatedMeansCreated(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return await super()._search(wanted, replace(page, order="created" if page.order == "updated" else page.order))


class AddedMeansCreated(StepwiseStore):
    """Takes the newest by its time for the one that was added last."""

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        newest = await self._search(wanted, Page(1))
        if newest:
            await self._remove_one(newest[0].id, None, purge=purge)
        return newest[0] if newest else None


# Lifetimes


class TtlInMilliseconds(StepwiseStore):
    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        return await super()._touch(ids, ttl and ttl * 1000, now, within)


class ExpiryIgnoredWhenCounting(StepwiseStore):
    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return await super()._count(past(wanted, Expiry), include_deleted)


class ExpiryIsALittleLater(StepwiseStore):
    """Shows an item at the very moment at which it ends."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        now = next((each.now for each in wanted.further if isinstance(each, Expiry)), None)
        found = await super()._search(past(wanted, Expiry), Page(order=page.order))
        alive = [item for item in found if now is None or item.expires_at is None or item.expires_at >= now]
        return alive[page.offset : page.end]


class ExpiredComesBack(StepwiseStore):
    """Lets an add revive what is over: the version goes on."""

    async def _sweep(self, wanted: Filter) -> int:
        return 0

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)


class RestoresTheExpired(StepwiseStore):
    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        return await super()._restore(item_id, past(wanted, Expiry))

    async def _sweep(self, wanted: Filter) -> int:
        return 0


class TouchRaisesTheVersion(StepwiseStore):
    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        touched = await super()._touch(ids, ttl, now, within)
        for item_id in ids if touched else ():
            entry = self._live.get(item_id)
            if entry is not None:
                entry.item.__dict__["version"] += 1
        return touched


class TouchesWhatHasNoTtl(StepwiseStore):
    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        if ttl is not None:
            return await super()._touch(ids, ttl, now, within)
        touched = 0
        for item_id in ids:
            entry = self._live.get(item_id)
            if entry is not None and metadata_matches(within, entry.item.metadata):
                life = entry.item.ttl or 3600.0
                self._put(with_lifetime(entry.item, life, now))
                touched += 1
        return touched


class SweepsTheLiving(StepwiseStore):
    """Removes an hour ahead."""

    async def _sweep(self, wanted: Filter) -> int:
        further = tuple(
            replace(each, now=end_of_life(each.now, 3600) or each.now) if isinstance(each, Expiry) else each
            for each in wanted.further
        )
        return await super()._sweep(replace(wanted, further=further))


# Writing


class HeadNotChecked(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        return await super()._apply(write.but(expected=None))


class HeadOfTheUser(StepwiseStore):
    """Asks for the head of the user's last session."""

    async def _apply(self, write: Write) -> int:
        if write.expected is None:
            return await super()._apply(write)
        user = write.adds[0].metadata.user_id
        found = await self._search(Filter(archived=None), Page(order="added"))
        mine = [item.id for item in found if item.metadata.user_id == user and item.memory_type != "summary"]
        if (mine[0] if mine else None) != write.expected.head:
            raise TurnConflictError(write.expected.head, None)
        return await super()._apply(write.but(expected=None))


class HeadCheckedTooEarly(StepwiseStore):
    """Looks at the head, waits for the engine, and writes."""

    async def _apply(self, write: Write) -> int:
        if write.expected is not None:
            newest = await self._search(write.expected.conversation, Page(1, order="added"))
            write.expected.check(newest[0].id if newest else None)
            await asyncio.sleep(0)
        return await super()._apply(write.but(expected=None))


class PopsTwice(StepwiseStore):
    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        newest = await self._search(wanted, Page(1, order="added"))
        await asyncio.sleep(0)
        if newest:
            await self._remove_one(newest[0].id, wanted.metadata, purge=purge)
        return newest[0] if newest else None


class PopOnlyHides(StepwiseStore):
    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        return await super()._pop(wanted, False)


class CreatedIsNotKept(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        return await super()._apply(write.but(keep_created=False))


class FreshIsNotChecked(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        return await super()._apply(write.but(fresh=False))


class BatchPurgesNothing(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        return await super()._apply(write.but(purge=False))


class ReplacedInTheBinStaysThere(StepwiseStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        hidden = self._hidden.get(item.id) is not None
        await super()._add(item, within)
        if hidden:
            await self._delete(item.id, None)


class VersionsBeginAnewInTheBin(StepwiseStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        hidden = self._hidden.get(item.id)
        mine = hidden is not None and hidden.item.metadata.user_id == item.metadata.user_id
        if hidden is not None and mine and metadata_matches(within, hidden.item.metadata):
            self._hidden.take(hidden)
        await super()._add(item, within)


class RestoredGoesToTheEnd(StepwiseStore):
    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        before = {entry.item.id for entry in self._live.candidates(None)}
        restored = await super()._restore(item_id, wanted)
        for entry in list(self._live.candidates(None)):
            if entry.item.id not in before:
                self._live.take(entry)
                self._put(entry.item)
        return restored


class OwnersCountTheDeleted(StepwiseStore):
    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        for owner in listing.of([item async for item in self._scan(wanted, True, "added")]):
            yield owner


class OwnersForgetTheArchived(StepwiseStore):
    def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        return super()._owners(listing, replace(wanted, archived=False))


class OwnersInOrderOfCase(StepwiseStore):
    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        found = [owner async for owner in super()._owners(listing, wanted)]
        for owner in sorted(found, key=lambda each: str(each.value).lower()):
            yield owner


class ManyInTheStoresOrder(StepwiseStore):
    """Gives what was read in whatever order; but misses what is asked for by another case."""

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        found = await super()._get_many(ids)
        return [
            item for item in found if item.id.lower() not in [each.id.lower() for each in found if each is not item]
        ]


# Calls that are given up, and what is left


class LockNotReleased(StepwiseStore):
    """Takes a lock by hand, and gives it back only where all went well."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = asyncio.Lock()

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await self.lock.acquire()
        await super()._add(item, within)
        await asyncio.sleep(0)
        self.lock.release()


class HalfABatchAtTheSecondAwait(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        if write.expected or write.deletes or write.hidden or write.keep_created or len(write.adds) < 2:
            return await super()._apply(write)
        await super()._apply(write.but(adds=write.adds[:1]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return await super()._apply(write.but(adds=write.adds[1:]))


class LeavesAThread(StepwiseStore):
    needs_init = True

    async def _init(self) -> None:
        self.stop = threading.Event()
        threading.Thread(target=self.stop.wait, args=(20,), name="flusher", daemon=True).start()


class LeavesATask(StepwiseStore):
    needs_init = True

    async def _init(self) -> None:
        self.task = asyncio.ensure_future(asyncio.sleep(20))


class LeavesASocket(StepwiseStore):
    needs_init = True

    async def _init(self) -> None:
        self.pair = [*getattr(self, "pair", []), socket.socketpair()]


class LeavesAFile(StepwiseStore):
    needs_init = True

    async def _init(self) -> None:
        self.files = [*getattr(self, "files", []), Path(__file__).open()]  # noqa: SIM115 - the fault


# Ranking


class WordsOfOldTexts(StepwiseStore):
    """Ranks a replaced item by the words of its first text."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, str] = {}

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        for item in await self._search(Filter(archived=None), Page()):
            self.first.setdefault(item.id, item.content)
        ranked = await super()._rank(query, wanted, limit, mode)
        return [each for each in ranked if self.first.get(each.item.id, each.item.content) == each.item.content]


class RanksOnlyWhatMatches(StepwiseStore):
    """Leaves the neighbours of another type out of the scope that it ranks."""

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        fitting = InMemoryStore()
        for item in (await self._search(wanted, Page()))[::-1]:
            fitting._put(copy_item(item))
        return await fitting._rank(query, wanted, limit, mode)


class MeaningStore(StepwiseStore):
    """A store that ranks by meaning, and is right."""

    capabilities = InMemoryStore.capabilities | {Capability.SEMANTIC}

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = HashingEmbeddings(64)

    def weight(self, item: MemoryItem, score: float) -> float:
        return score

    async def vector(self, item: MemoryItem) -> Any:
        return pack_vector(self.embeddings.embed(item.content), 64)

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        if mode != "semantic":
            return await super()._rank(query, wanted, limit, mode)
        asked = self.embeddings.embed(query)
        items = [item for item in await self._search(wanted, Page()) if item.content.strip()]
        scores = cosines(asked, [await self.vector(item) for item in items]) if items else []
        ranked = [
            RankedItem(item, self.weight(item, float(score)), passage=item.content[:500])
            for item, score in zip(items, scores, strict=True)
        ]
        return sorted(ranked, key=lambda each: -each.score)[:limit]


class VectorNotRenewed(MeaningStore):
    """Keeps the vector of an item's first content."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors: dict[str, Any] = {}

    async def vector(self, item: MemoryItem) -> Any:
        if item.id not in self.vectors:
            self.vectors[item.id] = await super().vector(item)
        return self.vectors[item.id]


class MeaningAmongEverybody(MeaningStore):
    """Weighs a score by how many items the store has."""

    def weight(self, item: MemoryItem, score: float) -> float:
        return score * (1 + 1 / (1 + len(self)))


# Two stores on the same data


class SharedStore(StepwiseStore):
    """A store whose shelves outlive it, and are shared by all that are made of one ``world``; it is right."""

    capabilities = InMemoryStore.capabilities | {Capability.PERSISTENT}

    def __init__(self, world: dict[str, Any] | None = None) -> None:
        self.world: dict[str, Any] = {} if world is None else world
        super().__init__()
        first: InMemoryStore = self.world.setdefault("first", self)
        self.items, self._living.lifetimes = first.items, first._lifetimes

    @property
    def _added(self) -> int:
        return int(self.world.get("added", 0))

    @_added.setter
    def _added(self, number: int) -> None:
        self.world["added"] = max(number, self._added)


class RemembersWhatItRead(SharedStore):
    """Keeps what it read, and does not hear of what another store writes."""

    def __init__(self, world: dict[str, Any] | None = None) -> None:
        super().__init__(world)
        self.read: dict[str, MemoryItem | None] = {}

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        for item in await super()._get_many([each for each in ids if each not in self.read]):
            self.read[item.id] = item
        return [copy_item(item) for each in ids if (item := self.read.get(each)) is not None]


class BinLostOnClose(SharedStore):
    async def _close(self) -> None:
        for entry in list(self._hidden.candidates(None)):
            self._hidden.take(entry)


CALLS = "random_histories_match_the_model"
LIVES = "random_lifetimes_match_the_model"
AGAIN = "random_histories_outlive_the_store"
CANCELLED = "a_call_that_is_cancelled_at_any_await_is_done_or_not"
SIZES = "sizes_match_the_model"
APART = "meaning_depends_on_what_is_stored_alone"
LEFT = "nothing_of_the_store_is_left_after_close"

WRONG_STORES: list[tuple[type[Store] | Callable[..., Store], str]] = [
    *((store, CALLS) for store in (SearchForgetsAgents, CountForgetsTasks, ScanForgetsSessions, RankForgetsAgents)),
    *((store, CALLS) for store in (ClearForgetsAgents, RestoreForgetsTasks, PurgeForgetsSessions, PopForgetsAgents)),
    *((store, CALLS) for store in (DeleteForgetsTasks, OwnersForgetNamespaces, UpdateForgetsWithin)),
    *((store, CALLS) for store in (DeletesOutsideWithin, PurgeByIdForgetsTheFilter, KeysJoinedByColons)),
    *((store, CALLS) for store in (PlacesByPrefix, PlacesJoinedBySlashes, MissingKeysAreNeverUnequal, TruthIsOne)),
    *((store, CALLS) for store in (NumbersAsText, KeysWithoutCase, FieldsAsExtra)),
    *((store, "every_two_filters_hold_together") for store in (SinceIsExclusive, UntilIsInclusive)),
    *((store, SIZES) for store in (PageEndsEarly, PageLosesTies, ReadsOnly100Ids, ReadsOnly1000Ids, ReadsOnly5000Ids)),
    *((store, SIZES) for store in (ListsTenThousand, WritesFourHundredAtOnce, ListsAThousandOwners)),
    *((store, CALLS) for store in (UpdatedMeansCreated, AddedMeansCreated)),
    (OffsetBeforeTheFilter, "each_order_has_its_own_meaning"),
    *((store, LIVES) for store in (TouchForgetsTheScope, TtlInMilliseconds, ExpiryIgnoredWhenCounting)),
    *((store, LIVES) for store in (ExpiryIsALittleLater, ExpiredComesBack, RestoresTheExpired)),
    *((store, LIVES) for store in (TouchRaisesTheVersion, TouchesWhatHasNoTtl, SweepsTheLiving)),
    *((store, CALLS) for store in (HeadNotChecked, HeadOfTheUser, HeadCheckedTooEarly, PopsTwice, PopOnlyHides)),
    *((store, CALLS) for store in (CreatedIsNotKept, FreshIsNotChecked, BatchPurgesNothing)),
    *((store, CALLS) for store in (ReplacedInTheBinStaysThere, VersionsBeginAnewInTheBin, RestoredGoesToTheEnd)),
    *((store, CALLS) for store in (OwnersCountTheDeleted, OwnersForgetTheArchived, OwnersInOrderOfCase)),
    *((store, CALLS) for store in (ManyInTheStoresOrder, WordsOfOldTexts, RanksOnlyWhatMatches)),
    *((store, CANCELLED) for store in (LockNotReleased, HalfABatchAtTheSecondAwait)),
    *((store, LEFT) for store in (LeavesAThread, LeavesATask, LeavesASocket, LeavesAFile)),
    (VectorNotRenewed, APART),
]
"""Each wrong store with the case that is to catch it."""

SHARING: list[type[SharedStore]] = [RemembersWhatItRead, BinLostOnClose]
"""Wrong stores that only a second store on the same data, or a new one, brings to light."""
