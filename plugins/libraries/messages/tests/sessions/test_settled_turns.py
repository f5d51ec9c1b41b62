"""What earlier turns left half written, sync calls, and names that providers take."""

from __future__ import annotations

import asyncio

import pytest

from memoranda import AIMemory, HumanMemory, ToolMemory
from memoranda.items import MemoryItem
from memoranda_messages.sessions import Outgoing, SyncCallError, blocking, settled

ASKED = HumanMemory(content="Weather?")
CALLS = AIMemory(content="", tool_calls=[{"id": name, "name": "weather", "arguments": {}} for name in "ab"])
RESULTS = [ToolMemory(content="snow", tool_call_id=name) for name in "ab"]
AGAIN = HumanMemory(content="Never mind.")
LONE = ToolMemory(content="?", tool_call_id="nowhere")


@pytest.mark.parametrize(
    ("items", "left"),
    [
        ([ASKED, CALLS, RESULTS[0]], [ASKED, CALLS, RESULTS[0]]),
        ([ASKED, CALLS, RESULTS[0], AGAIN], [ASKED, AGAIN]),
        ([ASKED, CALLS, *RESULTS, AGAIN], [ASKED, CALLS, *RESULTS, AGAIN]),
        ([ASKED, LONE], [ASKED, LONE]),
        ([ASKED, LONE, AGAIN], [ASKED, AGAIN]),
        ([LONE], [LONE]),
        ([], []),
    ],
)
def test_only_the_turn_under_way_may_be_half_written(items: list[MemoryItem], left: list[MemoryItem]) -> None:
    assert settled(items) == left


def test_a_sync_call_runs_its_coroutine_and_is_refused_in_an_event_loop() -> None:
    async def work() -> int:
        return 1

    async def inside() -> None:
        blocking("messages", work, instead="aget_messages")

    assert blocking("messages", work, instead="aget_messages") == 1
    with pytest.raises(SyncCallError, match=r"Await aget_messages\(\)"):
        asyncio.run(inside())


@pytest.mark.parametrize(
    ("name", "legal", "lost"),
    [(None, None, []), ("Ada", "Ada", []), ("Ada Lovelace", "Ada_Lovelace", ["name"]), ("system", None, ["name"])],
)
def test_a_name_is_written_as_providers_take_it(name: str | None, legal: str | None, lost: list[str]) -> None:
    outgoing = Outgoing([HumanMemory(content="Hi", name=name)], {})
    assert outgoing.legal_name() == legal
    assert [loss.what for loss in outgoing.losses(frozenset({"name"}), written=True)] == lost
