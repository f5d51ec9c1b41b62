"""Clearing, hiding, restoring and purging."""

from __future__ import annotations

import asyncio
import gc
import uuid
from types import FunctionType, ModuleType
from typing import Any

from memoranda.items import MemoryMetadata
from memoranda.store import Capability, SearchMode, Store
from memoranda_testing.case import needs, note
from memoranda_testing.cases.histories import HistoryCases
from memoranda_testing.expect import equal, that
from memoranda_testing.programs import Calls, Program, item, items, mine, played, theirs

FIELDS: dict[str, str] = {"session_id": "s", "task_id": "t", "agent_id": "a"}


def searches(store: Calls, query: str) -> Program:
    """Look for a text by its letters and by its words."""
    yield from (store.search(query=query, mode=mode) for mode in ("substring", "text"))


class ClearCases(HistoryCases):
    """Clearing removes what matches."""

    @played
    def test_clear_removes_what_matches_and_nothing_else(self, store: Calls) -> Program:
        """A clearing filter means what a searching one means; archived items go, too, and each is counted once."""
        yield store.add_many([item("whole", metadata=mine(**FIELDS)), item("archived", archived_by="summary")])
        yield store.add_many([item(name, metadata=mine(**{**FIELDS, name: "other"})) for name in FIELDS])
        yield store.add_many([item("empty", metadata=mine(session_id="")), item("none"), item("x", metadata=theirs())])
        yield store.add_many([item(f"{value!r}", metadata=mine(extra={"v": value, "w": 2})) for value in (1, True)])
        yield from (store.clear(metadata=mine(**FIELDS)) for _ in range(2))
        yield from (store.clear(metadata=mine(**{name: "other"})) for name in FIELDS)
        yield from (store.clear(metadata=mine(**asked)) for asked in ({"session_id": ""}, {"extra": {"v": 1.0}}, {}))

    @played
    def test_clear_by_an_empty_filter_is_refused(self, store: Calls) -> Program:
        """MemoryMetadata() would clear everything, which is rarely meant: an InputError, and nothing is removed."""
        yield store.add(item("kept"))
        yield store.clear(metadata=MemoryMetadata())

    @played
    def test_a_cleared_id_can_be_added_again_by_its_owner(self, store: Calls) -> Program:
        """Adding brings the id back with the new content alone; no search finds the old one."""
        yield store.add(item("ephemeral words", id="x"))
        yield store.clear(metadata=mine())
        yield from searches(store, "ephemeral")
        yield store.add(item("new", id="x"))
        yield from searches(store, "words")

    @played
    def test_bare_clear_removes_everything(self, store: Calls) -> Program:
        """Without a filter all items go, whatever their owner, and a bare restore brings them back."""
        yield store.add_many([item("a"), item("b", metadata=theirs()), item("c", metadata=MemoryMetadata())])
        yield from (store.clear(), store.search(), store.clear(), store.restore())

    @played
    def test_removing_without_the_capability_is_refused(self, store: Calls) -> Program:
        """A store that does not declare ``delete`` or ``purge`` says so with an UnsupportedError."""
        yield store.add(item("tea"))
        yield from (store.restore("tea"), store.scan(include_deleted=True), store.delete("tea"), store.purge("tea"))


class DeleteCases(HistoryCases):
    """Hiding and bringing back."""

    @needs(Capability.DELETE)
    @played
    def test_a_deleted_item_is_hidden_everywhere(self, store: Calls) -> Program:
        """get, searches, scan and count no longer show it but where they ask for what is deleted; others stay."""
        yield store.add_many([*items("gone tea", "kept tea", "last tea"), item("their tea", metadata=theirs())])
        yield from (store.delete("gone tea"), store.delete("their tea"), store.get("gone tea"))
        yield from searches(store, "tea")
        for hidden in (False, True):
            yield store.count(metadata=mine(), include_deleted=hidden)
            yield store.scan(metadata=mine(), include_deleted=hidden)

    @needs(Capability.DELETE)
    @played
    def test_delete_and_restore_respect_their_filter(self, store: Calls) -> Program:
        """What is not there, does not match or is so already is not deleted and not restored."""
        yield store.add_many(items("x", "visible", metadata=mine(session_id="s")))
        for change in (store.delete, store.restore):
            yield change("unknown")
            yield from (change("x", metadata=mine(session_id=session)) for session in ("other", "s", "s"))
        yield store.restore("visible")

    @needs(Capability.DELETE)
    @played
    def test_restore_brings_items_back_as_they_were(self, store: Calls) -> Program:
        """Content, version and place are those from before, text is found again, and other scopes stay hidden."""
        yield store.add_many([item(f"tea {number}", 9, mine(session_id=f"s{number % 2}")) for number in range(4)])
        yield store.add(item("tea 1", 9, mine(session_id="s1")))
        yield store.add(item("tea archived", 9, mine(session_id="s1"), archived_by="summary"))
        yield store.clear(metadata=mine())
        yield from (store.restore(metadata=mine(session_id="s1")) for _ in range(2))
        yield from searches(store, "tea")
        yield store.count(metadata=mine(session_id="s0"))

    @needs(Capability.DELETE)
    @played
    def test_storing_a_deleted_id_brings_it_back_with_the_new_content(self, store: Calls) -> Program:
        """Its version goes on and nothing is left to restore; for compare-and-set a hidden item is not there."""
        yield store.add_many(items("a", "b"))
        yield store.clear(metadata=mine())
        yield store.add(item("new", id="a"))
        yield from (store.update(item("new", id="b", version=version)) for version in (1, 0))
        yield store.restore(metadata=mine())


