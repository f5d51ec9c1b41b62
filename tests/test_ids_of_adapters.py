"""Ids that adapters derive confirm no guess about what an encrypted store holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.genai import types
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from memoranda.store import InMemoryStore, Store
from memoranda_adk import MemorandaSessionService
from memoranda_encrypt import KeyRing, LocalMasterKey, with_encryption
from memoranda_messages.sessions import DerivedIds
from memoranda_strands import MemorandaMemoryStore, MemorandaSessionRepository

SAID: Any = {"role": "user", "content": [{"text": "The flat is in Oslo."}]}


async def stored_ids(store: Store) -> set[str]:
    """Return the ids of what adapters store whose ids depend on names and contents alone."""
    ada = store.scoped(user_id="ada")
    memory = MemorandaMemoryStore(ada)
    first = await memory.add("The flat is in Oslo.")
    assert await memory.add("The flat is in Oslo.") == first
    for _ in range(2):
        await memory.add_messages([SAID])
    repository = MemorandaSessionRepository(ada)
    repository.create_session(Session("chat", SessionType.AGENT))
    repository.create_agent("chat", SessionAgent("agent", {}, {}))
    repository.create_message("chat", "agent", SessionMessage(SAID, 0))
    service = MemorandaSessionService(store)
    session = await service.create_session(app_name="app", user_id="ada", session_id="adk")
    content = types.Content(role="user", parts=[types.Part(text="Hi.")])
    await service.append_event(session, Event(id="first", author="user", content=content))
    assert len({DerivedIds(ada, "toy").id_of("name") for _ in range(2)}) == 1
    return {item.id async for item in store.scan(archived=None)} | {DerivedIds(ada, "toy").id_of("name")}


async def test_ids_in_an_encrypted_store_cannot_be_derived_without_its_key(tmp_path: Path) -> None:
    plain = await stored_ids(InMemoryStore())
    ring = KeyRing(LocalMasterKey.generate(), tmp_path / "keys.db")
    async with with_encryption(InMemoryStore(), ring) as store:
        sealed = await stored_ids(store)

    ring.close()
    assert len(plain) == len(sealed) > 5
    assert plain.isdisjoint(sealed)
