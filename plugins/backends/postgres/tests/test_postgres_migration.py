"""A later schema's migrations run once, in order and as a whole, when a store is opened to write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import SchemaTooNewError, StoreError
from memoranda_postgres import PostgresMemoryStore, schema
from memoranda_postgres.dialect import PostgresDialect

ADA = MemoryMetadata(user_id="ada")
VERSION = schema.schema_version()


def add_mood(dialect: PostgresDialect) -> list[str]:
    """Stand for the first migration: a new column, and an index that has to be created again."""
    return [
        f"ALTER TABLE {dialect.table} ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'",
        f"DROP INDEX {dialect.schema}.memory_items_time",
    ]


def rename_mood(dialect: PostgresDialect) -> list[str]:
    """Stand for the second one, which builds on the first."""
    return [f"ALTER TABLE {dialect.table} RENAME COLUMN mood TO temper"]


def fail(dialect: PostgresDialect) -> list[str]:
    """Stand for a migration that the server refuses."""
    return [f"ALTER TABLE {dialect.table} DROP COLUMN none"]


@pytest_asyncio.fixture(params=[0, pytest.param(2, marks=pytest.mark.rare("partitions"))])
async def old_url(url: str, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Give a database of the present schema with one item, as a later release would find it."""
    async with PostgresMemoryStore(url, partitions=request.param) as store:
        await store.add(HumanMemory(id="one", content="Green tea", metadata=ADA))
    yield url


async def fetch(url: str, text: str) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        rows: list[Any] = await connection.fetch(text)
    finally:
        await connection.close()
    return rows


async def test_migrations_run_in_order_and_the_items_stay(old_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_mood, rename_mood))
    async with PostgresMemoryStore(old_url) as store:
        assert [item.id for item in await store.search(query="GREEN", metadata=ADA)] == ["one"]
        await store.add(HumanMemory(id="two", content="Tea", metadata=ADA))
        assert all(finding.ok for finding in await store.doctor() if finding.name.startswith("index"))
    rows = await fetch(old_url, "SELECT id, temper FROM memory_items ORDER BY id")
    assert [tuple(row) for row in rows] == [("one", "calm"), ("two", "calm")]
    assert (await fetch(old_url, "SELECT version FROM memory_schema"))[0]["version"] == VERSION + 2


async def test_a_migration_runs_once_however_many_stores_open(old_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_mood))
    stores = [PostgresMemoryStore(old_url) for _ in range(6)]
    await asyncio.gather(*(store.init() for store in stores))
    assert [await store.count(metadata=ADA) for store in stores] == [1] * 6
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_migration_that_fails_changes_nothing(old_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_mood, fail))
        with pytest.raises(StoreError):
            await PostgresMemoryStore(old_url).init()
    async with PostgresMemoryStore(old_url) as store:
        assert await store.count(metadata=ADA) == 1
        assert all(finding.ok for finding in await store.doctor() if finding.name.startswith("index"))
    assert not await fetch(
        old_url, "SELECT FROM information_schema.columns WHERE table_name = 'memory_items' AND column_name = 'mood'"
    )


async def test_opening_to_read_does_not_migrate(old_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_mood))
    with pytest.raises(StoreError, match="earlier release"):
        await memoranda.open(old_url, access="read").init()
    assert (await fetch(old_url, "SELECT version FROM memory_schema"))[0]["version"] == VERSION


async def test_the_schema_of_a_later_release_is_refused(old_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_mood))
        async with PostgresMemoryStore(old_url):
            pass
    with pytest.raises(SchemaTooNewError):
        await PostgresMemoryStore(old_url).init()


async def test_a_database_of_the_schema_before_gets_the_index_that_it_lacks(old_url: str) -> None:
    connection = await asyncpg.connect(old_url)
    await connection.execute("DROP INDEX memory_items_staying")
    await connection.execute("UPDATE memory_schema SET version = 3")
    await connection.close()

    async with PostgresMemoryStore(old_url) as store:
        assert await store.count() == 1
        assert all(finding.ok for finding in await store.doctor())

    assert await fetch(old_url, "SELECT 1 FROM pg_indexes WHERE indexname = 'memory_items_staying'")
    assert [row["version"] for row in await fetch(old_url, "SELECT version FROM memory_schema")] == [VERSION]
