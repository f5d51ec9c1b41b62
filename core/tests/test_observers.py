"""Observers: they stand between a store and its engine, so that no engine can be wrong about them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from memoranda import MemoryItem, MemoryMetadata
from memoranda.errors import InputError, PluginError
from memoranda.store import InMemoryStore, Observer
from memoranda.store.backend import Filter, Observers


class Recorder(Observer):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def added(self, items: Sequence[MemoryItem]) -> None:
        self.told.append(("added", [(item.content, item.metadata.user_id) for item in items]))

    def searched(self, query: str, items: Sequence[MemoryItem]) -> None:
        self.told.append(("searched", query))

    def cleared(self, metadata: MemoryMetadata | None, removed: int) -> None:
        self.told.append(("cleared", removed))


class Appends(Observer):
    """Adds a letter to every content."""

    def __init__(self, letter: str) -> None:
        self.letter = letter

    def before_add(self, item: MemoryItem) -> MemoryItem:
        item.content += self.letter
        return item


class Fails(Observer):
    """Fails with a message that quotes what it saw."""

    def before_add(self, item: MemoryItem) -> MemoryItem:
        raise RuntimeError(f"cannot read {item.content}")

    def added(self, items: Sequence[MemoryItem]) -> None:
        raise RuntimeError(f"cannot read {items[0].content}")


async def test_an_observer_without_methods_changes_nothing() -> None:
    store = InMemoryStore()
    store.observe(Observer())
    await store.add(MemoryItem(content="x"))
    assert [item.content for item in await store.search()] == ["x"]
    assert await store.clear() == 1


async def test_observers_change_an_item_one_after_the_other() -> None:
    store = InMemoryStore()
    for letter in "ab":
        store.observe(Appends(letter))
    await store.add(MemoryItem(content="x"))
    assert [item.content for item in await store.search()] == ["xab"]


async def test_observers_see_what_a_handle_stamped() -> None:
    store, recorder = InMemoryStore(), Recorder()
    store.observe(recorder)
    await store.scoped(user_id="u").add(MemoryItem(content="x"))
    assert recorder.told == [("added", [("x", "u")])]


async def test_observers_are_told_of_deletions_and_purges() -> None:
    store, recorder = InMemoryStore(), Recorder()
    item = MemoryItem(content="x", metadata=MemoryMetadata(user_id="u"))
    await store.add(item)
    store.observe(recorder)
    assert await store.delete("unknown") is False
    await store.delete(item.id)
    await store.purge(item.id)
    assert recorder.told == [("cleared", 1), ("cleared", 1)]


async def test_observers_are_told_of_a_ranked_search_once() -> None:
    store, recorder = InMemoryStore(), Recorder()
    store.observe(recorder)
    await store.search(query="tea", mode="text")
    assert recorder.told == [("searched", "tea")]


async def test_a_refusal_names_the_observer_and_not_the_content() -> None:
    store = InMemoryStore()
    store.observe(Fails())
    with pytest.raises(PluginError, match="Fails") as raised:
        await store.add(MemoryItem(content="secret"))
    assert "secret" not in str(raised.value)
    assert await store.count() == 0


async def test_an_error_of_memoranda_passes_through_an_observer() -> None:
    class Refuses(Observer):
        def before_add(self, item: MemoryItem) -> MemoryItem:
            raise InputError("No digits, please.", field="content")

    store = InMemoryStore()
    store.observe(Refuses())
    with pytest.raises(InputError, match="No digits"):
        await store.add(MemoryItem(content="1"))


@pytest.mark.parametrize("answer", [None, "x", {"content": "x"}])
async def test_an_observer_must_return_an_item(answer: Any) -> None:
    class Forgets(Observer):
        def before_add(self, item: MemoryItem) -> MemoryItem:
            return answer  # type: ignore[no-any-return]

    store = InMemoryStore()
    store.observe(Forgets())
    with pytest.raises(PluginError):
        await store.add(MemoryItem(content="x"))


async def test_a_failure_is_logged_without_memory_content(caplog: pytest.LogCaptureFixture) -> None:
    observers = Observers()
    observers.register(Fails())
    with caplog.at_level(logging.INFO, "memoranda.store.observers"):
        observers.added([MemoryItem(content="secret")])
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "Fails" in caplog.text
    assert "secret" not in caplog.text


async def test_one_failing_observer_does_not_keep_the_others_from_hearing() -> None:
    class Deaf(Observer):
        def added(self, items: Sequence[MemoryItem]) -> None:
            raise RuntimeError

    store, recorder = InMemoryStore(), Recorder()
    store.observe(Deaf())
    store.observe(recorder)
    await store.add(MemoryItem(content="x"))
    assert len(recorder.told) == 1


async def test_only_removals_for_good_are_waited_for() -> None:
    class Waiting(Observer):
        purges = 0

        async def purged(self) -> None:
            self.purges += 1

    observer = Waiting()
    async with InMemoryStore() as store:
        store.observe(observer)
        await store.add_many([MemoryItem(id=name, content=name) for name in "abcdef"])
        await store.delete("a")
        await store.pop()
        await store.apply(deletes=["b"])
        await store.clear(where={"id": "c"})
        assert observer.purges == 0
        await store.purge("a")
        await store.pop(purge=True)
        await store.apply(deletes=["b"], purge=True)
        assert observer.purges == 3


async def test_an_observer_sees_what_is_about_to_be_purged() -> None:
    class Watching(Observer):
        def __init__(self) -> None:
            self.seen: list[tuple[list[str] | None, set[str], bool]] = []

        async def purging(self, store: Any, wanted: Filter, ids: list[str] | None, deleted_only: bool) -> None:
            there = {item.id async for item in store.scan(include_deleted=True) if wanted.matches(item)}
            self.seen.append((ids, there, deleted_only))

    observer = Watching()
    async with InMemoryStore() as store:
        store.observe(observer)
        await store.add_many([MemoryItem(id=name, content=name) for name in "abc"])
        await store.delete("a")
        await store.purge("b")
        await store.purge(where={"id": "c"})
        await store.purge(deleted_only=True)
        assert observer.seen == [(["b"], {"a", "b", "c"}, False), (None, {"c"}, False), (None, {"a"}, True)]
        await store.add(MemoryItem(id="d", content="d"))
        await store.apply(deletes=["d"], purge=True)
        assert observer.seen[-1] == (["d"], {"d"}, False)


def added(content: str, **fields: Any) -> MemoryItem:
    return MemoryItem(content=content, metadata=MemoryMetadata(user_id="u"), **fields)


async def test_adds_updates_searches_and_removals_are_told_once_each() -> None:
    store, recorder = InMemoryStore(), Recorder()
    store.observe(recorder)
    await store.add(added("tea", id="x"))
    await store.add_many([added("wine"), added("beer")])
    await store.update(added("green tea", id="x", version=1))
    await store.search(query="green")
    await store.clear()
    told = [("added", ["tea"]), ("added", ["wine", "beer"]), ("added", ["green tea"])]
    assert recorder.told == [
        *((event, [(content, "u") for content in contents]) for event, contents in told),
        ("searched", "green"),
        ("cleared", 3),
    ]


@pytest.mark.parametrize(
    "spoilt", [{"metadata": MemoryMetadata(user_id="thief")}, {"id": "another"}, {"content": "\0"}]
)
async def test_what_an_observer_makes_is_checked_again(spoilt: dict[str, Any]) -> None:
    class Spoiler(Observer):
        def before_add(self, item: MemoryItem) -> MemoryItem:
            return item.model_copy(update=spoilt)

    store = InMemoryStore()
    store.observe(Spoiler())
    for write in (store.add, store.update, lambda item: store.add_many([item])):
        with pytest.raises((PluginError, InputError)):
            await write(added("fine"))
    assert await store.count() == 0


async def test_a_failure_before_adding_refuses_the_add_and_later_ones_change_nothing() -> None:
    store = InMemoryStore()
    store.observe(Fails())
    for write in (store.add, store.update, lambda item: store.add_many([item])):
        with pytest.raises(PluginError):
            await write(added("fine"))
    assert await store.count() == 0

    class FailsAfterwards(Recorder):
        def _fail(self, *told: object) -> None:
            raise RuntimeError

        added = searched = cleared = _fail  # type: ignore[assignment]  # whatever it is told

    store = InMemoryStore()
    store.observe(FailsAfterwards())
    await store.add(added("tea"))
    assert [item.content for item in await store.search()] == ["tea"]
    assert await store.clear() == 1


async def test_what_arrives_deleted_is_changed_and_not_told() -> None:
    store, recorder = InMemoryStore(), Recorder()
    store.observe(Appends("!"))
    store.observe(recorder)
    await store.add_many([added("shown"), added("hidden", id="h")], deleted=["h"])
    await store.restore("h")
    assert recorder.told == [("added", [("shown!", "u")])]
    assert {item.content for item in await store.search()} == {"shown!", "hidden!"}


async def test_what_an_observer_is_told_is_a_copy() -> None:
    class Spoils(Observer):
        def added(self, items: Sequence[MemoryItem]) -> None:
            items[0].content = "spoilt"

        def searched(self, query: str, items: Sequence[MemoryItem]) -> None:
            items[0].content = "spoilt"

    store = InMemoryStore()
    store.observe(Spoils())
    await store.add(added("tea"))
    for _ in range(2):
        assert [item.content for item in await store.search(query="tea")] == ["tea"]
