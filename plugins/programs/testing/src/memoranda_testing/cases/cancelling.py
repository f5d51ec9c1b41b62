"""Callers that give up: what is cancelled leaves the store usable, and every other call alone."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from memoranda.errors import IdConflictError
from memoranda.store import Capability, Store
from memoranda_testing.case import Cases, every_read, needs, note
from memoranda_testing.event_loop import some_turns
from memoranda_testing.expect import contents, equal, same_item, that, within

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
