"""Opening, closing, what a store declares, and what a persistent one keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from memoranda.errors import InputError, StoreClosedError, UnsupportedError
from memoranda.items import AIMemory, MemoryItem, MemoryMetadata
from memoranda.store import Capability, Store
from memoranda.store.backend import BASE_CAPABILITIES
from memoranda_testing.case import Cases, Reopen, needs, note, required
from memoranda_testing.event_loop import threads_that_meet
from memoranda_testing.expect import contents, each_raises, equal, raises, same_item, that


class DeclarationCases(Cases):
    """What a store declares."""

    async def test_the_base_capabilities_are_declared(self, store: Store) -> None:
        """A base capability cannot be left out."""
        missing = BASE_CAPABILITIES - frozenset(store.capabilities)
        that(not missing, f"The store does not declare the base capabilities {', '.join(sorted(missing))}.")

    async def test_only_known_capabilities_are_declared(self, store: Store) -> None:
        """Every declared capability is one that the kit can test."""
        for capability in store.capabilities:
            that(isinstance(capability, Capability), f"{capability!r} is no Capability.")

    async def test_a_mode_without_the_capability_is_refused(self, store: Store) -> None:
        """A search mode that the store does not have is an UnsupportedError."""
        for capability in (Capability.SEMANTIC, Capability.HYBRID):
            if capability not in store.capabilities:
                mode = capability.value
                await each_raises(
                    UnsupportedError,
                    f"with mode={mode!r}",
                    search=store.search(query="x", mode=mode),  # type: ignore[arg-type]
                    search_ranked=store.search_ranked(query="x", mode=mode),  # type: ignore[arg-type]
                )

    async def test_an_unknown_mode_is_refused(self, store: Store) -> None:
        """A search mode that does not exist is an InputError."""
        # Python refuses to write out an integer of thousands of digits.
        for mode in ("magic", -(10**5000), 3, ["text"]):
            with raises(InputError, f"search with a mode of type {type(mode).__name__}"):
                await store.search(query="x", mode=mode)  # type: ignore[arg-type]  # the mistake under test

    async def test_the_default_mode_is_the_declared_one(self, store: Store) -> None:
        """search without a mode finds what search with the store's default mode finds."""
        scope = self.scope()
        await store.add_many([note("green tea", scope, 1), note("red wine", scope, 2), note("green wine", scope, 3)])
        found = await store.search(query="green", metadata=scope)
        wanted = await store.search(query="green", metadata=scope, mode=store.default_mode)
        equal(contents(found), contents(wanted), f"search with the default mode {store.default_mode!r}")


