"""Many callers in one process, and callers that give up."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from memoranda.errors import IdConflictError, VersionConflictError
from memoranda.items import MemoryItem
from memoranda.store import Capability, Store
from memoranda_testing.case import Cases, every_read, needs, note
from memoranda_testing.event_loop import some_turns
from memoranda_testing.expect import contents, equal, same_item, that, within

T = TypeVar("T")


class ConcurrencyCases(Cases):
    """Calls that run at the same time do not lose or mix up anything."""

    async def test_parallel_adds_are_all_stored(self, store: Store) -> None:
        """Items that many coroutines add at once are all there, whole, each at version 1."""
        scope = self.scope()
        items = [note(str(number), scope, number, mood=[number]) for number in range(100)]
        await asyncio.gather(*(store.add(item) for item in items))
        found = await store.search(metadata=scope, limit=1000)
        equal(contents(found), [str(number) for number in reversed(range(100))], "search after parallel adds")
        for item, wanted in zip(reversed(found), items, strict=True):
            same_item(item, wanted, "an item added in parallel", version=1)

    async def test_parallel_batches_do_not_mix(self, store: Store) -> None:
        """Batches that are added at once keep each their own order."""
        scope = self.scope()
        batches = [
            [note(f"{batch}-{number}", scope, 9, memory_type=str(batch)) for number in range(20)] for batch in range(6)
        ]
        await asyncio.gather(*(store.add_many(batch) for batch in batches))
        equal(await store.count(metadata=scope), 120, "count after parallel batches")
        for batch in range(6):
            found = await store.search(metadata=scope, memory_type=str(batch), limit=50)
            equal(contents(found), [f"{batch}-{number}" for number in reversed(range(20))], f"order of batch {batch}")

    async def test_parallel_adds_of_one_id_count_every_version(self, store: Store) -> None:
        """Each of several adds of the same id raises the version by one; one of them is stored whole."""
        scope = self.scope()
        item = note("0", scope)
        await asyncio.gather(*(store.add(note(str(n), scope, n, id=item.id, twin=str(n))) for n in range(25)))
        found = await store.get(item.id)
        assert found is not None
        equal(found.version, 25, "version after 25 parallel adds")
        equal((found.model_extra or {}).get("twin"), found.content, "two fields of the same add")
        equal(await store.count(metadata=scope), 1, "count after parallel adds of one id")

    async def test_a_large_batch_loses_no_change_that_comes_in_between(self, store: Store) -> None:
        """Of a large compare-and-set and a small one of the same item, at most one wins, and what it wrote is there."""
        scope = self.scope()
        items = [note(str(number), scope, number) for number in range(700)]
        await store.add_many(items)
        for version, turns in enumerate((0, 30, 100, 300, 1_000), 1):
            held = await store.get_many([item.id for item in items])
            batch = [item.model_copy(update={"content": "batch"}) for item in held]
            one = held[350].model_copy(update={"content": "one"})
            results = await asyncio.gather(
                store.update_many(batch), _after_turns(turns, store.update(one)), return_exceptions=True
            )
            won = [result for result in results if not isinstance(result, Exception)]
            equal(len(won), 1, "how many of two updates of one version succeeded")
            found = await store.get(one.id)
            assert found is not None
            wrote = "one" if isinstance(results[0], Exception) else "batch"
            equal((found.content, found.version), (wrote, version + 1), "the item that both were to update")

    async def test_a_large_batch_loses_no_item_that_comes_in_between(self, store: Store) -> None:
        """Items that a large batch and single calls add at once are there once, with a version for each of the adds."""
        began, pause = time.monotonic(), 0.0
        for start in range(4):
            scope = self.scope()
            items = [note(str(number), scope, number) for number in range(700)]
            batch, twice = asyncio.ensure_future(store.add_many(items)), set[str]()
            for item in items[start::7] if start else ():  # The first batch only tells how long one takes.
                await asyncio.sleep(pause)
                if batch.done():
                    break
                await store.add(item)
                twice.add(item.id)
            await batch
            pause = pause or (time.monotonic() - began) / 100
            found = [item async for item in store.scan(metadata=scope)]
            equal([item.id for item in found], [item.id for item in items], "all that was added, by its time")
            wrong = [item.id for item in found if item.version != 1 + (item.id in twice)]
            equal(wrong, [], "items whose version does not count each add")
            equal(await store.count(metadata=scope), len(items), "how many items there are")

    @needs(Capability.ATOMIC)
    async def test_a_large_batch_is_seen_as_a_whole(self, store: Store) -> None:
        """Whoever reads while a batch is stored sees all of it or nothing."""
        scope = self.scope()
        items = [note(f"tea {number}", scope, number) for number in range(1_100)]
        again = [note(f"milk {number}", scope, number, id=item.id, version=1) for number, item in enumerate(items)]
        writes: tuple[Callable[[], Awaitable[Any]], ...] = (
            lambda: store.add_many(items),
            lambda: store.update_many(again),
            lambda: store.apply(deletes=[item.id for item in items]),
        )
        some = [items[number].id for number in (0, 300, 700, -1)]
        for write in writes:
            writing, seen = asyncio.ensure_future(write()), []
            while not writing.done():
                await asyncio.sleep(0)
                found = await store.search(metadata=scope, where={"id": {"$in": some}})
                seen.append([item.content.split()[0] for item in found])
            await writing
            in_part = [words for words in seen if len(words) not in (0, 4) or len(set(words)) > 1]
            that(not in_part, f"Of the first, the last and two more items of a batch, {in_part[:1]} were seen.")

    async def test_what_is_replaced_is_never_missing(self, store: Store) -> None:
        """Whoever reads while an item is replaced, by however much, sees it as it was or as it is then."""
        scope = self.scope()
        texts = [f"{word} " * 40_000 for word in ("tea", "milk", "lemon")]
        item = note(texts[0], scope)
        await store.add(item)
        for text, write in ((texts[1], store.add), (texts[2], store.update)):
            held = await store.get(item.id)
            assert held is not None
            writing = asyncio.ensure_future(write(held.model_copy(update={"content": text})))
            while not writing.done():
                await asyncio.sleep(0)
                found = [await store.get(item.id), *await store.search(metadata=scope)]
                seen = [item and item.content[:5] for item in found]
                that(
                    len(seen) == 2 and all(item and item.content in (held.content, text) for item in found),
                    f"An item that was being replaced was seen as {seen}.",
                )
            await writing

    async def test_a_read_that_begins_after_a_write_sees_it(self, store: Store) -> None:
        """Reads alike that are still under way, from before the write or during it, make no difference."""
        scope = self.scope()
        item = note("tea", scope)
        await store.add(item)

        async def get() -> list[MemoryItem]:
            return [each for each in [await store.get(item.id)] if each is not None]

        async def scan() -> list[MemoryItem]:
            return [each async for each in store.scan(metadata=scope)]

        async def search_ranked() -> list[MemoryItem]:
            return [each.item for each in await store.search_ranked(query="tea", metadata=scope, mode="text")]

        reads: list[Callable[[], Awaitable[list[MemoryItem]]]] = [
            get,
            scan,
            search_ranked,
            lambda: store.get_many([item.id]),
            lambda: store.search(metadata=scope, query="tea", mode="substring"),
        ]
        for number, read in enumerate(reads * 6):
            under_way = [asyncio.ensure_future(read())]
            await some_turns(number // len(reads))
            writing = asyncio.ensure_future(store.add(note(f"tea {number}", scope, id=item.id)))
            while not writing.done() and len(under_way) < 20:  # More would only keep the write waiting.
                await asyncio.sleep(0)
                under_way.append(asyncio.ensure_future(read()))
            await writing
            equal(contents(await read()), [f"tea {number}"], "what is read after a write")
            await asyncio.gather(*under_way)

    async def test_removals_at_once_count_each_item_once(self, store: Store) -> None:
        """Several calls that clear, restore or purge the same items at once say together how many there were."""
        scope = self.scope()
        items = [note(str(number), scope, number) for number in range(700)]
        methods: list[Callable[[], Awaitable[int]]] = [lambda: store.clear(metadata=scope)]
        if Capability.DELETE in store.capabilities:
            methods.append(lambda: store.restore(metadata=scope))
        if Capability.PURGE in store.capabilities:
            methods.append(lambda: store.purge(metadata=scope))
        await store.add_many(items)
        for method in methods:
            equal(sum(await asyncio.gather(*(method() for _ in range(3)))), len(items), "what three calls have done")

    async def test_no_update_is_lost(self, store: Store) -> None:
        """Counters that several coroutines raise by compare-and-set end at the number of raises."""
        item = note("counter", self.scope(), count=0)
        await store.add(item)

        async def raise_five_times() -> None:
            done = 0
            while done < 5:
                read = await store.get(item.id)
                assert read is not None
                read.__pydantic_extra__["count"] += 1  # type: ignore[index]  # the item has that field
                await asyncio.sleep(0)
                try:
                    await store.update(read)
                except VersionConflictError:
                    continue
                done += 1

        await asyncio.gather(*(raise_five_times() for _ in range(8)))
        found = await store.get(item.id)
        assert found is not None
        equal(((found.model_extra or {}).get("count"), found.version), (40, 41), "count and version")

    async def test_one_of_several_creators_wins(self, store: Store) -> None:
        """Of several updates of version 0 for one id, exactly one succeeds."""
        scope = self.scope()
        item = note("x", scope)
        results = await asyncio.gather(
            *(store.update(note(str(number), scope, id=item.id)) for number in range(10)), return_exceptions=True
        )
        won = [result for result in results if isinstance(result, MemoryItem)]
        equal(len(won), 1, "number of creators that won")
        refused = [result for result in results if isinstance(result, VersionConflictError)]
        equal(len(refused), 9, "number of creators that were refused")
        found = await store.get(item.id)
        equal(found and (found.content, found.version), (won[0].content, 1), "what is stored")

    async def test_one_of_several_owners_wins(self, store: Store) -> None:
        """Of several users that add the same new id at once, one owns it and the others are refused."""
        item_id = note("x", self.scope()).id
        scopes = [self.scope() for _ in range(8)]
        results = await asyncio.gather(
            *(store.add(note(str(scope.user_id), scope, id=item_id)) for scope in scopes), return_exceptions=True
        )
        equal(results.count(None), 1, "number of owners that won")
        that(
            all(result is None or isinstance(result, IdConflictError) for result in results),
            f"Owners that lost ended with {[result for result in results if result is not None]}.",
        )
        found = await store.get(item_id)
        winner = scopes[results.index(None)].user_id
        equal(found and (found.content, found.metadata.user_id), (winner, winner), "what is stored")

    async def test_batches_in_opposite_order_do_not_block_each_other(self, store: Store) -> None:
        """Batches over the same ids in opposite order all end, by success or by conflict."""
        scope = self.scope()
        items = [note("0", scope, number) for number in range(10)]
        await store.add_many(items)

        async def change(round_number: int) -> None:
            read = await store.search(metadata=scope)
            batch = read if round_number % 2 else read[::-1]
            try:
                await store.update_many(batch)
            except VersionConflictError:
                await store.add_many(batch)

        await asyncio.gather(*(change(number) for number in range(12)))
        equal(await store.count(metadata=scope), 10, "count after crossing batches")


async def _after_turns(turns: int, work: Awaitable[T]) -> T:
    """Do the work after some turns of the event loop."""
    await some_turns(turns)
    return await work


DELAYS = (None, 0, 0, 0.0002, 0.0005, 0.001, 0.002, 0.004, 0.008)
"""When calls are cancelled: before they start, after one turn of the loop, after some time."""


class CancellationCases(Cases):
    """A call that is cancelled leaves the store usable and nothing half written."""

    async def _cancel(self, call: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Start the call again and again, and cancel it after a longer and longer time."""
        for delay in DELAYS:
            task = asyncio.create_task(call())
            if delay is not None:
                await asyncio.sleep(delay)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    @needs(Capability.ATOMIC)
    async def test_a_cancelled_batch_is_all_or_none(self, store: Store) -> None:
        """Of a cancelled add_many, all items are there or none."""
        scope = self.scope()
        tried: list[str] = []

        def add() -> Coroutine[Any, Any, None]:
            tried.append(f"batch {len(tried)}")
            return store.add_many([note(str(n), scope, n, memory_type=tried[-1]) for n in range(40)])

        await self._cancel(add)
        await store.add(note("after", scope, 100))
        for batch in tried:
            found = await store.search(metadata=scope, memory_type=batch, limit=100)
            that(len(found) in (0, 40), f"{len(found)} of 40 items of a cancelled batch are there.")
        equal(contents(await store.search(metadata=scope, limit=1)), ["after"], "an add after cancelled batches")

    async def test_many_cancelled_calls_exhaust_nothing(self, store: Store) -> None:
        """Connections, locks and seats that cancelled calls of any kind held are free again."""
        scope = self.scope(session_id="s")
        held = note("tea", scope)
        await store.add(held)
        calls = every_read(store, held)
        calls["add"] = lambda: store.add(note("x", scope))
        for call in calls.values():
            for turns in range(4):
                tasks = [asyncio.create_task(call()) for _ in range(20)]
                await some_turns(turns)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        async with within(self.patience, "A call after many that were cancelled"):
            for call in calls.values():
                await asyncio.gather(*(call() for _ in range(20)))
            await asyncio.gather(*(store.add(note("after", scope, 100)) for _ in range(20)))
        found = await store.search(metadata=scope, query="after", mode="substring", limit=100)
        equal(len(found), 20, "number of adds after cancelled calls")

    async def test_a_call_that_is_cancelled_takes_no_other_along(self, store: Store) -> None:
        """Of calls alike at the same time, those that are not cancelled return what they would return alone."""
        held = note("tea", self.scope(session_id="s"))
        await store.add(held)
        for name, call in every_read(store, held).items():
            alone = await call()
            for turns in range(4):
                first, *others = [asyncio.create_task(call()) for _ in range(3)]
                await some_turns(turns)
                first.cancel()
                await asyncio.wait([first, *others])
                for other in others:
                    that(not other.cancelled(), f"A call of {name}() was cancelled together with another one.")
                    equal(other.result(), alone, f"what {name}() returned beside a cancelled call")

    async def test_writes_beside_one_that_fails_are_done(self, store: Store) -> None:
        """Of adds at the same time, one that is cancelled or refused takes no other along."""
        mine, theirs = self.scope(), self.scope()
        foreign = note("theirs", theirs)
        await store.add(foreign)
        for turns, given_up in itertools.product(range(4), range(3)):
            items = [note(f"{turns} {number}", mine) for number in range(3)]
            tasks = [asyncio.create_task(store.add(item)) for item in items]
            refused = asyncio.create_task(store.add(note("taken", mine, id=foreign.id)))
            await some_turns(turns)
            tasks[given_up].cancel()
            async with within(self.patience, "An add beside one that was cancelled"):
                await asyncio.wait([refused, *tasks])
            that(isinstance(refused.exception(), IdConflictError), "The id of another user's item was taken.")
            for item, task in zip(items, tasks, strict=True):
                if task is not tasks[given_up]:
                    task.result()
                    same_item(await store.get(item.id), item, "an item added beside one that failed", version=1)
        same_item(await store.get(foreign.id), foreign, "another user's item", version=1)
