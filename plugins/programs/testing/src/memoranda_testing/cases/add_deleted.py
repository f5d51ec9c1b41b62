"""Items that are added as deleted, as copies of what another store hides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from memoranda.errors import IdConflictError, InputError, UnsupportedError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, Observer, Store
from memoranda_testing.case import Cases, needs, note
from memoranda_testing.expect import contents, each_raises, equal, raises, same_item, that


class _Watcher(Observer):
    """Change the items of one user before they are stored, and record which are reported afterwards."""

    def __init__(self, user: str | None) -> None:
        self.user = user
        self.recorded: list[str] = []

    def before_add(self, item: MemoryItem) -> MemoryItem:
        if item.metadata.user_id == self.user:
            item.content = item.content.replace("secret", "***")
        return item

    def added(self, items: Sequence[MemoryItem]) -> None:
        self.recorded += [item.content for item in items if item.metadata.user_id == self.user]


class AddDeletedCases(Cases):
    """``add_many(items, deleted=ids)``."""

    @needs(Capability.ADD_DELETED)
    async def test_what_arrives_deleted_is_hidden_everywhere(self, store: Store) -> None:
        """No read shows it; a scan and a count that ask for hidden items do, in its place among the others."""
        scope = self.scope()
        items = [note(f"tea {number}", scope, 9) for number in range(4)]
        await store.add_many(items, deleted={items[0].id, items[2].id})
        equal(await store.get(items[2].id), None, "get of an item that arrived deleted")
        for mode in ("substring", "text"):
            found = await store.search(query="tea", metadata=scope, mode=mode)
            equal({item.content for item in found}, {"tea 1", "tea 3"}, f"search mode {mode!r}")
        equal(contents([item async for item in store.scan(metadata=scope)]), ["tea 1", "tea 3"], "scan")
        equal(await store.count(metadata=scope), 2, "count")
        equal(await store.count(metadata=scope, include_deleted=True), 4, "count with what is hidden")
        everything = [item async for item in store.scan(metadata=scope, include_deleted=True)]
        equal(contents(everything), ["tea 0", "tea 1", "tea 2", "tea 3"], "scan with what is hidden")

    @needs(Capability.ADD_DELETED)
    async def test_what_arrives_deleted_can_be_restored(self, store: Store) -> None:
        """It comes back whole, archived if it was, at version 1 and in its place; its text is found again."""
        scope = self.scope()
        items = [note(f"tea {number}", scope, 9) for number in range(3)]
        archived = note("tea archived", scope, 1, archived_by="summary")
        await store.add_many([*items, archived], deleted=[items[1].id, archived.id])
        equal(await store.restore(metadata=scope), 2, "number restored")
        same_item(await store.get(items[1].id), items[1], "the restored item", version=1)
        same_item(await store.get(archived.id), archived, "the restored archived item", version=1)
        equal(contents(await store.search(metadata=scope)), ["tea 2", "tea 1", "tea 0"], "search after restoring")
        for mode in ("substring", "text"):
            found = await store.search(query="tea 1", metadata=scope, mode=mode, limit=1)
            equal(contents(found), ["tea 1"], f"search mode {mode!r} after restoring")

    @needs(Capability.ADD_DELETED)
    async def test_what_arrives_deleted_is_seen_by_nobody_meanwhile(self, store: Store) -> None:
        """A reader sees none of the items at any moment while they are written."""
        scope = self.scope()
        batches = [[note("hidden", scope, second) for second in range(20)] for _ in range(10)]
        writing = True
        seen: list[str] = []

        async def watch() -> None:
            while writing:
                seen.extend(contents(await store.search(metadata=scope)))
                seen.extend(["by its id" for batch in batches if await store.get(batch[0].id) is not None])
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        try:
            for batch in batches:
                await store.add_many(batch, deleted=[item.id for item in batch])
        finally:
            writing = False
            await watching
        equal(seen, [], "what a reader saw of items that arrive deleted")

    @needs(Capability.ADD_DELETED)
    async def test_what_arrives_deleted_replaces_what_is_there(self, store: Store) -> None:
        """A visible item of the id is hidden by it, a hidden one stays so; both get the new content and version."""
        scope = self.scope()
        visible, hidden = note("old tea", scope, 1), note("old tea", scope, 2)
        await store.add_many([visible, hidden])
        await store.delete(hidden.id)
        again = [note("new tea", scope, item_second, id=item.id) for item_second, item in ((1, visible), (2, hidden))]
        await store.add_many(again, deleted=[item.id for item in again])
        equal(await store.count(metadata=scope), 0, "count of what is visible")
        for mode in ("substring", "text"):
            equal(await store.search(query="tea", metadata=scope, mode=mode), [], f"search mode {mode!r}")
        equal(await store.restore(metadata=scope), 2, "number restored")
        for item in again:
            same_item(await store.get(item.id), item, "the replaced item", version=2)

    @needs(Capability.ADD_DELETED)
    async def test_an_item_added_after_it_arrived_deleted_is_visible(self, store: Store) -> None:
        """Adding brings the id back, as with any deleted item."""
        scope = self.scope()
        item = note("old", scope)
        await store.add_many([item], deleted=[item.id])
        await store.add(note("new", scope, id=item.id))
        equal(contents(await store.search(metadata=scope)), ["new"], "search after adding again")
        equal(await store.restore(metadata=scope), 0, "number restored")

    @needs(Capability.ADD_DELETED, Capability.ATOMIC)
    async def test_what_arrives_deleted_is_refused_as_a_whole(self, store: Store) -> None:
        """Another user's id, visible or hidden, is an IdConflictError, and nothing of the batch is stored."""
        scope, others = self.scope(), self.scope()
        visible, hidden = note("theirs", others, 1), note("theirs too", others, 2)
        await store.add_many([visible, hidden], deleted=[hidden.id])
        for taken in (visible, hidden):
            batch = [note("first", scope), note("mine", scope, id=taken.id), note("last", scope)]
            with raises(IdConflictError, "an id of another user that arrives deleted"):
                await store.add_many(batch, deleted=[item.id for item in batch[:2]])
        equal(await store.count(metadata=scope, include_deleted=True), 0, "what a refused batch left")
        same_item(await store.get(visible.id), visible, "the other user's item", version=1)

    @needs(Capability.ADD_DELETED)
    async def test_a_scope_stamps_and_bounds_what_arrives_deleted(self, store: Store) -> None:
        """A handle hides what it adds under its own scope, and cannot hide what lies outside."""
        user = self.user()
        outside = note("outside", MemoryMetadata(user_id=user, session_id="other"))
        await store.add(outside)
        handle = store.scoped(user_id=user, session_id="mine")
        item = note("inside", MemoryMetadata())
        await handle.add_many([item], deleted=[item.id])
        with raises(IdConflictError, "hiding an id outside the scope"):
            await handle.add_many([note("x", MemoryMetadata(), id=outside.id)], deleted=[outside.id])
        same_item(await store.get(outside.id), outside, "the item outside", version=1)
        equal(await handle.restore(), 1, "number restored through the handle")
        equal(contents(await handle.search()), ["inside"], "what the handle sees after restoring")

    @needs(Capability.ADD_DELETED)
    async def test_observers_change_what_arrives_deleted_and_are_not_told_of_it(self, store: Store) -> None:
        """Redaction applies to hidden items, and observers that mirror what is added never receive them."""
        scope = self.scope()
        watcher = _Watcher(scope.user_id)
        store.observe(watcher)
        shown, hidden = note("shown secret", scope, 1), note("hidden secret", scope, 2)
        await store.add_many([shown, hidden], deleted=[hidden.id])
        equal(watcher.recorded, ["shown ***"], "what the observer was notified of")
        await store.restore(hidden.id)
        equal(contents(await store.search(metadata=scope)), ["hidden ***", "shown ***"], "what was stored")

    @needs(Capability.ADD_DELETED)
    async def test_an_id_that_is_not_among_the_items_is_refused(self, store: Store) -> None:
        """add_many does not delete stored items: their ids in ``deleted`` are an InputError, and nothing changes."""
        scope = self.scope()
        stored, item = note("stored", scope), note("x", scope)
        await store.add(stored)
        await each_raises(
            InputError,
            "with the id of a stored item in deleted",
            an_item=store.add_many([item], deleted=[stored.id]),
            no_item=store.add_many([], deleted=[stored.id]),
        )
        equal(contents(await store.search(metadata=scope)), ["stored"], "what is stored after a refusal")

    async def test_a_store_that_cannot_take_deleted_items_says_so(self, store: Store) -> None:
        """Without the capability the items are refused with UnsupportedError rather than shown; with it, restored."""
        if Capability.ADD_DELETED in store.capabilities:
            that(Capability.DELETE in store.capabilities, "a store that takes deleted items can also restore them")
            return
        item = note("x", self.scope())
        with raises(UnsupportedError, "add_many(deleted=…)"):
            await store.add_many([item], deleted=[item.id])
        equal(await store.get(item.id), None, "get after a refusal")
