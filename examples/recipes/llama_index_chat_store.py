"""LlamaIndex's chat store in any store. Copy the class; it needs llama-index-core.

    pip install -r requirements.txt llama-index-core
    python examples/recipes/llama_index_chat_store.py

It prints:

    user: My flat is in Oslo.
    assistant: Noted.
    keys: chat, other
    the last one was: Noted.
    left: user
"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.storage.chat_store.base import BaseChatStore
from pydantic import PrivateAttr

import memoranda.sync
from memoranda import MemoryItem, MemoryMetadata
from memoranda.sync import SyncStore
from memoranda_messages import agrees


class MemorandaChatStore(BaseChatStore):
    """A session for each key: ``MemorandaChatStore(store.scoped(user_id="ada"))``."""

    _store: SyncStore = PrivateAttr()

    def __init__(self, store: SyncStore, **data: Any) -> None:
        super().__init__(**data)
        self._store = store

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Replace the conversation with these messages, all or none."""
        old = [item.id for item in self._items(key)]
        self._store.apply(deletes=old, adds=[_item(key, message) for message in messages], purge=True)

    def get_messages(self, key: str) -> list[ChatMessage]:
        """Return the conversation, oldest first."""
        return [_message(item) for item in self._items(key)]

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Store a message."""
        self._store.add(_item(key, message))

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Remove a conversation for good and return it."""
        found = self._items(key)
        self._store.apply(deletes=[item.id for item in found], purge=True)
        return [_message(item) for item in found] or None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove a message by its position and return it."""
        found = self._items(key)[idx : idx + 1]
        self._store.apply(deletes=[item.id for item in found], purge=True)
        return _message(found[0]) if found else None

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Take the newest message."""
        popped = self._store.pop(metadata=MemoryMetadata(session_id=key), purge=True)
        return None if popped is None else _message(popped)

    def get_keys(self) -> list[str]:
        """Return the sessions."""
        return [str(owner.value) for owner in self._store.owners("session_id")]

    def _items(self, key: str) -> list[MemoryItem]:
        return list(self._store.scan(metadata=MemoryMetadata(session_id=key), archived=False, order="added"))


def _item(key: str, message: ChatMessage) -> MemoryItem:
    return MemoryItem(
        **_fields(message),
        metadata=MemoryMetadata(session_id=key),
        payload=message.model_dump_json(),
        payload_format="llama-index",
    )


def _fields(message: ChatMessage) -> dict[str, Any]:
    """Return the fields of a message's item: speaker, text, and further blocks and keys."""
    blocks = [block.block_type for block in message.blocks if block.block_type != "text"]
    return {
        "memory_type": f"llama-index-{message.role.value}",
        "content": (message.content or "").replace("\0", ""),
        "provider_parts": [*blocks, *message.additional_kwargs],
    }


def _message(item: MemoryItem) -> ChatMessage:
    """Return the original message of an item, or one built from the fields if the item has changed."""
    message = ChatMessage.model_validate_json(item.payload or "")
    if agrees(item, _fields(message)):
        return message
    role = item.memory_type.removeprefix("llama-index-")
    return ChatMessage(role=role if role in ("assistant", "system") else "user", content=item.content)


if __name__ == "__main__":
    with memoranda.sync.open("memory://") as store:
        chats = MemorandaChatStore(store.scoped(user_id="ada"))
        memory = ChatMemoryBuffer.from_defaults(chat_store=chats, chat_store_key="chat", token_limit=1000)
        memory.put(ChatMessage(role="user", content="My flat is in Oslo."))
        memory.put(ChatMessage(role="assistant", content="Noted."))
        chats.add_message("other", ChatMessage(role="user", content="Hello."))
        for message in memory.get():
            print(f"{message.role.value}: {message.content}")
        print("keys:", ", ".join(chats.get_keys()))
        last = chats.delete_last_message("chat")
        print("the last one was:", last and last.content)
        print("left:", *(message.role.value for message in memory.get()))
