"""Writes of many coroutines, gathered into waves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from memoranda.errors import IdConflictError, MemoryError, StoreUnavailableError
from memoranda.store import Gathering


class Engine:
    """Writes when it is told to; it knows what it was given, and how much of it at once."""

    def __init__(self, *, refused: Sequence[str] = (), broken: Sequence[str] = (), lost: Sequence[str] = ()) -> None:
        self.waves: list[list[str]] = []
        self.kept: list[str] = []
        self.at_once = self.most_at_once = 0
        self.may_go_on = asyncio.Event()
        self.begun = asyncio.Event()
        self._refused, self._broken, self._lost = refused, broken, lost

    async def write(self, entries: list[str]) -> list[str | Exception]:
        self.waves.append(entries)
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


async def begun(gathering: Gathering[str, str], engine: Engine, entries: Sequence[str]) -> list[asyncio.Task[str]]:
    """Bring the first entry, and the others once it is being written; all of them wait then."""
    tasks = [asyncio.create_task(gathering.add(entries[0]))]
    await engine.begun.wait()
    tasks += [asyncio.create_task(gathering.add(entry)) for entry in entries[1:]]
    await asyncio.sleep(0)
    return tasks


async def outcomes(engine: Engine, tasks: Sequence[asyncio.Task[str]]) -> list[Any]:
    """Let the engine go on and return what became of each."""
    engine.may_go_on.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_those_who_come_meanwhile_go_together_and_each_gets_its_own_result() -> None:
    engine = Engine()
    tasks = await begun(Gathering(engine.write), engine, "abc")

    assert await outcomes(engine, tasks) == ["A", "B", "C"]
    assert engine.waves == [["a"], ["b", "c"]]


async def test_a_wave_has_at_most_so_many() -> None:
    engine = Engine()
    tasks = await begun(Gathering(engine.write, most=2), engine, "abcde")

    await outcomes(engine, tasks)
    assert engine.waves == [["a"], ["b", "c"], ["d", "e"]]


async def test_entries_of_one_key_keep_their_order_in_waves_of_their_own() -> None:
    engine = Engine()
    tasks = await begun(
        Gathering(engine.write, key=lambda entry: entry[0]), engine, ["x", "a1", "b1", "a2", "a3", "b2"]
    )

    await outcomes(engine, tasks)
    assert engine.waves == [["x"], ["a1", "b1"], ["a2", "b2"], ["a3"]]


async def test_only_entries_of_one_kind_share_a_wave() -> None:
    engine = Engine()
    tasks = await begun(Gathering(engine.write, kind=str.isupper), engine, ["x", "a", "B", "c", "D"])

    await outcomes(engine, tasks)
    assert engine.waves == [["x"], ["a", "c"], ["B", "D"]]


async def test_an_entry_that_is_refused_fails_alone() -> None:
    engine = Engine(refused="ac")
    a, b, c = await outcomes(engine, await begun(Gathering(engine.write), engine, "abc"))

    assert (type(a), b, type(c)) == (IdConflictError, "B", IdConflictError)
    assert engine.kept == ["b"]


async def test_an_entry_that_breaks_its_wave_fails_alone() -> None:
    engine = Engine(broken="c")
    found = await outcomes(engine, await begun(Gathering(engine.write), engine, "abcd"))

    assert [type(each) for each in found] == [str, str, MemoryError, str]
    assert engine.kept == ["a", "b", "d"]


async def test_everyone_of_a_wave_hears_that_the_engine_is_gone() -> None:
    engine = Engine(lost="b")
    a, b, c = await outcomes(engine, await begun(Gathering(engine.write), engine, "abc"))

    assert (a, type(b), type(c)) == ("A", StoreUnavailableError, StoreUnavailableError)
    assert b is not c
    assert engine.waves == [["a"], ["b", "c"]]


@pytest.mark.parametrize("gives_up", ["a", "b", "c"])
async def test_whoever_is_cancelled_while_waiting_takes_nobody_along(gives_up: str) -> None:
    engine = Engine()
    tasks = await begun(Gathering(engine.write), engine, "abc")

    tasks["abc".index(gives_up)].cancel()
    await asyncio.sleep(0)
    found = await outcomes(engine, tasks)

    others = [each for each in "abc" if each != gives_up]
    assert [each for each in found if isinstance(each, str)] == [each.upper() for each in others]
    assert engine.kept == others


async def test_whoever_is_cancelled_in_a_wave_that_has_begun_takes_nobody_along() -> None:
    engine = Engine()
    gathering = Gathering(engine.write, waves=2, patience=0)
    tasks = await begun(gathering, engine, "abc")
    engine.begun.clear()
    await engine.begun.wait()  # The second wave, b and c.

    tasks[1].cancel()
    a, b, c = await outcomes(engine, tasks)

    assert (a, type(b), c) == ("A", asyncio.CancelledError, "C")
    assert sorted(engine.kept) == ["a", "b", "c"]


async def test_a_second_wave_begins_where_the_first_takes_long_and_no_third() -> None:
    engine = Engine()
    gathering = Gathering(engine.write, waves=2, patience=0)
    tasks = await begun(gathering, engine, "ab")
    engine.begun.clear()
    await engine.begun.wait()
    tasks += [asyncio.create_task(gathering.add(entry)) for entry in "cd"]
    await asyncio.sleep(0.01)

    assert engine.waves == [["a"], ["b"]]
    assert await outcomes(engine, tasks) == ["A", "B", "C", "D"]
    assert engine.most_at_once == 2


async def test_settled_waits_for_all_that_was_brought() -> None:
    engine = Engine()
    gathering = Gathering(engine.write)
    tasks = await begun(gathering, engine, "abc")
    settled = asyncio.create_task(gathering.settled())
    await asyncio.sleep(0)
    assert not settled.done()

    engine.may_go_on.set()
    await settled
    assert engine.kept == ["a", "b", "c"]
    await asyncio.gather(*tasks)
    await gathering.settled()


def test_a_loop_that_is_closed_leaves_no_task_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        engine = Engine()
        await begun(Gathering(engine.write, waves=2, patience=0), engine, "abc")
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

    gathering = Gathering(write, key=lambda entry: entry[0], waves=2, patience=0)
    await asyncio.gather(*(gathering.add(f"{chance.choice('abc')}{number}") for number in range(100, 200)))

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

    gathering = Gathering(write, key=lambda entry: entry % 10, most=5, waves=2, patience=0)
    tasks = []
    for number in range(60):
        tasks.append(asyncio.create_task(gathering.add(number)))
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        if chance.random() < 0.2:
            chance.choice(tasks).cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    await gathering.settled()

    assert len(kept) == len(set(kept))
    for number, outcome in enumerate(found):
        if isinstance(outcome, asyncio.CancelledError):
            continue
        assert (outcome == number and number in kept) or (isinstance(outcome, IdConflictError) and number % 7 == 0)
