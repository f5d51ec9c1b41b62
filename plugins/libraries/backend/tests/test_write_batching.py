"""Writes of many coroutines, batched."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from memoranda.errors import IdConflictError, MemoryError, StoreUnavailableError
from memoranda_backend.batching import WriteBatcher


class Engine:
    """Writes when the test lets it, and records the batches that it was given."""

    def __init__(self, *, refused: Sequence[str] = (), broken: Sequence[str] = (), lost: Sequence[str] = ()) -> None:
        self.batches: list[list[str]] = []
        self.kept: list[str] = []
        self.at_once = self.most_at_once = 0
        self.may_go_on = asyncio.Event()
        self.begun = asyncio.Event()
        self._refused, self._broken, self._lost = refused, broken, lost

    async def write(self, entries: list[str]) -> list[str | Exception]:
        self.batches.append(entries)
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        self.begun.set()
        try:
            await self.may_go_on.wait()
        finally:
            self.at_once -= 1
        if any(entry in self._broken for entry in entries):
            raise MemoryError("one of them cannot be written")
        if any(entry in self._lost for entry in entries):
            raise StoreUnavailableError("the server is gone")
        self.kept += [entry for entry in entries if entry not in self._refused]
        return [IdConflictError(entry) if entry in self._refused else entry.upper() for entry in entries]


async def begun(batcher: WriteBatcher[str, str], engine: Engine, entries: Sequence[str]) -> list[asyncio.Task[str]]:
    """Add the first entry, and the others once it is being written, so that they wait."""
    tasks = [asyncio.create_task(batcher.add(entries[0]))]
    await engine.begun.wait()
    tasks += [asyncio.create_task(batcher.add(entry)) for entry in entries[1:]]
    await asyncio.sleep(0)
    return tasks


async def outcomes(engine: Engine, tasks: Sequence[asyncio.Task[str]]) -> list[Any]:
    """Let the engine go on and return the outcome of each task."""
    engine.may_go_on.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_entries_that_arrive_during_a_write_share_a_batch_and_each_gets_its_own_result() -> None:
    engine = Engine()
    tasks = await begun(WriteBatcher(engine.write), engine, "abc")

    assert await outcomes(engine, tasks) == ["A", "B", "C"]
    assert engine.batches == [["a"], ["b", "c"]]


async def test_a_batch_has_at_most_that_many_entries() -> None:
    engine = Engine()
    tasks = await begun(WriteBatcher(engine.write, most=2), engine, "abcde")

    await outcomes(engine, tasks)
    assert engine.batches == [["a"], ["b", "c"], ["d", "e"]]


async def test_entries_of_one_key_keep_their_order_in_batches_of_their_own() -> None:
    engine = Engine()
    tasks = await begun(
        WriteBatcher(engine.write, key=lambda entry: entry[0]), engine, ["x", "a1", "b1", "a2", "a3", "b2"]
    )

    await outcomes(engine, tasks)
    assert engine.batches == [["x"], ["a1", "b1"], ["a2", "b2"], ["a3"]]


async def test_only_entries_of_one_kind_share_a_batch() -> None:
    engine = Engine()
    tasks = await begun(WriteBatcher(engine.write, kind=str.isupper), engine, ["x", "a", "B", "c", "D"])

    await outcomes(engine, tasks)
    assert engine.batches == [["x"], ["a", "c"], ["B", "D"]]


async def test_an_entry_that_is_refused_fails_alone() -> None:
    engine = Engine(refused="ac")
    a, b, c = await outcomes(engine, await begun(WriteBatcher(engine.write), engine, "abc"))

    assert (type(a), b, type(c)) == (IdConflictError, "B", IdConflictError)
    assert engine.kept == ["b"]


async def test_an_entry_that_breaks_its_batch_fails_alone() -> None:
    engine = Engine(broken="c")
    found = await outcomes(engine, await begun(WriteBatcher(engine.write), engine, "abcd"))

    assert [type(each) for each in found] == [str, str, MemoryError, str]
    assert engine.kept == ["a", "b", "d"]


async def test_every_entry_of_a_batch_fails_when_the_engine_is_gone() -> None:
    engine = Engine(lost="b")
    a, b, c = await outcomes(engine, await begun(WriteBatcher(engine.write), engine, "abc"))

    assert (a, type(b), type(c)) == ("A", StoreUnavailableError, StoreUnavailableError)
    assert b is not c
    assert engine.batches == [["a"], ["b", "c"]]


@pytest.mark.parametrize("gives_up", ["a", "b", "c"])
async def test_cancelling_a_waiting_caller_affects_no_other(gives_up: str) -> None:
    engine = Engine()
    tasks = await begun(WriteBatcher(engine.write), engine, "abc")

    tasks["abc".index(gives_up)].cancel()
    await asyncio.sleep(0)
    found = await outcomes(engine, tasks)

    others = [each for each in "abc" if each != gives_up]
    assert [each for each in found if isinstance(each, str)] == [each.upper() for each in others]
    assert engine.kept == others


async def test_cancelling_a_caller_whose_batch_has_begun_affects_no_other() -> None:
    engine = Engine()
    batcher = WriteBatcher(engine.write, parallel=2, patience=0)
    tasks = await begun(batcher, engine, "abc")
    engine.begun.clear()
    await engine.begun.wait()  # The second batch, b and c.

    tasks[1].cancel()
    a, b, c = await outcomes(engine, tasks)

    assert (a, type(b), c) == ("A", asyncio.CancelledError, "C")
    assert sorted(engine.kept) == ["a", "b", "c"]


async def test_a_second_batch_begins_where_the_first_takes_long_and_no_third() -> None:
    engine = Engine()
    batcher = WriteBatcher(engine.write, parallel=2, patience=0)
    tasks = await begun(batcher, engine, "ab")
    engine.begun.clear()
    await engine.begun.wait()
    tasks += [asyncio.create_task(batcher.add(entry)) for entry in "cd"]
    await asyncio.sleep(0.01)

    assert engine.batches == [["a"], ["b"]]
    assert await outcomes(engine, tasks) == ["A", "B", "C", "D"]
    assert engine.most_at_once == 2


class HeldEngine:
    """Writes each batch when the test releases its first entry, and records the batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self._begun: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._released: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def write(self, entries: list[str]) -> list[str | Exception]:
        self.batches.append(entries)
        self._begun[entries[0]].set()
        await self._released[entries[0]].wait()
        return list(entries)

    async def begun(self, first: str) -> None:
        await asyncio.wait_for(self._begun[first].wait(), 5)

    async def release(self, *first: str) -> None:
        """Let the batches with these first entries be written, and the event loop do what follows."""
        for entry in first:
            self._released[entry].set()
        for _ in range(10):
            await asyncio.sleep(0)


