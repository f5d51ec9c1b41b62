"""Forked sessions in PostgreSQL: ranked like any other, passed on as they are, and found by their parent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Filter, InBranch, Page
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


async def test_what_is_passed_on_keeps_its_version_and_everything_else(store: PostgresMemoryStore) -> None:
    extra = {"long": 1, "a": [1.0, -0.0, 10**20], "session_id": "s", "q": '"session_id":"s"'}
    metadata = MemoryMetadata(user_id='","session_id":"u\\', session_id='s"\\1\\', extra=extra, namespace=("a", "b"))
    item = HumanMemory(content="tea", metadata=metadata)
    await store.add(item)
    await store.add(item)
    branch = await store.fork('s"\\1\\', at=item.id)

    await store.clear(metadata=MemoryMetadata(session_id=metadata.session_id))

    found = await store.get(item.id)
    assert found is not None
    assert found.metadata == metadata.model_copy(update={"session_id": branch})
    assert (found.version, repr(found.metadata.extra)) == (2, repr(extra))
    assert [shown.id for shown in await store.window(metadata=MemoryMetadata(session_id=branch))] == [item.id]


async def test_a_branch_and_the_branches_of_a_session_are_found_by_indexes(
    store: PostgresMemoryStore, shared_url: str, schema: str
) -> None:
    statements = PostgresStatements(PostgresDialect(schema))
    wanted = Filter(archived=None, further=(InBranch("branch-x", "ada", (("s", 10), ("t", 5)), False),))
    connection = await asyncpg.connect(shared_url)
    try:
        await connection.execute("SET enable_seqscan = off")

        async def plan(text: str, values: Any) -> str:
            rows = await connection.fetch(f"EXPLAIN {text}", *values)
            return "\n".join(row[0] for row in rows)

        assert "Seq Scan" not in await plan(*statements.search(wanted, Page(20, order="added")))
        assert "Seq Scan" not in await plan(*statements.branches_of("s"))
    finally:
        await connection.close()
