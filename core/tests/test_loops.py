"""One thing in several event loops: locks, what each loop has for itself, and loops that end."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self

import pytest
from stepwise import StepwiseStore

import memoranda.loops
import memoranda.sync
from memoranda import HumanMemory
from memoranda.errors import StoreClosedError
from memoranda.loops import LoopLock
from memoranda.per_loop import PerLoop
from memoranda.store import InMemoryStore


def test_what_is_left_of_a_closed_loop_does_not_release_a_lock_that_another_holds() -> None:
    lock = LoopLock()
    dead = asyncio.new_event_loop()

    async def hold_for_ever() -> None:
        async with lock.held():
            await asyncio.Event().wait()

    left = hold_for_ever()
    task = dead.create_task(left)
    dead.set_exception_handler(lambda _, __: None)
    dead.run_until_complete(asyncio.sleep(0, None))
    dead.close()

    async def others() -> list[str]:
        order = []

        async def second() -> None:
            async with lock.held():
                order.append("second")

        async with lock.held():
            waiting = asyncio.ensure_future(second())
            left.close()
            for _ in range(5):
                await asyncio.sleep(0)
            order.append("first")
        await waiting
        return order

    assert asyncio.run(others()) == ["first", "second"]
    assert not task.done()


def test_coroutines_of_several_loops_are_never_inside_together() -> None:
    lock = LoopLock()
    inside = most = entered = 0

    async def enter() -> None:
        nonlocal inside, most, entered
        async with lock.held():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            entered += 1

    async def enter_often() -> None:
        await asyncio.gather(*(enter() for _ in range(10)))

    threads = [threading.Thread(target=lambda: asyncio.run(enter_often())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, entered) == (1, 40)


def test_what_a_loop_has_is_ended_in_it_when_it_ends() -> None:
    told: list[tuple[str, bool]] = []

    async def end(value: str) -> None:
        told.append((value, asyncio.get_running_loop().is_running()))

    each = PerLoop(lambda: "its own", end=end)

    async def ask() -> str:
        return each.here()

    assert asyncio.run(ask()) == "its own"
    assert told == [("its own", True)]


def test_what_a_closed_loop_had_is_abandoned_when_another_asks() -> None:
    abandoned: list[str] = []
    names = iter(("first", "second"))
    each = PerLoop(lambda: next(names), abandon=abandoned.append)

    async def ask() -> str:
        return each.here()

    dead = asyncio.new_event_loop()
    assert dead.run_until_complete(ask()) == "first"
    dead.close()
    assert asyncio.run(ask()) == "second"
    assert abandoned == ["first"]


def test_what_another_loop_began_to_end_is_ended_by_its_own_that_comes_to_its_end() -> None:
    seen: list[str] = []
    there, begun = threading.Event(), threading.Event()

    async def end(_: str) -> None:
        seen.append("begun")
        begun.set()
        if len(seen) == 1:
            await asyncio.sleep(300)
        seen.append("done")

    each = PerLoop(lambda: "mine", end=end, abandon=lambda _: seen.append("abandoned"))

    async def main() -> None:
        each.here()
        there.set()
        await asyncio.to_thread(begun.wait, 240)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert there.wait(240)
    asyncio.run(each.close())
    thread.join(240)

    assert seen == ["begun", "begun", "done"]


def test_a_store_may_be_used_with_and_without_async() -> None:
    store = InMemoryStore()
    blocking = memoranda.sync.SyncStore(store)
    blocking.add(HumanMemory(content="one"))
    asyncio.run(store.add(HumanMemory(content="two")))
    assert blocking.count() == asyncio.run(store.count()) == 2
    asyncio.run(store.close())
    with pytest.raises(StoreClosedError):
        blocking.count()


async def test_a_closed_store_is_a_runtime_error() -> None:
    store = InMemoryStore()
    await store.close()
    with pytest.raises(RuntimeError, match="is closed"):
        await store.count()


class BlockedLoop:
    """A loop in a thread that begins some work and then takes no turn until it is told to go on."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._work = work
        self._may_go_on = threading.Event()
        self._is_blocked = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.complaints: list[str] = []
        self.outcome: object = None

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_blocked.wait(200)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.go_on()

    def go_on(self) -> None:
        self._may_go_on.set()
        self._thread.join(200)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda _, context: self.complaints.append(context["message"]))
        (self.outcome,) = loop.run_until_complete(self._block())
        # Not even asyncio.run's turns at its end.
        loop.close()
        gc.collect()

    async def _block(self) -> list[object]:
        task = asyncio.ensure_future(self._work())
        await asyncio.sleep(0)
        self._is_blocked.set()
        self._may_go_on.wait()
        return await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def soon_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memoranda.loops, "BLOCKED_AFTER", 0.02)


@pytest.mark.usefixtures("soon_blocked")
def test_what_a_blocked_loop_has_is_abandoned_and_not_ended_when_it_goes_on() -> None:
    seen: list[str] = []

    async def end(_: str) -> None:
        seen.append("ended")

    each = PerLoop(lambda: "its own", end=end, abandon=lambda _: seen.append("abandoned"))

    async def ask() -> str:
        return each.here()

    with BlockedLoop(ask) as blocked:
        asyncio.run(each.close())
        assert seen == ["abandoned"]
        blocked.go_on()
        assert (seen, blocked.outcome, blocked.complaints) == (["abandoned"], "its own", [])


@pytest.mark.usefixtures("soon_blocked")
def test_a_write_in_a_blocked_loop_keeps_nobody_from_closing() -> None:
    class Slow(StepwiseStore):
        async def _add(self, *arguments: Any) -> None:
            await asyncio.sleep(0)
            await super()._add(*arguments)

    for close in (lambda store: asyncio.run(store.close()), lambda store: memoranda.sync.SyncStore(store).close()):
        store = Slow()
        with BlockedLoop(lambda store=store: store.add(HumanMemory(content="late"))) as blocked:
            close(store)
            blocked.go_on()
            assert not blocked.complaints


@pytest.mark.usefixtures("soon_blocked")
def test_closing_does_not_wait_for_a_loop_that_is_blocked_while_it_closes() -> None:
    class SlowToClose(StepwiseStore):
        async def _close(self) -> None:
            await asyncio.sleep(0)

    store = SlowToClose()
    with BlockedLoop(store.close) as blocked:
        asyncio.run(store.close())
        with pytest.raises(StoreClosedError):
            asyncio.run(store.count())
        blocked.go_on()
        assert (blocked.outcome, blocked.complaints) == (None, [])


def test_a_call_of_a_loop_that_takes_turns_is_waited_for() -> None:
    begun, may_end = threading.Event(), threading.Event()

    class Waiting(StepwiseStore):
        async def _apply(self, write: Any) -> int:
            begun.set()
            await asyncio.to_thread(may_end.wait)
            return await super()._apply(write)

    store = Waiting()
    items = [HumanMemory(content="one"), HumanMemory(content="two")]
    adding = threading.Thread(target=lambda: asyncio.run(store.add_many(items)))
    adding.start()
    assert begun.wait(200)

    async def close() -> bool:
        closing = asyncio.ensure_future(store.close())
        for _ in range(20):
            await asyncio.sleep(0.005)
        was_done = closing.done()
        may_end.set()
        await closing
        return was_done

    assert not asyncio.run(close())
    adding.join(200)
