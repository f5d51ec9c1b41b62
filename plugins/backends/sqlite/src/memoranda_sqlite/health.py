"""Examining and repairing the file, and rebuilding its indexes."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from memoranda.errors import CorruptStoreError
from memoranda.store import Finding, Progress
from memoranda.store.backend import fold
from memoranda_backend.sql import ITEM_COLUMNS, unpack
from memoranda_sqlite import text_index
from memoranda_sqlite.connections import Connections
from memoranda_sqlite.erasing import Pending
from memoranda_sqlite.retrieval import Types
from memoranda_sqlite.schema import meta, stored_version
from memoranda_sqlite.tables import TABLE
from memoranda_sqlite.text_index import LAST, trigram_query, words_query_of_owner
from memoranda_sqlite.vectors import Vectors, count_without_vector, items_without_vector, store_vectors, stored_model
from memoranda_sqlite.worker import Work

_RESTORE = "Restore a copy, or save what can be read with 'sqlite3 FILE .recover'."
_REBUILD = "Call reindex(), or let 'memoranda doctor --repair' build it again; searches may miss items until then."
_MOST_NAMED = 10
_LARGE_LOG = 64 << 20
_SYNCHRONOUS = {0: "off", 1: "normal", 2: "full", 3: "extra"}


async def examine(connections: Connections, vectors: Vectors | None, types: Types) -> list[Finding]:
    """Return the findings, the most important first."""
    findings = [
        await _checked(connections, "integrity", _integrity),
        await _rows(connections, types),
        await connections.worker.run(partial(_settings, unwritable=connections.database.is_unwritable)),
    ]
    if not connections.database.in_memory:
        pending = await connections.eraser.attempt()
        findings += [_mode(connections.database.path), _log(connections.database.path, pending), _room(pending)]
    findings.append(await _checked(connections, "text index", _text_index))
    if vectors is not None:
        model = vectors.model
        findings.append(await _checked(connections, "vectors", lambda connection: _vectors(connection, model)))
    return findings


async def repair_text_index(connections: Connections) -> None:
    """Fill the text indexes, after emptying them if they differ from the table."""
    if not connections.indexer.available:
        return
    if not (await _checked(connections, "text index", _text_index)).ok:
        await connections.writer.call(text_index.empty)
    await connections.indexer.finish()


async def _checked(connections: Connections, name: str, look: Work[Finding]) -> Finding:
    """Return a finding; a file that is too damaged for one check may still pass the others."""
    try:
        return await connections.read(look)
    except CorruptStoreError as error:
        return Finding(name, False, str(error), _RESTORE)


def _integrity(connection: sqlite3.Connection) -> Finding:
    faults = [fault for (fault,) in connection.execute(f"PRAGMA integrity_check({_MOST_NAMED})")]
    return Finding(
        "integrity",
        faults == ["ok"],
        "the file is whole" if faults == ["ok"] else "; ".join(faults),
        _RESTORE,
    )


async def _rows(connections: Connections, types: Types) -> Finding:
    unreadable = []
    count = 0
    try:
        async for row in connections.every_row(f"SELECT {', '.join(ITEM_COLUMNS)} FROM {TABLE}"):
            count += 1
            try:
                unpack(row, types)
            except CorruptStoreError:
                unreadable.append(repr(row[0]))
    except CorruptStoreError as error:
        return Finding("rows", False, str(error), _RESTORE)
    named = ", ".join(unreadable[:_MOST_NAMED]) + (", …" if len(unreadable) > _MOST_NAMED else "")
    return Finding(
        "rows",
        not unreadable,
        f"{len(unreadable)} of {count} cannot be read: {named}" if unreadable else f"all {count} can be read",
        "Searches leave these rows out. Replace each by adding an item of its id, or purge it.",
    )


def _settings(connection: sqlite3.Connection, *, unwritable: bool) -> Finding:
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    detail = (
        f"SQLite {sqlite3.sqlite_version}, schema version {stored_version(connection)}, journal {journal}, "
        f"synchronous {_SYNCHRONOUS.get(synchronous, synchronous)}"
    )
    if unwritable:
        return Finding("settings", True, f"SQLite {sqlite3.sqlite_version}; the file cannot be written, only read")
    return Finding(
        "settings",
        journal in ("wal", "memory"),
        detail,
        "This file system has no shared memory for a write-ahead log; keep the file on a local disk.",
    )


def _mode(path: str) -> Finding:
    mode = stat.S_IMODE(Path(path).stat().st_mode)
    private = os.name == "nt" or not mode & 0o077
    detail = f"the file's mode is {mode:04o}" + ("" if private else ": others than its owner may use it")
    return Finding("privacy", private, detail, f"chmod 600 {path}")


def _log(path: str, pending: Pending) -> Finding:
    log = Path(path + "-wal")
    size = log.stat().st_size if log.exists() else 0
    return Finding(
        "log",
        not pending.passes and size < _LARGE_LOG,
        f"the write-ahead log has {size:,} bytes. {pending.reason if pending.passes else ''}".rstrip(". "),
        "Some program reads the file for a very long time, which keeps the log from being emptied; end it.",
    )


def _room(pending: Pending) -> Finding:
    waits = bool(pending.reason) and not pending.passes
    return Finding(
        "free room",
        not waits,
        pending.reason.rstrip(".") if waits else "the pages hold no copies of what was purged",
        "Let 'memoranda doctor --repair' write the file anew when writers can wait; for a file with tables of others, "
        "call erase(others=True).",
    )


def _text_index(connection: sqlite3.Connection) -> Finding:
    if not text_index.available(connection):
        return Finding(
            "text index",
            False,
            f"SQLite {sqlite3.sqlite_version} has no FTS5 with trigrams, so searches read all rows",
            "Use a Python whose SQLite is 3.35 or later and built with FTS5.",
        )
    faults = disagreements(connection)
    if faults:
        return Finding("text index", False, "; ".join(faults), _REBUILD)
    waiting = text_index.pending(connection)
    detail = f"{waiting:,} rows wait for it" if waiting else "complete"
    return Finding("text index", True, detail)


def _vectors(connection: sqlite3.Connection, model: str) -> Finding:
    stored = stored_model(connection)
    if stored != model:
        detail = f"the file holds vectors of {stored}, and the store has {model}"
        return Finding("vectors", False, detail, "Open the file with the model it was made with, or call reindex().")
    lacking = count_without_vector(connection)
    detail = f"of {model}; {lacking:,} items have none" if lacking else f"of {model}; complete"
    return Finding("vectors", not lacking, detail, "Call reindex(), or let 'memoranda doctor --repair' make them.")


TEXTS_PER_REQUEST = 128


async def rebuild(connections: Connections, embedder: Vectors | None, progress: Progress | None) -> int:
    """Rebuild all indexes and return the number of items. Searches by text work meanwhile."""
    if connections.indexer.available:
        await connections.writer.call(text_index.empty)
        await connections.indexer.finish()
    if embedder is not None:
        await connections.writer.call(embedder.adopt)
        await embed_missing(connections, embedder, progress)
    ((total,),) = await connections.rows("SELECT count(*) FROM memory_items WHERE deleted = 0", ())
    if progress is not None and embedder is None:
        progress(total, total)
    return int(total)


async def embed_missing(connections: Connections, embedder: Vectors, progress: Progress | None = None) -> None:
    """Make vectors that are missing or outdated, unless the file holds those of another model."""
    total = await connections.read(count_without_vector)
    done = 0
    while await connections.read(stored_model) == embedder.model:
        rows = await connections.read(lambda connection: items_without_vector(connection, TEXTS_PER_REQUEST))
        if not rows:
            return
        packed = await embedder.embedded([content for _, _, content in rows])
        kept = [(vector, item_id, version) for vector, (item_id, version, _) in zip(packed, rows, strict=True)]

        def keep(connection: sqlite3.Connection, kept: list[tuple[bytes, str, int]] = kept) -> None:
            store_vectors(connection, embedder.model, kept)

        await connections.writer.call(keep)
        done += len(rows)
        if progress is not None:
            progress(min(done, total), total)


_FRESH = "NOT EXISTS (SELECT 1 FROM memoranda_stale WHERE memoranda_stale.item = {item})"

_UNRECORDED = (
    f"SELECT count(*) FROM {TABLE} NOT INDEXED "
    f"WHERE rowid <= (SELECT value FROM memoranda_meta WHERE key = 'indexed') "
    f"AND {_FRESH.format(item=f'{TABLE}.rowid')} "
    f"AND NOT EXISTS (SELECT 1 FROM memoranda_terms WHERE memoranda_terms.item = {TABLE}.rowid)"
)
_WITHOUT_ROW = (
    f"SELECT count(*) FROM memoranda_terms WHERE {_FRESH.format(item='memoranda_terms.item')} "
    f"AND NOT EXISTS (SELECT 1 FROM {TABLE} WHERE {TABLE}.rowid = memoranda_terms.item AND {TABLE}.id = "
    f"memoranda_terms.id)"
)


def disagreements(connection: sqlite3.Connection) -> list[str]:
    """Return what is wrong, each as a clause; nothing if the indexes are as they should be.

    Read in one snapshot: in between, rows may be moved into the indexes.
    """
    connection.execute("BEGIN")
    try:
        return [*_of_watermark(connection), *_of_record(connection), *_of_words(connection), *_of_trigrams(connection)]
    finally:
        connection.rollback()


def _of_watermark(connection: sqlite3.Connection) -> Iterator[str]:
    indexed = meta(connection, "indexed")
    (last,) = connection.execute(f"SELECT {LAST}").fetchone()
    if not isinstance(indexed, int):
        yield "it is not known up to which row they are filled"
    elif indexed > last:
        yield f"they pass for filled up to row {indexed:,}, and the last row is {last:,}"


def _of_record(connection: sqlite3.Connection) -> Iterator[str]:
    ((unrecorded,),) = connection.execute(_UNRECORDED)
    if unrecorded:
        yield f"{unrecorded:,} rows pass for indexed and are not"
    ((without,),) = connection.execute(_WITHOUT_ROW)
    if without:
        yield f"{without:,} entries belong to no row"


def _of_words(connection: sqlite3.Connection) -> Iterator[str]:
    """Compare by the marks of the owners: each entry has exactly one."""
    recorded: defaultdict[str, set[int]] = defaultdict(set)
    for item, owner in connection.execute("SELECT item, owner FROM memoranda_terms"):
        recorded[owner].add(item)
    # No term but an owner's mark has a colon in it, and a semicolon comes next.
    marks = connection.execute("SELECT term FROM memoranda_vocabulary WHERE term >= ':' AND term < ';'").fetchall()
    lacking = surplus = 0
    for owner in recorded.keys() | {mark for (mark,) in marks}:
        held = {
            item
            for (item,) in connection.execute(
                "SELECT rowid FROM memoranda_words WHERE memoranda_words MATCH ?", (words_query_of_owner(owner),)
            )
        }
        lacking += len(recorded[owner] - held)
        surplus += len(held - recorded[owner])
    if lacking:
        yield f"the index of words lacks {lacking:,} rows"
    if surplus:
        yield f"the index of words has {surplus:,} entries too many"


def _of_trigrams(connection: sqlite3.Connection) -> Iterator[str]:
    """Look each row up by its first trigram; one query answers for all rows that begin alike."""
    rows = connection.execute(
        f"SELECT item, substr(content, 1, 3) FROM memoranda_terms JOIN {TABLE} ON {TABLE}.rowid = item "
        f"WHERE typeof(content) = 'text' AND memoranda_is_text(CAST(content AS BLOB)) "
        f"AND {_FRESH.format(item='memoranda_terms.item')}"
    )
    beginning_with: defaultdict[str, set[int]] = defaultdict(set)
    for item, beginning in rows:
        query = trigram_query(fold(beginning)[:3])
        if query is not None and "\0" not in query:
            beginning_with[query].add(item)
    lacking = 0
    for query, items in beginning_with.items():
        found = connection.execute("SELECT rowid FROM memoranda_trigrams WHERE memoranda_trigrams MATCH ?", (query,))
        lacking += len(items.difference(item for (item,) in found))
    if lacking:
        yield f"the index of trigrams lacks {lacking:,} rows"
