"""Observers: what the kit does not ask of every store."""

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
