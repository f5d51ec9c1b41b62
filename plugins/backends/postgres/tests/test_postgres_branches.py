"""Forked sessions in PostgreSQL: ranked like any other, read through indexes, and bounded for good."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store.backend import Filter, InBranch, Page
from memoranda_postgres import PostgresMemoryStore
from memoranda_postgres.dialect import PostgresDialect, PostgresStatements

ADA = MemoryMetadata(user_id="ada", session_id="s")


@pytest_asyncio.fixture(params=[None, 3], ids=["plain", "partitioned"])
async def store(request: Any, shared_url: str, schema: str) -> AsyncIterator[PostgresMemoryStore]:
    async with PostgresMemoryStore(shared_url, schema=schema, partitions=request.param) as store:
        yield store


@pytest.mark.rare
@pytest.mark.parametrize("size", [20, 1500])
async def test_a_ranking_of_a_branch_sees_its_past_and_no_more(store: PostgresMemoryStore, size: int) -> None:
    said = [HumanMemory(content=f"tea number {number}", metadata=ADA) for number in range(2 * size)]
    await store.add_many(said)
    branch = await store.fork("s", at=said[size].id)
    there = MemoryMetadata(user_id="ada", session_id=branch)
    await store.add(HumanMemory(content="tea of the branch", metadata=there))
    shared = {item.id for item in said[: size + 1]}

    ranked = await store.search(query=f"tea number {size}", metadata=there, mode="text", memory_type="human")
    beyond = await store.search(query=f"tea number {2 * size - 1}", metadata=there, mode="text", limit=50)
    own = await store.search(query="tea of the branch", metadata=there, mode="text")

    assert ranked[0].id == said[size].id
    assert {item.id for item in beyond if item.metadata.session_id == "s"} <= shared
    assert own[0].content == "tea of the branch"


async def test_places_outlive_the_store_and_what_was_purged(
    store: PostgresMemoryStore, shared_url: str, schema: str
) -> None:
    said = [HumanMemory(content=f"{number}", metadata=ADA) for number in range(6)]
    await store.add_many(said)
    branch = await store.fork("s", at=said[4].id)
    for number in (0, 4):
        await store.purge(said[number].id)
    connection = await asyncpg.connect(shared_url)
    await connection.execute(f"VACUUM FULL {PostgresDialect(schema).table}")
    await connection.close()

    async with PostgresMemoryStore(shared_url, schema=schema) as again:
        await again.add(HumanMemory(content="later", metadata=ADA, created_at="2001-01-01T00:00:00+00:00"))
        shown = await again.window(metadata=MemoryMetadata(user_id="ada", session_id=branch))

    assert [item.content for item in shown] == ["1", "2", "3"]


async def test_a_branch_is_read_through_indexes(store: PostgresMemoryStore, shared_url: str, schema: str) -> None:
    statements = PostgresStatements(PostgresDialect(schema))
    wanted = Filter(archived=None, further=(InBranch("branch-x", "ada", (("s", 10), ("t", 5)), False),))
    connection = await asyncpg.connect(shared_url)
    try:
        await connection.execute("SET enable_seqscan = off")

        async def plan(text: str, values: Any) -> str:
            rows = await connection.fetch(f"EXPLAIN {text}", *values)
            return "\n".join(row[0] for row in rows)

        assert "Seq Scan" not in await plan(*statements.search(wanted, Page(20, order="added")))
    finally:
        await connection.close()
