"""What each call costs on a table of many items that is divided by user, and on one that is not.

python bench/partitions.py [--items 200000] [--partitions 16] [--only partitioned]

Ten million items take 15 gigabytes and half an hour, most of it for the index of trigrams: ask for them with ``--items
10000000``. A few users are written through the store; the others are copies of them that the server makes itself, with
the indexes built in the end. The floor is the same call in turns on a second table with these few users only, so that
the ratio says what the size of the table costs; ``--only`` leaves one of the two kinds of tables out.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from harness import Line, interleaved, line, report

from memoranda import HumanMemory, MemoryMetadata
from memoranda_postgres import PostgresMemoryStore
from servers import fresh_database, postgres_server

USERS, ITEMS_OF_EACH, SESSIONS = 200, 50, 5
TOGETHER = 20
SETTINGS = {
    "shared_buffers": "1GB",
    "maintenance_work_mem": "3GB",
    "max_wal_size": "16GB",
    "work_mem": "64MB",
    # This server has no replica, so an index is built without a copy of it in the log, and by all cores.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_parallel_maintenance_workers": "1",
    "autovacuum": "off",
}
TABLES = {"one table": 0, "partitioned": 16}

random.seed(11)
WORDS = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(3, 9))) for _ in range(5_000)]


def made(user: int, number: int) -> HumanMemory:
    """Return an item of about a hundred characters."""
    scope = MemoryMetadata(user_id=f"u{user}-0", session_id=f"u{user}-0.{number % SESSIONS}")
    text = " ".join(random.choices(WORDS, k=random.randint(8, 20)))
    return HumanMemory(id=f"u{user}.{number}-0", content=text, metadata=scope)


async def fill(store: PostgresMemoryStore) -> None:
    """Write the users that the others are copied from."""
    for user in range(USERS):
        await store.add_many([made(user, number) for number in range(ITEMS_OF_EACH)])


async def multiply(url: str, copies: int, *, partitioned: bool) -> None:
    """Have the server copy every user so many times, under names of their own."""
    connection = await asyncpg.connect(url, command_timeout=24 * 3600)
    try:
        indexes = await connection.fetch(
            "SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS text FROM pg_index "
            "WHERE indrelid = 'memory_items'::regclass AND NOT indisprimary"
        )
        for index in indexes:
            await connection.execute(f"DROP INDEX {index['name']}")
        changed = {
            "id": "replace(id, '-0', '-' || copy)",
            "user_id": "replace(user_id, '-0', '-' || copy)",
            "session_id": "replace(session_id, '-0.', '-' || copy || '.')",
            "owner": "replace(owner, '-0', '-' || copy)",
            "metadata": "jsonb_set(jsonb_set(metadata, '{user_id}', to_jsonb(replace(user_id, '-0', '-' || copy))), "
            "'{session_id}', to_jsonb(replace(session_id, '-0.', '-' || copy || '.')))",
            "added": "nextval('memory_items_added')",
            # The number of the new user beside that of the old one, as memoranda_postgres.rows makes it.
            "term_keys": "array_append(term_keys, "
            "(~(crc32(convert_to(replace(user_id, '-0', '-' || copy), 'UTF8')) & 2147483647))::integer)",
        }
        rows = await connection.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'memory_items'::regclass AND attnum > 0 "
            "AND NOT attisdropped AND attgenerated = ''"
        )
        names = [row["attname"] for row in rows]
        columns = ", ".join(changed.get(name, name) for name in names)
        started = time.perf_counter()
        await connection.execute("CREATE TEMPORARY TABLE originals AS SELECT * FROM memory_items")
        for first in range(1, copies, TOGETHER):
            last = min(first + TOGETHER, copies) - 1
            given = f"(SELECT number::text AS copy FROM generate_series({first}, {last}) AS number) AS numbered"
            if partitioned:
                await connection.execute(
                    f"INSERT INTO memory_ids SELECT {changed['id']}, {changed['owner']} FROM originals, {given}"
                )
            await connection.execute(
                f"INSERT INTO memory_items ({', '.join(names)}) SELECT {columns} FROM originals, {given}"
            )
        print(f"after {time.perf_counter() - started:.0f} s: the rows are there", flush=True)
        for index in indexes:
            # That of a divided table is shown as one of the empty parent alone.
            await connection.execute(index["text"].replace(" ON ONLY ", " ON ", 1))
            print(f"after {time.perf_counter() - started:.0f} s: {index['name']} is built", flush=True)
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


def calls(store: PostgresMemoryStore, copies: int) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Return the calls to time, each about a user and items drawn anew."""

    def place() -> tuple[int, int]:
        return random.randrange(USERS), random.randrange(copies)

    def scope() -> MemoryMetadata:
        user, copy = place()
        return MemoryMetadata(user_id=f"u{user}-{copy}")

    async def add_and_purge() -> None:
        user = scope()
        item = HumanMemory(content="a new turn", metadata=user)
        await store.add(item)
        await store.purge(item.id)

    async def add_many() -> None:
        user = MemoryMetadata(user_id=f"leaving-{random.random()}")
        await store.add_many([HumanMemory(content="a new turn", metadata=user) for _ in range(50)])
        await store.purge(metadata=user)

    async def get() -> None:
        user, copy = place()
        assert await store.get(f"u{user}.7-{copy}") is not None

    async def session() -> None:
        user, copy = place()
        found = await store.search(metadata=MemoryMetadata(user_id=f"u{user}-{copy}", session_id=f"u{user}-{copy}.1"))
        assert len(found) == 10

    async def update() -> None:
        user, copy = place()
        there = await store.get(f"u{user}.9-{copy}")
        assert there is not None
        await store.update(there)

    return {
        "get": get,
        "last 10 of a session": session,
        "last 10 of a user": lambda: store.search(metadata=scope()),
        "substring in a user": lambda: store.search(query=random.choice(WORDS), metadata=scope()),
        "ranked text in a user": lambda: store.search_ranked(
            query=f"{random.choice(WORDS)} {random.choice(WORDS)}", metadata=scope(), mode="text"
        ),
        "count of a user": lambda: store.count(metadata=scope()),
        "add and purge one": add_and_purge,
        "add 50, purge the user": add_many,
        "get and update": update,
    }


