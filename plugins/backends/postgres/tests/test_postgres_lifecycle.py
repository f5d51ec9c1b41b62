"""Opening, sharing and closing: many processes, forks, event loops, schemas, pools and URLs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import pytest

import memoranda
import memoranda_backend.ranking
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import IdConflictError, InputError, SchemaTooNewError, StoreMisuseError, StoreNotFoundError
from memoranda.store import Examinable, Reindexable
from memoranda_postgres import PostgresMemoryStore
from memoranda_postgres.connections import OwnPool
from memoranda_postgres.faults import LOST
from memoranda_postgres.server import Server, ServerOptions

ALICE = MemoryMetadata(user_id="alice")
OURS = "SELECT FROM pg_stat_activity WHERE application_name = 'memoranda' AND datname = current_database()"


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def fetch(url: str, text: str, *values: Any) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(text, *values)
    finally:
        await connection.close()


async def settled(url: str, most: int) -> list[Any]:
    """Return our connections once the server has noticed the end of those that were dropped."""
    deadline = time.monotonic() + 240
    while len(found := await fetch(url, OURS)) > most and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return found


async def gone(url: str) -> list[Any]:
    """Return the connections that we still have, after a while if there are any."""
    return await settled(url, 0)


async def test_a_call_never_gets_a_connection_that_was_closed_while_it_waited(url: str) -> None:
    async def connect(deadline: float) -> Any:
        return await asyncpg.connect(url)

    pool = OwnPool(connect, 1, "the server")
    deadline = asyncio.get_running_loop().time() + 60
    first = await pool.acquire(deadline)
    waiting = asyncio.create_task(pool.acquire(deadline))
    await asyncio.sleep(0)
    await pool.release(first, broken=False)  # It goes to the task that waits, which has its turn later.
    first.terminate()

    second = await waiting

    assert not second.is_closed()
    await pool.release(second, broken=False)
    await pool.close(1.0)


async def test_a_transaction_on_a_closed_connection_says_that_it_is_lost(url: str) -> None:
    server = Server(ServerOptions(url, 0, 1, None, None, 20.0, 30.0))
    connection = await asyncpg.connect(url)
    connection.terminate()
    with pytest.raises(LOST):
        async with server.transaction(connection):
            pass


@pytest.mark.parametrize("access", ["change", "read"])
async def test_tables_that_are_not_there_are_made_only_by_writing(url: str, access: Any) -> None:
    store = memoranda.open(url, access=access)

    with pytest.raises(StoreNotFoundError):
        await store.init()

    assert await fetch(url, "SELECT FROM pg_tables WHERE tablename LIKE 'memor%'") == []
    async with memoranda.open(url) as writer:
        await writer.add(HumanMemory(content="here", metadata=ALICE))
    async with store:
        assert await store.count(metadata=ALICE) == 1


async def test_a_database_that_is_not_there_is_no_store(url: str) -> None:
    assert not await memoranda.open(f"{url.rpartition('/')[0]}/no_such_database", access="read").exists()


OPENER = """
import asyncio, sys, time
from memoranda import HumanMemory
from memoranda_postgres import PostgresMemoryStore

async def main():
    time.sleep(max(0, float(sys.argv[2]) - time.time()))
    async with PostgresMemoryStore(sys.argv[1], schema="shared", partitions=2) as store:
        await store.add(HumanMemory(content="here"))