class LifecycleCases(Cases):
    """Opening and closing."""

    async def test_opening_twice_does_nothing(self, store: Store) -> None:
        """init() on an open store changes nothing, also when several call it at once."""
        item = note("kept", self.scope())
        await store.add(item)
        await store.init()
        await asyncio.gather(store.init(), store.init())
        same_item(await store.get(item.id), item, "get after opening again", version=1)

    async def test_closing_twice_does_nothing(self, store: Store) -> None:
        """close() on a closed store is no error, also when several call it at once."""
        await store.close()
        await store.close()
        await asyncio.gather(store.close(), store.close())

    async def test_every_call_after_close_is_refused(self, store: Store) -> None:
        """Every method of a closed store, and of a handle made before, raises StoreClosedError."""
        user = self.user()
        handle = store.scoped(user_id=user)
        item, scope = note("x", MemoryMetadata(user_id=user)), MemoryMetadata(user_id=user)
        await store.close()
        for closed in (store, handle):
            await each_raises(
                StoreClosedError,
                "after close",
                add=closed.add(item),
                add_many=closed.add_many([item]),
                update=closed.update(item),
                update_many=closed.update_many([item]),
                get=closed.get("x"),
                search=closed.search(),
                search_of_nothing=closed.search(limit=0),
                search_ranked=closed.search_ranked(query="x"),
                count=closed.count(),
                clear=closed.clear(metadata=scope),
            )
            with raises(StoreClosedError, "scan after close"):
                await anext(closed.scan())

    @needs(Capability.DELETE)
    async def test_deleting_after_close_is_refused(self, store: Store) -> None:
        """delete and restore of a closed store raise StoreClosedError."""
        await store.close()
        await each_raises(StoreClosedError, "after close", delete=store.delete("x"), restore=store.restore("x"))

    @needs(Capability.PURGE)
    async def test_purging_after_close_is_refused(self, store: Store) -> None:
        """purge of a closed store raises StoreClosedError."""
        await store.close()
        await each_raises(StoreClosedError, "after close", purge=store.purge("x"))

    async def test_a_closed_store_can_be_opened_again(self, store: Store) -> None:
        """init() and async with bring a closed store back to use, more than once."""
        for _ in range(3):
            await store.close()
            async with store as opened:
                that(opened is store, "async with gave another store.")
                item = note("again", self.scope())
                await store.add(item)
                same_item(await store.get(item.id), item, "get after opening again", version=1)
        await store.init()

    async def test_an_error_leaves_the_store_open(self, store: Store) -> None:
        """A refused call changes nothing for the next one."""
        scope = self.scope()
        with raises(InputError, "add of a NUL"):
            await store.add(note("\0", scope))
        await store.add(note("fine", scope))
        equal(await store.count(metadata=scope), 1, "count after a refused call")

    async def test_close_waits_for_calls_under_way(self, store: Store) -> None:
        """Calls that run while the store is closed end: with their result, or with StoreClosedError."""
        scope = self.scope()
        items = [note(str(number), scope, number) for number in range(20)]
        calls = [asyncio.create_task(store.add(item)) for item in items]
        await asyncio.sleep(0)
        await store.close()
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            that(
                result is None or isinstance(result, StoreClosedError),
                f"A call that ran while the store was closed ended with {result!r}.",
            )
        await store.init()
        if Capability.PERSISTENT in store.capabilities:
            acknowledged = {item.content for item, result in zip(items, results, strict=True) if result is None}
            stored = set(contents(await store.search(metadata=scope, limit=100)))
            that(acknowledged <= stored, f"Acknowledged items are gone: {sorted(acknowledged - stored)}.")

    async def test_a_handle_of_the_store_names_no_scope_value(self, store: Store) -> None:
        """The repr of a handle tells which fields are bound, not to what."""
        user = self.user()
        that(user not in repr(store.scoped(user_id=user)), "The repr of a handle tells whose it is.")


