"""Creating the table of vectors, and recomputing terms and vectors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any

from memoranda.embeddings import Embeddings
from memoranda_backend.ranking import Weights, embed_passages, has_text, normalised, terms_fingerprint
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.retrieval import named_model
from memoranda_postgres.schema import create_extension, extension_schema, lock_schema
from memoranda_postgres.server import Server
from memoranda_postgres.term_index import TermIndex, made_entries
from memoranda_postgres.terms import TERM_KEYS, stored_folding
from memoranda_postgres.vectors import Vectors

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with the numbers of items done and in all."""

_PAGE = 500
_WHILE_OTHERS_FILL = 0.01


async def open_vectors(
    server: Server, statements: PostgresStatements, embeddings: Embeddings, weights: Weights | None, store: str
) -> Vectors | None:
    """Return the vectors of a store, creating their table if needed; None where pgvector is not available."""

    async def work(connection: Connection) -> Vectors | None:
        extension = await extension_schema(connection, "vector")
        if extension is not None:
            vectors = Vectors(server, statements, embeddings, weights, extension)
            stored = await vectors.stored_model(connection)
            if stored is not None:
                if stored != (vectors.model, vectors.dimension):
                    logger.warning(
                        "%s holds vectors of %s and was opened with %s. Semantic search waits for reindex().",
                        store,
                        named_model(*stored),
                        named_model(vectors.model, vectors.dimension),
                    )
                return vectors
        async with server.transaction(connection):
            await lock_schema(connection)
            extension = await create_extension(connection, "vector")
            if extension is None:
                logger.warning("%s has no pgvector, so the embedder is not used: there is no semantic search.", store)
                return None
            vectors = Vectors(server, statements, embeddings, weights, extension)
            if await vectors.stored_model(connection) is None:
                await vectors.create(connection)
                await vectors.create_index(connection)
        return vectors

    return await server.run(work)


async def fill_vectors(
    server: Server, vectors: Vectors | None, embeddings: Embeddings | None, rows: Sequence[tuple[str, str, int]]
) -> None:
    """Embed items, given as id, content and version, and store the vectors, if there are any to be stored."""
    if vectors is None or embeddings is None:
        return
    rows = [row for row in rows if has_text(row[1])]
    for start in range(0, len(rows), _PAGE):
        page = rows[start : start + _PAGE]
        made = await embed_passages(embeddings, [content for _, content, _ in page], vectors.weights.passage)
        kept = [
            (item_id, version, list(map(normalised, passages)))
            for (item_id, _, version), passages in zip(page, made, strict=True)
        ]
        await server.run(partial(vectors.keep_present, vectors=kept))


async def rebuild(
    server: Server,
    statements: PostgresStatements,
    vectors: Vectors | None,
    embeddings: Embeddings | None,
    index: TermIndex,
    progress: Progress | None,
) -> int:
    """Recompute the terms of all items and the vectors of live ones; return the number of items."""
    total = int((await server.fetch(f"SELECT count(*) FROM {statements.dialect.table}", ()))[0][0])
    done = 0
    async for count in remade_terms(server, statements, index, has_terms=await index.create_if_needed()):
        done += count
        if progress is not None:
            progress(done, total if vectors is None else 2 * total)
    if vectors is not None and embeddings is not None:
        await _make_vectors(server, vectors, embeddings, done, progress)
    return done


async def remade_terms(
    server: Server, statements: PostgresStatements, index: TermIndex, *, has_terms: bool
) -> AsyncGenerator[int]:
    """Compute the terms of all items anew, a page at a time, and yield how many items each page had.

    Once all pages are done, the database says that this release made them. What is broken off begins again.
    """
    dialect = statements.dialect
    after = ""
    entries = f"LEFT JOIN {dialect.terms} ON item = added AND item_version = version" if has_terms else ""
    columns = (
        f"id, added AS number, content, version, user_id, folded, {TERM_KEYS if has_terms else 'NULL'}::text AS keys"
    )
    while True:
        rows = await server.fetch(
            f"SELECT {columns} FROM {dialect.table} {entries} WHERE id > $1 ORDER BY id LIMIT {_PAGE}", [after]
        )
        if not rows:
            break
        after = rows[-1]["id"]
        if has_terms:
            await _set_terms(index, rows)
        await _set_folding(server, statements, rows)
        yield len(rows)
    while has_terms and await index.fill(_PAGE):
        pass  # What waited has its entry by now, or gets it.
    await server.fetch(f"UPDATE {dialect.meta} SET terms = $1", [await asyncio.to_thread(terms_fingerprint)])


async def has_other_terms(server: Server, statements: PostgresStatements) -> bool:
    """Return True if the terms of the index were made otherwise than this release makes them."""
    ((made_by,),) = await server.fetch(f"SELECT terms FROM {statements.dialect.meta}", ())
    return bool(made_by != await asyncio.to_thread(terms_fingerprint))


async def _set_terms(index: TermIndex, rows: Sequence[Any]) -> None:
    """Write the entries of rows that differ from what the index has; rows are given with those."""
    known = {row["number"]: row["keys"] for row in rows}
    changed = [entry for entry in await made_entries(rows) if entry[-1] != known[entry[0]]]
    while changed and not await index.write(changed, {}):  # noqa: ASYNC110 - what is waited for is the lock of a server
        await asyncio.sleep(_WHILE_OTHERS_FILL)


async def _set_folding(server: Server, statements: PostgresStatements, rows: Sequence[Any]) -> None:
    folded = [(row["id"], row["version"], stored_folding(row["content"]), row["folded"]) for row in rows]
    changed = [(item_id, version, new) for item_id, version, new, old in folded if new != old]

    async def work(connection: Connection) -> None:
        columns = [list(column) for column in zip(*changed, strict=True)]
        async with server.transaction(connection):
            locked = await server.lock_items(connection, statements.dialect, columns[0])
            await connection.execute(
                f"UPDATE {statements.dialect.table} AS stored SET folded = made.folded "
                f"FROM unnest($1::text[], $2::integer[], $3::text[]) AS made (id, version, folded) "
                f"WHERE stored.id = made.id AND stored.version = made.version "
                f"AND made.id IN (SELECT unnest($4::text[]))",
                *columns,
                locked,
                timeout=server.timeout,
            )

    if changed:
        await server.run(work)


async def _make_vectors(
    server: Server, vectors: Vectors, embeddings: Embeddings, done: int, progress: Progress | None
) -> None:
    async def start(connection: Connection) -> None:
        async with server.transaction(connection):
            await lock_schema(connection)
            if await vectors.stored_model(connection) != (vectors.model, vectors.dimension):
                await vectors.create(connection)
            elif await vectors.most_missing(connection):
                # Building the index at the end is many times faster than filling it row by row.
                await vectors.drop_index(connection)

    async def finish(connection: Connection) -> None:
        async with server.transaction(connection):
            await lock_schema(connection)
            await vectors.create_index(connection)

    await server.run(start)
    made = 0
    for lacking in (vectors.missing, vectors.without_passages):
        async for page in lacking(_PAGE):
            await fill_vectors(server, vectors, embeddings, page)
            made += len(page)
            if progress is not None:
                progress(min(2 * done, done + made), 2 * done)
    await server.run(finish)
    if progress is not None:
        progress(2 * done, 2 * done)
