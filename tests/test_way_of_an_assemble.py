"""How far one assemble goes, by the measure of ``test_way_of_an_add.py``: through how many calls and files, and back.

A session of a dozen items and as many of an earlier one, all of which fit. Run this file as a program to see the way
itself.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from memoranda import AIMemory, HumanMemory
from memoranda_context import assemble
from memoranda_sqlite import SQLiteMemoryStore
from test_way_of_an_add import SOURCE, Stop, traced

CALLS, FILES, RETURNS = 675, 50, 265
"""The most calls, files, and calls into another file that was entered before."""

QUESTION = "Where do I walk?"


async def one_warm_assemble(path: Path) -> list[Stop]:
    """Return the way of an assemble that was made before."""
    async with SQLiteMemoryStore(path) as store:
        handle = store.scoped(user_id="ada", session_id="now")
        earlier = store.scoped(user_id="ada", session_id="before")
        for number in range(6):
            await earlier.add(HumanMemory(content=f"I like walk number {number} in Porto."))
            await earlier.add(AIMemory(content=f"Nice, {number}."))
            await handle.add(HumanMemory(content=f"Said {number}"))
            await handle.add(AIMemory(content=f"Yes {number}"))
        prompt = await assemble(handle, QUESTION, tokens=1_000)
        assert "walk number 0" in prompt[0].content, prompt
        return await traced(lambda: assemble(handle, QUESTION, tokens=1_000))


async def test_one_assemble_is_short_to_follow(tmp_path: Path) -> None:
    stops = await one_warm_assemble(tmp_path / "agent.db")

    assert len(stops) <= CALLS, stops
    assert len({stop.file for stop in stops}) <= FILES, sorted({stop.file for stop in stops})
    assert sum(stop.returns for stop in stops) <= RETURNS, stops


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        way = asyncio.run(one_warm_assemble(Path(folder) / "agent.db"))
    for stop in way:
        print(f"{'<-' if stop.returns else '  '} {stop.file.rpartition(SOURCE)[2]}: {stop.function}")
    print(f"{len(way)} calls, {len({stop.file for stop in way})} files, {sum(s.returns for s in way)} ways back")