async def two_batches_under_way(engine: HeldEngine, batcher: WriteBatcher[str, str]) -> list[asyncio.Task[str]]:
    """Add entries until two batches of waiting ones are under way, b with c and then d, while e and f wait."""
    tasks = [asyncio.create_task(batcher.add(entry)) for entry in "abc"]
    await engine.begun("b")
    await engine.release("a")
    tasks.append(asyncio.create_task(batcher.add("d")))
    await engine.begun("d")
    return [*tasks, *(asyncio.create_task(batcher.add(entry)) for entry in "ef")]


async def test_a_second_batch_is_no_lasting_one() -> None:
    """Two writers that go on side by side share few entries: each batch costs a round trip and a commit."""
    engine = HeldEngine()
    tasks = await two_batches_under_way(engine, WriteBatcher(engine.write, parallel=2, patience=0.05))

    await engine.release("d")
    assert engine.batches == [["a"], ["b", "c"], ["d"]]
    await engine.release("b")
    assert engine.batches[3:] == [["e", "f"]]

    await engine.release("e")
    await asyncio.gather(*tasks)


async def test_what_waits_for_a_batch_that_takes_long_starts_by_itself() -> None:
    engine = HeldEngine()
    tasks = await two_batches_under_way(engine, WriteBatcher(engine.write, parallel=2, patience=0.001))

    await engine.release("d")
    await engine.begun("e")

    await engine.release("b", "e")
    await asyncio.gather(*tasks)


async def test_settled_waits_for_every_entry() -> None:
    engine = Engine()
    batcher = WriteBatcher(engine.write)
    tasks = await begun(batcher, engine, "abc")
    settled = asyncio.create_task(batcher.settled())
    await asyncio.sleep(0)
    assert not settled.done()

    engine.may_go_on.set()
    await settled
    assert engine.kept == ["a", "b", "c"]
    await asyncio.gather(*tasks)
    await batcher.settled()


def test_a_loop_that_is_closed_leaves_no_task_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        engine = Engine()
        await begun(WriteBatcher(engine.write, parallel=2, patience=0), engine, "abc")
        engine.begun.clear()
        await engine.begun.wait()

    asyncio.run(main())

    assert caplog.text == ""


async def test_entries_of_one_key_are_written_one_after_the_other() -> None:
    chance = random.Random(1)
    under_way: list[str] = []
    written: list[str] = []

    async def write(entries: list[str]) -> list[str | Exception]:
        keys = [entry[0] for entry in entries]
        assert not set(keys) & set(under_way)
        under_way.extend(keys)
        for _ in range(chance.randrange(5)):
            await asyncio.sleep(0)
        written.extend(entries)
        for key in keys:
            under_way.remove(key)
        return list(entries)

    batcher = WriteBatcher(write, key=lambda entry: entry[0], parallel=2, patience=0)
    await asyncio.gather(*(batcher.add(f"{chance.choice('abc')}{number}") for number in range(100, 200)))

    for key in "abc":
        assert [entry for entry in written if entry[0] == key] == sorted(entry for entry in written if entry[0] == key)


@pytest.mark.parametrize("seed", range(20))
async def test_in_any_order_nothing_is_lost_and_nothing_written_twice(seed: int) -> None:
    chance = random.Random(seed)
    kept: list[int] = []

    async def write(entries: list[int]) -> list[int | Exception]:
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        kept.extend(entry for entry in entries if entry % 7)
        return [entry if entry % 7 else IdConflictError(str(entry)) for entry in entries]

    batcher = WriteBatcher(write, key=lambda entry: entry % 10, most=5, parallel=2, patience=0)
    tasks = []
    for number in range(60):
        tasks.append(asyncio.create_task(batcher.add(number)))
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        if chance.random() < 0.2:
            chance.choice(tasks).cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    await batcher.settled()

    assert len(kept) == len(set(kept))
    for number, outcome in enumerate(found):
        if isinstance(outcome, asyncio.CancelledError):
            continue
        assert (outcome == number and number in kept) or (isinstance(outcome, IdConflictError) and number % 7 == 0)
