"""Many callers in one process, and callers that give up."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from memoranda.errors import IdConflictError, VersionConflictError
from memoranda.items import MemoryItem
from memoranda.store import Capability, Store
from memoranda_testing.case import Cases, counted_up, every_read, needs, note
from memoranda_testing.event_loop import some_turns
from memoranda_testing.expect import contents, equal, same_item, that, within

T = TypeVar("T")


class ConcurrencyCases(Cases):
    """Calls that run at the same time do not lose or mix up anything."""

    async def test_parallel_adds_are_all_stored(self, store: Store) -> None:
        """Items and batches that are added at once are there, whole and in order; adds of one id are all counted."""
        scope = self.scope()
        items = [note(str(number), scope, number, mood=[number]) for number in range(100)]
        twins = [note(str(number), scope, id=f"{scope.user_id}/twin", twin=str(number)) for number in range(25)]
        batches = [[note(f"{kind}-{n}", scope, 9, memory_type=f"{kind}") for n in range(20)] for kind in range(6)]
        adds = [*map(store.add, (*items, *twins)), *map(store.add_many, batches)]
        await asyncio.gather(*adds)
        for item in items:
            same_item(await store.get(item.id), item, "an item added in parallel", version=1)
        for kind, batch in enumerate(batches):
            found = await store.search(metadata=scope, memory_type=f"{kind}", limit=50)
            equal(contents(found), contents(reversed(batch)), f"order of batch {kind}")
        twin = await store.get(twins[0].id)
        assert twin is not None
        equal(twin.version, 25, "version after 25 parallel adds")
        equal((twin.model_extra or {}).get("twin"), twin.content, "two fields of the same add")
        equal(await store.count(metadata=scope), 221, "count after parallel adds")

    async def test_no_update_is_lost(self, store: Store) -> None:
        """Counters that several coroutines raise by compare-and-set end at the number of raises."""
        counter = note("0", self.scope())
        await store.add(counter)
        await asyncio.gather(*(counted_up(store, counter.id, times=5) for _ in range(8)))
        found = await store.get(counter.id)
        equal(found and (found.content, found.version), ("40", 41), "count and version")

    async def test_one_of_several_creators_wins(self, store: Store) -> None:
        """Of several updates of version 0 for one id, exactly one succeeds; so does one of several users' adds."""
        scopes = [self.scope() for _ in range(8)]
        for refusal, write, owners in (
            (VersionConflictError, store.update, scopes[:1] * 8),
            (IdConflictError, store.add, scopes),
        ):
            item_id = note("x", scopes[0]).id
            items = [note(str(number), owner, id=item_id) for number, owner in enumerate(owners)]
            results = await asyncio.gather(*(write(item) for item in items), return_exceptions=True)
            won = [item for item, result in zip(items, results, strict=True) if not isinstance(result, Exception)]
            equal(len(won), 1, "number of creators that won")
            equal(sum(isinstance(result, refusal) for result in results), 7, "number of creators that were refused")
            same_item(await store.get(item_id), won[0], "what is stored", version=1)

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
        ids = [item.id for item in items]
        again = [note(f"milk {number}", scope, number, id=item.id, version=1) for number, item in enumerate(items)]
        some = {"id": {"$in": [ids[number] for number in (0, 300, 700, -1)]}}

        async def look() -> list[str]:
            return [item.content.split()[0] for item in await store.search(metadata=scope, where=some)]

        for write in (store.add_many(items), store.update_many(again), store.apply(deletes=ids)):
            seen = await _seen_during(write, look)
            in_part = [words for words in seen if len(words) not in (0, 4) or len(set(words)) > 1]
            that(not in_part, f"Of the first, the last and two more items of a batch, {in_part[:1]} were seen.")

    async def test_what_is_replaced_is_never_missing(self, store: Store) -> None:
        """Whoever reads while an item is replaced, by however much, sees it as it was or as it is then."""
        scope = self.scope()
        texts = [f"{word} " * 40_000 for word in ("tea", "milk", "lemon")]
        item = note(texts[0], scope)
        await store.add(item)

        async def look() -> list[str]:
            found = [await store.get(item.id), *await store.search(metadata=scope)]
            return [each.content for each in found if each is not None]

        writes: tuple[Callable[[MemoryItem], Awaitable[object]], ...] = (store.add, store.update)
        for version, write in enumerate(writes, 1):
            again = item.model_copy(update={"content": texts[version], "version": version})
            for seen in await _seen_during(write(again), look):
                right = len(seen) == 2 and {*seen} <= {*texts[version - 1 : version + 1]}
                that(right, f"An item that was being replaced was seen as {[text[:5] for text in seen]}.")

    @needs(Capability.ADD_DELETED)
    async def test_what_arrives_deleted_is_seen_by_nobody_meanwhile(self, store: Store) -> None:
        """A reader sees none of the items at any moment while they are written."""
        scope = self.scope()
        for _ in range(10):
            batch = [note("hidden", scope, second) for second in range(20)]

            async def look(first: str = batch[0].id) -> list[str]:
                return [*contents(await store.search(metadata=scope)), *contents(await store.get_many([first]))]

            seen = await _seen_during(store.add_many(batch, deleted=[item.id for item in batch]), look)
            equal([found for found in seen if found], [], "what a reader saw of items that arrive deleted")

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


async def _seen_during(write: Awaitable[object], look: Callable[[], Awaitable[T]]) -> list[T]:
    """Do the write, and return what was seen at each look while it was under way."""
    writing, seen = asyncio.ensure_future(write), []
    while not writing.done():
        await asyncio.sleep(0)
        seen.append(await look())
    await writing
    return seen


async def _after_turns(turns: int, work: Awaitable[T]) -> T:
    """Do the work after some turns of the event loop."""
    await some_turns(turns)
    return await work


class CancellationCases(Cases):
    """A call that is cancelled leaves the store usable and nothing half written."""

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
