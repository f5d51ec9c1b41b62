"""Pydantic AI's conversation store on any store with atomic batches."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import NamedTuple

from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from memoranda.errors import CorruptStoreError, UnsupportedError, VersionConflictError
from memoranda.items import MemoryItem
from memoranda.store import EVERYTHING, BaseStore, Capability
from memoranda_pydantic_ai.layout import (
    ENTRY,
    FAMILY,
    RECORD,
    Layout,
    entry_id,
    entry_of,
    family_of,
    gone,
    history_of,
    is_gone,
    record_of,
    unreached,
)

_AROUND = 16
"""How many more entries than asked for are read at once, since those of forks lie between them."""


class _Stored(NamedTuple):
    """A stored record, and its family as it was before the record was read."""

    item: MemoryItem
    record: ConversationRecord
    family: MemoryItem


class MemorandaConversationStore(ConversationStore):
    """Conversations of Pydantic AI: ``MemorandaConversationStore(store.scoped(user_id="ada"))``.

    ``store`` is any open store with the capabilities ``atomic`` and ``purge``, or better a handle bound to a user: two
    users may then use the same conversation ids. A record and its entries are written all or none. Deleting a
    conversation erases every message that it shares with no other one.
    """

    def __init__(self, store: BaseStore) -> None:
        for needed in (Capability.ATOMIC, Capability.PURGE):
            if needed not in store.capabilities:
                raise UnsupportedError(store.label, needed, remedy="Conversations need a store that has it.")
        self._items = store
        self._layout = Layout(store.bounds)

    def __repr__(self) -> str:
        return f"MemorandaConversationStore({self._items!r})"

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None if there is none."""
        item = await self._record_item(conversation_id)
        return None if item is None else record_of(item)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records, or those of a scope, the latest ``updated_at`` first, and at most ``limit`` of them."""
        found = await self._items.search(
            metadata=self._layout.records,
            memory_type=RECORD,
            where={"gone": False} if scope is None else {"gone": False, "scope": scope},
            order="updated",
            limit=EVERYTHING if limit is None else limit,
            mode="substring",
        )
        return [record_of(item) for item in found]

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
        new = {self._layout.id_of(ENTRY, entry.id) for entry in new_entries}
        while True:
            stored = await self._stored(record.conversation_id)
            if (None if stored is None else stored.record.revision) != expected_revision:
                raise ConversationConflict(record.conversation_id)
            family = await self._joined(record, new_entries, stored)
            name = family_of(family)
            version = 0 if stored is None else stored.item.version
            batch = [self._layout.entry_item(entry, name) for entry in new_entries]
            try:
                await self._items.update_many([family, *batch, self._layout.record_item(record, name, version)])
            except VersionConflictError as error:
                if error.item_id in new:
                    raise ConversationConflict(record.conversation_id) from error
            else:
                return

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete the record of a revision, and every entry that no other record's history or branch has.

        Raises ConversationConflict if that revision is not stored.
        """
        while True:
            stored = await self._stored(conversation_id)
            if stored is None or stored.record.revision != expected_revision:
                raise ConversationConflict(conversation_id)
            others = await self._others(stored)
            entries = await self._entries(family_of(stored.family), EVERYTHING)
            emptied = [gone(stored.item), *map(gone, unreached(entries, others))]
            family = stored.family if others else gone(stored.family)
            try:
                await self._items.update_many([family, *emptied])
            except VersionConflictError:
                continue
            await self._purge_gone(stored.item)
            return

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry. Raises KeyError if there is none of this id."""
        return entry_of(await self._entry_item(entry_id))

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to ``head_id``, oldest first, or the last ``limit`` of them.

        Raises KeyError if one of them is missing, and CorruptStoreError if they form a cycle.
        """
        if head_id is None or limit == 0:
            return []
        head = await self._entry_item(head_id)
        most = EVERYTHING if limit is None else min(limit + _AROUND, EVERYTHING)
        known = {entry_id(item): item for item in await self._entries(family_of(head), most)}
        history: dict[str, MemoryItem] = {}
        at: str | None = head_id
        while at is not None and (limit is None or len(history) < limit):
            if at in history:
                raise CorruptStoreError(f"The stored entry {at!r} comes before itself in its conversation.")
            history[at] = known.get(at) or await self._entry_item(at)
            at = history[at].metadata.extra["parent"]
        return history_of(list(history.values())[::-1])

    async def _record_item(self, conversation_id: str) -> MemoryItem | None:
        """Return the item of a record; an unfinished deletion is completed first."""
        while (item := await self._items.get(self._layout.id_of(RECORD, conversation_id))) is not None:
            if not is_gone(item):
                return item
            await self._purge_gone(item)
        return None

    async def _stored(self, conversation_id: str) -> _Stored | None:
        """Return the record and family of a conversation.

        The family is read before the record, so that a change between the two reads is detected later.
        """
        item = await self._record_item(conversation_id)
        while item is not None:
            family = await self._items.get(self._layout.id_of(FAMILY, family_of(item)))
            before, item = item, await self._record_item(conversation_id)
            if item is None or family_of(item) != family_of(before):
                continue
            if family is not None and not is_gone(family):
                return _Stored(item, record_of(item), family)
            if item.version == before.version:
                raise CorruptStoreError("A conversation is stored without the item of its family.")
        return None

    async def _joined(
        self, record: ConversationRecord, new_entries: Sequence[ConversationEntry], stored: _Stored | None
    ) -> MemoryItem:
        """Return the family that a record belongs to: its own, that of the entries it follows, or a new one.

        Raises ConversationConflict if an entry that it follows is missing.
        """
        new = {entry.id for entry in new_entries}
        followed = {record.head_id, *(entry.parent_id for entry in new_entries)} - new - {None}
        if stored is not None and followed <= {stored.record.head_id}:
            return stored.family
        items = await self._found(followed, record)
        if stored is not None:
            family: MemoryItem | None = stored.family
        elif items:
            family = await self._items.get(self._layout.id_of(FAMILY, family_of(items[0])))
            items = await self._found(followed, record)
        else:
            return self._layout.family_item(uuid.uuid4().hex)
        if family is None or is_gone(family) or {family_of(item) for item in items} - {family_of(family)}:
            raise ConversationConflict(record.conversation_id)
        return family

    async def _found(self, entries: Collection[str | None], record: ConversationRecord) -> list[MemoryItem]:
        """Return the items of entries. Raises ConversationConflict if one is missing."""
        ids = [self._layout.id_of(ENTRY, entry) for entry in entries if entry is not None]
        found = [item for item in await self._items.get_many(ids) if not is_gone(item)]
        if len(found) < len(ids):
            raise ConversationConflict(record.conversation_id)
        return found

    async def _others(self, stored: _Stored) -> list[ConversationRecord]:
        """Return the other records of a family."""
        found = await self._items.search(
            metadata=self._layout.records,
            memory_type=RECORD,
            where={"gone": False, "family": family_of(stored.family)},
            limit=EVERYTHING,
            mode="substring",
        )
        return [record_of(item) for item in found if item.id != stored.item.id]

    async def _entries(self, family: str, most: int) -> list[MemoryItem]:
        """Return the newest entries of a family."""
        return await self._items.search(
            metadata=self._layout.family(family),
            memory_type=ENTRY,
            where={"gone": False},
            order="added",
            limit=most,
            mode="substring",
        )

    async def _entry_item(self, entry: str) -> MemoryItem:
        item = await self._items.get(self._layout.id_of(ENTRY, entry))
        if item is None or is_gone(item):
            raise KeyError(entry)
        return item

    async def _purge_gone(self, record: MemoryItem) -> None:
        """Purge what was emptied together with a record, and the record last: as long as it exists, more is left."""
        await self._items.purge(metadata=self._layout.family(family_of(record)), where={"gone": True})
        await self._items.purge(record.id, metadata=self._layout.records, where={"gone": True})
