"""Items that are added as deleted, as copies of what another store hides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from memoranda.items import MemoryItem
from memoranda.store import Capability, Observer, Store
from memoranda_testing.case import needs, note
from memoranda_testing.cases.histories import HistoryCases
from memoranda_testing.cases.removing import searches
from memoranda_testing.expect import contents, equal, that
from memoranda_testing.programs import Calls, Program, item, items, mine, played, theirs


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


class AddDeletedCases(HistoryCases):
    """``add_many(items, deleted=ids)``."""

    @needs(Capability.ADD_DELETED)
    @played
    def test_what_arrives_deleted_is_hidden_everywhere(self, store: Calls) -> Program:
        """No read shows it but those that ask for what is deleted; restored, it is whole and in its place."""
        tea = [f"tea {number}" for number in range(4)]
        archived = item("tea archived", 1, archived_by="summary")
        yield store.add_many([*items(*tea, second=9), archived], deleted=[tea[0], tea[2], archived.id])
        yield from searches(store, "tea")
        yield from (store.get(tea[2]), store.count(), store.count(include_deleted=True), store.restore())
        yield from searches(store, "tea 2")

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
    @played
    def test_what_arrives_deleted_replaces_what_is_there(self, store: Calls) -> Program:
        """A visible item of the id is hidden by it, a hidden one stays so; adding it once more brings it back."""
        yield store.add_many([item("old tea", number, id=name) for number, name in enumerate("abc")])
        yield store.delete("b")
        yield store.add_many(
            [item("new tea", number, id=name) for number, name in enumerate("abc")], deleted=["a", "b"]
        )
        yield from searches(store, "tea")
        yield from (store.restore("b"), store.add(item("newest tea", id="a")), store.restore())

    @needs(Capability.ADD_DELETED, Capability.ATOMIC)
    @played
    def test_what_arrives_deleted_is_refused_as_a_whole(self, store: Calls) -> Program:
        """Another user's id, visible or hidden, is an IdConflictError, and nothing of the batch is stored."""
        taken = items("visible", "hidden", metadata=theirs())
        yield store.add_many(taken, deleted=["hidden"])
        for other in taken:
            yield store.add_many([item("first"), item("mine", id=other.id), item("last")], deleted=["first", other.id])

    @needs(Capability.ADD_DELETED)
    @played
    def test_a_scope_stamps_and_bounds_what_arrives_deleted(self, store: Calls) -> Program:
        """A handle hides what it adds under its own scope, and cannot hide what lies outside."""
        handle = store.scoped(user_id="ada", session_id="mine")
        yield store.add(item("outside", metadata=mine(session_id="other")))
        for text in ("inside", "outside"):
            yield handle.add_many([item(text, metadata=mine(session_id="mine"))], deleted=[text])
        yield from (handle.restore(), handle.search())

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

    async def test_a_store_that_takes_deleted_items_can_restore_them(self, store: Store) -> None:
        """The capability ``add_deleted`` is nothing without ``delete``."""
        held = store.capabilities
        that(
            Capability.ADD_DELETED not in held or Capability.DELETE in held, "Nobody can restore what arrives deleted."
        )

    @played
    def test_an_id_that_is_not_among_the_items_is_refused(self, store: Calls) -> Program:
        """add_many deletes nothing that is stored, and without the capability nothing arrives deleted."""
        yield store.add(item("stored"))
        yield from (store.add_many(batch, deleted=["stored"]) for batch in ([item("x")], []))
        yield store.add_many([item("x")], deleted=["x"])
