"""The index of terms exists where it is needed; a ranked search returns the same before, while and after filling."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import StoreError
from memoranda_backend.ranking import terms_fingerprint
from memoranda_postgres import PostgresMemoryStore, indexing, schema, scope_cache, text_search
from memoranda_postgres.dialect import PostgresDialect, PostgresStatements
from memoranda_postgres.server import Server, ServerOptions
from memoranda_postgres.text_search import TermIndex

ADA, BOB = MemoryMetadata(user_id="ada"), MemoryMetadata(user_id="bob")
COUNT = 2_400
WHOLE_SCOPE = 1_000
"""Half of it, one user's items, is more than a search ranks as a whole here."""

WORDS = [
    f"{first}{second}" for first in ("amber", "birch", "cedar", "delta") for second in ("", "wood", "stone", "leaf")
]
QUERIES = ("amberwood cedar", "deltaleaf", "birchstone amber cedarleaf", "zebras")

PROGRAM = """
import asyncio, os, signal, sys
from memoranda import HumanMemory
from memoranda_postgres import PostgresMemoryStore

async def main():
    store = PostgresMemoryStore(sys.argv[1])
    await store.init()
    await store.add_many([HumanMemory(content=f"tea {number}") for number in range(300)])
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


FILLING_PROGRAM = """
import asyncio, sys
from memoranda import HumanMemory
from memoranda_postgres import PostgresMemoryStore, indexing, text_search

indexing.REST, indexing.FILL_AT_REST, text_search.WHOLE_SCOPE = 0.0, 1, -1

async def main(url, name):
    async with PostgresMemoryStore(url) as store:
        for start in range(0, 300, 30):
            numbers = range(start, start + 30)
            await store.add_many([HumanMemory(id=f"{name} {at}", content=f"tea {at}") for at in numbers])
        while [finding for finding in await store.doctor() if finding.name == "terms" and "wait" in finding.detail]:
            await asyncio.sleep(0.02)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def scopes_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every database have an index, and searches use it for scopes of some size."""
    monkeypatch.setattr(text_search, "WHOLE_SCOPE", -1)
    monkeypatch.setattr(scope_cache, "WHOLE_SCOPE", WHOLE_SCOPE)


@pytest.fixture
def no_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the index to the test."""
    monkeypatch.setattr(indexing, "REST", 24 * 3600.0)


@pytest_asyncio.fixture
async def index(url: str) -> AsyncIterator[TermIndex]:
    """The index of terms, as a process of its own would fill it."""
    server = Server(ServerOptions(url, 0, 2, None, None, 20.0, 30.0))
    await server.open()
    yield TermIndex(server, PostgresStatements(PostgresDialect("public")))
    await server.close()


@pytest_asyncio.fixture(params=[0, pytest.param(2, marks=pytest.mark.rare("partitions"))])
async def store(
    url: str, no_background: None, index: TermIndex, request: pytest.FixtureRequest
) -> AsyncIterator[PostgresMemoryStore]:
    async with PostgresMemoryStore(url, partitions=request.param) as store:
        await index.create_if_needed()
        yield store


def made(number: int) -> HumanMemory:
    words = random.Random(number).choices(WORDS, k=6)
    return HumanMemory(id=f"{number:04}", content=" ".join(words), metadata=(ADA, BOB)[number % 2])


async def ranked(store: PostgresMemoryStore) -> list[list[tuple[str, float]]]:
    return [
        [(each.item.id, each.score) for each in await store.search_ranked(query=query, metadata=scope, mode="text")]
        for query in QUERIES
        for scope in (ADA, None)
    ]


async def waiting(store: PostgresMemoryStore) -> str:
    (finding,) = [finding for finding in await store.doctor() if finding.name == "terms"]
    assert finding.ok
    return finding.detail.removeprefix("made by this release").removeprefix("; ").partition(" items")[0]


async def filled(store: PostgresMemoryStore) -> None:
    """Wait until nothing is left to be indexed."""
    while await waiting(store):
        await asyncio.sleep(0.01)


async def fetch(url: str, text: str, *values: Any) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        rows: list[Any] = await connection.fetch(text, *values)
    finally:
        await connection.close()
    return rows


async def test_a_ranking_is_the_same_before_during_and_after_filling(
    store: PostgresMemoryStore, index: TermIndex, url: str
) -> None:
    await store.add_many([made(number) for number in range(COUNT)])
    await asyncio.gather(
        *(store.add(made(number).model_copy(update={"content": "two zebras"})) for number in range(0, COUNT, 200))
    )
    expected = await ranked(store)
    assert len(expected[-1]) == 10
    done = 0
    while some := await index.fill(500):
        done += some
        assert await ranked(store) == expected
    assert done == COUNT + COUNT // 200
    async with PostgresMemoryStore(url) as other:  # It has cached nothing.
        assert await ranked(other) == expected


