"""What spaces cost in processor time: recall over a scope and three spaces, and over a scope alone with grants about.

python bench/spaces.py
"""

from __future__ import annotations

import itertools
import random
import tempfile
import time
from pathlib import Path

from harness import Line, interleaved, line, report, run

from memoranda import HumanMemory, MemoryItem
from memoranda.store import InMemoryStore, Store
from memoranda_spaces import Grants, user
from memoranda_sqlite import SQLiteMemoryStore

ITEMS = 1_000
SPACES = ("acme", "beta", "gamma")
WORDS = [f"word{number}" for number in range(400)]


def notes(chance: random.Random, number: int) -> list[MemoryItem]:
    return [HumanMemory(content=" ".join(chance.choices(WORDS, k=12))) for _ in range(number)]


async def measured(store: Store, name: str, calls: int) -> list[Line]:
    chance = random.Random(1)
    alone, large = store.scoped(user_id="alone"), store.scoped(user_id="large")
    await alone.add_many(notes(chance, ITEMS))
    await large.add_many(notes(chance, (1 + len(SPACES)) * ITEMS))
    writer, grants = store.scoped(user_id="writer"), Grants(store)
    for space in SPACES:
        await grants.give(space, to=user("writer"), may="write", by="bench")
        await grants.give(space, to=user("ada"), by="bench")
        await writer.add_many(notes(chance, ITEMS), space=space)
    ada = store.scoped(user_id="ada", spaces="granted")
    await ada.add_many(notes(chance, ITEMS))
    questions = itertools.cycle([" ".join(chance.choices(WORDS, k=4)) for _ in range(50)])
    recalls = await interleaved(
        {
            "alone": lambda: alone.recall(next(questions)),
            "large": lambda: large.recall(next(questions)),
            "spaces": lambda: ada.recall(next(questions)),
            "own": lambda: ada.own.recall(next(questions)),
        },
        rounds=15,
        calls=calls,
        clock=time.process_time,
    )
    recall = f"{name}: recall over a scope and three spaces of {ITEMS:,} items"
    return [
        line(f"{recall} / a scope of {ITEMS:,}", recalls, ours="spaces", floor="alone", goal="0.40"),
        line(f"{recall} / a scope of {4 * ITEMS:,}", recalls, ours="spaces", floor="large"),
        line(f"{name}: recall without spaces= beside grants / before", recalls, ours="own", floor="alone", goal="0.97"),
    ]


async def main() -> None:
    report("Spaces in memory", await measured(InMemoryStore(), "memory", 8))
    with tempfile.TemporaryDirectory() as folder:
        async with SQLiteMemoryStore(Path(folder) / "memories.db") as store:
            report("Spaces on SQLite", await measured(store, "SQLite", 8))


if __name__ == "__main__":
    run(main)
