"""Ranked search on Redis: what is kept of a scope follows every change, whoever makes it, and shows nothing else."""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store.lifetimes import Lifetimes
from memoranda_redis import RedisMemoryStore

WORDS = ("saffron", "telescope", "radiator", "bicycle", "lemon", "winter", "garden", "violin", "tea")
USERS = ("ada", "bob")


class Clock:
    """A clock that only tests set."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return uuid.uuid4().hex


@pytest.fixture
def clock() -> Clock:
    return Clock(1_900_000_000.0)


@pytest.fixture
async def store(url: str, namespace: str, clock: Clock) -> AsyncIterator[RedisMemoryStore]:
    async with RedisMemoryStore(url, namespace=namespace) as store:
        store.clock = clock
        yield store


@pytest.fixture
async def other(url: str, namespace: str, clock: Clock) -> AsyncIterator[RedisMemoryStore]:
    """The same data, as another process has it."""
    async with RedisMemoryStore(url, namespace=namespace) as store:
        store.clock = clock
        yield store


def note(chance: random.Random, number: int) -> MemoryItem:
    return HumanMemory(
        id=f"item{number}",
        content=" ".join(chance.choices(WORDS, range(1, len(WORDS) + 1), k=5)),
        metadata=MemoryMetadata(user_id=USERS[number % 2], session_id=f"s{chance.randrange(4)}"),
        created_at=f"2024-05-{chance.randrange(1, 28):02d}T10:{chance.randrange(60):02d}:00",
        ttl=chance.choice([None, None, 600.0, 5_000.0]),
    )


async def ranked(store: RedisMemoryStore, query: str, metadata: MemoryMetadata) -> list[tuple[str, str, int, float]]:
    found = await store.search_ranked(query=query, metadata=metadata, mode="text", limit=100)
    return [(each.item.id, each.item.content, each.item.version, each.score) for each in found]


async def fresh(
    url: str, namespace: str, clock: Clock, query: str, metadata: MemoryMetadata
) -> list[tuple[str, str, int, float]]:
    """What a process finds that has never searched before."""
    async with RedisMemoryStore(url, namespace=namespace) as store:
        store.clock = clock
        return await ranked(store, query, metadata)


async def change(store: RedisMemoryStore, chance: random.Random, clock: Clock, round_: int) -> None:
    """Change something, in one of all the ways that there are."""
    shown = await store.search(limit=10**6)
    some = [item.id for item in chance.sample(shown, 5)]
    owner = MemoryMetadata(user_id=chance.choice(USERS), session_id=f"s{chance.randrange(4)}")
    ways: dict[str, Any] = {
        "added": lambda: store.add_many([note(chance, 1_000 + 10 * round_ + number) for number in range(6)]),
        "replaced": lambda: store.add(note(chance, int(some[0][4:]))),
        "updated": lambda: store.update(
            next(item for item in shown if item.id == some[0]).model_copy(update={"content": "a violin, and tea"})
        ),
        "deleted": lambda: store.apply(deletes=some),
        "deleted one": lambda: store.delete(some[0]),
        "purged": lambda: store.purge(some[0]),
        "purged in a batch": lambda: store.apply(deletes=some, purge=True),
        "restored": store.restore,
        "touched": lambda: store.touch(some, ttl=chance.choice([300.0, 9_000.0])),
        "cleared": lambda: store.clear(metadata=owner),
        "popped": lambda: store.pop(metadata=owner),
        "expired": lambda: store.sweep(),
        "archived": lambda: store.update_many(
            [item.model_copy(update={"archived_by": "summary"}) for item in shown if item.id in some]
        ),
    }
    await ways[list(ways)[round_ % len(ways)]]()
    clock.now += chance.choice((30.0, 400.0, -50.0))


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_scope_is_ranked_after_changes_of_two_processes_as_by_one_that_never_searched(
    store: RedisMemoryStore,
    other: RedisMemoryStore,
    url: str,
    namespace: str,
    clock: Clock,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Lifetimes, "is_to_sweep", lambda *_: False)  # A clock that is set back shows it all again.
    chance = random.Random(seed)
    await store.add_many([note(chance, number) for number in range(120)])
    for round_ in range(26):
        await change(chance.choice([store, other]), chance, clock, round_)
        for metadata in (
            MemoryMetadata(user_id="ada"),
            MemoryMetadata(user_id="bob"),
            MemoryMetadata(user_id="ada", session_id="s1"),
            MemoryMetadata(session_id="s2"),
        ):
            query = " ".join(chance.choices(WORDS, k=2))
            wanted = await fresh(url, namespace, clock, query, metadata)
            assert await ranked(store, query, metadata) == wanted
            assert await ranked(other, query, metadata) == wanted


async def test_a_search_reads_what_has_changed_and_not_the_scope_again(store: RedisMemoryStore, raw: Any) -> None:
    chance = random.Random(5)
    mine = MemoryMetadata(user_id="ada")
    await store.add_many([note(chance, number) for number in range(400)])

    async def items_read() -> int:
        return int((await raw.info("commandstats")).get("cmdstat_hmget", {}).get("calls", 0))

    await ranked(store, "violin tea", mine)
    before = await items_read()
    await ranked(store, "lemon", mine)
    assert await items_read() == before, "nothing has changed"

    await store.add(HumanMemory(id="new", content="a cinnamon violin", metadata=mine))
    before = await items_read()
    assert (await ranked(store, "cinnamon", mine))[0][0] == "new"
    assert await items_read() - before < 10


async def test_without_its_log_of_changes_a_scope_is_read_again(
    store: RedisMemoryStore, raw: Any, namespace: str
) -> None:
    """It may be lost in a failover, too short for all that was written meanwhile, or flushed with all else."""
    mine, log = MemoryMetadata(user_id="ada"), f"memoranda:{{{namespace}}}:changes"
    await store.add(HumanMemory(id="one", content="violin", metadata=mine))
    assert [each[0] for each in await ranked(store, "violin", mine)] == ["one"]

    await store.delete("one")
    await store.add(HumanMemory(id="two", content="violin", metadata=mine))
    await raw.xtrim(log, maxlen=1, approximate=False)
    assert [each[0] for each in await ranked(store, "violin", mine)] == ["two"]

    await store.delete("two")
    await raw.delete(log)
    assert await ranked(store, "violin", mine) == []

    await store.add(HumanMemory(id="three", content="violin", metadata=mine))
    assert [each[0] for each in await ranked(store, "violin", mine)] == ["three"]
    keys = [key async for key in raw.scan_iter(match=f"memoranda:{{{namespace}}}:*")]
    await raw.delete(*keys)
    assert await ranked(store, "violin", mine) == []


async def test_what_a_repair_brings_back_is_found(store: RedisMemoryStore, raw: Any, namespace: str) -> None:
    mine, base = MemoryMetadata(user_id="ada"), f"memoranda:{{{namespace}}}:"
    await store.add_many([HumanMemory(id=name, content="violin", metadata=mine) for name in ("one", "two")])
    (member,) = [each for each in await raw.zrange(f"{base}live", 0, -1) if each.endswith("one")]
    for index in ("live", "live:user_id:ada", "said", "said:user_id:ada"):
        await raw.zrem(f"{base}{index}", member)
    assert {each[0] for each in await ranked(store, "violin", mine)} == {"two"}

    await store.doctor(repair=True)

    assert {each[0] for each in await ranked(store, "violin", mine)} == {"one", "two"}


async def test_results_are_copies_and_nobody_changes_what_is_kept(store: RedisMemoryStore) -> None:
    mine = MemoryMetadata(user_id="ada")
    await store.add(HumanMemory(id="one", content="violin", metadata=mine))
    for _ in range(2):
        (found,) = await store.search_ranked(query="violin", metadata=mine, mode="text")
        assert found.item.content == "violin"
        found.item.content = "changed by the caller"
