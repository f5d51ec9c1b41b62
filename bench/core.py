"""The core against plain Python: the in-memory store, the check of a summary trigger, imports.

python bench/core.py
"""

from __future__ import annotations

import subprocess
import sys

from harness import Line, interleaved, line, report, run

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ShortTermMemory, SystemMemory
from memoranda.store import InMemoryStore, copy_item
from memoranda.store.backend import Filter
from memoranda_summary import SummaryConfig, check_trigger

SESSIONS = 1_000
ITEMS_EACH = 100


async def in_memory() -> list[Line]:
    """Find one session among many, and one item among many.

    The floors are hand-written dicts that hand out copies too, since a store that hands out its own objects could be
    edited from outside. The scan asks every item the same filter.
    """
    store = InMemoryStore()
    by_session: dict[str, list[MemoryItem]] = {}
    by_id: dict[str, MemoryItem] = {}
    for number in range(SESSIONS * ITEMS_EACH):
        session = f"s{number % SESSIONS}"
        item = HumanMemory(
            content=f"turn {number}", metadata=MemoryMetadata(user_id=f"u{number % 100}", session_id=session)
        )
        await store.add(item)
        by_session.setdefault(session, []).append(item)
        by_id[item.id] = item
    wanted = MemoryMetadata(session_id="s500")
    scan = Filter.of(metadata=wanted)
    an_id = by_session["s500"][50].id

    async def floor_get() -> MemoryItem:
        return copy_item(by_id[an_id])

    session_times = await interleaved(
        {
            "memoranda": lambda: store.search(metadata=wanted, limit=ITEMS_EACH),
            "floor": lambda: [copy_item(item) for item in reversed(by_session["s500"])],
        },
        calls=20,
    )
    scan_times = await interleaved(
        {
            "memoranda": lambda: store.search(metadata=wanted, limit=ITEMS_EACH),
            "floor": lambda: [copy_item(item) for item in by_id.values() if scan.matches(item)],
        },
        rounds=5,
    )
    get_times = await interleaved({"memoranda": lambda: store.get(an_id), "floor": floor_get}, calls=2_000)
    return [
        line("one session of 100 among 1,000, against a dict of lists", session_times, goal=">= 0.5x"),
        line("one session of 100 among 1,000, against a scan", scan_times, goal=">= 100x"),
        line("get, against a dict", get_times, goal=">= 0.5x"),
    ]


async def conversations() -> list[Line]:
    """Add items one by one, and show the last five rounds of a session of 1,000 items.

    The floors are the leanest that could do it: lists and a dict of the very objects, nothing checked, nothing copied,
    and rounds counted from the end. What a store does beyond that is in these ratios.
    """
    items = [_said(number) for number in range(1_000)]
    memory = ShortTermMemory(scope="session", max_rounds=5)
    await memory.add_many(items)
    wanted = MemoryMetadata(user_id="ada", session_id="s")

    async def add_all() -> None:
        fresh = ShortTermMemory(scope="session")
        for item in items:
            await fresh.add(item)

    async def lean_add_all() -> None:
        by_id: dict[str, MemoryItem] = {}
        by_session: dict[str | None, list[MemoryItem]] = {}

        async def add(item: MemoryItem) -> None:
            by_id[item.id] = item
            by_session.setdefault(item.metadata.session_id, []).append(item)

        for item in items:
            await add(item)

    async def lean_rounds() -> list[MemoryItem]:
        found: list[MemoryItem] = []
        humans = 0
        for item in reversed(items):
            found.append(item)
            humans += item.memory_type == "human"
            if humans == 5:
                break
        return [items[0], *reversed(found)]

    add_times = await interleaved({"memoranda": add_all, "floor": lean_add_all})
    shown_times = await interleaved(
        {"memoranda": lambda: memory.search(metadata=wanted, limit=20), "floor": lean_rounds}, calls=100
    )
    return [
        line("1,000 adds, against lists without checks or copies", add_times),
        line("5 rounds of a session of 1,000, against lists without copies", shown_times),
    ]


def _said(number: int) -> MemoryItem:
    owner = MemoryMetadata(user_id="ada", session_id="s")
    if number == 0:
        return SystemMemory(content="Answer in one sentence.", metadata=owner)
    kind = HumanMemory if number % 2 else AIMemory
    return kind(content=f"turn {number} of a long talk", metadata=owner)


async def trigger() -> list[Line]:
    """Check 10,000 items for a summary trigger; the floor adds up the lengths of their texts."""
    calls = [{"id": "c", "name": "weather", "arguments": {"city": "Oslo"}}]
    items = [
        HumanMemory(content="word " * 20) if number % 4 else AIMemory(content="word " * 20, tool_calls=calls)
        for number in range(10_000)
    ]
    config = SummaryConfig()
    times = await interleaved(
        {
            "memoranda": lambda: check_trigger(items, config),
            "floor": lambda: sum(len(item.content) for item in items),
        },
        rounds=5,
    )
    return [line("summary trigger over 10,000 items", times, goal="well under 50,000 µs")]


def _python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


async def imports() -> list[Line]:
    """Start Python and import; the floor imports what the core depends on."""
    floor = "import pydantic, pluggy, typer"
    names = "import memoranda; memoranda.MemoryItem, memoranda.ShortTermMemory, memoranda.open"
    times = await interleaved(
        {
            "floor": lambda: _python(floor),
            "bare": lambda: _python("import memoranda"),
            "used": lambda: _python(names),
            "help": lambda: subprocess.run(
                [sys.executable, "-m", "memoranda", "--help"], check=True, stdout=subprocess.DEVNULL
            ),
        },
        rounds=7,
    )
    return [
        line("import memoranda", times, ours="bare", goal=">= 0.8x"),
        line("import memoranda and touch its main names", times, ours="used"),
        line("memoranda --help", times, ours="help", goal=">= 0.67x"),
    ]


async def main() -> None:
    report("In memory", await in_memory())
    report("Conversations in memory, against the leanest thing that could do it", await conversations())
    report("Summary trigger", await trigger())
    report("Imports", await imports())


if __name__ == "__main__":
    run(main)
