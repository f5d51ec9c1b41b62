"""Windows over a session that has many system items, which the event loop or a thread reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda import HumanMemory, MemoryMetadata, SystemMemory
from memoranda_sqlite import SQLiteMemoryStore

SESSION = MemoryMetadata(user_id="ada", session_id="s")


@pytest.mark.parametrize("many", [199, 200, 201, 450])
async def test_a_window_shows_every_system_item_of_its_session(tmp_path: Path, many: int) -> None:
    rules = [SystemMemory(content=f"rule {number}", metadata=SESSION) for number in range(many)]
    said = [HumanMemory(content=f"said {number}", metadata=SESSION) for number in range(40)]
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([*rules, *said])

        shown = await store.window(metadata=SESSION, rounds=3)

        assert [item.id for item in shown] == [item.id for item in [*rules, *said[-3:]]]


@pytest.mark.parametrize("offset", [0, 10, 240])
async def test_a_page_of_system_items_begins_after_those_that_it_passes_over(tmp_path: Path, offset: int) -> None:
    rules = [SystemMemory(content=f"rule {number}", metadata=SESSION) for number in range(250)]
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many(rules)

        found = await store.search(
            metadata=SESSION, memory_type=("system", "summary"), limit=205, offset=offset, order="added"
        )

        assert [item.id for item in found] == [item.id for item in rules[::-1][offset : offset + 205]]