async def test_an_indexed_item_that_changes_is_found_by_its_new_words_alone(
    store: PostgresMemoryStore, index: TermIndex
) -> None:
    await store.add_many([made(number) for number in range(COUNT)])
    await store.add(HumanMemory(id="x", content="a xylophone", metadata=ADA))
    while await index.fill(1_000):
        pass
    await store.add(HumanMemory(id="x", content="a zeppelin", metadata=ADA))
    for _ in range(2):
        for word, found in (("xylophone", []), ("zeppelin", ["x"])):
            best = await store.search_ranked(query=word, metadata=ADA, mode="text", limit=3)
            assert [each.item.id for each in best if each.item.id == "x"] == found
        await index.fill(10)


async def test_the_doctor_counts_what_waits(store: PostgresMemoryStore, index: TermIndex) -> None:
    assert await waiting(store) == ""
    await store.add_many([made(number) for number in range(1_100)])
    await store.add(made(1))
    assert await waiting(store) == "1,101"
    while await index.fill(500):
        pass
    assert await waiting(store) == ""


async def test_a_batch_that_fails_leaves_everything_to_the_next(
    store: PostgresMemoryStore, index: TermIndex, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add_many([made(number) for number in range(150)])

    async def fail(rows: Any) -> Any:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(text_search, "made_entries", fail)
        with pytest.raises(RuntimeError):
            await index.fill(500)
    assert await waiting(store) == "150"
    assert await index.fill(500) == 150
    assert len(await fetch(url, "SELECT FROM memory_terms")) == 150


async def test_a_batch_whose_connection_breaks_leaves_everything_to_the_next(
    store: PostgresMemoryStore, index: TermIndex, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add_many([made(number) for number in range(150)])
    make, broken = text_search.made_entries, []

    async def break_once(rows: Any) -> Any:
        if not broken:
            broken.append(True)
            await fetch(
                url,
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            )
        return await make(rows)

    monkeypatch.setattr(text_search, "made_entries", break_once)
    assert await index.fill(500) == 150
    assert broken
    assert len(await fetch(url, "SELECT FROM memory_terms")) == 150


async def test_what_a_killed_process_left_is_indexed_by_the_next_store(
    store: PostgresMemoryStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "REST", 0.0)
    killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", PROGRAM, url], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(await fetch(url, "SELECT unnest(items) FROM memory_unindexed")) == 300
    async with PostgresMemoryStore(url) as other:
        await filled(other)
    assert len(await fetch(url, "SELECT FROM memory_terms")) == 300


async def test_one_process_at_a_time_fills_the_index(store: PostgresMemoryStore, index: TermIndex, url: str) -> None:
    await store.add_many([made(number) for number in range(150)])
    other = await asyncpg.connect(url)
    async with other.transaction():
        await other.execute(f"SELECT pg_advisory_xact_lock({PostgresDialect('public').filling_lock})")
        assert await index.fill(500) is None
        assert await waiting(store) == "150"
    await other.close()
    assert await index.fill(500) == 150


async def test_stores_that_fill_at_the_same_time_index_everything_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "REST", 0.0)
    monkeypatch.setattr(indexing, "FILL_AT_REST", 1)
    stores = [PostgresMemoryStore(url) for _ in range(3)]
    for each in stores:
        await each.init()
    for start in range(0, 600, 100):
        await asyncio.gather(
            *(
                each.add_many([made(number) for number in range(start + at, start + 100, 3)])
                for at, each in enumerate(stores)
            )
        )
    await filled(stores[0])
    rows = await fetch(
        url, "SELECT item_version = version AS current FROM memory_terms FULL JOIN memory_items ON item = added"
    )
    assert [row["current"] for row in rows] == [True] * 600
    for each in stores:
        await each.close()


async def test_processes_that_fill_at_the_same_time_index_everything_once(store: PostgresMemoryStore, url: str) -> None:
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", FILLING_PROGRAM, url, name) for name in "ab"
    ]
    assert [await process.wait() for process in processes] == [0, 0]
    rows = await fetch(
        url, "SELECT item_version = version AS current FROM memory_terms FULL JOIN memory_items ON item = added"
    )
    assert [row["current"] for row in rows] == [True] * 600
    assert await waiting(store) == ""


