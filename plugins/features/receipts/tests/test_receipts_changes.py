"""Replay after changes, and what differs between two receipts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryMetadata, ToolMemory
from memoranda.store import Store
from memoranda_context import assemble
from memoranda_receipts import Receipts
from memoranda_summary import SummaryConfig, compact


@pytest.fixture
async def handle() -> AsyncIterator[Store]:
    async with memoranda.open("memory://") as store:
        yield store.scoped(user_id="ada", session_id="trip")


async def say(handle: Store, *texts: str, **fields: Any) -> list[str]:
    """Add what a person said and an answer for each text; return the ids."""
    ids = []
    for text in texts:
        for item in (HumanMemory(content=text, **fields), AIMemory(content=f"You said: {text}")):
            await handle.add(item)
            ids.append(item.id)
    return ids


CHANGES = ("changed", "updated", "archived", "deleted", "expired", "purged", None)


async def changed(handle: Store, item_id: str, how: str | None) -> None:
    """Do to an item what a replay calls so."""
    item = await handle.get(item_id)
    assert item is not None
    if how == "changed":
        await handle.update(item.model_copy(update={"content": f"{item.content} Not so."}))
    elif how == "updated":
        await handle.update(item.model_copy(update={"metadata": item.metadata.model_copy(update={"task_id": "t"})}))
    elif how == "archived":
        await handle.update(item.model_copy(update={"archived_by": "summary"}))
    elif how == "deleted":
        await handle.delete(item_id)
    elif how == "purged":
        await handle.purge(item_id)


@settings(deadline=None)
@given(hows=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=8), fenced=st.booleans())
def test_exactly_what_was_changed_is_named(hows: list[str | None], fenced: bool) -> None:
    async def run() -> None:
        async with memoranda.open("memory://") as store:
            handle = store.scoped(user_id="ada", session_id="trip")
            ids = []
            for number, how in enumerate(hows):
                item = HumanMemory(content=f"Sentence {number} about bicycles.", trust="external" if fenced else None)
                await handle.add(item, ttl=60 if how == "expired" else None)
                ids.append(item.id)
            receipts = Receipts(handle)
            await assemble(handle, "What about bicycles?", receipt=True)
            shown = await handle.window(receipt=True)
            assert [item.id for item in shown] == ids
            for item_id, how in zip(ids, hows, strict=True):
                await changed(handle, item_id, how)
            start = store.clock()
            store.clock = lambda: start + 61
            for receipt in await receipts.list():
                replay = await receipts.replay(receipt)
                expected = [(item_id, how) for item_id, how in zip(ids, hows, strict=True) if how is not None]
                assert [(change.id, change.change) for change in replay.changes] == expected
                missing = [item_id for item_id, how in expected if how not in ("updated", "archived")]
                assert list(replay.missing) == missing
                assert replay.exact is not bool(missing)
                for item_id, number in zip(ids, range(len(ids)), strict=True):
                    there = f"Sentence {number} about" in replay.bytes().decode()
                    assert there is (item_id not in missing)

    asyncio.run(run())


async def test_the_rest_of_a_context_is_a_whole_one(handle: Store) -> None:
    await say(handle, "Hello.")
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    caller = AIMemory(content="", tool_calls=[call])
    await handle.add(caller)
    await handle.add(ToolMemory(content="Found.", tool_call_id="c1"))
    await handle.window(receipt=True)
    await handle.purge(caller.id)
    replay = await Receipts(handle).replay((await Receipts(handle).list())[0])
    assert replay.missing == (caller.id,)
    assert [message["role"] for message in replay.messages()] == ["user", "assistant"]
    assert len(replay.items) == 3


async def rules(handle: Store) -> dict[str, dict[str, str]]:
    """Return what left and entered between the last two receipts, each with its rule."""
    receipts = Receipts(handle)
    later, earlier = await receipts.list(limit=2)
    found = await receipts.diff(earlier, later)
    return {
        "left": {each.id: each.rule for each in found.left},
        "entered": {each.id: each.rule for each in found.entered},
    }


async def test_items_leave_beyond_the_rounds_and_enter_as_added(handle: Store) -> None:
    first = await say(handle, "One.", "Two.")
    await handle.window(rounds=2, receipt=True)
    second = await say(handle, "Three.")
    await handle.window(rounds=2, receipt=True)
    assert await rules(handle) == {
        "left": dict.fromkeys(first[:2], "beyond the rounds"),
        "entered": dict.fromkeys(second, "added since"),
    }


async def test_items_leave_over_budget(handle: Store) -> None:
    first = await say(handle, "One.", "Two.")
    await handle.window(tokens=100, rounds=5, receipt=True)
    await say(handle, "Three is a long sentence indeed. " * 8)
    await handle.window(tokens=136, rounds=5, receipt=True)
    assert (await rules(handle))["left"] == dict.fromkeys(first, "over budget")


async def test_what_comes_back_says_why_it_was_out(handle: Store) -> None:
    ids = await say(handle, "One.", "Two.", "Three.")
    await handle.window(rounds=1, receipt=True)
    await handle.window(rounds=3, receipt=True)
    assert (await rules(handle))["entered"] == dict.fromkeys(ids[:4], "beyond the rounds")


async def test_items_leave_compacted(handle: Store) -> None:
    ids = await say(handle, *(f"Sentence {number}." for number in range(6)))
    await handle.window(receipt=True)

    class Summarizer:
        async def summarize(self, prompt: str) -> str:
            return "They spoke of sentences."

    owner = MemoryMetadata(user_id="ada", session_id="trip")
    await compact(handle, owner, SummaryConfig(message_threshold=4, keep_recent=2), Summarizer())
    await handle.window(receipt=True)
    found = await rules(handle)
    assert set(found["left"].values()) == {"compacted"}
    assert set(found["left"]) < set(ids)
    assert list(found["entered"].values()) == ["added since"]


async def test_items_leave_below_the_floor_expired_untrusted_and_removed(handle: Store) -> None:
    texts = {name: f"The {name} bicycle is in the shed." for name in ("red", "green", "brown", "grey")}
    for name, text in texts.items():
        ttl = 60 if name == "green" else None
        await handle.add(HumanMemory(id=name, content=text, trust="user"), ttl=ttl)
    await handle.add(HumanMemory(id="kept", content="The weather is fine.", trust="user"))
    await handle.window(receipt=True)
    item = await handle.get("brown")
    assert item is not None
    await handle.add(item.model_copy(update={"trust": "external"}))
    await handle.delete("grey")
    start = handle.clock()
    handle.root.clock = lambda: start + 61  # type: ignore[attr-defined]
    receipts = Receipts(handle)
    earlier = (await receipts.list())[0]
    await handle.window(min_trust="user", receipt=True)
    later = (await receipts.list())[0]
    found = await receipts.diff(earlier, later)
    rules = {each.id: each.rule for each in found.left}
    assert rules == {"green": "expired", "brown": "no longer trusted", "grey": "removed"}
    assert found.settings == {"min_trust": (None, "user")}
    other = handle.root.scoped(user_id="ada", session_id="later")  # type: ignore[attr-defined]
    await assemble(other, "Is the red bicycle in the shed?", limit=5, min_score=0.5, receipt=True)
    await assemble(other, "How is the weather today?", limit=5, min_score=0.5, receipt=True)
    later, earlier = await Receipts(other).list(limit=2)
    left = {each.id: each.rule for each in (await Receipts(other).diff(earlier, later)).left}
    assert left["red"] == "below the floor"


async def test_two_receipts_of_the_same_are_the_same(handle: Store) -> None:
    ids = await say(handle, "One.")
    await handle.window(receipt=True)
    await handle.window(receipt=True)
    receipts = Receipts(handle)
    later, earlier = await receipts.list()
    assert (await receipts.diff(earlier.id, later.id)).same
    await changed(handle, ids[0], "changed")
    await handle.window(receipt=True)
    found = await receipts.diff(later, (await receipts.list())[0])
    assert found.changed == (ids[0],)
    assert not found.same
