"""A scope of 100,000 items is ranked alike on every engine, also where only a date or a neighbour finds an item."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from memoranda import Store
from memoranda.store import InMemoryStore
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_postgres import PostgresMemoryStore
from memoranda_redis.store import RedisMemoryStore
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_testing.cases.ranked import TextRankingCases
from memoranda_vector import VectorMemoryStore
from servers import postgres_server, redis_server

ENGINES = ["memory", "sqlite", "vector", "postgres", "redis"]


@asynccontextmanager
async def opened(engine: str, folder: Path) -> AsyncIterator[Store]:
    """Yield an empty store of this kind."""
    if engine == "memory":
        yield InMemoryStore()
    elif engine == "sqlite":
        async with SQLiteMemoryStore(folder / "large.db", durability="normal") as sqlite:
            yield sqlite
    elif engine == "vector":
        async with VectorMemoryStore(HashingEmbeddings(dimension=32)) as vector:
            yield vector
    elif engine == "postgres":
        with postgres_server() as server, server.database() as url:
            async with PostgresMemoryStore(url, timeout=240) as postgres:
                yield postgres
    else:
        with redis_server() as redis:
            async with RedisMemoryStore(redis.url, namespace=uuid.uuid4().hex) as store:
                yield store


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_very_large_scope_is_ranked_alike(engine: str, tmp_path: Path) -> None:
    """A hundred thousand items are ranked as in memory, where the needles among them are found."""
    cases = TextRankingCases()
    cases.thorough = True
    async with opened(engine, tmp_path) as store:
        await cases.test_a_large_scope_is_ranked_as_in_memory(store)
