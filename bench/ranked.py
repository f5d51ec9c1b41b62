"""Ranked search by words, and by words and meaning, in a small and a large scope, against a bare FTS5 query.

python bench/ranked.py [--items 100000] [--only postgres] [--processor]

The floor is one full-text table of SQLite with the same contents, asked for the ten best by its own BM25. It knows no
neighbours, dates or speakers; the ratio says what these cost, and ``bench/retrieval.py`` what they are worth. Beside
PostgreSQL's store stands what its own full-text search takes: a column of type ``tsvector`` under a GIN index, asked
for the ten best by ``ts_rank``. Vectors have 256 numbers and are made from letters, which costs next to nothing.

The first line of each store is its first search, which makes what the next ones use; it is taken once, while another
user's calls go on. ``--only`` takes
one kind of store, and asks PostgreSQL for hybrid search too, whose index of vectors takes minutes to build.
``--processor`` counts the processor's time instead of the clock's, which tells more on a busy machine; what a server
takes is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import asyncpg
from harness import Measured, interleaved, line, report, run

from memoranda import HumanMemory, MemoryItem, MemoryMetadata, Store
from memoranda.store import InMemoryStore
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_postgres import PostgresMemoryStore
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_vector import VectorMemoryStore
from servers import postgres_server

STORES = ("memory", "sqlite", "vector", "postgres")
ADA, BOB = MemoryMetadata(user_id="ada"), MemoryMetadata(user_id="bob")
STARTS = "bcdfghklmnprst"
ENDS = ("aton", "elin", "imer", "odra", "usko", "aivel", "enat", "ipur", "ogra", "abix")
VOCABULARY = [first + middle + end for first in STARTS for middle in STARTS for end in ENDS]
RARITY = [1 / (place + 1) for place in range(len(VOCABULARY))]
FOUND = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT 10"
LISTED = """
CREATE TABLE texts (text TEXT NOT NULL, words TSVECTOR GENERATED ALWAYS AS (to_tsvector('english', text)) STORED);
CREATE INDEX ON texts USING gin (words);
"""
LISTED_BEST = (
    "SELECT text FROM texts, to_tsquery('english', $1) AS asked WHERE words @@ asked "
    "ORDER BY ts_rank(words, asked) DESC LIMIT 10"
)


def made(count: int) -> list[MemoryItem]:
    """Return turns of sessions of fifty, one every ten minutes, with words as unevenly common as in a language."""
    drawn = random.Random(7)
    first = datetime(2024, 3, 1, tzinfo=UTC)
    return [
        HumanMemory(
            content="the " + " ".join(drawn.choices(VOCABULARY, RARITY, k=14)),
            metadata=MemoryMetadata(user_id="ada", session_id=f"s{number // 50}"),
            created_at=(first + timedelta(minutes=10 * number)).isoformat(),
        )
        for number in range(count)
    ]


def asked(count: int) -> list[str]:
    """Return questions of four words, some common and some rare."""
    drawn = random.Random(8)
    return ["what was the " + " ".join(drawn.choices(VOCABULARY, RARITY, k=4)) for _ in range(count)]


def floor(items: Sequence[MemoryItem]) -> sqlite3.Connection:
    """Return a full-text table with the contents."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
    connection.executemany("INSERT INTO texts (text) VALUES (?)", [(item.content,) for item in items])
    return connection


async def bare(connection: sqlite3.Connection, queries: Sequence[str]) -> None:
    """Ask the full-text table for the words of each question that are no stopwords."""
    for query in queries:
        connection.execute(FOUND, (" OR ".join(query.split()[3:]),)).fetchall()


async def listed(url: str, items: Sequence[MemoryItem]) -> asyncpg.Connection:
    """Return a connection to a table whose contents PostgreSQL's own full-text search has indexed."""
    connection = await asyncpg.connect(url)
    await connection.execute(LISTED)
    await connection.copy_records_to_table("texts", columns=["text"], records=[(item.content,) for item in items])
    await connection.execute("VACUUM ANALYZE texts", timeout=600)
    return connection


