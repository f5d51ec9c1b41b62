"""Lifetimes: items that expire, by the real clock and by one that the case moves."""

from __future__ import annotations

import asyncio
import time

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, Store
from memoranda_testing.case import Cases, Clock, Reopen, needs, note
from memoranda_testing.expect import NotReachedError, SkipCase, contents, equal, that
from memoranda_testing.model.steps import Moved, Reopened
from memoranda_testing.programs import Calls, HistoryCases, Program, item, items, played, theirs

LONGEST = 36.0
"""The longest life that is waited for by the real clock."""

_LATE_READS = 100
"""How often an item may still be found after its time, by an engine that removes it a moment later."""


class TtlCases(Cases):
    """Items that vanish by themselves."""

    @needs(Capability.TTL)
    async def test_an_item_vanishes_after_its_ttl(self, store: Store) -> None:
        """Until then it is like any other; then no read shows it, in a batch as well as alone."""
        ttl = 0.4
        while True:
            scope = self.scope()
            first, second, kept = note("tea first", scope, 1), note("tea second", scope, 2), note("tea kept", scope, 3)
            began = store.clock()
            await store.add(kept)
            await store.add(first, ttl=ttl)
            await store.add_many([second], ttl=ttl)
            found_at_first = len(await store.search(metadata=scope))
            if store.clock() < began + ttl:
                break
            ttl *= 6  # The machine is so busy that the item may have expired before the first read.
            if ttl > LONGEST:
                raise NotReachedError(f"No search came back within {ttl / 6:g} seconds, while items were alive.")
        equal(found_at_first, 3, "number found at first")
        await self._until_gone(store, first, second, ttl=ttl)
        equal(contents(await store.search(metadata=scope)), ["tea kept"], "listing")
        for mode in ("substring", "text"):
            found = await store.search(query="tea", metadata=scope, mode=mode)
            equal(contents(found), ["tea kept"], f"search mode {mode!r}")
        equal(contents([item async for item in store.scan(metadata=scope)]), ["tea kept"], "scan")
        equal(await store.count(metadata=scope), 1, "count")

    async def _until_gone(self, store: Store, *items: MemoryItem, ttl: float) -> None:
        """Wait until none of the items is there; once the store's clock is past their end, a few reads may show one."""
        end, late = store.clock() + ttl, 0
        while True:
            late += store.clock() > end
            if not await store.get_many([item.id for item in items]):
                return
            that(late < _LATE_READS, f"An item is still there {late} reads after its time.")
            await asyncio.sleep(0.05)


class LifetimeCases(HistoryCases):
    """A ttl holds to the moment."""

    def on_a_clock(self, store: Store) -> Clock:
        """Give the store a clock of its own and return it; memories of others would expire by it."""
        if not self.exclusive:
            raise SkipCase("it moves the clock, by which memories of others in this store would expire")
        clock = Clock(time.time())
        store.clock = clock
        return clock

    @needs(Capability.TTL, Capability.PERSISTENT)
    @played
    def test_what_another_store_keeps_expires_as_well(self, store: Calls, reopen: Reopen | None) -> Program:
        """Where a store did not see an item arrive, it ends at the same moment: its id is free, nothing is deleted."""
        other = store.another()
        yield from (store.add_many(items(*"abcde"), ttl=60.0), Moved(60))
        yield other.update(item("theirs now", metadata=theirs(), id="a"))
        yield other.append([item("theirs too", metadata=theirs(), id="b")], after="a")
        yield other.add(item("theirs as well", metadata=theirs(), id="c"))
        yield from (other.apply(deletes=["d"]), other.delete("e"))
        yield from (other.add(item("mine again", id="e")), store.get("e"))

    @needs(Capability.TTL, Capability.PERSISTENT, Capability.DELETE)
    @played
    def test_what_is_deleted_ends_in_a_store_opened_later(self, store: Calls, reopen: Reopen | None) -> Program:
        """A store that is opened when an item is in the bin knows that it ends, and then gives its id away."""
        yield store.add_many([item("tea", trust="external"), item("milk")], ttl=100.0)
        yield from (store.add(item("brief"), ttl=10.0), store.clear(where={"id": {"$in": ["tea", "milk"]}}))
        yield from (Moved(11), store.sweep(), Reopened(), Moved(100))
        yield from (store.add(item("lemon", id="tea")), store.add(item("lemon", metadata=theirs(), id="milk")))

    @needs(Capability.TTL)
    async def test_a_clock_that_was_wrong_once_is_not_trusted_for_good(
        self, store: Store, reopen: Reopen | None
    ) -> None:
        """After a reading ten years ahead, or behind, items live as long as the clock that was set right says.

        What is over by the wrong clock is hidden as long as it is wrong, and a single look removes nothing.
        """
        clock = self.on_a_clock(store)
        scope = self.scope(session_id="s")
        before = note("before tea", scope)
        await store.add(before, ttl=3600)
        stores = [store]
        if Capability.PERSISTENT in store.capabilities and reopen is not None:
            stores.append(await reopen())
            await stores[1].init()
            stores[1].clock = clock
            equal(await stores[1].count(metadata=scope), 1, "count in another store")
        try:
            for years in (10, -10):
                clock.now += years * 365 * 86_400
                for each in stores:
                    shown = [] if years > 0 else ["before tea"]
                    equal(contents(await each.search(metadata=scope)), shown, "search by the wrong clock")
                clock.now -= years * 365 * 86_400
                for each in stores:
                    await self._lives_for_a_minute(each, clock, scope)
        finally:
            for each in stores[1:]:
                await each.close()

    async def _lives_for_a_minute(self, store: Store, clock: Clock, scope: MemoryMetadata) -> None:
        """An item with a ttl of a minute lasts a minute, beside those from before the clock was wrong."""
        item, longer = note("tea", scope), MemoryItem(content="more tea", metadata=scope, ttl=30)
        await store.add(item, ttl=60)
        await store.add(longer)
        await store.touch([longer.id], ttl=60)
        clock.now += 59.9
        wanted = ["before tea", "more tea", "tea"]
        equal(sorted(contents(await store.search(metadata=scope))), wanted, "search with the clock set right")
        ranked = await store.search(query="tea", metadata=scope, mode="text")
        equal(sorted(contents(ranked)), wanted, "ranked search with the clock set right")
        equal(await store.count(metadata=scope), 3, "count with the clock set right")
        equal(len(await store.window(metadata=scope)), 3, "window with the clock set right")
        clock.now += 0.1
        equal(contents(await store.search(metadata=scope)), ["before tea"], "search after a minute")
        equal(await store.get(item.id), None, "get after a minute")
        equal(contents(await store.search(query="tea", metadata=scope, mode="text")), ["before tea"], "ranked search")
        await store.sweep()
