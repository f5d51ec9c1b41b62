"""Facts from conversations whose items have times of several clocks: what was said last is true now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda_facts import Facts
from memoranda_facts.extraction import BackgroundExtraction, RuleExtractor, everyday_schema

URLS = ["memory://", "sqlite:///{folder}/a.db"]


def said(content: str, created_at: str, session: str = "s") -> HumanMemory:
    return HumanMemory(content=content, created_at=created_at, metadata=MemoryMetadata(session_id=session))


async def home(handle: Store) -> list[Any]:
    """Return where Ada lives now, and what prompts say of it."""
    return [fact.object for fact in await Facts(handle, schema=everyday_schema()).current(predicate="lives_in")]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("behind", ["2026-01-01T10:59:57", "2026-01-01T10:05:00", "2026-01-01T10:00:00"])
@pytest.mark.parametrize("read_at_once", [True, False])
async def test_a_move_that_another_clock_dates_earlier_is_still_the_last(
    url: str, behind: str, read_at_once: bool, tmp_path: Path
) -> None:
    """One machine's clock is some seconds ahead, or a whole hour, as a wrong rule for summer time makes it."""
    async with memoranda.open(url.format(folder=tmp_path), facts="rules") as store:
        handle = store.scoped(user_id="ada")
        await handle.add(said("I live in Lisbon.", "2026-01-01T11:00:00"))
        if read_at_once:
            assert await handle.known(tokens=500) == ["lives in Lisbon (since 2026-01-01)"]
            reply = AIMemory(content="Noted.", created_at=behind, metadata=MemoryMetadata(session_id="s"))
            await handle.add(reply)
        await handle.add(said("I moved to Porto.", behind))

        assert await handle.known(tokens=500) == ["lives in Porto (since 2026-01-01; before: Lisbon)"]
        stored = [item.created_at for item in await handle.window()]
        assert stored[-1].startswith(behind)


@pytest.mark.parametrize("url", URLS)
async def test_the_extraction_in_the_background_follows_the_conversation_too(url: str, tmp_path: Path) -> None:
    async with memoranda.open(url.format(folder=tmp_path)) as store:
        handle = store.scoped(user_id="ada")
        await handle.add(said("I live in Lisbon.", "2026-01-01T11:00:00"))
        async with BackgroundExtraction(store, RuleExtractor(), schema=everyday_schema()) as extraction:
            await extraction.drain()
            await handle.add(said("I moved to Porto.", "2026-01-01T10:59:00"))
            await extraction.drain()
            await handle.add(said("I moved to Faro.", "2026-01-01T10:58:00"))
            await extraction.drain()

        assert await home(handle) == ["Faro"]


@pytest.mark.parametrize("url", URLS)
async def test_what_is_older_keeps_its_time(url: str, tmp_path: Path) -> None:
    """Old messages that are stored later, and those of another conversation, say what was true then."""
    async with memoranda.open(url.format(folder=tmp_path), facts="rules") as store:
        handle = store.scoped(user_id="ada")
        await handle.add(said("I live in Lisbon.", "2026-01-01T11:00:00"))
        await handle.add(said("I moved to Porto.", "2025-01-01T11:00:00"))
        await handle.add(said("I moved to Faro.", "2026-01-01T10:59:00", session="another"))

        await handle.known(tokens=500)

        assert await home(handle) == ["Lisbon"]
