"""All items of a store: the live ones with their vectors, and the deleted ones.

Nothing here is awaited. Each method takes effect as a whole, and what it finds still holds when a change follows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import is_

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store.backend import Filter, Write, end_of_life, keep_trust, metadata_matches
from memoranda_vector.batch_columns import NEVER, ItemVectors, microseconds
from memoranda_vector.batch_plan import ROOM, BatchPlan, Snapshot
from memoranda_vector.deleted_items import DeletedItem, DeletedItems
from memoranda_vector.filtering import newest_row
from memoranda_vector.search import Searcher
from memoranda_vector.table import Table


class StoredItems:
    """A table and its deleted items. Together they hold each id once, with its place in the order of adding."""

    def __init__(self, table: Table, searcher: Searcher) -> None:
        self.table = table
        self.deleted = DeletedItems()
        self._searcher = searcher
        self._added = 0

    # Finding

    def get(self, item_id: str) -> MemoryItem | None:
        """Return the item of an id, live or deleted."""
        row = self.table.row_of(item_id)
        if row is not None:
            return self.table.item(row)
        deleted = self.deleted.get(item_id)
        return None if deleted is None else deleted.item

    def deleted_candidates(self, ids: Sequence[str] | None, wanted: Filter) -> list[DeletedItem]:
        """Return the deleted items that may match, as they are now: all, or those of some ids."""
        if ids is None:
            return self.deleted.candidates(wanted)
        return [deleted for deleted in self.deleted.items_of(dict.fromkeys(ids)) if deleted is not None]

    def soonest_end(self) -> str | None:
        """Return when the next item expires, deleted ones included; None if none ever does."""
        return min(filter(None, (self.table.soonest_end(), self.deleted.soonest_end())), default=None)

    # Batches

    def check_head(self, write: Write) -> None:
        """Raise TurnConflictError unless the conversation still ends with the item that a batch expects."""
        if write.expected is not None:
            row = newest_row(self.table, write.expected.conversation)
            write.expected.check(None if row is None else self.table.item(row).id)

    def snapshot(self, ids: Sequence[str]) -> Snapshot:
        """Return what is stored under the ids."""
        rows = self.table.rows_of(ids)
        return Snapshot(rows, self.table.items_at(rows), self.table.places_at(rows), self.deleted.items_of(ids))

    def is_unchanged(self, ids: Sequence[str], seen: Snapshot) -> bool:
        """Return True if a snapshot of the ids still holds."""
        return (
            self.table.rows_of(ids) == seen.rows
            and all(map(is_, self.table.items_at(seen.rows), seen.items))
            and all(map(is_, self.deleted.items_of(ids), seen.deleted))
        )

    def next_number(self, *, apart: bool) -> int:
        """Return the number of the next new item; with ``apart``, one beyond all that others add meanwhile."""
        return self._added + (ROOM if apart else 0)

    def is_free(self, number: int) -> bool:
        """Return True if neither this number nor a higher one was given away."""
        return self._added <= number

    def apply(self, plan: BatchPlan) -> None:
        """Carry out a plan whose snapshot still holds."""
        self.table.take_many(plan.free)
        self.deleted.change(plan.gone, plan.come)
        self.table.replace_many(plan.replaced, plan.rows)
        new = self.table.put_new(plan.new, plan.numbers)
        self._added = max(self._added, plan.last + 1)
        self._searcher.changed([*plan.free, *plan.rows, *new.tolist()])

    # Changing

    def put(self, items: Sequence[MemoryItem], vectors: ItemVectors, deleted: Collection[str] = ()) -> None:
        """Store items, which become the store's own, each instead of the one with its id.

        Items whose id is among ``deleted`` are stored as deleted ones; ``vectors`` are those of the others.
        """
        number = 0
        for item in items:
            if item.id in deleted:
                if self.table.row_of(item.id) is not None:
                    self.delete(item.id)
                self.deleted.put(item, self._succeed(item))
                continue
            first, further = vectors.first[number], vectors.further.get(number)
            self._searcher.changed([self.table.put(item, first, further, self._succeed(item))])
            number += 1

    def take(self, item_id: str, within: MemoryMetadata | None, *, purge: bool) -> bool:
        """Delete an item, or purge it even if it was deleted before; return True if one was within the scope."""
        item = self.get(item_id)
        is_live = self.table.row_of(item_id) is not None
        if item is None or not (is_live or purge) or not metadata_matches(within, item.metadata):
            return False
        if purge:
            self._searcher.forget()
        if not is_live:
            self.deleted.take(item_id)
        elif purge:
            self.remove(item_id)
        else:
            self.delete(item_id)
        return True

    def remove(self, item_id: str) -> DeletedItem:
        """Remove a live item with its vector and its words, and return it as a deleted one."""
        row, item = self.table.take(item_id)
        self._searcher.changed([row])
        return DeletedItem(item, int(self.table.added[row]))

    def delete(self, item_id: str) -> None:
        """Delete a live item so that it can be restored; its vector goes."""
        self.deleted.put(*self.remove(item_id))

    def restore(self, deleted: DeletedItem, vectors: ItemVectors, number: int) -> bool:
        """Restore an item with the vectors of this number; return True if it was still deleted."""
        if self.deleted.get(deleted.item.id) is not deleted:
            return False
        self.deleted.take(deleted.item.id)
        first, further = vectors.first[number], vectors.further.get(number)
        self._searcher.changed([self.table.put(deleted.item, first, further, deleted.added)])
        return True

    def purge(self, item: MemoryItem, *, deleted_only: bool) -> bool:
        """Remove this very item for good, live or deleted; return True if it was still stored."""
        self._searcher.forget()
        deleted = self.deleted.get(item.id)
        if deleted is not None and deleted.item is item:
            self.deleted.take(item.id)
            return True
        if not deleted_only and self.table.holds(item):
            self.remove(item.id)
            return True
        return False

    def touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        """Renew the lifetime of live items; return how many have one."""
        lives: dict[float, tuple[float | None, str | None, int]] = {}
        rows, ends = [], []
        for row in self.table.rows_of(ids):
            if row is None:
                continue
            item = self.table.item(row)
            life = item.ttl if ttl is None else ttl
            if life is None or (within is not None and not metadata_matches(within, item.metadata)):
                continue
            if item.expires_at is not None and item.expires_at <= now:
                continue
            if life not in lives:
                end = end_of_life(now, life)
                lives[life] = (None, None, NEVER) if end is None else (life, end, microseconds(end))
            own, expires_at, moment = lives[life]
            # Both fields change in one step, since threads may be copying the item. It keeps its identity and vector.
            item.__dict__.update(ttl=own, expires_at=expires_at)
            rows.append(row)
            ends.append(moment)
        self.table.set_ends(rows, ends)
        return len(rows)

    def _succeed(self, item: MemoryItem) -> int:
        """Set an item's version and return its place in the order of adding.

        Both follow the item that it replaces, which is no longer a deleted one; a new item comes last.
        """
        row = self.table.row_of(item.id)
        if row is None:
            held = self.deleted.take(item.id)
        else:
            held = DeletedItem(self.table.item(row), int(self.table.added[row]))
        if held is not None:
            item.__dict__["version"] = held.item.version + 1
            keep_trust(held.item, item)
            return held.added
        item.__dict__["version"] = 1
        self._added += 1
        return self._added - 1
