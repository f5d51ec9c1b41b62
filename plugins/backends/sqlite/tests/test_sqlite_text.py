"""Substring and ranked search: right at every moment, whatever the indexes hold."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import InMemoryStore
from memoranda_backend.ranking import Weights
from memoranda_sqlite import SQLiteMemoryStore, text_index

MANY = 1_000
"""A limit that no read in the event loop is tried with, so that the indexes are asked."""

letters = st.sampled_from("aAbBßẞſsSİiıIжЖΣσςﬁK %_\\\"'*:-ÅÅé😀東京\n")
texts = st.text(letters, max_size=12)


@pytest.mark.rare
@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(
    before=st.lists(texts, max_size=8),
    replaced=st.lists(texts, max_size=4),
    after=st.lists(texts, max_size=4),
    queries=st.lists(st.text(letters, min_size=1, max_size=6), min_size=1, max_size=6),
)
def test_substrings_are_found_as_case_folding_has_them(
    before: list[str], replaced: list[str], after: list[str], queries: list[str]
) -> None:
    """Some rows are in the index, some have changed since, some wait for it."""

    async def run() -> None:
        async with SQLiteMemoryStore() as store:
            contents = {f"id-{number}": text for number, text in enumerate(before)}
            await store.add_many([HumanMemory(id=key, content=text) for key, text in contents.items()])
            await store.fill_indexes()
            for changes in (
                {f"id-{number}": text for number, text in enumerate(replaced)},
                {f"new-{number}": text for number, text in enumerate(after)},
            ):
                await store.add_many([HumanMemory(id=key, content=text) for key, text in changes.items()])
                contents.update(changes)
            parts = [text[1:5] for text in contents.values() if len(text) > 4]
            for query in (*queries, *parts):
                wanted = {key for key, text in contents.items() if query.casefold() in text.casefold()}
                assert {item.id for item in await store.search(query=query, limit=MANY)} == wanted
            await store.fill_indexes()
            for query in (*queries, *parts):
                wanted = {key for key, text in contents.items() if query.casefold() in text.casefold()}
                assert {item.id for item in await store.search(query=query, limit=MANY)} == wanted

    asyncio.run(run())


@pytest.mark.rare
async def test_without_trigrams_the_answer_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SQLite without FTS5 cannot be had here, so the store is told that this one is such."""
    items = [HumanMemory(content=f"Straße {n} nach {'Süden' if n % 7 else 'NORDEN'}") for n in range(400)]
    queries = ["STRASSE 3", "norden", "süd", "ß", "7 n", "zzz", "%"]
    answers = []
    for name in ("with", "without"):
        if name == "without":
            monkeypatch.setattr(text_index, "create", lambda connection: False)
            monkeypatch.setattr(text_index, "available", lambda connection: False)
        async with SQLiteMemoryStore(tmp_path / name) as store:
            await store.add_many(items)
            await store.fill_indexes()
            searches = [store.search(query=query, limit=limit) for query in queries for limit in (5, MANY)]
            searches.append(store.search(query="nach Norden", mode="text", limit=20))
            found = [[item.id for item in await search] for search in searches]
            assert await store.purge(items[0].id) == 1
            answers.append(found)
    assert answers[0] == answers[1]


async def test_a_file_without_indexes_gets_them_when_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(text_index, "create", lambda connection: False)
        patched.setattr(text_index, "available", lambda connection: False)
        async with SQLiteMemoryStore(tmp_path / "a.db") as store:
            await store.add_many([HumanMemory(content=f"tea number {number}") for number in range(50)])
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        assert len(await store.search(query="number 7", limit=MANY)) == 1
        await store.fill_indexes()
        assert len(await store.search(query="number 7", limit=MANY)) == 1


async def test_what_other_programs_write_is_found_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add_many([HumanMemory(id=f"id-{number}", content=f"green tea {number}") for number in range(300)])
        await store.fill_indexes()
        connection = sqlite3.connect(path)
        connection.execute("UPDATE memory_items SET content = 'black coffee' WHERE id = 'id-7'")
        connection.execute("DELETE FROM memory_items WHERE id = 'id-299'")
        connection.execute(
            "INSERT INTO memory_items (id, content, memory_type, status, metadata, extra_json, created_at, updated_at) "
            "SELECT 'other', 'herbal infusion', memory_type, status, metadata, extra_json, created_at, updated_at "
            "FROM memory_items WHERE id = 'id-1'"
        )
        connection.commit()
        connection.close()
        for _ in range(2):
            assert [item.id for item in await store.search(query="COFFEE", limit=MANY)] == ["id-7"]
            assert [item.id for item in await store.search(query="infusion", limit=MANY)] == ["other"]
            assert len(await store.search(query="green tea", limit=MANY)) == 298
            assert [item.id for item in await store.search(query="coffee", mode="text", limit=1)] == ["id-7"]
            await store.fill_indexes()


async def test_a_reused_row_number_does_not_confuse_the_index(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(id=f"id-{number}", content=f"green tea {number}") for number in range(5)])
        await store.fill_indexes()
        await store.purge("id-4")
        await store.add(HumanMemory(id="new", content="black coffee"))
        assert [item.id for item in await store.search(query="coffee", limit=MANY)] == ["new"]
        assert await store.search(query="tea 4", limit=MANY) == []
        await store.fill_indexes()
        assert [item.id for item in await store.search(query="coffee", limit=MANY)] == ["new"]


