"""What is particular to the Redis store: namespaces, URLs, lifetimes, lost answers, and what is left in Redis."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

import memoranda
from memoranda import HumanMemory, InputError, MemoryItem, MemoryMetadata
from memoranda.errors import (
    CorruptStoreError,
    IdConflictError,
    SchemaTooNewError,
    StoreClosedError,
    StoreUnavailableError,
    VersionConflictError,
)
from memoranda.store import Finding
from memoranda_redis import EpisodicMemory, RedisMemoryStore
from servers import RedisServer, redis_server, redis_tls_server

ADA = MemoryMetadata(user_id="ada", session_id="s1")
BOB = MemoryMetadata(user_id="bob", session_id="s1")


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return uuid.uuid4().hex


@pytest.fixture
async def store(url: str, namespace: str) -> AsyncIterator[RedisMemoryStore]:
    async with RedisMemoryStore(url, namespace=namespace) as store:
        yield store


async def keys_of(raw: Any, namespace: str) -> set[str]:
    """Return the keys of a namespace, without their common start."""
    base = f"memoranda:{{{namespace}}}:"
    return {key.removeprefix(base) async for key in raw.scan_iter(match=f"memoranda:{{{namespace}}}:*")}


def contents(items: list[MemoryItem]) -> list[str]:
    return [item.content for item in items]


# Opening


async def test_a_store_is_opened_by_its_url(url: str, namespace: str) -> None:
    item = EpisodicMemory(content="hello", interaction_type="said", platform="x")
    async with memoranda.open(f"{url}?namespace={namespace}&timeout=20&max_connections=3") as store:
        await store.add(item)
        found = await store.get(item.id)

    assert isinstance(store, RedisMemoryStore)
    assert isinstance(found, EpisodicMemory)
    assert (found.interaction_type, found.platform) == ("said", "x")
    assert namespace in repr(store)


async def test_options_may_be_keywords(url: str, namespace: str) -> None:
    async with memoranda.open(url, namespace=namespace) as store:
        assert namespace in repr(store)


@pytest.mark.parametrize("query", ["no_such_option=1", "timeout=soon", "namespace=", "max_connections=0"])
def test_an_option_that_makes_no_sense_is_refused_by_name(query: str) -> None:
    with pytest.raises(InputError, match=query.partition("=")[0]):
        memoranda.open(f"redis://localhost:6379/0?{query}")


def test_an_unknown_keyword_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="no_such_option"):
        memoranda.open("redis://localhost:6379/0", no_such_option=1)


@pytest.mark.parametrize("namespace", ["", "a{b", "a}b", "a\0b", None])
def test_a_namespace_that_cannot_be_a_hash_tag_is_refused(namespace: Any) -> None:
    with pytest.raises(InputError, match="namespace"):
        RedisMemoryStore(namespace=namespace)


def test_a_repr_hides_the_password() -> None:
    assert "hidden" not in repr(RedisMemoryStore("redis://ada:hidden@localhost:6379/0"))


async def test_namespaces_never_see_each_other(url: str, namespace: str, store: RedisMemoryStore) -> None:
    item = HumanMemory(content="mine", metadata=ADA)
    await store.add(item)
    async with RedisMemoryStore(url, namespace=f"{namespace}2") as other:
        assert await other.get(item.id) is None
        assert await other.search() == []
        assert await other.clear() == 0
        await other.add(HumanMemory(id=item.id, content="theirs", metadata=BOB))

    assert contents(await store.search()) == ["mine"]


async def test_data_of_a_later_release_is_left_alone(url: str, namespace: str, raw: Any) -> None:
    await raw.set(f"memoranda:{{{namespace}}}:schema", 99)

    with pytest.raises(SchemaTooNewError, match="99"):
        await RedisMemoryStore(url, namespace=namespace).init()

    assert await keys_of(raw, namespace) == {"schema"}


async def test_an_absent_server_is_unavailable_in_bounded_time(absent: int) -> None:
    store = RedisMemoryStore(f"redis://127.0.0.1:{absent}/0", timeout=1)

    async with asyncio.timeout(240):
        with pytest.raises(ConnectionError) as caught:
            await store.init()

    assert isinstance(caught.value, StoreUnavailableError)


async def test_what_was_acknowledged_survives_a_killed_server() -> None:
    with redis_server(private=True, persistent=True) as server:
        async with RedisMemoryStore(server.url) as store:
            await store.add_many([HumanMemory(content=str(number), metadata=ADA) for number in range(20)])
            server.kill()
            server.start()

            assert await store.count() == 20


async def test_an_acl_user_of_one_namespace_can_work_there() -> None:
    rules = "~memoranda:{mine}:* +@read +@write +@scripting +@connection +time"
    with redis_server(users={"app": ("secret", rules)}) as server:
        assert isinstance(server, RedisServer)
        async with RedisMemoryStore(server.url_for("app"), namespace="mine") as store:
            await store.add(HumanMemory(content="x"), ttl=60)
            assert await store.count() == 1
        with pytest.raises(StoreUnavailableError, match="refused"):
            await RedisMemoryStore(server.url_for("app"), namespace="other").init()


async def test_a_store_is_reached_over_tls() -> None:
    with redis_tls_server() as server:
        assert isinstance(server, RedisServer)
        async with memoranda.open(f"{server.url}?ssl_ca_certs={server.certificates.authority}") as store:
            await store.add(HumanMemory(content="x"))

            assert await store.count() == 1


async def test_a_scan_that_outlives_its_store_ends_with_an_error_and_opens_nothing(namespace: str) -> None:
    with redis_server(private=True) as server:
        store = RedisMemoryStore(server.url, namespace=namespace)
        await store.init()
        await store.add_many([HumanMemory(content=str(number)) for number in range(1500)])
        scan = store.scan()
        await anext(scan)
        await store.close()

        with pytest.raises(StoreClosedError):
            [item async for item in scan]
        async with Redis.from_url(server.url) as raw:
            assert len(await raw.client_list()) == 1


# Lost answers


@pytest.fixture
async def shaky(wire: Any, namespace: str) -> AsyncIterator[RedisMemoryStore]:
    """A store whose answers get lost as often as the test says."""
    async with RedisMemoryStore(wire.url, namespace=namespace) as store:
        yield store


async def test_an_add_whose_answer_was_lost_is_done_once(shaky: RedisMemoryStore, wire: Any) -> None:
    item = HumanMemory(content="x", metadata=ADA)
    wire.lose_answers = 2
    await shaky.add(item)

    found = await shaky.get(item.id)

    assert found is not None
    assert found.version == 1


async def test_an_update_whose_answer_was_lost_is_no_conflict(shaky: RedisMemoryStore, wire: Any) -> None:
    items = [HumanMemory(content=str(number), metadata=ADA) for number in range(3)]
    await shaky.add_many(items)
    stored = (await shaky.search())[::-1]
    wire.lose_answers = 1

    updated = await shaky.update_many(stored)

    assert [item.version for item in updated] == [2, 2, 2]
    assert [item.version for item in await shaky.search()] == [2, 2, 2]


async def test_removals_whose_answer_was_lost_are_counted_once(shaky: RedisMemoryStore, wire: Any) -> None:
    items = [HumanMemory(content=str(number), metadata=ADA) for number in range(5)]
    await shaky.add_many(items)

    wire.lose_answers = 1
    assert await shaky.delete(items[0].id) is True
    wire.lose_answers = 1
    assert await shaky.restore(items[0].id) == 1
    wire.lose_answers = 1
    assert await shaky.clear(metadata=ADA) == 5
    wire.lose_answers = 1
    assert await shaky.restore(metadata=ADA) == 5
    wire.lose_answers = 1
    assert await shaky.purge(metadata=ADA) == 5


# What is left in Redis


async def test_a_purge_leaves_no_trace_of_a_user(store: RedisMemoryStore, raw: Any, namespace: str) -> None:
    ada = [HumanMemory(content=f"ada {number}", metadata=ADA) for number in range(3)]
    await store.add_many(ada)
    await store.add(HumanMemory(content="short", metadata=ADA), ttl=60)
    await store.delete(ada[0].id)
    await store.add(HumanMemory(id="bob", content="bob", metadata=BOB))

    await store.purge(metadata=MemoryMetadata(user_id="ada"))

    left = {key for key in await keys_of(raw, namespace) if not key.startswith("done:")}
    indexes = {f"{family}{of}" for family in ("live", "said") for of in ("", ":user_id:bob", ":session_id:s1")}
    assert left == {"schema", "added", "changes", "i:bob", "values:user_id", "values:session_id", *indexes}
    log = await raw.xrange(f"memoranda:{{{namespace}}}:changes")
    assert all(re.fullmatch(r"[0-9 ]+", text) for _, entry in log for text in entry.values()), "numbers of items alone"
    assert await raw.zrange(f"memoranda:{{{namespace}}}:values:user_id", 0, -1) == ["bob"]
    assert await raw.zcard(f"memoranda:{{{namespace}}}:live:session_id:s1") == 1


async def test_an_item_that_expires_is_gone_from_redis_by_itself(
    store: RedisMemoryStore, raw: Any, namespace: str
) -> None:
    await store.add(HumanMemory(id="gone", content="secret", metadata=ADA), ttl=0.2)

    await asyncio.sleep(0.4)

    assert not await raw.exists(f"memoranda:{{{namespace}}}:i:gone")


@pytest.mark.rare
async def test_the_traces_of_expired_items_go_with_the_next_call(
    store: RedisMemoryStore, raw: Any, namespace: str
) -> None:
    items = [HumanMemory(content=str(number), metadata=ADA) for number in range(120)]
    await store.add_many(items, ttl=2)
    await store.delete(items[0].id)
    await asyncio.sleep(2.2)

    assert await store.count(include_deleted=True) == 0

    left = {key for key in await keys_of(raw, namespace) if not key.startswith("done:")}
    assert left == {"schema", "added", "changes"}  # The last names places alone.


async def test_an_id_that_expired_is_free_for_anyone(store: RedisMemoryStore) -> None:
    await store.add(HumanMemory(id="id", content="ada's", metadata=ADA), ttl=0.1)
    await asyncio.sleep(0.3)
    await store.add(HumanMemory(id="id", content="bob's", metadata=BOB))

    assert contents(await store.search()) == ["bob's"]
    assert await store.count(metadata=MemoryMetadata(user_id="ada")) == 0


async def test_what_takes_the_id_of_an_expired_item_stays(store: RedisMemoryStore) -> None:
    # More have expired than one call tidies up after, and this one is the last in line.
    await store.add_many([MemoryItem(content="short") for _ in range(200)], ttl=0.05)
    await store.add(MemoryItem(id="again", content="short"), ttl=0.1)
    await asyncio.sleep(0.3)

    await store.add(MemoryItem(id="again", content="lasting"))

    assert await store.count() == 1
    assert [item.content for item in await store.search()] == ["lasting"]
    found = await store.get("again")
    assert found is not None
    assert found.content == "lasting"


async def test_an_item_that_the_server_dropped_and_that_is_added_again_is_found_once(
    store: RedisMemoryStore, raw: Any, namespace: str
) -> None:
    ada = MemoryMetadata(user_id="ada", session_id="s")
    await store.add(MemoryItem(id="dropped", content="first", metadata=ada))
    await raw.delete(f"memoranda:{{{namespace}}}:i:dropped")

    await store.add(MemoryItem(id="dropped", content="second", metadata=ada))

    assert [item.content for item in await store.search(metadata=ada)] == ["second"]
    assert [item.content async for item in store.scan()] == ["second"]
    assert await store.count(metadata=ada) == 1


async def test_a_comparison_of_versions_says_nothing_of_hidden_items(store: RedisMemoryStore) -> None:
    await store.add(MemoryItem(id="hidden", content="theirs", metadata=MemoryMetadata(user_id="them")))
    await store.delete("hidden")
    mine = MemoryItem(id="hidden", content="mine", metadata=MemoryMetadata(user_id="me"), version=1)

    with pytest.raises(VersionConflictError):
        await store.update(mine)
    with pytest.raises(VersionConflictError):
        await store.update(mine, within=MemoryMetadata(extra={"team": "mine"}))


@pytest.mark.rare
async def test_an_update_keeps_what_is_left_of_a_lifetime(store: RedisMemoryStore, raw: Any, namespace: str) -> None:
    await store.add(HumanMemory(id="id", content="draft", metadata=ADA), ttl=600)
    item = await store.get("id")
    assert item is not None
    item.content = "final"
    await store.update(item)

    assert contents(await store.search()) == ["final"]
    assert 0 < await raw.pttl(f"memoranda:{{{namespace}}}:i:id") <= 600_000
    present = time.time()
    store.clock = lambda: present + 601
    assert await store.get("id") is None


async def test_a_damaged_item_is_named_by_get_and_left_out_of_searches(
    store: RedisMemoryStore, raw: Any, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    await store.add_many([HumanMemory(id="damaged", content="x"), HumanMemory(id="whole", content="y")])
    await raw.hset(f"memoranda:{{{namespace}}}:i:damaged", "j", "no json")

    with pytest.raises(CorruptStoreError, match="damaged"):
        await store.get("damaged")
    assert contents(await store.search()) == ["y"]
    assert [item.id async for item in store.scan()] == ["whole"]
    assert "damaged" in caplog.text


# Health


def named(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


async def test_a_healthy_store_has_nothing_to_mend(store: RedisMemoryStore) -> None:
    await store.add_many([HumanMemory(content=str(number), metadata=ADA) for number in range(50)])
    await store.delete((await store.search(limit=1))[0].id)

    findings = await store.doctor()

    names = ["server", "persistence", "eviction", "ranked text", "rows", "indexes"]
    assert [finding.name for finding in findings] == names
    assert all(finding.ok for finding in findings if finding.name != "persistence")  # Servers of tests keep nothing.


async def test_a_server_that_keeps_nothing_over_a_crash_is_a_finding() -> None:
    with redis_server(settings={"appendonly": "no"}) as server:
        async with RedisMemoryStore(server.url) as store:
            finding = named(await store.doctor())["persistence"]

    assert not finding.ok
    assert "appendonly yes" in finding.remedy


async def test_indexes_that_were_damaged_are_mended(store: RedisMemoryStore, raw: Any, namespace: str) -> None:
    base = f"memoranda:{{{namespace}}}:"
    await store.add_many([HumanMemory(id=f"id-{number}", content=str(number), metadata=ADA) for number in range(5)])
    await raw.delete(f"{base}i:id-0", f"{base}live:user_id:ada")

    damaged = named(await store.doctor())["indexes"]
    mended = named(await store.doctor(repair=True))["indexes"]

    assert not damaged.ok
    assert damaged.detail == "4 items are missing from an index, and 6 index members have no item"
    assert mended.ok
    assert len(await store.search(metadata=MemoryMetadata(user_id="ada"))) == 4
    assert await store.count() == 4


async def test_a_namespace_with_signs_is_examined_alone(url: str, namespace: str, store: RedisMemoryStore) -> None:
    await store.add(HumanMemory(content="x"))
    async with RedisMemoryStore(url, namespace=f"[{namespace[:-1]}?*]\\^") as odd:
        await odd.add_many([HumanMemory(content=str(number), metadata=ADA) for number in range(3)])

        assert named(await odd.doctor())["indexes"].detail == "8 indexes agree with the items"


async def test_a_server_that_drops_memories_when_it_is_full_is_a_finding() -> None:
    with redis_server(settings={"maxmemory": "50mb", "maxmemory-policy": "allkeys-lru", "appendonly": "yes"}) as server:
        async with RedisMemoryStore(server.url) as store:
            findings = named(await store.doctor())

    assert not findings["eviction"].ok
    assert "noeviction" in findings["eviction"].remedy
    assert "append-only file;" in findings["persistence"].detail


async def test_a_server_that_hides_its_settings_is_no_fault() -> None:
    rules = "~* +@all -info"
    with redis_server(users={"app": ("secret", rules)}) as server:
        assert isinstance(server, RedisServer)
        async with RedisMemoryStore(server.url_for("app")) as store:
            findings = await store.doctor()

    assert all(finding.ok for finding in findings)
    assert "hidden" in findings[0].detail


# Large and rare


@pytest.mark.rare
async def test_few_matches_among_thousands_are_found(store: RedisMemoryStore) -> None:
    crowd = [MemoryItem(content=f"crowd {number}", memory_type="note", metadata=ADA) for number in range(4500)]
    await store.add_many([HumanMemory(content="first needle", metadata=ADA), *crowd])
    await store.add(HumanMemory(content="last needle", metadata=ADA))

    assert contents(await store.search(memory_type="human")) == ["last needle", "first needle"]
    assert contents(await store.search(query="NEEDLE", metadata=ADA)) == ["last needle", "first needle"]
    assert len(await store.search(limit=10_000)) == 4502
    assert sum([1 async for _ in store.scan(metadata=ADA)]) == 4502


@pytest.mark.rare
async def test_thousands_are_hidden_restored_and_purged(store: RedisMemoryStore, raw: Any, namespace: str) -> None:
    await store.add_many([HumanMemory(content=str(number), metadata=ADA) for number in range(4500)])
    await store.add(HumanMemory(content="bob", metadata=BOB))

    assert await store.clear(metadata=MemoryMetadata(user_id="ada")) == 4500
    assert contents(await store.search()) == ["bob"]
    assert await store.restore(metadata=MemoryMetadata(session_id="s1", user_id="ada")) == 4500
    assert await store.count(metadata=ADA) == 4500
    assert await store.purge(metadata=ADA) == 4500
    assert await store.count(include_deleted=True) == 1


async def test_a_filter_by_extra_hides_restores_and_purges_exactly_what_matches(store: RedisMemoryStore) -> None:
    big = 2**60 + 1
    for number, extra in enumerate([{"n": 1}, {"n": True}, {"n": big}, {"n": big - 1}, {}]):
        item = HumanMemory(content=str(number), metadata=MemoryMetadata(user_id="ada", extra=extra))
        await store.add(item)

    assert await store.count(metadata=MemoryMetadata(extra={"n": big})) == 1
    assert await store.clear(metadata=MemoryMetadata(extra={"n": big})) == 1
    assert sorted(contents(await store.search())) == ["0", "1", "3", "4"]
    assert await store.restore(metadata=MemoryMetadata(extra={"n": big})) == 1
    assert await store.purge(metadata=MemoryMetadata(extra={"n": 1})) == 1
    assert sorted(contents(await store.search())) == ["1", "2", "3", "4"]


async def test_an_id_outside_an_extra_filter_is_not_replaced(store: RedisMemoryStore) -> None:
    item = HumanMemory(content="x", metadata=MemoryMetadata(user_id="ada", extra={"team": "a"}))
    await store.add(item)

    with pytest.raises(IdConflictError):
        await store.add(item, within=MemoryMetadata(extra={"team": "b"}))
    with pytest.raises(IdConflictError):
        await store.update(item, within=MemoryMetadata(extra={"team": "b"}))
    assert await store.delete(item.id, metadata=MemoryMetadata(extra={"team": "b"})) is False
    assert await store.delete(item.id, metadata=MemoryMetadata(extra={"team": "a"})) is True


@pytest.mark.rare
def test_processes_that_count_up_one_item_lose_nothing(url: str, namespace: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from memoranda.errors import VersionConflictError\n"
        "from memoranda_redis import RedisMemoryStore\n"
        "async def main():\n"
        "    async with RedisMemoryStore(sys.argv[1], namespace=sys.argv[2]) as store:\n"
        "        done = 0\n"
        "        while done < 20:\n"
        "            item = await store.get('counter')\n"
        "            item.content = str(int(item.content) + 1)\n"
        "            try:\n"
        "                await store.update(item)\n"
        "            except VersionConflictError:\n"
        "                continue\n"
        "            done += 1\n"
        "asyncio.run(main())\n"
    )

    async def start() -> None:
        async with RedisMemoryStore(url, namespace=namespace) as store:
            await store.add(HumanMemory(id="counter", content="0"))

    async def counted() -> MemoryItem | None:
        async with RedisMemoryStore(url, namespace=namespace) as store:
            return await store.get("counter")

    asyncio.run(start())
    processes = [subprocess.Popen([sys.executable, "-c", program, url, namespace]) for _ in range(3)]
    assert [process.wait(200) for process in processes] == [0, 0, 0]
    found = asyncio.run(counted())

    assert found is not None
    assert (found.content, found.version) == ("60", 61)


@pytest.mark.rare
async def test_a_refused_batch_leaves_everything_as_it_was(store: RedisMemoryStore, raw: Any, namespace: str) -> None:
    await store.add(HumanMemory(id="bob", content="bob", metadata=BOB))
    before = await keys_of(raw, namespace)
    batch = [HumanMemory(content="new", metadata=ADA), HumanMemory(id="bob", content="mine now", metadata=ADA)]

    with pytest.raises(IdConflictError):
        await store.add_many(batch)
    with pytest.raises((IdConflictError, VersionConflictError)):
        await store.update_many(batch)

    assert await keys_of(raw, namespace) == before
    assert contents(await store.search()) == ["bob"]
