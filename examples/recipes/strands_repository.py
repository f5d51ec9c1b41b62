"""Strands' session repository in any store. Copy the class; it needs strands-agents.

    pip install -r requirements.txt strands-agents
    python examples/recipes/strands_repository.py

It prints:

    user: My flat is in Oslo.
    assistant: Noted.
    after a restart: 2 messages, and the state {'city': 'Oslo'}
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from strands import Agent
from strands.models import Model
from strands.session.repository_session_manager import RepositorySessionManager
from strands.session.session_repository import SessionRepository
from strands.types.session import Session, SessionAgent, SessionMessage

import memoranda.sync
from memoranda import MemoryItem, MemoryMetadata
from memoranda.sync import SyncStore
from memoranda_messages import agrees
from memoranda_messages.payload_json import decode_payload, encode_payload


class MemorandaRepository(SessionRepository):
    """Sessions, agents and messages as items: ``MemorandaRepository(store, user_id="ada")``.

    Strands calls from inside an event loop, which must not wait: the store is called from a thread beside it.
    """

    def __init__(self, store: SyncStore, user_id: str) -> None:
        self._store = store.scoped(user_id=user_id)
        self._user = user_id
        self._beside = ThreadPoolExecutor(1)

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Store a session."""
        self._put("session", session.session_id, "", 0, session.to_dict())
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session."""
        found = self._get("session", session_id, "", 0)
        return None if found is None else Session.from_dict(found)

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Store an agent."""
        self._put("agent", session_id, session_agent.agent_id, 0, session_agent.to_dict())

    update_agent = create_agent

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return an agent."""
        found = self._get("agent", session_id, agent_id, 0)
        return None if found is None else SessionAgent.from_dict(found)

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Store a message."""
        said = _fields(session_message)
        self._put("message", session_id, agent_id, session_message.message_id, session_message.to_dict(), said)

    update_message = create_message

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        """Return a message."""
        found = self._item("message", session_id, agent_id, message_id)
        return None if found is None else _message(found)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        """Return the messages of an agent, oldest first."""

        def read() -> list[MemoryItem]:
            whose = MemoryMetadata(session_id=session_id, agent_id=agent_id)
            return list(self._store.scan(metadata=whose, memory_type="strands-message", order="added"))

        items = self._beside.submit(read).result()[offset:]
        return [_message(item) for item in items[:limit]]

    def _put(self, kind: str, session: str, agent: str, number: int, value: Any, said: Any = None) -> None:
        item = MemoryItem(
            id=encode_payload([self._user, kind, session, agent, number]),
            **(said or {"memory_type": f"strands-{kind}", "content": ""}),
            metadata=MemoryMetadata(session_id=session, agent_id=agent or None),
            payload=encode_payload(value),
            payload_format="strands",
        )
        self._beside.submit(self._store.add, item).result()

    def _get(self, kind: str, session: str, agent: str, number: int) -> Any:
        item = self._item(kind, session, agent, number)
        return None if item is None else decode_payload(item.payload or "")

    def _item(self, kind: str, session: str, agent: str, number: int) -> MemoryItem | None:
        wanted = encode_payload([self._user, kind, session, agent, number])
        return self._beside.submit(self._store.get, wanted).result()


def _fields(message: SessionMessage) -> dict[str, Any]:
    """Return the fields of a message's item: speaker, text and further blocks."""
    said = message.to_message()
    return {
        "memory_type": "strands-message",
        "content": " ".join(block["text"] for block in said["content"] if "text" in block).replace("\0", ""),
        "name": said["role"],
        "provider_parts": [kind for block in said["content"] for kind in block if kind != "text"],
    }


def _message(item: MemoryItem) -> SessionMessage:
    """Return the original message of an item, or one built from the fields if the item has changed."""
    message = SessionMessage.from_dict(decode_payload(item.payload or ""))
    if agrees(item, _fields(message)):
        return message
    role = "assistant" if item.name == "assistant" else "user"
    return SessionMessage({"role": role, "content": [{"text": item.content}]}, message.message_id)


class Parrot(Model):
    """A model that needs no key."""

    def update_config(self, **model_config: Any) -> None:
        """Have no settings."""

    def get_config(self) -> Any:
        """Return that there are none."""
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        """Give no structured output."""
        raise NotImplementedError

    async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterable[Any]:
        """Say that it was noted."""
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": "Noted."}, "contentBlockIndex": 0}}
        yield {"contentBlockStop": {"contentBlockIndex": 0}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def agent(store: SyncStore) -> Agent:
    """Return an agent that continues its session."""
    manager = RepositorySessionManager("chat", session_repository=MemorandaRepository(store, "ada"))
    return Agent(model=Parrot(), agent_id="helper", session_manager=manager, callback_handler=None)


if __name__ == "__main__":
    with memoranda.sync.open("memory://") as store:
        first = agent(store)
        first.state.set("city", "Oslo")
        first("My flat is in Oslo.")
        for message in first.messages:
            print(f"{message['role']}: {message['content'][0]['text']}")
        second = agent(store)
        print("after a restart:", len(second.messages), "messages, and the state", second.state.get())
