"""A full comparison of the text indexes with the table, for the doctor."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator

from memoranda.store.backend import fold
from memoranda_sqlite.schema import meta
from memoranda_sqlite.tables import TABLE
from memoranda_sqlite.text_index import LAST, trigram_query, words_query_of_owner

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
