"""Scoped handles: no call sees, overwrites, hides or removes what lies outside the scope."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from memoranda.errors import ConflictError, IdConflictError, InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, SearchMode, Store
from memoranda_testing.case import Cases, needs, note
from memoranda_testing.event_loop import some_turns
from memoranda_testing.expect import contents, each_raises, equal, raises, same_item, that


class ScopeCases(Cases):
    """A handle that is bound to a scope."""

    async def test_handles_of_one_scope_are_apart(self, store: Store) -> None:
        """A trust or an origin that one handle stamps is not that of another one of the same scope."""
        scope = self.scope()
        plain = store.scoped(user_id=str(scope.user_id))
        for trust, origin in (("tool", "a"), ("external", None), (None, "b")):
            trusted = store.scoped(user_id=str(scope.user_id), trust=trust, origin=origin)
            for handle, wanted in ((plain, (None, None)), (trusted, (trust, origin))):
                item = MemoryItem(content="tea")
                await handle.add(item)
                found = await store.get(item.id)
                equal(found and (found.trust, found.origin), wanted, "the trust and origin of what a handle added")

    async def test_a_handle_sees_what_others_change(self, store: Store) -> None:
        """However long a handle has been held, it shows what the store and other handles have written since."""
        scope = self.scope(session_id="s")
        handle, other = [store.scoped(user_id=str(scope.user_id)) for _ in range(2)]
        item = note("tea", scope)
        changes: list[Callable[[], Awaitable[object]]] = [
            lambda: store.add(item),
            lambda: other.add(note("milk", scope, id=item.id)),
            lambda: store.update(note("lemon", scope, id=item.id, version=2)),
            lambda: other.add_many([note("water", scope), note("juice", scope)]),
            lambda: store.apply(deletes=[item.id]),
            lambda: store.add(item),
            lambda: store.clear(metadata=scope),
        ]
        for change in changes:
            for reader in (handle, other):
                found = await self._held(reader, item.id)
                equal(found, await self._held(store.scoped(user_id=str(scope.user_id)), item.id), "what a handle shows")
            await change()
        equal(await self._held(handle, item.id), (None, [], [], 0, []), "what a handle shows in the end")

    async def _held(self, handle: Store, item_id: str) -> tuple[Any, ...]:
        item, found = await handle.get(item_id), await handle.search(query="e", mode="substring")
        shown, window = [each async for each in handle.scan()], await handle.window()
        return item and item.content, contents(found), contents(shown), await handle.count(), contents(window)

    async def test_a_read_under_way_shows_nothing_of_others(self, store: Store) -> None:
        """What is read may be removed meanwhile, and another user's items take its places: they are not shown."""
        mine, theirs = self.scope(extra={"n": 1}), self.scope(extra={"n": 1})
        where = {"extra.n": {"$gte": 1}}
        own = [note(f"tea {number}", mine, number) for number in range(2_100)]
        others = [note(f"tea {number}", theirs, number) for number in range(300)]

        async def given_away(turns: int) -> None:
            await some_turns(turns)
            if Capability.PURGE in store.capabilities:
                await store.purge(metadata=mine)
            else:
                await store.clear(metadata=mine)
            await store.add_many(others)

        async def scanned() -> list[MemoryItem]:
            return [item async for item in store.scan(metadata=mine, where=where)]

        async def ranked(mode: SearchMode) -> list[MemoryItem]:
            found = await store.search_ranked(query="tea", metadata=mine, where=where, mode=mode, limit=3_000)
            return [each.item for each in found]

        modes: list[SearchMode] = ["text"]
        if Capability.SEMANTIC in store.capabilities:
            modes.append("semantic")
        reads: list[Callable[[], Awaitable[list[MemoryItem]]]] = [
            *(partial(ranked, mode) for mode in modes),
            scanned,
            lambda: store.search(metadata=mine, where=where, limit=3_000),
        ]
        for turns, read in enumerate(reads, 1):
            await store.add_many(own)
            found, _ = await asyncio.gather(read(), given_away(turns))
            equal([item for item in found if item.metadata.user_id != mine.user_id], [], "another user's items")
            await store.clear(metadata=theirs)

    async def test_a_scope_stamps_what_is_added(self, store: Store) -> None:
        """Items without a user or session get those of the handle; the caller's item is not changed."""
        scope = self.scope(session_id="s")
        handle = store.scoped(user_id=str(scope.user_id), session_id="s")
        item = MemoryItem(content="unstamped", metadata=MemoryMetadata(task_id="t", extra={"k": 1}))
        batch = [MemoryItem(content="many"), MemoryItem(content="new")]
        await handle.add(item)
        await handle.add_many(batch[:1])
        updated = await handle.update(batch[1])
        equal(item.metadata.user_id, None, "the user on the caller's item")
        equal((updated.metadata.user_id, updated.metadata.session_id), (scope.user_id, "s"), "the stamp on an update")
        found = await store.get(item.id)
        wanted = MemoryMetadata(user_id=scope.user_id, session_id="s", task_id="t", extra={"k": 1})
        equal(found and found.metadata, wanted, "the stamped metadata")
        equal(await store.count(metadata=scope), 3, "count in the scope")

    async def test_a_scope_refuses_an_item_stamped_otherwise(self, store: Store) -> None:
        """An item that names another user is an InputError and is not stored, alone or in a batch."""
        mine, theirs = self.scope(), self.scope()
        handle = store.scoped(user_id=str(mine.user_id))
        item = note("smuggled", theirs)
        await each_raises(
            InputError,
            "of an item stamped otherwise",
            add=handle.add(item),
            add_many=handle.add_many([note("fine", mine), item]),
            update=handle.update(item),
        )
        equal(await store.get(item.id), None, "get of the refused item")
        equal(await store.count(metadata=mine), 0, "count of the handle's user")

    async def test_a_scope_reads_only_its_own(self, store: Store) -> None:
        """get, search, ranked search, count and scan of a handle know nothing of other scopes."""
        mine, theirs = self.scope(), self.scope()
        handle = store.scoped(user_id=str(mine.user_id))
        own, other = note("own tea", mine), note("other tea", theirs)
        await store.add_many([own, other])
        equal(await handle.get(other.id), None, "get of another's item")
        same_item(await handle.get(own.id), own, "get of one's own item")
        equal(contents(await handle.search()), ["own tea"], "search of a handle")
        equal(contents(await handle.search(query="tea", mode="substring")), ["own tea"], "search by text")
        equal(contents(await handle.search(query="tea", mode="text")), ["own tea"], "ranked search")
        equal(await handle.count(), 1, "count of a handle")
        equal(contents([item async for item in handle.scan()]), ["own tea"], "scan of a handle")

    async def test_a_scope_cannot_take_over_an_id(self, store: Store) -> None:
        """The id of an item outside the scope is a conflict for every way of writing; that item stays."""
        scope = self.scope(session_id="s1")
        same_user = store.scoped(user_id=str(scope.user_id), session_id="s2")
        another = store.scoped(user_id=self.user())
        item = note("mine", scope)
        await store.add(item)
        for handle in (same_user, another):
            thief = MemoryItem(content="taken", id=item.id)
            known = MemoryItem(content="taken", id=item.id, version=1)
            await each_raises(
                ConflictError,
                "of an id outside the scope",
                add=handle.add(thief),
                add_many=handle.add_many([thief]),
                update_of_version_0=handle.update(thief),
                update_of_version_1=handle.update(known),
            )
        same_item(await store.get(item.id), item, "the item that was to be taken over", version=1)

    async def test_an_item_cannot_be_moved_out_of_reach(self, store: Store) -> None:
        """A handle replaces its own items and leaves them in its scope."""
        scope = self.scope(session_id="s1")
        handle = store.scoped(user_id=str(scope.user_id), session_id="s1")
        item = MemoryItem(content="first")
        await handle.add(item)
        await handle.add(MemoryItem(content="second", id=item.id))
        found = await handle.get(item.id)
        equal(found and (found.content, found.version, found.metadata.session_id), ("second", 2, "s1"), "replaced item")
        with raises(InputError, "adding with another session"):
            await handle.add(MemoryItem(content="third", id=item.id, metadata=MemoryMetadata(session_id="s2")))

    async def test_a_scope_clears_only_its_own(self, store: Store) -> None:
        """A bare clear() of a handle clears its scope and nothing else; a filter narrows it further."""
        mine, theirs = self.scope(), self.scope()
        handle = store.scoped(user_id=str(mine.user_id))
        await store.add_many(
            [note("a", MemoryMetadata(user_id=mine.user_id, session_id="s")), note("b", mine), note("c", theirs)]
        )
        equal(await handle.clear(metadata=MemoryMetadata(session_id="s")), 1, "number cleared in a session")
        equal(await handle.clear(), 1, "number cleared in the scope")
        equal(await handle.count(), 0, "count in the cleared scope")
        equal(contents(await store.search(metadata=theirs)), ["c"], "what lies outside")

    async def test_a_filter_of_another_scope_is_refused(self, store: Store) -> None:
        """A filter that names another user than the handle is an InputError, for reading and for removing."""
        handle, other = store.scoped(user_id=self.user()), self.scope()
        item = note("theirs", other)
        await store.add(item)
        await each_raises(
            InputError,
            "with another scope's filter",
            search=handle.search(metadata=other),
            search_ranked=handle.search_ranked(query="theirs", metadata=other, mode="text"),
            get=handle.get(item.id, metadata=other),
            count=handle.count(metadata=other),
            clear=handle.clear(metadata=other),
        )
        with raises(InputError, "scan with another scope's filter"):
            await anext(handle.scan(metadata=other))
        same_item(await store.get(item.id), item, "what lies outside", version=1)

    async def test_an_empty_text_is_a_scope_of_its_own(self, store: Store) -> None:
        """A handle bound to the empty text sees the empty text alone, neither None nor anything."""
        user = self.user()
        for session in (None, "", "x"):
            await store.add(note(repr(session), MemoryMetadata(user_id=user, session_id=session)))
        handle = store.scoped(user_id=user, session_id="")
        equal(contents(await handle.search()), ["''"], "search of a handle bound to the empty text")
        equal(await handle.clear(), 1, "number cleared by a handle bound to the empty text")
        equal(await store.count(metadata=MemoryMetadata(user_id=user)), 2, "count of the others")

    async def test_a_scope_needs_a_value(self, store: Store) -> None:
        """scoped() and scoped(user_id=None) are InputErrors: a user that was not found is not any user."""
        with raises(InputError, "scoped()"):
            store.scoped()
        with raises(InputError, "scoped(user_id=None)"):
            store.scoped(user_id=None)  # type: ignore[arg-type]  # the mistake under test
        with raises(InputError, "scoped(user_id='x', session_id=None)"):
            store.scoped(user_id="x", session_id=None)  # type: ignore[arg-type]  # the mistake under test

    async def test_scopes_nest(self, store: Store) -> None:
        """A handle of a handle is bound by both and cannot leave the outer one."""
        user = self.user()
        outer = store.scoped(user_id=user)
        inner = outer.scoped(session_id="s")
        await outer.add(MemoryItem(content="outer"))
        await inner.add(MemoryItem(content="inner"))
        equal(contents(await inner.search()), ["inner"], "search of the inner handle")
        found = await store.search(metadata=MemoryMetadata(user_id=user, session_id="s"))
        equal(contents(found), ["inner"], "what the inner handle stamped")
        with raises(InputError, "leaving the outer scope"):
            await outer.scoped(user_id=self.user()).search()

    async def test_a_scope_has_the_capabilities_of_its_store(self, store: Store) -> None:
        """A handle declares what the store underneath can do."""
        equal(store.scoped(user_id=self.user()).capabilities, store.capabilities, "capabilities of a handle")

    async def test_closing_a_scope_leaves_the_store_open(self, store: Store) -> None:
        """A handle has no life of its own: opening and closing it does nothing."""
        user = self.user()
        async with store.scoped(user_id=user) as handle:
            await handle.add(MemoryItem(content="x"))
        await handle.close()
        equal(await handle.count(), 1, "count through a closed handle")
        equal(await store.count(metadata=MemoryMetadata(user_id=user)), 1, "count through the store")

    @needs(Capability.DELETE)
    async def test_a_scope_hides_and_restores_only_its_own(self, store: Store) -> None:
        """delete and restore of a handle do not reach other scopes, by id or as a whole."""
        mine, theirs = self.scope(), self.scope()
        handle = store.scoped(user_id=str(mine.user_id))
        own, other = note("own", mine), note("other", theirs)
        await store.add_many([own, other])
        equal(await handle.delete(other.id), False, "delete of another's item")
        that(await store.get(other.id) is not None, "A handle hid an item outside its scope.")
        await store.clear(metadata=theirs)
        equal(await handle.delete(own.id), True, "delete of one's own item")
        equal(await handle.restore(other.id), 0, "restore of another's item")
        equal(await handle.restore(), 1, "restore of all that is the handle's")
        equal(await store.get(other.id), None, "get of what is still hidden outside")
        with raises(InputError, "delete with another scope's filter"):
            await handle.delete(own.id, metadata=theirs)

    @needs(Capability.DELETE)
    async def test_a_hidden_id_cannot_be_taken_over(self, store: Store) -> None:
        """An id stays its owner's while it is hidden: it can be restored as it was."""
        mine = self.scope()
        item = note("mine", mine)
        await store.add(item)
        await store.delete(item.id)
        thief = store.scoped(user_id=self.user())
        await each_raises(
            IdConflictError,
            "of a hidden id of another user",
            add=thief.add(MemoryItem(content="taken", id=item.id)),
            update=thief.update(MemoryItem(content="taken", id=item.id)),
        )
        equal(await store.restore(item.id), 1, "number restored")
        same_item(await store.get(item.id), item, "the restored item", version=1)

    @needs(Capability.PURGE)
    async def test_a_scope_purges_only_its_own(self, store: Store) -> None:
        """A bare purge() of a handle removes its scope for good and nothing else."""
        mine, theirs = self.scope(), self.scope()
        handle = store.scoped(user_id=str(mine.user_id))
        own, other = note("own", mine), note("other", theirs)
        await store.add_many([own, other])
        equal(await handle.purge(other.id), 0, "purge of another's item")
        with raises(InputError, "purge with another scope's filter"):
            await handle.purge(metadata=theirs)
        equal(await handle.purge(), 1, "number purged in the scope")
        same_item(await store.get(other.id), other, "what lies outside", version=1)
