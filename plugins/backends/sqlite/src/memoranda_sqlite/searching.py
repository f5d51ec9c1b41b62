"""Search by filter and substring: a page of the newest rows that match.

A short search runs in the event loop, and any other on a thread. A substring is looked up in the trigram index, whose
candidates are checked against the rows, or the rows themselves are read: both give the same result. The choice only
decides how long it takes, which is never much longer than reading the scope, however many rows others store.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from memoranda.items import MemoryMetadata
from memoranda.store import EVERYTHING
from memoranda.store.backend import Contains, Filter, Page, names_nothing
from memoranda_backend.sql import ITEM_COLUMNS, Parameters
from memoranda_sqlite.connections import Connections
from memoranda_sqlite.faults import primary_code
from memoranda_sqlite.reading import MOST_ASKED, one_snapshot
from memoranda_sqlite.statements import SQLiteStatements, is_place, names_user_and_session, only_staying
from memoranda_sqlite.tables import TABLE
from memoranda_sqlite.text_index import trigram_query
from memoranda_sqlite.values import GUARD, is_staying

T = TypeVar("T")

DIRECT_LIMIT = 200
"""The most items that are read in the event loop; reading more takes a while even where SQLite is quick."""

_ASKED_WHILE_COMPARING_TEXT = 2
"""The ``most_asked`` of a read in the event loop that compares text: a hundred or two hundred rows."""

MOST_CANDIDATES = 20_000
"""With more candidates than this, the text is so common that reading the newest rows is faster."""

SMALL_SCOPE = 1_000
"""A scope of up to this many rows is read itself, however many rows other scopes have."""

_COMPARED = (500, 3_000, 20_000)
"""How many rows of a session are counted to find out if its user has fewer: up to the last of these, in steps."""

_THROUGH_USERS = SQLiteStatements(through_users=True)
_INDEXED = """
SELECT rowid FROM memoranda_trigrams WHERE memoranda_trigrams MATCH ?
UNION ALL SELECT item FROM memoranda_stale
"""
_ROWS_OF_SESSION = f"SELECT count(*) FROM (SELECT 1 FROM {TABLE} WHERE session_id = ? LIMIT {DIRECT_LIMIT + 1})"


async def search_page(
    opened: Callable[[], Connections],
    statements: SQLiteStatements,
    wanted: Filter,
    page: Page,
    of_rows: Callable[[list[Any]], list[T]],
    columns: Sequence[str] = ITEM_COLUMNS,
) -> list[T]:
    """Return a page of what matches, as ``of_rows`` makes it from its rows without the unreadable ones."""
    asked = page
    while True:
        rows = _rows_at_once(opened(), statements, wanted, asked, columns)
        if rows is not None:
            found, read = of_rows(rows), len(rows)
        else:
            found, read = await _read_on_thread(opened(), statements, wanted, asked, of_rows, columns)
        if len(found) >= page.limit or read < asked.limit:
            return found[: page.limit] if len(found) > page.limit else found
        # Further rows replace the unreadable ones.
        asked = Page(min(asked.limit + page.limit - len(found), EVERYTHING), page.offset, page.order)


def window_at_once(
    connections: Connections, statements: SQLiteStatements, wanted: Filter, page: Page
) -> list[Any] | None:
    """Return the rows of a page in the order of adding and of what stays before it, as ``Query.staying`` asks for.

    None if these are not two short statements of the event loop.
    """
    of_session = wanted.metadata is not None and wanted.metadata.session_id is not None
    # Archived items have a place of their own in the index. A branch names several sessions instead of one.
    if not of_session or wanted.archived is None or wanted.query or page.end > DIRECT_LIMIT:
        return None
    # Two statements take less time than one that joins both: 9 µs more than the page, and 27 µs.
    statement = statements.search(wanted, page)
    rows = connections.rows_at_once(*statement)
    if rows is None or len(rows) < page.limit:
        return rows
    staying = connections.rows_at_once(*only_staying(statement, DIRECT_LIMIT + 1))
    if staying is None or len(staying) > DIRECT_LIMIT:
        return None
    known = {row[0] for row in rows}
    return rows + [row for row in staying if row[0] not in known]


def _rows_at_once(
    connections: Connections, statements: SQLiteStatements, wanted: Filter, page: Page, columns: Sequence[str]
) -> list[Any] | None:
    """Return a page of the rows that match, or None if a thread is to look for them."""
    asked, session = page, None if wanted.metadata is None else wanted.metadata.session_id
    if page.end > DIRECT_LIMIT:
        if session is None:
            return None
        if any(map(is_staying, wanted.further)):
            # A window asks for all system items and summaries of its session, which are few: reading them tells so.
            asked = Page(min(page.limit, DIRECT_LIMIT + 1), page.offset, page.order)
        elif not _is_short(connections, session):
            return None
    # The newest rows come first, so this also answers searches for common text; for rare text it gives up early.
    most_asked = _ASKED_WHILE_COMPARING_TEXT if wanted.query else MOST_ASKED
    rows = connections.rows_at_once(*statements.search(wanted, asked, columns), most_asked)
    return None if rows is None or (asked is not page and len(rows) > DIRECT_LIMIT) else rows


def _is_short(connections: Connections, session: str) -> bool:
    """Return True if a session has so few rows that the event loop can read them all."""
    counted = connections.rows_at_once(_ROWS_OF_SESSION, (session,))
    return counted is not None and counted[0][0] <= DIRECT_LIMIT


async def _read_on_thread(
    connections: Connections,
    statements: SQLiteStatements,
    wanted: Filter,
    page: Page,
    of_rows: Callable[[list[Any]], list[T]],
    columns: Sequence[str],
) -> tuple[list[T], int]:
    """Return a page of what matches, and the number of rows it was made from."""
    connections.indexer.searched()
    indexed = connections.indexer.available

    def work(connection: sqlite3.Connection) -> tuple[list[T], int]:
        rows = find_rows(connection, statements, wanted, page, columns, indexed=indexed)
        return of_rows(rows), len(rows)

    return await connections.read(work)


async def count_rows(
    connections: Connections, statements: SQLiteStatements, wanted: Filter, *, include_deleted: bool
) -> int:
    """Return how many rows match."""
    text, values = statements.count(wanted, include_deleted=include_deleted)
    # To compare text takes long, so it is left to a thread from the start.
    rows = None if wanted.query else connections.rows_at_once(text, values)
    if rows is None:
        rows = await connections.read(
            lambda connection: connection.execute(
                *_fewest(connection, statements, wanted).count(wanted, include_deleted=include_deleted)
            ).fetchall()
        )
    count: int = rows[0][0]
    return count


def find_rows(
    connection: sqlite3.Connection,
    statements: SQLiteStatements,
    wanted: Filter,
    page: Page,
    columns: Sequence[str] = ITEM_COLUMNS,
    *,
    indexed: bool,
) -> list[Any]:
    """Return a page of the rows that match the filter, newest first: these columns of each."""
    statements = _fewest(connection, statements, wanted)
    query = trigram_query(wanted.folded) if indexed else None
    if query is None:
        text, values = statements.search(wanted, page, columns)
        if GUARD in text and is_place(wanted) and _is_most(connection, statements, wanted):
            text, values = statements.throughout(wanted, page, columns)
        return _rows(connection, text, values)
    # One snapshot for all statements: in between, rows may be moved into the index.
    with one_snapshot(connection):
        candidates = (
            None if _is_small(connection, statements, wanted) else _candidates(connection, statements, wanted, query)
        )
        if candidates is None:
            return connection.execute(*statements.search(wanted, page, columns)).fetchall()
        return connection.execute(*statements.among(wanted, json.dumps(candidates), page, columns)).fetchall()


def _rows(connection: sqlite3.Connection, text: str, values: Sequence[Any]) -> list[Any]:
    """Return all rows of a statement. It first runs without its guard, which most files never need."""
    if GUARD in text:
        try:
            return connection.execute(text.replace(GUARD, "1"), values).fetchall()
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_ERROR:
                raise
    return connection.execute(text, values).fetchall()


def _is_most(connection: sqlite3.Connection, statements: SQLiteStatements, wanted: Filter) -> bool:
    """Return True if more than half of all rows are in the scope: reading all is faster than an index then."""
    (last,) = connection.execute(f"SELECT max(rowid) FROM {TABLE}").fetchone()
    half = int(last or 0) // 2 + 1
    (found,) = connection.execute(*statements.count_up_to(wanted.scope(), half)).fetchone()
    return int(found) >= half


def _candidates(
    connection: sqlite3.Connection, statements: SQLiteStatements, wanted: Filter, query: str
) -> list[int] | None:
    """Return the numbers of all rows that may contain the text, or None if they are too many.

    Rows that wait for the index are read in the order of the file.
    """
    parameters = Parameters(statements.dialect)
    parameters.add(query)
    waiting = statements.condition(parameters, Contains(wanted.folded))
    text = (
        f"{_INDEXED} UNION ALL SELECT rowid FROM {TABLE} NOT INDEXED "
        f"WHERE rowid > (SELECT value FROM memoranda_meta WHERE key = 'indexed') AND {waiting} "
        f"LIMIT {MOST_CANDIDATES + 1}"
    )
    found = [number for (number,) in connection.execute(text, parameters.values)]
    return None if len(found) > MOST_CANDIDATES else found


def _is_small(connection: sqlite3.Connection, statements: SQLiteStatements, wanted: Filter) -> bool:
    """Return True if a scope is named and has so few rows that reading it is faster than looking for candidates."""
    if wanted.metadata is None or names_nothing(wanted.metadata):
        return False
    (found,) = connection.execute(*statements.count_up_to(wanted.scope(), SMALL_SCOPE + 1)).fetchone()
    return int(found) <= SMALL_SCOPE


def _fewest(connection: sqlite3.Connection, statements: SQLiteStatements, wanted: Filter) -> SQLiteStatements:
    """Return the statements that go through the fewest rows, where a filter names both a user and a session."""
    through_users = names_user_and_session(wanted) and _user_has_fewer(connection, statements, wanted)
    return _THROUGH_USERS if through_users else statements


def _user_has_fewer(connection: sqlite3.Connection, statements: SQLiteStatements, wanted: Filter) -> bool:
    """Return True if the user has fewer rows than all sessions of this name, which many users may share."""
    assert wanted.metadata is not None

    def counted(metadata: MemoryMetadata, most: int) -> int:
        one = Filter(metadata=metadata, archived=wanted.archived)
        (found,) = connection.execute(*statements.count_up_to(one, most)).fetchone()
        return int(found)

    of_user = MemoryMetadata(user_id=wanted.metadata.user_id)
    of_session = MemoryMetadata(session_id=wanted.metadata.session_id)
    # Both are counted in steps, so that this takes as long as to count the fewer ones.
    for most in _COMPARED:
        in_session = counted(of_session, most)
        if in_session < most:
            return counted(of_user, in_session) < in_session
        if counted(of_user, most) < most:
            return True
    return False