class PurgeCases(HistoryCases):
    """Removing for good."""

    @needs(Capability.PURGE)
    @played
    def test_purge_removes_for_good(self, store: Calls) -> Program:
        """A purged item is in no read, no count and no bin, deleted or not, and an id respects the filter."""
        yield store.add_many([*items("secret a", "secret b", "secret d"), item("secret c", archived_by="s")])
        yield from (store.delete("secret d"), store.purge("secret a", metadata=mine(session_id="other")))
        yield from (store.purge("secret a"), store.purge(metadata=mine()), store.get("secret b"))
        yield from searches(store, "secret")
        yield from (store.purge(metadata=mine()), store.restore(metadata=mine()))

    @needs(Capability.PURGE, Capability.DELETE)
    @played
    def test_purge_of_the_bin_leaves_visible_items(self, store: Calls) -> Program:
        """deleted_only purges what is hidden and matches, nothing else; alone, it empties the bin of everybody."""
        yield store.add_many([*items("a", "b"), *(item(name, metadata=theirs()) for name in "cd")])
        yield from (store.delete("a"), store.delete("c"))
        yield from (store.purge("b", deleted_only=True), store.purge(metadata=mine(), deleted_only=True))
        yield store.purge(deleted_only=True)

    @needs(Capability.PURGE)
    @played
    def test_purge_needs_to_be_told_what(self, store: Calls) -> Program:
        """purge() without id, filter or deleted_only is an InputError, and so is an empty filter."""
        yield store.add(item("kept"))
        yield from (store.purge(metadata=MemoryMetadata()), store.purge())

    @needs(Capability.PURGE)
    @played
    def test_a_purged_id_can_be_used_by_anyone(self, store: Calls) -> Program:
        """After a purge the id starts anew: another user may take it, at version 1."""
        yield from (store.add(item("tea")) for _ in range(2))
        yield store.purge("tea")
        yield store.add(item("tea", metadata=theirs()))

    @needs(Capability.PURGE)
    async def test_nothing_of_what_is_purged_stays_in_memory(self, store: Store) -> None:
        """Nothing that a store keeps between calls, such as a ranking of many items, still has what was purged."""
        scope = self.scope(session_id="s")
        await store.add_many([note(f"tea {number}", scope, 1) for number in range(1_100)])
        for way in ("purge", "pop", "apply", "filter", "bin"):
            # The secret is held backwards here, so that what is found is not the case's own.
            secret = uuid.uuid4().hex
            item_id = await self._kept_and_read(store, secret[::-1], scope)
            if way == "purge":
                await store.purge(item_id)
            elif way == "pop":
                that(await store.pop(metadata=scope, purge=True), "pop() found nothing.")
            elif way == "apply":
                await store.apply(deletes=[item_id], purge=True)
            elif way == "filter":
                await store.purge(metadata=scope, where={"id": item_id})
            elif Capability.DELETE in store.capabilities:
                await store.delete(item_id)
                await store.purge(metadata=scope, deleted_only=True)
            else:
                continue
            holders = _holders_of(store, secret)
            for _ in range(20):  # A thread or the event loop may be about to let go of an answer.
                if not holders:
                    break
                await asyncio.sleep(0.01)
                holders = _holders_of(store, secret)
            equal(holders, [], f"what still holds an item that was purged by {way!r}")

    async def _kept_and_read(self, store: Store, secret: str, scope: MemoryMetadata) -> str:
        """Store the newest item, read it in every way, and return its id."""
        item = note(f"tea and {secret}", scope, 2)
        await store.add(item)
        await store.get(item.id)
        modes: list[SearchMode] = ["substring", "text"]
        if Capability.SEMANTIC in store.capabilities:
            modes.append("semantic")
        for mode in modes:
            found = await store.search(query=secret, metadata=scope, mode=mode)
            that(item.id in [each.id for each in found], f"An item was not found in mode {mode!r}.")
        await store.window(metadata=scope, limit=5)
        return item.id


def _holders_of(store: Store, backwards: str) -> list[str]:
    """Return the types of what holds the text of an item that ends like this, backwards, and belongs to the store.

    Single words may be held: they are those of everybody. What belongs to modules and classes is not looked at.
    """
    text, holders = f"and {backwards[::-1]}", set()
    met: dict[int, Any] = {id(store): store}
    waiting: list[Any] = [store]
    while waiting:
        each = waiting.pop()
        for held in gc.get_referents(each):
            if type(held) is str and held.endswith(text):
                holders.add(type(each).__name__)
            elif id(held) not in met and gc.is_tracked(held) and not _is_shared(held):
                met[id(held)] = held
                waiting.append(held)
    return sorted(holders)


def _is_shared(held: Any) -> bool:
    """Return True for modules, classes, functions and event loops, and for the names of a module."""
    shared = (ModuleType, type, FunctionType, asyncio.AbstractEventLoop)
    return isinstance(held, shared) or (type(held) is dict and "__builtins__" in held)
