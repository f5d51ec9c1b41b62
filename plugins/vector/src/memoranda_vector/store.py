"""The vector store: items in memory with their embeddings, found by meaning, by words, or by both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from memoranda.embeddings import Embeddings, has_text
from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.loops import guarded
from memoranda.plugins import embedder
from memoranda.ranking import RankedItem, Weights
from memoranda.shapes import truth, whole_number
from memoranda.store import (
    BASE_CAPABILITIES,
    BaseStore,
    Capability,
    Filter,
    SearchMode,
    check_expected,
    check_filter,
    check_owner,
    copy_item,
    metadata_matches,
)
from memoranda.turns import AT_ONCE, CHANGED_AT_ONCE, aside, sifting, slices
from memoranda.urls import take_options, yes_or_no
from memoranda_vector.ann import ApproximateIndex
from memoranda_vector.bin import Bin, Hidden, matching
from memoranda_vector.copies import collector_paused, kept_copies
from memoranda_vector.searching import Searcher
from memoranda_vector.table import Matrix, Table
from memoranda_vector.vectors import checked_matrix, embed_matrix

_BATCH = 16
"""From this many items on, handling them together is cheaper than one by one."""


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
        self._searcher = Searcher(self._table, embeddings, weights or Weights(), index, above)
        self._hidden = Bin()
        self._added = 0

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
        batch = kept_copies(self._accepted(items))
        matrix = checked_matrix(vectors, len(batch), self._embeddings.dimension)
        with self._turn:
            self._check_owners(batch, within)
            self._put(batch, matrix)
        if self._observers:
            self._observers.added(batch)

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await self._add_many([item], within, None)

    async def _add_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None, ttl: float | None) -> None:
        kept = kept_copies(items)
        self._check_owners(kept, within)  # Before the embedder is paid for.
        vectors = await self._vectors_of(kept)
        self._check_owners(kept, within)
        self._put(kept, vectors)

    async def _add_deleted(
        self, items: Sequence[MemoryItem], within: MemoryMetadata | None, deleted: frozenset[str]
    ) -> None:
        kept = kept_copies(items)
        self._check_owners(kept, within)
        shown = [item for item in kept if item.id not in deleted]
        vectors = iter(await self._vectors_of(shown))
        self._check_owners(kept, within)
        for item in kept:
            if item.id in deleted:
                self._put_hidden(item)
            else:
                self._put([item], next(vectors)[None])

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        kept = kept_copies(items)
        self._check_expected(kept, within)
        vectors = await self._vectors_of(kept)
        self._check_expected(kept, within)
        self._put(kept, vectors)
        return [copy_item(item) for item in kept]

    async def _vectors_of(self, items: Sequence[MemoryItem]) -> Matrix:
        """Return a vector for each item: the one that its content has already, and zeros where there is no text."""
        vectors = np.zeros((len(items), self._embeddings.dimension), dtype=np.float32)
        asked = []
        for place, item in enumerate(items):
            row = self._table.row_of(item.id)
            if row is not None and self._table.item(row).content == item.content:
                vectors[place] = self._table.matrix[row]
            elif has_text(item.content):
                asked.append(place)
        made = await embed_matrix(self._embeddings, [items[place].content for place in asked])
        if len(asked) == len(items):
            return made
        vectors[asked] = made
        return vectors

    def _check_owners(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> None:
        """Raise for the first conflict, with what is stored or inside the batch."""
        if self._are_new(items):
            return
        seen: dict[str, MemoryItem] = {}
        for item in items:
            check_owner(seen.get(item.id) or self._stored(item.id), item, within)
            seen[item.id] = item

    def _check_expected(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> None:
        for item in items:
            row = self._table.row_of(item.id)
            check_expected(item, None if row is None else self._table.item(row), within)
            check_owner(self._stored(item.id), item, within)

    def _are_new(self, items: Sequence[MemoryItem]) -> bool:
        """Whether none of these ids is known yet, and all are different."""
        ids = {item.id for item in items}
        return len(ids) == len(items) and self._table.has_none(ids) and self._hidden.has_none(ids)

    def _stored(self, item_id: str) -> MemoryItem | None:
        """Return what is held under the id, hidden or not."""
        row = self._table.row_of(item_id)
        if row is not None:
            return self._table.item(row)
        hidden = self._hidden.get(item_id)
        return None if hidden is None else hidden.item

    def _put(self, items: Sequence[MemoryItem], vectors: Matrix) -> None:
        """Keep the items, which become the store's own, each in the place of the one it replaces."""
        if len(items) >= _BATCH and self._are_new(items):
            for item in items:
                item.__dict__["version"] = 1
            with collector_paused(len(items)):
                rows = self._table.put_new(items, vectors, self._added)
            self._added += len(items)
            self._searcher.changed(rows.tolist())
            return
        for item, vector in zip(items, vectors, strict=True):
            stored = self._stored(item.id)
            item.__dict__["version"] = 1 if stored is None else stored.version + 1
            self._searcher.changed([self._table.put(item, vector, self._place_of(item.id))])

    def _put_hidden(self, item: MemoryItem) -> None:
        """Keep the item in the bin, in the place of the one it replaces, whose vector goes."""
        if self._table.row_of(item.id) is not None:
            self._hide(item.id)
        stored = self._stored(item.id)
        item.__dict__["version"] = 1 if stored is None else stored.version + 1
        self._hidden.put(item, self._place_of(item.id))

    def _place_of(self, item_id: str) -> int:
        """Return the place in the order of adding: that of the item it replaces, which leaves the bin, or the next."""
        row = self._table.row_of(item_id)
        if row is not None:
            return self._table.added(row)
        hidden = self._hidden.take(item_id)
        if hidden is not None:
            return hidden.added
        self._added += 1
        return self._added - 1

    # Reading

    @guarded
    async def _get(self, item_id: str) -> MemoryItem | None:
        with self._turn:
            row = self._table.row_of(item_id)
            item = None if row is None else self._table.item(row)
        return None if item is None else copy_item(item)

    async def _search(self, wanted: Filter, limit: int) -> list[MemoryItem]:
        rows = self._table.newest_first(await self._table.chosen(wanted), limit)
        items = self._table.items_of(rows)
        return await aside(len(items), _copies, items)

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        candidates = self._hidden.candidates(wanted) if include_deleted else []
        rows = await self._table.chosen(wanted)
        live = len(self._table) if rows is None else len(rows)
        return live + len(await aside(sifting(len(candidates)), matching, candidates, wanted))

    async def _scan(self, wanted: Filter, include_deleted: bool) -> AsyncGenerator[MemoryItem, None]:
        candidates = self._hidden.candidates(wanted) if include_deleted else []
        rows = self._table.newest_first(await self._table.chosen(wanted))[::-1]
        items = self._table.items_of(rows)
        if candidates:
            items = await aside(len(candidates), _merged, items, self._table.places(rows), candidates, wanted)
        async for some in slices(items, AT_ONCE):
            for item in some:
                yield copy_item(item)

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        if mode == "semantic":
            return await self._searcher.by_meaning(query, wanted, limit)
        return await self._searcher.by_words(query, wanted, limit, with_meaning=mode == "hybrid")

    # Removing

    async def _clear(self, wanted: Filter) -> int:
        cleared = 0
        async for some in slices(await self._live(None, wanted), CHANGED_AT_ONCE):
            still = [item for item in some if self._table.holds(item)]
            for item in still:
                self._hide(item.id)
            cleared += len(still)
        return cleared

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        row = self._table.row_of(item_id)
        if row is None or not metadata_matches(within, self._table.item(row).metadata):
            return False
        self._hide(item_id)
        return True

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        candidates = self._candidates(item_id, wanted)
        chosen = await aside(sifting(len(candidates)), matching, candidates, wanted)
        vectors = await self._vectors_of([hidden.item for hidden in chosen])
        restored = 0
        async for some in slices(range(len(chosen)), CHANGED_AT_ONCE):
            for number in some:
                hidden = chosen[number]
                if self._hidden.get(hidden.item.id) is hidden:  # Meanwhile it may have been purged, or added again.
                    self._hidden.take(hidden.item.id)
                    self._searcher.changed([self._table.put(hidden.item, vectors[number], hidden.added)])
                    restored += 1
        return restored

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        # All are taken note of now: what is deleted or restored meanwhile is found where it is then.
        candidates = self._candidates(item_id, wanted)
        live = [] if deleted_only else await self._live(item_id, wanted)
        binned = await aside(sifting(len(candidates)), matching, candidates, wanted)
        purged = 0
        async for some in slices([hidden.item for hidden in binned] + live, CHANGED_AT_ONCE):
            for item in some:
                hidden = self._hidden.get(item.id)
                if hidden is not None and hidden.item is item:
                    self._hidden.take(item.id)
                    purged += 1
                elif not deleted_only and self._table.holds(item):
                    self._remove(item.id)
                    purged += 1
        return purged

    def _remove(self, item_id: str) -> Hidden:
        """Take an item out of the table, with its vector and its words, and return it as the bin would hold it."""
        added = self._table.added(self._table.row_in_use(item_id))
        row, item = self._table.take(item_id)
        self._searcher.changed([row])
        return Hidden(item, added)

    def _hide(self, item_id: str) -> None:
        """Put an item into the bin; its vector goes."""
        self._hidden.put(*self._remove(item_id))

    async def _live(self, item_id: str | None, wanted: Filter) -> list[MemoryItem]:
        """Return the items in the table that match, oldest first: all, or the one of an id."""
        if item_id is None:
            return self._table.items_of(self._table.newest_first(await self._table.chosen(wanted))[::-1])
        row = self._table.row_of(item_id)
        return [] if row is None or not wanted.matches(self._table.item(row)) else [self._table.item(row)]

    def _candidates(self, item_id: str | None, wanted: Filter) -> list[Hidden]:
        """Return the hidden items that may match, as they are now: all, or the one of an id."""
        if item_id is None:
            return self._hidden.candidates(wanted)
        hidden = self._hidden.get(item_id)
        return [] if hidden is None else [hidden]


def _copies(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    return [copy_item(item) for item in items]


def _merged(
    live: Sequence[MemoryItem], places: Sequence[int], candidates: Iterable[Hidden], wanted: Filter
) -> list[MemoryItem]:
    """Return live items, whose places in the order of adding are given, and hidden ones that match, oldest first."""
    entries = [*map(Hidden, live, places), *matching(candidates, wanted)]
    return [entry.item for entry in sorted(entries, key=lambda entry: (entry.item.created_at, entry.added))]
