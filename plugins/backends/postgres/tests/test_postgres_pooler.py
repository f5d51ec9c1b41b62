"""Behind PgBouncer in transaction mode: each transaction may be done by another server process than the one before."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, ClassVar

import asyncpg
import pytest
import pytest_asyncio

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import StoreError, StoreUnavailableError
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_postgres import PostgresMemoryStore
from memoranda_postgres.pooler import Pooler, look_for_pooler, pooler_finding
from memoranda_testing import StoreConformance
from servers import MissingServerError, PgBouncer, pgbouncer

Reopen = Callable[[], Awaitable[PostgresMemoryStore]]


@pytest.fixture(scope="module")
def pooler(wheel: Any) -> Iterator[PgBouncer]:
    """A PgBouncer that keeps no prepared statements: a release before 1.21 cannot, a later one is told not to."""
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(pgbouncer(wheel.url))
        except MissingServerError as missing:
            pytest.skip(str(missing))
        if running.version >= (1, 21):
            running = stack.enter_context(pgbouncer(wheel.url, settings={"max_prepared_statements": "0"}))
        yield running


@pytest.fixture(scope="module")
def pooled_url(pooler: PgBouncer) -> Iterator[str]:
    with pooler.database() as url:
        yield url


class BehindPgBouncer(StoreConformance):
    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture
    def schema(self, request: pytest.FixtureRequest) -> str:
        return f"pooled {abs(hash(request.node.nodeid))}"

    @pytest_asyncio.fixture
    async def store(self, pooled_url: str, schema: str) -> AsyncIterator[PostgresMemoryStore]:
        async with PostgresMemoryStore(pooled_url, schema=schema, **self.options) as store:
            yield store

    @pytest.fixture
    def reopen(self, pooled_url: str, schema: str) -> Reopen:
        async def reopen() -> PostgresMemoryStore:
            return PostgresMemoryStore(pooled_url, schema=schema, **self.options)

        return reopen


@pytest.mark.rare("pgbouncer", one_in=80)
class TestBehindPgBouncer(BehindPgBouncer):
    """As somebody opens it who does not know that there is a pooler."""


@pytest.mark.rare("pgbouncer with partitions and vectors", one_in=80)
class TestPartitionsAndVectorsBehindPgBouncer(BehindPgBouncer):
    options: ClassVar[dict[str, Any]] = {"partitions": 3, "embeddings": HashingEmbeddings(32)}


async def finding(store: PostgresMemoryStore, name: str) -> Any:
    return next(found for found in await store.doctor() if found.name == name)


async def busy(store: PostgresMemoryStore) -> int:
    """Make many calls at once, so that transactions change their server processes all the time."""

    async def one(number: int) -> None:
        scope = MemoryMetadata(user_id=f"u{number}")
        for turn in range(10):
            await store.add(HumanMemory(content=f"turn {turn}", metadata=scope))
            await store.search(metadata=scope)
            await store.search(query="turn", metadata=scope)
            await store.count(metadata=scope)

    await asyncio.gather(*map(one, range(12)))
    return await store.count()


async def test_a_pooler_that_keeps_no_prepared_statements_is_noticed(pooler: PgBouncer) -> None:
    with pooler.database() as url:
        async with PostgresMemoryStore(url) as store:
            assert await busy(store) == 120
            found = await finding(store, "pooler")
            assert found.ok
            assert "does not keep prepared statements" in found.detail


async def test_the_server_itself_is_not_taken_for_a_pooler(url: str) -> None:
    async with PostgresMemoryStore(url) as store:
        found = await finding(store, "pooler")
        assert found.ok
        assert found.detail.startswith("none")


async def test_prepared_statements_that_were_asked_for_behind_a_pooler_are_a_finding(pooler: PgBouncer) -> None:
    with pooler.database() as url:
        async with PostgresMemoryStore(url):
            pass
        store = PostgresMemoryStore(url, statement_cache_size=100, max_size=1)
        await store.init()
        found = await finding(store, "pooler")
        await store.close()
        assert not found.ok
        assert "statement_cache_size" in found.remedy


async def test_a_lost_prepared_statement_is_a_sentence_about_the_pooler(pooler: PgBouncer) -> None:
    with pooler.database() as url:
        async with PostgresMemoryStore(url):
            pass
        with pytest.raises(StoreError, match="a pooler in between does not keep prepared statements"):
            async with PostgresMemoryStore(url, statement_cache_size=100) as store:
                await busy(store)


async def test_a_pool_of_the_callers_own_without_prepared_statements_works_behind_a_pooler(pooler: PgBouncer) -> None:
    with pooler.database() as url:
        async with (
            asyncpg.create_pool(url, min_size=1, max_size=6, statement_cache_size=0, reset=_leave_alone) as pool,
            PostgresMemoryStore(pool=pool) as store,
        ):
            assert await busy(store) == 120


async def _leave_alone(connection: Any) -> None:
    """Reset nothing: behind a pooler the reset would meet another server process."""


async def test_a_setting_that_pgbouncer_refuses_is_named(pooler: PgBouncer) -> None:
    with pooler.database() as url, pytest.raises(StoreUnavailableError, match="search_path"):
        async with PostgresMemoryStore(f"{url}?search_path=elsewhere"):
            pass


class Renaming:
    """A connection through a pooler that keeps track of prepared statements, as PgBouncer does from 1.21 on.

    No such release can be had without building it, so what it answers is played here.
    """

    def get_server_pid(self) -> int:
        return 1

    async def prepare(self, query: str, *, name: str, timeout: float) -> Renaming:
        return self

    async def fetchrow(self, *, timeout: float) -> tuple[int, bool]:
        return 2, False


async def test_a_pooler_that_gives_prepared_statements_its_own_names_keeps_them() -> None:
    assert await look_for_pooler(Renaming(), 1.0) == Pooler(present=True, keeps_statements=True)
    assert pooler_finding(Pooler(present=True, keeps_statements=True), 100).ok
