"""One process of many that work on one store: ``many_processes_worker.py NUMBER``.

For each URL that it is given on a line it opens the store, writes, raises a counter that all share, compacts a
conversation that all compact, forgets a user of its own, and says as JSON what it was told. It says ``ready`` first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import Any

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import VersionConflictError
from memoranda.store import Store
from memoranda_summary import SummaryConfig, compact

RAISES = 5
ITEMS = 10
TURNS = 12
CONFIG = SummaryConfig(message_threshold=5, keep_recent=4, templates=("brief",), prompts={"brief": "In short."})
SHARED = MemoryMetadata(user_id="all", session_id="shared")


class Model:
    """Answers at once."""

    async def summarize(self, prompt: str) -> str:
        return "They talked."


async def raise_counter(store: Store) -> None:
    """Add one to the counter, whoever else does at the same time."""
    while True:
        there = await store.get("counter")
        item = there or HumanMemory(id="counter", content="0", metadata=MemoryMetadata(user_id="counter"))
        try:
            await store.update(item.model_copy(update={"content": str(int(item.content) + 1)}))
            return
        except VersionConflictError:
            await asyncio.sleep(0)


async def compacted(store: Store) -> bool:
    """Compact the shared conversation and return whether this process did it."""
    # All write the same turns under the same ids, so that whoever comes first has a whole conversation.
    turns = [HumanMemory(id=f"turn-{at:02d}", content=f"turn {at}", metadata=SHARED) for at in range(TURNS)]
    there = {item.id async for item in store.scan(metadata=SHARED)}
    if not there:
        with contextlib.suppress(VersionConflictError):  # Another process was first.
            await store.update_many(turns)
    try:
        return (await compact(store, SHARED, CONFIG, Model())).compacted
    except VersionConflictError:
        return False


async def work(url: str, number: int) -> dict[str, Any]:
    mine, leaving = MemoryMetadata(user_id=f"user-{number}"), MemoryMetadata(user_id=f"leaving-{number}")
    async with memoranda.open(url) as store:
        await asyncio.gather(
            *(store.add(HumanMemory(id=f"{number}-{at}", content="kept", metadata=mine)) for at in range(ITEMS))
        )
        await store.add_many([HumanMemory(content="secret", metadata=leaving) for _ in range(ITEMS)])
        for _ in range(RAISES):
            await raise_counter(store)
        did = await compacted(store)
        purged = await store.purge(metadata=leaving)
        return {"compacted": did, "purged": purged, "kept": await store.count(metadata=mine)}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(number: int) -> None:
    say("ready")
    for line in sys.stdin:
        try:
            say(json.dumps(asyncio.run(work(line.strip(), number))))
        except Exception as error:  # noqa: BLE001  # any at all is what the test looks for
            say(json.dumps({"error": f"{type(error).__name__}: {error}"}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
