"""Ranked search by words in a small and a large scope, against a bare FTS5 query over the same texts.

python bench/ranked.py [--items 100000]

The floor is one full-text table of SQLite with the same contents, asked for the ten best by its own BM25. It knows no
neighbours, dates or speakers; the ratio says what these cost, and ``bench/retrieval.py`` what they are worth.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from harness import interleaved, line, report, run

from memoranda import BaseStore, HumanMemory, MemoryItem, MemoryMetadata
from memoranda.embeddings import HashingEmbeddings
from memoranda.store import InMemoryStore
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_vector import VectorMemoryStore

ADA = MemoryMetadata(user_id="ada")
STARTS = "bcdfghklmnprst"
ENDS = ("aton", "elin", "imer", "odra", "usko", "aivel", "enat", "ipur", "ogra", "abix")
VOCABULARY = [first + middle + end for first in STARTS for middle in STARTS for end in ENDS]
RARITY = [1 / (place + 1) for place in range(len(VOCABULARY))]
FOUND = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT 10"


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


async def ranked(store: BaseStore, mode: str, queries: Sequence[str]) -> None:
    """Ask a store each question."""
    for query in queries:
        await store.search_ranked(query=query, metadata=ADA, mode=mode, limit=10)  # type: ignore[arg-type]


async def main() -> None:
    """Fill each store with a small and with a large scope, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    options = parser.parse_args()
    queries = asked(5)
    for count in (1_000, options.items):
        items = made(count)
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            stores: dict[str, BaseStore] = {
                "memory": InMemoryStore(),
                "sqlite": await stack.enter_async_context(SQLiteMemoryStore(folder / "bench.db", durability="normal")),
                "vector": await stack.enter_async_context(VectorMemoryStore(HashingEmbeddings(dimension=256))),
            }
            contenders: dict[str, Callable[[], Awaitable[None]]] = {"floor": partial(bare, floor(items), queries)}
            for name, store in stores.items():
                await store.add_many(items)
                if isinstance(store, SQLiteMemoryStore):
                    await store.reindex()
                contenders[f"{name}, text"] = partial(ranked, store, "text", queries)
            contenders["vector, hybrid"] = partial(ranked, stores["vector"], "hybrid", queries)
            found = await interleaved(contenders, rounds=3)
            compared = [line(f"{name}, {len(queries)} queries", found, ours=name) for name in found if name != "floor"]
            report(f"Ranked search in a scope of {count:,} items, against bare FTS5", compared)


if __name__ == "__main__":
    run(main)
