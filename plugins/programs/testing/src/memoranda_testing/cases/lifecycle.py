"""Opening, closing, what a store declares, and what a persistent one keeps."""

from __future__ import annotations

import asyncio

from memoranda.errors import StoreClosedError, UnsupportedError
from memoranda.items import AIMemory
from memoranda.store import Capability, Store
from memoranda.store.backend import BASE_CAPABILITIES
from memoranda_testing.case import Cases, Reopen, every_read, every_write, moment, needs, note, required
from memoranda_testing.event_loop import some_turns, threads_that_meet
from memoranda_testing.expect import contents, equal, raises, same_item, that
from memoranda_testing.model.steps import Reopened
from memoranda_testing.programs import Calls, HistoryCases, Program, item, items, mine, played, theirs


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


class LifecycleCases(Cases):
    """Opening and closing."""

    async def test_every_call_after_close_is_refused(self, store: Store) -> None:
        """Every method of a closed store, and of a handle made before, raises StoreClosedError."""
        item = note("x", self.scope(session_id="s"))
        handle = store.scoped(user_id=str(item.metadata.user_id))
        await store.close()
        for closed in (store, handle):
            for name, call in {**every_read(closed, item), **every_write(closed, item)}.items():
                with raises(StoreClosedError, f"{name} after close"):
                    await call()
            with raises(StoreClosedError, "a search for nothing after close"):
                await closed.search(limit=0)

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


class PersistenceCases(HistoryCases):
    """What a persistent store still has when it is opened anew."""

    async def _reopened(self, store: Store, reopen: Reopen | None) -> Store:
        """Close the store and open the same data in a new one."""
        reopen = required(reopen)
        await store.close()
        again = await reopen()
        await again.init()
        return again

    @needs(Capability.PERSISTENT)
    @played
    def test_items_survive_reopening(self, store: Calls, reopen: Reopen | None) -> Program:
        """Every field, the version, the order among ties and what was removed are as they were."""
        there = mine(session_id="s", extra={"k": [1, 1.0, True, None]})
        ends = ("\n", "\r\n", "\x0b\x0c\x1c\x1d", "\x1e\x85\u2028\u2029")  # All that may end a line.
        yield store.add_many([item(f"tea {end}x", 9, there, id=f"{number}") for number, end in enumerate(ends)])
        yield store.add(AIMemory(id="ai", content="", tool_calls=[{"id": "c"}], metadata=there, created_at=moment(10)))
        yield store.add(item("tea again", 9, there, id="0"))
        yield store.add_many(items("gone", "kept", metadata=theirs()))
        yield store.clear(metadata=theirs(), where={"id": "gone"})
        yield Reopened()
        yield from (store.get("0"), store.search(metadata=there), store.count(metadata=theirs()))
        yield from (store.search(query="TEA", metadata=there, mode=mode) for mode in ("substring", "text"))
        yield from (store.add(item("tea 4", 9, there)), store.search(metadata=there, limit=2))
        yield store.restore(metadata=theirs())

    @needs(Capability.PERSISTENT)
    @played
    def test_a_store_that_was_closed_sees_what_others_wrote(self, store: Calls, reopen: Reopen | None) -> Program:
        """Opened again, it answers as one that was never open before: nothing is remembered from before its close."""
        there, other = mine(session_id="s"), store.another()
        ids = ["tea 0", "tea 1", "tea 2", "tea 3"]
        reads = [store.get_many(ids), store.search(), store.scan(), store.count(), store.payloads()]
        reads += [
            store.window(metadata=there),
            store.head(metadata=there),
            store.owners("session_id"),
            store.get(ids[0]),
        ]
        reads += [store.search(query="MILK tea", mode="text"), store.search(query="MILK", mode="substring")]
        yield store.add_many(items(*ids[:3], metadata=there))
        yield from reads
        yield other.update(item("milk and tea", 0, there, id=ids[0], version=1))
        yield other.apply(adds=items(ids[3], metadata=there), deletes=[ids[1]])
        yield Reopened()
        yield from reads

    @needs(Capability.PERSISTENT)
    async def test_nothing_is_written_after_close(self, store: Store, reopen: Reopen | None) -> None:
        """When close() returns, all that calls under way will say they have stored is there for the next to open."""
        reopen, scope = required(reopen), self.scope()
        batches = [[note(f"{batch} {number}", scope, number) for number in range(150)] for batch in range(6)]
        calls = [asyncio.create_task(store.add_many(batch)) for batch in batches]
        await some_turns(5)  # So that they have begun.
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
            for name, write in every_write(reader, note("more", scope)).items():
                with raises(UnsupportedError, f"{name} in a store that was opened to read"):
                    await write()
            equal(await reader.count(metadata=scope), 1, "count after the refused writes")
        finally:
            await reader.close()
            await store.init()
            await self.clean(store)

    @needs(Capability.PERSISTENT)
    @played
    def test_every_write_is_there_for_others(self, store: Calls, reopen: Reopen | None) -> Program:
        """When a call of any kind returns, another store on the same data shows the items as this one does."""
        other, there = store.another(), mine(session_id="s")
        writes = [
            store.add(item("tea", 0, there)),
            store.add_many([item("milk", 1, there)]),
            store.update(item("green tea", 0, there, id="tea", version=1)),
            store.append([item("lemon", 2, there)], after="milk"),
            store.delete("tea"),
            store.restore("tea"),
            store.pop(),
            store.clear(),
            other.add(item("new tea", 0, there, id="tea")),
        ]
        for write in writes:
            yield from (write, other.get("tea"), other.scan(order="added"))
        for number in range(100 if self.is_brief else 1_100):  # Enough for a store to tidy up.
            yield store.add(item(f"tea {number}", 0, there, id="tea"))
        yield from (other.get("tea"), other.scan(order="added"))
        many = items(*(f"{number}" for number in range(1_100)), second=0, metadata=there)
        milk = [each.model_copy(update={"content": "milk", "version": 1}) for each in many]
        for write in (store.add_many(many), store.update_many(milk), store.apply(deletes=[each.id for each in many])):
            yield from (write, other.count(), other.count(where={"content": "milk"}))

    @needs(Capability.PERSISTENT, Capability.TTL)
    @played
    def test_a_lifetime_is_there_for_others(self, store: Calls, reopen: Reopen | None) -> Program:
        """When touch or a read that refreshes returns, another store on the same data shows the new end."""
        other = store.another()
        yield store.add_many(items("tea", "milk"))
        for write in (store.touch(["tea", "milk"], ttl=1e6), store.get("tea", refresh=True)):
            yield from (write, other.get("tea"), other.scan(order="added"))

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
