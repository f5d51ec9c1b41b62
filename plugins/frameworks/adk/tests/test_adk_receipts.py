"""Receipts of ADK: the events and memories that a runner was given can be shown again."""

from __future__ import annotations

import pytest
from adk_events import said
from google.adk.sessions.base_session_service import GetSessionConfig

import memoranda
from memoranda_adk import MemorandaMemoryService, MemorandaSessionService
from memoranda_guard import Fence

receipts = pytest.importorskip("memoranda_receipts")


@pytest.mark.parametrize("fence", [None, Fence()])
async def test_the_events_that_a_runner_reads_are_recorded_and_replay(fence: Fence | None) -> None:
    async with memoranda.open("memory://") as store:
        service = MemorandaSessionService(store, fence=fence, receipt=True)
        session = await service.create_session(app_name="app", user_id="ada", session_id="chat")
        for number in range(4):
            await service.append_event(session, said("user", f"Event {number}."))
        name = {"app_name": "app", "user_id": "ada", "session_id": "chat"}
        await service.get_session(**name)
        await service.get_session(**name, config=GetSessionConfig(num_recent_events=2))
        mine = receipts.Receipts(store.scoped(user_id="ada", session_id="chat"))
        last, first = await mine.list()
        replays = [await mine.replay(receipt) for receipt in (first, last)]
        assert [(replay.exact, len(replay.items)) for replay in replays] == [(True, 4), (True, 2)]
        assert "Event 3." in replays[1].items[-1].content
        await service.delete_session(**name)
        assert await mine.list() == []


async def test_memories_that_are_found_are_recorded() -> None:
    async with memoranda.open("memory://") as store:
        service = MemorandaMemoryService(store, receipt=True)
        owner = {"app_name": "app", "user_id": "ada"}
        events = [said("user", "The bicycle is red."), said("user", "The weather is fine.")]
        await service.add_events_to_memory(**owner, events=events)
        found = await service.search_memory(**owner, query="Which colour has the bicycle?")
        mine = receipts.Receipts(store.scoped(user_id="ada"))
        (receipt,) = await mine.list()
        assert receipt.kind == "recall"
        assert receipt.ids == [memory.id for memory in found.memories]
        assert (await mine.replay(receipt)).exact
        assert await receipts.Receipts(store.scoped(user_id="bob")).list() == []
        assert {entry.role for entry in receipt.shown} == {"long-term"}
