"""Compare the PostgreSQL store with hand-written asyncpg on a minimal table, with every commit on disk.

python bench/postgres.py [--items 100000] [--url URL] [--system]

The baselines return plain records, memoranda returns validated items. They use a pool without its reset query, prepared
statements, prebuilt rows, seven columns and three indexes. Their table has no word index, no order by time and no
check of owners. The server comes from the wheel, with ``--system`` from the system, or from ``--url``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg
from harness import Line, growth, interleaved, line, report

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda_backend.sql import pack
from memoranda_postgres import PostgresMemoryStore
from servers import fresh_database, postgres_server, system_postgres_server

WRITTEN = ("id", "session_id", "user_id", "memory_type", "content", "created_at", "extra")
COLUMNS = ", ".join(WRITTEN)
LEAN = """
CREATE TABLE lean (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id TEXT NOT NULL UNIQUE, session_id TEXT, user_id TEXT,
    memory_type TEXT NOT NULL, content TEXT NOT NULL, created_at TEXT NOT NULL, extra TEXT,
    deleted BOOLEAN NOT NULL DEFAULT false
);
CREATE INDEX lean_session ON lean (session_id, number) WHERE NOT deleted;
"""
GET = f"SELECT {COLUMNS} FROM lean WHERE id = $1 AND NOT deleted"
LAST = f"SELECT {COLUMNS} FROM lean WHERE session_id = $1 AND NOT deleted ORDER BY number DESC LIMIT 20"
REPLACE = "ON CONFLICT (id) DO UPDATE SET content = excluded.content, extra = excluded.extra, deleted = false"
INSERT = f"INSERT INTO lean ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7) {REPLACE}"
TABLES = ("memory_items", "lean")
TOGETHER = 16
DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "shared_buffers": "256MB"}

random.seed(7)
VOCABULARY = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(5_000)]


def made(number: int) -> MemoryItem:
    """Return an item of about a hundred characters in one of many sessions of forty turns."""
    return HumanMemory(
        content=" ".join(random.choices(VOCABULARY, k=random.randint(8, 24))),
        metadata=MemoryMetadata(user_id=f"u{number // 40 % 97}", session_id=f"s{number // 40}"),
    )


def record(item: MemoryItem) -> tuple[Any, ...]:
    """Return the values that the floor writes."""
    metadata, row = item.metadata, pack(item)
    extra = None if row.extra_json == "{}" else row.extra_json
    return row.id, metadata.session_id, metadata.user_id, row.memory_type, row.content, row.created_at, extra


def scope_of(item: MemoryItem) -> MemoryMetadata:
    """Return the user and session of an item, as a filter."""
    return MemoryMetadata(user_id=item.metadata.user_id, session_id=item.metadata.session_id)


@contextlib.contextmanager
def database(options: argparse.Namespace) -> Iterator[str]:
    """Give the URL of an empty database on a server that keeps what it commits."""
    if options.url:
        with fresh_database(options.url) as url:
            yield url
        return
    server = system_postgres_server(settings=DURABLE) if options.system else postgres_server(settings=DURABLE)
    assert server is not None, "There is no system PostgreSQL here."
    with server, server.database() as url:
        yield url


async def no_reset(connection: Any) -> None:
    """Leave the connection as it is: nothing here changes its settings."""


@contextlib.asynccontextmanager
async def floor_pool(url: str) -> AsyncIterator[Any]:
    """Open the floor's pool: as large as there are coroutines, and without the reset query."""
    async with asyncpg.create_pool(url, min_size=1, max_size=TOGETHER, reset=no_reset) as pool:
        yield pool


async def empty(pool: Any) -> None:
    """Start a measurement of writing from the same state."""
    async with pool.acquire() as connection:
        await connection.execute(f"TRUNCATE {', '.join(TABLES)}")
        await connection.execute(f"VACUUM ANALYZE {', '.join(TABLES)}")


