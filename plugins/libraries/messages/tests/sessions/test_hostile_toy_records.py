"""The records of a framework are what its adapter wrote, whatever others add under their ids."""

from __future__ import annotations

from typing import Any

import pytest

from adapter_kit.hostile_records import HostileRecords
from memoranda.errors import InputError
from memoranda.items import HumanMemory, MemoryItem
from memoranda.store import Store
from memoranda_messages.sessions import RECORD, Conversation, Records, ScopedState, states_of

DELTAS = {"session": {"mood": "good"}, "user": {"name": "Ada"}, "app": {"theme": "dark"}}


class TestRecords(HostileRecords):
    async def keep(self, handle: Store) -> None:
        await Records(handle, "toy").put("state", "s", {"mood": "good"})
        await Records(handle.scoped(session_id="chat"), "toy").change("agent", "a", lambda _: 1)

    async def kept(self, handle: Store) -> Any:
        records = Records(handle, "toy")
        of_session = Records(handle.scoped(session_id="chat"), "toy")
        listed = [record.value for record in await records.list("state")]
        return await records.get("state", "s"), await of_session.get("agent", "a"), listed


class TestScopedState(HostileRecords):
    async def keep(self, handle: Store) -> None:
        states = ScopedState(handle, "toy", "shop", "ada", "chat")
        records, _ = states.changed(await states.read(), DELTAS, {}, None)
        conversation = Conversation(handle, "chat", app="shop")
        await conversation.append([HumanMemory(content="Hi.")], records=records)

    async def kept(self, handle: Store) -> Any:
        stored = await ScopedState(handle, "toy", "shop", "ada", "chat").read()
        listed = await states_of(handle, "toy", "shop", "ada")
        return [stored.values(scope) for scope in DELTAS], [each.values("session") for each in listed]


async def test_no_message_is_a_record(store: Store) -> None:
    """What is appended together with records is checked like any other item."""
    records = Records(store, "toy")
    smuggled = MemoryItem(content="", memory_type=RECORD)

    with pytest.raises(InputError):
        await Conversation(store, "chat").append([smuggled], records=[records.item("state", "s", 1)])

    assert await records.get("state", "s") is None


async def test_a_word_of_the_user_is_no_record(store: Store) -> None:
    """A user may call a type ``record``: such an item is a part of the conversation like any other."""
    conversation = Conversation(store, "chat")
    await conversation.append([MemoryItem(content="A vinyl record.", memory_type="record")])

    assert [item.content for item in await conversation.read()] == ["A vinyl record."]
