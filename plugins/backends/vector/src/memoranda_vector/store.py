"""The vector store: items in memory with their embeddings, found by meaning, by words, or by both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from memoranda.embeddings import Embeddings
from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.loops import guarded, undivided
from memoranda.offloading import AT_ONCE, CHANGED_AT_ONCE, SIFTED_AT_ONCE, filter_weight, in_slices, offload
from memoranda.plugins import embedder
from memoranda.shapes import truth, whole_number
from memoranda.store import BaseStore, Capability, Order, Owner, RankedItem, SearchMode, copy_item
from memoranda.store.backend import (
    BASE_CAPABILITIES,
    Filter,
    Listing,
    Page,
    Write,
    check_filter,
    check_owner,
    in_order,
    one_thread_at_a_time,
)
from memoranda.urls import take_options, yes_or_no
from memoranda_backend.ranking import Weights, has_text
from memoranda_vector.batch_columns import ItemVectors, private_copies, private_copy
from memoranda_vector.batch_plan import ATTEMPTS, BatchPlan, checked_items, ids_of, plan_batch
from memoranda_vector.deleted_items import DeletedItem, matching
from memoranda_vector.filtering import matching_rows, newest_row, owners_of
from memoranda_vector.nearest import ApproximateIndex
from memoranda_vector.search import Searcher
from memoranda_vector.stored_items import StoredItems
from memoranda_vector.table import Table
from memoranda_vector.vectors import checked_vectors, embed_all, embed_one

_MANY = 16
"""From this many items on, handling them together is cheaper than one by one."""


@one_thread_at_a_time
class VectorMemoryStore(BaseStore):
    """A store in memory that finds items by the meaning of their content.

    ``search(query=…)`` is semantic by default: items come in the order of the cosine between their vector and the
    query's. The names of speakers are removed from a query before it is embedded. ``mode="text"`` ranks by words and
    ``"hybrid"`` by both; ``weights`` says how much each thing counts. Without a query the newest items come first.

    - Adding calls the embedder, with all texts of :meth:`add_many` at once. If that fails, nothing is changed.
    - An item that is added again with the same content keeps its vector.
    - An item without text has no vector and is not found by meaning.
    - Deleting or clearing an item removes its vector; restoring it calls the embedder again.
    - Search is exact. With ``ann=True`` (extra ``ann``) an approximate index answers unfiltered searches by meaning
      above ``ann_above`` items.
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
    default_mode: ClassVar[SearchMode] = "semantic"
    needs_init: ClassVar[bool] = False

    def __init__(
        self,
        embeddings: Embeddings,
        *,
        weights: Weights | None = None,
        ann: bool = False,
        ann_above: int = 50_000,
    ) -> None:
        super().__init__()
        dimension = whole_number(embeddings.dimension, "embeddings.dimension", least=1)
        self._embeddings = embeddings
        self._table = Table(dimension)
        index = ApproximateIndex(dimension) if truth(ann, "ann") else None
        above = whole_number(ann_above, "ann_above")
        self._weights = weights or Weights()
        self._searcher = Searcher(self._table, embeddings, self._weights, index, above)
        self._stored = StoredItems(self._table, self._searcher)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        embeddings: Embeddings | str | None = None,
        weights: Weights | None = None,
        ann: bool | None = None,
        ann_above: int | None = None,
    ) -> VectorMemoryStore:
        """Return a new, empty store for ``vector://``; ``vector://?embeddings=hashing`` names an installed embedder.

        All options but ``weights`` may also be given in the URL's query. Raises InputError for an unknown option, and
        for one whose value in the URL differs from the keyword's.
        """
        given = {"embeddings": embeddings, "weights": weights, "ann": ann, "ann_above": ann_above}
        rest, options = take_options(url, {"embeddings": str, "ann": yes_or_no, "ann_above": int}, given)
        if rest.partition(":")[2].strip("/"):
            raise InputError("The vector store has no name: its URL is 'vector://'.", field="url")
        found = embedder(options.pop("embeddings", None))
        if found is None:
            raise InputError(
                "The vector store needs an embedder: open('vector://', embeddings=…) with an object or a name.",
                field="embeddings",
            )
        return cls(found, **options)

    @property
    def embeddings(self) -> Embeddings:
        """The underlying embedder."""
        return self._embeddings

    def __len__(self) -> int:
        return len(self._table)

    def __bool__(self) -> bool:
        return True  # An empty store is still a store.

    def __repr__(self) -> str:
        return f"VectorMemoryStore(items={len(self)}, dimension={self._embeddings.dimension})"

    # Writing

    async def add_vectors(
        self, items: Iterable[MemoryItem], vectors: Any, *, within: MemoryMetadata | None = None
    ) -> None:
        """Store items with vectors that were computed before, as :meth:`add_many` does, without calling the embedder.

        ``vectors`` is a matrix or a list of lists of the embedder's dimension, one row for each item.
        """
        self._ensure_open()
        check_filter(within, "within")
        batch = await self._accepted(items, None)
        matrix = await checked_vectors(vectors, len(batch), self._embeddings.dimension)
        if not batch:
            return
        owned = len(batch) > AT_ONCE
        await self._submit(Write(batch, within, owned=owned, vectors=ItemVectors(matrix)))

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        own = private_copy(item, self._table.kin(item.metadata))
        check_owner(self._stored.get(own.id), own, within)  # Before the embedder is paid for.
        vectors = await self._vectors_of([own])
        check_owner(self._stored.get(own.id), own, within)
        self._stored.put([own], vectors)

    async def _apply(self, write: Write) -> int:
        _, removed = await self._write_batch(write, write.vectors)
        return int(removed)

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        updated, _ = await self._write_batch(Write(items, within), compared=True)
        return await offload(len(updated), _copies, updated)

    @undivided
    async def _write_batch(
        self, write: Write, vectors: ItemVectors | None = None, *, compared: bool = False
    ) -> tuple[list[MemoryItem], int]:
        """Write a batch, whose vectors may be known; return its items as they are stored, and how many it deleted.

        With ``compared``, each item must have the version that is stored.
        """
        ids = ids_of(write)
        if len(ids) < _MANY:
            own = [private_copy(item, self._table.kin(item.metadata)) for item in write.adds]
        else:
            own = await offload(len(write.adds), private_copies, write.adds, write.owned)
        write = write.but(adds=own, owned=not write.keep_created)
        if vectors is None:
            self._stored.check_head(write)
            # Conflicts are found before the embedder is paid for.
            await offload(len(ids), checked_items, write, self._stored.snapshot(ids), compared)
            vectors = await self._vectors_of([item for item in own if item.id not in write.hidden])
        if len(ids) >= _MANY:
            plan = await self._write_planned(write, vectors, ids, compared)
            return plan.items, plan.removed
        self._stored.check_head(write)
        items = checked_items(write, self._stored.snapshot(ids), compared)
        removed = sum([self._stored.take(item_id, write.within, purge=write.purge) for item_id in write.deletes])
        self._stored.put(items, vectors, write.hidden)
        return items, removed

    async def _write_planned(self, write: Write, vectors: ItemVectors, ids: Sequence[str], compared: bool) -> BatchPlan:
        """Write a batch of many items. A large one is planned in a thread, while others may write."""
        left = ATTEMPTS
        while True:
            weight, left = len(ids) if left else 0, left - 1
            apart = weight > AT_ONCE
            seen, first = self._stored.snapshot(ids), self._stored.next_number(apart=apart)
            if apart and write.adds:  # New memory is slow, so it is reserved a little at a time.
                async for some in in_slices(range(seen.rows.count(None)), SIFTED_AT_ONCE):
                    self._table.reserve(some[-1] + 1)
            plan = await offload(weight, plan_batch, write, vectors, seen, first, compared)
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

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        return self._stored.touch(ids, ttl, now, within)

    async def _soonest_expiry(self) -> str | None:
        return self._stored.soonest_end()

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
        async for some in in_slices(range(len(items)), AT_ONCE):
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

    @guarded
    async def _get(self, item_id: str) -> MemoryItem | None:
        with self._turn:
            row = self._table.row_of(item_id)
            item = None if row is None else self._table.item(row)
        return None if item is None else copy_item(item)

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        rows = [row for item_id in ids if (row := self._table.row_of(item_id)) is not None]
        return await offload(len(rows), _copies, [self._table.item(row) for row in rows])

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        rows = self._table.newest_first(await matching_rows(self._table, wanted), page.end, page.order)
        items = self._table.items_of(rows[page.offset :])
        return await offload(len(items), _copies, items)

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        candidates = self._stored.deleted_candidates(None, wanted) if include_deleted else []
        rows = await matching_rows(self._table, wanted)
        live = len(self._table) if rows is None else len(rows)
        return live + len(await offload(filter_weight(len(candidates)), matching, candidates, wanted))

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        candidates = self._stored.deleted_candidates(None, wanted) if include_deleted else []
        rows = self._table.newest_first(await matching_rows(self._table, wanted), order=order)[::-1]
        items = self._table.items_of(rows)
        if candidates:
            places = self._table.added[rows].tolist()
            items = await offload(len(candidates), _merged, items, places, candidates, wanted, order)
        async for some in in_slices(items, AT_ONCE):
            for item in some:
                yield copy_item(item)

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        for owner in await owners_of(self._table, await matching_rows(self._table, wanted), listing):
            yield owner

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        if mode == "semantic":
            return await self._searcher.by_meaning(query, wanted, limit)
        return await self._searcher.by_words(query, wanted, limit, with_meaning=mode == "hybrid")

    # Removing

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        rows = self._table.newest_first(await matching_rows(self._table, wanted), 1, "added").tolist()
        # While a thread tested the items, later ones may have been added.
        row = newest_row(self._table, wanted, int(self._table.added[rows[0]]) if rows else -1)
        if row is None:
            if not rows:
                return None
            row = rows[0]
        item = self._table.item(row)
        self._stored.take(item.id, None, purge=purge)
        return copy_item(item)

    async def _clear(self, wanted: Filter) -> int:
        cleared = 0
        async for some in in_slices(await self._live(None, wanted), CHANGED_AT_ONCE):
            still = [item for item in some if self._table.holds(item)]
            for item in still:
                self._stored.delete(item.id)
            cleared += len(still)
        return cleared

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        return self._stored.take(item_id, within, purge=False)

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        candidates = self._stored.deleted_candidates(item_id, wanted)
        chosen = await offload(filter_weight(len(candidates)), matching, candidates, wanted)
        vectors = await self._vectors_of([deleted.item for deleted in chosen])
        restored = 0
        async for some in in_slices(range(len(chosen)), CHANGED_AT_ONCE):
            # Some may have been purged or added again meanwhile.
            restored += sum([self._stored.restore(chosen[number], vectors, number) for number in some])
        return restored

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        # All are listed now: an item that is deleted or restored meanwhile is then found where it is.
        candidates = self._stored.deleted_candidates(item_id, wanted)
        live = [] if deleted_only else await self._live(item_id, wanted)
        deleted = await offload(filter_weight(len(candidates)), matching, candidates, wanted)
        purged = 0
        async for some in in_slices([each.item for each in deleted] + live, CHANGED_AT_ONCE):
            purged += sum([self._stored.purge(item, deleted_only=deleted_only) for item in some])
        return purged

    async def _live(self, item_id: str | None, wanted: Filter) -> list[MemoryItem]:
        """Return the live items that match, oldest first: all, or the one of an id."""
        if item_id is None:
            return self._table.items_of(self._table.newest_first(await matching_rows(self._table, wanted))[::-1])
        row = self._table.row_of(item_id)
        return [] if row is None or not wanted.matches(self._table.item(row)) else [self._table.item(row)]


def _copies(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    return [copy_item(item) for item in items]


def _merged(
    live: Sequence[MemoryItem], places: Sequence[int], candidates: Iterable[DeletedItem], wanted: Filter, order: Order
) -> list[MemoryItem]:
    """Return live items, with these places in the order of adding, and matching deleted ones, oldest first."""
    entries = [*map(DeletedItem, live, places), *matching(candidates, wanted)]
    return in_order([entry.item for entry in sorted(entries, key=lambda entry: entry.added)], order)
