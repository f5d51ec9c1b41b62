"""Scoped handles: no call sees, overwrites, hides or removes what lies outside the scope."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, SearchMode, Store
from memoranda_testing.case import note
from memoranda_testing.event_loop import some_turns
from memoranda_testing.expect import contents, equal, raises
from memoranda_testing.model.steps import Call
from memoranda_testing.programs import Calls, HistoryCases, refused, theirs

NOBODY = MemoryMetadata()


class ScopeCases(HistoryCases):
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

    @refused
    def test_a_filter_of_another_scope_is_refused(self, store: Calls) -> Iterator[Call]:
        """A filter that names another user than the handle is an InputError, for reading and for removing."""
        handle, other = store.scoped(user_id="ada"), theirs()
        yield from (call(metadata=other) for call in (handle.search, handle.count, handle.clear, handle.scan))
        yield from (handle.get("tea", metadata=other), handle.search_ranked(query="tea", metadata=other, mode="text"))

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
        for found in (await inner.search(), await store.search(metadata=MemoryMetadata(user_id=user, session_id="s"))):
            equal([each.content for each in found], ["inner"], "what the inner handle stamped")
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
