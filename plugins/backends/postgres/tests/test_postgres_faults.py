"""What happens when connections break, servers restart, networks fall silent and primaries become read-only."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from memoranda import HumanMemory, MemoryError, MemoryItem, MemoryMetadata
from memoranda.errors import InputError, StoreUnavailableError
from memoranda_postgres import PostgresMemoryStore
from servers import UnreliableNetwork, closed_port, postgres_server

ALICE = MemoryMetadata(user_id="alice", session_id="s")


def said(number: int) -> HumanMemory:
    return HumanMemory(id=f"item-{number}", content=f"turn {number}", metadata=ALICE)


async def terminate_all(url: str) -> None:
    """End every other connection to the database, as an administrator or a failover would."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[PostgresMemoryStore]:
    async with PostgresMemoryStore(url, max_size=4, timeout=240) as store:
        yield store


@pytest.fixture(scope="module")
def fragile() -> Iterator[Any]:
    """A server that the tests of this module stop and pause."""
    with postgres_server(private=True) as server:
        yield server


@pytest.fixture
def fragile_url(fragile: Any) -> Iterator[str]:
    with fragile.database() as url:
        yield url


async def test_every_call_succeeds_after_its_connection_was_terminated_between_calls(
    store: PostgresMemoryStore, url: str
) -> None:
    item = said(0)
    await store.add(item)
    calls = {
        "get": lambda: store.get(item.id),
        "search": lambda: store.search(metadata=ALICE),
        "count": lambda: store.count(),
        "add": lambda: store.add(said(1)),
        "add_many": lambda: store.add_many([said(2), said(3)]),
        "update": lambda: store.update(said(4)),
        "delete": lambda: store.delete(item.id),
        "restore": lambda: store.restore(item.id),
        "purge": lambda: store.purge("item-4"),
        "clear": lambda: store.clear(metadata=ALICE),
    }
    for call in calls.values():
        await asyncio.gather(*(store.get(item.id) for _ in range(4)))
        await terminate_all(url)
        await call()
    assert await store.count() == 0


async def test_a_pool_that_was_given_survives_terminated_connections(url: str) -> None:
    async with (
        asyncpg.create_pool(url, min_size=2, max_size=4) as pool,
        PostgresMemoryStore(pool=pool) as store,
    ):
        for number in range(5):
            await terminate_all(url)
            await store.add(said(number))
        assert await store.count() == 5


async def test_calls_under_way_succeed_or_say_that_the_server_is_gone(store: PostgresMemoryStore, url: str) -> None:
    acknowledged: list[int] = []
    refused: list[BaseException] = []
    stop = False

    async def add_on(worker: int) -> None:
        number = worker * 100_000
        while not stop:
            number += 1
            try:
                await store.add(said(number))
            except Exception as error:  # noqa: BLE001  # every kind is looked at below
                refused.append(error)
            else:
                acknowledged.append(number)

    async def remove_on() -> None:
        while not stop:
            try:
                await store.clear(metadata=MemoryMetadata(user_id="nobody"))
            except Exception as error:  # noqa: BLE001
                refused.append(error)
            await asyncio.sleep(0)

    workers = [asyncio.create_task(add_on(worker)) for worker in range(8)] + [asyncio.create_task(remove_on())]
    async with asyncio.timeout(200):
        for _ in range(15):
            before = len(acknowledged)
            await terminate_all(url)
            while len(acknowledged) < before + 4:  # Every time the store finds its feet again.
                await asyncio.sleep(0.01)
    stop = True
    await asyncio.gather(*workers)

    assert all(isinstance(error, MemoryError) and isinstance(error, ConnectionError) for error in refused), refused
    stored = {item.id: item.version async for item in store.scan()}
    assert set(stored) >= {f"item-{number}" for number in acknowledged}
    assert set(stored.values()) == {1}


async def test_an_add_whose_answer_was_lost_counts_once(url: str) -> None:
    async with UnreliableNetwork(url) as network, PostgresMemoryStore(network.url, timeout=240) as store:
        await store.add(said(1))
        network.cut_after_answers(1)  # The server commits, and the connection breaks before its answer arrives.
        await store.add(said(1))
        found = await store.get("item-1")
        assert found is not None
        assert found.version == 2
        assert network.cuts == 1


async def test_a_batch_whose_answer_was_lost_counts_once(url: str) -> None:
    async with UnreliableNetwork(url) as network, PostgresMemoryStore(network.url, timeout=240) as store:
        batch = [said(number) for number in range(200)] + [said(5)]
        await store.add_many(batch)
        network.cut_when_answering(b"COMMIT")
        await store.add_many(batch)
        assert network.cuts == 1
        versions = {item.id: item.version async for item in store.scan()}
        assert versions.pop("item-5") == 4
        assert set(versions.values()) == {2}