async def examine(server_url: str, name: str, partitions: int, items: int) -> list[Line]:
    """Fill one kind of table twice, have one of them grow, and return what its size costs."""
    copies = max(2, items // (USERS * ITEMS_OF_EACH))
    with fresh_database(server_url) as small_url, fresh_database(server_url) as url:
        async with (
            PostgresMemoryStore(small_url, partitions=partitions) as small,
            PostgresMemoryStore(url, partitions=partitions) as large,
        ):
            await fill(small)
            await fill(large)
            started = time.perf_counter()
            await multiply(url, copies, partitioned=partitions > 0)
            print(f"{name}: {copies * USERS * ITEMS_OF_EACH:,} items made in {time.perf_counter() - started:.0f} s")
            in_small, in_large = calls(small, 1), calls(large, copies)
            lines = []
            for call in in_large:
                times = await interleaved({"memoranda": in_large[call], "floor": in_small[call]}, rounds=7, calls=30)
                lines.append(line(f"{name}: {call}", times))
        connection = await asyncpg.connect(url)
        size = await connection.fetchval("SELECT pg_database_size(current_database())")
        await connection.close()
        print(f"{name}: {size / 1e9:.1f} GB")
    return lines


def main(options: argparse.Namespace) -> None:
    TABLES["partitioned"] = options.partitions
    with postgres_server(settings=SETTINGS) as server:
        for name, partitions in TABLES.items():
            if options.only in (None, name):
                lines = asyncio.run(examine(server.url, name, partitions, options.items))
                report(f"{options.items:,} items against {USERS * ITEMS_OF_EACH:,} in the same table", lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--only", choices=list(TABLES))
    main(parser.parse_args())
