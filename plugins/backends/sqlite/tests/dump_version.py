"""Write ``data/version_N.sql``: a file of the present schema version as SQL text, which later releases must migrate.

python plugins/backends/sqlite/tests/dump_version.py

Run it before a release that adds a migration. A released file is never written again.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata
from memoranda_sqlite import SQLiteMemoryStore, schema
from memoranda_sqlite.tables import TABLE

DATA = Path(__file__).parent / "data"
BOB = MemoryMetadata(user_id="bob")
ADA = MemoryMetadata(user_id="ada", session_id="s", extra={"k": 1})
PLACED = MemoryMetadata(user_id="ada", namespace=("users", "a/b", "~"))
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def timed(minute: int) -> dict[str, str]:
    """Return the times of an item."""
    time = f"2024-05-01T10:{minute:02}:00.000000+00:00"
    return {"created_at": time, "updated_at": time}


async def fill(path: Path) -> None:
    """Make a file with an item of every kind: changed, archived, deleted, and not in the text indexes yet."""
    async with SQLiteMemoryStore(path) as store:
        items: list[MemoryItem] = [
            *(HumanMemory(id=f"id-{n}", content=f"Content {n}", metadata=ADA, **timed(n)) for n in range(4)),
            AIMemory(id="call", content="", metadata=ADA, tool_calls=[CALL], **timed(4)),
            HumanMemory(id="archived", content="Archived", metadata=ADA, archived_by="id-0", **timed(5)),
            HumanMemory(id="deleted", content="Deleted", metadata=ADA, **timed(6)),
            HumanMemory(id="placed", content="Placed", metadata=PLACED, **timed(8)),
            HumanMemory(id="mortal", content="Mortal", metadata=ADA, expires_at="2999-01-01", **timed(9)),
        ]
        await store.add_many(items)
        await store.delete("deleted")
        await store.fill_indexes()
        await store.add(HumanMemory(id="unindexed", content="Straße", metadata=BOB, **timed(7)))
        await store.add(HumanMemory(id="id-1", content="Content 1, again", metadata=ADA, **timed(1)))


def dumped(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the statements that recreate the file, including the contents of the text indexes and the row numbers."""
    objects = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    virtual = [name for _, name, text in objects if text.startswith("CREATE VIRTUAL")]
    inside = {name for _, name, _ in objects if any(re.fullmatch(f"{table}_[a-z]+", name) for table in virtual)}
    yield "BEGIN;"
    for kind, name, text in objects:
        if kind == "table" and name not in inside:
            yield f"{text};"
    for kind, name, _ in objects:
        if kind == "table" and name not in virtual:
            if name in inside:
                yield f"DELETE FROM {name};"  # What making the index put there.
            yield from inserts(connection, name)
    yield from (f"{text};" for kind, _, text in objects if kind in ("index", "trigger"))
    yield "COMMIT;"


def inserts(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """Yield a statement for each row of a table."""
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    if table == TABLE:
        columns.insert(0, "rowid")
    values = " || ', ' || ".join(f"quote({column})" for column in columns)
    for (row,) in connection.execute(f"SELECT {values} FROM {table}"):
        yield f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({row});"


def main() -> None:
    """Write the file of this version."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        asyncio.run(fill(path))
        connection = sqlite3.connect(path)
        text = "\n".join(dumped(connection)) + "\n"
        connection.close()
    (DATA / f"version_{len(schema.MIGRATIONS)}.sql").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
