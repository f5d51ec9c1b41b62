"""How conversations are stored: their records, and one or several items for each of their entries.

- An entry is stored as ordinary items of the session that has the conversation's id, so that every other framework
  reads them. Each names its entry and the one before it. The id of the first is derived from the entry's.
- Items that another framework added behind the last entry are entries, too: from the next write on, they name their
  place like any other.
- A record is an item whose id is derived from its conversation's. If two processes create the same one, one is refused.
- Conversations that share entries are a family; a fork belongs to the family of its source. The version of the family's
  record grows with every write to one of its conversations. A write names the version that it read, so that no entry of
  a fork can be removed meanwhile, and nothing that was deleted comes back.
- Deleted items are first emptied, all at once, and then purged. A ``gone`` item is empty and counts as missing.
- Entries that a conversation has left for another branch are archived by its record: no other framework shows both.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse

from memoranda.items import MemoryItem, MemoryMetadata, utc_text
from memoranda.store import Store
from memoranda_messages import Dropped
from memoranda_messages.sessions import RECORD, Record, Records, warn_of
from memoranda_messages.sessions.outgoing import runs
from memoranda_pydantic_ai.messages import FORMAT, PydanticAIFormat

CONVERSATION = "conversation"
FAMILY = "family"
_ENTRY = "entry"
_FOREIGN = "item:"
"""The prefix of the id of an entry that another framework wrote; the id of its last item follows."""

_records: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)
_format = PydanticAIFormat()


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as it is stored; ``adopted`` is False if another framework wrote it since the last write of ours."""

    id: str
    parent: str | None
    items: Sequence[MemoryItem]
    adopted: bool = True


class Layout:
    """The ids and places of one owner's conversations; the owner is what the store's handle is bound to."""

    def __init__(self, store: Store) -> None:
        self.records = Records(store, FORMAT)

    def item_id(self, entry: str) -> str:
        """Return the id of an item of an entry: of its first one, or of the one that names a foreign entry."""
        return entry.removeprefix(_FOREIGN) if entry.startswith(_FOREIGN) else self.records.id_of(_ENTRY, entry)

    def record_id(self, conversation: str | None) -> str:
        """Return the id of a conversation's record."""
        return self.records.id_of(CONVERSATION, conversation or "")

    def record_item(self, record: ConversationRecord, family: str, version: int) -> MemoryItem:
        """Return a record as the item that replaces the one of this version."""
        value = _records.dump_python(record, mode="json")
        extra = {"gone": False, "family": family, "scope": record.scope}
        moment = utc_text(record.updated_at)
        return self.records.item(
            CONVERSATION, record.conversation_id, value, version=version, extra=extra, updated_at=moment
        )

    def family_item(self, family: str) -> MemoryItem:
        """Return the item of a new family."""
        return self.records.item(FAMILY, family, None, extra={"gone": False, "family": family})

    def record_of(self, stored: Record) -> ConversationRecord:
        """Return Pydantic AI's record of a stored one."""
        return _records.validate_json(json.dumps(stored.value))

    def entry_items(self, entry: ConversationEntry, record: ConversationRecord, family: str) -> list[MemoryItem]:
        """Return an entry of a conversation as new items."""
        extra = _extra(family, entry.id, entry.parent_id)
        owner = MemoryMetadata(session_id=record.conversation_id, extra=extra)
        return _format.items([entry.message], metadata=owner, ids=[self.item_id(entry.id)])

    def adopted(self, entry: StoredEntry, family: str) -> StoredEntry:
        """Return an entry of another framework with items that name its place, to replace those that do not."""
        extra = _extra(family, entry.id, entry.parent)
        return replace(entry, items=[_with_extra(item, extra) for item in entry.items], adopted=True)

    def moved(self, conversation: str, entries: Mapping[str, StoredEntry], path: Collection[str]) -> list[MemoryItem]:
        """Return the items to replace so that of a session's entries those are archived that are not on the path."""
        left = self.record_id(conversation)
        found = []
        for name, entry in entries.items():
            wanted = None if name in path else left
            found += [
                item.model_copy(update={"archived_by": wanted})
                for item in entry.items
                if item.archived_by in (None, left) and item.archived_by != wanted
            ]
        return found


