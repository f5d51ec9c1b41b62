"""Reading and appending the logs of an owner's slots.

An entry is written as an item that must not exist yet: of two writers that append the same number, one gets a conflict,
reads the log again and takes the next one. So no change is lost, and every change is a single write.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

from memoranda.errors import CorruptStoreError, InputError, VersionConflictError
from memoranda.items import MemoryMetadata, Payload, PayloadChanges, utc_text
from memoranda.store import Capability, Store
from memoranda.store.backend import of_owner
from memoranda.trust import trusted_as
from memoranda_facts.records import Record, Slot, folder_of, item_of, loaded_record, number_of
from memoranda_facts.values import next_tick

logger = logging.getLogger(__name__)

_KEPT_SLOTS = 4_096
"""How many logs are kept between two changes. A kept log that is out of date costs a second attempt, nothing else."""

_PATIENT = 5
"""After how many conflicts in a row a writer waits a little, so that others come to an end."""


@dataclass(slots=True)
class _Kept:
    """The log of a slot as it was last seen, and the highest number in it."""

    records: list[Record]
    last: int


Logs = Mapping[Slot, Sequence[Record]]
Decision = Callable[[Logs, str, bool], Sequence[tuple[Slot, Record]]]
"""Decides what to write, from the logs, the recorded time, and whether the logs were just read.

