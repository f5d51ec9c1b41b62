"""What trust costs in processor time: adds and windows with it, against the same calls without it.

python bench/trust.py
"""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path

from harness import Line, interleaved, line, report, run

from memoranda import AIMemory, HumanMemory, MemoryItem, ToolMemory
from memoranda.store import InMemoryStore, Observer, ScopedStore, Store
from memoranda_guard import Fence, Guard
from memoranda_sqlite import SQLiteMemoryStore

ROUNDS = 20
GOAL = "0.97"

_numbers = itertools.count()


class Idle(Observer):
    """Does nothing, as the floor of an observer that does something."""


def message() -> MemoryItem:
    return HumanMemory(content=f"turn {next(_numbers)} of a conversation about trains and weather")


def result() -> MemoryItem:
    return ToolMemory(
        content="It rains in Oslo, 7 degrees. " * 7, tool_call_id=f"c{next(_numbers)}", tool_name="weather"
    )


async def fill(handle: ScopedStore) -> None:
    """Store rounds with a call and a result each."""
    for number in range(ROUNDS):
        calls = [{"id": f"w{number}", "name": "weather", "arguments": {"city": "Oslo"}}]
        await handle.add_many(
            [
                HumanMemory(content=f"How is the weather on day {number}?"),
                AIMemory(content="", tool_calls=calls),
                ToolMemory(content="rain", tool_call_id=f"w{number}", tool_name="weather"),
                AIMemory(content="It rains."),
            ]
        )


async def measured(store: Store, name: str, calls: int) -> list[Line]:
    plain = store.scoped(user_id="ada", session_id="plain")
    trusting = store.scoped(user_id="ada", session_id="trusting", trust="user", origin="chat")
    idle = store.scoped(user_id="ada", session_id="idle")
    idle.observe(Idle())
    guarded = store.scoped(user_id="ada", session_id="guarded")
    guarded.observe(Guard("standard"))
    read = store.scoped(user_id="ada", session_id="read")
    await fill(read)
    adds = await interleaved(
        {
            "plain": lambda: plain.add(message()),
            "trusting": lambda: trusting.add(message()),
            "idle": lambda: idle.add(message()),
            "guarded": lambda: guarded.add(message()),
            "idle result": lambda: idle.add(result()),
            "guarded result": lambda: guarded.add(result()),
        },
        rounds=25,
        calls=calls,
        clock=time.process_time,
    )
    windows = await interleaved(
        {
            "plain": lambda: read.window(rounds=ROUNDS),
            "trusted": lambda: read.window(rounds=ROUNDS, min_trust="external"),
        },
        rounds=25,
        calls=calls,
        clock=time.process_time,
    )
    fence = Fence()
    window = await read.window(rounds=ROUNDS)
    fencing = await interleaved({"fence": lambda: fence.apply(window)}, rounds=25, calls=calls, clock=time.process_time)
    add, on = f"{name}: add", "/ with an idle observer"
    return [
        line(f"{add} through a handle with trust / without", adds, ours="trusting", floor="plain", goal=GOAL),
        line(f"{add} a person's message, guarded {on}", adds, ours="guarded", floor="idle", goal=GOAL),
        line(f"{add} a tool's result, guarded {on}", adds, ours="guarded result", floor="idle result"),
        line(f"{name}: window with min_trust / without", windows, ours="trusted", floor="plain", goal=GOAL),
        line(f"{name}: fencing a window / reading it", {**windows, **fencing}, ours="fence", floor="plain"),
    ]


async def main() -> None:
    report("Trust in memory", await measured(InMemoryStore(), "memory", 200))
    with tempfile.TemporaryDirectory() as folder:
        async with SQLiteMemoryStore(Path(folder) / "memories.db") as store:
            report("Trust on SQLite", await measured(store, "SQLite", 40))


if __name__ == "__main__":
    run(main)