class PersistenceCases(Cases):
    """What a persistent store still has when it is opened anew."""

    async def _reopened(self, store: Store, reopen: Reopen | None) -> Store:
        """Close the store and open the same data in a new one."""
        reopen = required(reopen)
        await store.close()
        again = await reopen()
        await again.init()
        return again

    @needs(Capability.PERSISTENT)
    async def test_items_survive_reopening(self, store: Store, reopen: Reopen | None) -> None:
        """Every field, the version and the order among ties are as they were."""
        scope = self.scope(session_id="s", extra={"k": [1, 1.0, True, None]})
        ends = ("\n", "\r\n", "\x0b\x0c\x1c\x1d", "\x1e\x85\u2028\u2029")  # All that may end a line.
        items: list[MemoryItem] = [note(f"tea {number}{end}x", scope, 9) for number, end in enumerate(ends)]
        items.append(AIMemory(content="", tool_calls=[{"id": "c"}], metadata=scope, created_at="2024-03-02"))
        await store.add_many(items)
        await store.add(items[0])
        again = await self._reopened(store, reopen)
        try:
            found = await again.search(metadata=scope)
            equal([item.id for item in found], [item.id for item in reversed(items)], "order after reopening")
            for item in items:
                version = 2 if item is items[0] else 1
                same_item(await again.get(item.id), item, "get after reopening", version=version)
            for mode in ("substring", "text"):
                by_text = await again.search(query="TEA", metadata=scope, mode=mode)
                equal(len(by_text), 4, f"number found by mode {mode!r} after reopening")
            await again.add(note("tea 4", scope, 9))
            equal((await again.search(metadata=scope, limit=2))[1].content, "tea 4", "the last added among ties")
        finally:
            await self.clean(again)
            await again.close()

    @needs(Capability.PERSISTENT)
    async def test_a_store_that_was_closed_sees_what_others_wrote(self, store: Store, reopen: Reopen | None) -> None:
        """Opened again, it answers as one that was never open before: nothing is remembered from before its close."""
        reopen, scope = required(reopen), self.scope(session_id="s")
        items = [note(f"tea {number}", scope, number) for number in range(4)]
        await store.add_many(items[:3])
        for _ in range(2):
            await self._reads(store, scope, items)
            again = await self._reopened(store, reopen)
            try:
                found = await again.get(items[0].id)
                assert found is not None
                await again.update(found.model_copy(update={"content": f"milk and {found.content}"}))
                await again.apply(adds=[items[3]], deletes=[items[1].id])
                wanted = await self._reads(again, scope, items)
            finally:
                await again.close()
            await store.init()
            equal(await self._reads(store, scope, items), wanted, "what a store reads that was closed meanwhile")

    async def _reads(self, store: Store, scope: MemoryMetadata, items: list[MemoryItem]) -> list[Any]:
        """Return what each method reads."""
        ids = [item.id for item in items]
        within = MemoryMetadata(user_id=scope.user_id)
        return [
            [await store.get(item_id) for item_id in ids],
            await store.get_many(ids),
            await store.search(metadata=scope),
            await store.search(query="MILK", metadata=scope, mode="substring"),
            contents(await store.search(query="milk tea", metadata=scope, mode="text")),
            [item async for item in store.scan(metadata=scope)],
            await store.count(metadata=scope),
            await store.payloads(metadata=scope),
            await store.window(metadata=scope),
            await store.head(metadata=scope),
            [owner async for owner in store.owners("session_id", within=within)],
        ]

    @needs(Capability.PERSISTENT)
    async def test_nothing_is_written_after_close(self, store: Store, reopen: Reopen | None) -> None:
        """When close() returns, all that calls under way will say they have stored is there for the next to open."""
        reopen, scope = required(reopen), self.scope()
        batches = [[note(f"{batch} {number}", scope, number) for number in range(150)] for batch in range(6)]
        calls = [asyncio.create_task(store.add_many(batch)) for batch in batches]
        for _ in range(5):  # So that they have begun.
            await asyncio.sleep(0)
        again = await self._reopened(store, reopen)
        try:
            found = {item.id async for item in again.scan(metadata=scope)}
            results = await asyncio.gather(*calls, return_exceptions=True)
            for batch, result in zip(batches, results, strict=True):
                late = result is None and not found.issuperset(item.id for item in batch)
                that(not late, "A call that was under way when close() returned has stored its items afterwards.")
        finally:
            await self.clean(again)
            await again.close()

    @needs(Capability.PERSISTENT)
    async def test_a_store_that_is_opened_to_read_refuses_writes(self, store: Store, reopen: Reopen | None) -> None:
        """Opened to read, a store shows what it holds, and every write is an UnsupportedError."""
        scope = self.scope()
        item = note("green tea", scope)
        await store.add(item)
        reopen = required(reopen)
        await store.close()
        reader = await reopen()
        reader.access = "read"
        that(await reader.exists(), "exists() says that there is no store, and there is.")
        await reader.init()
        try:
            same_item(await reader.get(item.id), item, "get in a store that was opened to read", version=1)
            for mode in ("substring", "text"):
                found = await reader.search(query="tea", metadata=scope, mode=mode)
                equal(contents(found), ["green tea"], f"search with mode={mode!r} in a store that was opened to read")
            await each_raises(
                UnsupportedError,
                "in a store that was opened to read",
                add=reader.add(note("more", scope)),
                add_many=reader.add_many([note("more", scope)]),
                clear=reader.clear(metadata=scope),
                through_a_handle=reader.scoped(user_id=self.user()).add(note("more", MemoryMetadata())),
            )
            equal(await reader.count(metadata=scope), 1, "count after the refused writes")
        finally:
            await reader.close()
            await store.init()
            await self.clean(store)

    @needs(Capability.PERSISTENT)
    async def test_removals_survive_reopening(self, store: Store, reopen: Reopen | None) -> None:
        """What was cleared does not come back by itself."""
        scope, kept = self.scope(), self.scope()
        await store.add_many([note("gone", scope), note("kept", kept)])
        await store.clear(metadata=scope)
        again = await self._reopened(store, reopen)
        try:
            equal(await again.count(metadata=scope), 0, "count of what was cleared")
            equal(await again.count(metadata=kept), 1, "count of what was kept")
            if Capability.DELETE in again.capabilities:
                equal(await again.restore(metadata=scope), 1, "number restored after reopening")
        finally:
            await self.clean(again)
            await again.close()

    @needs(Capability.PERSISTENT)
    async def test_what_is_acknowledged_is_there_for_others(self, store: Store, reopen: Reopen | None) -> None:
        """When a call returns, however much it wrote, another store on the same data sees all of it.

        A store that reads from replicas promises that only if a commit waits for them: give this kit such a server.
        """
        again = await self._reopened(store, reopen)
        await store.init()
        try:
            scope = self.scope()
            items = [note(f"tea {number}", scope, number) for number in range(1_100)]
            milk = [note("milk", scope, number, id=item.id, version=1) for number, item in enumerate(items)]
            calls: dict[str, tuple[Callable[[], Awaitable[Any]], list[int]]] = {
                "add_many": (lambda: store.add_many(items), [1_100, 0]),
                "update_many": (lambda: store.update_many(milk), [1_100, 1_100]),
                "apply": (lambda: store.apply(deletes=[item.id for item in items[:600]]), [500, 500]),
                "clear": (lambda: store.clear(metadata=scope), [0, 0]),
            }
            for name, (call, wanted) in calls.items():
                await call()
                found = [await again.count(metadata=scope, where=where) for where in ({}, {"content": "milk"})]
                equal(found, wanted, f"what another store counts, of all and of milk, after {name}")
        finally:
            await self.clean(store)
            await again.close()

    @needs(Capability.PERSISTENT)
    async def test_every_write_is_there_for_others(self, store: Store, reopen: Reopen | None) -> None:
        """When a call of any kind returns, another store on the same data shows the items as this one does."""
        scope = self.scope(session_id="s")
        item, other, third = [note(text, scope, second) for second, text in enumerate(("tea", "milk", "lemon"))]
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "add": lambda: store.add(item),
            "add_many": lambda: store.add_many([other]),
            "update": lambda: store.update(item.model_copy(update={"content": "green tea", "version": 1})),
            "append": lambda: store.append([third], after=other.id),
        }
        if Capability.TTL in store.capabilities:
            calls["touch"] = lambda: store.touch([item.id, other.id], ttl=1e6)
            calls["get with refresh"] = lambda: store.get(item.id, refresh=True)
        if Capability.DELETE in store.capabilities:
            calls["delete"] = lambda: store.delete(item.id)
            calls["restore"] = lambda: store.restore(item.id)
        calls |= {"pop": lambda: store.pop(metadata=scope), "clear": lambda: store.clear(metadata=scope)}

        async def shown(one: Store) -> list[MemoryItem | None]:
            return [await one.get(item.id), *[each async for each in one.scan(metadata=scope)]]

        async with await required(reopen)() as again:
            for name, call in calls.items():
                await call()
                equal(await shown(again), await shown(store), f"what another store shows after {name}")
            await store.add_many([note(str(number), scope, number) for number in range(40)])
            await again.add(note("tea", scope, id=item.id))
            for number in range(100 if self.is_brief else 1_100):  # Enough for a store to tidy up.
                await store.add(note(f"tea {number}", scope, id=item.id))
            equal(await shown(again), await shown(store), "what another store shows after many changes")

    @needs(Capability.PERSISTENT, Capability.ATOMIC)
    async def test_one_of_two_stores_answers(self, store: Store, reopen: Reopen | None) -> None:
        """Of two stores that append to a conversation at once, behind the same item, one is heard."""
        scope = self.scope(session_id="s")
        first = note("0", scope)
        await store.add(first)
        async with await required(reopen)() as other:
            head = first.id
            for number in range(1, 21):
                turns = [note(f"{number}{letter}", scope) for letter in "ab"]
                with threads_that_meet():
                    said = await asyncio.gather(
                        *(one.append([turn], after=head) for one, turn in zip((store, other), turns, strict=True)),
                        return_exceptions=True,
                    )
                heard = [turn for turn, error in zip(turns, said, strict=True) if not isinstance(error, Exception)]
                equal(len(heard), 1, "how many of two that answer at once are heard")
                head = heard[0].id
            equal(await store.count(metadata=scope), 21, "how many turns there are")

    @needs(Capability.PERSISTENT)
    async def test_compare_and_set_holds_between_two_stores(self, store: Store, reopen: Reopen | None) -> None:
        """Two stores open on the same data: what one writes the other reads, and a stale version is refused."""
        again = await self._reopened(store, reopen)
        await store.init()
        try:
            scope = self.scope()
            item = note("first", scope)
            await store.add(item)
            read = await again.get(item.id)
            same_item(read, item, "what the other store wrote", version=1)
            updated = await again.update(note("second", scope, id=item.id, version=1))
            equal(updated.version, 2, "the version after an update")
            with raises(Exception, "update of a stale version in the first store") as raised:
                await store.update(note("stale", scope, id=item.id, version=1))
            equal(type(raised.error).__name__, "VersionConflictError", "the error of a stale version")
            found = await store.get(item.id)
            equal(found and found.content, "second", "what the first store reads")
        finally:
            await self.clean(store)
            await again.close()
