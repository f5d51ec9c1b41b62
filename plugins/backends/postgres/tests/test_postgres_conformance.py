"""The conformance kit on a plain table and with vectors; on the other servers and set-ups it is sampled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, ClassVar

import asyncpg
import pytest
import pytest_asyncio

from memoranda_backend.ranking import HashingEmbeddings
from memoranda_postgres import PostgresMemoryStore
from memoranda_testing import StoreConformance

Reopen = Callable[[], Awaitable[PostgresMemoryStore]]


# The kit asks whether answers are right, and not how soon they come.
PATIENT: dict[str, Any] = {"timeout": 240, "connect_timeout": 240}


class OnEveryServer(StoreConformance):
    options: ClassVar[dict[str, Any]] = {}

    @pytest_asyncio.fixture
    async def store(self, shared_url: str, schema: str) -> AsyncIterator[PostgresMemoryStore]:
        async with PostgresMemoryStore(shared_url, schema=schema, **{**PATIENT, **self.options}) as store:
            yield store

    @pytest.fixture
    def reopen(self, shared_url: str, schema: str) -> Reopen:
        async def reopen() -> PostgresMemoryStore:
            return PostgresMemoryStore(shared_url, schema=schema, **{**PATIENT, **self.options})

        return reopen


class OnTheWheelsServer(StoreConformance):
    """The wheel's server has pgvector."""

    options: ClassVar[dict[str, Any]] = {}

    @pytest_asyncio.fixture
    async def store(self, wheel_url: str, wheel_schema: str) -> AsyncIterator[PostgresMemoryStore]:
        async with PostgresMemoryStore(wheel_url, schema=wheel_schema, **{**PATIENT, **self.options}) as store:
            yield store

    @pytest.fixture
    def reopen(self, wheel_url: str, wheel_schema: str) -> Reopen:
        async def reopen() -> PostgresMemoryStore:
            return PostgresMemoryStore(wheel_url, schema=wheel_schema, **{**PATIENT, **self.options})

        return reopen


class TestPlainTable(OnEveryServer):
    """As most people use it."""


@pytest.mark.rare("partitions")
class TestPartitionedTable(OnEveryServer):
    options: ClassVar[dict[str, Any]] = {"partitions": 4}


@pytest.mark.rare("no prepared statements")
class TestWithoutPreparedStatements(OnTheWheelsServer):
    options: ClassVar[dict[str, Any]] = {"statement_cache_size": 0, "max_size": 3}


@pytest.mark.rare("vectors")
class TestWithVectors(OnTheWheelsServer):
    options: ClassVar[dict[str, Any]] = {"embeddings": HashingEmbeddings(64)}


@pytest.mark.rare("partitions with vectors")
class TestPartitionedWithVectors(OnTheWheelsServer):
    options: ClassVar[dict[str, Any]] = {"embeddings": HashingEmbeddings(64), "partitions": 3}


@pytest.mark.rare("given pool")
class TestGivenPool(StoreConformance):
    any_loop = False

    @pytest_asyncio.fixture
    async def pool(self, wheel_url: str) -> AsyncIterator[Any]:
        async with asyncpg.create_pool(wheel_url, min_size=1, max_size=4) as pool:
            yield pool

    @pytest_asyncio.fixture
    async def store(self, pool: Any, wheel_schema: str) -> AsyncIterator[PostgresMemoryStore]:
        async with PostgresMemoryStore(pool=pool, schema=wheel_schema) as store:
            yield store

    @pytest.fixture
    def reopen(self, pool: Any, wheel_schema: str) -> Reopen:
        async def reopen() -> PostgresMemoryStore:
            return PostgresMemoryStore(pool=pool, schema=wheel_schema)

        return reopen
