"""Reading from replicas: what a store wrote it also reads, whatever the replicas lag, freeze or are gone."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import pytest_asyncio

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import InputError, VersionConflictError
from memoranda.store.backend import Filter
from memoranda_postgres import PostgresMemoryStore
from memoranda_postgres.dialect import PostgresDialect, PostgresStatements
from memoranda_postgres.scope_cache import Scope, ScopeCache
from memoranda_postgres.server import Server, ServerOptions
from memoranda_testing import StoreConformance
from servers import PostgresGroup, PostgresNode, postgres_group, query

Reopen = Callable[[], Awaitable[PostgresMemoryStore]]

ADA, BEN = MemoryMetadata(user_id="ada"), MemoryMetadata(user_id="ben")
LONG = 3600.0


@pytest.fixture(scope="module")
def group() -> Iterator[PostgresGroup]:
    """Replicas that no commit waits for, unless a database asks for it."""
    settings = {"synchronous_standby_names": "FIRST 2 (*)", "synchronous_commit": "local"}
    with postgres_group(2, settings=settings) as running:
        yield running


@pytest_asyncio.fixture
async def url(group: PostgresGroup) -> AsyncIterator[str]:
    """A database whose tables are there on the replicas too."""
    with group.database() as found:
        async with PostgresMemoryStore(found):
            pass
        await caught_up(group, found)
        yield found


def places(*nodes: PostgresNode) -> str:
    return ",".join(f"127.0.0.1:{node.port}" for node in nodes)


def on(node: PostgresNode, url: str) -> str:
    """Return the URL of the same database on a replica."""
    return urlunsplit(urlsplit(node.url)._replace(path=urlsplit(url).path))


async def caught_up(group: PostgresGroup, url: str) -> None:
    """Wait until all replicas show what was written so far, those included that have yet to come back."""
    connection = await asyncpg.connect(url)
    try:
        showing = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= $1::pg_lsn"
        position = await connection.fetchval("SELECT pg_current_wal_lsn()")
        while await connection.fetchval(showing, position) < len(group.standbys):
            await asyncio.sleep(0.02)
    finally:
        await connection.close()


async def reached(group: PostgresGroup, url: str, store: PostgresMemoryStore) -> None:
    """Read until a replica answers: one that a busy machine connects to slowly is left alone for a while."""
    ours = "datname = current_database() AND application_name = 'memoranda' AND query ~ 'memory_items'"
    answered = f"SELECT count(*) FROM pg_stat_activity WHERE {ours}"
    await store.count()
    while not any([await asyncio.to_thread(query, on(node, url), answered) for node in group.standbys]):
        await asyncio.sleep(0.1)
        await store.count()


@contextmanager
def lagging(*nodes: PostgresNode) -> Iterator[None]:
    """Have replicas apply no changes for the block."""
    for node in nodes:
        query(node.url, "SELECT pg_wal_replay_pause()")
    try:
        yield
    finally:
        for node in nodes:
            query(node.url, "SELECT pg_wal_replay_resume()")


def item(item_id: str, scope: MemoryMetadata = ADA, content: str = "tea") -> HumanMemory:
    return HumanMemory(id=item_id, content=content, metadata=scope)


@pytest.mark.rare
async def test_others_writes_may_be_missing_from_a_read_unless_it_asks_for_the_primary(
    group: PostgresGroup, url: str
) -> None:
    async with (
        PostgresMemoryStore(url) as elsewhere,
        PostgresMemoryStore(url, replicas=places(*group.standbys), replica_lag=LONG) as store,
    ):
        await reached(group, url, store)
        with lagging(*group.standbys):
            await elsewhere.add(item("a"))
            # That the item is missing shows where the reads go.
            assert await store.get("a") is None
            assert await store.search(metadata=ADA) == []
            assert await store.search_ranked(query="tea", metadata=ADA, mode="text") == []
            assert await store.count() == 0
            assert [found.id async for found in store.scan()] == []
            with store.on_primary():
                assert await store.get("a") is not None
                assert len(await store.scoped(user_id="ada").search()) == 1
                assert await store.count() == 1


@pytest.mark.rare
async def test_a_store_reads_its_own_writes_while_the_replicas_lag(group: PostgresGroup, url: str) -> None:
    async with (
        PostgresMemoryStore(url) as elsewhere,
        PostgresMemoryStore(url, replicas=places(*group.standbys), replica_lag=LONG) as store,
    ):
        await reached(group, url, store)
        with lagging(*group.standbys):
            ada = store.scoped(user_id="ada")
            await ada.add(item("a"))
            await elsewhere.add(item("b", BEN))
            assert await ada.get("a") is not None
            assert [found.id for found in await ada.search()] == ["a"]
            assert len(await ada.search_ranked(query="tea", mode="text")) == 1
            # Another user's items are still read from a replica.
            assert await store.count(metadata=BEN) == 0
            await ada.delete("a")
            assert await ada.count() == 0
            await ada.restore("a")
            assert await ada.count() == 1
            assert await store.purge(metadata=ADA) == 1
            assert await ada.search() == []


async def test_a_write_without_a_user_is_read_by_every_scope(group: PostgresGroup, url: str) -> None:
    async with PostgresMemoryStore(url, replicas=places(*group.standbys), replica_lag=LONG) as store:
        await store.add_many([item("a", MemoryMetadata(user_id="ada", session_id="s")), item("b", BEN)])
        await caught_up(group, url)
        assert await store.count() == 2
        with lagging(*group.standbys):
            await store.clear(metadata=MemoryMetadata(session_id="s"))
            assert await store.count(metadata=ADA) == 0


async def test_whoever_meets_a_conflict_reads_what_it_conflicted_with(group: PostgresGroup, url: str) -> None:
    async with (
        PostgresMemoryStore(url) as elsewhere,
        PostgresMemoryStore(url, replicas=places(*group.standbys), replica_lag=LONG) as store,
    ):
        await store.add(item("a", content="0"))
        await caught_up(group, url)
        await reached(group, url, store)
        with lagging(*group.standbys):
            there = await elsewhere.get("a")
            assert there is not None
            await elsewhere.update(there.model_copy(update={"content": "1"}))
            stale = await store.get("a")
            assert stale is not None
            with pytest.raises(VersionConflictError):
                await store.update(stale.model_copy(update={"content": "1"}))
            fresh = await store.get("a")
            assert fresh is not None
            assert (await store.update(fresh.model_copy(update={"content": "2"}))).version == 3


async def test_a_replica_that_lags_for_longer_than_allowed_is_not_read_from(group: PostgresGroup, url: str) -> None:
    async with (
        PostgresMemoryStore(url) as elsewhere,
        PostgresMemoryStore(url, replicas=places(*group.standbys), replica_lag=0.2) as store,
    ):
        with lagging(*group.standbys):
            await elsewhere.add(item("a"))
            async with asyncio.timeout(240):
                while await store.get("a") is None:
                    await asyncio.sleep(0.02)
            findings = {found.name: found for found in await store.doctor() if found.name.startswith("replica")}
            assert len(findings) == 2
            assert not any(found.ok for found in findings.values())
        await caught_up(group, url)
        async with asyncio.timeout(240):
            while not all(found.ok for found in await store.doctor()):
                await asyncio.sleep(0.02)


@pytest.mark.rare
async def test_a_read_meets_no_error_where_a_replica_is_frozen_or_gone(group: PostgresGroup, url: str) -> None:
    frozen, gone = group.standbys
    async with PostgresMemoryStore(url, replicas=places(frozen, gone), timeout=8) as store:
        await store.add(item("a"))
        await caught_up(group, url)
        assert await store.get("a") is not None
        await asyncio.to_thread(frozen.pause)
        await asyncio.to_thread(gone.kill)
        try:
            for _ in range(5):
                assert await store.get("a") is not None
        finally:
            await asyncio.to_thread(frozen.resume)
            await asyncio.to_thread(gone.start)


async def test_reading_goes_on_while_the_primary_is_frozen(group: PostgresGroup, url: str) -> None:
    async with PostgresMemoryStore(url, replicas=places(*group.standbys), timeout=10) as store:
        await store.add(item("a"))
        await caught_up(group, url)
        await reached(group, url, store)
        await asyncio.to_thread(group.primary.pause)
        try:
            for _ in range(3):
                assert await store.get("a") is not None
        finally:
            await asyncio.to_thread(group.primary.resume)


async def test_a_replica_that_cannot_be_reached_keeps_nobody_from_opening(url: str) -> None:
    async with PostgresMemoryStore(f"{url}", replicas=["127.0.0.1:1"]) as store:
        await store.add(item("a"))
        assert await store.get("a") is not None


@pytest.mark.rare
@pytest.mark.timeout(1800)
async def test_own_reads_are_never_stale_whatever_the_replicas_do(
    group: PostgresGroup, url: str, request: pytest.FixtureRequest
) -> None:
    """Seeded users write and read at random, while the replicas stop and go."""
    turns = 200 if request.config.getoption("everything", default=False) else 25
    async with PostgresMemoryStore(url, replicas=places(*group.standbys), replica_lag=LONG) as store:
        ended = asyncio.Event()

        async def user(number: int) -> None:
            randomly = random.Random(number)
            scope = MemoryMetadata(user_id=f"u{number}")
            handle = store.scoped(user_id=f"u{number}")
            expected: set[str] = set()
            for _ in range(turns):
                choice = randomly.random()
                if choice < 0.4:
                    new = [item(uuid.uuid4().hex, scope) for _ in range(randomly.randint(1, 3))]
                    await handle.add_many(new)
                    expected |= {one.id for one in new}
                elif choice < 0.55 and expected:
                    removed = randomly.choice(sorted(expected))
                    assert await handle.delete(removed)
                    expected.discard(removed)
                elif choice < 0.6:
                    await handle.purge(metadata=scope)
                    expected.clear()
                assert {found.id for found in await handle.search(limit=1000)} == expected
                assert await handle.count() == len(expected)
                await asyncio.sleep(randomly.random() / 50)

        async def stop_and_go() -> None:
            randomly = random.Random(0)
            while not ended.is_set():
                node = randomly.choice(group.standbys)
                await asyncio.to_thread(query, node.url, "SELECT pg_wal_replay_pause()")
                await asyncio.sleep(randomly.random() / 5)
                await asyncio.to_thread(query, node.url, "SELECT pg_wal_replay_resume()")
                await asyncio.sleep(randomly.random() / 5)

        stopping = asyncio.create_task(stop_and_go())
        try:
            await asyncio.gather(*map(user, range(8)))
        finally:
            ended.set()
            await stopping


@pytest.mark.parametrize("wrong", ["", "a,,b", "user:secret@host", "host/db", "host:port"])
def test_a_replica_that_can_be_none_is_refused_without_quoting_it(wrong: str) -> None:
    with pytest.raises(InputError) as caught:
        PostgresMemoryStore("postgresql://host/db", replicas=[wrong])
    assert "secret" not in str(caught.value)


def test_replicas_stand_in_the_url() -> None:
    store = PostgresMemoryStore.from_url("postgresql://host/db?replicas=one,two:5433&replica_lag=2")
    assert "host/db" in repr(store)
    with pytest.raises(InputError, match="replica_lag"):
        PostgresMemoryStore.from_url("postgresql://host/db?replicas=one&replica_lag=long")


@pytest.fixture(scope="module")
def lagging_url(group: PostgresGroup) -> Iterator[str]:
    with group.database() as found:
        yield found


@pytest.fixture(scope="module")
def waiting_url(group: PostgresGroup) -> Iterator[str]:
    """A database whose commits wait until both replicas show them."""
    asked = "EXECUTE format('ALTER DATABASE %I SET synchronous_commit = remote_apply', current_database())"
    with group.database() as found:
        query(found, f"DO $$ BEGIN {asked}; END $$")
        yield found


@pytest.mark.rare("replicas", one_in=80)
class TestWithReplicas(StoreConformance):
    @pytest.fixture
    def kit_url(self, request: pytest.FixtureRequest, lagging_url: str) -> str:
        """A store reads its own writes at once; what others wrote it sees at once only where commits wait."""
        if "reopen" not in request.fixturenames:
            return lagging_url
        waiting_url: str = request.getfixturevalue("waiting_url")
        return waiting_url

    @pytest.fixture
    def options(self, group: PostgresGroup) -> dict[str, Any]:
        return {"schema": f"replicated {uuid.uuid4().hex}", "replicas": places(*group.standbys)}

    @pytest_asyncio.fixture
    async def store(self, kit_url: str, options: dict[str, Any]) -> AsyncIterator[PostgresMemoryStore]:
        async with PostgresMemoryStore(kit_url, **options) as store:
            yield store

    @pytest.fixture
    def reopen(self, kit_url: str, options: dict[str, Any]) -> Reopen:
        async def reopen() -> PostgresMemoryStore:
            return PostgresMemoryStore(kit_url, **options)

        return reopen


async def test_a_search_on_a_replica_knows_who_ended_while_an_older_one_goes_on(group: PostgresGroup, url: str) -> None:
    async with PostgresMemoryStore(url) as store:
        await store.add_many([item(f"item {number}") for number in range(3)])
    older, younger = [await asyncpg.connect(url) for _ in range(2)]
    server = Server(ServerOptions(on(group.standbys[0], url), 1, 1, None, None, 20.0, 30.0))
    await server.open()
    scopes = ScopeCache(server, PostgresStatements(PostgresDialect("public")), 60, None)

    async def count(scope: Scope) -> int:
        return len(scope.arrays)

    try:
        await older.execute("BEGIN; UPDATE memory_items SET token = 1 WHERE id = 'item 0'")
        await younger.execute("BEGIN; DELETE FROM memory_items WHERE id = 'item 1'")
        query(url, "UPDATE memory_items SET token = 1 WHERE id = 'item 2'")  # It began last and ends first.
        await caught_up(group, url)
        assert await scopes.use(Filter.of(metadata=ADA), count) == 3
        await younger.execute("COMMIT")
        await caught_up(group, url)
        assert await scopes.use(Filter.of(metadata=ADA), count) == 2
    finally:
        await server.close()
        await older.close()
        await younger.close()
