"""The in-memory store: the reference for the conformance kit, indexed by every field of a scope."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from recollect.capabilities import BASE_CAPABILITIES, Capability, SearchMode
from recollect.errors import InputError
from recollect.items import MemoryItem, MemoryMetadata
from recollect.query import Filter, metadata_matches
from recollect.ranked import RankedItem, rank_scope
from recollect.records import SCOPE_FIELDS, copy_item
from recollect.store import BaseStore
from recollect.urls import take_options
from recollect.versions import check_expected, check_owner, successor


class Entry(NamedTuple):
    """An item in its place: by time, then by the order of adding; ``added`` is unique, so items never compare."""

    created_at: str
    added: int
    item: MemoryItem


class Shelf:
    """Entries in order, found by id and by each field of their scope without touching any others."""

    def __init__(self) -> None:
        self._by_id: dict[str, Entry] = {}
        self._all: list[Entry] = []
        self._by_field: dict[tuple[str, str | None], list[Entry]] = {}
        self._terms: dict[str, list[str]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, item_id: str) -> Entry | None:
        """Return the entry of this id."""
        return self._by_id.get(item_id)

    def put(self, entry: Entry) -> None:
        """Add an entry whose id is not on the shelf."""
        self._by_id[entry.item.id] = entry
        for entries in self._lists_of(entry):
            # Memories mostly arrive in the order of their time.
            if not entries or entries[-1] < entry:
                entries.append(entry)
            else:
                insort(entries, entry)

    def take(self, entry: Entry) -> None:
        """Remove one entry."""
        del self._by_id[entry.item.id]
        self._terms.pop(entry.item.id, None)
        for entries in self._lists_of(entry):
            del entries[bisect_left(entries, entry)]
        self._drop_empty(entry)

    def take_many(self, gone: Sequence[Entry]) -> None:
        """Remove several entries, going through each list once."""
        ids = {entry.item.id for entry in gone}
        touched = {id(entries): entries for entry in gone for entries in self._lists_of(entry)}
        for entries in touched.values():
            entries[:] = [entry for entry in entries if entry.item.id not in ids]
        for entry in gone:
            del self._by_id[entry.item.id]
            self._terms.pop(entry.item.id, None)
            self._drop_empty(entry)

    def terms_of(self, item: MemoryItem) -> list[str]:
        """Return the terms of an item on the shelf for a ranking, made when they are first asked for."""
        terms = self._terms.get(item.id)
        if terms is None:
            from recollect.ranking import index_terms  # Loaded on use: most programs never rank.

            terms = self._terms[item.id] = index_terms(item.content)
        return terms

    def newest_first(self, wanted: Filter) -> Iterator[Entry]:
        """Yield the matching entries, reading only the shortest list that can hold them all."""
        matches = wanted.matches
        return (entry for entry in reversed(self._shortest(wanted.metadata)) if matches(entry.item))

    def oldest_first(self, wanted: Filter) -> list[Entry]:
        """Return the matching entries."""
        return [entry for entry in self._shortest(wanted.metadata) if wanted.matches(entry.item)]

    def _shortest(self, metadata: MemoryMetadata | None) -> list[Entry]:
        shortest = self._all
        if metadata is not None:
            for name in SCOPE_FIELDS:
                value = getattr(metadata, name)
                if value is not None:
                    entries = self._by_field.get((name, value))
                    if entries is None:
                        return []
                    if len(entries) < len(shortest):
                        shortest = entries
        return shortest

    def _lists_of(self, entry: Entry) -> Iterable[list[Entry]]:
        yield self._all
        metadata = entry.item.metadata
        for name in SCOPE_FIELDS:
            value = getattr(metadata, name)
            if value is not None:
                yield self._by_field.setdefault((name, value), [])

    def _drop_empty(self, entry: Entry) -> None:
        for name in SCOPE_FIELDS:
            key = (name, getattr(entry.item.metadata, name))
            if key in self._by_field and not self._by_field[key]:
                del self._by_field[key]


class InMemoryStore(BaseStore):
    """A store that lives as long as the process; ``memory://``.

    Items are copied in and out; those of one search share the metadata of their scope, which is frozen. Every call runs
    without giving up the event loop, so each is atomic. Ready for use as soon as it is made.
    """

    capabilities = BASE_CAPABILITIES | {Capability.ATOMIC, Capability.DELETE, Capability.PURGE}
    needs_init = False

    def __init__(self) -> None:
        super().__init__()
        self._live = Shelf()
        self._hidden = Shelf()
        self._added = 0

    @classmethod
    def from_url(cls, url: str) -> InMemoryStore:
        """Return a new, empty store for ``memory://``; the URL has no options."""
        rest, _ = take_options(url, {})
        if rest.partition(":")[2].strip("/"):
            raise InputError("The in-memory store has no name: its URL is 'memory://'.", field="url")
        return cls()

    def __len__(self) -> int:
        return len(self._live)

    def __bool__(self) -> bool:
        return True  # An empty store is still a store.

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        self._put(successor(self._stored(item.id), item, within))

    async def _add_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None, ttl: float | None) -> None:
        seen: dict[str, MemoryItem] = {}
        for item in items:  # All conflicts come before the first change, those inside the batch too.
            check_owner(seen.get(item.id) or self._stored(item.id), item, within)
            seen[item.id] = item
        for item in items:
            self._put(successor(self._stored(item.id), item, within))

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        kept = []
        for item in items:
            live = self._live.get(item.id)
            check_expected(item, live.item if live else None, within)
            kept.append(successor(self._stored(item.id), item, within))
        for item in kept:
            self._put(item)
        return [copy_item(item) for item in kept]

    async def _get(self, item_id: str) -> MemoryItem | None:
        entry = self._live.get(item_id)
        return None if entry is None else copy_item(entry.item)

    async def _search(self, wanted: Filter, limit: int) -> list[MemoryItem]:
        return [copy_item(entry.item) for entry in islice(self._live.newest_first(wanted), limit)]

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        # As the base class does it, but only what is found needs to be copied.
        scope = Filter(metadata=wanted.metadata, archived=wanted.archived)
        items = [entry.item for entry in self._live.newest_first(scope)]
        ranked = rank_scope(query, items, wanted, limit, self._live.terms_of)
        return [replace(found, item=copy_item(found.item)) for found in ranked]

    async def _clear(self, wanted: Filter) -> int:
        gone = self._live.oldest_first(wanted)
        self._live.take_many(gone)
        for entry in gone:
            self._hidden.put(entry)
        return len(gone)

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        shelves = (self._live, self._hidden) if include_deleted else (self._live,)
        return sum(len(shelf.oldest_first(wanted)) for shelf in shelves)

    async def _scan(self, wanted: Filter, include_deleted: bool) -> AsyncGenerator[MemoryItem, None]:
        entries = self._live.oldest_first(wanted)
        if include_deleted:
            entries = sorted(entries + self._hidden.oldest_first(wanted))
        for entry in entries:
            yield copy_item(entry.item)

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        entry = self._live.get(item_id)
        if entry is None or not metadata_matches(within, entry.item.metadata):
            return False
        self._live.take(entry)
        self._hidden.put(entry)
        return True

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        back = self._chosen(self._hidden, item_id, wanted)
        self._hidden.take_many(back)
        for entry in back:
            self._live.put(entry)
        return len(back)

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        purged = 0
        for shelf in (self._hidden,) if deleted_only else (self._hidden, self._live):
            gone = self._chosen(shelf, item_id, wanted)
            shelf.take_many(gone)
            purged += len(gone)
        return purged

    def _chosen(self, shelf: Shelf, item_id: str | None, wanted: Filter) -> list[Entry]:
        if item_id is None:
            return shelf.oldest_first(wanted)
        entry = shelf.get(item_id)
        return [entry] if entry is not None and wanted.matches(entry.item) else []

    def _stored(self, item_id: str) -> MemoryItem | None:
        """Return what is held under the id, hidden or not."""
        entry = self._live.get(item_id) or self._hidden.get(item_id)
        return None if entry is None else entry.item

    def _put(self, item: MemoryItem) -> None:
        """Keep the item, in the place of the one it replaces."""
        added = None
        for shelf in (self._live, self._hidden):
            entry = shelf.get(item.id)
            if entry is not None:
                shelf.take(entry)
                added = entry.added
        if added is None:
            self._added += 1
            added = self._added
        self._live.put(Entry(item.created_at, added, item))
