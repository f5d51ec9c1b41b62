"""Receipts of Strands: the messages and memories that an agent was given can be shown again."""

from __future__ import annotations

import pytest
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from strands_messages import conversation

import memoranda
import memoranda.sync
from memoranda_strands import MemorandaMemoryStore, MemorandaSessionRepository

receipts = pytest.importorskip("memoranda_receipts")


async def test_the_messages_that_an_agent_is_restored_with_are_recorded_and_replay() -> None:
    async with memoranda.open("memory://") as store:
        ada = store.scoped(user_id="ada")
        repository = MemorandaSessionRepository(ada, receipt=True)
        repository.create_session(Session("chat", SessionType.AGENT))
        repository.create_agent("chat", SessionAgent("helper", {}, {}))
        for number, message in enumerate(conversation()):
            repository.create_message("chat", "helper", SessionMessage(message, number))
        assert await receipts.Receipts(ada).list() == []
        assert len(repository.list_messages("chat", "helper")) == 4
        (receipt,) = await receipts.Receipts(ada).list()
        replay = await receipts.Receipts(ada).replay(receipt)
        assert replay.exact
        assert [item.content for item in replay.items][-1] == "A cat."
        assert receipt.session == "chat"
        assert len(repository.list_messages("chat", "helper", limit=1, offset=3)) == 1
        assert [len(found.shown) for found in await receipts.Receipts(ada).list()] == [1, len(receipt.shown)]


async def test_memories_that_are_found_are_recorded() -> None:
    async with memoranda.open("memory://") as store:
        ada = store.scoped(user_id="ada")
        memory = MemorandaMemoryStore(ada, receipt=True)
        first = await memory.add("The bicycle is red.")
        await memory.search("Which colour has the bicycle?")
        (receipt,) = await receipts.Receipts(ada).list()
        assert (receipt.kind, receipt.ids) == ("recall", [first])
        assert (await receipts.Receipts(ada).replay(receipt)).exact