def _extra(family: str, entry: str, parent: str | None) -> dict[str, Any]:
    return {"gone": False, "family": family, "entry": entry, "parent": parent}


def _with_extra(item: MemoryItem, extra: dict[str, Any]) -> MemoryItem:
    metadata = item.metadata.model_copy(update={"extra": {**item.metadata.extra, **extra}})
    return item.model_copy(update={"metadata": metadata})


def family_of(item: MemoryItem) -> str:
    """Return the name of the family that an item belongs to."""
    return str(item.metadata.extra["family"])


def is_gone(item: MemoryItem) -> bool:
    """Return True if an item was emptied and is yet to be purged."""
    return item.metadata.extra.get("gone") is True


def gone(item: MemoryItem, family: str) -> MemoryItem:
    """Return the emptied item to replace an item with."""
    metadata = item.metadata.model_copy(update={"extra": {"gone": True, "family": family}})
    return MemoryItem(
        id=item.id, content="", memory_type=RECORD, metadata=metadata, version=item.version, archived_by=item.id
    )


def own_entries(items: Iterable[MemoryItem]) -> tuple[dict[str, StoredEntry], list[MemoryItem]]:
    """Return the entries of a session's items by their ids, and the items that another framework has added since."""
    own: dict[str, list[MemoryItem]] = {}
    foreign: list[MemoryItem] = []
    for item in items:
        name = item.metadata.extra.get("entry")
        if is_gone(item) or item.memory_type in (RECORD, "summary"):
            continue
        if name is None:
            foreign.append(item)
        else:
            own.setdefault(str(name), []).append(item)
    return {name: StoredEntry(name, of[0].metadata.extra["parent"], of) for name, of in own.items()}, foreign


def foreign_entries(items: Sequence[MemoryItem], head: str | None) -> dict[str, StoredEntry]:
    """Return the entries that items of another framework are, by their ids; the first one follows the head."""
    found = {}
    for run in runs(items, joins_results=True):
        entry = StoredEntry(f"{_FOREIGN}{run[-1].id}", head, run, adopted=False)
        found[entry.id] = entry
        head = entry.id
    return found


def message_of(entry: StoredEntry, dropped: list[Dropped]) -> ModelMessage:
    """Return the message of an entry; if its items were changed since, their fields count."""
    messages = [message for message, _ in _format.written(entry.items, dropped)]
    responses = [message for message in messages if isinstance(message, ModelResponse)]
    if len(messages) == 1:
        return messages[0]
    if responses:
        return replace(responses[0], parts=[part for message in responses for part in message.parts])
    return ModelRequest(parts=[part for message in messages for part in message.parts])  # type: ignore[misc]


_CALLS = frozenset({"tool-call", "builtin-tool-call"})
_RESULTS = frozenset({"tool-return", "builtin-tool-return", "retry-prompt"})


def history_of(entries: Sequence[StoredEntry], dropped: list[Dropped]) -> list[ConversationEntry]:
    """Return entries with their messages, oldest first.

    If a changed item has lost a call or a result, its counterpart is left out as well.
    """
    messages = [message_of(entry, dropped) for entry in entries]
    warn_of(dropped, FORMAT)
    if any(loss.reason == "outdated" for loss in dropped):
        waiting = _ids(messages[-1:], _CALLS)
        halves = (_ids(messages, _CALLS) ^ _ids(messages, _RESULTS)) - waiting
        messages = [
            replace(each, parts=[part for part in each.parts if getattr(part, "tool_call_id", None) not in halves])  # type: ignore[arg-type]
            for each in messages
        ]
    return [
        ConversationEntry(id=entry.id, parent_id=entry.parent, message=message)
        for entry, message in zip(entries, messages, strict=True)
    ]


def _ids(messages: Sequence[ModelMessage], kinds: frozenset[str]) -> set[str]:
    parts = [part for message in messages for part in message.parts if part.part_kind in kinds]
    return {str(getattr(part, "tool_call_id", "")) for part in parts if getattr(part, "tool_name", None)}