async def test_a_purge_waits_for_a_batch_and_leaves_no_terms(
    store: PostgresMemoryStore, index: TermIndex, url: str
) -> None:
    await store.add_many([made(number) for number in range(150)])
    await index.fill(100)
    other = await asyncpg.connect(url)
    async with other.transaction():
        await other.execute(f"SELECT pg_advisory_xact_lock({PostgresDialect('public').filling_lock})")
        purge = asyncio.create_task(store.purge(metadata=ADA))
        while not await fetch(url, "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
            await asyncio.sleep(0.01)
    await other.close()
    assert await purge == 75
    while await index.fill(100):
        pass
    rows = await fetch(url, "SELECT user_id FROM memory_terms LEFT JOIN memory_items ON item = added")
    assert [row["user_id"] for row in rows] == ["bob"] * 75


async def test_a_store_that_may_only_read_fills_nothing(
    store: PostgresMemoryStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add_many([made(number) for number in range(150)])
    monkeypatch.setattr(indexing, "REST", 0.0)
    async with memoranda.open(url, access="read") as reader:
        assert await reader.search_ranked(query="amberwood", metadata=ADA, mode="text")
        await asyncio.sleep(0)
        assert await waiting(reader) == "150"


async def test_only_a_database_of_many_items_has_an_index(
    url: str, no_background: None, index: TermIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "WHOLE_SCOPE", 100)
    async with PostgresMemoryStore(url) as store:
        await store.add_many([made(number) for number in range(100)])
        await store.add_many([made(number) for number in range(100)])  # More numbers were drawn than items exist.
        assert not await index.create_if_needed()
        assert await waiting(store) == "no index; it is created for a database of more than 200,000"
        before = await ranked(store)
        await store.add(made(7).model_copy(update={"id": "one more"}))
        assert await index.create_if_needed()
        assert await waiting(store) == "101"
        await store.purge("one more")
        assert await ranked(store) == before
        await asyncio.gather(store.add(made(100)), store.update(await store.get("0001")), store.delete("0002"))
        while await index.fill(50):
            pass
        rows = await fetch(
            url, "SELECT item_version = version AS current FROM memory_terms FULL JOIN memory_items ON item = added"
        )
        assert [row["current"] for row in rows] == [True] * 101


async def test_a_large_scope_is_ranked_as_a_whole_until_there_is_an_index(
    url: str, no_background: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PostgresMemoryStore(url) as store:
        await store.add_many([made(number) for number in range(COUNT)])
        found = await ranked(store)
    monkeypatch.setattr(scope_cache, "WHOLE_SCOPE", COUNT)
    async with PostgresMemoryStore(url) as other:
        assert await ranked(other) == found


async def test_stores_that_create_the_index_at_the_same_time_create_one(
    url: str, no_background: None, index: TermIndex
) -> None:
    async with PostgresMemoryStore(url) as store:
        await store.add_many([made(number) for number in range(150)])
        found = await asyncio.gather(*(index.create_if_needed() for _ in range(2)), store.reindex(), store.add(made(0)))
        assert found == [True, True, 150, None]
        while await index.fill(50):
            pass
        assert len(await fetch(url, "SELECT FROM memory_terms")) == 150


async def test_an_index_is_not_created_while_a_write_goes_on_and_on(
    url: str, no_background: None, index: TermIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_WAIT_FOR_WRITES", "10ms")
    async with PostgresMemoryStore(url) as store:
        await store.add(made(1))
        other = await asyncpg.connect(url)
        async with other.transaction():
            await other.execute("UPDATE memory_items SET content = 'two zebras'")
            with pytest.raises(StoreError):
                await index.create_if_needed()
            assert not await index.exists()
        await other.close()
        assert await index.create_if_needed()
        assert await waiting(store) == "1"


async def test_reindexing_leaves_nothing_waiting(store: PostgresMemoryStore, url: str) -> None:
    await store.add_many([made(number) for number in range(150)])
    await fetch(url, "DELETE FROM memory_terms")
    assert await store.reindex() == 150
    assert await waiting(store) == ""
    assert len(await fetch(url, "SELECT FROM memory_terms")) == 150


async def test_a_store_makes_the_terms_of_an_earlier_release_anew_by_itself(
    url: str, index: TermIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PostgresMemoryStore(url) as store:
        await store.add_many([made(number) for number in range(COUNT)])
        await index.create_if_needed()
        while await index.fill(1_000):
            pass
        expected = await ranked(store)
    await fetch(url, "UPDATE memory_terms SET term_keys = '{1}'")
    await fetch(url, "UPDATE memory_schema SET terms = '0123456789abcdef'")
    monkeypatch.setattr(indexing, "REST", 0.0)
    monkeypatch.setattr(indexing, "LONG_BREATH", 0)
    async with PostgresMemoryStore(url) as store:
        while not all(finding.ok for finding in await store.doctor()):
            await asyncio.sleep(0.01)
        assert await ranked(store) == expected


async def test_a_database_of_the_first_schema_is_upgraded_in_place(
    url: str, no_background: None, index: TermIndex
) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(Path(__file__).with_name("schema_1.sql").read_text())
    await connection.execute("INSERT INTO memory_schema VALUES (1, 0, $1)", terms_fingerprint())
    rows = [(item.id, item.content, item.metadata.user_id) for item in map(made, range(COUNT))]
    await connection.executemany(
        "INSERT INTO memory_items (id, content, user_id, moment, created_at, memory_type, status, metadata, "
        "extra_json, term_keys) VALUES ($1, $2, $3, '2024-05-04', '2024-05-04T00:00:00.000000+00:00', 'human', "
        "'accepted', jsonb_build_object('user_id', $3::text), '{}', '{1}')",
        rows,
    )
    await connection.close()
    async with PostgresMemoryStore(url) as store:
        assert await store.count() == COUNT
        assert await index.create_if_needed()
        assert await waiting(store) == f"{COUNT:,}"
        expected = await ranked(store)
        assert all(expected[:-2])
        while await index.fill(1_000):
            pass
        assert await ranked(store) == expected
        assert all(finding.ok for finding in await store.doctor())
        found = await store.get("0007")
        assert found is not None
        assert (found.metadata, found.content) == (BOB, made(7).content)
        await store.add(found)
        assert all(finding.ok for finding in await store.doctor())
