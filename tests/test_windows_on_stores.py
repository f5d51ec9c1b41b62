"""A window is the same whether an engine reads what stays together with it or apart from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from noted_reads import NotesReads, NotesSingleReads

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory, SystemMemory
from memoranda.store import Capability, Store
from memoranda.store.layers import add_layer
from memoranda_backend.windows import staying_apart
from servers import Engines

LONG_AGO = "2020-01-01T00:00:00+00:00"
KINDS = [HumanMemory, AIMemory, AIMemory, SystemMemory, SummaryMemory]


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with Engines() as started:
        yield started


@pytest.fixture(
    params=[("postgres", ""), ("postgres", "&partitions=3"), ("redis", "")], ids=["postgres", "partitions", "redis"]
)
def url(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store of an engine that reads both at once."""
    engine, options = request.param
    with engines.empty_store(engine, tmp_path) as url:
        yield f"{url}{options}"


def session(name: str, **extra: int) -> MemoryMetadata:
    return MemoryMetadata(user_id="ada", session_id=name, extra=extra)


async def said(store: Store, chance: Random, count: int) -> None:
    """Fill two sessions in turns, after a clock was set back; some items are archived, deleted, mortal or another's."""
    items: list[MemoryItem] = []
    for number in range(count):
        place = session(chance.choice("st"), **({"k": 1} if chance.random() < 0.4 else {}))
        fields: dict[str, Any] = {"ttl": 1_000} if chance.random() < 0.1 else {}
        if chance.random() < 0.1:
            fields["created_at"] = LONG_AGO
        if chance.random() < 0.1:
            fields["archived_by"] = "a summary"
        if chance.random() < 0.1:
            place = place.model_copy(update={"user_id": "bob"})
        items.append(chance.choice(KINDS)(id=f"{number}", content=f"{number}", metadata=place, **fields))
    await store.add_many(items)
    for number in chance.sample(range(count), count // 20):
        await store.delete(f"{number}")


async def forked(store: Store, chance: Random, times: int) -> MemoryMetadata:
    """Return the place of a branch of a branch, so many times, each of which goes on for a while."""
    place = session("s")
    for fork in range(times):
        at = chance.choice(await store.window(metadata=place, rounds=9)).id
        place = session(await store.fork(str(place.session_id), at=at))
        await store.add_many([chance.choice(KINDS)(content=f"{fork} {n}", metadata=place) for n in range(12)])
    return place


# Redis looks at two thousand items in one call, and returns five hundred.
@pytest.mark.parametrize("count", [60, 2_600])
async def test_what_stays_is_the_same_in_one_read_or_in_two(url: str, count: int) -> None:
    chance = Random(count)
    async with memoranda.open(url) as at_once, memoranda.open(url) as apart:
        await said(at_once, chance, count)
        places = [session("s"), session("s", k=1), MemoryMetadata(session_id="t"), MemoryMetadata(user_id="bob"), None]
        if Capability.FORK in at_once.capabilities:
            places += [await forked(at_once, chance, times) for times in (1, 4)]
        single, double = add_layer(at_once, NotesSingleReads), add_layer(apart, NotesReads)
        now = at_once.clock()
        for later in (0, 2_000):
            at_once.clock = apart.clock = lambda passed=later: now + passed  # type: ignore[misc]
            for place in places:
                for _ in range(3):
                    bounds: dict[str, Any] = {"rounds": chance.randrange(9), "limit": chance.choice((None, 0, 7, 40))}
                    shown = await at_once.window(metadata=place, **bounds)
                    assert shown == await apart.window(metadata=place, **bounds), (place, bounds)
        asked = [query for query in single.queries if query.staying]
        for query in asked:
            await single.inner.read(query)  # An engine may find out first that a conversation is long.
            assert await single.inner.read(query) == await staying_apart(single.inner.read, query), query
        assert asked
        assert not any(query.staying for query in double.queries)


async def test_the_last_rounds_of_a_long_conversation_are_one_read(url: str) -> None:
    async with memoranda.open(url) as store:
        layer = add_layer(store, NotesSingleReads)
        await store.add(SystemMemory(content="be kind", metadata=session("s")))
        await store.add_many([HumanMemory(content=f"{number}", metadata=session("s")) for number in range(700)])

        shown = await store.window(metadata=session("s"), rounds=2)

    assert [item.content for item in shown] == ["be kind", "698", "699"]
    assert len(layer.queries) == 1
