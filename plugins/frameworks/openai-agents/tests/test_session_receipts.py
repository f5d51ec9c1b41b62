"""Receipts of a session: what the SDK was given for a model can be shown again."""

from __future__ import annotations

import pytest

import memoranda
from memoranda_guard import Fence
from memoranda_messages import to_responses
from memoranda_openai_agents import MemorandaSession

receipts = pytest.importorskip("memoranda_receipts")


@pytest.mark.parametrize("fence", [None, Fence()])
async def test_what_a_session_returns_is_recorded_and_replays(fence: Fence | None) -> None:
    async with memoranda.open("memory://") as store:
        ada = store.scoped(user_id="ada")
        session = MemorandaSession("chat", ada, fence=fence, receipt=True)
        call = {"type": "function_call", "call_id": "c", "name": "find", "arguments": "{}"}
        result = {"type": "function_call_output", "call_id": "c", "output": "In the shed."}
        await session.add_items([{"role": "user", "content": "Where is it?"}, call, result])  # type: ignore[list-item]
        shown = await session.get_items()
        (receipt,) = await receipts.Receipts(ada).list()
        replay = await receipts.Receipts(ada).replay(receipt)
        assert receipt.kind == "session"
        assert replay.exact
        assert len(replay.messages("responses")) == len(shown)
        assert to_responses(replay.items) == replay.messages("responses")
        assert len(await session.get_items()) == 3


async def test_a_session_records_nothing_unless_asked() -> None:
    async with memoranda.open("memory://") as store:
        session = MemorandaSession("chat", store)
        await session.add_items([{"role": "user", "content": "Hello"}])
        await session.get_items()
        assert await receipts.Receipts(store).list() == []
