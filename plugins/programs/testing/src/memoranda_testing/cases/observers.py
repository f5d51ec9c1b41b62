"""Observers: what they may change, and what they are notified of."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from memoranda.errors import InputError, PluginError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Observer, Store
from memoranda_testing.case import Cases, note
from memoranda_testing.expect import contents, each_raises, equal, raises


class Recorder(Observer):
    """Record the events of one user, and change the copies that are passed in."""

    def __init__(self, user: str | None) -> None:
        self.user = user
        self.recorded: list[tuple[str, object]] = []

    def before_add(self, item: MemoryItem) -> MemoryItem:
        if item.metadata.user_id == self.user:
            item.content = item.content.replace("secret", "***")
        return item

    def added(self, items: Sequence[MemoryItem]) -> None:
        self._note("added", items)

    def searched(self, query: str, items: Sequence[MemoryItem]) -> None:
        self._note(f"searched {query}", items)

    def cleared(self, metadata: MemoryMetadata | None, removed: int) -> None:
        self.recorded.append(("cleared", removed))

    def _note(self, event: str, items: Sequence[MemoryItem]) -> None:
        self.recorded.append((event, contents(items)))
        for item in items:
            item.content = "spoilt by an observer"


class _Failing(Observer):
    """Fail in every method that is named."""

    def __init__(self, *methods: str) -> None:
        self.methods = methods

    def before_add(self, item: MemoryItem) -> MemoryItem:
        self._fail("before_add")
        return item

    def added(self, items: Sequence[MemoryItem]) -> None:
        self._fail("added")

    def searched(self, query: str, items: Sequence[MemoryItem]) -> None:
        self._fail("searched")

    def cleared(self, metadata: MemoryMetadata | None, removed: int) -> None:
        self._fail("cleared")

    def _fail(self, method: str) -> None:
        if method in self.methods:
            raise RuntimeError("the observer's own mistake")


@contextmanager
def _expected_log() -> Iterator[None]:
    """Keep the log of expected failures out of the terminal."""
    logger = logging.getLogger("memoranda.store.observers")
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False


class ObserverCases(Cases):
    """Observers are notified of what a store does, and may change an item before it is stored."""

    async def test_observers_are_told_of_what_happens(self, store: Store) -> None:
        """Adds, updates, searches and removals are reported once each, after they happened."""
        scope = self.scope()
        recorder = Recorder(scope.user_id)
        store.observe(recorder)
        item = note("tea", scope)
        await store.add(item)
        await store.add_many([note("wine", scope, 1), note("beer", scope, 2)])
        await store.update(note("green tea", scope, id=item.id, version=1))
        found = await store.search(query="green", metadata=scope, mode="substring")
        await store.clear(metadata=scope)
        equal(
            recorder.recorded,
            [
                ("added", ["tea"]),
                ("added", ["wine", "beer"]),
                ("added", ["green tea"]),
                ("searched green", ["green tea"]),
                ("cleared", 3),
            ],
            "what the observer was notified of",
        )
        equal(contents(found), ["green tea"], "what the caller got")

    async def test_observers_change_items_before_they_are_stored(self, store: Store) -> None:
        """Every way of adding goes through before_add; the caller's item is not changed."""
        scope = self.scope()
        store.observe(Recorder(scope.user_id))
        handle = store.scoped(user_id=str(scope.user_id))
        items = [note(f"secret {number}", scope, number) for number in range(4)]
        await store.add(items[0])
        await store.add_many([items[1]])
        await store.update(items[2])
        await handle.add(items[3])
        equal(contents(await store.search(metadata=scope)), ["*** 3", "*** 2", "*** 1", "*** 0"], "what is stored")
        equal(contents(items), ["secret 0", "secret 1", "secret 2", "secret 3"], "the caller's items")

    async def test_a_failure_before_adding_refuses_the_add(self, store: Store) -> None:
        """If before_add fails, nothing is stored, and the error is a PluginError."""
        scope = self.scope()
        store.observe(_Failing("before_add"))
        item = note("secret", scope)
        await each_raises(
            PluginError,
            "while an observer fails",
            add=store.add(item),
            add_many=store.add_many([item]),
            update=store.update(item),
        )
        equal(await store.count(metadata=scope), 0, "count after refusals")

    async def test_a_failure_after_the_work_changes_nothing(self, store: Store) -> None:
        """An observer that fails in added, searched or cleared does not disturb the caller."""
        scope = self.scope()
        observer = _Failing("added", "searched", "cleared")
        store.observe(observer)
        with _expected_log():
            await store.add(note("tea", scope))
            equal(contents(await store.search(metadata=scope)), ["tea"], "search")
            equal(await store.clear(metadata=scope), 1, "number cleared")
        observer.methods = ()

    async def test_an_observer_cannot_change_owner_or_id(self, store: Store) -> None:
        """An item whose id or user an observer changed is refused with a PluginError."""
        scope, other = self.scope(), self.scope()

        class Thief(Observer):
            """Give every item to another user."""

            def before_add(self, item: MemoryItem) -> MemoryItem:
                return note(item.content, other, id=item.id)

        store.observe(Thief())
        with raises(PluginError, "add while an observer changes the owner"):
            await store.add(note("mine", scope))
        equal(await store.count(metadata=other), 0, "count of the other user")

    async def test_what_an_observer_makes_is_checked_again(self, store: Store) -> None:
        """An observer cannot bring in what no store can hold."""
        scope = self.scope()

        class Spoiler(Observer):
            """Put a NUL into every content."""

            def before_add(self, item: MemoryItem) -> MemoryItem:
                item.content += "\0"
                return item

        store.observe(Spoiler())
        with raises(InputError, "add while an observer spoils the content"):
            await store.add(note("fine", scope))
        equal(await store.count(metadata=scope), 0, "count after a refusal")
