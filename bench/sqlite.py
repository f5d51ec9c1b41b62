"""Compare the SQLite store with aiosqlite and bare sqlite3 on a minimal table.

python bench/sqlite.py [--items 100000] [--million]

The baselines use their own table with only the columns that these queries need, at the same durability. They return
plain rows, memoranda returns validated items. ``--million`` adds a file of a million items to the table about the last
twenty items of a session. ``bench/retrieval.py`` measures what ranked search finds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
from harness import Line, growth, interleaved, line, report

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda_sqlite import SQLiteMemoryStore

LEAN = """
CREATE TABLE turns (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    user TEXT,
    session TEXT,
    kind TEXT NOT NULL,
    content TEXT NOT NULL,
    created TEXT NOT NULL,
    further TEXT,
    deleted INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX turns_by_id ON turns (id);
CREATE INDEX turns_of_session ON turns (session, number) WHERE deleted = 0;
"""
TRIGRAMS = """
CREATE VIRTUAL TABLE turns_trigrams USING fts5(content, content='', tokenize='trigram', detail=none, columnsize=0);
INSERT INTO turns_trigrams (rowid, content) SELECT number, content FROM turns;
"""
COLUMNS = "id, user, session, kind, content, created, further"
GET = f"SELECT {COLUMNS} FROM turns WHERE id = ? AND deleted = 0"
LAST = f"SELECT {COLUMNS} FROM turns WHERE session = ? AND deleted = 0 ORDER BY number DESC LIMIT 20"
LIKE = f"SELECT {COLUMNS} FROM turns WHERE deleted = 0 AND content LIKE ? ORDER BY number DESC LIMIT 10"
MATCH = (
    f"SELECT {COLUMNS} FROM turns WHERE number IN (SELECT rowid FROM turns_trigrams WHERE turns_trigrams MATCH ?) "
    f"AND deleted = 0 AND content LIKE ? ORDER BY number DESC LIMIT 10"
)
INSERT = (
    f"INSERT INTO turns ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) "
    f"ON CONFLICT (id) DO UPDATE SET content = excluded.content, further = excluded.further, deleted = 0"
)
TOGETHER = 8

random.seed(7)
VOCABULARY = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(5_000)]


def made(number: int) -> MemoryItem:
    """Return an item of about a hundred characters in one of many sessions of forty turns."""
    return HumanMemory(
        content=" ".join(random.choices(VOCABULARY, k=random.randint(8, 24))) + (" tea" if number % 5 == 0 else ""),
        metadata=MemoryMetadata(user_id=f"u{number // 40 % 97}", session_id=f"s{number // 40}"),
    )


def scope_of(item: MemoryItem) -> MemoryMetadata:
    """Return the user and session of an item, as a filter."""
    return MemoryMetadata(user_id=item.metadata.user_id, session_id=item.metadata.session_id)


def row_of(item: MemoryItem) -> tuple[Any, ...]:
    """Return what the floors bind."""
    scope = item.metadata
    return item.id, scope.user_id, scope.session_id, item.memory_type, item.content, item.created_at, None


def trigrams(text: str) -> str:
    """Return the query for rows that have every three letters of a text."""
    return " AND ".join(f'"{text[at : at + 3]}"' for at in range(len(text) - 2))


def bare(path: Path) -> sqlite3.Connection:
    """Open the lean table as a careful program would: a write-ahead log and a sync at each commit."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -65536")
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'turns'").fetchone():
        connection.executescript(LEAN)
    return connection