async def filled(store: PostgresMemoryStore, pool: Any, count: int) -> list[MemoryItem]:
    """Put this many items into the empty tables."""
    await empty(pool)
    items = [made(number) for number in range(count)]
    for start in range(0, count, 10_000):
        await store.add_many(items[start : start + 10_000])
    async with pool.acquire() as connection:
        await connection.copy_records_to_table("lean", records=map(record, items), columns=WRITTEN)
        await connection.execute(f"VACUUM ANALYZE {', '.join(TABLES)}", timeout=600)
    return items


async def sizes(pool: Any, count: int) -> None:
    """Print how many bytes an item takes, with its indexes."""
    async with pool.acquire() as connection:
        ours, floor = [
            await connection.fetchval("SELECT pg_total_relation_size($1::regclass)", table) for table in TABLES
        ]
    print(f"\nBytes an item: {ours / count:,.0f}, floor {floor / count:,.0f}")


async def reading(store: PostgresMemoryStore, pool: Any, items: list[MemoryItem]) -> list[Line]:
    """Read one item, and the last twenty of a session."""
    chosen = random.sample(items, 500)
    ours, theirs = iter(chosen * 200), iter(chosen * 200)
    scopes = iter([scope_of(item) for item in chosen] * 200)

    async def floor_get() -> Any:
        async with pool.acquire() as connection:
            return await connection.fetchrow(GET, next(theirs).id)

    async def floor_last() -> Any:
        scope = next(theirs).metadata
        async with pool.acquire() as connection:
            return await connection.fetch(LAST, scope.session_id)

    gets = await interleaved({"memoranda": lambda: store.get(next(ours).id), "floor": floor_get}, rounds=11, calls=300)
    lasts = await interleaved(
        {"memoranda": lambda: store.search(metadata=next(scopes), limit=20), "floor": floor_last},
        rounds=11,
        calls=200,
    )
    return [line("get", gets, goal=">= 0.8x"), line("last 20 of a session", lasts, goal=">= 0.8x")]


async def together(add: Callable[[], Awaitable[None]]) -> None:
    """Add twelve items from each of sixteen coroutines at once."""

    async def some() -> None:
        for _ in range(12):
            await add()

    await asyncio.gather(*(some() for _ in range(TOGETHER)))


async def adding(store: PostgresMemoryStore, pool: Any) -> list[Line]:
    """Add one by one, and from sixteen coroutines at once; of the latter, also the client's processor time."""
    await empty(pool)
    fresh = iter([made(number) for number in range(8_000)])
    prepared = iter([record(made(number)) for number in range(8_000)])

    async def floor_add() -> None:
        async with pool.acquire() as connection:
            await connection.execute(INSERT, *next(prepared))

    async def our_add() -> None:
        await store.add(next(fresh))

    alone = await interleaved({"memoranda": our_add, "floor": floor_add}, rounds=9, calls=100)
    contenders = {"memoranda": lambda: together(our_add), "floor": lambda: together(floor_add)}
    gathered = await interleaved(contenders, rounds=9)
    processor = await interleaved(contenders, rounds=9, clock=time.process_time)
    return [
        line("add, one by one", alone, goal=">= 0.9x"),
        line(f"add, {TOGETHER} coroutines, 192 items", gathered, goal=">= 2x"),
        line("the same, processor time of the client", processor, goal=">= 2x"),
    ]


async def substring_index(url: str) -> list[Line]:
    """Show what the index for substring search costs adds: the baseline is memoranda without it."""
    async with (
        PostgresMemoryStore(url, max_size=TOGETHER, schema="indexed") as indexed,
        PostgresMemoryStore(url, max_size=TOGETHER, schema="bare") as bare,
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
    ):
        await pool.execute("DROP INDEX IF EXISTS bare.memory_items_substring")
        fresh = iter([made(number) for number in range(8_000)])
        contenders = {
            "memoranda": lambda: together(lambda: indexed.add(next(fresh))),
            "floor": lambda: together(lambda: bare.add(next(fresh))),
        }
        times = await interleaved(contenders, rounds=15)
        return [line(f"add, {TOGETHER} coroutines, 192 items, against none", times)]