async def bare_listed(connection: asyncpg.Connection, queries: Sequence[str]) -> None:
    """Ask PostgreSQL's own full-text search the same."""
    for query in queries:
        await connection.fetch(LISTED_BEST, " | ".join(query.split()[3:]))


async def ranked(store: Store, mode: str, queries: Sequence[str]) -> None:
    """Ask a store each question."""
    for query in queries:
        await store.search_ranked(query=query, metadata=ADA, mode=mode, limit=10)  # type: ignore[arg-type]


async def beside(store: Store, search: Coroutine[None, None, None]) -> float:
    """Return the longest time that another user's call took beside a search."""
    searching = asyncio.ensure_future(search)
    longest = 0.0
    while not searching.done():
        started = time.perf_counter()
        await store.search(metadata=BOB, limit=5)
        longest = max(longest, time.perf_counter() - started)
        await asyncio.sleep(0.001)
    await searching
    return longest


@contextlib.contextmanager
def database() -> Iterator[str]:
    """Give the URL of an empty database on a server of its own."""
    with postgres_server(settings={"shared_buffers": "256MB"}) as server, server.database() as url:
        yield url


async def main() -> None:
    """Fill each store with a small and with a large scope, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--only", choices=STORES)
    parser.add_argument("--processor", action="store_true")
    options = parser.parse_args()
    clock = time.process_time if options.processor else time.perf_counter
    queries = asked(5)
    for count in (1_000, options.items):
        items = made(count)
        async with AsyncExitStack() as stack:
            contenders: dict[str, Callable[[], Awaitable[None]]] = {"floor": partial(bare, floor(items), queries)}
            first: dict[str, Measured] = {}
            waits: list[str] = []
            for name in (options.only,) if options.only else STORES:
                by_words = name == "memory" or (name == "postgres" and not options.only)
                embeddings = None if by_words else HashingEmbeddings(dimension=256)
                store = await filled(name, embeddings, items, stack, contenders, queries)
                for mode in ("text",) if by_words else ("text", "hybrid"):
                    started = clock()
                    longest = await beside(store, ranked(store, mode, queries[:1]))
                    first[f"{name}, {mode}"] = Measured(name, [clock() - started])
                    waits.append(f"{name}, {mode}: {longest * 1e3:.1f} ms")
                    contenders[f"{name}, {mode}"] = partial(ranked, store, mode, queries)
            found = await interleaved(contenders, rounds=3, clock=clock)
            one = {"floor": Measured("floor", [found["floor"].median / len(queries)])}
            compared = [line(f"{name}, first query", one | {name: first[name]}, ours=name) for name in first]
            compared += [line(f"{name}, {len(queries)} queries", found, ours=name) for name in found if name != "floor"]
            report(f"Ranked search in a scope of {count:,} items, against bare FTS5", compared)
            print("Longest wait of another user's call beside the first search:", *waits, sep="\n  ")


async def filled(
    name: str,
    embeddings: HashingEmbeddings | None,
    items: Sequence[MemoryItem],
    stack: AsyncExitStack,
    contenders: dict[str, Callable[[], Awaitable[None]]],
    queries: Sequence[str],
) -> Store:
    """Return a store of a kind that has the items, their words and their vectors in its indexes."""
    store: Store
    if name == "memory":
        store = InMemoryStore()
    elif name == "vector":
        assert embeddings is not None
        store = VectorMemoryStore(embeddings)
    elif name == "sqlite":
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = SQLiteMemoryStore(folder / "bench.db", durability="normal", embeddings=embeddings)
    else:
        url = stack.enter_context(database())
        server = await listed(url, items)
        stack.push_async_callback(server.close)
        contenders["postgres, its own tsvector"] = partial(bare_listed, server, queries)
        # An index of vectors is built in a fraction of the time that filling it one by one takes.
        async with PostgresMemoryStore(url, timeout=600) as plain:
            await plain.add_many(items)
        store = PostgresMemoryStore(url, timeout=600, embeddings=embeddings)
    await stack.enter_async_context(store)
    if name != "postgres":
        await store.add_many(items)
    if isinstance(store, (SQLiteMemoryStore, PostgresMemoryStore)):
        await store.reindex()
    return store


if __name__ == "__main__":
    run(main)
