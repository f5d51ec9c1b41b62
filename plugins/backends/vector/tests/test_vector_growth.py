"""What changing a store costs: as much as is touched, whatever else it holds and whatever was searched before."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_vector import VectorMemoryStore

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("vector growth")

DIMENSION = 4
FEW, MANY = 500, 16_000
ROUNDS = 7
TOUCHED = 20
ADA = MemoryMetadata(user_id="ada")
OTHERS = MemoryMetadata(user_id="others")
WORDS = ("saffron", "telescope", "radiator", "bicycle", "lemon", "winter", "revenue", "region", "garden", "violin")


def notes(count: int, owner: MemoryMetadata, name: str = "") -> list[MemoryItem]:
    return [
        HumanMemory(
            id=f"{owner.user_id}{name}{number}",
            content=f"{WORDS[number % 10]} and the {WORDS[number // 10 % 10]} of number {number}",
            metadata=owner,
            created_at=f"2024-05-{1 + number % 28:02d}T10:00:00",
        )
        for number in range(count)
    ]


async def filled(others: int) -> VectorMemoryStore:
    """Return a store with so many items of others, live and in the bin, in which words were searched."""
    store = VectorMemoryStore(HashingEmbeddings(dimension=DIMENSION))
    items = notes(others, OTHERS)
    await store.add_vectors(items, np.ones((len(items), DIMENSION)))
    hidden = MemoryMetadata(user_id="hidden")
    items = notes(others, hidden)
    await store.add_vectors(items, np.ones((len(items), DIMENSION)))
    await store.clear(metadata=hidden)
    assert await store.search(query="saffron", metadata=OTHERS, mode="text")
    return store


async def adds(store: VectorMemoryStore) -> None:
    for item in notes(TOUCHED, ADA):
        await store.add(item)


async def deletes(store: VectorMemoryStore) -> None:
    for item in notes(TOUCHED, ADA):
        await store.delete(item.id)


async def purges_by_id(store: VectorMemoryStore) -> None:
    for item in notes(TOUCHED, ADA):
        await store.purge(item.id)


async def clears(store: VectorMemoryStore) -> None:
    assert await store.clear(metadata=ADA) == TOUCHED


async def purges(store: VectorMemoryStore) -> None:
    assert await store.purge(metadata=ADA) == TOUCHED


async def restores(store: VectorMemoryStore) -> None:
    assert await store.restore(metadata=ADA) == TOUCHED


@pytest.fixture(scope="module")
def sizes() -> tuple[VectorMemoryStore, VectorMemoryStore]:
    """A store with few items of others and one with many."""
    return asyncio.run(filled(FEW)), asyncio.run(filled(MANY))


Change = Callable[[VectorMemoryStore], Awaitable[None]]


async def cost(store: VectorMemoryStore, prepare: list[Change], change: Change) -> float:
    """Return the processor time of a change that begins from the same state each time."""
    await store.purge(metadata=ADA)
    for step in prepare:
        await step(store)
    gc.collect()
    gc.disable()
    try:
        started = time.thread_time()
        await change(store)
        return time.thread_time() - started
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prepare", "change"),
    [
        ([], adds),
        ([adds], adds),
        ([adds], deletes),
        ([adds], purges_by_id),
        ([adds, deletes], purges_by_id),
        ([adds], clears),
        ([adds], purges),
        ([adds, clears], purges),
        ([adds, clears], restores),
    ],
    ids=lambda part: part.__name__ if callable(part) else "after-" + "-".join(step.__name__ for step in part),
)
async def test_a_change_costs_what_it_touches(
    sizes: tuple[VectorMemoryStore, VectorMemoryStore], prepare: list[Change], change: Change
) -> None:
    """Thirty times as many items of others may not make it three times as dear."""
    # In turns: a processor that slows down does so for both.
    rounds = [[await cost(store, prepare, change) for store in sizes] for _ in range(ROUNDS)]
    few, many = map(min, zip(*rounds, strict=True))
    # Cold caches of a busy processor are granted half a millisecond; the leanest walk over all of them takes one.
    assert many < 3 * few + 0.000_5


@pytest.mark.slow
async def test_clearing_costs_the_same_for_every_item() -> None:
    """Twelve times as many items at once may not make each of them three times as dear."""

    async def clears_others(store: VectorMemoryStore) -> None:
        await store.clear(metadata=OTHERS)

    async def cost_of_each(count: int) -> float:
        return await cost(await filled(count), [], clears_others) / count

    rounds = [[await cost_of_each(count) for count in (1_000, 12_000)] for _ in range(3)]
    few, many = map(min, zip(*rounds, strict=True))
    assert many < 3 * few


async def test_words_of_removed_items_are_forgotten_and_found_again_when_restored() -> None:
    store = await filled(FEW)
    await adds(store)
    await clears(store)
    assert await store.search(query="saffron", metadata=ADA, mode="text") == []
    await restores(store)
    assert len(await store.search(query="saffron", metadata=ADA, mode="text")) == 10


async def test_a_row_that_is_used_again_is_not_found_by_the_words_it_had() -> None:
    """The scores of a ranking are those of a store that never held anything else."""

    async def ranking(store: VectorMemoryStore) -> list[tuple[str, float]]:
        found = await store.search_ranked(query="saffron telescope", metadata=ADA, mode="text")
        return [(each.item.id, round(each.score, 9)) for each in found]

    async def add_garden(store: VectorMemoryStore) -> None:
        texts = {3: "saffron", 150: "a telescope and a radiator", 270: "a telescope"}
        for number in range(300):
            alone = MemoryMetadata(user_id="ada", session_id=str(number))
            await store.add(HumanMemory(id=f"g{number}", content=texts.get(number, "nothing"), metadata=alone))

    fresh = VectorMemoryStore(HashingEmbeddings(dimension=DIMENSION))
    await add_garden(fresh)
    used = await filled(FEW)
    await used.clear(metadata=OTHERS)
    await add_garden(used)
    assert await ranking(used) == await ranking(fresh)