It returns drafts, whose id and number are given later; none, if nothing is to be written.
"""


def owner_handle(store: Store) -> tuple[Store, MemoryMetadata]:
    """Return the handle of the user whom facts belong to, and the owner that entries are stamped with.

    Raises InputError for a store that is bound to no user, agent or namespace.
    """
    wide = of_owner(store)
    bounds = wide.bounds
    named = bounds is not None and (bounds.user_id or bounds.agent_id or bounds.namespace)
    if bounds is None or not named or bounds.session_id is not None or bounds.task_id is not None:
        raise InputError("Facts belong to a user: give Facts a handle, such as store.scoped(user_id=…).", field="store")
    return wide, MemoryMetadata(user_id=bounds.user_id, agent_id=bounds.agent_id, namespace=bounds.namespace)


class Log:
    """The logs of one owner."""

    def __init__(self, store: Store) -> None:
        self.store, self.owner = owner_handle(store)
        self.folder = folder_of(self.owner)
        self._seen: PayloadChanges | None = None
        self._rows: dict[int, Payload] = {}
        self._parsed: dict[tuple[str, str | None, str | None], Record | None] = {}
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._locks: WeakKeyDictionary[Any, asyncio.Lock] = WeakKeyDictionary()
        # What a change is decided by is read where it is written, not from a replica that may be behind.
        self._primary: Callable[[], AbstractContextManager[None]] = getattr(store.root, "on_primary", nullcontext)
        self._hides = Capability.DELETE in self.store.capabilities
        self.may_have_deleted: Callable[[], bool] = lambda: True
        """Returns False as long as it is certain that nothing in the store was ever deleted."""

    def now(self) -> str:
        return utc_text(datetime.fromtimestamp(self.store.clock(), UTC))

    async def rows(self, **extra: bool) -> list[Payload]:
        where = self.folder.model_copy(update={"extra": extra}) if extra else self.folder
        return await self.store.payloads(memory_type="fact", metadata=where, archived=True)

    async def follow(self) -> list[Record] | None:
        """Bring :meth:`records` up to date, and return the new ones; None if others have changed or are gone."""
        while True:
            since = self._seen
            changes = await self.store.payload_changes(since, memory_type="fact", metadata=self.folder, archived=True)
            # Another call may have followed meanwhile. What changed since then is asked for again.
            if changes.gone is None or since is self._seen:
                break
        had_followed = self._seen is not None  # What was dropped equals nothing, not even an empty log.
        self._seen = changes
        rows, is_same = self._rows, False
        if changes.gone is None:
            is_same = had_followed and list(changes.rows.values()) == list(rows.values())
            self._rows = dict(changes.rows)
        else:
            changed = {number: row for number, row in changes.rows.items() if rows.get(number) != row}
            gone = [number for number in changes.gone if number in rows and number not in changes.rows]
            is_new = not gone and rows.keys().isdisjoint(changed)
            for number in gone:
                del rows[number]
            rows |= changed
            if is_new:
                return self.parsed(changed.values(), keep=True)
        self._parsed = {key: self._parsed[key] for key in map(_key, self._rows.values()) if key in self._parsed}
        return [] if is_same else None

    @property
    def size(self) -> int:
        return len(self._rows)

    def records(self) -> list[Record]:
        return self.parsed(self._rows.values(), keep=True)

    def parsed(self, rows: Iterable[Payload], *, keep: bool = False) -> list[Record]:
        """Return the records of rows, and keep them for the next time if that is asked for.

        What cannot be read is passed over and logged by its id: one such item must not hide all that is known.
        """
        records = []
        for row in rows:
            key = _key(row)
            record = self._parsed[key] if key in self._parsed else _readable(row)
            if keep:
                self._parsed[key] = record
            if record is not None:
                records.append(record)
        return records

    async def slot(self, slot: Slot, *, fresh: bool = True) -> _Kept:
        """Return the log of a slot; unless it has to be ``fresh``, as it was last seen."""
        kept = None if fresh else self._kept.get(slot.mark)
        if kept is None:
            with self._primary():
                kept = await self._read(slot)
        self._keep(slot, kept)
        return kept

    async def _read(self, slot: Slot) -> _Kept:
        held = 0
        if self._hides and self.may_have_deleted():
            # What was deleted may be restored, so that its number is not given again. Counted first: an entry that
            # comes meanwhile must be among those that are read, or its number be free for a conflict.
            held = await self.store.count(include_deleted=True, metadata=slot.metadata)
            if not held:
                return _Kept([], 0)
        rows = await self.store.payloads(memory_type="fact", metadata=slot.metadata, archived=True)
        own = [row for row in rows if row.item_id.startswith(slot.entry_prefix)]
        return _Kept(sorted(self.parsed(own), key=in_order), max([held, *map(_number_taken, own)]))

    def _keep(self, slot: Slot, kept: _Kept) -> None:
        self._kept[slot.mark] = kept
        self._kept.move_to_end(slot.mark)
        if len(self._kept) > _KEPT_SLOTS:
            self._kept.popitem(last=False)

    def forget(self) -> None:
        """Drop what is kept, since entries were removed."""
        self._seen, self._rows = None, {}
        self._kept.clear()
        self._parsed.clear()

    async def append(self, slots: Sequence[Slot], decide: Decision, *, after: str = "") -> tuple[list[Record], Logs]:
        """Append what ``decide`` makes of the logs of some slots, and return it with the logs before.

        Conflicts with other writers are tried again, from the logs as they are then. ``after`` is a time that the new
        entries must be later than.
        """
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        skipped: dict[str, int] = {}
        attempt = 0
        async with lock:
            while True:
                kept = {slot: await self.slot(slot, fresh=attempt > 0) for slot in slots}
                logs = {slot: list(log.records) for slot, log in kept.items()}
                at = self._time_after([after, *(log[-1].at for log in logs.values() if log)])
                drafts = decide(logs, at, attempt > 0)
                if not drafts and attempt == 0:
                    attempt += 1  # What is kept may be out of date: nothing is left undone because of it.
                    continue
                written = self._numbered(drafts, kept, skipped)
                if not written:
                    return [], logs
                try:
                    await self.store.update_many([item_of(record, slot) for slot, record in written])
                except VersionConflictError as conflict:
                    attempt += 1
                    await self._step_aside(conflict.item_id, written, skipped, attempt)
                    continue
                for slot, record in written:
                    kept[slot].records.append(record)
                    kept[slot].last = record.number
                return [record for _, record in written], logs

    def _time_after(self, moments: Iterable[str]) -> str:
        """Return the present, or the moment after the latest of those if a clock was ahead."""
        latest, now = max(moments, default=""), self.now()
        return now if now > latest else next_tick(latest)

    @staticmethod
    def _numbered(
        drafts: Sequence[tuple[Slot, Record]], kept: Mapping[Slot, _Kept], skipped: Mapping[str, int]
    ) -> list[tuple[Slot, Record]]:
        written = []
        last = {slot: log.last + skipped.get(slot.mark, 0) for slot, log in kept.items()}
        for slot, draft in drafts:
            last[slot] += 1
            written.append((slot, replace(draft, id=slot.entry_id(last[slot]), number=last[slot])))
        return written

    async def _step_aside(
        self, taken: str, written: Sequence[tuple[Slot, Record]], skipped: dict[str, int], attempt: int
    ) -> None:
        """Prepare the next attempt; a number that is taken for long by what cannot be seen is passed over."""
        if attempt <= _PATIENT:
            return
        await asyncio.sleep(random.random() * 0.002 * min(attempt, 50))
        for slot, record in written:
            if record.id == taken and (await self.slot(slot)).last < record.number:
                unseen = await self.store.get(taken) is None
                skipped[slot.mark] = skipped.get(slot.mark, 0) + unseen


def in_order(record: Record) -> tuple[str, str, int]:
    """Return what orders records: when they were recorded, then their place in their log."""
    log, _, _ = record.id.rpartition("-")
    return record.at, log, record.number


def _key(row: Payload) -> tuple[str, str | None, str | None]:
    return row.item_id, row.text, row.trust


def _readable(row: Payload) -> Record | None:
    """Return the record of a row with the trust that its item has; None if it is none."""
    try:
        return _as_trusted(loaded_record(row.item_id, row.text), row.trust)
    except CorruptStoreError as error:
        logger.warning("%s It is passed over.", error)
        return None


def _number_taken(row: Payload) -> int:
    """Return which number a row takes in its log, whatever it says; 0 if it takes none."""
    try:
        return number_of(row.item_id)
    except ValueError:
        return 0


def _as_trusted(record: Record, trust: str | None) -> Record:
    """Return a record with the trust that its item has now, which an approval may have raised."""
    return record if trust == record.trust else replace(record, trust=str(trusted_as("fact", trust)))
