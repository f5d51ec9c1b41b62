"""Pydantic AI's conversation store on any store with atomic batches."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import NamedTuple

try:
    from pydantic_ai.conversation import Conversation as LoadedConversation
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
except ModuleNotFoundError as error:
    raise ImportError("MemorandaConversationStore needs pydantic-ai-slim 2.66 or newer. Upgrade it.") from error

from memoranda.errors import CorruptStoreError, UnsupportedError, VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import EVERYTHING, Capability, Store
from memoranda_messages import Dropped
from memoranda_messages.sessions import Conversation, finished, retry_conflicts, write_records
from memoranda_pydantic_ai.entries import (
    CONVERSATION,
    FAMILY,
    Layout,
    StoredEntry,
    family_of,
    foreign_entries,
    gone,
    history_of,
    is_gone,
    own_entries,
)

_AROUND = 16
"""How many more items than entries are read at once, since some entries consist of several."""

_history_read: ContextVar[list[MemoryItem] | None] = ContextVar("history_read", default=None)
"""Where the history that a conversation is loaded with goes, to be recorded."""


class _Stored(NamedTuple):
    """A conversation as it is stored, with its family as that was before the record was read.

    ``item`` and ``family`` are None for a session that only other frameworks have written to. ``newest`` are the
    entries that they have added since our last write.
    """

    record: ConversationRecord
    item: MemoryItem | None
    family: MemoryItem | None
    newest: Sequence[StoredEntry]


class MemorandaConversationStore(ConversationStore):
    """Conversations of Pydantic AI: ``MemorandaConversationStore(store.scoped(user_id="ada"))``.

    ``store`` is any open store with the capabilities ``atomic`` and ``purge``, or better a handle bound to a user: two
    users may then use the same conversation ids. A conversation is the session of its id, which every other framework
    can read and go on with; what it adds there is part of the conversation. A record and its entries are written all or
    none. Deleting a conversation erases every message that it shares with no other one. ``receipt=True``, or a
    ``memoranda_receipts.Recording``, records what :meth:`load` returns.
    """

    dropped: list[Dropped]
    """What the last history that was read could not carry over from other frameworks."""

    def __init__(self, store: Store, *, receipt: object = None) -> None:
        for needed in (Capability.ATOMIC, Capability.PURGE):
            if needed not in store.capabilities:
                raise UnsupportedError(store.label, needed, remedy="Conversations need a store that has it.")
        self._items = store.own
        self._receipt = receipt
        self._layout = Layout(store)
        self._place = (store.bounds or MemoryMetadata()).namespace
        self.dropped = []

    def __repr__(self) -> str:
        return f"MemorandaConversationStore({self._items!r})"

    async def load(
        self, conversation_id: str, *, limit: int | None = None, scope: str | None = None
    ) -> LoadedConversation | None:
        """Return a conversation, or its last ``limit`` messages, for a run; None if there is none."""
        read: list[MemoryItem] = []
        token = _history_read.set(read)
        try:
            loaded = await super().load(conversation_id, limit=limit, scope=scope)
        finally:
            _history_read.reset(token)
        if loaded is not None:
            await Conversation(self._items, conversation_id, receipt=self._receipt).record(read, limit)
        return loaded

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None if there is none."""
        stored = await self._stored(conversation_id)
        return None if stored is None else stored.record

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records, or those of a scope, the latest ``updated_at`` first, and at most ``limit`` of them.

        Sessions that only other frameworks have written to have no record yet.
        """
        where = {"gone": False} if scope is None else {"gone": False, "scope": scope}
        found = await self._layout.records.list(CONVERSATION, where=where, limit=limit)
        return [self._layout.record_of(each) for each in found]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries, all or none, instead of the record with ``expected_revision``.

        Raises ConversationConflict if another revision is stored, or if an entry that the record or its new entries
        follow no longer exists.
        """
        new = {self._layout.item_id(entry.id) for entry in new_entries}

        async def attempt() -> None:
            stored = await self._stored(record.conversation_id)
            if (None if stored is None else stored.record.revision) != expected_revision:
                raise ConversationConflict(record.conversation_id)
            family = await self._joined(record, new_entries, stored)
            try:
                await write_records(self._items, await self._batch(record, new_entries, stored, family))
            except VersionConflictError as error:
                if error.item_id in new:
                    raise ConversationConflict(record.conversation_id) from error
                raise

        await retry_conflicts(attempt)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete the record of a revision, and every entry that no other record's history or branch has.

        Raises ConversationConflict if that revision is not stored.
        """

        async def attempt() -> list[MemoryItem]:
            stored = await self._stored(conversation_id)
            if stored is None or stored.record.revision != expected_revision:
                raise ConversationConflict(conversation_id)
            family = "" if stored.family is None else family_of(stored.family)
            others = await self._others(stored)
            kept = await self._reached(others)
            removed = {**await self._reached([stored.record]), **{entry.id: entry for entry in stored.newest}}
            entries = [item for name, entry in removed.items() if name not in kept for item in entry.items]
            emptied = [gone(item, family) for item in ([stored.item] if stored.item else []) + entries]
            if stored.family is not None:
                emptied.append(stored.family if others else gone(stored.family, family))
            await write_records(self._items, emptied)
            return emptied

        emptied = await retry_conflicts(attempt)
        await finished(self._items.apply(deletes=[item.id for item in emptied if is_gone(item)], purge=True))
        await finished(self._items.purge(where={"session_id": conversation_id, "memory_type": "receipt"}))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry. Raises KeyError if there is none of this id."""
        self.dropped = []
        return history_of([(await self._around(entry_id, 0))[entry_id]], self.dropped)[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to ``head_id``, oldest first, or the last ``limit`` of them.

        Raises KeyError if one of them is missing, and CorruptStoreError if they form a cycle.
        """
        self.dropped = []
        entries = await self._history(head_id, limit)
        if (read := _history_read.get()) is not None:
            read[:] = [item for entry in entries for item in entry.items]
        return history_of(entries, self.dropped)

    async def _history(self, head: str | None, limit: int | None) -> list[StoredEntry]:
        """Return the stored entries up to a head, oldest first."""
        known: dict[str, StoredEntry] = {}
        history: dict[str, StoredEntry] = {}
        at = head
        while at is not None and (limit is None or len(history) < limit):
            if at in history:
                raise CorruptStoreError(f"The stored entry {at!r} comes before itself in its conversation.")
            if at not in known:
                known |= await self._around(at, None if limit is None else limit - len(history))
            history[at] = known[at]
            at = known[at].parent
        return list(history.values())[::-1]

    async def _around(self, entry: str, limit: int | None) -> dict[str, StoredEntry]:
        """Return the entries of the session that an entry belongs to, or the newest of them. Raises KeyError."""
        item = await self._items.get(self._layout.item_id(entry))
        if item is None or is_gone(item) or item.metadata.session_id is None:
            raise KeyError(entry)
        found = await self._entries(item.metadata.session_id, None if limit is None else 2 * limit + _AROUND)
        if entry not in found and limit is not None:
            found = await self._entries(item.metadata.session_id)
        if entry not in found:
            raise KeyError(entry)
        return found

    async def _entries(self, session: str, most: int | None = None) -> dict[str, StoredEntry]:
        """Return the entries of a session, or those that the newest items make up; an incomplete one is left out."""
        limit = EVERYTHING if most is None else min(most, EVERYTHING)
        found = await self._items.search(
            metadata=MemoryMetadata(session_id=session), archived=None, order="added", limit=limit, mode="substring"
        )
        items = [item for item in found[::-1] if item.metadata.namespace == self._place]
        entries, foreign = own_entries(items)
        if entries and len(found) == limit:
            entries.pop(next(iter(entries)))
        return entries | foreign_entries(foreign, await self._head(session, entries) if foreign else None)

    async def _head(self, session: str, entries: Mapping[str, StoredEntry]) -> str | None:
        """Return the last entry of ours in a session; if another framework has removed it, the last that is left."""
        item = await self._record_item(session)
        head = None if item is None else self._layout.record_of(self._layout.records.record(item)).head_id
        if head is None or head in entries or await self._items.get(self._layout.item_id(head)):
            return head
        left = self._layout.record_id(session)
        return next((name for name in reversed(list(entries)) if entries[name].items[0].archived_by != left), None)

    async def _record_item(self, conversation_id: str) -> MemoryItem | None:
        """Return the item of a record; an unfinished deletion is completed first."""
        while (item := await self._layout.records.find(CONVERSATION, conversation_id)) is not None:
            if not is_gone(item):
                return item
            await self._items.purge(where={"gone": True, "family": family_of(item)})
        return None

    async def _stored(self, conversation_id: str) -> _Stored | None:
        """Return a conversation as it is stored, and what other frameworks have added to it.

        The family is read before the record, so that a change between the two reads is detected later.
        """
        item = await self._record_item(conversation_id)
        while item is not None:
            family = await self._layout.records.find(FAMILY, family_of(item))
            before, item = item, await self._record_item(conversation_id)
            if item is None or family_of(item) != family_of(before):
                continue
            if family is not None and not is_gone(family):
                record = self._layout.record_of(self._layout.records.record(item))
                return await self._with_newest(record, item, family)
            if item.version == before.version:
                raise CorruptStoreError("A conversation is stored without the item of its family.")
        record = ConversationRecord(conversation_id=conversation_id, head_id=None, revision="")
        stored = await self._with_newest(record, None, None)
        return stored if stored.newest else None

    async def _with_newest(
        self, record: ConversationRecord, item: MemoryItem | None, family: MemoryItem | None
    ) -> _Stored:
        """Return a conversation whose head is what was added last, by whichever framework.

        If another framework has removed the head, the conversation ends with the last entry that is left.
        """
        session = MemoryMetadata(session_id=record.conversation_id)
        where = {"memory_type": {"$ne": "summary"}}
        found = await self._items.search(
            metadata=session, archived=None, where=where, order="added", limit=1, mode="substring"
        )
        newest = found[0].metadata.extra.get("entry") if found else None
        if (newest is not None and newest == record.head_id) or not (found or item):
            return _Stored(record, item, family, ())
        entries = await self._entries(record.conversation_id)
        added = [entry for entry in entries.values() if not entry.adopted]
        own = {name: entry for name, entry in entries.items() if entry.adopted}
        head = added[-1].id if added else await self._head(record.conversation_id, own)
        revision = f"{record.revision}+{head}" if head != record.head_id else record.revision
        return _Stored(dataclasses.replace(record, head_id=head, revision=revision), item, family, added)

    async def _joined(
        self, record: ConversationRecord, new_entries: Sequence[ConversationEntry], stored: _Stored | None
    ) -> MemoryItem:
        """Return the family that a record belongs to: its own, that of the entries it follows, or a new one.

        Raises ConversationConflict if an entry that it follows is missing.
        """
        new = {entry.id for entry in new_entries}
        followed = {record.head_id, *(entry.parent_id for entry in new_entries)} - new - {None}
        if stored is not None:
            followed -= {stored.record.head_id, *(entry.id for entry in stored.newest)}
        items = await self._found(followed, record)
        if stored is not None and stored.family is not None:
            family: MemoryItem | None = stored.family
        elif items:
            family = await self._layout.records.find(FAMILY, family_of(items[0]))
            items = await self._found(followed, record)
        else:
            return self._layout.family_item(uuid.uuid4().hex)
        if family is None or is_gone(family) or {family_of(item) for item in items} - {family_of(family)}:
            raise ConversationConflict(record.conversation_id)
        return family

    async def _found(self, entries: Collection[str | None], record: ConversationRecord) -> list[MemoryItem]:
        """Return an item of each entry, all of them in a family. Raises ConversationConflict if one is missing."""
        ids = [self._layout.item_id(entry) for entry in entries if entry is not None]
        found = [item for item in await self._items.get_many(ids) if not is_gone(item)]
        if len(found) < len(ids):
            raise ConversationConflict(record.conversation_id)
        for item in found:
            if "family" not in item.metadata.extra and item.metadata.session_id is not None:
                other = await self._stored(item.metadata.session_id)
                if other is not None and other.record.conversation_id != record.conversation_id:
                    await self.write_record(other.record, expected_revision=other.record.revision)
                return await self._found(entries, record)
        return found

    async def _batch(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        stored: _Stored | None,
        family: MemoryItem,
    ) -> list[MemoryItem]:
        """Return all that a write of a record changes; the entries of a branch that it leaves are archived."""
        name = family_of(family)
        newest = [] if stored is None else [self._layout.adopted(entry, name) for entry in stored.newest]
        changed = {item.id: item for entry in newest for item in entry.items}
        follows = new_entries[0].parent_id if new_entries else record.head_id
        if stored is not None and follows != stored.record.head_id:
            entries = await self._entries(record.conversation_id) | {entry.id: entry for entry in newest}
            parents = {name: entry.parent for name, entry in entries.items()}
            path = set(_path(record.head_id, parents | {entry.id: entry.parent_id for entry in new_entries}))
            changed |= {item.id: item for item in self._layout.moved(record.conversation_id, entries, path)}
        added = [item for entry in new_entries for item in self._layout.entry_items(entry, record, name)]
        version = stored.item.version if stored and stored.item else 0
        return [family, *added, *changed.values(), self._layout.record_item(record, name, version)]

    async def _others(self, stored: _Stored) -> list[ConversationRecord]:
        """Return the other records of a family."""
        if stored.family is None:
            return []
        where = {"gone": False, "family": family_of(stored.family)}
        found = [self._layout.record_of(each) for each in await self._layout.records.list(CONVERSATION, where=where)]
        return [record for record in found if record.conversation_id != stored.record.conversation_id]

    async def _reached(self, records: Sequence[ConversationRecord]) -> dict[str, StoredEntry]:
        """Return the entries in the histories and branches of records."""
        known: dict[str, StoredEntry] = {}
        reached: dict[str, StoredEntry] = {}
        for at in [end for record in records for end in (record.head_id, *record.branches)]:
            while at is not None and at not in reached:
                if at not in known:
                    try:
                        known |= await self._around(at, None)
                    except KeyError:
                        break
                reached[at] = known[at]
                at = known[at].parent
        return reached


def _path(head: str | None, parents: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the entries up to a head, newest first, as far as they are known."""
    seen: set[str] = set()
    while head is not None and head not in seen:
        seen.add(head)
        yield head
        head = parents.get(head)
