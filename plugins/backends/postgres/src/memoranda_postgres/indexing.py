"""Making the index of terms and the vectors: in the background, while nothing else is to be done, or all anew."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextvars import Context
from functools import partial
from typing import Any

from memoranda.embeddings import Embeddings
from memoranda_backend.ranking import Weights, embed_passages, has_text, normalised, terms_fingerprint
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.retrieval import named_model
from memoranda_postgres.schema import create_extension, extension_schema, lock_schema
from memoranda_postgres.server import Server
from memoranda_postgres.terms import TERM_KEYS, stored_folding
from memoranda_postgres.text_search import TermIndex, made_entries
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


FILL_AT_REST = 100
"""How many items may wait once nothing has been written for a while; ranked searches read them one by one."""

MOST_WAITING = 100_000
"""How many may wait while others are written."""

REST = 0.5
"""How many seconds without a write make a rest."""

BATCH = 100
"""How many items are indexed in one transaction, during which a connection is in use and a purge waits."""

BREATH, LONG_BREATH = 1, 9
"""How long it rests after a batch, by the time that the batch took; the longer while the store is in use. Dividing text
into words takes the processor's time."""


class IndexFiller:
    """Counts the items that this store has written, and fills the index of terms with whatever waits in the database.

    It works in the event loop that last wrote, one batch after the other. What it leaves, because the process ends or
    the server is away, waits for the next store that writes or searches, in any process. An ``idle`` one does nothing.
    """

    def __init__(self, server: Server, statements: PostgresStatements, index: TermIndex, *, idle: bool) -> None:
        self._server = server
        self._statements = statements
        self._index = index
        self._stopped = idle
        self._waiting = FILL_AT_REST  # Another process may have left some.
        self._written = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def written(self, count: int) -> None:
        """Take note of written items; called in the event loop that wrote them."""
        self._waiting += count
        self._written += count
        self._look_later()

    @property
    def waiting(self) -> int:
        """About how many of the items that this store has written wait for the index."""
        return min(self._waiting, self._written)

    def searched(self, waiting: int) -> None:
        """Take note of how many items of a scope a ranked search had to read one by one."""
        if waiting >= FILL_AT_REST:
            self._waiting = max(self._waiting, waiting)
            self._look_later()

    def start(self) -> None:
        """Look for what other processes have left."""
        self._look_later()

    async def stop(self) -> None:
        """Begin no further batch, and wait for the one under way if it is in this event loop."""
        self._stopped = True
        task, timer = self._task, self._timer
        if self._loop is asyncio.get_running_loop():
            if timer is not None:
                timer.cancel()
            if task is not None:
                await asyncio.wait([task])

    def _look_later(self) -> None:
        """Fill the index after a rest, unless that is to happen already in an event loop that is still open."""
        if self._stopped or self._waiting < FILL_AT_REST or (self._loop is not None and not self._loop.is_closed()):
            return
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(REST, self._look, self._written)

    def _look(self, written: int) -> None:
        loop, self._timer, self._loop = self._loop, None, None
        if self._stopped:
            return
        if self._written != written and self._waiting < MOST_WAITING:
            self._look_later()
        elif loop is not None:
            self._loop = loop
            # In a context of its own: a read that started this must not send it to a replica.
            self._task = loop.create_task(self._fill(), context=Context())

    async def _fill(self) -> None:
        try:
            exists = await self._index.create_if_needed()
            if exists:
                await self._renew_terms()
            while not self._stopped:
                calls, begun = self._server.calls, time.monotonic()
                done = await self._index.fill(BATCH) if exists else 0
                if not done:
                    # Another process may end before it has come to what this one wrote.
                    self._waiting = 0 if done == 0 else FILL_AT_REST
                    break
                self._waiting = max(0, self._waiting - done)
                await self._rest(begun, alone=self._server.calls == calls + 1)
        except Exception as error:  # noqa: BLE001 - no caller waits for this; the items wait, and searches read them
            logger.info("The index of terms could not be filled now: %s", type(error).__name__)
            self._waiting = 0
        finally:
            self._task = self._loop = None
        with contextlib.suppress(RuntimeError):  # The event loop is closed.
            self._look_later()

    async def _renew_terms(self) -> None:
        """Make the terms of another release anew: a search would miss what that release took for other words."""
        if not await has_other_terms(self._server, self._statements):
            return
        pages = remade_terms(self._server, self._statements, self._index, has_terms=True)
        async with contextlib.aclosing(pages):
            begun = time.monotonic()
            async for _ in pages:
                if self._stopped:
                    return
                await self._rest(begun, alone=False)
                begun = time.monotonic()

    async def _rest(self, begun: float, *, alone: bool) -> None:
        """Rest after a batch that began at this moment; ``alone`` says that nothing else used the store meanwhile."""
        await asyncio.sleep((BREATH if alone else LONG_BREATH) * (time.monotonic() - begun))
