"""The text indexes: trigrams for substrings and terms for ranking, filled in batches after the writes.

Rows up to the watermark (``indexed`` in ``memoranda_meta``) are in the indexes; searches read later ones one by one.
``memoranda_terms`` records which rows the indexes hold. Triggers note indexed rows that change or are removed in
``memoranda_stale``, with the content that was indexed. So an insert costs nothing beyond its row, and a search is
correct at every moment.

SQLite reuses the numbers of the last rows once those are removed. So a trigger lowers the watermark to the last row
that is left: a new row is never taken for an indexed one.

Both indexes are FTS5 tables without content of their own. Their results are always checked against the rows, so an
outdated entry does no harm; but a purge removes every entry.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from memoranda.store.backend import fold
from memoranda_sqlite.faults import is_corrupt
from memoranda_sqlite.schema import meta, set_meta
from memoranda_sqlite.tables import TABLE

logger = logging.getLogger(__name__)

LAYOUT = 1
"""The layout of these tables and triggers. A file with another layout gets new indexes when it is opened."""

_TRIGRAMS_PER_QUERY = 4

_SECURE_DELETE = (3, 42, 0)
"""The first SQLite release whose FTS5 can erase an entry from its pages at once."""

_FTS = "USING fts5(text, content='', columnsize=0, detail=none"
_TABLES = {
    "memoranda_stale": "CREATE TABLE memoranda_stale (item INTEGER PRIMARY KEY, content TEXT NOT NULL)",
    "memoranda_terms": (
        "CREATE TABLE memoranda_terms "
        "(item INTEGER PRIMARY KEY, id TEXT NOT NULL, owner TEXT NOT NULL, terms TEXT NOT NULL)"
    ),
    "memoranda_trigrams": f'CREATE VIRTUAL TABLE memoranda_trigrams {_FTS}, tokenize="trigram case_sensitive 1")',
    "memoranda_words": f"CREATE VIRTUAL TABLE memoranda_words {_FTS}, tokenize=\"ascii tokenchars ':'\")",
    "memoranda_vocabulary": "CREATE VIRTUAL TABLE memoranda_vocabulary USING fts5vocab(memoranda_words, row)",
}
_STEMS = "\n"
"""What divides the stems of an item from its words, in what is stored of its terms: the words come first, in order."""

_INDEXES = ("memoranda_trigrams", "memoranda_words")

_NOTE = (
    "INSERT INTO memoranda_stale (item, content) SELECT old.rowid, old.content "
    "WHERE EXISTS (SELECT 1 FROM memoranda_terms WHERE item = old.rowid) "
    "AND NOT EXISTS (SELECT 1 FROM memoranda_stale WHERE item = old.rowid)"
)
LAST = f"(SELECT ifnull(max(rowid), 0) FROM {TABLE})"
_LOWER_WATERMARK = f"UPDATE memoranda_meta SET value = {LAST} WHERE key = 'indexed' AND value > {LAST}"
_CHANGED = "(old.content IS NOT new.content OR old.metadata IS NOT new.metadata)"
_TRIGGERS = {
    "memoranda_changed": f"AFTER UPDATE ON {TABLE} WHEN {_CHANGED} BEGIN {_NOTE}; END",
    "memoranda_removed": f"AFTER DELETE ON {TABLE} BEGIN {_NOTE}; {_LOWER_WATERMARK}; END",
}


def create(connection: sqlite3.Connection) -> bool:
    """Create the indexes if they do not exist. Return False if this SQLite has no FTS5 with trigrams.

    Indexes of another layout, or of other rows, are rebuilt. Without indexes, searches read the rows themselves.
    """
    if available(connection) and trusted(connection):
        return True
    try:
        connection.execute("CREATE VIRTUAL TABLE temp.memoranda_probe USING fts5(text, tokenize='trigram')")
        connection.execute("DROP TABLE temp.memoranda_probe")
    except sqlite3.OperationalError:
        return False
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not (available(connection) and trusted(connection)):
            _build(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
    return True


def _build(connection: sqlite3.Connection) -> None:
    for trigger in _TRIGGERS:
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    for table in reversed(_TABLES):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    for statement in _TABLES.values():
        connection.execute(statement)
    for trigger, action in _TRIGGERS.items():
        connection.execute(f"CREATE TRIGGER {trigger} {action}")
    settings = {"automerge": 16, "hashsize": 4 << 20}  # Fewer and larger merges than by default.
    if sqlite3.sqlite_version_info >= _SECURE_DELETE:
        settings["secure-delete"] = 1
    for index in _INDEXES:
        for name, value in settings.items():
            connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES (?, ?)", (name, value))
    set_meta(connection, "indexed", 0)
    set_meta(connection, "terms", _terms_fingerprint())
    set_meta(connection, "text_index", LAYOUT)


def trusted(connection: sqlite3.Connection) -> bool:
    """Return True if the indexes seem to be those of these rows, by a quick check.

    A file that was restored from a dump has renumbered rows: the last entry of the indexes is then that of another row.
    """
    if meta(connection, "text_index") != LAYOUT:
        return False
    indexed = meta(connection, "indexed")
    (last,) = connection.execute(f"SELECT {LAST}").fetchone()
    if not isinstance(indexed, int) or not 0 <= indexed <= last:
        return False
    entry = connection.execute(
        f"SELECT known.id IS stored.id OR EXISTS (SELECT 1 FROM memoranda_stale WHERE item = known.item) "
        f"FROM memoranda_terms AS known LEFT JOIN {TABLE} AS stored ON stored.rowid = known.item "
        f"ORDER BY known.item DESC LIMIT 1"
    ).fetchone()
    return entry is None or bool(entry[0])


def available(connection: sqlite3.Connection) -> bool:
    """Return True if the indexes exist and this SQLite can read them."""
    try:
        for index in _INDEXES:
            connection.execute(f"SELECT rowid FROM {index} LIMIT 0")
    except sqlite3.OperationalError:
        return False
    return True


def _terms_fingerprint() -> str:
    from memoranda_backend.ranking import terms_fingerprint  # Loaded on use, as every name of the ranking here.

    return terms_fingerprint()


@lru_cache(maxsize=4096)
def owner_code(user_id: str | None) -> str:
    """Return the mark of a user's rows in the index of terms; no term contains a colon."""
    return ":" if user_id is None else ":" + blake2b(user_id.encode(), digest_size=6).hexdigest()


