"""The vectors of items, in a table of their own: of one model at a time, normalised, as float32.

A long item has the vectors of its passages one after the other. A vector belongs to one version of its item: after a
change by a program without an embedder it is outdated and unused until ``reindex`` makes a new one. An item without
text has none. Triggers remove the vectors of deleted and purged items.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from memoranda.embeddings import Embeddings
from memoranda.loops import in_slices, offload
from memoranda_backend.ranking import (
    WHITESPACE,
    Weights,
    divided,
    embed_passages,
    embed_query,
    has_text,
    pack_vector,
)
from memoranda_sqlite.connections import Connections
from memoranda_sqlite.journal import note, note_all
from memoranda_sqlite.schema import meta, set_meta
from memoranda_sqlite.tables import DELETED, TABLE
from memoranda_sqlite.transactions import KEEP_VECTOR

logger = logging.getLogger(__name__)

_KEEP_VERSION = f"{KEEP_VECTOR} AND version = ?"

_COLUMNS = "item INTEGER PRIMARY KEY, item_version INTEGER NOT NULL, vector BLOB NOT NULL"
_TRIGGER = "CREATE TRIGGER IF NOT EXISTS memoranda_vector"
_REMOVE = "BEGIN DELETE FROM memoranda_vectors WHERE item = old.rowid; END"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS memoranda_vectors ({_COLUMNS})",
    f"{_TRIGGER}_deleted AFTER UPDATE OF deleted ON {TABLE} WHEN new.deleted {_REMOVE}",
    f"{_TRIGGER}_removed AFTER DELETE ON {TABLE} {_REMOVE}",
)

_VALID = "memoranda_vectors.item_version = version"
_KNOWN = (
    f"SELECT id, content, vector FROM {TABLE} JOIN memoranda_vectors ON item = {TABLE}.rowid AND {_VALID} "
    f"WHERE EXISTS (SELECT 1 FROM memoranda_meta WHERE key = 'vector_model' AND value = ?) AND id IN"
)
_DROP_SINGLE = (
    f"DELETE FROM memoranda_vectors WHERE length(vector) = ? AND item IN (SELECT rowid FROM {TABLE} "
    f"WHERE typeof(content) = 'text' AND length(content) > ? AND memoranda_is_text(CAST(content AS BLOB)) "
    f"AND memoranda_passages(CAST(content AS BLOB)) > 1)"
)
_FLOAT32_BYTES = 4
_LOOKED_UP = 500
_MISSING = (
    f"state <> {DELETED} AND typeof(content) = 'text' "
    f"AND NOT EXISTS (SELECT 1 FROM memoranda_vectors WHERE item = {TABLE}.rowid AND {_VALID}) "
    f"AND memoranda_is_text(CAST(id || content AS BLOB)) AND trim(content, ?) <> ''"
)


Rows = Callable[[str, Sequence[Any]], Awaitable[list[Any]]]
"""Reads the rows of a statement."""


class Vectors:
    """The vectors of a store that has an embedder."""

    def __init__(self, embeddings: Embeddings, weights: Weights | None = None) -> None:
        self._embeddings = embeddings
        self.dimension = embeddings.dimension
        self.model = f"{embeddings.identity()} ({embeddings.dimension} dimensions)"
        self.weights = weights or Weights()

    def create(self, connection: sqlite3.Connection) -> str:
        """Create the table if there is none, within the transaction, and return the model of its vectors."""
        for statement in _CREATE:
            connection.execute(statement)
        if meta(connection, "vector_model") is None:
            set_meta(connection, "vector_model", self.model)
        return str(meta(connection, "vector_model"))

    async def open(self, connections: Connections, store: str) -> None:
        """Create the table if there is none, and warn if it holds the vectors of another model."""
        if connections.database.reading:
            stored = await connections.read(stored_model) or self.model
        else:
            stored = await connections.writer.call(self.create)
        if stored != self.model:
            logger.warning(
                "%s holds vectors of %s and was opened with %s. Search by meaning waits for reindex().",
                store,
                stored,
                self.model,
            )

    def adopt(self, connection: sqlite3.Connection) -> None:
        """Switch to this store's model: remove the vectors of another, and single ones of items with passages."""
        if self.create(connection) != self.model:
            connection.execute("DELETE FROM memoranda_vectors")
            set_meta(connection, "vector_model", self.model)
        connection.create_function("memoranda_passages", 1, self._passages, deterministic=True)
        connection.execute(_DROP_SINGLE, (self.dimension * _FLOAT32_BYTES, self.weights.passage))
        note_all(connection)

    def _passages(self, content: bytes) -> int:
        return len(divided(content.decode(errors="replace"), self.weights.passage))

    async def of(self, contents: Mapping[str, str], rows: Rows) -> list[tuple[bytes | None, str, str]]:
        """Return the vectors of contents by the ids of their items, as ``KEEP_VECTOR`` takes them.

        The embedder makes those that the file does not have; a content without text has None. ``rows`` reads the file.
        """
        vectors: dict[str, bytes | None] = {}
        async for some in in_slices([*contents], _LOOKED_UP):
            ids = [item_id for item_id in some if has_text(contents[item_id])]
            vectors |= dict.fromkeys(set(some).difference(ids))
            known = await rows(f"{_KNOWN} ({', '.join('?' * len(ids))})", [self.model, *ids]) if ids else []
            vectors |= {item_id: vector for item_id, content, vector in known if content == contents[item_id]}
        asked = [item_id for item_id in contents if item_id not in vectors]
        made = await self.embedded([contents[item_id] for item_id in asked])
        vectors |= dict(zip(asked, made, strict=True))
        return [(vector, item_id, self.model) for item_id, vector in vectors.items()]

    async def embedded(self, texts: Sequence[str]) -> list[bytes]:
        """Return the packed vectors of texts. Raises EmbeddingError when the embedder fails."""
        vectors = await embed_passages(self._embeddings, texts, self.weights.passage)
        return await offload(sum(map(len, vectors)), _all_packed, vectors, self.dimension)

    async def query_vector(self, text: str) -> tuple[Sequence[float], float]:
        """Return the vector of a query, and how similar unrelated texts are to it."""
        return await embed_query(self._embeddings, text)


def _all_packed(vectors: Sequence[Sequence[Sequence[float]]], dimension: int) -> list[bytes]:
    return [b"".join([pack_vector(vector, dimension) for vector in passages]) for passages in vectors]


def stored_model(connection: sqlite3.Connection) -> str | None:
    """Return the model of the vectors in the file."""
    found: str | None = meta(connection, "vector_model")
    return found


def items_without_vector(connection: sqlite3.Connection, most: int) -> list[tuple[str, int, str]]:
    """Return the id, version and content of items with text that have no vector, or an outdated one."""
    text = f"SELECT id, version, content FROM {TABLE} WHERE {_MISSING} ORDER BY rowid LIMIT ?"
    return connection.execute(text, (WHITESPACE, most)).fetchall()


def count_without_vector(connection: sqlite3.Connection) -> int:
    """Return how many items with text have no vector, or an outdated one."""
    (count,) = connection.execute(f"SELECT count(*) FROM {TABLE} WHERE {_MISSING}", (WHITESPACE,)).fetchone()
    return int(count)


def store_vectors(connection: sqlite3.Connection, model: str, kept: Sequence[tuple[bytes, str, int]]) -> None:
    """Store the vectors of these ids, unless an item has another version by now."""
    connection.executemany(_KEEP_VERSION, [(vector, item_id, model, version) for vector, item_id, version in kept])
    note(connection, [item_id for _, item_id, _ in kept])
