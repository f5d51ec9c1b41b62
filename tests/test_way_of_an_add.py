"""How far one add goes: through how many calls and files, and how often back into a file that it has left.

What a reader has to follow is bounded here, not how many lines the files have. Run this file as a program to see the
way itself.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NamedTuple

from memoranda import HumanMemory
from memoranda_sqlite import SQLiteMemoryStore

CALLS, FILES, RETURNS = 50, 14, 12
"""The most calls, files, and calls into another file that was entered before."""

SOURCE = "/src/"


class Stop(NamedTuple):
    """A call of ours: its file and function, and whether it goes to another file that was entered before."""

    file: str
    function: str
    returns: bool


async def traced(call: Callable[[], Awaitable[Any]]) -> list[Stop]:
    """Return the calls in files of ours that one call makes in this thread; going on after a wait counts as one."""
    stops: list[Stop] = []
    entered: set[str] = set()
    frames: list[FrameType] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event != "call" or SOURCE not in file:
            return
        caller = frame.f_back
        while caller is not None and SOURCE not in caller.f_code.co_filename:
            caller = caller.f_back
        is_another = caller is not None and caller.f_code.co_filename != file
        is_new = not any(each is frame for each in frames)
        stops.append(Stop(file, frame.f_code.co_name, is_another and is_new and file in entered))
        entered.add(file)
        frames.append(frame)

    sys.setprofile(note)
    try:
        await call()
    finally:
        sys.setprofile(None)
    return stops


async def one_warm_add(path: Path) -> list[Stop]:
    """Return the way of an add to a session that has been added to before."""
    async with SQLiteMemoryStore(path) as store:
        handle = store.scoped(user_id="ada", session_id="today")
        for number in range(20):
            await handle.add(HumanMemory(content=f"Said before: {number}"))
        item = HumanMemory(content="Said now")
        return await traced(lambda: handle.add(item))


async def test_one_add_is_short_to_follow(tmp_path: Path) -> None:
    stops = await one_warm_add(tmp_path / "agent.db")

    assert len(stops) <= CALLS, stops
    assert len({stop.file for stop in stops}) <= FILES, sorted({stop.file for stop in stops})
    assert sum(stop.returns for stop in stops) <= RETURNS, stops


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        way = asyncio.run(one_warm_add(Path(folder) / "agent.db"))
    for stop in way:
        print(f"{'<-' if stop.returns else '  '} {stop.file.rpartition(SOURCE)[2]}: {stop.function}")
    print(f"{len(way)} calls, {len({stop.file for stop in way})} files, {sum(s.returns for s in way)} ways back")