@pytest.mark.rare
async def test_rare_and_common_text_come_newest_first(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        items = [HumanMemory(id=f"{n:05}", content=f"common {'rare' if n % 1_000 == 5 else n}") for n in range(5_000)]
        await store.add_many(items)
        for _ in range(2):
            assert [item.id for item in await store.search(query="COMMON", limit=3)] == ["04999", "04998", "04997"]
            assert [item.id for item in await store.search(query="Rare", limit=3)] == ["04005", "03005", "02005"]
            assert len(await store.search(query="common", limit=10_000)) == 5_000
            await store.fill_indexes()


@pytest.mark.parametrize("many", [60, 1_500], ids=["a small scope", "a large scope"])
async def test_ranked_search_finds_the_best_whatever_is_indexed(tmp_path: Path, many: int) -> None:
    """New, replaced and removed items count at once, in a scope that is read whole and in one that is not."""
    scope = MemoryMetadata(user_id="ada")
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        sessions = [MemoryMetadata(user_id="ada", session_id=str(n // 20)) for n in range(many)]
        await store.add_many([HumanMemory(content="a turn about walks", metadata=session) for session in sessions])
        await store.add_many(
            [HumanMemory(content="the violin of Bob", metadata=MemoryMetadata(user_id="bob")) for _ in range(50)]
        )
        await store.add(HumanMemory(id="old", content="she plays the violin", metadata=scope))
        await store.fill_indexes()

        async def best(query: str) -> list[str]:
            return [item.id for item in await store.search(query=query, metadata=scope, mode="text", limit=1)]

        assert await best("Who plays violins?") == ["old"]
        await store.add(HumanMemory(id="new", content="a trombone was bought", metadata=scope))
        assert await best("buying a trombone") == ["new"]
        await store.add(HumanMemory(id="old", content="she prefers the oboe", metadata=scope))
        assert await best("oboe") == ["old"]
        assert await best("violin") == []
        await store.delete("new")
        assert await best("trombone") == []


async def test_a_large_scope_ranks_nearly_as_if_it_were_read_whole(tmp_path: Path) -> None:
    topics = ["garden roses", "marathon training", "chess openings", "sourdough bread", "jazz piano", "alpine hiking"]
    items = [
        HumanMemory(
            id=f"{n:05}",
            content=f"{topics[n % 6]} again, day {n}" if n % 11 == 0 else f"small talk number {n}, nothing else",
            metadata=MemoryMetadata(user_id="ada", session_id=str(n // 30)),
        )
        for n in range(2_400)
    ]
    scope = MemoryMetadata(user_id="ada")
    reference = InMemoryStore()
    await reference.add_many(items)
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many(items)
        for query in ("training for the marathon", "which bread did she bake", "chess"):
            wanted = await reference.search(query=query, metadata=scope, mode="text", limit=20)
            found = await store.search(query=query, metadata=scope, mode="text", limit=20)
            assert len({item.id for item in found} & {item.id for item in wanted}) >= 16


async def test_dates_in_a_question_are_candidates(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many(
            [HumanMemory(content=f"note {n}", created_at=f"2023-01-{n % 28 + 1:02}T10:00:00Z") for n in range(1_200)]
        )
        await store.add(HumanMemory(id="that day", content="we met at the station", created_at="2022-05-08T10:00:00Z"))
        (found,) = await store.search(query="What happened on 8 May 2022?", mode="text", limit=1)
        assert found.id == "that day"


async def test_weights_change_the_ranking(tmp_path: Path) -> None:
    items = [
        HumanMemory(id="question", content="Do you like ginger?", created_at="2024-01-01T10:00:00Z"),
        HumanMemory(id="answer", content="Yes, a lot.", created_at="2024-01-01T10:00:30Z"),
    ]
    found = {}
    for name, weights in (("neighbours", None), ("alone", Weights(before=0, after=0, session=0))):
        async with SQLiteMemoryStore(tmp_path / name, weights=weights) as store:
            await store.add_many(items)
            found[name] = {item.id for item in await store.search(query="ginger", mode="text")}
    assert found == {"neighbours": {"question", "answer"}, "alone": {"question"}}


async def test_a_vacuum_by_another_program_does_no_harm(tmp_path: Path) -> None:
    """SQLite may give rows new numbers then; the indexes and the order of equal times must not suffer."""
    path = tmp_path / "a.db"
    items = [HumanMemory(id=f"id-{n}", content=f"tea number {n} end", created_at="2024-01-01") for n in range(400)]
    async with SQLiteMemoryStore(path) as store:
        await store.add_many(items)
        await store.fill_indexes()
        for number in range(0, 400, 3):
            await store.delete(f"id-{number}")
        assert await store.purge(deleted_only=True) == 134
    connection = sqlite3.connect(path)
    connection.execute("VACUUM")
    connection.close()
    async with SQLiteMemoryStore(path) as store:
        left = [f"id-{number}" for number in range(399, -1, -1) if number % 3]
        assert [item.id for item in await store.search(limit=MANY)] == left
        for number in range(1, 400, 40):
            wanted = [f"id-{number}"] if number % 3 else []
            assert [item.id for item in await store.search(query=f"NUMBER {number} END", limit=MANY)] == wanted
            ranked = await store.search(query=f"number {number}", mode="text", limit=1)
            assert not wanted or [item.id for item in ranked] == wanted
