"""The conformance kit, on every kind of server and every way of setting the store up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, ClassVar

import asyncpg
import pytest
import pytest_asyncio

from recollect.embeddings import HashingEmbeddings
from recollect.testing import StoreConformance
from recollect_postgres import PostgresMemoryStore

Reopen = Callable[[], Awaitable[PostgresMemoryStore]]


class PostgresConformance(StoreConformance):
    options: ClassVar[dict[str, Any]] = {}

    @pytest_asyncio.fixture
    async def store(self, shared_url: str, schema: str) -> AsyncIterator[PostgresMemoryStore]:
        async with PostgresMemoryStore(shared_url, schema=schema, **self.options) as store:
            yield store

    @pytest.fixture
    def reopen(self, shared_url: str, schema: str) -> Reopen:
        async def reopen() -> PostgresMemoryStore:
            return PostgresMemoryStore(shared_url, schema=schema, **self.options)

        return reopen


class TestPlainTable(PostgresConformance):
    """As most people use it."""


class TestPartitionedTable(PostgresConformance):
    options: ClassVar[dict[str, Any]] = {"partitions": 4}


class TestWithoutPreparedStatements(PostgresConformance):
    options: ClassVar[dict[str, Any]] = {"statement_cache_size": 0, "max_size": 3}


class TestGivenPool(StoreConformance):
    @pytest_asyncio.fixture
    async def pool(self, shared_url: str) -> AsyncIterator[Any]:
        async with asyncpg.create_pool(shared_url, min_size=1, max_size=4) as pool:
            yield pool

    @pytest_asyncio.fixture
    async def store(self, pool: Any, schema: str) -> AsyncIterator[PostgresMemoryStore]:
        async with PostgresMemoryStore(pool=pool, schema=schema) as store:
            yield store

    @pytest.fixture
    def reopen(self, pool: Any, schema: str) -> Reopen:
        async def reopen() -> PostgresMemoryStore:
            return PostgresMemoryStore(pool=pool, schema=schema)

        return reopen


class VectorConformance(StoreConformance):
    """pgvector comes with the wheel's server."""

    options: ClassVar[dict[str, Any]] = {}

    @pytest_asyncio.fixture
    async def store(self, wheel_url: str, wheel_schema: str) -> AsyncIterator[PostgresMemoryStore]:
        async with self.made(wheel_url, wheel_schema) as store:
            yield store

    @pytest.fixture
    def reopen(self, wheel_url: str, wheel_schema: str) -> Reopen:
        async def reopen() -> PostgresMemoryStore:
            return self.made(wheel_url, wheel_schema)

        return reopen

    def made(self, url: str, schema: str) -> PostgresMemoryStore:
        return PostgresMemoryStore(url, schema=schema, embeddings=HashingEmbeddings(64), **self.options)


class TestWithVectors(VectorConformance):
    """Items and vectors in two tables."""


class TestPartitionedWithVectors(VectorConformance):
    options: ClassVar[dict[str, Any]] = {"partitions": 3}