async def bulk(store: PostgresMemoryStore, pool: Any) -> list[Line]:
    """Add ten thousand items; the floor copies rows that are ready."""
    batches = iter([[made(number) for number in range(10_000)] for _ in range(12)])
    ready = iter([[record(made(number)) for number in range(10_000)] for _ in range(12)])

    async def floor_copy() -> None:
        async with pool.acquire() as connection:
            await connection.copy_records_to_table("lean", records=next(ready), columns=WRITTEN)

    await empty(pool)
    times = await interleaved({"memoranda": lambda: store.add_many(next(batches)), "floor": floor_copy}, rounds=5)
    return [line("add_many of 10,000, against COPY", times, goal=">= 0.45x")]


async def mixed(store: PostgresMemoryStore, pool: Any, items: list[MemoryItem]) -> list[Line]:
    """Read and write at once: 30% add, 20% get, 50% last twenty, from sixteen coroutines."""
    plan = random.choices(("add", "get", "last"), weights=(30, 20, 50), k=TOGETHER * 20)
    prepared = iter([record(made(number)) for number in range(4_000)])
    fresh = iter([made(number) for number in range(4_000)])

    async def ours(kind: str) -> None:
        if kind == "add":
            await store.add(next(fresh))
        elif kind == "get":
            await store.get(random.choice(items).id)
        else:
            await store.search(metadata=scope_of(random.choice(items)), limit=20)

    async def theirs(kind: str) -> None:
        async with pool.acquire() as connection:
            if kind == "add":
                await connection.execute(INSERT, *next(prepared))
            elif kind == "get":
                await connection.fetchrow(GET, random.choice(items).id)
            else:
                scope = random.choice(items).metadata
                await connection.fetch(LAST, scope.session_id)

    async def load(call: Callable[[str], Awaitable[None]]) -> None:
        async def worker(number: int) -> None:
            for kind in plan[number::TOGETHER]:
                await call(kind)

        await asyncio.gather(*map(worker, range(TOGETHER)))

    times = await interleaved({"memoranda": lambda: load(ours), "floor": lambda: load(theirs)}, rounds=9)
    return [line(f"mixed load, {len(plan)} calls of {TOGETHER} coroutines", times, goal=">= 0.6x")]


async def growing(store: PostgresMemoryStore, pool: Any, sizes: list[int]) -> dict[int, float]:
    """Return what the last twenty of a session take, in seconds, with so many items in the table."""
    found = {}
    for size in sizes:
        items = await filled(store, pool, size)
        chosen = iter(random.sample(items, 300) * 4)
        times = []
        for _ in range(600):
            scope = scope_of(next(chosen))
            start = time.perf_counter()
            await store.search(metadata=scope, limit=20)
            times.append(time.perf_counter() - start)
        found[size] = statistics.median(times)
    return found


async def main(options: argparse.Namespace) -> None:
    with database(options) as url:
        async with PostgresMemoryStore(url, max_size=TOGETHER) as store, floor_pool(url) as pool:
            await pool.execute(LEAN)
            items = await filled(store, pool, options.items)
            await sizes(pool, options.items)
            report(f"Reading, {options.items:,} items", await reading(store, pool, items))
            report(f"Mixed load, {options.items:,} items", await mixed(store, pool, items))
            report("Adding", await adding(store, pool))
            report("The index for substring search", await substring_index(url))
            report("Bulk", await bulk(store, pool))
            times = await growing(store, pool, [1_000, 10_000, options.items])
            print("\nLast 20 of a session, by the number of items in the table")
            for size, seconds in times.items():
                print(f"{size:>9,}  {seconds * 1e6:>9.1f} µs")
            print(f"exponent {growth(list(times), list(times.values())):.2f}, goal <= 0.1")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--url")
    parser.add_argument("--system", action="store_true")
    asyncio.run(main(parser.parse_args()))
