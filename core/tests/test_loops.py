"""One thing in several event loops: locks, what each loop has for itself, and loops that end."""

from __future__ import annotations

import asyncio
import threading

import pytest

import memoranda.sync
from memoranda import HumanMemory
from memoranda.errors import StoreClosedError
from memoranda.loops import LoopLock, PerLoop
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
        await asyncio.to_thread(begun.wait, 100)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert there.wait(100)
    asyncio.run(each.close())
    thread.join(100)

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
