"""The records of Pydantic AI's conversations are what the adapter wrote, whatever others add under their ids."""

from __future__ import annotations

from typing import Any

from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelRequest, UserPromptPart

from adapter_kit.hostile_records import HostileRecords
from memoranda.store import Store
from memoranda_pydantic_ai import MemorandaConversationStore


class TestConversationRecords(HostileRecords):
    async def keep(self, handle: Store) -> None:
        entry = ConversationEntry(id="e1", parent_id=None, message=ModelRequest(parts=[UserPromptPart("Hi.")]))
        record = ConversationRecord(conversation_id="chat", head_id="e1", revision="r1", scope="shop")
        store = MemorandaConversationStore(handle)
        await store.write_record(record, new_entries=[entry], expected_revision=None)

    async def kept(self, handle: Store) -> Any:
        store = MemorandaConversationStore(handle)
        found = await store.read_record("chat")
        listed = await store.read_records()
        return found and (found.revision, found.scope), [each.conversation_id for each in listed]