def stored(connection: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Store many rows at once."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(INSERT, rows)
    connection.execute("COMMIT")


def lean_copy(path: Path, items: Sequence[MemoryItem]) -> Path:
    """Make a lean file of the same items beside memoranda's."""
    lean = path.with_name(f"lean-{path.name}")
    connection = bare(lean)
    stored(connection, [row_of(item) for item in items])
    connection.close()
    return lean


async def filled(folder: Path, count: int) -> tuple[Path, list[MemoryItem]]:
    """Make a file with this many items and full indexes."""
    path = folder / f"filled-{count}.db"
    async with SQLiteMemoryStore(path) as store:
        items: list[MemoryItem] = []
        for start in range(0, count, 50_000):
            part = [made(number) for number in range(start, min(start + 50_000, count))]
            await store.add_many(part)
            items += part
        await store.fill_indexes()
    return path, items


async def reads(path: Path, lean: Path, items: Sequence[MemoryItem]) -> list[Line]:
    """Get by id, and the last twenty of a session."""
    connection = bare(lean)
    chosen = random.sample(items, 500)
    turn = iter(chosen * 1_000)
    async with SQLiteMemoryStore(path) as store, aiosqlite.connect(lean, isolation_level=None) as by_hand:
        gets = await interleaved(
            {
                "memoranda": lambda: store.get(next(turn).id),
                "aiosqlite": lambda: by_hand.execute_fetchall(GET, (next(turn).id,)),
                "sqlite3": lambda: connection.execute(GET, (next(turn).id,)).fetchall(),
            },
            calls=500,
        )

        def session() -> tuple[str | None]:
            return (next(turn).metadata.session_id,)

        lasts = await interleaved(
            {
                "memoranda": lambda: store.search(metadata=scope_of(next(turn)), limit=20),
                "aiosqlite": lambda: by_hand.execute_fetchall(LAST, session()),
                "sqlite3": lambda: connection.execute(LAST, session()).fetchall(),
            },
            calls=300,
        )
    connection.close()
    return [
        line("get / aiosqlite", gets, floor="aiosqlite", goal=">= 0.8x"),
        line("get / sqlite3", gets, floor="sqlite3", goal="stretch 0.5x"),
        line("last 20 of a session / aiosqlite", lasts, floor="aiosqlite", goal=">= 0.8x"),
        line("last 20 of a session / sqlite3", lasts, floor="sqlite3", goal=">= 0.5x"),
    ]


async def adds(folder: Path, count: int = 400) -> list[Line]:
    """One by one, and eight coroutines together; each floor commits every add."""
    paths = [folder / f"adds-{name}.db" for name in ("memoranda", "aiosqlite", "sqlite3", "together")]
    bare(paths[1]).close()
    connection = bare(paths[2])
    async with (
        SQLiteMemoryStore(paths[0]) as store,
        SQLiteMemoryStore(paths[3]) as shared,
        aiosqlite.connect(paths[1], isolation_level=None) as by_hand,
    ):
        await by_hand.execute("PRAGMA synchronous = FULL")
        fresh = iter([made(number) for number in range(count * 40)])

        async def one_by_one() -> None:
            for _ in range(count):
                await store.add(next(fresh))

        async def hand_written() -> None:
            for _ in range(count):
                await by_hand.execute_fetchall(INSERT, row_of(next(fresh)))

        def plain() -> None:
            for _ in range(count):
                connection.execute(INSERT, row_of(next(fresh)))

        async def some() -> None:
            for _ in range(count // TOGETHER):
                await shared.add(next(fresh))

        async def together() -> None:
            await asyncio.gather(*(some() for _ in range(TOGETHER)))

        times = await interleaved(
            {"memoranda": one_by_one, "aiosqlite": hand_written, "sqlite3": plain, "together": together}, rounds=7
        )
    connection.close()
    for measured in times.values():
        measured.times[:] = [elapsed / count for elapsed in measured.times]
    return [
        line("add, one by one / aiosqlite", times, floor="aiosqlite", goal=">= 0.8x"),
        line("add, one by one / sqlite3", times, floor="sqlite3", goal=">= 0.7x"),
        line(f"add, {TOGETHER} coroutines / sqlite3", times, ours="together", floor="sqlite3", goal=">= 1.8x"),
    ]


async def many(folder: Path, count: int) -> list[Line]:
    """Add many at once, and wait until the text indexes are full; the floor has no text index to fill."""
    times: dict[str, list[float]] = {"memoranda": [], "filled": [], "floor": []}
    for turn in range(3):
        items = [made(number) for number in range(count)]
        connection = bare(folder / f"many-{turn}.db")
        rows = [row_of(item) for item in items]
        started = time.perf_counter()
        stored(connection, rows)
        times["floor"].append(time.perf_counter() - started)
        connection.close()
        async with SQLiteMemoryStore(folder / f"many-ours-{turn}.db") as store:
            started = time.perf_counter()
            await store.add_many(items)
            times["memoranda"].append(time.perf_counter() - started)
            await store.fill_indexes()
            times["filled"].append(time.perf_counter() - started)
    ours, full, floor = (min(times[name]) / count * 1e6 for name in ("memoranda", "filled", "floor"))
    return [
        Line(f"add_many of {count:,} / sqlite3", ours, floor, ">= 0.3x"),
        Line("the same, until the indexes are full", full, floor),
        await size_of_an_item(folder, items),
    ]


async def size_of_an_item(folder: Path, items: Sequence[MemoryItem]) -> Line:
    """Compare the bytes on the disk before the text indexes are filled."""
    path = folder / "size.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add_many(items)
    ours, floor = (file.stat().st_size / len(items) for file in (path, lean_copy(path, items)))
    return Line("size of an item, without text indexes", ours, floor, ">= 0.64x", unit="B")


async def mixed(path: Path, lean: Path, items: Sequence[MemoryItem], calls: int = 2_000) -> list[Line]:
    """30% add, 20% get, 50% last twenty, by eight coroutines; the floor does the same calls one after the other."""
    connection = bare(lean)
    known = random.sample(items, 500)

    def plan() -> list[tuple[str, MemoryItem]]:
        kinds = random.choices(("add", "get", "last"), weights=(30, 20, 50), k=calls)
        return [(kind, made(number) if kind == "add" else random.choice(known)) for number, kind in enumerate(kinds)]

    plans = iter([plan() for _ in range(30)])
    async with SQLiteMemoryStore(path) as store:

        async def some(part: Sequence[tuple[str, MemoryItem]]) -> None:
            for kind, item in part:
                if kind == "add":
                    await store.add(item)
                elif kind == "get":
                    await store.get(item.id)
                else:
                    await store.search(metadata=scope_of(item), limit=20)

        async def ours() -> None:
            todo = next(plans)
            await asyncio.gather(*(some(todo[start::TOGETHER]) for start in range(TOGETHER)))

        def floor() -> None:
            for kind, item in next(plans):
                if kind == "add":
                    connection.execute(INSERT, row_of(item))
                elif kind == "get":
                    connection.execute(GET, (item.id,)).fetchall()
                else:
                    connection.execute(LAST, (item.metadata.session_id,)).fetchall()

        times = await interleaved({"memoranda": ours, "floor": floor}, rounds=7)
    connection.close()
    for measured in times.values():
        measured.times[:] = [elapsed / calls for elapsed in measured.times]
    return [line(f"mixed load, {TOGETHER} coroutines / sqlite3", times, goal=">= 0.6x")]


async def substrings(path: Path, lean: Path, items: Sequence[MemoryItem]) -> list[Line]:
    """Rare text (in one item) and common text (in every fifth), against LIKE and against a table of trigrams."""
    connection = bare(lean)
    rare = items[len(items) // 3].content[5:25]
    like = {"floor": lambda: connection.execute(LIKE, (f"%{rare}%",)).fetchall()}
    waiting = await unfilled(path.with_name("unfilled.db"), items, rare, like)
    connection.executescript(TRIGRAMS)
    async with SQLiteMemoryStore(path) as store:
        ours: dict[str, Callable[[], Any]] = {"memoranda": lambda: store.search(query=rare)}
        match = {"floor": lambda: connection.execute(MATCH, (trigrams(rare), f"%{rare}%")).fetchall()}
        rare_times = await interleaved(ours | match, rounds=9, calls=20)
        common_times = await interleaved(
            {
                "memoranda": lambda: store.search(query=" tea"),
                "floor": lambda: connection.execute(LIKE, ("% tea%",)).fetchall(),
            },
            rounds=9,
            calls=50,
        )
    connection.execute("DROP TABLE turns_trigrams")
    connection.close()
    return [
        line(f"rare substring over {len(items):,} / trigrams", rare_times, goal=">= 0.5x"),
        waiting,
        line("common substring / LIKE", common_times, goal=">= 0.5x"),
    ]


async def unfilled(path: Path, items: Sequence[MemoryItem], rare: str, floor: dict[str, Callable[[], Any]]) -> Line:
    """Rare text while no row is in the text index: a reader that may not write leaves them out of it."""
    async with SQLiteMemoryStore(path) as store:
        await store.add_many(items)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        ((indexed,),) = connection.execute("SELECT value FROM memoranda_meta WHERE key = 'indexed'")
    store = SQLiteMemoryStore(path)
    store.access = "read"
    async with store:
        contenders: dict[str, Callable[[], Any]] = {"memoranda": lambda: store.search(query=rare)}
        times = await interleaved(contenders | floor, rounds=7, calls=3)
    return line(f"the same, {len(items) - indexed:,} not in the index yet / LIKE", times, goal=">= 0.75x")


async def last_of_any(store: SQLiteMemoryStore, turn: Iterator[MemoryItem]) -> None:
    """Read the last twenty of the next item's session."""
    await store.search(metadata=scope_of(next(turn)), limit=20)


async def last_twenty(folder: Path, sizes: Sequence[int]) -> None:
    """Print how the last twenty of a session grow with the number of items in the file."""
    print("\nlast 20 of a session, as the file grows")
    seconds = []
    for size in sizes:
        path, items = await filled(folder, size)
        async with SQLiteMemoryStore(path) as store:
            times = await interleaved(
                {"memoranda": partial(last_of_any, store, iter(random.choices(items, k=10_000)))}, calls=500
            )
        seconds.append(times["memoranda"].median)
        print(f"{size:>12,} items  {seconds[-1] * 1e6:>8.1f} µs")
    judged = [size for size in sizes if size <= 100_000]
    print(f"exponent from 1,000 to 100,000: {growth(judged, seconds[: len(judged)]):.3f} (goal <= 0.1)")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--million", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, items = await filled(folder, options.items)
        lean = lean_copy(path, items)
        lines = await reads(path, lean, items)
        lines += await substrings(path, lean, items)
        lines += await adds(folder)
        lines += await mixed(path, lean, items)
        lines += await many(folder, options.items)
        report("SQLite, as a part of each lean floor", lines)
        await last_twenty(folder, [1_000, 10_000, 100_000, *([1_000_000] if options.million else [])])


if __name__ == "__main__":
    asyncio.run(main())
