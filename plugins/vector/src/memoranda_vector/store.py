"""The vector store: items in memory with their embeddings, found by meaning, by words, or by both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace
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
from memoranda_ranking import Weights, has_text, usual_weights
from memoranda_vector.ann import ApproximateIndex
from memoranda_vector.batches import Embedded
from memoranda_vector.bin import Hidden, matching
from memoranda_vector.copies import kept_copies, kept_copy
from memoranda_vector.holdings import Holdings
from memoranda_vector.owning import owners
from memoranda_vector.plans import ATTEMPTS, Plan, checked, ids_of, planned
from memoranda_vector.searching import Searcher
from memoranda_vector.table import Table
from memoranda_vector.vectors import checked_vectors, embed_all, embed_one

_MANY = 16
"""From this many items on, handling them together is cheaper than one by one."""


@one_thread_at_a_time
class VectorMemoryStore(BaseStore):
    """A store in memory that finds items by the meaning of their content.

    ``search(query=…)`` is semantic by default: items come in the order of the cosine between their vector and the
    query's. The names of speakers are taken out of a query before it is embedded. ``mode="text"`` and ``"hybrid"``
    rank by words, and by both; ``weights`` says how much counts. Without a query the newest items come first.

    Adding calls the embedder, with all texts of :meth:`add_many` at once; if that fails, nothing is changed. A content
    that its item has already keeps its vector, and one without text has none: it is not found by meaning. Deleting or
    clearing an item removes its vector; restoring it calls the embedder again. Search is exact. With ``ann=True``
    (extra ``ann``) an approximate index answers unfiltered searches by meaning above ``ann_above`` items.
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
        self._weights = weights or usual_weights(embeddings)
        self._searcher = Searcher(self._table, embeddings, self._weights, index, above)
        self._holdings = Holdings(self._table, self._searcher)

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

        All options but ``weights`` may stand in the URL's query. Raises InputError for one that is not known, and for
        one that has one value there and another as a keyword.
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
        """Store items whose vectors were computed before, as :meth:`add_many` does, without calling the embedder.

        ``vectors`` is a matrix or a list of lists, one row for each item, of the embedder's dimension.
        """
        self._ensure_open()
        check_filter(within, "within")
        batch = await self._accepted(items, None)
        matrix = await checked_vectors(vectors, len(batch), self._embeddings.dimension)
        if not batch:
            return
        await self._make_room([item.id for item in batch])
        await self._written(Write(batch, within, owned=len(batch) > AT_ONCE and not self._observers), Embedded(matrix))
        if self._observers:
            self._observers.added(batch)

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        own = kept_copy(item, self._table.kin(item.metadata))
        check_owner(self._holdings.stored(own.id), own, within)  # Before the embedder is paid for.
        vectors = await self._vectors_of([own])
        check_owner(self._holdings.stored(own.id), own, within)
        self._holdings.put([own], vectors)

    async def _apply(self, write: Write) -> int:
        removed: int = await self._written(write)
        return removed

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        own = await offload(len(items), kept_copies, items)
        if len(own) >= _MANY:
            own = (await self._carried_out(Write(own, within), compared=True)).items
        else:
            self._holdings.check_expected(own, within)  # Before the embedder is paid for.
            vectors = await self._vectors_of(own)
            self._holdings.check_expected(own, within)
            self._holdings.put(own, vectors)
        return await offload(len(own), _copies, own)

    @undivided
    async def _written(self, write: Write, vectors: Embedded | None = None) -> int:
        """Write a batch, whose vectors may be known, and return how many items it deleted."""
        if len(write.adds) + len(write.deletes) >= _MANY:
            own = await offload(len(write.adds), kept_copies, write.adds, write.owned)
            write = replace(write, adds=own, owned=not write.keep_created)
            return (await self._carried_out(write, vectors)).removed
        own = [kept_copy(item, self._table.kin(item.metadata)) for item in write.adds]
        if vectors is None:
            self._holdings.successors(write, own)  # Before the embedder is paid for.
            vectors = await self._vectors_of([item for item in own if item.id not in write.hidden])
        items = self._holdings.successors(write, own)
        removed = sum([self._holdings.take(item_id, write.within, purge=write.purge) for item_id in write.deletes])
        if not write.hidden:
            self._holdings.put(items, vectors)
            return removed
        number = 0
        for item in items:
            if item.id in write.hidden:
                self._holdings.put_hidden(item)
            else:
                self._holdings.put([item], vectors.part([number]))
                number += 1
        return removed

    async def _carried_out(self, write: Write, vectors: Embedded | None = None, *, compared: bool = False) -> Plan:
        """Write a batch of many items, which is planned aside if it is large; others may write meanwhile.

        With ``compared``, the version of each item must be the one that is held.
        """
        ids = ids_of(write)
        if vectors is None:
            self._holdings.check_head(write)
            # Conflicts are told before the embedder is paid for.
            await offload(len(ids), checked, write, self._holdings.seen(ids), compared)
            vectors = await self._vectors_of([item for item in write.adds if item.id not in write.hidden])
        left = ATTEMPTS
        while True:
            weight, left = len(ids) if left else 0, left - 1
            apart = weight > AT_ONCE
            seen, first = self._holdings.seen(ids), self._holdings.next_number(apart=apart)
            if apart and write.adds:  # Memory that is new is slow: little of it in one turn.
                async for some in in_slices(range(seen.rows.count(None)), SIFTED_AT_ONCE):
                    self._table.reserve(some[-1] + 1)
            plan = await offload(weight, planned, write, vectors, seen, first, compared)
            # From here on nobody comes in between.
            if not apart or (self._holdings.is_free(first) and self._holdings.is_as_seen(ids, seen)):
                break
        self._holdings.check_head(write)
        self._holdings.carry_out(plan)
        if apart:
            await asyncio.sleep(0)  # What was replaced is freed in a turn of its own.
            await self._searcher.forget()
        return plan

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        return self._holdings.touch(ids, ttl, now, within)

    async def _soonest_expiry(self) -> str | None:
        return self._holdings.soonest_end()

    async def _vectors_of(self, items: Sequence[MemoryItem]) -> Embedded:
        """Return the vectors of each item: those that its content has already, and zeros where there is no text."""
        if len(items) == 1 and self._table.row_of(items[0].id) is None:
            content, size = items[0].content, self._weights.passage
            if len(content) <= size:  # No term is shorter than a letter, so that it is one passage.
                return Embedded((await embed_one(self._embeddings, content))[np.newaxis])
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
        return Embedded(vectors, further | {asked[number]: rest for number, rest in made.further.items()})

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
        rows = self._table.newest_first(await self._table.chosen(wanted), page.end, page.order)
        items = self._table.items_of(rows[page.offset :])
        return await offload(len(items), _copies, items)

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        candidates = self._holdings.candidates(None, wanted) if include_deleted else []
        rows = await self._table.chosen(wanted)
        live = len(self._table) if rows is None else len(rows)
        return live + len(await offload(filter_weight(len(candidates)), matching, candidates, wanted))

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        candidates = self._holdings.candidates(None, wanted) if include_deleted else []
        rows = self._table.newest_first(await self._table.chosen(wanted), order=order)[::-1]
        items = self._table.items_of(rows)
        if candidates:
            places = self._table.places_of(rows)
            items = await offload(len(candidates), _merged, items, places, candidates, wanted, order)
        async for some in in_slices(items, AT_ONCE):
            for item in some:
                yield copy_item(item)

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        for owner in await owners(self._table, await self._table.chosen(wanted), listing):
            yield owner

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        if mode == "semantic":
            return await self._searcher.by_meaning(query, wanted, limit)
        return await self._searcher.by_words(query, wanted, limit, with_meaning=mode == "hybrid")

    # Removing

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        rows = self._table.newest_first(await self._table.chosen(wanted), 1, "added").tolist()
        # While a thread looked at the items, later ones may have come.
        row = self._table.newest(wanted, self._table.added(rows[0]) if rows else -1)
        if row is None:
            if not rows:
                return None
            row = rows[0]
        item = self._table.item(row)
        self._holdings.take(item.id, None, purge=purge)
        return copy_item(item)

    async def _clear(self, wanted: Filter) -> int:
        cleared = 0
        async for some in in_slices(await self._live(None, wanted), CHANGED_AT_ONCE):
            still = [item for item in some if self._table.holds(item)]
            for item in still:
                self._holdings.hide(item.id)
            cleared += len(still)
        return cleared

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        return self._holdings.take(item_id, within, purge=False)

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        candidates = self._holdings.candidates(item_id, wanted)
        chosen = await offload(filter_weight(len(candidates)), matching, candidates, wanted)
        vectors = await self._vectors_of([hidden.item for hidden in chosen])
        restored = 0
        async for some in in_slices(range(len(chosen)), CHANGED_AT_ONCE):
            # Meanwhile some may have been purged, or added again.
            restored += sum([self._holdings.show(chosen[number], vectors, number) for number in some])
        return restored

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        # All are taken note of now: what is deleted or restored meanwhile is found where it is then.
        candidates = self._holdings.candidates(item_id, wanted)
        live = [] if deleted_only else await self._live(item_id, wanted)
        binned = await offload(filter_weight(len(candidates)), matching, candidates, wanted)
        purged = 0
        async for some in in_slices([hidden.item for hidden in binned] + live, CHANGED_AT_ONCE):
            purged += sum([self._holdings.purge(item, deleted_only=deleted_only) for item in some])
        return purged

    async def _live(self, item_id: str | None, wanted: Filter) -> list[MemoryItem]:
        """Return the items in the table that match, oldest first: all, or the one of an id."""
        if item_id is None:
            return self._table.items_of(self._table.newest_first(await self._table.chosen(wanted))[::-1])
        row = self._table.row_of(item_id)
        return [] if row is None or not wanted.matches(self._table.item(row)) else [self._table.item(row)]


def _copies(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    return [copy_item(item) for item in items]


def _merged(
    live: Sequence[MemoryItem], places: Sequence[int], candidates: Iterable[Hidden], wanted: Filter, order: Order
) -> list[MemoryItem]:
    """Return live items, whose places in the order of adding are given, and hidden ones that match, oldest first."""
    entries = [*map(Hidden, live, places), *matching(candidates, wanted)]
    return in_order([entry.item for entry in sorted(entries, key=lambda entry: entry.added)], order)
