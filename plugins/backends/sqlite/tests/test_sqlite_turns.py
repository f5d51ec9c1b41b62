"""What works on many items leaves the event loop its turns, and what changes meanwhile harms nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.embeddings import Embeddings
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_testing.event_loop import longest_block

ADA = MemoryMetadata(user_id="ada")
COUNTS = (1_000, 3_000)


def notes(count: int) -> list[MemoryItem]:
    return [
        HumanMemory(
            id=f"ada{number}",
            content=f"saffron and the telescope of number {number}",
            metadata=MemoryMetadata(user_id="ada", session_id=f"s{number % 7}", extra={"kept": True}),
            created_at=f"2024-05-{1 + number * 28 // count:02d}T10:{number % 60:02d}:00",
        )
        for number in range(count)
    ]


class InNoTime(Embeddings):
    """An embedder whose own work does not count."""

    dimension = 4

    def embed(self, text: str) -> list[float]:
        return [1.0, 2.0, 3.0, 4.0]

    async def aembed(self, text: str) -> list[float]:
        return self.embed(text)

    async def aembed_many(self, texts: object) -> list[list[float]]:
        return [[1.0, 2.0, 3.0, 4.0]] * len(texts)  # type: ignore[arg-type]  # a sequence, as in the base


async def read_all(items: AsyncGenerator[MemoryItem, None]) -> None:
    async for _ in items:
        pass


Work = Callable[[SQLiteMemoryStore, list[MemoryItem]], Awaitable[object]]
WORK: dict[str, Work] = {
    "a scan": lambda store, held: read_all(store.scan(metadata=ADA)),
    "a listing of all": lambda store, held: store.search(metadata=ADA, limit=10**6),
    "an update of all": lambda store, held: store.update_many(held),
}


@pytest.mark.parametrize("work", WORK)
async def test_the_turns_of_the_loop_do_not_grow_with_the_scope(tmp_path: Path, work: str) -> None:
    turns = []
    for count in COUNTS:
        async with SQLiteMemoryStore(tmp_path / f"{count}.db", durability="normal") as store:
            await store.add_many(notes(count))
            held = await store.search(metadata=ADA, limit=count)
            turns.append(await longest_block(WORK[work](store, held)))
    assert turns[1] < 2 * turns[0]


async def test_a_window_over_a_short_session_is_read_in_the_event_loop(tmp_path: Path) -> None:
    """A store starts a thread when the first of its reads needs one."""
    async with SQLiteMemoryStore(tmp_path / "a.db", durability="normal") as store:
        await store.add_many(notes(500))
        before = set(threading.enumerate())
        shown = await store.scoped(user_id="ada", session_id="s3").window(limit=20)
        assert len(shown) == 20
        assert set(threading.enumerate()) <= before


async def test_of_items_by_their_ids_no_more_than_the_ids_is_looked_at_in_the_loop(tmp_path: Path) -> None:
    """Four calls are what checking an id takes, and five times as many what an item does."""
    async with SQLiteMemoryStore(tmp_path / "a.db", durability="normal") as store:
        await store.add_many(notes(2_000))
        assert await longest_block(store.get_many([f"ada{number}" for number in range(2_000)])) < 6 * 2_000


@pytest.mark.parametrize("embeddings", [None, InNoTime()], ids=["rows", "rows and vectors"])
async def test_the_turns_of_the_loop_hardly_grow_with_a_batch(tmp_path: Path, embeddings: Embeddings | None) -> None:
    """Of all items at once no more is asked than whether there is something, which is two calls an item."""
    turns = []
    for count in COUNTS:
        path = tmp_path / f"{count}.db"
        async with SQLiteMemoryStore(path, durability="normal", embeddings=embeddings) as store:
            turns.append(await longest_block(store.add_many(notes(count))))
    assert turns[1] - turns[0] < 2 * (COUNTS[1] - COUNTS[0])


async def test_a_batch_that_is_made_ready_when_the_store_is_closed_is_stored_or_refused(tmp_path: Path) -> None:
    """At whichever of its turns: never in part, and never lost without a word."""
    path = tmp_path / "a.db"
    for turns in range(0, 40, 5):
        batch = [item.model_copy(update={"id": f"{turns}-{item.id}"}) for item in notes(1_200)]
        store = SQLiteMemoryStore(path, durability="normal")
        await store.init()
        adding = asyncio.ensure_future(store.add_many(batch))
        for _ in range(turns):
            await asyncio.sleep(0)
        await store.close()
        (refused,) = await asyncio.gather(adding, return_exceptions=True)

        async with SQLiteMemoryStore(path) as again:
            stored = await again.get_many([item.id for item in batch])
        assert len(stored) == (0 if refused else 1_200)