# Filling


def fill(connection: sqlite3.Connection, most: int) -> int:
    """Index up to ``most`` rows within the transaction; return how many had to be indexed or removed."""
    if meta(connection, "terms") != _terms_fingerprint():
        empty(connection)
    stale = refresh(connection, most)
    if stale >= most:
        return stale  # A new row may have the number of a stale one, whose entry has to go first.
    rows = connection.execute(
        f"SELECT rowid, content, user_id, EXISTS (SELECT 1 FROM memoranda_terms WHERE item = {TABLE}.rowid) "
        f"FROM {TABLE} WHERE rowid > (SELECT value FROM memoranda_meta WHERE key = 'indexed') ORDER BY rowid LIMIT ?",
        (most,),
    ).fetchall()
    if rows:
        _insert(
            connection,
            [_entry(item, text, user) for item, text, user, held in rows if not held],
        )
        set_meta(connection, "indexed", rows[-1][0])
    return stale + len(rows)


def refresh(connection: sqlite3.Connection, most: int = -1) -> int:
    """Update the entries of indexed rows that changed or were removed, and return how many those were.

    Damaged indexes are emptied, to be filled again: they must never keep a row from being removed.
    """
    try:
        return _refreshed(connection, most)
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            raise
    logger.warning("The text indexes are damaged; they are rebuilt from the rows.")
    empty(connection)
    return 1


def _refreshed(connection: sqlite3.Connection, most: int) -> int:
    rows = connection.execute(
        f"SELECT stale.item, stale.content, known.owner, known.terms, stored.id IS NOT NULL, stored.content, "
        f"stored.user_id, stale.item <= (SELECT value FROM memoranda_meta WHERE key = 'indexed') "
        f"FROM memoranda_stale AS stale LEFT JOIN memoranda_terms AS known ON known.item = stale.item "
        f"LEFT JOIN {TABLE} AS stored ON stored.rowid = stale.item LIMIT ?",
        (most,),
    ).fetchall()
    if not rows:
        return 0
    _remove(
        connection,
        [(item, _text(old), owner, terms) for item, old, owner, terms, *_ in rows if terms is not None],
    )
    # Rows above the watermark are indexed later.
    _insert(
        connection,
        [_entry(item, content, user) for item, _, _, _, stored, content, user, below in rows if stored and below],
    )
    connection.executemany("DELETE FROM memoranda_stale WHERE item = ?", [(row[0],) for row in rows])
    return len(rows)


def pending(connection: sqlite3.Connection) -> int:
    """Return about how many rows are not in the indexes yet."""
    (waiting,) = connection.execute(
        f"SELECT ifnull((SELECT max(rowid) FROM {TABLE}), 0) - "
        f"(SELECT value FROM memoranda_meta WHERE key = 'indexed') + (SELECT count(*) FROM memoranda_stale)"
    ).fetchone()
    return max(int(waiting), 0)


