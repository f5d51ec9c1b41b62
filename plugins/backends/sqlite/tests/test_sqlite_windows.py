"""Windows and counts of a session: in the event loop or a thread, by whichever index leads to the fewest rows."""

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


@pytest.mark.parametrize(("of_others", "of_ada"), [(600, 3), (600, 700), (4_000, 600), (100, 700)])
async def test_sessions_of_one_name_are_told_apart_however_many_users_have_one(
    tmp_path: Path, of_others: int, of_ada: int
) -> None:
    """Reads go through the rows of the user or of the session, whichever are fewer."""

    def said(user: str, session: str, count: int) -> list[HumanMemory]:
        place = MemoryMetadata(user_id=user, session_id=session)
        return [HumanMemory(id=f"{user}-{session}-{number}", content="said", metadata=place) for number in range(count)]

    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([*said("ada", "main", of_ada), *said("ada", "other", 50), *said("bob", "main", of_others)])
        await store.delete("ada-main-0")
        ada = store.scoped(user_id="ada", session_id="main")

        assert await ada.count() == of_ada - 1
        assert await ada.count(include_deleted=True) == of_ada
        assert await ada.count(query="said") == of_ada - 1
        assert [item.id for item in await ada.window(limit=2)] == [f"ada-main-{of_ada - 2}", f"ada-main-{of_ada - 1}"]
        assert len(await ada.search(limit=10_000)) == of_ada - 1
