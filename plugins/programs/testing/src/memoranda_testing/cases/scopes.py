"""Scoped handles: no call sees, overwrites, hides or removes what lies outside the scope."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from memoranda.items import MemoryItem
from memoranda.store import Capability, SearchMode, Store
from memoranda_testing.case import note
from memoranda_testing.event_loop import some_turns
from memoranda_testing.expect import contents, equal
from memoranda_testing.programs import HistoryCases


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
