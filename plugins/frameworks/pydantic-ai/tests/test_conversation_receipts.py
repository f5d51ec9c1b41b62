"""Receipts of Pydantic AI: what a conversation was loaded with can be shown again."""

from __future__ import annotations

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

import memoranda
from memoranda_pydantic_ai import MemorandaConversationStore

receipts = pytest.importorskip("memoranda_receipts")

TURN: list[ModelMessage] = [
    ModelRequest(parts=[UserPromptPart("Where is the bicycle?")]),
    ModelResponse(parts=[TextPart("In the shed.")]),
]


async def test_a_loaded_conversation_is_recorded_and_replays() -> None:
    async with memoranda.open("memory://") as store:
        ada = store.scoped(user_id="ada")
        conversations = MemorandaConversationStore(ada, receipt=True)
        await conversations.save(Conversation(messages=TURN, conversation_id="chat"))
        assert await receipts.Receipts(ada).list() == []
        await conversations.load("chat")
        await conversations.load("chat", limit=1)
        await conversations.load("another")
        last, first = await receipts.Receipts(ada).list()
        replays = [await receipts.Receipts(ada).replay(receipt) for receipt in (first, last)]
        assert [replay.exact for replay in replays] == [True, True]
        assert [item.content for item in replays[0].items] == ["Where is the bicycle?", "In the shed."]
        assert [item.content for item in replays[1].items] == ["In the shed."]
        assert (first.session, last.parameters["limit"]) == ("chat", 1)


async def test_the_conversation_goes_on_after_a_receipt_and_takes_it_along_when_deleted() -> None:
    async with memoranda.open("memory://") as store:
        ada = store.scoped(user_id="ada")
        conversations = MemorandaConversationStore(ada, receipt=True)
        await conversations.save(Conversation(messages=TURN, conversation_id="chat"))
        loaded = await conversations.load("chat")
        assert loaded is not None
        loaded.messages += TURN
        await conversations.save(loaded)
        again = await conversations.load("chat")
        assert again is not None
        assert len(again.messages) == 4
        await conversations.delete("chat")
        assert await receipts.Receipts(ada).list() == []
