"""How conversations lie in a store: which item is what, and where.

A record is an item whose id follows from its conversation's, so that of two who make one at the same time one is
refused. Conversations that share entries are a family: a fork belongs to that of its source. A family has a place of
its own with one item per entry and one that stands for the family itself. Its version goes up with every write to any
record of the family: whoever writes names the version that was read before, so that nothing can be taken away meanwhile
from under a fork, and nothing that was deleted comes back.

What is deleted is first emptied, all at once, and then purged: an item that is ``gone`` holds nothing, and counts as
not there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextContent,
    TextPart,
    UserPromptPart,
)

from memoranda.items import MemoryItem, MemoryMetadata, utc_text

RECORD = "pydantic-ai-record"
FAMILY = "pydantic-ai-family"
ENTRY = "pydantic-ai-entry"
FORMAT = "pydantic-ai"
"""The format of a payload: the JSON that Pydantic AI writes of a record, or of a list with one message."""

_records: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class Layout:
    """The ids and places of one owner's conversations, whom the bounds of the store's handle tell."""

    def __init__(self, bounds: MemoryMetadata | None) -> None:
        bounds = bounds or MemoryMetadata()
        self._owner = [bounds.user_id, bounds.session_id, bounds.task_id, bounds.agent_id, *bounds.namespace]
        self._top = (*bounds.namespace, "pydantic-ai")
        self.records = MemoryMetadata(namespace=(*self._top, "records"))

    def family(self, family: str) -> MemoryMetadata:
        """Return the place of a family."""
        return MemoryMetadata(namespace=(*self._top, "families", family))

    def id_of(self, kind: str, name: str) -> str:
        """Return the id of the item that stands for a conversation, a family or an entry of this name."""
        told = json.dumps([kind, name, *self._owner])
        return hashlib.sha256(told.encode()).hexdigest()

    def record_item(self, record: ConversationRecord, family: str, version: int) -> MemoryItem:
        """Return a record as the item that replaces the one of this version."""
        moment = utc_text(record.updated_at)
        return MemoryItem(
            id=self.id_of(RECORD, record.conversation_id),
            content="",
            memory_type=RECORD,
            metadata=_at(self.records, family=family, scope=record.scope),
            created_at=moment,
            updated_at=moment,
            version=version,
            payload=_records.dump_json(record).decode(),
            payload_format=FORMAT,
        )

    def entry_item(self, entry: ConversationEntry, family: str) -> MemoryItem:
        """Return an entry as a new item, whose content is what people and the model said in it."""
        return MemoryItem(
            id=self.id_of(ENTRY, entry.id),
            content=_text(entry.message),
            memory_type=ENTRY,
            name="model" if isinstance(entry.message, ModelResponse) else None,
            metadata=_at(self.family(family), family=family, entry=entry.id, parent=entry.parent_id),
            payload=ModelMessagesTypeAdapter.dump_json([entry.message]).decode(),
            payload_format=FORMAT,
        )

    def family_item(self, family: str) -> MemoryItem:
        """Return the item that stands for a new family."""
        return MemoryItem(
            id=self.id_of(FAMILY, family),
            content="",
            memory_type=FAMILY,
            metadata=_at(self.family(family), family=family),
        )


def _at(place: MemoryMetadata, **extra: str | None) -> MemoryMetadata:
    return MemoryMetadata(namespace=place.namespace, extra={"gone": False, **extra})


def family_of(item: MemoryItem) -> str:
    """Return the name of the family that an item belongs to."""
    return str(item.metadata.extra["family"])


def is_gone(item: MemoryItem) -> bool:
    """Whether an item was emptied and waits to be purged."""
    return item.metadata.extra["gone"] is True


def gone(item: MemoryItem) -> MemoryItem:
    """Return an item emptied, to replace it with."""
    metadata = MemoryMetadata(namespace=item.metadata.namespace, extra={"gone": True, "family": family_of(item)})
    return MemoryItem(id=item.id, content="", memory_type=item.memory_type, metadata=metadata, version=item.version)


def record_of(item: MemoryItem) -> ConversationRecord:
    """Return the record that an item holds."""
    return _records.validate_json(item.payload or "")


def entry_of(item: MemoryItem) -> ConversationEntry:
    """Return the entry that an item holds."""
    (message,) = ModelMessagesTypeAdapter.validate_json(item.payload or "")
    return ConversationEntry(id=entry_id(item), parent_id=item.metadata.extra["parent"], message=message)


def entry_id(item: MemoryItem) -> str:
    """Return the id that Pydantic AI gave an entry."""
    return str(item.metadata.extra["entry"])


def unreached(entries: Sequence[MemoryItem], records: Iterable[ConversationRecord]) -> list[MemoryItem]:
    """Return the entries that are in no history of the records, nor in a branch that one of them left."""
    parents: dict[str, str | None] = {entry_id(item): item.metadata.extra["parent"] for item in entries}
    reached: set[str] = set()
    for record in records:
        for end in (record.head_id, *record.branches):
            at = end
            while at is not None and at not in reached:
                reached.add(at)
                at = parents.get(at)
    return [item for item in entries if entry_id(item) not in reached]


def _text(message: ModelMessage) -> str:
    lines: list[str] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            lines.append(part.content)
        elif isinstance(part, UserPromptPart):
            said = [part.content] if isinstance(part.content, str) else part.content
            for one in said:
                if isinstance(one, str):
                    lines.append(one)
                elif isinstance(one, TextContent):
                    lines.append(one.content)
    # No store holds a NUL; the payload, which is what is given back, has it as an escape.
    return "\n".join(lines).replace("\0", "")
