"""What a store holds: the items that are shown, with their vectors, and those that were deleted.

Nothing here is awaited: what a method does is done as a whole, and what it finds still holds when a change follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import is_

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store.backend import Filter, Write, check_expected, check_owner, end_of_life, kept, metadata_matches
from memoranda_vector.batches import NEVER, Embedded
from memoranda_vector.bin import Bin, Hidden
from memoranda_vector.choosing import microseconds
from memoranda_vector.plans import ROOM, Plan, Seen
from memoranda_vector.searching import Searcher
from memoranda_vector.table import Table


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

    def check_head(self, write: Write) -> None:
        """Raise TurnConflictError unless a conversation still ends with the item that a batch expects."""
        if write.expected is not None:
            row = self.table.newest(write.expected.conversation)
            write.expected.check(None if row is None else self.table.item(row).id)

    def successors(self, write: Write, items: list[MemoryItem]) -> list[MemoryItem]:
        """Return the items of a batch, which become the store's own, as they are to be kept.

        Raises the first conflict that the batch meets: with what is stored, inside of itself, or with the conversation
        that it expects.
        """
        self.check_head(write)
        if self.are_new(items):
            return items
        # A copy where it is to be another item than the one that was given, should this be asked once more.
        own = replace(write, adds=items, owned=not write.keep_created)
        return kept(own, self.stored)

    def check_expected(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> None:
        """Raise the first conflict that a compare-and-set of the items meets."""
        for item in items:
            row = self.table.row_of(item.id)
            check_expected(item, None if row is None else self.table.item(row), within)
            if row is None:  # A deleted item of another user may have this id.
                check_owner(self.stored(item.id), item, within)

    # Planning

    def seen(self, ids: Sequence[str]) -> Seen:
        """Return what is held under the ids."""
        rows = self.table.rows_of(ids)
        return Seen(rows, self.table.held(rows), self.table.places_in(rows), self.bin.held(ids))

    def is_as_seen(self, ids: Sequence[str], seen: Seen) -> bool:
        """Whether what was seen under the ids is still held."""
        return (
            self.table.rows_of(ids) == seen.rows
            and all(map(is_, self.table.held(seen.rows), seen.items))
            and all(map(is_, self.bin.held(ids), seen.hidden))
        )

    def next_number(self, *, apart: bool) -> int:
        """Return the number of what is added next, or ``apart`` one behind all that others add until then."""
        return self._added + (ROOM if apart else 0)

    def is_free(self, number: int) -> bool:
        """Whether this number and those behind it are still left."""
        return self._added <= number

    def carry_out(self, plan: Plan) -> None:
        """Do what a plan says, where what it was made from is still held."""
        self.table.take_many(plan.free)
        self.bin.change(plan.gone, plan.come)
        self.table.replace_many(plan.replaced, plan.rows)
        new = self.table.put_new(plan.new, plan.numbers)
        self._added = max(self._added, plan.last + 1)
        self._searcher.changed_many([*plan.free, *plan.rows, *new.tolist()])

    # Changing

    def put(self, items: Sequence[MemoryItem], vectors: Embedded) -> None:
        """Keep the items, which become the store's own, each in the place of the one it replaces."""
        for number, (item, vector) in enumerate(zip(items, vectors.first, strict=True)):
            row = self.table.put(item, vector, vectors.further.get(number), self._succeeding(item))
            self._searcher.changed([row])

    def put_hidden(self, item: MemoryItem) -> None:
        """Keep the item in the bin, in the place of the one it replaces, whose vector goes."""
        if self.table.row_of(item.id) is not None:
            self.hide(item.id)
        self.bin.put(item, self._succeeding(item))

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

    def touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        """Give items that are shown a new life; return how many have one."""
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
            # In one step, since threads may be copying it; it stays the item that it is, with its vector.
            item.__dict__.update(ttl=own, expires_at=expires_at)
            rows.append(row)
            ends.append(moment)
        self.table.set_ends(rows, ends)
        return len(rows)

    def _succeeding(self, item: MemoryItem) -> int:
        """Give an item its version, and return its place in the order of adding.

        Both follow the item that it replaces, which leaves the bin; a new one comes last.
        """
        row = self.table.row_of(item.id)
        held = self.bin.take(item.id) if row is None else Hidden(self.table.item(row), self.table.added(row))
        if held is not None:
            item.__dict__["version"] = held.item.version + 1
            return held.added
        item.__dict__["version"] = 1
        self._added += 1
        return self._added - 1
