"""Several event loops: one after the other, one in each thread, and loops that end in the middle of something."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import sys
import threading
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any

from memoranda import loops
from memoranda.errors import StoreClosedError
from memoranda.items import MemoryMetadata
from memoranda.store import Capability, Store
from memoranda_testing.case import Case, Cases, counted_up, every_read, every_write, note, skipped_if
from memoranda_testing.event_loop import LOOKS, longest_wait, some_turns, threads_that_meet
from memoranda_testing.expect import contents, equal, not_ended, raises, same_item, that, within

LOOPS = 4
_PATIENCE = 240.0
"""Seconds for which calls in other event loops are waited for, all that a case begins together."""


def any_loop(case: Case) -> Case:
    """Run the case only where the store may be used from every event loop."""
    reason = "the store is made on something that belongs to one event loop"
    return skipped_if(lambda cases, store: "" if cases.any_loop else reason)(case)


async def elsewhere(*works: Callable[[], object]) -> None:
    """Call each in a thread of its own, all at once, and wait for them. Raises the first error of any."""
    errors: list[BaseException] = []

    def call(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the result of the case
            errors.append(error)

    # Daemons: a store that keeps a caller waiting for ever must not keep the run from its end.
    threads = [threading.Thread(target=call, args=(work,), daemon=True) for work in works]
    with threads_that_meet():
        for thread in threads:
            thread.start()
        async with within(_PATIENCE, "A call from another event loop"):
            while any(thread.is_alive() for thread in threads):  # noqa: ASYNC110 - a thread sets no event at its end
                await asyncio.sleep(0.001)
    if errors:
        raise errors[0]


def in_a_loop(work: Callable[[], Coroutine[Any, Any, object]]) -> Callable[[], object]:
    """Return a function that does the work in an event loop of its own."""
    return lambda: asyncio.run(work())


class CutOff:
    """Work begun in event loops that were closed in the middle of it."""

    def __init__(self) -> None:
        self._left: list[asyncio.Task[Any]] = []

    async def begin(self, work: Callable[[], Coroutine[Any, Any, object]], turns: int) -> None:
        """Begin the work in a loop, in a thread, that is closed after so many turns."""
        await elsewhere(functools.partial(self._begin, work, turns))

    def _begin(self, work: Callable[[], Coroutine[Any, Any, object]], turns: int) -> None:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda _, __: None)  # It would say that a task was left pending, as was meant.

        async def begin() -> None:
            self._left.append(asyncio.ensure_future(work()))
            await some_turns(turns)

        loop.run_until_complete(begin())
        self._left += asyncio.all_tasks(loop)
        loop.close()

    def collect(self) -> None:
        """Do what the garbage collector would do sooner or later with what was left of the work."""
        for task in self._left:
            coroutine = task.get_coro()
            if not task.done() and coroutine is not None:
                with contextlib.suppress(RuntimeError):  # What asyncio itself says of its closed loop.
                    coroutine.close()
        self._left.clear()


class Blocked:
    """An event loop in a thread of its own that is blocked with calls under way until it may go on."""

    def __init__(self, store: Store, scope: MemoryMetadata, turns: int) -> None:
        self._store = store
        self._scope = scope
        self._turns = turns
        self._is_blocked = threading.Event()
        self._may_go_on = threading.Event()
        self._outcomes: list[object] = []
        self._thread = threading.Thread(target=lambda: asyncio.run(self._use()), daemon=True)
        self.complaints: list[str] = []

    async def begin(self) -> None:
        """Begin calls, and block the loop after so many turns."""
        self._thread.start()
        if not await asyncio.to_thread(self._is_blocked.wait, _PATIENCE):
            raise not_ended("An add from another event loop", _PATIENCE)

    async def go_on(self) -> list[object]:
        """Let the loop run to its end, and return the outcome of each call; the last was made after the others."""
        self._may_go_on.set()
        await asyncio.to_thread(self._thread.join, _PATIENCE)
        if self._thread.is_alive():
            raise not_ended("A call of a loop that was blocked", _PATIENCE)
        return self._outcomes

    async def _use(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.complaints.append(context["message"]))
        await self._store.add(note("before", self._scope))
        calls = _calls_of_all_kinds(self._store, self._scope)
        await some_turns(self._turns)
        self._is_blocked.set()
        self._may_go_on.wait()
        self._outcomes += await asyncio.gather(*calls, return_exceptions=True)
        self._outcomes += await asyncio.gather(self._store.count(metadata=self._scope), return_exceptions=True)


@contextlib.contextmanager
def blocked_after(seconds: float) -> Iterator[None]:
    """Count a loop as blocked after this many seconds, within the block."""
    before, loops.BLOCKED_AFTER = loops.BLOCKED_AFTER, seconds
    try:
        yield
    finally:
        loops.BLOCKED_AFTER = before


class LoopCases(Cases):
    """A store serves every event loop of the process, whichever opened it."""

    async def test_no_call_waits_in_the_event_loop(self, store: Store) -> None:
        """While a call waits for a disk, a server or a lock, the event loop serves others."""
        scope = self.scope(session_id="s")
        items = [note(f"tea {number}", scope, number) for number in range(1_100)]
        ids, counter = [item.id for item in items], note("0", scope)
        await store.add(counter)

        async def update_many() -> None:
            await store.update_many(await store.get_many(ids[:300]))

        async def append() -> None:
            turn = [note("turn", scope) for _ in range(2)]
            await store.append(turn, after=await store.head(metadata=scope))

        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "add_many": lambda: store.add_many(items),
            "add": lambda: store.add(items[0]),
            "update": lambda: counted_up(store, counter.id),
            "update_many": update_many,
            "append": append,
            "get_many of many": lambda: store.get_many(ids),
            "search for all": lambda: store.search(metadata=scope, limit=10_000),
            "recall": lambda: store.recall("tea", metadata=scope),
            "count of a condition": lambda: store.count(metadata=scope, where={"content": {"$exists": True}}),
            **every_read(store, items[0]),
        }

        async def after_adding(remove: Callable[[], Awaitable[object]]) -> None:
            await store.add_many(items)
            await remove()

        async def restore() -> None:
            await store.clear(metadata=scope)
            await store.restore(metadata=scope)

        several: dict[str, Callable[[], Awaitable[object]]] = {
            "apply": lambda: store.apply(deletes=ids),
            "touch": lambda: store.touch(ids, ttl=1e9),
            "purge": lambda: store.purge(metadata=scope),
            "restore": restore,
        }
        for name, write in every_write(store, items[0]).items():
            calls.setdefault(name, functools.partial(after_adding, several.get(name, write)))
        if sys.platform != "linux":
            self.unchecked("whether a call waits in the event loop: this system does not tell which thread sleeps")
        for name, call in calls.items():
            looks = await longest_wait(call)
            that(looks <= LOOKS, f"{name}() held the event loop and waited: {looks} looks in a row saw it asleep.")

    @any_loop
    async def test_loops_in_turn_use_one_store(self, store: Store) -> None:
        """A program may call asyncio.run several times: one opens a store, others go on with it, and one closes it."""
        scope = self.scope()
        items = [note(str(number), scope, number) for number in range(6)]

        async def follow(number: int) -> None:
            for before in items[:number][-1:]:
                same_item(await store.get(before.id), before, "get of what an earlier loop added", version=1)
            await asyncio.gather(store.add(items[number]), *(store.count(metadata=scope) for _ in range(8)))

        await store.close()
        in_turn = [in_a_loop(store.init), *(in_a_loop(functools.partial(follow, number)) for number in range(6))]
        await elsewhere(lambda: [run() for run in in_turn])
        equal(contents(await store.search(metadata=scope)), ["5", "4", "3", "2", "1", "0"], "what the loops added")
        await elsewhere(in_a_loop(store.close))
        with raises(StoreClosedError, "get after another loop closed the store"):
            await store.get(items[0].id)
        await store.init()

    @any_loop
    async def test_several_loops_open_a_store_at_once(self, store: Store) -> None:
        """init() from several threads at the same time opens the store once, and all of them can use it."""
        scope = self.scope()
        for turn in range(3):
            await store.close()
            together = threading.Barrier(LOOPS)

            async def open_and_add(turn: int = turn, together: threading.Barrier = together) -> None:
                together.wait(_PATIENCE)
                await store.init()
                await store.add(note(f"turn {turn}", scope))

            await elsewhere(*[in_a_loop(open_and_add)] * LOOPS)
            found = await store.search(metadata=scope, query=f"turn {turn}", mode="substring", limit=100)
            equal(len(found), LOOPS, "number of items that the loops added")

    @any_loop
    async def test_several_loops_open_and_close_a_store_at_will(self, store: Store) -> None:
        """A call beside init() and close() of other loops ends: with its result, or with StoreClosedError."""
        scope, stored = self.scope(), list[str]()

        async def come_and_go() -> None:
            for _ in range(5):
                await store.init()
                item = note("x", scope)
                stored.extend([item.id] * await _or_closed(store.add(item)))
                for call in (store.search(metadata=scope), store.count(metadata=scope)):
                    await _or_closed(call)
                await store.close()

        await elsewhere(*[in_a_loop(come_and_go)] * LOOPS)
        await store.init()
        await store.add(note("after", scope))
        await self._are_there(store, stored)

    @any_loop
    async def test_every_method_serves_several_loops_at_once(self, store: Store) -> None:
        """No method has a lock, or anything else, that serves the first loop alone, and what each does is whole."""
        together = threading.Barrier(LOOPS)

        async def use() -> None:
            scope = self.scope(session_id=uuid.uuid4().hex)
            items = [note(f"tea {number}", scope, number) for number in range(12)]
            together.wait(_PATIENCE)
            await asyncio.gather(*(store.add(item) for item in items[:6]), store.add_many(items[6:]))
            for item in items:
                same_item(await store.get(item.id), item, "get beside other loops", version=1)
            found = await store.search(query="tea", metadata=scope, mode="substring", limit=100)
            equal(len(found), len(items), "what a loop finds of its own beside other loops")
            await asyncio.gather(*(call() for call in every_read(store, items[0]).values() for _ in range(6)))
            held = await store.get_many([item.id for item in items])
            await asyncio.gather(*(store.update(item) for item in held))
            await asyncio.gather(*(store.apply(adds=[item]) for item in items))
            if Capability.TTL in store.capabilities:
                await asyncio.gather(*(store.touch([item.id], ttl=1e6) for item in items))
            if Capability.DELETE in store.capabilities:
                await asyncio.gather(*(store.delete(item.id) for item in items))
                restored = await asyncio.gather(*(store.restore(item.id) for item in items))
                equal(restored, [1] * len(items), "how many items each loop restored")
            equal(await store.count(metadata=scope), len(items), "how many items a loop has beside others")
            popped = await asyncio.gather(*(store.pop(metadata=scope) for _ in range(4)))
            equal(len({item and item.id for item in popped}), 4, "different items that were popped")
            if Capability.PURGE in store.capabilities:
                await asyncio.gather(*(store.purge(item.id) for item in items[:4]))
            await asyncio.gather(*(store.clear(metadata=scope) for _ in range(4)))
            equal(await store.count(metadata=scope), 0, "how many items are left of what was cleared")

        await elsewhere(*[in_a_loop(use)] * LOOPS)

    @any_loop
    async def test_what_several_loops_change_is_changed_once(self, store: Store) -> None:
        """Of updates to one version one succeeds, so that no step of a counter is lost; each item is popped once."""
        scope, together = self.scope(session_id="s"), threading.Barrier(LOOPS)
        items = [note(str(number), scope, number) for number in range(40)]
        counter, popped = note("0", self.scope()), list[str]()
        await store.add_many([*items, counter])

        async def change() -> None:
            together.wait(_PATIENCE)
            await counted_up(store, counter.id, times=10)
            while (item := await store.pop(metadata=scope)) is not None:
                popped.append(item.content)

        await asyncio.gather(elsewhere(*[in_a_loop(change)] * LOOPS), counted_up(store, counter.id))
        found, steps = await store.get(counter.id), LOOPS * 10 + 1
        equal((found and found.content, found and found.version), (str(steps), steps + 1), "the counter")
        equal(sorted(popped, key=int), [item.content for item in items], "what was popped")

    async def test_closing_waits_for_calls_under_way(self, store: Store) -> None:
        """Calls that run while this loop or another closes the store end: with their result, or as closed."""
        scope = self.scope()
        closings: list[Callable[[], Awaitable[None]]] = [
            store.close,
            functools.partial(elsewhere, in_a_loop(store.close)),
        ]
        for turns, close in itertools.product((0, 1, 2, 3, 5), closings if self.any_loop else closings[:1]):
            items = [note(str(number), scope, number) for number in range(20)]
            calls = [asyncio.create_task(_or_closed(store.add(item))) for item in items]
            await some_turns(turns)
            await close()
            async with within(_PATIENCE, "A call under way while the store is closed"):
                done = await asyncio.gather(*calls)
            await store.init()
            await store.add(note("after", scope))
            await self._are_there(store, [item.id for item, ended in zip(items, done, strict=True) if ended])

    async def _are_there(self, store: Store, ids: Sequence[str]) -> None:
        """Fail unless a store that keeps its items has all that it said were stored before it was closed."""
        if Capability.PERSISTENT in store.capabilities:
            found = {item.id for item in await store.get_many(ids)}
            equal(
                [item_id for item_id in ids if item_id not in found], [], "what was stored before the store was closed"
            )

    @any_loop
    async def test_a_loop_closed_with_calls_under_way_does_no_harm(self, store: Store) -> None:
        """A loop that ends, or is closed, within calls of any kind, close() or init() holds nothing others need."""
        scope = self.scope()

        async def leave(turns: int) -> None:
            tasks = [*_calls_of_all_kinds(store, scope), asyncio.ensure_future(_scanned(store, scope))]
            await some_turns(turns)
            del tasks

        async def begin() -> None:
            await asyncio.gather(*_calls_of_all_kinds(store, scope))

        for turns in (0, 1, 2, 3, 5, 8, 13, 21):
            await elsewhere(in_a_loop(functools.partial(leave, turns)))
            for work, then in ((begin, store.init), (store.close, store.close), (store.init, store.init)):
                cut_off = CutOff()
                await cut_off.begin(work, turns)
                async with within(_PATIENCE, "A call after a loop that was closed within the same call"):
                    await then()
                if then == store.init:
                    await self._still_good(store, scope)
                cut_off.collect()
            await self._still_good(store, scope)

    @any_loop
    async def test_closing_does_not_wait_for_a_loop_that_is_blocked(self, store: Store) -> None:
        """close() goes on without a loop that takes no turns; its calls under way end with a result or as closed."""
        scope = self.scope()
        for turns in (0, 1, 2, 3, 5, 8):
            blocked = Blocked(store, scope, turns)
            await blocked.begin()
            try:
                with blocked_after(0.05):
                    await elsewhere(in_a_loop(store.close), in_a_loop(store.close))
            finally:
                outcomes = await blocked.go_on()
            that(isinstance(outcomes[-1], StoreClosedError), "A call after close() was not refused.")
            for outcome in outcomes:
                that(
                    not isinstance(outcome, BaseException) or isinstance(outcome, StoreClosedError),
                    f"A call of a loop that was blocked raised {type(outcome).__name__}, not StoreClosedError.",
                )
            equal(blocked.complaints, [], "what the loop complains of")
            await store.init()
        await self._still_good(store, scope)

    async def _still_good(self, store: Store, scope: MemoryMetadata) -> None:
        """Write and read with many callers at once, then close and open; nothing piles up that each write may carry."""
        async with within(_PATIENCE, "A call after a loop that had ended with others under way"):
            items = [note("after", scope, 100) for _ in range(40)]
            await asyncio.gather(*(store.add(item) for item in items))
            for item in items:
                same_item(await store.get(item.id), item, "get after another loop ended", version=1)
            await store.close()
            await store.init()
            await store.add(note("and again", scope))
            await store.clear(metadata=scope)


def _calls_of_all_kinds(store: Store, scope: MemoryMetadata) -> list[asyncio.Task[object]]:
    """Begin calls that add, count and search."""
    calls: list[Coroutine[Any, Any, object]] = [store.add(note(f"cut off {n}", scope, n)) for n in range(12)]
    calls += [store.add_many([note("cut off", scope) for _ in range(5)]), store.count(metadata=scope)]
    calls += [store.search(metadata=scope, query="cut", mode=mode) for mode in ("substring", "text")]
    return [asyncio.ensure_future(call) for call in calls]


async def _scanned(store: Store, scope: MemoryMetadata) -> None:
    async for _ in store.scan(metadata=scope):
        pass


async def _or_closed(call: Awaitable[object]) -> bool:
    """Return True if a call was done, and False if the store was closed."""
    try:
        await call
    except StoreClosedError:
        return False
    return True
