"""The engine of a vector store: items in memory with their vectors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from memoranda.embeddings import Embeddings
from memoranda.items import MemoryItem, MemoryMetadata, Payload
from memoranda.loops import (
    ITEMS_CHANGED_PER_TURN,
    ITEMS_FILTERED_PER_TURN,
    ITEMS_PER_TURN,
    CallsUnderWay,
    filter_weight,
    in_slices,
    offload,
    uninterrupted,
)
from memoranda.shapes import whole_number
from memoranda.store import Capability, Order, Owner, copy_item
from memoranda.store.backend import (
    BASE_CAPABILITIES,
    Change,
    Engine,
    Filter,
    Listing,
    Opened,
    Opening,
    Query,
    Write,
    Written,
    check_owner,
    in_order,
)
from memoranda_backend.ranking import Weights, has_text
from memoranda_vector.batch_columns import ItemVectors, private_copies, private_copy
from memoranda_vector.batch_plan import ATTEMPTS, BatchPlan, checked_items, ids_of, plan_batch
from memoranda_vector.deleted_items import DeletedItem, matching
from memoranda_vector.filtering import matching_rows, newest_row, owners_of, staying_before
from memoranda_vector.search import Searcher
from memoranda_vector.stored_items import StoredItems
from memoranda_vector.table import Table
from memoranda_vector.vectors import ApproximateIndex, embed_all, embed_one

_MANY = 16
"""From this many items on, handling them together is cheaper than one by one."""

T = TypeVar("T")


class VectorEngine(Engine):
    """Keeps items in memory with the vectors of their contents: see :class:`memoranda_vector.VectorMemoryStore`.

    Above ``ann_above`` items, ``ann`` answers unfiltered searches by meaning.
    """

    capabilities = BASE_CAPABILITIES | {
        Capability.ATOMIC,
        Capability.DELETE,
        Capability.ADD_DELETED,
        Capability.PURGE,
        Capability.TTL,
        Capability.SEMANTIC,
        Capability.HYBRID,
    }
    reads_staying = True

    def __init__(self, embeddings: Embeddings, weights: Weights, ann: bool, ann_above: int) -> None:
        dimension = whole_number(embeddings.dimension, "embeddings.dimension", least=1)
        self._embeddings = embeddings
        self._weights = weights
        self._table = Table(dimension)
        index = ApproximateIndex(dimension) if ann else None
        self._searcher = Searcher(self._table, embeddings, weights, index, ann_above)
        self._stored = StoredItems(self._table, self._searcher)
        self._mark: str | None = None
        self._calls = CallsUnderWay()
        # Held by the thread whose step it is: see uninterrupted().
        self._turn = threading.RLock()

    def __len__(self) -> int:
        return len(self._table)

    async def open(self, opening: Opening) -> Opened:
        """Return what is here. There is nothing to open."""
        return Opened(self._mark, self._stored.soonest_end())

    async def close(self) -> None:
        """Wait for writes under way, whose texts are being embedded."""
        await self._calls.ended()

    # Writing

    async def write(self, write: Write) -> Written:
        """Carry out a write, after embedding the texts that are new to the engine."""
        with self._calls.call():
            written: Written = await self._written(write)
            return written

    @uninterrupted
    async def _written(self, write: Write) -> Written:
        if write.change is not None:
            return await self._changed(write.change)
        if write.now:
            self._remove_expired(write)
        if len(write.adds) == 1 and write.is_plain:
            await self._add(write.adds[0], write.within)
            return Written()
        items, removed = await self._write_batch(write)
        if not write.compared:
            return Written(removed)
        return Written(0, await offload(len(items), _copies, items))

    async def _changed(self, change: Change) -> Written:
        wanted, ids = change.wanted, change.ids
        match change.action:
            case "delete":
                return Written(await self._delete(ids, wanted))
            case "restore":
                return Written(await self._restore(ids, wanted))
            case "purge":
                return Written(await self._purge(ids, wanted, change.deleted_only))
            case "sweep":
                return Written(await self._purge(ids, wanted, False), next_expiry=self._stored.soonest_end())
            case "pop":
                return await self._pop(wanted, change.purge)
            case "touch":
                return Written(self._stored.touch(change.ids or (), change.ttl, change.now, wanted.metadata))
            case "mark":
                self._mark = change.text
                return Written()

    def _remove_expired(self, write: Write) -> None:
        """Remove the items that hold an id of the write and have expired."""
        for item_id in set(write.ids):
            item = self._stored.get(item_id)
            if item is not None and item.expires_at is not None and item.expires_at <= write.now:
                self._stored.purge(item, deleted_only=False)

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        """Store one item; its vectors are made first."""
        own = private_copy(item, self._table.kin(item.metadata))
        check_owner(self._stored.get(own.id), own, within)  # Before the embedder is paid for.
        vectors = await self._vectors_of([own])
        check_owner(self._stored.get(own.id), own, within)
        self._stored.put([own], vectors)

    async def _write_batch(self, write: Write) -> tuple[list[MemoryItem], int]:
        """Write a batch, whose vectors may be known; return its items as they are stored, and how many it deleted."""
        vectors: ItemVectors | None = write.vectors
        ids = ids_of(write)
        if len(ids) < _MANY:
            own = [private_copy(item, self._table.kin(item.metadata)) for item in write.adds]
        else:
            own = await offload(len(write.adds), private_copies, write.adds, write.owned)
        write = write.but(adds=own, owned=not write.keep_created)
        if vectors is None:
            self._stored.check_head(write)
            # Conflicts are found before the embedder is paid for.
            await offload(len(ids), checked_items, write, self._stored.snapshot(ids), write.compared)
            vectors = await self._vectors_of([item for item in own if item.id not in write.hidden])
        if len(ids) >= _MANY:
            plan = await self._write_planned(write, vectors, ids)
            return plan.items, plan.removed
        self._stored.check_head(write)
        items = checked_items(write, self._stored.snapshot(ids), write.compared)
        removed = sum([self._stored.take(item_id, write.within, purge=write.purge) for item_id in write.deletes])
        self._stored.put(items, vectors, write.hidden)
        return items, removed

    async def _write_planned(self, write: Write, vectors: ItemVectors, ids: Sequence[str]) -> BatchPlan:
        """Write a batch of many items. A large one is planned in a thread, while others may write."""
        left = ATTEMPTS
        while True:
            weight, left = len(ids) if left else 0, left - 1
            apart = weight > ITEMS_PER_TURN
            seen, first = self._stored.snapshot(ids), self._stored.next_number(apart=apart)
            if apart and write.adds:  # New memory is slow, so it is reserved a little at a time.
                async for some in in_slices(range(seen.rows.count(None)), ITEMS_FILTERED_PER_TURN):
                    self._table.reserve(some[-1] + 1)
            plan = await offload(weight, plan_batch, write, vectors, seen, first, write.compared)
            # Nothing is awaited from here until the plan is applied.
            if not apart or (self._stored.is_free(first) and self._stored.is_unchanged(ids, seen)):
                break
        self._stored.check_head(write)
        self._stored.apply(plan)
        if write.purge:
            self._searcher.forget()
        if apart:
            await asyncio.sleep(0)  # Let others run before the replaced items are freed.
        return plan

    async def _vectors_of(self, items: Sequence[MemoryItem]) -> ItemVectors:
        """Return the vectors of each item: stored ones if its content is unchanged, zeros if it has no text."""
        if len(items) == 1 and self._table.row_of(items[0].id) is None:
            content, size = items[0].content, self._weights.passage
            if len(content) <= size:  # No term is shorter than a letter, so it is one passage.
                return ItemVectors((await embed_one(self._embeddings, content))[np.newaxis])
            return await embed_all(self._embeddings, [content], size)
        vectors = np.zeros((len(items), self._embeddings.dimension), dtype=np.float32)
        further = {}
        asked = []
        async for some in in_slices(range(len(items)), ITEMS_PER_TURN):
            contents = [items[place].content for place in some]
            rows = self._table.rows_of([items[place].id for place in some])
            for place, content, row in zip(some, contents, rows, strict=True):
                if row is not None and self._table.item(row).content == content:
                    vectors[place] = self._table.matrix[row]
                    if row in self._table.further:
                        further[place] = self._table.further[row]
                elif has_text(content):
                    asked.append(place)
        made = await embed_all(self._embeddings, [items[place].content for place in asked], self._weights.passage)
        if len(asked) == len(items):
            return made
        vectors[asked] = made.first
        return ItemVectors(vectors, further | {asked[number]: rest for number, rest in made.further.items()})

    # Reading

    async def read(self, query: Query[T]) -> list[T]:
        """Return what a query asks for."""
        found: Any
        ids = query.ids
        if ids is not None and len(ids) == 1:
            with self._turn:
                row = self._table.row_of(ids[0])
                item = None if row is None else self._table.item(row)
            found = [] if item is None else [copy_item(item)]
        else:
            found = await self._read(query)
        return found  # type: ignore[no-any-return]  # The form of the query says what it is.

    @uninterrupted
    async def _read(self, query: Query[Any]) -> list[Any]:
        if query.ids is not None:
            return await self._get_many(query.ids)
        if query.ranking is not None:
            text, mode = query.ranking
            if mode == "semantic":
                return await self._searcher.by_meaning(text, query.wanted, query.page.limit)
            return await self._searcher.by_words(text, query.wanted, query.page.limit, with_meaning=mode == "hybrid")
        found = await self._search(query)
        return list(map(Payload.of, found)) if query.form == "payloads" else found

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        rows = [row for item_id in ids if (row := self._table.row_of(item_id)) is not None]
        return await offload(len(rows), _copies, [self._table.item(row) for row in rows])

    async def _search(self, query: Query[Any]) -> list[MemoryItem]:
        page = query.page
        matching = await matching_rows(self._table, query.wanted)
        rows = self._table.newest_first(matching, page.end, page.order)[page.offset :]
        if query.staying and len(rows) == page.limit:
            rows = np.concatenate([rows, staying_before(self._table, matching, rows)])
        items = self._table.items_of(rows)
        return await offload(len(items), _copies, items)

    @uninterrupted
    async def count(self, query: Query[MemoryItem]) -> int:
        """Return how many items match."""
        wanted = query.wanted
        candidates = self._stored.deleted_candidates(None, wanted) if query.deleted else []
        rows = await matching_rows(self._table, wanted)
        live = len(self._table) if rows is None else len(rows)
        return live + len(await offload(filter_weight(len(candidates)), matching, candidates, wanted))

    @uninterrupted
    async def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield all items that match, oldest first, as they were when the read began."""
        wanted, order = query.wanted, query.page.order
        candidates = self._stored.deleted_candidates(None, wanted) if query.deleted else []
        rows = self._table.newest_first(await matching_rows(self._table, wanted), order=order)[::-1]
        items = self._table.items_of(rows)
        if candidates:
            places = self._table.added[rows].tolist()
            items = await offload(len(candidates), _merged, items, places, candidates, wanted, order)
        async for some in in_slices(items, ITEMS_PER_TURN):
            for item in some:
                yield copy_item(item)

    @uninterrupted
    async def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        """Yield the owners of the items that match, in order."""
        for owner in await owners_of(self._table, await matching_rows(self._table, query.wanted), listing):
            yield owner

    # Removing

    async def _pop(self, wanted: Filter, purge: bool) -> Written:
        rows = self._table.newest_first(await matching_rows(self._table, wanted), 1, "added").tolist()
        # While a thread tested the items, later ones may have been added.
        row = newest_row(self._table, wanted, int(self._table.added[rows[0]]) if rows else -1)
        if row is None:
            if not rows:
                return Written()
            row = rows[0]
        item = self._table.item(row)
        self._stored.take(item.id, None, purge=purge)
        return Written(1, [copy_item(item)])

    async def _delete(self, ids: Sequence[str] | None, wanted: Filter) -> int:
        cleared = 0
        async for some in in_slices(await self._live(ids, wanted), ITEMS_CHANGED_PER_TURN):
            still = [item for item in some if self._table.holds(item)]
            for item in still:
                self._stored.delete(item.id)
            cleared += len(still)
        return cleared

    async def _restore(self, ids: Sequence[str] | None, wanted: Filter) -> int:
        candidates = self._stored.deleted_candidates(ids, wanted)
        chosen = await offload(filter_weight(len(candidates)), matching, candidates, wanted)
        vectors = await self._vectors_of([deleted.item for deleted in chosen])
        restored = 0
        async for some in in_slices(range(len(chosen)), ITEMS_CHANGED_PER_TURN):
            # Some may have been purged or added again meanwhile.
            restored += sum([self._stored.restore(chosen[number], vectors, number) for number in some])
        return restored

    async def _purge(self, ids: Sequence[str] | None, wanted: Filter, deleted_only: bool) -> int:
        # All are listed now: an item that is deleted or restored meanwhile is then found where it is.
        candidates = self._stored.deleted_candidates(ids, wanted)
        live = [] if deleted_only else await self._live(ids, wanted)
        deleted = await offload(filter_weight(len(candidates)), matching, candidates, wanted)
        purged = 0
        async for some in in_slices([each.item for each in deleted] + live, ITEMS_CHANGED_PER_TURN):
            purged += sum([self._stored.purge(item, deleted_only=deleted_only) for item in some])
        return purged

    async def _live(self, ids: Sequence[str] | None, wanted: Filter) -> list[MemoryItem]:
        """Return the live items that match, oldest first: all, or those of some ids."""
        if ids is None:
            return self._table.items_of(self._table.newest_first(await matching_rows(self._table, wanted))[::-1])
        rows = [row for item_id in dict.fromkeys(ids) if (row := self._table.row_of(item_id)) is not None]
        return [item for item in map(self._table.item, rows) if wanted.matches(item)]


def _copies(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    return [copy_item(item) for item in items]


def _merged(
    live: Sequence[MemoryItem], places: Sequence[int], candidates: Iterable[DeletedItem], wanted: Filter, order: Order
) -> list[MemoryItem]:
    """Return live items, with these places in the order of adding, and matching deleted ones, oldest first."""
    entries = [*map(DeletedItem, live, places), *matching(candidates, wanted)]
    return in_order([entry.item for entry in sorted(entries, key=lambda entry: entry.added)], order)
