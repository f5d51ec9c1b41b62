"""What other programs and accidents leave behind: one unreadable thing never stops the rest, and is named."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from memoranda import AIMemory, HumanMemory, MemoryMetadata
from memoranda.errors import CorruptStoreError, StoreError
from memoranda_redis import CorruptEntryError, RedisMemoryStore, ShortTermMemoryManager

ADA = MemoryMetadata(user_id="ada", session_id="s1", agent_id="nova")
SECRET = "the code is 1234"
NOT_UTF8 = b"\xff\xfe"


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return uuid.uuid4().hex


@pytest.fixture
async def store(url: str, namespace: str) -> AsyncIterator[RedisMemoryStore]:
    async with RedisMemoryStore(url, namespace=namespace) as store:
        yield store


# Items of the store


async def body(raw: Any, key: str, **changes: Any) -> None:
    """Change what the JSON of an item says."""
    written = json.loads(await raw.hget(key, "j"))
    await raw.hset(key, "j", json.dumps(written | changes))


async def string_instead(raw: Any, key: str) -> None:
    await raw.delete(key)
    await raw.set(key, SECRET)


async def list_instead(raw: Any, key: str) -> None:
    await raw.delete(key)
    await raw.rpush(key, SECRET)


async def cut_off(raw: Any, key: str) -> None:
    written = await raw.hget(key, "j")
    await raw.hset(key, "j", written[: len(written) // 2])


Damage = Callable[[Any, str], Awaitable[Any]]
DAMAGES: dict[str, Damage] = {
    "no json": lambda raw, key: raw.hset(key, "j", "no json"),
    "json cut off": cut_off,
    "a json list": lambda raw, key: raw.hset(key, "j", "[1, 2]"),
    "an empty object": lambda raw, key: raw.hset(key, "j", "{}"),
    "deep json": lambda raw, key: raw.hset(key, "j", "[" * 100_000),
    "a type that is a list": lambda raw, key: body(raw, key, memory_type=["ai"]),
    "an unknown status": lambda raw, key: body(raw, key, status="lost"),
    "a status that is a list": lambda raw, key: body(raw, key, status=[]),
    "a scope of numbers": lambda raw, key: body(raw, key, metadata=[1, 2, 3, 4, {}]),
    "a short scope": lambda raw, key: body(raw, key, metadata=["ada"]),
    "extra that is text": lambda raw, key: body(raw, key, metadata=["ada", "s1", None, "nova", "x"]),
    "a time that is a number": lambda raw, key: body(raw, key, updated_at=5),
    "a time that is none": lambda raw, key: body(raw, key, updated_at="never"),
    "a name that is a number": lambda raw, key: body(raw, key, name=5),
    "tool calls that are text": lambda raw, key: body(raw, key, tool_calls="x"),
    "content that is not UTF-8": lambda raw, key: raw.hset(key, "c", NOT_UTF8),
    "json that is not UTF-8": lambda raw, key: raw.hset(key, "j", NOT_UTF8),
    "no json at all": lambda raw, key: raw.hdel(key, "j"),
    "no version": lambda raw, key: raw.hdel(key, "v"),
    "a version that is no number": lambda raw, key: raw.hset(key, "v", "new"),
    "no place": lambda raw, key: raw.hdel(key, "m"),
    "a text at the key": string_instead,
    "a list at the key": list_instead,
}


@pytest.fixture(params=DAMAGES)
async def damaged(
    request: pytest.FixtureRequest, store: RedisMemoryStore, raw: Any, namespace: str
) -> RedisMemoryStore:
    """The store with three items of one user, of which the second, ``damaged``, cannot be read."""
    await store.add_many(
        [
            HumanMemory(id="first", content="saffron one", metadata=ADA, created_at="2024-05-01"),
            AIMemory(id="damaged", content=SECRET, metadata=ADA, created_at="2024-05-02"),
            HumanMemory(id="last", content="saffron two", metadata=ADA, created_at="2024-05-03"),
        ]
    )
    await DAMAGES[request.param](raw, f"memoranda:{{{namespace}}}:i:damaged")
    return store


async def test_reading_leaves_out_what_cannot_be_read(
    damaged: RedisMemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    for metadata in (None, MemoryMetadata(user_id="ada"), ADA):
        assert [item.id for item in await damaged.search(metadata=metadata)] == ["last", "first"]
        assert [item.id for item in await damaged.search(metadata=metadata, limit=2)] == ["last", "first"]
        assert [item.id async for item in damaged.scan(metadata=metadata)] == ["first", "last"]
        assert {item.id for item in await damaged.search(query="saffron", metadata=metadata, mode="text")} == {
            "first",
            "last",
        }
        assert await damaged.count(metadata=metadata) in (2, 3)
    assert SECRET not in caplog.text


async def test_what_cannot_be_read_takes_no_place_in_a_window(damaged: RedisMemoryStore) -> None:
    await damaged.delete("last")
    await damaged.add_many([AIMemory(id=f"answer {number}", content="tea", metadata=ADA) for number in range(4)])
    shown = await damaged.window(metadata=ADA, rounds=1)
    assert [item.id for item in shown] == ["first", *(f"answer {number}" for number in range(4))]


async def test_get_says_which_item_cannot_be_read(damaged: RedisMemoryStore) -> None:
    with pytest.raises(CorruptStoreError) as caught:
        await damaged.get("damaged")

    assert SECRET not in str(caught.value)
    assert await damaged.get("first") is not None


async def test_doctor_names_what_cannot_be_read(damaged: RedisMemoryStore) -> None:
    findings = await damaged.doctor()

    wrong = [finding for finding in findings if not finding.ok]
    assert any("'damaged'" in finding.detail for finding in wrong)
    assert all(finding.remedy for finding in wrong)
    assert SECRET not in str(findings)


async def test_the_rest_is_cleared_and_restored(damaged: RedisMemoryStore) -> None:
    assert await damaged.clear(metadata=ADA) in (2, 3)
    assert await damaged.search() == []
    assert await damaged.restore(metadata=ADA) in (2, 3)
    assert [item.id for item in await damaged.search()] == ["last", "first"]


async def test_a_purge_of_its_user_takes_it_along(damaged: RedisMemoryStore, raw: Any, namespace: str) -> None:
    key = f"memoranda:{{{namespace}}}:i:damaged"
    ours = await raw.type(key) == "hash"

    assert await damaged.purge(metadata=MemoryMetadata(user_id="ada")) == (3 if ours else 2)

    # What is no hash was never written by this store, and is left to whoever did.
    assert bool(await raw.exists(key)) is not ours
    assert await damaged.search() == []


async def test_adding_its_id_replaces_it_or_is_refused_as_a_whole(damaged: RedisMemoryStore) -> None:
    items = [HumanMemory(id=name, content="new", metadata=ADA) for name in ("first", "damaged", "last")]
    try:
        await damaged.add_many(items)
    except StoreError:
        assert {item.content for item in await damaged.search()} == {"saffron one", "saffron two"}
    else:
        assert [item.content for item in await damaged.search()] == ["new"] * 3
        findings = await damaged.doctor(repair=True)
        assert all(finding.ok for finding in findings if finding.name != "persistence")  # The server keeps nothing.


async def test_a_foreign_member_among_those_that_expire_stops_nothing(
    store: RedisMemoryStore, raw: Any, namespace: str
) -> None:
    await raw.zadd(f"memoranda:{{{namespace}}}:ttl", {"no json": 1, "[1]": 2, "5": 3, '["x",5]': 4})

    await store.add(HumanMemory(id="kept", content="x", metadata=ADA))

    assert [item.id for item in await store.search()] == ["kept"]
    assert await store.count() == await store.clear() == 1


async def test_a_foreign_member_of_an_index_stops_nothing(store: RedisMemoryStore, raw: Any, namespace: str) -> None:
    await store.add(HumanMemory(id="kept", content="x", metadata=ADA))
    for member in ("", "short", NOT_UTF8, "2024" * 20):
        await raw.zadd(f"memoranda:{{{namespace}}}:live", {member: 0})

    assert [item.id for item in await store.search()] == ["kept"]
    assert [item.id async for item in store.scan()] == ["kept"]
    assert not (await store.doctor())[-1].ok
    assert (await store.doctor(repair=True))[-1].ok
    assert await store.count() == await store.clear() == 1


async def test_an_index_that_is_something_else_is_named_and_no_bare_error(
    store: RedisMemoryStore, raw: Any, namespace: str
) -> None:
    await store.add(HumanMemory(id="kept", content="x", metadata=ADA))
    await string_instead(raw, f"memoranda:{{{namespace}}}:live:user_id:ada")

    with pytest.raises(CorruptStoreError):
        await store.search(metadata=ADA)
    assert [item.id for item in await store.search()] == ["kept"]
    wrong = [finding for finding in await store.doctor() if not finding.ok]
    assert any("live:user_id:ada" in finding.detail for finding in wrong)


@pytest.mark.parametrize("version", ["new", "", "1e400"])
async def test_a_schema_version_that_is_none_is_a_corrupt_store(
    url: str, raw: Any, namespace: str, version: str
) -> None:
    await raw.set(f"memoranda:{{{namespace}}}:schema", version)

    with pytest.raises(StoreError):
        await RedisMemoryStore(url, namespace=namespace).init()


# Entries of the episodic memory

NOW = datetime.now(UTC).isoformat(timespec="microseconds")
WHOLE = {"timestamp": NOW, "id": "1", "interaction_type": "t", "content": SECRET}


def changed(**parts: Any) -> str:
    return json.dumps({**WHOLE, **parts})


ENTRIES: dict[str, str | bytes] = {
    "no json": "no json",
    "nothing": "",
    "cut off": json.dumps(WHOLE)[:-5],
    "not UTF-8": NOT_UTF8,
    "not UTF-8 within": json.dumps(WHOLE).encode().replace(b"code", NOT_UTF8),
    "a list": "[]",
    "a number": "5",
    "null": "null",
    "deep": "[" * 100_000,
    "no timestamp": '{"id":"1"}',
    "no content": json.dumps({name: part for name, part in WHOLE.items() if name != "content"}),
    "an id that is a number": changed(id=1),
    "content that is a number": changed(content=5),
    "half a character": changed(content="\ud800"),
    "an unknown status": changed(status="lost"),
    "a status that is a list": changed(status=[]),
    "metadata that is a list": changed(metadata=["x"]),
    "more that is a list": changed(more=["x"]),
    "a user that is a number": changed(user_id=5),
    "archived by a number": changed(more={"archived_by": 5}),
    "two in one": f"{json.dumps(WHOLE)},{json.dumps(WHOLE)}",
    "an end and a start": f"{json.dumps(WHOLE)}],[{json.dumps(WHOLE)}",
}


@pytest.fixture(params=ENTRIES)
async def unreadable(
    request: pytest.FixtureRequest, memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> ShortTermMemoryManager:
    """A memory with two interactions, and an entry between them that is none."""
    await memory.add_interaction("t", "before")
    await raw.set(f"{prefix}junk", ENTRIES[request.param])
    await raw.zadd(f"{prefix}index", {f"{prefix}junk": time.time()})
    await memory.add_interaction("t", "after")
    return memory


async def test_an_unreadable_entry_is_left_out_and_named_in_the_log(
    unreadable: ShortTermMemoryManager, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert [found.content for found in await unreadable.get_recent()] == ["after", "before"]
    assert len(await unreadable.get_recent_summaries()) == 2
    assert f"{prefix}junk" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.rare
async def test_an_unreadable_entry_takes_no_place_under_a_limit(unreadable: ShortTermMemoryManager) -> None:
    assert [found.content for found in await unreadable.get_recent(limit=2)] == ["after", "before"]
    assert [found.content for found in await unreadable.get_recent(limit=1)] == ["after"]


async def test_the_memorys_doctor_names_an_unreadable_entry(unreadable: ShortTermMemoryManager, prefix: str) -> None:
    (finding,) = await unreadable.doctor()

    assert not finding.ok
    assert f"{prefix}junk" in finding.detail
    assert SECRET not in f"{finding.detail} {finding.remedy}"


@pytest.mark.parametrize("timestamp", ["never", "", 5, None, [], "2026-13-01"])
async def test_an_entry_with_an_invalid_timestamp_is_a_value_error(
    memory: ShortTermMemoryManager, raw: Any, prefix: str, timestamp: Any
) -> None:
    await memory.add_interaction("t", "before")
    await raw.set(f"{prefix}junk", changed(timestamp=timestamp))
    await raw.zadd(f"{prefix}index", {f"{prefix}junk": time.time()})

    with pytest.raises(ValueError, match="timestamp") as caught:
        await memory.get_recent()

    assert isinstance(caught.value, CorruptEntryError)
    assert SECRET not in str(caught.value)
    assert f"{prefix}junk" in (await memory.doctor())[0].detail


async def test_a_key_of_another_type_is_named_in_the_log(
    memory: ShortTermMemoryManager, raw: Any, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    await memory.add_interaction("t", "before")
    await raw.hset(f"{prefix}odd", "a", SECRET)
    await raw.zadd(f"{prefix}index", {f"{prefix}odd": time.time()})

    assert [found.content for found in await memory.get_recent()] == ["before"]
    assert f"{prefix}odd" in caplog.text
    assert f"{prefix}odd" in (await memory.doctor())[0].detail


async def test_a_healthy_memory_has_nothing_to_mend(memory: ShortTermMemoryManager) -> None:
    for number in range(3):
        await memory.add_interaction("t", str(number))

    (finding,) = await memory.doctor()

    assert finding.ok
    assert finding.detail == "all 3 can be read"


async def test_many_unreadable_entries_hide_no_interaction(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    await memory.add_interaction("t", "before")
    for number in range(30):
        await raw.set(f"{prefix}junk{number}", "no json")
        await raw.zadd(f"{prefix}index", {f"{prefix}junk{number}": time.time() + number})

    assert [found.content for found in await memory.get_recent(limit=1)] == ["before"]


async def test_an_index_of_another_type_is_a_corrupt_store(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    await raw.set(f"{prefix}index", "x")

    with pytest.raises(CorruptStoreError):
        await memory.get_recent()
    with pytest.raises(CorruptStoreError):
        await memory.add_interaction("t", "x")
