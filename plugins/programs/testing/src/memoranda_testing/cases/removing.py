"""Clearing, hiding, restoring and purging."""

from __future__ import annotations

import asyncio
import gc
import uuid
from types import FunctionType, ModuleType
from typing import Any

from memoranda.errors import InputError, UnsupportedError, VersionConflictError
from memoranda.items import MemoryMetadata
from memoranda.store import Capability, SearchMode, Store
from memoranda_testing.case import Cases, alone, needs, note
from memoranda_testing.expect import contents, each_raises, equal, raises, same_item, that


class ClearCases(Cases):
    """Clearing removes what matches."""

    async def test_clear_removes_what_matches_and_nothing_else(self, store: Store) -> None:
        """A filter by session clears that session; the number of removed items is returned."""
        user = self.user()
        first, second = (MemoryMetadata(user_id=user, session_id=name) for name in ("s1", "s2"))
        items = [note("a", first, 1), note("b", first, 2), note("c", second, 3)]
        await store.add_many(items)
        equal(await store.clear(metadata=first), 2, "number cleared")
        equal(await store.get(items[0].id), None, "get of a cleared item")
        equal(contents(await store.search(metadata=MemoryMetadata(user_id=user))), ["c"], "what is left")
        equal(await store.clear(metadata=first), 0, "number cleared the second time")

    async def test_clear_matches_extra_and_empty_texts(self, store: Store) -> None:
        """A clearing filter means what a searching filter means."""
        user = self.user()
        for content, metadata in (
            ("none", MemoryMetadata(user_id=user)),
            ("empty", MemoryMetadata(user_id=user, session_id="")),
            ("tagged", MemoryMetadata(user_id=user, extra={"v": 1, "w": 2})),
            ("true", MemoryMetadata(user_id=user, extra={"v": True})),
        ):
            await store.add(note(content, metadata))
        equal(await store.clear(metadata=MemoryMetadata(user_id=user, session_id="")), 1, "cleared by session_id=''")
        equal(await store.clear(metadata=MemoryMetadata(user_id=user, extra={"v": 1.0})), 1, "cleared by extra")
        left = {item.content for item in await store.search(metadata=MemoryMetadata(user_id=user))}
        equal(left, {"none", "true"}, "what is left")

    async def test_clear_matches_every_field_of_a_scope(self, store: Store) -> None:
        """Each field that is named narrows what is cleared, and so does each together with the others."""
        user = self.user()
        fields: dict[str, Any] = {"session_id": "s", "task_id": "t", "agent_id": "a"}
        whole = MemoryMetadata(user_id=user, **fields)
        await store.add(note("whole", whole))
        for name in fields:
            await store.add(note(name, MemoryMetadata(user_id=user, **{**fields, name: "other"})))
        equal(await store.clear(metadata=whole), 1, "cleared by all fields")
        for name in fields:
            other: dict[str, Any] = {name: "other"}
            equal(await store.clear(metadata=MemoryMetadata(user_id=user, **other)), 1, f"cleared by {name}")

    async def test_clear_removes_archived_items(self, store: Store) -> None:
        """Items that searches no longer show are cleared with the others."""
        scope = self.scope()
        await store.add_many([note("a", scope, archived_by="summary"), note("b", scope)])
        equal(await store.clear(metadata=scope), 2, "number cleared")
        equal(await store.count(metadata=scope), 0, "count after clearing")

    async def test_clear_by_an_empty_filter_is_refused(self, store: Store) -> None:
        """MemoryMetadata() would clear everything, which is rarely meant: an InputError, and nothing is removed."""
        scope = self.scope()
        await store.add(note("kept", scope))
        with raises(InputError, "clear(metadata=MemoryMetadata())"):
            await store.clear(metadata=MemoryMetadata())
        equal(await store.count(metadata=scope), 1, "count after a refused clear")

    async def test_a_cleared_text_is_no_longer_found(self, store: Store) -> None:
        """Neither a substring search nor a ranked one finds what was cleared."""
        scope = self.scope()
        await store.add(note("ephemeral words", scope))
        await store.clear(metadata=scope)
        for mode in ("substring", "text"):
            found = await store.search(query="ephemeral", metadata=scope, mode=mode)
            equal(found, [], f"search mode {mode!r} after clearing")

    async def test_a_cleared_id_can_be_added_again_by_its_owner(self, store: Store) -> None:
        """Adding brings the id back with the new content alone."""
        scope = self.scope()
        item = note("old", scope)
        await store.add(item)
        await store.clear(metadata=scope)
        again = note("new", scope, id=item.id)
        await store.add(again)
        same_item(await store.get(item.id), again, "get after adding again")
        equal(contents(await store.search(metadata=scope)), ["new"], "search after adding again")

    @alone
    async def test_bare_clear_removes_everything(self, store: Store) -> None:
        """Without a filter all items go, whatever their owner."""
        await store.add_many([note("a", self.scope()), note("b", self.scope()), note("c", MemoryMetadata())])
        equal(await store.clear(), 3, "number cleared")
        equal(await store.search(), [], "search after clearing")
        equal(await store.count(), 0, "count after clearing")
        equal(await store.clear(), 0, "number cleared the second time")

    async def test_removing_without_the_capability_is_refused(self, store: Store) -> None:
        """A store that does not declare ``delete`` or ``purge`` says so with an UnsupportedError."""
        item = note("kept", self.scope())
        await store.add(item)
        if Capability.DELETE not in store.capabilities:
            await each_raises(
                UnsupportedError,
                "without the capability",
                delete=store.delete(item.id),
                restore=store.restore(item.id),
            )
            with raises(UnsupportedError, "scan(include_deleted=True) without the capability"):
                await anext(store.scan(include_deleted=True))
        if Capability.PURGE not in store.capabilities:
            with raises(UnsupportedError, "purge without the capability"):
                await store.purge(item.id)
        same_item(await store.get(item.id), item, "the item after refusals", version=1)


