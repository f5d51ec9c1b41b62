"""Revisions: the whole kit with them, their bounds, and nothing left of what is purged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from receipt_stores import Clock, opened_with_revisions

import memoranda
from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.errors import InputError
from memoranda.store import InMemoryStore, Store, dump_item
from memoranda.store.backend import Filter, Query, items_of_ids
from memoranda.store.layers import layer_of
from memoranda.store.records import copying_records
from memoranda_context import assemble
from memoranda_receipts import Receipts, Revisions, with_revisions
from memoranda_receipts.revisions import RevisionsLayer
from memoranda_testing import Reopen, StoreConformance
from memoranda_userdata import erase, forget


@pytest.mark.rare("revisions in memory")
class TestRevisionsInMemory(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with with_revisions(InMemoryStore()) as store:
            yield store


@pytest.mark.rare("revisions on SQLite")
class TestRevisionsOnSQLite(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        async with memoranda.open(f"sqlite:///{tmp_path / 'a.db'}", revisions=True) as store:
            yield store

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Reopen:
        return partial(opened_with_revisions, f"sqlite:///{tmp_path / 'a.db'}")


@pytest.fixture
async def store() -> AsyncIterator[Any]:
    async with memoranda.open("memory://", revisions=True) as store:
        yield store


async def test_no_ordinary_read_shows_a_revision(store: Any) -> None:
    handle = store.scoped(user_id="ada", session_id="trip")
    for number in range(5):
        await handle.add(HumanMemory(id="one", content=f"Version {number} of the bicycle."))
    (item,) = [found async for found in handle.scan()]
    assert item.content == "Version 4 of the bicycle."
    assert "revision_since" not in dump_item(item)
    assert await handle.count() == 1
    assert await handle.count(include_deleted=True) == 1
    assert len(await handle.search(archived=None, limit=100)) == 1
    assert len(await handle.recall("bicycle version")) == 1
    assert await handle.head() == "one"
    assert [(owner.value, owner.count) async for owner in store.owners()] == [("ada", 1)]
    assert [version.version for version in await handle.versions("one")] == [1, 2, 3, 4]
    assert await store.scoped(user_id="bob").versions("one") == []


async def test_a_recall_that_may_share_items_leaves_what_revisions_know_of_them(store: Any) -> None:
    store.clock = clock = Clock()
    item = HumanMemory(id="one", content="The bicycle stands in the shed.", metadata=MemoryMetadata(user_id="ada"))
    for content in ("The bicycle stands in the shed.", "The bicycle stands in the garden."):
        item.content = content
        await store.add(item)
        clock.tick()
    before = [dump_item(stored) for stored in await store.bottom.read(items_of_ids(["one"]))]
    assert len(await store.recall("Where is the bicycle?", shared=True)) == 1
    assert [dump_item(stored) for stored in await store.bottom.read(items_of_ids(["one"]))] == before


async def test_a_replay_stays_exact_after_changes_and_a_purge_ends_that(store: Any) -> None:
    handle = store.scoped(user_id="ada", session_id="trip")
    ids = []
    for number in range(4):
        item = HumanMemory(content=f"Bicycle {number}.")
        await handle.add(item)
        ids.append(item.id)
    await assemble(handle, "Which bicycle?", receipt=True)
    receipts = Receipts(handle)
    before = (await receipts.replay((await receipts.list())[0])).bytes()
    first = await handle.get(ids[0])
    await handle.update(first.model_copy(update={"content": "Another one."}))
    await handle.delete(ids[1])
    replay = await receipts.replay((await receipts.list())[0])
    assert [(change.id, change.change) for change in replay.changes] == [(ids[0], "changed"), (ids[1], "deleted")]
    assert replay.exact
    assert replay.bytes() == before
    await handle.purge(ids[0])
    replay = await receipts.replay((await receipts.list())[0])
    assert replay.missing == (ids[0],)


async def test_a_store_opened_without_the_option_replays_what_one_with_it_recorded(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memories.db"
    async with memoranda.open(url, revisions=True) as store:
        handle = store.scoped(user_id="ada", session_id="trip")
        await handle.add_many([HumanMemory(content="Rome?"), HumanMemory(content="Or Paris?")])
        first, _ = await handle.window(rounds=2, receipt=True)
    async with memoranda.open(url) as store:
        receipts = Receipts(store.scoped(user_id="ada"))
        (receipt,) = await receipts.list()
        assert (await receipts.replay(receipt.id)).exact
        await store.update(first.model_copy(update={"content": "Oslo?"}))
        assert [each.id for each in (await receipts.replay(receipt.id)).changes] == [first.id]


async def test_revisions_are_bounded_by_number_and_age() -> None:
    async with memoranda.open("memory://", revisions=Revisions(days=1, number=3)) as store:
        clock = Clock()
        store.clock = clock
        for number in range(10):
            await store.add(HumanMemory(id="one", content=f"Version {number}."))
            clock.tick()
        assert [item.version for item in await store.versions("one")] == [7, 8, 9]  # type: ignore[attr-defined]
        clock.time += 24 * 3600
        assert await store.versions("one") == []  # type: ignore[attr-defined]


async def test_the_bounds_may_stand_in_the_url() -> None:
    async with memoranda.open("revisions+memory://?revisions_number=2&revisions_days=3") as store:
        layer = layer_of(store, RevisionsLayer)
        assert layer is not None
        assert layer.kept == Revisions(days=3, number=2)
    with pytest.raises(InputError, match="Revisions"):
        memoranda.open("memory://", revisions="some")


@pytest.mark.parametrize("way", ["forget", "purge", "purge one", "purge session", "apply", "erase", "pop"])
async def test_what_is_purged_leaves_no_trace_in_files(tmp_path: Path, way: str) -> None:
    async with memoranda.open(f"sqlite:///{tmp_path / 'a.db'}", revisions=True) as store:
        handle = store.scoped(user_id="ada", session_id="trip")
        await handle.add(HumanMemory(id="one", content="The canary sings."))
        await handle.add(HumanMemory(id="one", content="The canary is silent."))
        await handle.delete("one")
        await handle.restore("one")
        await handle.add(HumanMemory(id="one", content="Nothing."))
        if way == "forget":
            assert (await forget(store, "ada")).complete
        elif way == "purge":
            await handle.purge()
        elif way == "purge one":
            await store.purge("one")
        elif way == "purge session":
            await store.purge(metadata=MemoryMetadata(session_id="trip"))
        elif way == "apply":
            assert await store.apply(deletes=["one"], purge=True) == 1
        elif way == "erase":
            await erase(store, ["one"])
        else:
            assert (await handle.pop(purge=True)) is not None
        assert await store.scoped(user_id="ada").versions("one") == []  # type: ignore[attr-defined]
        await store.erase()  # type: ignore[attr-defined]
    assert not any(b"canary" in file.read_bytes() for file in tmp_path.glob("a.db*"))


async def test_what_has_expired_leaves_no_revision(store: Any) -> None:
    clock = Clock()
    store.clock = clock
    await store.add(HumanMemory(id="one", content="Short."), ttl=10)
    await store.add(HumanMemory(id="one", content="Shorter."), ttl=10)
    at = clock.tick()
    assert len(await store.search(as_of=at)) == 1
    clock.time += 20
    assert await store.versions("one") == []
    assert await store.search(as_of=at) == []


async def test_without_the_option_nothing_is_kept(tmp_path: Path) -> None:
    async with memoranda.open(f"sqlite:///{tmp_path / 'a.db'}") as store:
        await store.add(MemoryItem(id="one", content="First."))
        await store.add(MemoryItem(id="one", content="Second."))
        assert await store.count() == 1
        assert type(store).__name__ == "SQLiteMemoryStore"


async def test_a_purge_through_a_handle_takes_what_the_item_was_in_another_session(store: Any) -> None:
    there, here = (MemoryMetadata(user_id="ada", session_id=name) for name in ("there", "here"))
    await store.add(HumanMemory(id="moved", content="A secret bicycle.", metadata=there))
    await store.add(HumanMemory(id="moved", content="Nothing.", metadata=here))
    assert [item.content for item in await store.versions("moved")] == ["A secret bicycle."]
    assert await store.scoped(user_id="ada", session_id="here").apply(deletes=["moved"], purge=True) == 1
    left = [item async for item in store.bottom.stream(Query(Filter(archived=None), deleted=True))]
    assert left == []


@pytest.mark.parametrize(
    "payload", ["nonsense", "[]", '{"since": 3, "until": 4}', '{"since": "", "until": "~", "item": 3}', None]
)
async def test_a_revision_that_cannot_be_read_hides_no_other(store: Any, payload: str | None) -> None:
    clock = store.clock = Clock()
    ada = store.scoped(user_id="ada")
    await ada.add_many([HumanMemory(id="a", content="first"), HumanMemory(id="b", content="other")])
    then = clock.tick()
    await ada.add(HumanMemory(id="a", content="second"))
    place = MemoryMetadata(user_id="ada", extra={"revision_of": "b", "revision_version": 1})
    spoilt = MemoryItem(id="spoilt", content="", memory_type="revision", archived_by="spoilt", payload=payload)
    with copying_records(store):
        await store.add(spoilt.model_copy(update={"metadata": place}))

    assert await ada.versions("b") == []
    assert [item.content for item in await ada.versions("a")] == ["first"]
    assert "first" in {item.content for item in await ada.search(as_of=then)}
