"""Taking back facts whose sources are gone, and noticing that they may be."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from memoranda.errors import MemoryError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, Observer, Store
from memoranda.store.backend import Filter, Value, items_where
from memoranda.store.owners import space_of
from memoranda_facts.changes import Changes
from memoranda_facts.knowledge import Knowledge
from memoranda_facts.log import Logs
from memoranda_facts.records import MANUAL, FactMemory, Record, Slot, Source
from memoranda_facts.results import Provenance, Receipt
from memoranda_facts.schema import Schema
from memoranda_facts.timeline import active_records

logger = logging.getLogger(__name__)


class RemovalWatch(Observer):
    """Counts the removals of a store, those of each user apart, and what was done about them.

    ``settled`` holds for each owner the count up to which facts were compared with their sources, by whichever object,
    and ``unreported`` what was taken back since :meth:`Reconciling.reconcile` was last called. ``ends`` says when the
    first source of an owner's facts expires, as far as a look at the sources, or who named them, has shown.
    """

    only_removals = True

    def __init__(self) -> None:
        self._anywhere = 0
        self._by_user: dict[str, int] = {}
        self._facts: WeakSet[Reconciling] = WeakSet()
        self._is_busy = False
        self.settled: dict[MemoryMetadata, tuple[int, int]] = {}
        self.unreported: dict[MemoryMetadata, Receipt] = {}
        self.ends: dict[MemoryMetadata, str] = {}

    def relies_on(self, owner: MemoryMetadata, items: Iterable[MemoryItem]) -> None:
        ends = [item.expires_at for item in items if item.expires_at is not None]
        if ends:
            self.ends[owner] = min([*ends, self.ends.get(owner, ends[0])])

    def watch_for(self, facts: Reconciling) -> None:
        """Let facts be compared with their sources after every purge, as long as the object is in use."""
        self._facts.add(facts)

    async def purged(self) -> None:
        """Take back what a purge left without sources, before the purge returns."""
        if self._is_busy:  # What takes facts back purges them.
            return
        self._is_busy = True
        try:
            for facts in list(self._facts):
                await facts.settle()
        except MemoryError as error:  # The purge is done. The next read tries again.
            logger.error("Facts were not compared with their sources after a purge: %s.", type(error).__name__)
        finally:
            self._is_busy = False

    def cleared(self, metadata: MemoryMetadata | None, removed: int) -> None:
        if removed and (metadata is None or metadata.user_id is None):
            self._anywhere += 1
        elif removed and metadata is not None and metadata.user_id is not None:
            self._by_user[metadata.user_id] = self._by_user.get(metadata.user_id, 0) + 1

    def seen(self, user_id: str | None) -> tuple[int, int]:
        """Return what changes with every removal that may concern a user."""
        others = sum(self._by_user.values()) if user_id is None else self._by_user.get(user_id, 0)
        return self._anywhere, others


_WATCHES: WeakKeyDictionary[Any, RemovalWatch] = WeakKeyDictionary()
_one_at_a_time = threading.Lock()  # Two threads that ask first must not each get a watch of their own.


def watch_of(store: Store) -> RemovalWatch:
    """Return the watch of the store that a handle belongs to; it is put there on first use."""
    root = store.root
    with _one_at_a_time:
        if root not in _WATCHES:
            _WATCHES[root] = RemovalWatch()
            root.observe(_WATCHES[root])
        return _WATCHES[root]


class Reconciling(Changes):
    """Facts that go with their sources."""

    def __init__(self, store: Store, *, schema: Schema | None = None) -> None:
        super().__init__(store, schema=schema)
        self._watch = watch_of(store)
        self._watch.watch_for(self)
        if Capability.PERSISTENT not in store.capabilities:
            self._log.may_have_deleted = lambda: self._watch.seen(None) != (0, 0)

    async def reconcile(self) -> Receipt:
        """Take back what has lost its sources, and return which entries that were, since this was last called.

        An entry whose items were all purged, or forgotten, is purged with what was made from it. A confirmation with
        other sources then stands for it. If its items were only deleted, it is taken back until they are restored. What
        has other sources loses those that are gone. It is called after every purge in this process and before a read
        that follows another removal, or the end of a source's life. Call it to find what other processes removed since
        this one began to read.
        """
        await self._reconciled()
        return self._watch.unreported.pop(self._log.owner)

    async def _reconciled(self) -> None:
        self._watch.settled[self._log.owner] = self._watch.seen(self._log.owner.user_id)
        self._log.forget()
        knowledge = await self._knowledge_of_rows()
        self._watch.ends.pop(self._log.owner, None)
        found, missing, hidden = await _sources_of(self._log.store, knowledge.records)
        self._watch.relies_on(self._log.owner, found)
        lost = _unsupported(knowledge.records, missing)
        purged = _useless(knowledge.records, _unsupported(knowledge.records, missing - hidden), hidden)
        if Capability.PURGE not in self._log.store.capabilities:
            purged = set()
        forgotten = {target for each in _active(knowledge) if each.kind == "forget" for target in each.targets}
        receipt = await self._forget(knowledge, lost - purged - forgotten, purged)
        await self._take_up_again(knowledge, lost | purged)
        await self._drop_sources(knowledge.records, missing - hidden, lost | purged)
        for entry in sorted(purged):
            await self._log.store.purge(entry)
        self._watch.settled[self._log.owner] = self._watch.seen(self._log.owner.user_id)
        if missing:
            self._log.forget()
        before = self._watch.unreported.get(self._log.owner)
        self._watch.unreported[self._log.owner] = receipt if before is None else _joined(before, receipt)

    async def settle(self) -> None:
        """Reconcile if something was removed or has expired since the last time, or if this process has not looked."""
        owner, seen = self._log.owner, self._watch.seen(self._log.owner.user_id)
        ends = self._watch.ends.get(owner)
        has_changed = self._watch.settled.get(owner) != seen or (ends is not None and ends <= self._log.now())
        if has_changed and self._log.store.access != "read":
            await self._reconciled()

    def _supported(
        self, named: Sequence[MemoryItem | Source], held: Mapping[str, MemoryItem], trust: str | None
    ) -> Provenance:
        items = [each for each in named if isinstance(each, MemoryItem)]
        self._watch.relies_on(self._log.owner, [*items, *held.values()])
        return super()._supported(named, held, trust)

    async def _before_reading(self) -> None:
        # Where an observer reads what is added, as with ``facts="rules"``, what was added before counts.
        await self._log.store.known(tokens=0)
        await self.settle()

    async def _forget(self, knowledge: Knowledge, hidden: Collection[str], purged: Collection[str]) -> Receipt:
        """Write that entries are forgotten, so that their numbers are never given again.

        For those that will be purged, the entry that says so names neither subject nor predicate.
        """
        named = {record.id: record for record in knowledge.records}
        drafts: dict[Slot, list[Record]] = {}
        for entry in sorted([*hidden, *purged]):
            record = named[entry]
            slot = Slot.of_entry(self._log.owner, entry)
            draft = replace(record, kind="forget", value=None, key=None, undoes=None, depends_on=(), qualifiers={})
            if entry in purged:
                draft = replace(draft, subject="", predicate="")
            same = [each for each in drafts.get(slot, ()) if each.subject == draft.subject]
            if same:
                drafts[slot][drafts[slot].index(same[0])] = replace(same[0], targets=(*same[0].targets, entry))
            else:
                drafts.setdefault(slot, []).append(replace(draft, targets=(entry,)))
        name, now = uuid.uuid4().hex, self._present(knowledge)
        held = [fact for fact in knowledge.at(now) if any(entry in hidden or entry in purged for entry in fact.entries)]

        def decide(logs: Logs, at: str, fresh: bool) -> list[tuple[Slot, Record]]:
            return [
                (slot, replace(_by_hand(draft, "sources gone"), change=name, at=at))
                for slot, found in drafts.items()
                for draft in found
            ]

        written: list[Record] = []
        if drafts:
            written, _ = await self._log.append(list(drafts), decide, after=knowledge.latest)
        gone = sorted([*hidden, *purged])
        return Receipt(
            id=name,
            kind="forget",
            entries=tuple(record.id for record in written),
            at=written[0].at if written else now,
            by="sources gone",
            replaced=tuple(fact.id for fact in held if all(entry in gone for entry in fact.entries)),
            unsure=tuple(entry for entry in knowledge.dependents(gone) if entry not in gone),
            removed=tuple(gone),
        )

    async def _take_up_again(self, knowledge: Knowledge, lost: Collection[str]) -> None:
        present = {record.id for record in knowledge.records}
        for record in _active(knowledge):
            back = any(target in present and target not in lost for target in record.targets)
            if record.kind == "forget" and back:
                slot = Slot.of_entry(self._log.owner, record.id)
                draft = _by_hand(replace(record, kind="undo", targets=(), undoes=record.change), "sources restored")
                draft = replace(draft, change=uuid.uuid4().hex)

                def decide(
                    logs: Logs, at: str, fresh: bool, slot: Slot = slot, draft: Record = draft
                ) -> list[tuple[Slot, Record]]:
                    return [(slot, replace(draft, at=at))]

                await self._log.append([slot], decide, after=knowledge.latest)

    async def _drop_sources(self, records: Sequence[Record], gone: Collection[str], lost: Collection[str]) -> None:
        """Write the entries that have other sources again, without those that are gone."""
        for record in records:
            if record.id in lost or not any(source.item_id in gone for source in record.sources):
                continue
            item = await self._log.store.get(record.id)
            entry = None if item is None else FactMemory(**item.model_dump()).without_sources(gone)
            if entry is not None:
                await self._log.store.update(entry)


def _joined(earlier: Receipt, later: Receipt) -> Receipt:
    lists: dict[str, Any] = {
        name: tuple(dict.fromkeys((*getattr(earlier, name), *getattr(later, name))))
        for name in ("entries", "replaced", "unsure", "removed")
    }
    return replace(later, **lists)


def _by_hand(draft: Record, rule: str) -> Record:
    """Return a draft of a record that no item says."""
    return replace(
        draft, sources=(MANUAL,), rule=rule, trust="operator", valid_from=None, valid_to=None, confidence=1.0
    )


async def _sources_of(store: Store, records: Sequence[Record]) -> tuple[Sequence[MemoryItem], set[str], set[str]]:
    """Return the sources and targets of records, the ids of those not there, and of these those only deleted.

    What lies in a space is there, whether this handle reaches it or not: who loses the space loses the fact with it.
    """
    entries = {record.id for record in records}
    named = {source.item_id for record in records for source in record.sources if not source.is_manual}
    named |= {target for record in records for target in record.targets}
    asked = sorted(named - entries)
    found = await store.get_many(asked)
    missing = set(asked).difference([item.id for item in found])
    if not missing:
        return found, missing, missing
    missing -= await _in_spaces(store, missing)
    hidden: set[str] = set()
    if missing and Capability.DELETE in store.capabilities:
        where = {"id": {"$in": sorted(missing)}}
        hidden = {item.id async for item in store.scan(include_deleted=True, where=where)}
        hidden |= await _in_spaces(store, missing, deleted=True)
    return found, missing, hidden


async def _in_spaces(store: Store, ids: Collection[str], *, deleted: bool = False) -> set[str]:
    """Return those of some ids whose items lie in spaces, with ``deleted`` hidden ones, too."""
    named = Filter(archived=None, further=(Value("id", False, "$in", sorted(ids)),))
    found = store.root.unobserved.stream(items_where(named, deleted=deleted))
    return {item.id async for item in found if space_of(item) is not None}


def _active(knowledge: Knowledge) -> list[Record]:
    return [record for log in knowledge.logs.values() for record in active_records(log)]


def _unsupported(records: Sequence[Record], missing: Collection[str]) -> set[str]:
    """Return every entry whose sources are all gone, with those that were made from such entries."""
    gone, found = set(missing), set[str]()
    while True:
        more = {
            record.id
            for record in records
            if all(not each.is_manual and each.item_id in gone for each in record.sources)
        }
        if more <= found:
            return found
        found |= more
        gone |= found


def _useless(records: Sequence[Record], purged: set[str], hidden: Collection[str]) -> set[str]:
    """Return entries that go, with those that are about nothing that stays: undos and retractions of them."""
    found = set(purged)
    while True:
        left = {record.id for record in records if record.id not in found}.union(hidden)
        more = {
            record.id
            for record in records
            if record.value is None and record.subject and record.targets and left.isdisjoint(record.targets)
        }
        if more <= found:
            return found
        found |= more