asyncio.run(main())
"""


@pytest.mark.rare
async def test_eight_processes_may_create_the_tables_at_once(each_url: str) -> None:
    together = str(time.time() + 3)
    processes = [
        subprocess.Popen([sys.executable, "-c", OPENER, each_url, together], stderr=subprocess.PIPE) for _ in range(8)
    ]
    outcomes = [(process.communicate(timeout=200)[1], process.returncode) for process in processes]
    assert [code for _, code in outcomes] == [0] * 8, outcomes
    async with PostgresMemoryStore(each_url, schema="shared") as store:
        assert await store.count() == 8


async def test_eight_stores_with_vectors_may_open_at_once(url: str) -> None:
    stores = [PostgresMemoryStore(url, embeddings=memoranda_backend.ranking.HashingEmbeddings(16)) for _ in range(8)]
    await asyncio.gather(*(store.init() for store in stores))
    await asyncio.gather(*(store.add(HumanMemory(content="here")) for store in stores))
    assert await stores[0].count() == 8
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_newer_schema_is_refused_untouched(url: str) -> None:
    async with PostgresMemoryStore(url) as store:
        await store.add(HumanMemory(id="kept", content="kept"))
    await execute(url, "UPDATE memory_schema SET version = 99")
    with pytest.raises(SchemaTooNewError, match="99"):
        await PostgresMemoryStore(url).init()
    assert [row["id"] for row in await fetch(url, "SELECT id FROM memory_items")] == ["kept"]


async def test_two_schemas_of_a_database_know_nothing_of_each_other(url: str) -> None:
    async with (
        PostgresMemoryStore(url, schema="one") as one,
        PostgresMemoryStore(url, schema='T"wo') as two,
    ):
        await one.add(HumanMemory(id="same", content="one", metadata=ALICE))
        await two.add(HumanMemory(id="same", content="two"))
        assert (await one.get("same")).content == "one"
        await two.clear()
        assert await one.count() == 1


async def test_a_user_who_may_not_create_works_in_tables_that_are_there(url: str) -> None:
    async with PostgresMemoryStore(url, schema="memories"):
        pass
    await execute(
        url,
        "DROP ROLE IF EXISTS guest",
        "CREATE ROLE guest LOGIN PASSWORD 'guest'",
        "GRANT USAGE ON SCHEMA memories TO guest",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA memories TO guest",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA memories TO guest",
    )
    host = url.rpartition("@")[2]
    try:
        async with PostgresMemoryStore(f"postgresql://guest:guest@{host}", schema="memories") as store:
            await store.add(HumanMemory(content="from a guest"))
            assert await store.count() == 1
    finally:
        await execute(url, "DROP OWNED BY guest", "DROP ROLE guest")


async def test_a_pool_that_was_given_stays_open(url: str) -> None:
    async with asyncpg.create_pool(url, min_size=1, max_size=2) as pool:
        async with PostgresMemoryStore(pool=pool) as store:
            await store.add(HumanMemory(content="through the pool"))
        assert await pool.fetchval("SELECT count(*) FROM memory_items") == 1


async def test_no_more_connections_are_opened_than_allowed(url: str) -> None:
    async with PostgresMemoryStore(url, max_size=3) as store:
        await asyncio.gather(*(store.count() for _ in range(60)))
        assert 1 <= len(await fetch(url, OURS)) <= 3


async def test_closing_leaves_no_connection(url: str) -> None:
    async with PostgresMemoryStore(url, max_size=3) as store:
        await asyncio.gather(*(store.count() for _ in range(20)))
    assert await gone(url) == []


async def test_a_given_pool_serves_its_own_event_loop_alone(url: str) -> None:
    async with asyncpg.create_pool(url, min_size=1, max_size=2) as pool:
        store = PostgresMemoryStore(pool=pool)
        await store.init()

        async def elsewhere() -> None:
            for call in (store.get("x"), store.add(HumanMemory(content="x")), store.init()):
                with pytest.raises(StoreMisuseError, match="another event loop"):
                    await call
            await store.close()

        await asyncio.to_thread(asyncio.run, elsewhere())
        assert await pool.fetchval("SELECT 1") == 1


def test_an_event_loop_that_ends_leaves_no_connection(url: str) -> None:
    store = PostgresMemoryStore(url, max_size=3)

    async def use() -> None:
        await store.init()
        await asyncio.gather(*(store.count() for _ in range(20)))

    for _ in range(3):
        asyncio.run(use())
        assert asyncio.run(gone(url)) == []
    asyncio.run(store.close())


def test_an_event_loop_that_ends_in_the_middle_leaves_no_connection(url: str) -> None:
    store = PostgresMemoryStore(url, max_size=3)

    async def use(turns: int) -> None:
        await store.init()
        calls = [asyncio.ensure_future(store.count()) for _ in range(20)]
        for _ in range(turns):
            await asyncio.sleep(0)
        del calls

    for turns in (1, 3, 10, 30):
        asyncio.run(use(turns))
        assert asyncio.run(gone(url)) == []
    asyncio.run(store.close())


def test_connections_of_a_loop_that_was_just_closed_are_closed_by_the_next(url: str) -> None:
    store = PostgresMemoryStore(url, max_size=3)
    first = asyncio.new_event_loop()
    first.run_until_complete(store.init())
    first.close()

    async def use() -> list[Any]:
        assert await store.count() == 0
        await asyncio.sleep(0)
        await store.close()
        return await gone(url)

    assert asyncio.run(use()) == []


def test_more_event_loops_than_connections_all_have_their_turn(url: str) -> None:
    store = PostgresMemoryStore(url, max_size=2)

    async def use() -> None:
        for _ in range(5):
            await asyncio.gather(*(store.count() for _ in range(5)))

    asyncio.run(store.init())
    with ThreadPoolExecutor(5) as threads:
        for call in [threads.submit(asyncio.run, use()) for _ in range(5)]:
            call.result()
    asyncio.run(store.close())
    assert asyncio.run(gone(url)) == []


async def test_event_loops_together_open_no_more_connections_than_allowed(url: str) -> None:
    async with PostgresMemoryStore(url, max_size=3) as store:
        await asyncio.gather(*(store.count() for _ in range(20)))
        together = threading.Barrier(2)

        async def use() -> None:
            await asyncio.gather(*(store.count() for _ in range(20)))
            await asyncio.to_thread(together.wait, 240)  # The loop has its connections as long as it lives.
            await asyncio.to_thread(together.wait, 240)

        other = asyncio.ensure_future(asyncio.to_thread(asyncio.run, use()))
        await asyncio.to_thread(together.wait, 240)
        assert len(await settled(url, 3)) <= 3
        await asyncio.to_thread(together.wait, 240)
        await other


async def test_a_loop_without_connections_is_given_the_place_of_an_idle_one(url: str) -> None:
    async with PostgresMemoryStore(url, max_size=1, timeout=240) as store:
        for _ in range(3):
            assert await asyncio.to_thread(asyncio.run, store.count()) == 0
            assert await store.count() == 0


def test_a_loop_that_stands_still_keeps_no_place_from_others(url: str) -> None:
    store = PostgresMemoryStore(url, max_size=1, timeout=240)
    first = asyncio.new_event_loop()
    first.run_until_complete(store.init())
    assert asyncio.run(store.count()) == 0
    assert first.run_until_complete(store.count()) == 0
    asyncio.run(store.close())
    assert asyncio.run(gone(url)) == []
    first.close()


FORKER = """
import asyncio, os, sys
from memoranda import HumanMemory
from memoranda.errors import StoreMisuseError
from memoranda_postgres import PostgresMemoryStore

