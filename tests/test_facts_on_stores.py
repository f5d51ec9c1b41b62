"""Facts do what they promise on every store, and leave nothing behind when their sources are purged."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
import redis.asyncio

import memoranda
from facts_kit import FactsConformance
from memoranda import HumanMemory
from memoranda.store import Store
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_facts import Facts, Source
from memoranda_postgres import PostgresMemoryStore
from memoranda_redis import RedisMemoryStore
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_userdata import erase
from memoranda_vector import VectorMemoryStore
from servers import postgres_server, redis_server

CANARY = "zyzzogeton"


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server())
        yield {
            "postgresql": stack.enter_context(postgres.database()),
            "redis": stack.enter_context(redis_server()).url,
        }


class TestFactsOnSQLite(FactsConformance):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        async with SQLiteMemoryStore(tmp_path / "facts.db") as store:
            yield store


class TestFactsOnPostgres(FactsConformance):
    exclusive = False

    @pytest_asyncio.fixture
    async def store(self, servers: dict[str, str]) -> AsyncIterator[Store]:
        async with PostgresMemoryStore(servers["postgresql"]) as store:
            yield store


@pytest.mark.rare("on redis", one_in=8)
class TestFactsOnRedis(FactsConformance):
    @pytest_asyncio.fixture
    async def store(self, servers: dict[str, str]) -> AsyncIterator[Store]:
        async with RedisMemoryStore(servers["redis"], namespace=uuid.uuid4().hex) as store:
            yield store


@pytest.mark.rare("on vector", one_in=8)
class TestFactsOnVectors(FactsConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with VectorMemoryStore(HashingEmbeddings(64)) as store:
            yield store


async def plant(store: Store) -> tuple[Facts, HumanMemory]:
    """Add an item with the canary, facts from it in every role, and undo some of them; return the item."""
    handle = store.scoped(user_id="ada")
    facts = Facts(handle)
    item = HumanMemory(content=f"My {CANARY} is called {CANARY}.")
    await handle.add(item)
    first = await facts.set("Ada", "owns", CANARY, sources=[item], qualifiers={"kind": CANARY})
    await facts.set(CANARY, f"is {CANARY}", "green", sources=[Source(first.entries[0])])
    await facts.undo(await facts.set(CANARY, "eats", "leaves", sources=[item]))
    (pet,) = await facts.current("Ada", "owns")
    await facts.confirm(pet, sources=[item])
    await facts.set("Ada", "likes", "tea", sources="manual")
    await facts.search(f"Who owns {CANARY}?")
    return facts, item


async def traces(url: str) -> list[str]:
    """Return where a server still has the canary."""
    if url.startswith("redis"):
        client = redis.asyncio.from_url(url)
        try:
            keys = [key async for key in client.scan_iter()]
            held = [key + (await client.dump(key) or b"") for key in keys]
        finally:
            await client.aclose()
        return [str(each) for each in held if CANARY.encode() in each]
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("SELECT oid::regclass::text AS name FROM pg_class WHERE relkind = 'r' "
                                        "AND relnamespace NOT IN ('pg_catalog'::regnamespace)")  # fmt: skip
        queries = [f"SELECT t::text AS row FROM {table['name']} t" for table in tables]
        rows = [row["row"] for query in queries for row in await connection.fetch(query)]
    finally:
        await connection.close()
    return [row for row in rows if CANARY in row]


@pytest.mark.parametrize("way", ["purge", "erase"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "redis"])
async def test_a_purged_word_is_nowhere(kind: str, way: str, servers: dict[str, str], tmp_path: Path) -> None:
    """Neither the item, nor its facts, nor what was made from them, nor any index is left."""
    url = servers.get(kind, f"sqlite:///{tmp_path / 'facts.db'}")
    async with memoranda.open(url) as store:
        facts, item = await plant(store)
        if way == "purge":
            await store.purge(item.id)
        else:
            await erase(store.scoped(user_id="ada"), [item.id])
        assert [str(fact.object) for fact in await facts.current()] == ["tea"]
        assert await facts.search(CANARY) == []
        if isinstance(store, SQLiteMemoryStore):
            await store.erase()
        else:
            assert await traces(url) == []
            await store.purge(metadata=memoranda.MemoryMetadata(user_id="ada"))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files if CANARY.encode() in path.read_bytes()] == []


async def test_a_purged_word_is_in_no_vector_index() -> None:
    async with VectorMemoryStore(HashingEmbeddings(64)) as store:
        facts, item = await plant(store)
        await store.purge(item.id)
        assert [str(fact.object) for fact in await facts.current()] == ["tea"]
        assert await store.search(query=CANARY, mode="semantic", archived=None, min_score=0.5) == []
        left = [each async for each in store.scan(include_deleted=True)]
        assert CANARY not in "".join(each.model_dump_json() for each in left)
