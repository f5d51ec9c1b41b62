"""Revisions: the whole kit with them, reads as of a moment against snapshots, and nothing left of what is purged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata
from memoranda.errors import InputError
from memoranda.store import BaseStore, InMemoryStore, dump_item
from memoranda_context import assemble
from memoranda_receipts import Receipts, Revisions, RevisionsStore
from memoranda_testing import Reopen, StoreConformance
from memoranda_userdata import erase, forget

START = 1_800_000_000.0


@pytest.mark.rare("revisions in memory")
class TestRevisionsInMemory(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[BaseStore]:
        async with RevisionsStore(InMemoryStore()) as store:
            yield store


@pytest.mark.rare("revisions on SQLite")
class TestRevisionsOnSQLite(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[BaseStore]:
        async with memoranda.open(f"sqlite:///{tmp_path / 'a.db'}", revisions=True) as store:
            yield store

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Reopen:
        async def reopen() -> BaseStore:
            return memoranda.open(f"sqlite:///{tmp_path / 'a.db'}", revisions=True)

        return reopen


@pytest.fixture
async def store() -> AsyncIterator[Any]:
    async with memoranda.open("memory://", revisions=True) as store:
        yield store


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> float:
        return self.time

    def tick(self) -> str:
        """Move on by a second, and return the moment in between."""
        from datetime import UTC, datetime

        self.time += 1
        return datetime.fromtimestamp(self.time - 0.5, UTC).isoformat(timespec="microseconds")


NAMES = ("a", "b", "c")
STEP = st.tuples(
    st.sampled_from(("add", "update", "delete", "restore", "clear", "pop", "touch", "purge", "archive", "apply")),
    st.sampled_from(NAMES),
    st.sampled_from(("ada", "bob")),
)


async def step(store: BaseStore, what: str, name: str, user: str, number: int) -> None:
    """Do one thing to the store."""
    handle = store.scoped(user_id=user)
    item_id = f"{user}-{name}"
    item = await handle.get(item_id)
    if what == "add":
        await handle.add(HumanMemory(id=item_id, content=f"Said {number}"), ttl=1000 if number % 3 == 0 else None)
    elif what == "update" and item is not None:
        await handle.update(item.model_copy(update={"content": f"Changed {number}"}))
    elif what == "archive" and item is not None:
        await handle.update(item.model_copy(update={"archived_by": "summary"}))
    elif what == "delete":
        await handle.delete(item_id)
    elif what == "restore":
        await handle.restore(item_id)
    elif what == "clear":
        await handle.clear()
    elif what == "pop":
        await handle.pop()
    elif what == "touch":
        await handle.touch([item_id], ttl=2000)
    elif what == "purge":
        await handle.purge(item_id)
    elif what == "apply":
        new = AIMemory(id=f"{user}-new-{number}", content=f"Applied {number}")
        await handle.apply(adds=[new], deletes=[item_id])


async def seen(handle: Any, **when: Any) -> dict[str, Any]:
    """Return everything that the four reads show."""
    dumps = [dump_item(item) async for item in handle.scan(order="added", **when)]
    return {
        "scan": dumps,
        "window": [dump_item(item) for item in await handle.window(**when)],
        "search": [dump_item(item) for item in await handle.search(query="a", limit=100, **when)],
        "count": await handle.count(**when),
    }


def without(shown: dict[str, Any], gone: set[str]) -> dict[str, Any]:
    """Return what reads show without items that are gone for good."""
    kept = {name: [each for each in shown[name] if each["id"] not in gone] for name in ("scan", "window", "search")}
    return {**kept, "count": len(kept["scan"])}


async def played(store: Any, steps: list[tuple[str, str, str]]) -> None:
    clock = Clock()
    store.clock = clock
    moments: dict[str, dict[str, dict[str, Any]]] = {}
    for number, (what, name, user) in enumerate(steps):
        await step(store, what, name, user, number)
        at = clock.tick()
        moments[at] = {each: await seen(store.scoped(user_id=each)) for each in ("ada", "bob")}
    for at, snapshot in moments.items():
        for user, shown in snapshot.items():
            handle = store.scoped(user_id=user)
            there = {item.id async for item in handle.scan(include_deleted=True)}
            gone = {each["id"] for each in shown["scan"]} - there
            assert await seen(handle, as_of=at) == without(shown, gone)


@settings(deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=14))
def test_reads_as_of_a_moment_show_what_was_there(steps: list[tuple[str, str, str]]) -> None:
    async def run() -> None:
        async with memoranda.open("memory://", revisions=True) as store:
            await played(store, steps)

    asyncio.run(run())


STEPS = (
    *("add", "add", "add", "add", "update", "delete", "archive", "restore", "update", "touch", "add", "delete"),
    *("apply", "clear", "restore", "pop", "add"),
)
MANY = [(what, NAMES[number % 3], ("ada", "bob")[number % 2]) for number, what in enumerate(STEPS)]


async def test_reads_as_of_a_moment_on_sqlite(tmp_path: Path) -> None:
    async with memoranda.open(f"sqlite:///{tmp_path / 'a.db'}", revisions=True) as store:
        await played(store, MANY)


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
        assert store.kept == Revisions(days=3, number=2)  # type: ignore[attr-defined]
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
