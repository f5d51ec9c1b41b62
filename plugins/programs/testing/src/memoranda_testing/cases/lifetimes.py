"""Lifetimes: items that expire, by the real clock and by one that the case moves."""

from __future__ import annotations

import asyncio
import math
import time

from memoranda.errors import InputError, UnsupportedError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ToolMemory
from memoranda.store import Capability, Store
from memoranda_testing.case import Cases, Clock, Reopen, needs, note, required
from memoranda_testing.cases.recall import modes_of
from memoranda_testing.expect import NotReachedError, SkipCase, contents, each_raises, equal, raises, same_item, that

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

    @needs(Capability.TTL)
    async def test_replacing_without_a_ttl_keeps_the_item(self, store: Store) -> None:
        """The whole item is replaced, including the time it had left."""
        scope = self.scope()
        item, other = note("short", scope), note("other", scope)
        await store.add(item, ttl=0.3)
        await store.add(note("long", scope, id=item.id))
        await store.add(other, ttl=0.4)
        await self._until_gone(store, other, ttl=0.4)
        equal(contents(await store.search(metadata=scope)), ["long"], "search after the first ttl")

    @needs(Capability.TTL)
    async def test_a_vanished_id_can_be_added_again(self, store: Store) -> None:
        """Its owner adds it anew, with its new content."""
        scope = self.scope()
        item = note("first", scope)
        await store.add(item, ttl=0.2)
        await self._until_gone(store, item, ttl=0.2)
        await store.add(note("second", scope, id=item.id))
        found = await store.get(item.id)
        equal(found and found.content, "second", "the item that was added again")

    @needs(Capability.TTL)
    async def test_bad_ttls_are_refused(self, store: Store) -> None:
        """A time to live is a number of seconds above 0."""
        item = note("x", self.scope())
        for ttl in (0, -1, float("nan"), float("inf"), "3", True, 10**5000, -(10**5000)):
            with raises(InputError, f"add with a ttl of type {type(ttl).__name__}"):
                await store.add(item, ttl=ttl)  # type: ignore[arg-type]  # the mistake under test
        equal(await store.get(item.id), None, "get after refusals")

    async def test_a_ttl_without_the_capability_is_refused(self, store: Store) -> None:
        """A store that cannot let items vanish says so instead of keeping them."""
        if Capability.TTL in store.capabilities:
            raise SkipCase("the store declares the capability 'ttl'")
        item = note("x", self.scope())
        await each_raises(
            UnsupportedError, "with a ttl", add=store.add(item, ttl=5), add_many=store.add_many([item], ttl=5)
        )
        equal(await store.get(item.id), None, "get after refusals")

    async def _until_gone(self, store: Store, *items: MemoryItem, ttl: float) -> None:
        """Wait until none of the items is there; once the store's clock is past their end, a few reads may show one."""
        end, late = store.clock() + ttl, 0
        while True:
            late += store.clock() > end
            if not await store.get_many([item.id for item in items]):
                return
            that(late < _LATE_READS, f"An item is still there {late} reads after its time.")
            await asyncio.sleep(0.05)