async def test_a_large_batch_whose_answer_was_lost_is_stored_once(url: str) -> None:
    async with UnreliableNetwork(url) as network, PostgresMemoryStore(network.url, timeout=240) as store:
        network.cut_when_answering(b"COMMIT")
        await store.add_many([said(number) for number in range(600)])
        assert network.cuts == 1
        assert [item.version async for item in store.scan()] == [1] * 600


async def test_a_compare_and_set_whose_answer_was_lost_succeeds(url: str) -> None:
    async with UnreliableNetwork(url) as network, PostgresMemoryStore(network.url, timeout=240) as store:
        first = await store.update(said(1))
        network.cut_when_answering(b"COMMIT")
        second = await store.update(first)
        assert network.cuts == 1
        assert (first.version, second.version) == (1, 2)


async def test_a_turn_whose_answer_was_lost_is_stored_once_and_no_conflict(url: str) -> None:
    async with UnreliableNetwork(url) as network, PostgresMemoryStore(network.url, timeout=240) as store:
        await store.add(said(1))
        network.cut_when_answering(b"COMMIT")
        assert await store.append([said(2), said(3)], after="item-1") == "item-3"
        assert network.cuts == 1
        assert {item.id: item.version async for item in store.scan()} == {"item-1": 1, "item-2": 1, "item-3": 1}


async def test_a_batch_with_deletes_whose_answer_was_lost_is_an_error_and_whole(url: str) -> None:
    async with UnreliableNetwork(url) as network, PostgresMemoryStore(network.url, timeout=240) as store:
        await store.add(said(1))
        network.cut_when_answering(b"COMMIT")
        with pytest.raises(StoreUnavailableError):
            await store.apply(adds=[said(2)], deletes=["item-1"])
        assert [item.id async for item in store.scan()] == ["item-2"]


async def test_a_removal_whose_answer_was_lost_is_an_error_not_a_wrong_number(url: str) -> None:
    async with UnreliableNetwork(url) as network, PostgresMemoryStore(network.url, timeout=240) as store:
        await store.add(said(1))
        assert not await store.delete("item-2")
        network.cut_after_answers(1)
        with pytest.raises(StoreUnavailableError):
            await store.delete("item-1")
        assert await store.get("item-1") is None


async def test_a_restarted_server_is_found_again(fragile: Any, fragile_url: str) -> None:
    async with PostgresMemoryStore(fragile_url, timeout=240) as store:
        await store.add(said(1))
        fragile.restart()
        assert await store.get("item-1") is not None
        await store.add(said(2))
        assert await store.count() == 2


@pytest.mark.rare
async def test_a_killed_server_loses_nothing_that_was_acknowledged(fragile: Any, fragile_url: str) -> None:
    async with PostgresMemoryStore(fragile_url, timeout=240) as store:
        await asyncio.gather(*(store.add(said(number)) for number in range(50)))
        fragile.kill()
        with pytest.raises(ConnectionError) as caught:
            await store.add(said(50))
        assert isinstance(caught.value, MemoryError)
        fragile.start()
        assert await store.count() >= 50


async def test_a_silent_server_is_an_error_in_time_and_usable_afterwards(fragile: Any, fragile_url: str) -> None:
    async with PostgresMemoryStore(fragile_url, timeout=3, max_size=2) as store:
        await store.add(said(1))
        fragile.pause()
        try:
            started = time.monotonic()
            results = await asyncio.gather(
                store.get("item-1"), store.add(said(2)), store.count(), store.search(), return_exceptions=True
            )
            elapsed = time.monotonic() - started
        finally:
            fragile.resume()
        assert all(isinstance(result, StoreUnavailableError) for result in results), results
        assert elapsed < 15
        assert await store.get("item-1") is not None


async def test_a_network_that_swallows_everything_is_an_error_in_time(url: str) -> None:
    async with UnreliableNetwork(url) as network, PostgresMemoryStore(network.url, timeout=3) as store:
        await store.add(said(1))
        network.silent = True
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="did not answer within 3 seconds"):
            await store.add(said(2))
        assert time.monotonic() - started < 15
        network.silent = False
        await store.add(said(2))
        assert await store.count() == 2


async def test_closing_on_a_silent_network_ends(url: str) -> None:
    async with UnreliableNetwork(url) as network:
        store = PostgresMemoryStore(network.url, timeout=3)
        await store.init()
        network.silent = True
        started = time.monotonic()
        await store.close()
        assert time.monotonic() - started < 15


async def test_connecting_to_a_silent_server_ends_with_the_connect_timeout(url: str) -> None:
    async with UnreliableNetwork(url) as network:
        network.silent = True
        store = PostgresMemoryStore(network.url, connect_timeout=1)
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="did not answer within 1 seconds"):
            await store.init()
        assert time.monotonic() - started < 15


