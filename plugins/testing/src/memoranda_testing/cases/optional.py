"""Observers, and items that vanish by themselves."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from memoranda.errors import InputError, PluginError, UnsupportedError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import BaseStore, Capability, Observer
from memoranda_testing.case import Cases, needs, note
from memoranda_testing.expect import SkipCase, contents, each_raises, equal, raises, that

LONGEST = 36.0
"""The longest life that is waited for by the real clock."""


class _Recorder(Observer):
    """Writes down what it is told of one user, and spoils the copies it is given."""

    def __init__(self, user: str | None) -> None:
        self.user = user
        self.told: list[tuple[str, object]] = []

    def before_add(self, item: MemoryItem) -> MemoryItem:
        if item.metadata.user_id == self.user:
            item.content = item.content.replace("secret", "***")
        return item

    def added(self, items: Sequence[MemoryItem]) -> None:
        self._note("added", items)

    def searched(self, query: str, items: Sequence[MemoryItem]) -> None:
        self._note(f"searched {query}", items)

    def cleared(self, metadata: MemoryMetadata | None, removed: int) -> None:
        self.told.append(("cleared", removed))

    def _note(self, event: str, items: Sequence[MemoryItem]) -> None:
        self.told.append((event, contents(items)))
        for item in items:
            item.content = "spoilt by an observer"


class _Failing(Observer):
    """Fails in every method it is told to."""

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
    """Keep the log of failures that are meant out of the terminal."""
    logger = logging.getLogger("memoranda.store.observers")
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False


class ObserverCases(Cases):
    """Observers are told of what a store does, and may change an item before it is stored."""

    async def test_observers_are_told_of_what_happens(self, store: BaseStore) -> None:
        """Adds, updates, searches and removals are told once each, after they happened."""
        scope = self.scope()
        recorder = _Recorder(scope.user_id)
        store.observe(recorder)
        item = note("tea", scope)
        await store.add(item)
        await store.add_many([note("wine", scope, 1), note("beer", scope, 2)])
        await store.update(note("green tea", scope, id=item.id, version=1))
        found = await store.search(query="green", metadata=scope, mode="substring")
        await store.clear(metadata=scope)
        equal(
            recorder.told,
            [
                ("added", ["tea"]),
                ("added", ["wine", "beer"]),
                ("added", ["green tea"]),
                ("searched green", ["green tea"]),
                ("cleared", 3),
            ],
            "what the observer was told",
        )
        equal(contents(found), ["green tea"], "what the caller got")

    async def test_observers_change_items_before_they_are_stored(self, store: BaseStore) -> None:
        """Every way of adding goes through before_add; the caller's item is not changed."""
        scope = self.scope()
        store.observe(_Recorder(scope.user_id))
        handle = store.scoped(user_id=str(scope.user_id))
        items = [note(f"secret {number}", scope, number) for number in range(4)]
        await store.add(items[0])
        await store.add_many([items[1]])
        await store.update(items[2])
        await handle.add(items[3])
        equal(contents(await store.search(metadata=scope)), ["*** 3", "*** 2", "*** 1", "*** 0"], "what is stored")
        equal(contents(items), ["secret 0", "secret 1", "secret 2", "secret 3"], "the caller's items")

    async def test_a_failure_before_adding_refuses_the_add(self, store: BaseStore) -> None:
        """An observer that redacts is not passed over: nothing is stored, and the error is a PluginError."""
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

    async def test_a_failure_after_the_work_changes_nothing(self, store: BaseStore) -> None:
        """An observer that fails in added, searched or cleared does not disturb the caller."""
        scope = self.scope()
        observer = _Failing("added", "searched", "cleared")
        store.observe(observer)
        with _expected_log():
            await store.add(note("tea", scope))
            equal(contents(await store.search(metadata=scope)), ["tea"], "search")
            equal(await store.clear(metadata=scope), 1, "number cleared")
        observer.methods = ()

    async def test_an_observer_cannot_change_owner_or_id(self, store: BaseStore) -> None:
        """An item whose id or user an observer changed is refused with a PluginError."""
        scope, other = self.scope(), self.scope()

        class Thief(Observer):
            """Gives every item to somebody else."""

            def before_add(self, item: MemoryItem) -> MemoryItem:
                return note(item.content, other, id=item.id)

        store.observe(Thief())
        with raises(PluginError, "add while an observer changes the owner"):
            await store.add(note("mine", scope))
        equal(await store.count(metadata=other), 0, "count of the other user")

    async def test_what_an_observer_makes_is_checked_again(self, store: BaseStore) -> None:
        """An observer cannot bring in what no store can hold."""
        scope = self.scope()

        class Spoiler(Observer):
            """Puts a NUL into every content."""

            def before_add(self, item: MemoryItem) -> MemoryItem:
                item.content += "\0"
                return item

        store.observe(Spoiler())
        with raises(InputError, "add while an observer spoils the content"):
            await store.add(note("fine", scope))
        equal(await store.count(metadata=scope), 0, "count after a refusal")


