"""The checker of histories finds what contradicts a promise, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import InMemoryStore, Store
from servers.writers import Call, History, Outcome, Writers, broken_promises

Tampering = Callable[[Store, Writers], Awaitable[object]]


@pytest_asyncio.fixture
async def finished() -> AsyncIterator[tuple[Store, Writers]]:
    """A store, and writers that have done at least one call on every path."""
    async with InMemoryStore() as store:
        writers = Writers([store], pause=0.0)
        async with writers.at_work():
            while len(writers.history.counts()) < 6 or len(writers.history.of("add_many")) < 2:
                await asyncio.sleep(0)
        yield store, writers


async def test_calls_that_were_all_done_contradict_nothing(finished: tuple[Store, Writers]) -> None:
    store, writers = finished
    assert await broken_promises(writers.history, store) == []
    assert all(set(counts) == {"done"} for counts in writers.history.counts().values())


async def lose_an_item(store: Store, writers: Writers) -> None:
    await store.purge("add-w-1")


async def add_once_more(store: Store, writers: Writers) -> None:
    await store.add(HumanMemory(id="add-w-1", content="second", metadata=MemoryMetadata(user_id="adds")))


async def lose_half_a_batch(store: Store, writers: Writers) -> None:
    await store.purge("add_many-w-1.0")


async def lose_an_update(store: Store, writers: Writers) -> None:
    await store.purge("counter-0")


async def undo_a_compaction_in_part(store: Store, writers: Writers) -> None:
    item = await store.get("compact-w-1.0")
    assert item is not None
    await store.add(item.model_copy(update={"archived_by": None}))


async def bring_a_user_back(store: Store, writers: Writers) -> None:
    await store.add(HumanMemory(id="forget-w-1.0", content="secret", metadata=MemoryMetadata(user_id="forget-w-1")))


async def raise_a_bare_error(store: Store, writers: Writers) -> None:
    writers.history.calls.append(Call("add", "another", "wrong", 0, 0, "asyncpg.PostgresError: bare"))


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (lose_an_item, "add add-w-1:"),
        (add_once_more, "add add-w-1:"),
        (lose_half_a_batch, "add_many add_many-w-1:"),
        (lose_an_update, "update counter-0:"),
        (undo_a_compaction_in_part, "compact compact-w-1:"),
        (bring_a_user_back, "forget forget-w-1:"),
        (raise_a_bare_error, "add another: asyncpg.PostgresError"),
    ],
)
async def test_a_broken_promise_is_named(finished: tuple[Store, Writers], tamper: Tampering, named: str) -> None:
    store, writers = finished
    await tamper(store, writers)
    broken = await broken_promises(writers.history, store)
    assert any(sentence.startswith(named) for sentence in broken), broken


@pytest.mark.parametrize(("outcome", "broken"), [("done", ["compact", "forget"]), ("unknown", [])])
async def test_what_was_not_answered_may_come_after_what_found_nothing(outcome: Outcome, broken: list[str]) -> None:
    """A compaction, or a removal, finds nothing if the items that it is about are only there afterwards."""
    store, history = InMemoryStore(), History()
    for path in ("compact", "forget"):
        item = HumanMemory(
            id=f"{path}-1.0", content="turn", metadata=MemoryMetadata(user_id=path, session_id=f"{path}-1")
        )
        history.calls.append(Call("prepare", f"{path}-1", outcome, 0, 1, "", (item.id,)))
        history.calls.append(Call(path, f"{path}-1", "done", 2, 3, "", (item.id,)))
        await store.add(item)

    assert [sentence.split()[0] for sentence in await broken_promises(history, store)] == broken