class LifetimeCases(Cases):
    """A ttl holds to the moment."""

    def on_a_clock(self, store: Store) -> Clock:
        """Give the store a clock of its own and return it; memories of others would expire by it."""
        if not self.exclusive:
            raise SkipCase("it moves the clock, by which memories of others in this store would expire")
        clock = Clock(time.time())
        store.clock = clock
        return clock

    async def _shown(self, store: Store, scope: MemoryMetadata, ids: list[str]) -> dict[str, list[str]]:
        """Return the contents that each read shows."""
        shown = {
            "get_many": contents(await store.get_many(ids)),
            "search": contents(await store.search(metadata=scope)),
            "scan": contents([each async for each in store.scan(metadata=scope)]),
            "window": contents(await store.window(metadata=scope)),
            "payloads": [each.content for each in await store.payloads(metadata=scope)],
        }
        for mode in modes_of(store):
            shown[f"search in mode {mode!r}"] = contents(await store.search(query="tea", metadata=scope, mode=mode))
        return shown

    @needs(Capability.TTL)
    async def test_an_expired_item_is_as_if_purged(self, store: Store) -> None:
        """From that moment on no call shows or counts it, deleted or not, and its id is free."""
        clock = self.on_a_clock(store)
        scope, other = self.scope(session_id="s"), self.scope()
        item, kept = note("tea", scope, 0), note("tea kept", scope, 1)
        await store.add(item, ttl=60)
        await store.add(kept)
        clock.now += 59.9
        for name, texts in (await self._shown(store, scope, [item.id, kept.id])).items():
            equal(sorted(texts), ["tea", "tea kept"], f"{name} before the end")
        clock.now += 0.1
        for name, texts in (await self._shown(store, scope, [item.id, kept.id])).items():
            equal(texts, ["tea kept"], name)
        equal(await store.get(item.id), None, "get")
        equal(await store.count(metadata=scope), 1, "count")
        equal(await store.head(metadata=scope), kept.id, "head")
        found = [
            owner.count async for owner in store.owners("session_id", within=MemoryMetadata(user_id=scope.user_id))
        ]
        equal(found, [1], "owners")
        if Capability.DELETE in store.capabilities:
            equal(await store.delete(item.id), False, "delete")
            equal(await store.restore(item.id), 0, "restore")
            equal(await store.count(metadata=scope, include_deleted=True), 1, "count with deleted ones")
        equal(await store.touch([item.id], ttl=60), 0, "touch")
        await store.add(note("another's now", other, id=item.id))
        again = await store.get(item.id)
        equal(again and (again.content, again.version), ("another's now", 1), "the id in other hands")

    @needs(Capability.TTL, Capability.PERSISTENT)
    async def test_what_another_store_keeps_expires_as_well(self, store: Store, reopen: Reopen | None) -> None:
        """Where a store did not see an item arrive, it ends at the same moment: its id is free, nothing is deleted."""
        reopen = required(reopen)
        clock = self.on_a_clock(store)
        mine, theirs = self.scope(), self.scope()
        async with await reopen() as other:
            other.clock = clock
            items = [note("tea", mine) for _ in range(5)]
            for item in items:
                await store.add(item, ttl=60)
            clock.now += 60
            taken = note("theirs now", theirs, id=items[0].id)
            equal((await other.update(taken)).version, 1, "the version of an item whose id was free")
            await other.append([note("theirs too", theirs, id=items[1].id)], after=taken.id)
            await other.add(note("theirs as well", theirs, id=items[2].id))
            equal(await other.apply(deletes=[items[3].id]), 0, "how many apply() deletes")
            if Capability.DELETE in store.capabilities:
                equal(await other.delete(items[4].id), False, "whether delete() finds it")
            equal(await store.count(metadata=theirs), 3, "how many there are now")
            await other.add(note("mine again", mine, id=items[4].id))
            again = await store.get(items[4].id)
            equal(again and again.version, 1, "the version of an item that its owner stores anew")

    @needs(Capability.TTL, Capability.PERSISTENT, Capability.DELETE)
    async def test_what_is_deleted_ends_in_a_store_opened_later(self, store: Store) -> None:
        """A store that is opened when an item is in the bin knows that it ends, and then gives its id away."""
        clock = self.on_a_clock(store)
        scope = self.scope()
        items = [note("tea", scope, trust="external"), note("milk", scope)]
        await store.add_many(items, ttl=100)
        await store.add(note("brief", scope), ttl=10)
        await store.clear(metadata=scope, where={"id": {"$in": [item.id for item in items]}})
        clock.now += 11
        await store.sweep()
        await store.close()
        await store.init()
        clock.now += 100
        for item, owner in zip(items, (scope, self.scope()), strict=True):
            again = note("lemon", owner, id=item.id)
            await store.add(again)
            same_item(await store.get(item.id), again, "a new item of the same id", version=1)

    @needs(Capability.TTL)
    async def test_what_was_swept_does_not_come_back(self, store: Store) -> None:
        """A clock that is set back brings back nothing that was removed."""
        clock = self.on_a_clock(store)
        scope = self.scope()
        item = note("tea", scope)
        await store.add(item, ttl=60)
        clock.now += 61
        await store.sweep()
        clock.now -= 3600
        equal(await store.get(item.id), None, "get with the clock set back")
        equal(await store.search(metadata=scope), [], "search with the clock set back")
        equal(await store.count(metadata=scope), 0, "count with the clock set back")

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

    @needs(Capability.TTL)
    async def test_what_is_stored_together_ends_together(self, store: Store) -> None:
        """A batch has one moment, however long its items take to be checked."""
        clock, scope = self.on_a_clock(store), self.scope()

        def running() -> float:
            clock.now += 0.001
            return clock.now

        store.clock = running
        items = [note(f"{number}", scope) for number in range(20)]
        await store.add_many(items, ttl=60)
        await store.apply(adds=[note(f"{number}", scope) for number in range(20)], ttl=600)
        for lives in (60, 600):
            ends = {item.expires_at for item in await store.search(metadata=scope, limit=99) if item.ttl == lives}
            equal(len(ends), 1, "number of moments at which a batch ends")

    @needs(Capability.TTL)
    async def test_what_belongs_together_is_shown_until_the_first_of_it_ends(self, store: Store) -> None:
        """A call with its results, and a group that says how many it is of, whichever of them ends."""
        clock = self.on_a_clock(store)
        calls = [{"id": "a", "name": "look"}, {"id": "b", "name": "look"}]
        for ending in range(5):
            scope = self.scope(session_id="s")
            turn: list[MemoryItem] = [
                AIMemory(content="reasoning", group="g", group_size=2, metadata=scope),
                AIMemory(content="calls", tool_calls=calls, group="g", group_size=2, metadata=scope),
                ToolMemory(content="a's", tool_call_id="a", metadata=scope),
                ToolMemory(content="b's", tool_call_id="b", metadata=scope),
            ]
            around = [HumanMemory(content=text, metadata=scope) for text in ("before", "behind")]
            await store.add_many([around[0], *turn, around[1]])
            if ending < len(turn):
                await store.touch([turn[ending].id], ttl=60)
            clock.now += 60
            whole = ["reasoning", "calls", "a's", "b's"] if ending == len(turn) else []
            for after in ("the end", "a sweep"):
                for limit in (None, 6):
                    shown = await store.window(metadata=scope, limit=limit)
                    equal(contents(shown), ["before", *whole, "behind"], f"window after {after} of item {ending}")
                await store.sweep()

    @needs(Capability.TTL)
    async def test_a_lifetime_is_the_items_or_the_calls(self, store: Store) -> None:
        """An item brings its own ttl, a call's goes before it, and a time that is given stays."""
        clock = self.on_a_clock(store)
        scope = self.scope()
        own = MemoryItem(content="own", metadata=scope, ttl=10)
        longer = MemoryItem(content="longer", metadata=scope, ttl=10)
        await store.add_many([own, MemoryItem(content="for good", metadata=scope)])
        await store.add(longer, ttl=30)
        copied = await store.get(longer.id)
        that(copied is not None and copied.ttl == 30, "An item must carry the ttl that it was given.")
        equal(own.expires_at, None, "the caller's item")
        clock.now += 15
        equal(sorted(contents(await store.search(metadata=scope))), ["for good", "longer"], "after fifteen seconds")
        if copied is not None:
            await store.add(copied)  # As a copy or an import brings it: its end stays where it was.
        clock.now += 16
        equal(contents(await store.search(metadata=scope)), ["for good"], "after thirty seconds")

    @needs(Capability.TTL)
    async def test_touching_gives_new_life(self, store: Store) -> None:
        """A new ttl, its own once more, or none at all; content, times and version stay."""
        clock = self.on_a_clock(store)
        scope, other = self.scope(), self.scope()
        items = [MemoryItem(content=text, metadata=scope, ttl=10) for text in ("own", "new", "for good", "untouched")]
        plain = MemoryItem(content="plain", metadata=scope)
        await store.add_many([*items, plain])
        clock.now += 8
        equal(await store.touch([items[0].id, plain.id, "nobody"]), 1, "number touched by their own ttl")
        equal(await store.touch([items[1].id], ttl=100), 1, "number given a new ttl")
        equal(await store.touch([items[2].id], ttl=math.inf), 1, "number kept for good")
        equal(await store.touch([items[3].id], ttl=50, metadata=other), 0, "number touched in another's scope")
        handle = store.scoped(user_id=str(other.user_id))
        equal(await handle.touch([items[3].id], ttl=50), 0, "number touched through another's handle")
        clock.now += 9
        found = await store.search(metadata=scope, order="added")
        equal(contents(found), ["plain", "for good", "new", "own"], "after seventeen seconds")
        equal({item.version for item in found}, {1}, "versions")
        clock.now += 2
        equal(len(await store.search(metadata=scope)), 3, "number after nineteen seconds")
        clock.now += 1000
        equal(contents(await store.search(metadata=scope)), ["plain", "for good"], "after a long time")

    @needs(Capability.TTL)
    async def test_reading_can_refresh(self, store: Store) -> None:
        """With refresh, what is read lives its ttl once more, and nothing else does."""
        clock = self.on_a_clock(store)
        scope = self.scope()
        items = [MemoryItem(content=f"{number}", metadata=scope, ttl=10) for number in range(4)]
        await store.add_many(items)
        clock.now += 6
        read = await store.get(items[0].id, refresh=True)
        again = await store.get(items[0].id)
        equal(read and read.expires_at, again and again.expires_at, "the end that a refreshed read tells")
        await store.get_many([items[1].id], refresh=True)
        await store.search(metadata=scope, where={"id": items[2].id}, refresh=True)
        await store.get(items[3].id)
        clock.now += 6
        equal(sorted(contents(await store.search(metadata=scope))), ["0", "1", "2"], "what was read in time")

    @needs(Capability.TTL)
    async def test_sweeping_removes_what_is_over_and_nothing_else(self, store: Store) -> None:
        """sweep returns how many items it removed; a handle sweeps its own."""
        clock = self.on_a_clock(store)
        mine, theirs = self.scope(), self.scope()
        await store.add_many([note("mine", mine), note("theirs", theirs)], ttl=5)
        await store.add(note("kept", mine))
        clock.now += 6
        handle = store.scoped(user_id=str(mine.user_id))
        swept = await handle.sweep() + await store.sweep()
        that(swept <= 2, f"Two items were over, and {swept} were swept.")
        equal(await store.sweep(), 0, "number swept the second time")
        equal(contents(await store.search(metadata=mine)), ["kept"], "what is left")

    @needs(Capability.TTL, Capability.PURGE)
    async def test_a_purge_does_not_count_what_was_over(self, store: Store) -> None:
        """Expired items go with a purge of their scope and are not counted."""
        clock = self.on_a_clock(store)
        scope = self.scope()
        await store.add_many([note("a", scope), note("b", scope)], ttl=5)
        await store.add(note("c", scope))
        clock.now += 6
        equal(await store.purge(metadata=scope), 1, "number purged")
        clock.now -= 100
        equal(await store.count(metadata=scope), 0, "count")

    @needs(Capability.TTL)
    async def test_a_turn_may_follow_what_expired(self, store: Store) -> None:
        """An expired item is no longer the head."""
        clock = self.on_a_clock(store)
        scope = self.scope(session_id="s")
        await store.append([note("short", scope)], after=None, ttl=5)
        clock.now += 6
        await store.append([note("next", scope)], after=None)
        equal(contents(await store.search(metadata=scope)), ["next"], "the conversation")

    @needs(Capability.TTL)
    async def test_what_is_no_lifetime_is_refused(self, store: Store) -> None:
        """Seconds above 0, on items as well as on calls."""
        scope = self.scope()
        for ttl in (0, -1, float("nan"), "3", True):
            with raises(InputError, f"an item with the ttl {ttl!r}"):
                await store.add(MemoryItem(content="x", metadata=scope, ttl=ttl))
            await each_raises(InputError, f"with the ttl {ttl!r}", touch=store.touch(["x"], ttl=ttl))  # type: ignore[arg-type]  # as above