async def test_nobody_listening_is_a_clear_error_at_once() -> None:
    with closed_port() as port:
        store = PostgresMemoryStore(f"postgresql://someone@127.0.0.1:{port}/nothing")
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{port}/nothing could not be reached"):
            await store.init()
        assert time.monotonic() - started < 15


async def test_a_missing_database_is_named(url: str) -> None:
    with pytest.raises(StoreUnavailableError, match="no such database"):
        await PostgresMemoryStore(url + "_missing").init()


@pytest.mark.rare
async def test_a_read_only_server_refuses_writes_and_takes_them_again_afterwards(url: str) -> None:
    async def read_only(value: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            name = await connection.fetchval("SELECT current_database()")
            await connection.execute("SET default_transaction_read_only = off")
            await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {value}")
        finally:
            await connection.close()
        await terminate_all(url)

    async with PostgresMemoryStore(url, timeout=240) as store:
        await store.add(said(1))
        await read_only("on")
        assert await store.get("item-1") is not None
        with pytest.raises(StoreUnavailableError, match="read-only"):
            await store.add(said(2))
        with pytest.raises(ConnectionError):
            await store.clear()
        connection = await asyncpg.connect(url)
        await connection.execute("SET default_transaction_read_only = off")
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
        await connection.close()
        await store.add(said(2))
        assert await store.count() == 2


async def test_a_store_opens_on_a_read_only_server_whose_tables_are_there(url: str) -> None:
    async with PostgresMemoryStore(url) as store:
        await store.add(said(1))
    separator = "&" if "?" in url else "?"
    async with PostgresMemoryStore(f"{url}{separator}options=-c%20default_transaction_read_only%3Don") as replica:
        assert await replica.get("item-1") is not None
        findings = {finding.name: finding for finding in await replica.doctor()}
        assert not findings["server"].ok


async def test_a_wrong_password_shows_no_password(fragile: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "not-the-p4ssword"
    wrong = fragile.url.replace(fragile.password, secret)
    store = PostgresMemoryStore(wrong)
    with pytest.raises(StoreUnavailableError, match="refused the login") as caught:
        await store.init()
    shown = [repr(store), str(caught.value), repr(caught.value), repr(caught.value.__cause__), caplog.text]
    assert not any(secret in text for text in shown)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:se/cret@localhost/db",
        "postgresql://someone:se?cret@localhost/db",
        "postgresql://someone:se#cret@localhost:x/db",
        "postgresql://someone:secret@localhost:port/db",
        "postgresql://localhost:1/db?password=secret&user=someone",
        "postgresql://someone:sec%ret@localhost:99999999/db",
    ],
)
async def test_no_part_of_a_password_is_shown_whatever_the_url(url: str) -> None:
    try:
        store = PostgresMemoryStore.from_url(url)
        text = repr(store)
        try:
            await store.init()
        except MemoryError as error:
            text += str(error) + repr(error.__cause__) + repr(error.__context__ if error.__cause__ else None)
    except InputError as error:
        text = str(error)
    assert "cret" not in text
    assert "sec%" not in text


async def test_a_cancelled_call_leaves_the_store_usable(store: PostgresMemoryStore) -> None:
    for delay in (0, 0.0005, 0.001, 0.003):
        calls = [asyncio.create_task(store.add(said(number))) for number in range(20)]
        await asyncio.sleep(delay)
        for call in calls[::2]:
            call.cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(result is None for result in results[1::2])
    assert await store.count() >= 10


async def test_one_item_that_cannot_be_stored_does_not_fail_the_others(store: PostgresMemoryStore) -> None:
    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
    too_long = "".join(alphabet[(number * number * 7919 >> 3) % 36] for number in range(20_000))
    bad = HumanMemory(content="x", metadata=MemoryMetadata(user_id=too_long))
    results = await asyncio.gather(
        *(store.add(said(number)) for number in range(5)),
        store.add(bad),
        *(store.add(said(number)) for number in range(5, 10)),
        return_exceptions=True,
    )
    assert isinstance(results[5], InputError)
    assert [result for result in results if result is not None] == [results[5]]
    assert await store.count() == 10


async def test_batches_and_removals_of_the_same_items_never_wait_in_a_circle(url: str) -> None:
    scope = MemoryMetadata(user_id="u")

    async def busy(number: int) -> None:
        order = random.Random(number)
        async with PostgresMemoryStore(url, max_size=3) as store:
            for _ in range(6):
                ids = order.sample(range(60), 40)
                batch = [MemoryItem(id=str(item_id), content="x", metadata=scope) for item_id in ids]
                await asyncio.gather(
                    store.add_many(batch), store.clear(metadata=scope), store.restore(), store.purge(deleted_only=True)
                )

    await asyncio.gather(*map(busy, range(4)))

    connection = await asyncpg.connect(url)
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    deadlocks = await connection.fetchval(query)
    await connection.close()
    assert deadlocks == 0
