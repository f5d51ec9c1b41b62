"""What works on many items leaves the event loop its turns, and what changes meanwhile harms nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import numpy as np
import pytest

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_testing.event_loop import longest_block
from memoranda_vector import VectorMemoryStore

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("vector turns")

ADA = MemoryMetadata(user_id="ada")
SOME = MemoryMetadata(user_id="ada", extra={"kept": True})
WORDS = ("saffron", "telescope", "radiator", "bicycle", "lemon", "winter", "revenue", "region", "garden", "violin")


def notes(count: int, sessions: int = 7) -> list[MemoryItem]:
    return [
        HumanMemory(
            id=f"ada{number}",
            content=f"{WORDS[number % 10]} and the {WORDS[number // 10 % 10]} of number {number}",
            metadata=MemoryMetadata(user_id="ada", session_id=f"s{number % sessions}", extra={"kept": True}),
            created_at=f"2024-05-{1 + number * 28 // count:02d}T10:{number % 60:02d}:00",
        )
        for number in range(count)
    ]


async def filled(count: int, sessions: int = 7) -> VectorMemoryStore:
    store = VectorMemoryStore(HashingEmbeddings(dimension=4))
    generator = np.random.default_rng(1)
    await store.add_vectors(notes(count, sessions), generator.random((count, 4)))
    return store


async def read_all(items: AsyncGenerator[MemoryItem, None]) -> None:
    async for _ in items:
        pass


async def search_words_after_adding(store: VectorMemoryStore) -> None:
    await store.search(query="saffron", metadata=ADA, mode="text")


Work = Callable[[VectorMemoryStore], Awaitable[object]]
WORK: dict[str, Work] = {
    "the first text search": lambda store: store.search(query="saffron telescope", metadata=ADA, mode="text"),
    "a hybrid search": lambda store: store.search(query="saffron telescope", metadata=ADA, mode="hybrid"),
    "a hybrid search by extra": lambda store: store.search(query="saffron", metadata=SOME, mode="hybrid"),
    "a search by meaning": lambda store: store.search(query="saffron", metadata=ADA),
    "a search by meaning of all": lambda store: store.search(query="saffron", metadata=ADA, limit=10**6),
    "a listing of all": lambda store: store.search(metadata=ADA, limit=10**6),
    "a substring that is nowhere": lambda store: store.search(query="nowhere", metadata=ADA, mode="substring"),
    "a count": lambda store: store.count(metadata=SOME, include_deleted=True),
    "a scan": lambda store: read_all(store.scan(metadata=ADA)),
    "a clear": lambda store: store.clear(metadata=ADA),
    "a clear by extra": lambda store: store.clear(metadata=SOME),
    "a purge": lambda store: store.purge(metadata=ADA),
}


@pytest.mark.rare("turns")
@pytest.mark.parametrize("work", WORK)
async def test_the_turns_of_the_loop_do_not_grow_with_the_scope(work: str) -> None:
    few, many = [await longest_block(WORK[work](await filled(count))) for count in (3_000, 9_000)]
    assert many < 2 * few


@pytest.mark.rare("before")
@pytest.mark.parametrize("work", ["a purge of the bin", "a scan with deleted items", "a text search after adding"])
async def test_the_turns_of_the_loop_do_not_grow_with_what_was_done_before(work: str) -> None:
    turns = []
    for count in (3_000, 9_000):
        if work == "a text search after adding":
            store = VectorMemoryStore(HashingEmbeddings(dimension=4))
            await store.search(query="saffron", metadata=ADA, mode="text")
            await store.add_vectors(notes(count), np.ones((count, 4)))
            turns.append(await longest_block(store.search(query="saffron", metadata=ADA, mode="text")))
            continue
        store = await filled(count)
        await store.clear(metadata=ADA)
        turns.append(
            await longest_block(
                store.purge(deleted_only=True)
                if work == "a purge of the bin"
                else read_all(store.scan(metadata=ADA, include_deleted=True))
            )
        )
    assert turns[1] < 2 * turns[0]


async def test_a_long_item_does_not_hold_the_loop_when_words_are_looked_for() -> None:
    turns = []
    for words in (6_000, 30_000):
        store = VectorMemoryStore(HashingEmbeddings(dimension=4))
        text = " ".join(f"saffron{number % 100}" for number in range(words))
        await store.add_vectors([HumanMemory(content=text, metadata=ADA)], np.ones((1, 4)))
        turns.append(await longest_block(store.search(query="saffron7", metadata=ADA, mode="text")))
    assert turns[1] < 2 * turns[0]


async def test_a_text_search_over_many_conversations_costs_no_more_turns() -> None:
    """As many hits in a thousand conversations as in ten."""
    few, many = [
        await longest_block((await filled(4_000, sessions)).search(query="saffron", metadata=ADA, mode="text"))
        for sessions in (10, 1_000)
    ]
    assert many < 2 * few


BATCHES: dict[str, Callable[[VectorMemoryStore, list[MemoryItem]], Awaitable[object]]] = {
    "adding": lambda store, batch: store.add_many([HumanMemory(content=item.content, metadata=ADA) for item in batch]),
    "replacing": lambda store, batch: store.add_many(batch),
    "updating": lambda store, batch: store.update_many(batch),
    "restoring": lambda store, batch: store.restore(metadata=ADA),
    "moving": lambda store, batch: store.add_many(
        [item.model_copy(update={"metadata": ADA, "name": "Ada"}) for item in batch]
    ),
    "deleting": lambda store, batch: store.apply(deletes=[item.id for item in batch]),
    "purging": lambda store, batch: store.apply(deletes=[item.id for item in batch], purge=True),
    "adding deleted items": lambda store, batch: store.add_many(batch, deleted=[item.id for item in batch]),
    "adding over deleted items": lambda store, batch: store.add_many(batch),
    "touching": lambda store, batch: store.touch([item.id for item in batch], ttl=60),
    "adding with vectors": lambda store, batch: store.add_vectors(batch, np.ones((len(batch), 4)).tolist()),
}


@pytest.mark.rare("batches")
@pytest.mark.parametrize("work", BATCHES)
async def test_of_a_large_batch_little_is_done_in_one_turn(work: str) -> None:
    """A few calls for each item, where copying one or finding its place in the table takes dozens."""
    store = await filled(3_000)
    batch = await store.search(metadata=ADA, limit=3_000)
    if work in ("restoring", "adding over deleted items"):
        await store.clear(metadata=ADA)
    if work == "purging":
        await store.search(query="saffron", metadata=ADA, mode="text")
    assert await longest_block(BATCHES[work](store, batch)) < 16 * 3_000


@pytest.mark.rare("batches")
async def test_a_batch_is_stored_over_what_changed_while_it_was_made_ready() -> None:
    """At whichever turn: items of the batch are replaced, deleted, purged and added."""
    bob = MemoryMetadata(user_id="ada", session_id="elsewhere")
    for turns in range(12):
        store = await filled(1_000)
        batch = [HumanMemory(id=f"ada{number}", content="new", metadata=ADA) for number in range(500, 1_200)]
        adding = asyncio.ensure_future(store.add_many(batch))
        for _ in range(turns):
            await asyncio.sleep(0)
        await store.add_vectors([HumanMemory(id="ada500", content="other", metadata=bob)], [[1, 2, 3, 4]])
        await store.delete("ada600")
        await store.purge("ada700")
        await store.add_vectors([HumanMemory(id="ada1100", content="other", metadata=bob)], [[1, 2, 3, 4]])
        late = adding.done()
        await adding

        if not late:
            assert await store.count() == 1_200
            assert await store.count(metadata=bob) == 0
            assert {item.content for item in await store.get_many([item.id for item in batch])} == {"new"}
            assert len(await store.search(query="new", metadata=ADA, mode="text", limit=2_000)) == 700


async def test_nobody_sees_half_of_a_large_batch() -> None:
    store = await filled(3_000)
    old, new = [f"ada{number}" for number in range(2_000)], [f"new{number}" for number in range(2_000)]
    adds = [HumanMemory(id=item_id, content="new", metadata=ADA) for item_id in new]
    writing = asyncio.ensure_future(store.apply(adds=adds, deletes=old))
    seen = set()
    while not writing.done():
        found = await store.get_many([*old, *new])
        seen.add((found[0].id, found[-1].id, len(found)))
        await store.add_vectors([HumanMemory(id="ada2999", content="other", metadata=SOME)], [[1, 2, 3, 4]])
        await asyncio.sleep(0)

    assert await writing == 2_000
    before, after = ("ada0", "ada1999", 2_000), ("new0", "new1999", 2_000)
    assert {before} <= seen <= {before, after}
    newest = await store.search(metadata=ADA, limit=2_001, order="added")
    assert [item.id for item in newest[:2_000]] == new[::-1]


@pytest.mark.parametrize("turns", range(0, 40, 4))
async def test_a_large_purge_while_words_are_listed_harms_nobody(turns: int) -> None:
    """Rows are freed, and some are given to others, at whichever turn of the search."""
    store = await filled(2_000)
    search = asyncio.ensure_future(store.search(query="saffron", metadata=ADA, mode="text", limit=10**6))
    for _ in range(turns):
        await asyncio.sleep(0)
    await store.apply(deletes=[f"ada{number}" for number in range(1_500)], purge=True)
    await store.add_vectors([HumanMemory(content="telescope", metadata=SOME)] * 20, [[1, 2, 3, 4]] * 20)
    await search

    found = await store.search(query="saffron", metadata=ADA, mode="text", limit=10**6)
    left = {f"ada{number}" for number in range(1_500, 2_000)}
    assert {item.id for item in found} <= left
    assert {item.id for item in found if "saffron" in item.content} == {
        item.id for item in await store.search(query="saffron", metadata=ADA, mode="substring", limit=10**6)
    }


@pytest.mark.parametrize("mode", ["text", "hybrid"])
async def test_changes_during_a_search_by_words_harm_nobody(mode: str) -> None:
    """At each turn of the search an item is replaced, one purged, and the row of one given to another user."""
    store = await filled(3_000)
    bob = MemoryMetadata(user_id="bob")
    search = asyncio.ensure_future(store.search(query="saffron", metadata=ADA, mode=mode, limit=10**6))  # type: ignore[arg-type]  # both are modes
    number = 0
    while not search.done():
        await store.add_vectors([HumanMemory(id=f"ada{number}", content="other", metadata=ADA)], [[1, 2, 3, 4]])
        await store.purge(f"ada{number + 10}")
        await store.add_vectors([HumanMemory(content="saffron saffron", metadata=bob)], [[1, 2, 3, 4]])
        number += 20
        await asyncio.sleep(0)

    found = await search
    assert found
    assert {item.metadata.user_id for item in found} == {"ada"}
    left = {item.id: item.content for item in await store.search(metadata=ADA, limit=10**6)}
    again = await store.search(query="saffron", metadata=ADA, mode="text", limit=10**6)
    assert {item.id for item in again} <= left.keys()
    assert len(await store.search(query="saffron", metadata=bob, mode="text", limit=10**6)) == number // 20


async def test_what_is_added_during_a_clear_stays() -> None:
    store = await filled(3_000)
    clear = asyncio.ensure_future(store.clear(metadata=ADA))
    while len(store) == 3_000:
        await asyncio.sleep(0)
    assert len(store) > 0
    await store.add_many([HumanMemory(id=name, content="late", metadata=ADA) for name in ("late", "ada2999")])

    assert await clear == 2_999
    assert {item.id for item in await store.search(metadata=ADA)} == {"late", "ada2999"}
