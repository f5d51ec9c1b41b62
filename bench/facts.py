"""Facts in memory, on SQLite and on PostgreSQL: reading what holds, and writing a change.

python bench/facts.py [--items 1000] [--others 100000]

One user has ``--items`` facts beside a growing number of other users' facts, up to ``--others``. ``current()`` is
measured in milliseconds. ``set`` is compared with an ``add`` of the same store, of the same user: on a slot that this
object has written before, and on a new one.

The last lines are about the rules: of the changes in ``corpora/changes``, the share after which not only the current
value holds, and the share of values that end by mistake. ``kept_away.txt`` was not looked at while rules were made.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from harness import Line, growth, interleaved, line, report

import memoranda
from facts_kit.staleness import read_changes, staleness
from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda_facts import Facts, Predicate, Record, Schema
from memoranda_facts.extraction import RuleExtractor
from memoranda_facts.records import Slot, item_of
from servers import postgres_server

GOALS = {"memory": 3.0, "sqlite": 10.0, "postgresql": 10.0}
"""Milliseconds in which 1,000 facts are to be read."""

CHANGES = Path(__file__).parent / "corpora" / "changes"
BATCH = 5_000
SCHEMA = Schema([Predicate("lives_in", "one"), Predicate("likes")])
TIME = "2026-01-01T00:00:00.000000+00:00"


async def fill(store: Store, first: int, last: int, each: int) -> None:
    """Add the facts of other users, ``each`` to a user, as the items that set() writes."""
    for start in range(first, last, BATCH):
        items = []
        for number in range(start, min(start + BATCH, last)):
            owner = MemoryMetadata(user_id=f"user{number // each}")
            slot = Slot.of(owner, f"Person {number % each}", "likes", store.derived_id)
            record = Record("", 1, f"c{number}", "set", slot.subject, "likes", TIME, f"thing {number}", TIME)
            items.append(item_of(replace(record, id=slot.entry_id(1)), slot))
        await store.add_many(items)


async def measured(name: str, store: Store, items: int, others: int) -> list[Line]:
    """Return the lines of one store."""
    handle = store.scoped(user_id="ada")
    facts = Facts(handle, schema=SCHEMA)
    for number in range(items):
        await facts.set(f"Person {number}", "likes", f"thing {number}", sources="manual")
    numbers = itertools.count()

    async def add() -> None:
        await handle.add(HumanMemory(content=f"Person {next(numbers)} likes another thing"))

    async def set_again() -> None:
        await facts.set("Ada", "likes", f"thing {next(numbers) % 10}", sources="manual")

    async def set_new() -> None:
        await facts.set(f"Someone {next(numbers)}", "likes", "a thing", sources="manual")

    sizes = [size for size in (others // 100, others // 10, others) if size]
    reading, filled = [], 0
    for size in sizes:
        await fill(store, filled, size, items)
        filled = size
        times = await interleaved({"current": facts.current}, rounds=15)
        reading.append(times["current"].median)
    # The log of one slot grows with each change, so that the changes are few.
    writing = await interleaved({"floor": add, "again": set_again, "new": set_new}, rounds=9, calls=5)
    grown = growth(sizes, reading) if len(sizes) > 1 else 0.0
    best, goal = 1e3 * min(reading), GOALS[name]
    return [
        Line(f"{name}: current() of {items:,} facts, against {goal:g} ms", best, goal, ">= 1.0x", "ms"),
        Line(f"{name}: growth with {others:,} facts of others, by exponent", max(grown, 0.01), 0.1, "<= 0.1", ""),
        line(f"{name}: set in a slot that was written before, against add", writing, ours="again", goal=">= 0.5x"),
        line(f"{name}: set in a new slot, against add", writing, ours="new", goal=">= 0.5x"),
    ]


async def kept_up() -> list[Line]:
    """Return how well the rules keep up with what people say has changed."""
    lines = []
    for half in ("developed", "kept_away"):
        found = await staleness(read_changes(CHANGES / f"{half}.txt"), RuleExtractor())
        stale, wrong = 100 * (1 - found.current_share), 100 * found.wrong_share
        lines.append(Line(f"rules, {half}: changes that leave an old value", max(stale, 0.01), 15, ">= 1.0x", "%"))
        lines.append(Line(f"rules, {half}: values that end by mistake", max(wrong, 0.01), 2, ">= 1.0x", "%"))
    return lines


@contextmanager
def urls() -> Iterator[dict[str, str]]:
    """Yield a store of each kind, for as long as it is measured."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        database = stack.enter_context(stack.enter_context(postgres_server()).database())
        yield {"memory": "memory://", "sqlite": f"sqlite:///{folder}/facts.db", "postgresql": database}


async def main(options: argparse.Namespace) -> None:
    lines: list[Line] = []
    with urls() as stores:
        for name, url in stores.items():
            async with memoranda.open(url) as store:
                lines += await measured(name, store, options.items, options.others)
    lines += await kept_up()
    report("Facts", lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--others", type=int, default=100_000)
    asyncio.run(main(parser.parse_args()))
