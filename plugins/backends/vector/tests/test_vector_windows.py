"""What every window shows is read with the newest items."""

from __future__ import annotations

from random import Random

import pytest

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory, SystemMemory
from memoranda.store import InMemoryStore
from memoranda.store.backend import Filter, Page, items_where
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_vector import VectorMemoryStore

SESSION = MemoryMetadata(user_id="ada", session_id="s")


def history(chance: Random) -> list[MemoryItem]:
    """Items of several users and sessions, as after a clock was set back; some of them archived."""
    items: list[MemoryItem] = []
    for number in range(120):
        owner = MemoryMetadata(user_id=chance.choice(("ada", "ada", "bob")), session_id=chance.choice("sst"))
        cls = chance.choice((HumanMemory, AIMemory, HumanMemory, AIMemory, SystemMemory, SummaryMemory))
        item = cls(id=f"{number}", content=chance.choice(("said", "asked")), metadata=owner)
        if chance.random() < 0.1:
            item.created_at = f"2020-01-01T00:00:{chance.randrange(60):02d}"
        if chance.random() < 0.1:
            item.archived_by = "a summary"
        items.append(item)
    return items


@pytest.mark.parametrize("seed", range(3))
async def test_a_page_has_what_stays_behind_it(seed: int) -> None:
    chance = Random(seed)
    items = history(chance)
    deleted = {item.id for item in chance.sample(items, 10)}
    store = VectorMemoryStore(HashingEmbeddings(dimension=4))
    await store.add_many(items)
    for item_id in deleted:
        await store.delete(item_id)
    shown = [item for item in reversed(items) if item.id not in deleted]
    for metadata in (SESSION, MemoryMetadata(user_id="ada"), None):
        for wanted in (Filter("", metadata), Filter("said", metadata), Filter("", metadata, archived=None)):
            matching = [item for item in shown if wanted.matches(item)]
            for limit in (1, 5, 200):
                found = await store.engine.read(items_where(wanted, Page(limit, order="added"), staying=True))

                staying = [item for item in matching[limit:] if item.memory_type in ("system", "summary")]
                assert [item.id for item in found] == [item.id for item in [*matching[:limit], *staying]]


async def test_a_window_is_that_of_a_store_in_memory() -> None:
    items = history(Random(4))
    store, plain = VectorMemoryStore(HashingEmbeddings(dimension=4)), InMemoryStore()
    for each in (store, plain):
        await each.add_many(items)
    for metadata in (SESSION, MemoryMetadata(user_id="ada"), None):
        for bounds in ({"rounds": 2}, {"limit": 12}, {"rounds": 1, "limit": 9}):
            shown = await store.window(metadata=metadata, **bounds)
            assert [item.id for item in shown] == [item.id for item in await plain.window(metadata=metadata, **bounds)]