async def main():
    async with PostgresMemoryStore(sys.argv[1]) as store:
        await store.add(HumanMemory(id="parent", content="before"))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                await store.get("parent")
            except StoreMisuseError as error:
                code = 0 if "forked" in str(error) else 2
            os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        await store.add(HumanMemory(id="after", content="after"))
        assert await store.count() == 2

asyncio.run(main())
"""


def test_a_forked_child_is_refused_and_the_parent_goes_on(url: str) -> None:
    done = subprocess.run([sys.executable, "-c", FORKER, url], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
async def test_a_url_opens_the_store_with_its_options(url: str, scheme: str) -> None:
    address = url.partition("://")[2]
    store = memoranda.open(f"{scheme}://{address}?schema=by_url&max_size=2&timeout=5&application_name=mine")
    assert isinstance(store, PostgresMemoryStore)
    async with store:
        await store.add(HumanMemory(content="by url"))
        assert len(await fetch(url, "SELECT FROM by_url.memory_items")) == 1
        assert len(await fetch(url, OURS.replace("'memoranda'", "'mine'"))) == 1


@pytest.mark.parametrize(
    ("query", "keywords", "field"),
    [
        ("?colour=red", {}, "colour"),
        ("?max_size=many", {}, "max_size"),
        ("?max_size=2", {"max_size": 3}, "max_size"),
        ("", {"max_size": 0}, "max_size"),
        ("", {"min_size": 3, "max_size": 2}, "max_size"),
        ("", {"timeout": 0}, "timeout"),
        ("", {"connect_timeout": float("nan")}, "connect_timeout"),
        ("", {"partitions": -1}, "partitions"),
        ("", {"schema": ""}, "schema"),
        ("", {"schema": "x" * 64}, "schema"),
        ("", {"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_option_is_named(query: str, keywords: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        memoranda.open(f"postgresql://localhost/db{query}", **keywords)
    assert caught.value.field == field


async def test_partitions_are_fixed_when_the_tables_are_made(url: str) -> None:
    async with PostgresMemoryStore(url, partitions=4) as store:
        await store.add(HumanMemory(id="x", content="x", metadata=ALICE))
    async with PostgresMemoryStore(url) as store:
        assert (await store.get("x")).content == "x"
    with pytest.raises(InputError, match="4 partitions"):
        await PostgresMemoryStore(url, partitions=8).init()


async def test_an_id_is_unique_over_all_partitions_even_under_a_race(url: str) -> None:
    async with (
        PostgresMemoryStore(url, partitions=4) as one,
        PostgresMemoryStore(url, partitions=4) as two,
    ):
        for number in range(40):
            item_id = f"contested-{number}"
            results = await asyncio.gather(
                one.add(HumanMemory(id=item_id, content="one", metadata=MemoryMetadata(user_id="one"))),
                two.add(HumanMemory(id=item_id, content="two", metadata=MemoryMetadata(user_id="two"))),
                return_exceptions=True,
            )
            assert sorted(type(result).__name__ for result in results) == ["IdConflictError", "NoneType"]
        assert await one.count() == 40
        assert (
            await one.purge(metadata=MemoryMetadata(user_id="one"))
            + await two.purge(metadata=MemoryMetadata(user_id="two"))
            == 40
        )
        await one.add(HumanMemory(id="contested-0", content="free again", metadata=ALICE))


async def test_many_writers_of_the_same_ids_never_lock_each_other_out(url: str) -> None:
    ids = [f"shared-{number}" for number in range(20)]

    async def write(store: PostgresMemoryStore, turn: int) -> None:
        order = ids[turn:] + ids[:turn]
        if turn % 2:
            await store.add_many([HumanMemory(id=item_id, content=str(turn)) for item_id in order])
        else:
            await asyncio.gather(*(store.add(HumanMemory(id=item_id, content=str(turn))) for item_id in order))

    async with PostgresMemoryStore(url) as one, PostgresMemoryStore(url) as two:
        await asyncio.gather(*(write((one, two)[turn % 3 == 0], turn) for turn in range(20)))
        versions = {item.id: item.version async for item in one.scan()}
    assert versions == dict.fromkeys(ids, 20)


async def test_one_refused_add_does_not_fail_those_it_is_gathered_with(url: str) -> None:
    async with PostgresMemoryStore(url) as store:
        await store.add(HumanMemory(id="taken", content="mine", metadata=ALICE))
        adds = [HumanMemory(id=f"free-{number}", content="x") for number in range(10)]
        adds.insert(5, HumanMemory(id="taken", content="stolen", metadata=MemoryMetadata(user_id="eve")))
        results = await asyncio.gather(*(store.add(item) for item in adds), return_exceptions=True)
        assert [type(result) for result in results if result is not None] == [IdConflictError]
        assert (await store.get("taken")).content == "mine"
        assert await store.count() == 11


async def test_the_seeds_ten_columns_are_there(url: str) -> None:
    async with PostgresMemoryStore(url):
        rows = await fetch(
            url, "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'memory_items'"
        )
    columns = {row["column_name"]: row["data_type"] for row in rows}
    wanted = {"id", "content", "memory_type", "status", "metadata", "extra_json", "created_at", "updated_at"}
    assert wanted | {"deleted", "version"} <= set(columns)
    assert columns["metadata"] == "jsonb"


async def test_the_doctor_says_what_is_there_and_mends_what_it_can(each_url: str) -> None:
    async with PostgresMemoryStore(each_url) as store:
        assert isinstance(store, Examinable)
        assert isinstance(store, Reindexable)
        await execute(each_url, "DROP INDEX memory_items_by_user")
        broken = {finding.name: finding for finding in await store.doctor()}
        assert not broken["index memory_items_by_user"].ok
        assert broken["index memory_items_by_user"].remedy
        mended = {finding.name: finding for finding in await store.doctor(repair=True)}
        assert all(finding.ok for name, finding in mended.items() if name.startswith("index "))
        assert mended["schema"].ok


async def test_the_doctor_says_what_is_lost_without_trigrams(each_url: str) -> None:
    async with PostgresMemoryStore(each_url) as store:
        available = await fetch(each_url, "SELECT FROM pg_available_extensions WHERE name = 'pg_trgm'")
        if available:
            await execute(each_url, "DROP EXTENSION pg_trgm CASCADE")
        without = {finding.name: finding for finding in await store.doctor()}["pg_trgm"]
        assert "reads every item" in without.detail
        assert without.ok is not bool(available)
        mended = {finding.name: finding for finding in await store.doctor(repair=True)}["pg_trgm"]
        assert ("trigram index" in mended.detail) is bool(available)


@pytest.mark.parametrize(
    "change",
    [
        "user_id = 'eve'",
        """metadata = jsonb_set(metadata, '{extra,z}', '2')""",
        "created_at = '2020-01-01T00:00:00.000000+00:00'",
    ],
)
async def test_the_doctor_finds_rows_that_were_changed_by_hand(url: str, change: str) -> None:
    async with PostgresMemoryStore(url) as store:
        scope = MemoryMetadata(user_id="alice", extra={"z": 1, "a": -0.0})
        await store.add(HumanMemory(content="x", metadata=scope))
        assert {finding.name: finding for finding in await store.doctor()}["rows"].ok
        await execute(url, f"UPDATE memory_items SET {change}")
        assert not {finding.name: finding for finding in await store.doctor()}["rows"].ok


async def test_an_unreadable_row_is_left_out_and_named(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with PostgresMemoryStore(url) as store:
        await store.add_many([HumanMemory(id="good", content="x"), HumanMemory(id="bad", content="secret words")])
        await execute(url, "UPDATE memory_items SET extra_json = '[' WHERE id = 'bad'")
        assert [item.id for item in await store.search()] == ["good"]
        assert [item.id async for item in store.scan()] == ["good"]
        assert "bad" in caplog.text
        assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "damage",
    [
        "status = 'odd'",
        """extra_json = '["name"'""",
        """extra_json = '["name"]'""",
        """extra_json = '{"name": 5}'""",
    ],
)
async def test_an_unreadable_row_is_left_out_of_a_ranking(
    url: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with PostgresMemoryStore(url) as store:
        await store.add_many([HumanMemory(id="good", content="tea"), HumanMemory(id="bad", content="secret tea")])
        await execute(url, f"UPDATE memory_items SET {damage} WHERE id = 'bad'")
        assert [found.item.id for found in await store.search_ranked(query="tea", mode="text")] == ["good"]
        assert "bad" in caplog.text
        assert "secret" not in caplog.text


async def test_tls_is_asked_for_when_it_is_demanded(url: str) -> None:
    # The test server has no certificate, so a demand for TLS must fail rather than go on in clear text.
    with pytest.raises(ConnectionError):
        await PostgresMemoryStore(url, ssl="require", connect_timeout=5).init()
    with pytest.raises(ConnectionError):
        await PostgresMemoryStore.from_url(f"{url}?sslmode=require", connect_timeout=5).init()


def test_importing_the_plugin_loads_no_driver() -> None:
    code = "import sys, memoranda_postgres.plugin; sys.exit('asyncpg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ}, check=False).returncode == 0


@pytest.mark.rare
async def test_opening_does_not_wait_for_ever_for_somebody_who_is_creating_the_tables(url: str) -> None:
    holder = await asyncpg.connect(url)
    try:
        async with asyncpg.create_pool(url, min_size=1, max_size=2) as pool:
            await holder.execute("BEGIN; CREATE TABLE memory_schema (version INTEGER)")
            started = time.monotonic()
            with pytest.raises(ConnectionError):
                await PostgresMemoryStore(pool=pool, connect_timeout=1, timeout=1).init()
            assert time.monotonic() - started < 15
    finally:
        await holder.close()


async def test_new_items_of_one_update_keep_the_order_they_were_given_in(url: str) -> None:
    moment = "2024-01-01T00:00:00"
    async with PostgresMemoryStore(url) as store:
        await store.update_many([HumanMemory(id=name, content=name, created_at=moment) for name in "zamb"])
        assert [item.id async for item in store.scan()] == list("zamb")
        await store.add_many([HumanMemory(id=name, content=name, created_at=moment) for name in "yxc"])
        assert [item.id async for item in store.scan()] == list("zambyxc")


async def test_an_add_within_a_scope_that_its_item_does_not_carry_looks_at_the_row(url: str) -> None:
    async with PostgresMemoryStore(url) as store:
        tagged = MemoryMetadata(user_id="alice", extra={"team": "red"})
        await store.add(HumanMemory(id="x", content="red", metadata=tagged))
        red, blue = MemoryMetadata(extra={"team": "red"}), MemoryMetadata(extra={"team": "blue"})
        changed = HumanMemory(id="x", content="changed", metadata=ALICE)
        with pytest.raises(IdConflictError):
            await store.add(changed, within=blue)
        results = await asyncio.gather(
            store.add(changed, within=red),
            *(store.add(HumanMemory(content="beside it")) for _ in range(5)),
            return_exceptions=True,
        )
        assert results == [None] * 6
        found = await store.get("x")
        assert found is not None
        assert (found.content, found.version) == ("changed", 2)
