"""LangChain's chat message history in any store. Copy the class; it needs langchain-core.

    pip install -r requirements.txt langchain-core
    python examples/recipes/langchain_history.py

It prints:

    human: My flat is in Oslo.
    ai: Noted.
    a search finds: My flat is in Oslo.
    cleared: 0 messages
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    message_to_dict,
    messages_from_dict,
)

import memoranda.sync
from memoranda import MemoryItem
from memoranda.sync import SyncStore
from memoranda_messages import agrees
from memoranda_messages.payload_json import decode_payload, encode_payload


class MemorandaHistory(BaseChatMessageHistory):
    """The messages of one session: ``MemorandaHistory(store.scoped(user_id="ada", session_id="chat"))``."""

    def __init__(self, store: SyncStore) -> None:
        super().__init__()
        self.store = store

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # writable there, but never written
        """Return the conversation, oldest first."""
        return [_message(item) for item in self.store.scan(archived=False, order="added")]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, all or none."""
        self.store.add_many(
            MemoryItem(**_fields(message), payload=encode_payload(message_to_dict(message)), payload_format="langchain")
            for message in messages
        )

    def clear(self) -> None:
        """Remove the messages for good."""
        self.store.purge()


def _fields(message: BaseMessage) -> dict[str, Any]:
    """Return the fields of a message's item: speaker, text, calls and results."""
    calls = [call["id"] for call in getattr(message, "tool_calls", [])]
    answered = [message.tool_call_id] if hasattr(message, "tool_call_id") else []
    return {
        "memory_type": f"langchain-{message.type}",
        "content": message.text.replace("\0", ""),
        "provider_parts": calls + answered,
    }


def _message(item: MemoryItem) -> BaseMessage:
    """Return the original message of an item, or one built from the fields if the item has changed."""
    (message,) = messages_from_dict([decode_payload(item.payload or "")])
    if agrees(item, _fields(message)):
        return message
    kinds = {"langchain-ai": AIMessage, "langchain-system": SystemMessage}
    return kinds.get(item.memory_type, HumanMessage)(item.content)


if __name__ == "__main__":
    with memoranda.sync.open("memory://") as store:
        history = MemorandaHistory(store.scoped(user_id="ada", session_id="chat"))
        history.add_messages([HumanMessage("My flat is in Oslo."), AIMessage("Noted.")])
        for message in history.messages:
            print(f"{message.type}: {message.text}")
        print("a search finds:", *(item.content for item in store.search(query="OSLO")))
        history.clear()
        print("cleared:", len(history.messages), "messages")