class DeleteCases(Cases):
    """Hiding and bringing back."""

    @needs(Capability.DELETE)
    async def test_a_deleted_item_is_hidden_everywhere(self, store: Store) -> None:
        """get, search, ranked search, scan and count no longer show it; others stay."""
        scope = self.scope()
        gone, kept = note("gone tea", scope, 1), note("kept tea", scope, 2)
        await store.add_many([gone, kept])
        equal(await store.delete(gone.id), True, "what delete returned")
        equal(await store.get(gone.id), None, "get of a deleted item")
        for mode in ("substring", "text"):
            found = await store.search(query="tea", metadata=scope, mode=mode)
            equal(contents(found), ["kept tea"], f"search mode {mode!r}")
        equal(contents([item async for item in store.scan(metadata=scope)]), ["kept tea"], "scan")
        equal(await store.count(metadata=scope), 1, "count")

    @needs(Capability.DELETE)
    async def test_deleted_items_are_counted_and_scanned_when_asked_for(self, store: Store) -> None:
        """include_deleted shows what is hidden, in its place, and nothing of another user's."""
        scope = self.scope()
        items = [note(str(second), scope, second) for second in range(3)]
        others = note("theirs", self.scope(), 1)
        await store.add_many([*items, others])
        await store.delete(items[1].id)
        await store.delete(others.id)
        equal(await store.count(metadata=scope, include_deleted=True), 3, "count with what is hidden")
        scanned = [item async for item in store.scan(metadata=scope, include_deleted=True)]
        equal(contents(scanned), ["0", "1", "2"], "scan with what is hidden")

    @needs(Capability.DELETE)
    async def test_delete_says_whether_there_was_an_item(self, store: Store) -> None:
        """Deleting what is not there, was deleted before or does not match returns False."""
        scope = self.scope(session_id="s")
        item = note("x", scope)
        await store.add(item)
        equal(await store.delete(self.user()), False, "delete of an unknown id")
        equal(
            await store.delete(item.id, metadata=MemoryMetadata(session_id="other")), False, "delete by another filter"
        )
        equal(await store.delete(item.id, metadata=scope), True, "delete by its own filter")
        equal(await store.delete(item.id), False, "delete of a deleted item")

    @needs(Capability.DELETE)
    async def test_restore_brings_an_item_back_as_it_was(self, store: Store) -> None:
        """Content, version and place are those from before, and its text is found again."""
        scope = self.scope()
        items = [note(f"tea {number}", scope, 9) for number in range(3)]
        await store.add_many(items)
        await store.add(note("tea 1", scope, 9, id=items[1].id))
        await store.delete(items[1].id)
        equal(await store.restore(items[1].id), 1, "number restored")
        same_item(await store.get(items[1].id), items[1], "the restored item", version=2)
        for mode in ("substring", "text"):
            found = await store.search(query="tea", metadata=scope, mode=mode)
            equal(len(found), 3, f"number found by mode {mode!r}")
        equal(contents(await store.search(metadata=scope)), ["tea 2", "tea 1", "tea 0"], "search after restoring")

    @needs(Capability.DELETE)
    async def test_restore_by_filter_brings_back_all_that_match(self, store: Store) -> None:
        """What clear() hid comes back; what is not hidden does not count, and other scopes stay hidden."""
        user = self.user()
        first, second = (MemoryMetadata(user_id=user, session_id=name) for name in ("s1", "s2"))
        await store.add_many([note("a", first, 1), note("b", first, 2, archived_by="summary"), note("c", second, 3)])
        await store.clear(metadata=MemoryMetadata(user_id=user))
        equal(await store.restore(metadata=first), 2, "number restored")
        equal(await store.restore(metadata=first), 0, "number restored the second time")
        equal(await store.count(metadata=first), 2, "count of what was restored")
        equal(await store.count(metadata=second), 0, "count of what is still hidden")

    @needs(Capability.DELETE)
    async def test_restore_of_one_id_respects_the_filter(self, store: Store) -> None:
        """An id that does not match the filter stays hidden; an unknown or visible id restores nothing."""
        scope = self.scope(session_id="s")
        item, visible = note("x", scope), note("y", scope)
        await store.add_many([item, visible])
        await store.delete(item.id)
        equal(await store.restore(item.id, metadata=MemoryMetadata(session_id="other")), 0, "restore by another filter")
        equal(await store.restore(self.user()), 0, "restore of an unknown id")
        equal(await store.restore(visible.id), 0, "restore of a visible item")
        equal(await store.restore(item.id, metadata=scope), 1, "restore by its own filter")

    @needs(Capability.DELETE)
    async def test_adding_a_deleted_id_brings_it_back_with_the_new_content(self, store: Store) -> None:
        """The id comes back with what was added, its version goes on, and nothing is left to restore."""
        scope = self.scope()
        item = note("old", scope)
        await store.add(item)
        await store.delete(item.id)
        again = note("new", scope, id=item.id)
        await store.add(again)
        same_item(await store.get(item.id), again, "the item that was added again", version=2)
        equal(await store.restore(metadata=scope), 0, "number restored")
        equal(await store.count(metadata=scope, include_deleted=True), 1, "count with what is hidden")

    @needs(Capability.DELETE)
    async def test_updating_a_deleted_item_is_refused(self, store: Store) -> None:
        """For compare-and-set a hidden item is not there: its version conflicts, and version 0 makes it anew."""
        scope = self.scope()
        item = note("old", scope)
        await store.add(item)
        await store.delete(item.id)
        with raises(VersionConflictError, "update of a deleted item"):
            await store.update(note("new", scope, id=item.id, version=1))
        equal(await store.get(item.id), None, "get after a refused update")
        updated = await store.update(note("new", scope, id=item.id))
        equal((updated.content, updated.version), ("new", 2), "what an update of version 0 made")

    @alone
    @needs(Capability.DELETE)
    async def test_bare_restore_undoes_a_bare_clear(self, store: Store) -> None:
        """Everything that is hidden comes back."""
        await store.add_many([note("a", self.scope()), note("b", self.scope())])
        await store.clear()
        equal(await store.restore(), 2, "number restored")
        equal(await store.count(), 2, "count after restoring")


