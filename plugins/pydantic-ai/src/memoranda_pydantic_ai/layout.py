"""How conversations are stored: the items, their ids and their namespaces.

- A record is an item whose id is derived from its conversation's. If two processes create the same one, one is refused.
- Conversations that share entries are a family; a fork belongs to the family of its source. A family has a namespace of
  its own, with one item per entry and one for the family itself.
- The version of the family's item grows with every write to one of its records. A write names the version that it
  read, so that no entry of a fork can be removed meanwhile, and nothing that was deleted comes back.
- Deleted items are first emptied, all at once, and then purged. A ``gone`` item is empty and counts as missing.
- The message of an entry is its item's payload. It is returned as long as it agrees with the item's fields (see
  :func:`memoranda_messages.agrees`); if the item was changed since, its fields count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextContent,
    TextPart,
    UserPromptPart,
)

from memoranda.items import MemoryItem, MemoryMetadata, utc_text
from memoranda_messages import agrees

RECORD = "pydantic-ai-record"
FAMILY = "pydantic-ai-family"
ENTRY = "pydantic-ai-entry"
FORMAT = "pydantic-ai"
"""The format of a payload: the JSON that Pydantic AI writes of a record, or of a list with one message."""

_records: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class Layout:
    """The ids and namespaces of one owner's conversations; the owner is what the store's handle is bound to."""

    def __init__(self, bounds: MemoryMetadata | None) -> None:
        bounds = bounds or MemoryMetadata()
        self._owner = [bounds.user_id, bounds.session_id, bounds.task_id, bounds.agent_id, *bounds.namespace]
        self._top = (*bounds.namespace, "pydantic-ai")
        self.records = MemoryMetadata(namespace=(*self._top, "records"))

    def family(self, family: str) -> MemoryMetadata:
        """Return the namespace of a family."""
        return MemoryMetadata(namespace=(*self._top, "families", family))

    def id_of(self, kind: str, name: str) -> str:
        """Return the item id of a conversation, a family or an entry of this name."""
        key = json.dumps([kind, name, *self._owner])
        return hashlib.sha256(key.encode()).hexdigest()

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
        """Return an entry as a new item; its content is the text of users and the model."""
        return MemoryItem(
            id=self.id_of(ENTRY, entry.id),
            **_fields(entry.message),
            metadata=_at(self.family(family), family=family, entry=entry.id, parent=entry.parent_id),
            payload=ModelMessagesTypeAdapter.dump_json([entry.message]).decode(),
            payload_format=FORMAT,
        )

    def family_item(self, family: str) -> MemoryItem:
        """Return the item of a new family."""
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
    """Return True if an item was emptied and is yet to be purged."""
    return item.metadata.extra["gone"] is True


def gone(item: MemoryItem) -> MemoryItem:
    """Return the emptied item to replace an item with."""
    metadata = MemoryMetadata(namespace=item.metadata.namespace, extra={"gone": True, "family": family_of(item)})
    return MemoryItem(id=item.id, content="", memory_type=item.memory_type, metadata=metadata, version=item.version)


def record_of(item: MemoryItem) -> ConversationRecord:
    """Return the record that an item holds."""
    return _records.validate_json(item.payload or "")


def entry_of(item: MemoryItem) -> ConversationEntry:
    """Return the entry of an item; if the item was changed since, its fields count."""
    return history_of([item])[0]


def history_of(items: Sequence[MemoryItem]) -> list[ConversationEntry]:
    """Return the entries of items, oldest first.

    If a changed item has lost a call or a result, its counterpart is left out as well.
    """
    stored = [_stored_message(item) for item in items]
    messages = [found if found is not None else _by_fields(item) for item, found in zip(items, stored, strict=True)]
    if None in stored:
        waiting = _ids(messages[-1:], _CALLS)
        halves = (_ids(messages, _CALLS) ^ _ids(messages, _RESULTS)) - waiting
        messages = [
            replace(each, parts=[part for part in each.parts if getattr(part, "tool_call_id", None) not in halves])  # type: ignore[arg-type]
            for each in messages
        ]
    return [
        ConversationEntry(id=entry_id(item), parent_id=item.metadata.extra["parent"], message=message)
        for item, message in zip(items, messages, strict=True)
    ]


_CALLS = frozenset({"tool-call", "builtin-tool-call"})
_RESULTS = frozenset({"tool-return", "builtin-tool-return", "retry-prompt"})


def _ids(messages: Sequence[ModelMessage], kinds: frozenset[str]) -> set[str]:
    parts = [part for message in messages for part in message.parts if part.part_kind in kinds]
    return {str(getattr(part, "tool_call_id", "")) for part in parts if getattr(part, "tool_name", None)}


def _by_fields(item: MemoryItem) -> ModelMessage:
    if item.name == "model":
        return ModelResponse(parts=[TextPart(content=item.content)])
    return ModelRequest(parts=[UserPromptPart(content=item.content)])


def _stored_message(item: MemoryItem) -> ModelMessage | None:
    """Return the stored message of an item, with its present text; None if other fields disagree."""
    try:
        (message,) = ModelMessagesTypeAdapter.validate_json(item.payload or "")
    except ValueError:
        return None
    fields = _fields(message)
    if agrees(item, fields):
        return message
    if not agrees(item, fields | {"content": item.content}):
        return None
    # Prompts, calls and results stay. Thinking and files may repeat what was removed from the text.
    unchanged = [part for part in message.parts if _part_key(part) and part.part_kind not in ("compaction", "speech")]
    return replace(message, parts=[*unchanged, *(_by_fields(item).parts if item.content else ())])  # type: ignore[arg-type]


def entry_id(item: MemoryItem) -> str:
    """Return the id that Pydantic AI gave an entry."""
    return str(item.metadata.extra["entry"])


def unreached(entries: Sequence[MemoryItem], records: Iterable[ConversationRecord]) -> list[MemoryItem]:
    """Return the entries that are in no history or branch of these records."""
    parents: dict[str, str | None] = {entry_id(item): item.metadata.extra["parent"] for item in entries}
    reached: set[str] = set()
    for record in records:
        for end in (record.head_id, *record.branches):
            at = end
            while at is not None and at not in reached:
                reached.add(at)
                at = parents.get(at)
    return [item for item in entries if entry_id(item) not in reached]


_TEXTS = frozenset({"text", "user-prompt", "thinking", "file"})
"""The kinds of parts that are no instruction, call or result."""


def _fields(message: ModelMessage) -> dict[str, Any]:
    """Return the item fields of a message: its speaker, its text, and its other parts."""
    parts = [*map(_part_key, message.parts), "instructions" if getattr(message, "instructions", None) else ""]
    return {
        "memory_type": ENTRY,
        "content": _text(message),
        "name": "model" if isinstance(message, ModelResponse) else None,
        "provider_parts": [each for each in parts if each],
    }


def _part_key(part: Any) -> str:
    """Return the kind, call id and tool name of a part; an empty text for parts that are only text."""
    if part.part_kind in _TEXTS:
        return ""
    named = (part.part_kind, getattr(part, "tool_call_id", None), getattr(part, "tool_name", None))
    return " ".join(str(each) for each in named if each).replace("\0", "")


def _text(message: ModelMessage) -> str:
    lines: list[str] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            lines.append(part.content)
        elif isinstance(part, UserPromptPart):
            pieces = [part.content] if isinstance(part.content, str) else part.content
            for one in pieces:
                if isinstance(one, str):
                    lines.append(one)
                elif isinstance(one, TextContent):
                    lines.append(one.content)
    # No store accepts a NUL. The payload, which is what is returned, has it escaped.
    return "\n".join(lines).replace("\0", "")