class TtlCases(Cases):
    """Items that vanish by themselves."""

    @needs(Capability.TTL)
    async def test_an_item_vanishes_after_its_ttl(self, store: BaseStore) -> None:
        """Until then it is like any other; then no read shows it, in a batch as well as alone."""
        ttl = 1.0
        while True:
            scope = self.scope()
            first, second, kept = note("tea first", scope, 1), note("tea second", scope, 2), note("tea kept", scope, 3)
            started = time.monotonic()
            await store.add(kept)
            await store.add(first, ttl=ttl)
            await store.add_many([second], ttl=ttl)
            found_at_first = len(await store.search(metadata=scope))
            if time.monotonic() - started < ttl or ttl >= LONGEST:
                break
            ttl *= 6  # The machine is so busy that the life had ended before anybody could look.
        equal(found_at_first, 3, "number found at first")
        await self._until_gone(store, first, second, ttl=ttl)
        equal(contents(await store.search(metadata=scope)), ["tea kept"], "listing")
        for mode in ("substring", "text"):
            found = await store.search(query="tea", metadata=scope, mode=mode)
            equal(contents(found), ["tea kept"], f"search mode {mode!r}")
        equal(contents([item async for item in store.scan(metadata=scope)]), ["tea kept"], "scan")
        equal(await store.count(metadata=scope), 1, "count")

    @needs(Capability.TTL)
    async def test_replacing_without_a_ttl_keeps_the_item(self, store: BaseStore) -> None:
        """The whole item is replaced, the time it had left too."""
        scope = self.scope()
        item, other = note("short", scope), note("other", scope)
        await store.add(item, ttl=0.8)
        await store.add(note("long", scope, id=item.id))
        await store.add(other, ttl=1.0)
        await self._until_gone(store, other, ttl=1.0)
        equal(contents(await store.search(metadata=scope)), ["long"], "search after the first ttl")

    @needs(Capability.TTL)
    async def test_a_vanished_id_can_be_added_again(self, store: BaseStore) -> None:
        """Its owner adds it anew, with its new content."""
        scope = self.scope()
        item = note("first", scope)
        await store.add(item, ttl=0.5)
        await self._until_gone(store, item, ttl=0.5)
        await store.add(note("second", scope, id=item.id))
        found = await store.get(item.id)
        equal(found and found.content, "second", "the item that was added again")

    @needs(Capability.TTL)
    async def test_bad_ttls_are_refused(self, store: BaseStore) -> None:
        """A time to live is a number of seconds above 0."""
        item = note("x", self.scope())
        for ttl in (0, -1, float("nan"), float("inf"), "3", True, 10**5000, -(10**5000)):
            with raises(InputError, f"add with a ttl of type {type(ttl).__name__}"):
                await store.add(item, ttl=ttl)  # type: ignore[arg-type]  # the mistake under test
        equal(await store.get(item.id), None, "get after refusals")

    async def test_a_ttl_without_the_capability_is_refused(self, store: BaseStore) -> None:
        """A store that cannot let items vanish says so instead of keeping them."""
        if Capability.TTL in store.capabilities:
            raise SkipCase("the store declares the capability 'ttl'")
        item = note("x", self.scope())
        await each_raises(
            UnsupportedError, "with a ttl", add=store.add(item, ttl=5), add_many=store.add_many([item], ttl=5)
        )
        equal(await store.get(item.id), None, "get after refusals")

    async def _until_gone(self, store: BaseStore, *items: MemoryItem, ttl: float) -> None:
        """Wait until none of the items is there; a store may take a moment longer than the ttl."""
        deadline = time.monotonic() + ttl + 10
        while True:
            is_late = time.monotonic() >= deadline
            if not [item for item in items if await store.get(item.id) is not None]:
                return
            that(not is_late, "An item is still there 10 seconds after its time.")
            await asyncio.sleep(0.05)