def forget(connection: sqlite3.Connection) -> None:
    """Erase removed rows from the pages of the indexes, not only from their results."""
    if not trusted(connection):
        empty(connection)  # It is unknown what they hold.
    elif refresh(connection) and sqlite3.sqlite_version_info < _SECURE_DELETE:
        # Older releases only mark an entry as removed; a complete merge drops the marked ones.
        for index in _INDEXES:
            connection.execute(f"INSERT INTO {index} ({index}) VALUES ('optimize')")


def has_present_terms(connection: sqlite3.Connection) -> bool:
    """Return True if the terms in the indexes are of the version that queries are made with."""
    from memoranda_backend.ranking import made_by_this_version

    return made_by_this_version(str(meta(connection, "terms")))


def renew(connection: sqlite3.Connection) -> None:
    """Empty indexes whose terms are of another version; all rows then wait for them."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not has_present_terms(connection):
            empty(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def empty(connection: sqlite3.Connection) -> None:
    """Empty the indexes; all rows then wait for them."""
    for index in _INDEXES:
        connection.execute(f"INSERT INTO {index} ({index}) VALUES ('delete-all')")
    connection.execute("DELETE FROM memoranda_terms")
    connection.execute("DELETE FROM memoranda_stale")
    set_meta(connection, "indexed", 0)
    set_meta(connection, "terms", _terms_fingerprint())


Entry = tuple[int, str, str, str]
"""A row in the indexes: its number, content, owner and terms."""


def _insert(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    connection.executemany(
        "INSERT INTO memoranda_trigrams (rowid, text) VALUES (?, ?)",
        [(item, fold(text)) for item, text, _, _ in entries],
    )
    connection.executemany(
        "INSERT INTO memoranda_words (rowid, text) VALUES (?, ?)",
        [(item, _marked(terms, owner)) for item, _, owner, terms in entries],
    )
    connection.executemany(
        f"INSERT INTO memoranda_terms (item, id, owner, terms) SELECT rowid, id, ?, ? FROM {TABLE} WHERE rowid = ?",
        [(owner, terms, item) for item, _, owner, terms in entries],
    )


def _remove(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    connection.executemany(
        "INSERT INTO memoranda_trigrams (memoranda_trigrams, rowid, text) VALUES ('delete', ?, ?)",
        [(item, fold(text)) for item, text, _, _ in entries],
    )
    connection.executemany(
        "INSERT INTO memoranda_words (memoranda_words, rowid, text) VALUES ('delete', ?, ?)",
        [(item, _marked(terms, owner)) for item, _, owner, terms in entries],
    )
    connection.executemany("DELETE FROM memoranda_terms WHERE item = ?", [(entry[0],) for entry in entries])


def _marked(terms: str, owner: str) -> str:
    """Return the terms as the index holds them, with the mark of their owner."""
    return f"{owner} {terms}"


def _entry(item: int, content: Any, user_id: Any) -> Entry:
    from memoranda_backend.ranking import index_words, stems_beside

    text = _text(content)
    owner = owner_code(user_id if isinstance(user_id, str) else None)
    words = index_words(text)
    return item, text, owner, f"{' '.join(words)}{_STEMS}{' '.join(stems_beside(words))}"


def words_of_entry(terms: str) -> list[str]:
    """Return the words of an item, in their order, from what is stored of its terms."""
    return terms.partition(_STEMS)[0].split()


def _text(content: Any) -> str:
    """Return the content; a row with a value of another type is unreadable and has no words."""
    return content if isinstance(content, str) else ""


# Finding


def trigram_query(folded: str) -> str | None:
    """Return the FTS5 query for rows that may contain the text, or None if it is too short to have a trigram."""
    trigrams = list(dict.fromkeys(folded[at : at + 3] for at in range(len(folded) - 2)))
    if not trigrams:
        return None
    step = -(-len(trigrams) // _TRIGRAMS_PER_QUERY)
    return " AND ".join(_quoted(trigram) for trigram in trigrams[::step])


def words_query(terms: Iterable[str], user_id: str | None) -> str:
    """Return the FTS5 query for rows with any of the terms: those of this user, or of all users for None."""
    any_of = f"({' OR '.join(map(_quoted, terms))})"
    return any_of if user_id is None else f"{words_query_of_owner(owner_code(user_id))} AND {any_of}"


def words_query_of_owner(code: str) -> str:
    """Return the FTS5 query for all rows that carry an owner's mark."""
    return _quoted(code)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