class PurgeCases(Cases):
    """Removing for good."""

    @needs(Capability.PURGE)
    async def test_purge_removes_for_good(self, store: Store) -> None:
        """A purged item is in no read, no count and no bin; the number of purged items is returned."""
        scope = self.scope()
        items = [note("secret a", scope, 1), note("secret b", scope, 2), note("secret c", scope, 3, archived_by="s")]
        await store.add_many(items)
        equal(await store.purge(items[0].id), 1, "number purged by id")
        equal(await store.purge(metadata=scope), 2, "number purged by filter")
        equal(await store.count(metadata=scope, include_deleted=True), 0, "count with what is hidden")
        for mode in ("substring", "text"):
            found = await store.search(query="secret", metadata=scope, mode=mode)
            equal(found, [], f"search mode {mode!r} after purging")
        equal(await store.get(items[1].id), None, "get after purging")
        equal(await store.purge(metadata=scope), 0, "number purged the second time")

    @needs(Capability.PURGE, Capability.DELETE)
    async def test_purge_removes_hidden_items_too(self, store: Store) -> None:
        """Items that were deleted or cleared are purged with the others and cannot be restored."""
        scope = self.scope()
        hidden, visible = note("hidden", scope), note("visible", scope)
        await store.add_many([hidden, visible])
        await store.delete(hidden.id)
        equal(await store.purge(metadata=scope), 2, "number purged")
        equal(await store.restore(metadata=scope), 0, "number restored")

    @needs(Capability.PURGE, Capability.DELETE)
    async def test_purge_of_the_bin_leaves_visible_items(self, store: Store) -> None:
        """deleted_only purges what is hidden and matches, nothing else."""
        scope, other = self.scope(), self.scope()
        items = [note("a", scope), note("b", scope), note("c", other)]
        await store.add_many(items)
        await store.delete(items[0].id)
        await store.delete(items[2].id)
        equal(await store.purge(items[1].id, deleted_only=True), 0, "purge of a visible item with deleted_only")
        equal(await store.purge(metadata=scope, deleted_only=True), 1, "number purged")
        equal(contents(await store.search(metadata=scope)), ["b"], "what is left")
        equal(await store.count(metadata=other, include_deleted=True), 1, "another scope's bin")

    @needs(Capability.PURGE)
    async def test_purge_needs_to_be_told_what(self, store: Store) -> None:
        """purge() without id, filter or deleted_only is an InputError, and so is an empty filter."""
        scope = self.scope()
        await store.add(note("kept", scope))
        with raises(InputError, "purge()"):
            await store.purge()
        with raises(InputError, "purge(metadata=MemoryMetadata())"):
            await store.purge(metadata=MemoryMetadata())
        equal(await store.count(metadata=scope), 1, "count after refusals")

    @needs(Capability.PURGE)
    async def test_purge_of_an_id_respects_the_filter(self, store: Store) -> None:
        """An id that does not match the filter stays."""
        scope = self.scope(session_id="s")
        item = note("x", scope)
        await store.add(item)
        equal(await store.purge(item.id, metadata=MemoryMetadata(session_id="other")), 0, "purge by another filter")
        equal(await store.purge(item.id, metadata=scope), 1, "purge by its own filter")

    @needs(Capability.PURGE)
    async def test_a_purged_id_can_be_used_by_anyone(self, store: Store) -> None:
        """After a purge the id starts anew: another user may take it, at version 1."""
        item = note("mine", self.scope())
        await store.add(item)
        await store.add(item)
        await store.purge(item.id)
        other = note("theirs", self.scope(), id=item.id)
        await store.add(other)
        same_item(await store.get(item.id), other, "the item of the new owner", version=1)

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

    @alone
    @needs(Capability.PURGE, Capability.DELETE)
    async def test_bare_purge_of_the_bin_empties_it(self, store: Store) -> None:
        """purge(deleted_only=True) removes everything hidden, whatever its owner."""
        items = [note("a", self.scope()), note("b", self.scope()), note("c", self.scope())]
        await store.add_many(items)
        await store.delete(items[0].id)
        await store.delete(items[1].id)
        equal(await store.purge(deleted_only=True), 2, "number purged")
        equal(await store.count(include_deleted=True), 1, "count after emptying the bin")


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
