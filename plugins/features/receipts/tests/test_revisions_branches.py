"""Reads of a forked session as of a moment: it shows its past there, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from receipt_stores import Clock, opened

from memoranda import AIMemory, HumanMemory, MemoryMetadata, ToolMemory
from memoranda.store import Store

ENGINES = ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)]
"""Redis forks no session."""


@pytest.fixture(scope="module")
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


async def forked(store: Store, clock: Clock) -> str:
    """Return a session that shares the first round of another, which shares that of a third one."""
    owner: dict[str, Any] = {"user_id": "ada", "agent_id": "guide"}
    first = store.scoped(**owner, session_id="first")
    await first.add(HumanMemory(id="question", content="What time is it?"))
    await first.add(AIMemory(id="call", content="", tool_calls=[{"id": "c", "name": "clock", "arguments": {}}]))
    await first.add(ToolMemory(id="result", content="Noon", tool_call_id="c"))
    await first.add(HumanMemory(id="later", content="Not shared"))
    clock.tick()
    everywhere = store.scoped(user_id="ada")
    second = await everywhere.fork("first", at="result")
    await store.scoped(**owner, session_id=second).add(HumanMemory(id="between", content="In between"))
    clock.tick()
    third = await everywhere.fork(second, at="between")
    await store.scoped(**owner, session_id=third).add(HumanMemory(id="own", content="Its own"))
    await store.scoped(user_id="bob", session_id="first").add(HumanMemory(id="bob", content="Of another"))
    return third


def handles(store: Store, session: str) -> list[tuple[Any, dict[str, Any]]]:
    """Return the handles that show the session, each with what narrows it to that."""
    narrow = {"metadata": MemoryMetadata(session_id=session)}
    return [
        (store.scoped(user_id="ada", session_id=session), {}),
        (store.scoped(user_id="ada", session_id=session, agent_id="guide"), {}),
        (store.scoped(user_id="ada"), narrow),
        (store, narrow),
    ]


async def shown(handle: Any, **wanted: Any) -> tuple[list[str], int, list[str]]:
    """Return what a window, a count and a search show."""
    found = await handle.search(query="o", mode="substring", limit=100, **wanted)
    window = [item.content for item in await handle.window(**wanted)]
    return window, await handle.count(**wanted), sorted(item.id for item in found)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("gone", ["nothing", "delete", "purge"])
async def test_a_forked_session_shows_its_past_as_of_a_moment(
    engine: str, gone: str, servers: ExitStack, tmp_path: Path
) -> None:
    async with opened(engine, servers, tmp_path, revisions=True) as store:
        store.clock = clock = Clock()
        session = await forked(store, clock)
        everywhere = store.scoped(user_id="ada")
        before = clock.tick()
        question = await everywhere.get("question")
        assert question is not None
        seen_before = [await shown(handle, **narrow) for handle, narrow in handles(store, session)]
        await everywhere.update(question.model_copy(update={"content": "Is it noon?"}))
        if gone == "delete":
            await everywhere.delete("between")
        elif gone == "purge":
            await everywhere.purge("between")
        now = clock.tick()

        for (handle, narrow), earlier in zip(handles(store, session), seen_before, strict=True):
            assert await shown(handle, **narrow, as_of=now) == await shown(handle, **narrow)
            if gone != "purge":
                assert await shown(handle, **narrow, as_of=before) == earlier


async def test_the_past_of_a_fork_is_that_of_its_user_alone(servers: ExitStack, tmp_path: Path) -> None:
    async with opened("sqlite", servers, tmp_path, revisions=True) as store:
        store.clock = clock = Clock()
        session = await forked(store, clock)
        now = clock.tick()

        assert not await store.scoped(user_id="bob", session_id=session).window(as_of=now)
        assert "Of another" not in [
            item.content for item in await store.scoped(user_id="ada", session_id=session).window(as_of=now)
        ]
