"""What the grown contract asks of Redis in particular: atomic scripts, cheap indexes, and migrations."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.errors import StoreError, TurnConflictError
from memoranda_redis import RedisMemoryStore
from memoranda_redis._connection import Run, Script

ADA = MemoryMetadata(user_id="ada", session_id="s")


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return uuid.uuid4().hex


@pytest.fixture
async def store(url: str, namespace: str) -> AsyncIterator[RedisMemoryStore]:
    async with RedisMemoryStore(url, namespace=namespace) as store:
        yield store


@pytest.fixture
async def other(url: str, namespace: str) -> AsyncIterator[RedisMemoryStore]:
    """The same data, as another process has it."""
    async with RedisMemoryStore(url, namespace=namespace) as store:
        yield store


async def items_looked_at(raw: Any) -> int:
    """How many items the server has been asked for, by any script."""
    return int((await raw.info("commandstats")).get("cmdstat_hmget", {}).get("calls", 0))


# Atomic


@pytest.mark.parametrize("within", [None, MemoryMetadata(extra={"team": "red"})])
async def test_of_turns_that_follow_the_same_head_one_is_stored(
    store: RedisMemoryStore, other: RedisMemoryStore, within: MemoryMetadata | None
) -> None:
    """Also where a bound has to be compared that only Python knows how to compare."""
    outcomes = await asyncio.gather(
        *(
            one.append(
                [HumanMemory(content=f"{number} {part}", metadata=ADA) for part in "abc"], after=None, within=within
            )
            for number, one in enumerate([store, other] * 4)
        ),
        return_exceptions=True,
    )

    refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert len(refused) == 7
    assert all(isinstance(outcome, TurnConflictError) for outcome in refused)
    said = [item.content for item in await store.search(metadata=ADA, order="added")]
    assert len({content[0] for content in said}) == 1
    assert [content[2] for content in said] == ["c", "b", "a"]


@pytest.mark.parametrize("where", [None, {"kind": "x"}])
@pytest.mark.parametrize("purge", [True, False])
async def test_each_item_is_popped_once_by_several_processes(
    store: RedisMemoryStore, other: RedisMemoryStore, purge: bool, where: dict[str, Any] | None
) -> None:
    metadata = MemoryMetadata(user_id="ada", extra={"kind": "x"})
    await store.add_many([HumanMemory(content=str(number), metadata=metadata) for number in range(20)])

    popped = await asyncio.gather(*(one.pop(where=where, purge=purge) for one in (store, other) for _ in range(12)))

    taken = [item.content for item in popped if item is not None]
    assert sorted(taken, key=int) == [str(number) for number in range(20)]
    assert await store.count(include_deleted=True) == (0 if purge else 20)


async def test_an_unreadable_item_does_not_stop_a_pop(store: RedisMemoryStore, raw: Any, namespace: str) -> None:
    await store.add_many([HumanMemory(id=name, content=name) for name in ("whole", "damaged")])
    await raw.hset(f"memoranda:{{{namespace}}}:i:damaged", "j", "no json")

    popped = await store.pop()

    assert popped is not None
    assert popped.id == "whole"


# Cheap


async def test_a_namespace_costs_what_it_holds(store: RedisMemoryStore, raw: Any) -> None:
    places = [("team", str(number)) for number in range(50)]
    await store.add_many(
        [
            HumanMemory(content=f"{number}", metadata=MemoryMetadata(user_id="ada", namespace=places[number % 50]))
            for number in range(1000)
        ]
    )
    before = await items_looked_at(raw)
    found = await store.search(metadata=MemoryMetadata(namespace=places[7]), limit=100)
    looked_at = await items_looked_at(raw) - before

    assert len(found) == 20
    assert looked_at <= 40  # Each once for the filter and once for its content.


async def test_the_last_of_a_session_and_a_stretch_of_time_are_read_alone(store: RedisMemoryStore, raw: Any) -> None:
    await store.add_many(
        [
            HumanMemory(
                content=f"{number}", metadata=ADA, created_at=f"2024-05-01T{number // 60:02}:{number % 60:02}:00"
            )
            for number in range(600)
        ]
    )
    before = await items_looked_at(raw)
    await store.search(metadata=ADA, order="added", limit=5)
    await store.head(metadata=ADA)
    await store.append([HumanMemory(content="next", metadata=ADA)], after=await store.head(metadata=ADA))
    stretch = await store.search(metadata=ADA, since="2024-05-01T01:00:00", until="2024-05-01T01:10:00", limit=100)
    counted = await store.count(metadata=ADA, since="2024-05-01T01:00:00", until="2024-05-01T01:10:00")
    looked_at = await items_looked_at(raw) - before

    assert len(stretch) == counted == 10
    assert looked_at < 60


async def test_owners_are_listed_without_looking_at_any_item(store: RedisMemoryStore, raw: Any) -> None:
    await store.add_many(
        [
            HumanMemory(
                content="x", metadata=MemoryMetadata(user_id=f"u{number % 7}", namespace=("p", str(number % 3)))
            )
            for number in range(100)
        ]
    )
    before = await items_looked_at(raw)
    users = [owner async for owner in store.owners()]
    namespaces = [owner async for owner in store.owners("namespace", within=MemoryMetadata(namespace=("p",)))]

    assert await items_looked_at(raw) == before
    assert [owner.value for owner in users] == [f"u{number}" for number in range(7)]
    assert sum(owner.count for owner in users) == sum(owner.count for owner in namespaces) == 100


# Time


async def test_a_clock_that_was_wrong_in_one_process_decides_nothing_in_the_next(
    url: str, namespace: str, store: RedisMemoryStore, raw: Any
) -> None:
    start = time.time()
    store.clock = lambda: start
    await store.add_many([HumanMemory(id="short", content="x"), HumanMemory(id="other", content="y")], ttl=600)
    store.clock = lambda: start + 10 * 365 * 86_400
    assert await store.search() == []
    assert [owner async for owner in store.owners("session_id")] == []
    await store.close()
    kept = f"memoranda:{{{namespace}}}:clock"  # as earlier releases wrote it down
    await raw.set(kept, "2099-01-01T00:00:00.000000+00:00")

    again = RedisMemoryStore(url, namespace=namespace)
    again.clock = lambda: start
    async with again:
        await again.add(HumanMemory(id="late", content="z"), ttl=60)
        assert {item.id for item in await again.search()} == {"short", "other", "late"}
        again.clock = lambda: start + 60
        assert {item.id for item in await again.search()} == {"short", "other"}
        again.clock = lambda: start + 601
        assert await again.sweep() == 3
        again.clock = lambda: start
        assert await again.search() == []


async def test_what_the_server_dropped_by_its_own_clock_is_not_counted(store: RedisMemoryStore, raw: Any) -> None:
    start = time.time()
    store.clock = lambda: start
    await store.add_many([HumanMemory(content="x", metadata=ADA) for _ in range(3)], ttl=0.1)
    await asyncio.sleep(0.3)

    assert await store.search(metadata=ADA) == []
    assert await store.count() == await store.count(metadata=ADA) == 0
    assert [owner async for owner in store.owners()] == []
    await store.append([HumanMemory(content="next", metadata=ADA)], after=None)


async def test_an_import_that_is_over_already_is_never_shown(store: RedisMemoryStore) -> None:
    await store.add(MemoryItem(id="old", content="x", expires_at="2020-01-01T00:00:00+00:00"))

    assert await store.get("old") is None
    assert await store.count(include_deleted=True) == 0


# Migrations


async def rename_sessions(run: Run) -> None:
    """Stand for the first migration; it may run twice."""
    await run(Script("redis.call('SET', KEYS[1] .. 'first', '1')"), [])


async def count_renamed(run: Run) -> None:
    """Stand for the second one, which builds on the first."""
    await run(Script("redis.call('SET', KEYS[1] .. 'second', redis.call('GET', KEYS[1] .. 'first') + 1)"), [])


async def fail(run: Run) -> None:
    """Stand for a migration that is interrupted."""
    await run(Script("return redis.error_reply('interrupted')"), [])


async def test_migrations_run_in_order_and_the_items_stay(
    store: RedisMemoryStore, url: str, raw: Any, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add(HumanMemory(id="kept", content="x", metadata=ADA))
    monkeypatch.setattr("memoranda_redis.store.MIGRATIONS", (rename_sessions, count_renamed))

    for _ in range(2):
        async with RedisMemoryStore(url, namespace=namespace) as later:
            assert [item.id for item in await later.search(metadata=ADA)] == ["kept"]

    base = f"memoranda:{{{namespace}}}:"
    assert await raw.mget(f"{base}schema", f"{base}first", f"{base}second") == ["3", "1", "2"]


async def test_an_interrupted_migration_runs_again(
    store: RedisMemoryStore, url: str, raw: Any, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoranda_redis.store.MIGRATIONS", (rename_sessions, fail))
    with pytest.raises(StoreError):
        await RedisMemoryStore(url, namespace=namespace).init()
    assert await raw.get(f"memoranda:{{{namespace}}}:schema") == "2"

    monkeypatch.setattr("memoranda_redis.store.MIGRATIONS", (rename_sessions, count_renamed))
    async with RedisMemoryStore(url, namespace=namespace):
        pass
    assert await raw.get(f"memoranda:{{{namespace}}}:schema") == "3"
