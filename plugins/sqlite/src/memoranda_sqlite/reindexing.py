"""Building the indexes again: the terms and trigrams of all items, and the vectors of those that lack one."""

from __future__ import annotations

import sqlite3

from memoranda.store import Progress
from memoranda_sqlite import text_index, vectors
from memoranda_sqlite.connections import Connections
from memoranda_sqlite.vectors import Vectors

EMBEDDED_AT_ONCE = 128


async def rebuild(connections: Connections, embedder: Vectors | None, progress: Progress | None) -> int:
    """Build all indexes again and return the number of items. Searches by text go on meanwhile."""
    if connections.filler.available:
        await connections.writer.call(text_index.empty)
        await connections.filler.finish()
    if embedder is not None:
        await connections.writer.call(embedder.adopt)
        await embed_missing(connections, embedder, progress)
    ((total,),) = await connections.rows("SELECT count(*) FROM memory_items WHERE deleted = 0", ())
    if progress is not None and embedder is None:
        progress(total, total)
    return int(total)


async def embed_missing(connections: Connections, embedder: Vectors, progress: Progress | None = None) -> None:
    """Make the vectors that are missing or out of date, unless the file holds another model's."""
    total = await connections.read(vectors.count_missing)
    done = 0
    while await connections.read(vectors.stored_model) == embedder.model:
        rows = await connections.read(lambda connection: vectors.missing(connection, EMBEDDED_AT_ONCE))
        if not rows:
            return
        packed = await embedder.embedded([content for _, _, content in rows])
        kept = [(vector, item_id, version) for vector, (item_id, version, _) in zip(packed, rows, strict=True)]

        def keep(connection: sqlite3.Connection, kept: list[tuple[bytes, str, int]] = kept) -> None:
            vectors.keep(connection, embedder.model, kept)

        await connections.writer.call(keep)
        done += len(rows)
        if progress is not None:
            progress(min(done, total), total)
