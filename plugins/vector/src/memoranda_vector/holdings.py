"""What a store holds: the items that are shown, with their vectors, and those that were deleted.

Nothing here is awaited: what a method does is done as a whole, and what it finds still holds when a change follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Filter, Write, check_expected, check_owner, end_of_life, kept, metadata_matches
from memoranda_vector.batches import Batch, Embedded, batch_of
from memoranda_vector.bin import Bin, Hidden
from memoranda_vector.searching import Searcher
from memoranda_vector.table import Table

_BATCH = 16
"""From this many items on, handling them together is cheaper than one by one."""


class Holdings:
    """A table and a bin that together hold each id once, each item with its place in the order of adding."""

    def __init__(self, table: Table, searcher: Searcher) -> None:
        self.table = table
        self.bin = Bin()
        self._searcher = searcher
        self._added = 0

    # Finding

    def stored(self, item_id: str) -> MemoryItem | None:
        """Return what is held under the id, hidden or not."""
        row = self.table.row_of(item_id)
        if row is not None:
            return self.table.item(row)
        hidden = self.bin.get(item_id)
        return None if hidden is None else hidden.item

    def are_new(self, items: Sequence[MemoryItem]) -> bool:
        """Whether none of these ids is known yet, and all are different."""
        ids = {item.id for item in items}
        return len(ids) == len(items) and self.table.has_none(ids) and self.bin.has_none(ids)

    def candidates(self, item_id: str | None, wanted: Filter) -> list[Hidden]:
        """Return the hidden items that may match, as they are now: all, or the one of an id."""
        if item_id is None:
            return self.bin.candidates(wanted)
        hidden = self.bin.get(item_id)
        return [] if hidden is None else [hidden]

    def soonest_end(self) -> str | None:
        """Return when the next item expires, hidden ones too; None if none ever does."""
        return min(filter(None, (self.table.soonest_end(), self.bin.soonest_end())), default=None)

    # Checking

    def successors(self, write: Write, items: list[MemoryItem]) -> list[MemoryItem]:
        """Return the items of a batch, which become the store's own, as they are to be kept.

        Raises the first conflict that the batch meets: with what is stored, inside of itself, or with the conversation
        that it expects.
        """
        if write.expected is not None:
            row = self.table.newest(write.expected.conversation)
            write.expected.check(None if row is None else self.table.item(row).id)
        if self.are_new(items):
            return items
        # A copy where it is to be another item than the one that was given, should this be asked once more.
        own = replace(write, adds=items, owned=not write.keep_created)
        return kept(own, self.stored)

    def check_expected(
        self,
        items: Sequence[MemoryItem],
        within: MemoryMetadata | None,
        passed: Sequence[MemoryItem | None] | None = None,
    ) -> list[MemoryItem | None]:
        """Raise the first conflict that a compare-and-set of the items meets, and return what the table holds of them.

        ``passed`` is what was returned before: what is still there meets no conflict.
        """
        found = self.held(items)
        for item, held, before in zip(items, found, passed or [None] * len(items), strict=True):
            if held is None or held is not before:
                check_expected(item, held, within)
            if held is None:  # A deleted item of another user may have this id.
                check_owner(self.stored(item.id), item, within)
        return found

    # Changing

    def held(self, items: Sequence[MemoryItem]) -> list[MemoryItem | None]:
        """Return what the table holds under the ids of items."""
        return self.table.held([item.id for item in items])

    def put(self, items: Sequence[MemoryItem], vectors: Embedded, batch: Batch | None = None) -> None:
        """Keep the items, which become the store's own, each in the place of the one it replaces.

        ``batch`` is what :func:`batch_of` makes of them, where that was done before.
        """
        if len(items) >= _BATCH and len({item.id for item in items}) == len(items):
            self._put_batch(batch or batch_of(items, vectors, self.held(items)))
            return
        self._put_each(items, vectors)

    def _put_batch(self, batch: Batch) -> None:
        """Keep items of different ids."""
        new, replaced, binned = [], [], []
        for place, (item, held) in enumerate(zip(batch.items, self.held(batch.items), strict=True)):
            if held is not None:
                item.__dict__["version"] = held.version + 1
                replaced.append(place)
            elif item.id in self.bin:
                binned.append(place)
            else:
                item.__dict__["version"] = 1
                new.append(place)
        if new:
            self._searcher.changed(self.table.put_new(batch.part(new), self._added).tolist())
            self._added += len(new)
        if replaced:
            self._searcher.changed(self.table.replace_many(batch.part(replaced)).tolist())
        if binned:
            self._put_each([batch.items[place] for place in binned], batch.vectors.part(binned))

    def _put_each(self, items: Sequence[MemoryItem], vectors: Embedded) -> None:
        for number, (item, vector) in enumerate(zip(items, vectors.first, strict=True)):
            stored = self.stored(item.id)
            item.__dict__["version"] = 1 if stored is None else stored.version + 1
            row = self.table.put(item, vector, vectors.further.get(number), self._place_of(item.id))
            self._searcher.changed([row])

    def put_hidden(self, item: MemoryItem) -> None:
        """Keep the item in the bin, in the place of the one it replaces, whose vector goes."""
        if self.table.row_of(item.id) is not None:
            self.hide(item.id)
        stored = self.stored(item.id)
        item.__dict__["version"] = 1 if stored is None else stored.version + 1
        self.bin.put(item, self._place_of(item.id))

    def take(self, item_id: str, within: MemoryMetadata | None, *, purge: bool) -> bool:
        """Hide one item, or remove it for good, hidden or not; return whether there was one within the scope."""
        stored = self.stored(item_id)
        shown = self.table.row_of(item_id) is not None
        if stored is None or not (shown or purge) or not metadata_matches(within, stored.metadata):
            return False
        if not shown:
            self.bin.take(item_id)
        elif purge:
            self.remove(item_id)
        else:
            self.hide(item_id)
        return True

    def remove(self, item_id: str) -> Hidden:
        """Take an item out of the table, with its vector and its words, and return it as the bin would hold it."""
        added = self.table.added(self.table.row_in_use(item_id))
        row, item = self.table.take(item_id)
        self._searcher.changed([row])
        return Hidden(item, added)

    def hide(self, item_id: str) -> None:
        """Put an item into the bin; its vector goes."""
        self.bin.put(*self.remove(item_id))

    def show(self, hidden: Hidden, vectors: Embedded, number: int) -> bool:
        """Take an item out of the bin, with the new vectors of this number; return whether it was still there."""
        if self.bin.get(hidden.item.id) is not hidden:
            return False
        self.bin.take(hidden.item.id)
        first, further = vectors.first[number], vectors.further.get(number)
        self._searcher.changed([self.table.put(hidden.item, first, further, hidden.added)])
        return True

    def purge(self, item: MemoryItem, *, deleted_only: bool) -> bool:
        """Remove this very item for good, wherever it is now; return whether it was still there."""
        hidden = self.bin.get(item.id)
        if hidden is not None and hidden.item is item:
            self.bin.take(item.id)
            return True
        if not deleted_only and self.table.holds(item):
            self.remove(item.id)
            return True
        return False

    def touch(self, item_id: str, ttl: float | None, now: str, within: MemoryMetadata | None) -> bool:
        """Give an item that is shown a new life; return whether it has one."""
        row = self.table.row_of(item_id)
        if row is None or not metadata_matches(within, self.table.item(row).metadata):
            return False
        item = self.table.item(row)
        life = item.ttl if ttl is None else ttl
        if life is None or (item.expires_at is not None and item.expires_at <= now):
            return False
        ends = end_of_life(now, life)
        self.table.touch(row, None if ends is None else life, ends)
        return True

    def _place_of(self, item_id: str) -> int:
        """Return the place in the order of adding: that of the item it replaces, which leaves the bin, or the next."""
        row = self.table.row_of(item_id)
        if row is not None:
            return self.table.added(row)
        hidden = self.bin.take(item_id)
        if hidden is not None:
            return hidden.added
        self._added += 1
        return self._added - 1
