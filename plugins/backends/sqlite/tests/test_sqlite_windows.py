"""Windows and counts of a session: in the event loop or a thread, by whichever index leads to the fewest rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from noted_reads import NotesReads, NotesSingleReads

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory, SystemMemory
from memoranda.store.backend import Filter, Page, items_where
from memoranda.store.layers import add_layer
from memoranda_sqlite import SQLiteMemoryStore

SESSION = MemoryMetadata(user_id="ada", session_id="s")
START = 1_714_557_600.0
BOUNDS: list[dict[str, Any]] = [
    {"rounds": 2},
    {"limit": 20},
    {"limit": 3, "where": {"content": {"$ne": "said 3"}}},
    {"rounds": 1, "min_trust": "agent"},
]


def history(chance: Random, staying: int) -> list[MemoryItem]:
    """Items of several users and sessions, as after a clock was set back; some archived, some to expire."""
    classes = [SystemMemory, SummaryMemory] * staying + [HumanMemory, AIMemory] * 45
    chance.shuffle(classes)
    items: list[MemoryItem] = []
    for number, cls in enumerate(classes):
        owner = MemoryMetadata(
            user_id="ada" if chance.random() < 0.95 else "bob", session_id="s" if chance.random() < 0.95 else "t"
        )
        item = cls(id=f"{number}", content=f"said {number}", metadata=owner)
        if chance.random() < 0.1:
            item.created_at = f"2020-01-01T00:00:{chance.randrange(60):02d}"
        if chance.random() < 0.05:
            item.archived_by = "a summary"
        if chance.random() < 0.05:
            item.expires_at = "2024-05-01T10:00:30+00:00"
        items.append(item)
    return items


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("staying", [0, 6, 100, 225])
async def test_what_stays_is_the_same_in_one_read_or_in_two(tmp_path: Path, staying: int, in_memory: bool) -> None:
    chance = Random(staying)
    items = history(chance, staying)
    deleted = chance.sample([item.id for item in items], 5)
    async with (
        SQLiteMemoryStore(":memory:" if in_memory else tmp_path / "a.db") as at_once,
        SQLiteMemoryStore(tmp_path / "b.db") as apart,
    ):
        single, double = add_layer(at_once, NotesSingleReads), add_layer(apart, NotesReads)
        branches = []
        for store in (at_once, apart):
            store.clock = lambda: START
            await store.add_many(items)
            for item_id in deleted:
                await store.delete(item_id)
            earlier = await store.window(metadata=SESSION)
            branch = await store.scoped(user_id="ada").fork("s", at=earlier[len(earlier) // 2].id)
            branches.append(MemoryMetadata(user_id="ada", session_id=branch))
            store.clock = lambda: START + 60

        of_both = [(named, named) for named in (SESSION, MemoryMetadata(user_id="ada"), None)]
        for one, other in (*of_both, (branches[0], branches[1])):
            for bounds in BOUNDS:
                shown = await at_once.window(metadata=one, **bounds)
                expected = await apart.window(metadata=other, **bounds)
                assert [item.id for item in shown] == [item.id for item in expected]
        assert any(query.staying for query in single.queries)
        assert not any(query.staying for query in double.queries)


async def test_a_window_of_a_session_is_one_read(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        layer = add_layer(store, NotesSingleReads)
        await store.add(SystemMemory(content="be kind", metadata=SESSION))
        await store.add_many([HumanMemory(content=f"said {number}", metadata=SESSION) for number in range(40)])
        layer.queries.clear()

        shown = await store.window(metadata=SESSION, limit=3)

        assert [item.content for item in shown] == ["be kind", "said 38", "said 39"]
        assert len(layer.queries) == 1


@pytest.mark.parametrize("unreadable", [{"rule 1"}, {f"said {number}" for number in range(32, 39)}])
async def test_what_is_unreadable_is_missing_from_a_window_and_nothing_else(
    tmp_path: Path, unreadable: set[str]
) -> None:
    contents = [*(f"rule {number}" for number in range(3)), *(f"said {number}" for number in range(40))]
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        for content in contents:
            cls = SystemMemory if content.startswith("rule") else HumanMemory
            await store.add(cls(content=content, metadata=SESSION))
        with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
            for content in unreadable:
                connection.execute("UPDATE memory_items SET status = 'unheard of' WHERE content = ?", (content,))

        shown = await store.window(metadata=SESSION, limit=6)

        rules, said = ([each for each in part if each not in unreadable] for part in (contents[:3], contents[3:]))
        assert [item.content for item in shown] == [*rules, *said[len(rules) - 6 :]]


@pytest.mark.parametrize("query", ["", "a"])
@pytest.mark.parametrize("archived", [None, False, True])
async def test_a_page_has_what_stays_behind_it(tmp_path: Path, archived: bool | None, query: str) -> None:
    items: list[MemoryItem] = []
    for number in range(60):
        cls = HumanMemory if number % 5 else SystemMemory
        by = "a summary" if number % 3 else None
        items.append(cls(content="abc"[number % 2 :], metadata=SESSION, archived_by=by))
    wanted = Filter(query, SESSION, archived=archived)
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many(items)

        found = await store.engine.read(items_where(wanted, Page(4, order="added"), staying=True))

    matching = [item for item in items[::-1] if wanted.matches(item)]
    expected = [*matching[:4], *(item for item in matching[4:] if item.memory_type == "system")]
    assert [item.id for item in found] == [item.id for item in expected]


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
