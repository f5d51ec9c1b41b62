"""The statements of SQLite, with hints for its planner."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from memoranda.items import SCOPE_FIELDS, MemoryMetadata, MemoryStatus
from memoranda.shapes import json_text
from memoranda.store import Order
from memoranda.store.backend import (
    Archived,
    Below,
    Condition,
    Contains,
    Expiry,
    ExtraEquals,
    FieldEquals,
    Filter,
    InBranch,
    InScope,
    Listing,
    OfUsers,
    Page,
    Past,
    Value,
    key_bounds,
)
from memoranda_backend.sql import ITEM_COLUMNS, Change, Parameters, Row, Statement, Statements, union_all
from memoranda_sqlite.dialect import SQLiteDialect
from memoranda_sqlite.tables import ARCHIVED, DELETED, FURTHER_COLUMNS, SCOPE_COLUMNS, SHOWN, STAYING, TABLE, BoundRow
from memoranda_sqlite.values import is_staying

_WITH_PLACE = ", ".join((*ITEM_COLUMNS, "created_us", "rowid"))
HIDDEN = f"deleted = 1, state = {DELETED}"
_SHOWN_AGAIN = f"deleted = 0, state = CASE WHEN archived_by IS NULL THEN {SHOWN} ELSE {ARCHIVED} END"
_BOUND: dict[type[Condition], Callable[[Any], Any]] = {
    InScope: attrgetter("value"),
    FieldEquals: attrgetter("text"),
    Expiry: attrgetter("now"),
}
"""Conditions that bind one value as it is. The text for these and for places is built once: 7 µs and 33 µs."""
_UNBOUND = (Archived, OfUsers)
"""Conditions that bind nothing."""
_OF_ROWS = frozenset({FieldEquals, Value, ExtraEquals, Contains, OfUsers})
_ROW_COLUMNS = (*Row._fields, *FURTHER_COLUMNS)
_ACCEPTED = MemoryStatus.ACCEPTED.value
_USUAL: dict[str, tuple[str, Any]] = {
    "status": (f"'{_ACCEPTED}'", _ACCEPTED),
    **dict.fromkeys(("task_id", "agent_id", "namespace", "archived_by", "expires_at"), ("NULL", None)),
    "state": (str(SHOWN), SHOWN),
}
"""What most rows have in these columns, as text and as a value. With so many values fewer to bind for each row, SQLite
stores a batch in four fifths of the time."""
_unbound = itemgetter(*map(_ROW_COLUMNS.index, _USUAL))
_USUALLY_UNBOUND = frozenset({tuple(value for _, value in _USUAL.values())})
_bound_if_usual = itemgetter(*(at for at, column in enumerate(_ROW_COLUMNS) if column not in _USUAL))
_ONE_ROW = ", ".join("?" * len(_ROW_COLUMNS))
_ONE_USUAL_ROW = ", ".join(_USUAL[column][0] if column in _USUAL else "?" for column in _ROW_COLUMNS)


@dataclass(frozen=True, slots=True)
class Upsert:
    """The statement that stores any number of rows where the condition holds, and which values bind it.

    ``scope`` is bound after the last row, and then the present, if the statement is ``timed``: a row that has expired
    is not replaced.
    """

    condition: str
    scope: tuple[Any, ...] = ()
    deleted: bool = False
    timed: bool = True

    def of(self, rows: Sequence[BoundRow], now: str) -> Statement:
        """Return the bound statement for these rows: all are stored, or none.

        If a single row is refused, no row changes. If one of several is, the statement fails with an IntegrityError.
        """
        usual = _USUALLY_UNBOUND.issuperset(map(_unbound, rows))
        text = _upsert_text(self.condition, self.deleted, len(rows), usual=usual)
        bound = map(_bound_if_usual, rows) if usual else rows
        last = (*self.scope, now) if self.timed else self.scope
        return text, [*chain.from_iterable(bound), *last]


_UNEXPIRED = "(stored.expires_at IS NULL OR stored.expires_at > ?)"
INSERT = Upsert("false", timed=False)
"""Stores rows unless there is one of the same id."""


class ScopedUpsert(NamedTuple):
    """How rows are stored within a scope: by a statement that binds its values.

    Rows that carry the values of the scope themselves can be compared with what they replace. All such rows have a
    ``shared`` statement, whatever their scopes, and the callers of several handles share one execution of it.
    """

    within: MemoryMetadata
    bound: Upsert
    shared: Upsert | None
    carried: tuple[tuple[int, Any], ...]
    """The columns of a row that must be those of the scope."""


@lru_cache(maxsize=128)
def _upsert_text(condition: str, deleted: bool, rows: int, *, usual: bool) -> str:
    one_row = f"({_ONE_USUAL_ROW if usual else _ONE_ROW}, {int(deleted)}, 1)"
    source = f"VALUES {', '.join([one_row] * rows)}"
    if rows == 1:
        return Statements(SQLiteDialect()).upsert_text(source, condition, "")
    # A row that may not be replaced gets no version, which fails the statement as a whole.
    return Statements(SQLiteDialect(replaced_if=condition)).upsert_text(source, "true", "")


@lru_cache(maxsize=64)
def _builder(unindexed: frozenset[str], *, index_only: bool = False) -> Statements:
    return Statements(SQLiteDialect(unindexed, index_only=index_only))


class SQLiteStatements(Statements):
    """Builds the statements of this backend, and tells the planner which index leads to the fewest rows.

    With ``through_users``, the user's index answers a filter that names both a user and a session.
    """

    def __init__(self, *, through_users: bool = False) -> None:
        super().__init__(SQLiteDialect())
        self._through_users = through_users
        self._texts: dict[Hashable, str] = {}

    def _following(self, wanted: Filter, order: Order = "added") -> Statements:
        """Return the builder for statements that follow an index in its order.

        The times in the comments here are those of 100,000 rows, with the hint and without.
        """
        fields = _fields_of(wanted)
        unindexed: set[str] = set()
        if "session_id" in fields or _is_of_a_branch(wanted):
            # A session has fewer rows than a user or a task: 0.1 ms and 4 ms, for the last twenty of a task's session.
            by_user = self._through_users and "user_id" in fields
            unindexed = {"session_id" if by_user else "user_id", "task_id", "agent_id"}
        if order != "added" and any(type(condition) is Past for condition in wanted.conditions):
            # by_added has the places of a session's past without their times: 2 ms and 13 ms.
            unindexed.add("rowid")
        return _builder(frozenset(unindexed))

    def _choosing(self, wanted: Filter, *, reads_rows: bool = False) -> Statements:
        """Return the builder for statements that count or choose rows, by an index alone unless it ``reads_rows``."""
        if "session_id" in _fields_of(wanted) or _is_of_a_branch(wanted):
            return self._following(wanted)
        # The index that begins with the state has all rows: 1 ms and 50 ms to count the items of a namespace.
        unindexed = {"state"} if is_place(wanted) else set()
        return _builder(frozenset(unindexed), index_only=not reads_rows)

    def conditions(self, parameters: Parameters, wanted: Filter, *, deleted: bool | None = False) -> str:
        """Return the WHERE text for a filter."""
        return self._following(wanted).conditions(parameters, wanted, deleted=deleted)

    def search(self, wanted: Filter, page: Page, columns: Sequence[str] = ITEM_COLUMNS) -> Statement:
        """Select these columns of a page of the items that match, newest first."""
        kinds: list[Hashable] = [page.order, wanted.archived, tuple(columns)]
        values: list[Any] = []
        for condition in wanted.conditions:
            if bound := _BOUND.get(type(condition)):
                values.append(bound(condition))
            elif type(condition) is Below:
                values += key_bounds(condition.place)
            elif type(condition) not in _UNBOUND and not is_staying(condition):
                return self._search(wanted, page, columns)
            # The shape of this value says nothing of what is asked for, which is part of the text.
            kinds.append(STAYING if type(condition) is Value else condition.shape)
        text = self._texts.get(tuple(kinds))
        if text is not None and not page.offset:
            return text, [*values, page.limit]
        built = self._search(wanted, page, columns)
        if wanted.archived is not None and not page.offset:
            self._texts[tuple(kinds)] = built[0]
        return built

    def _search(self, wanted: Filter, page: Page, columns: Sequence[str]) -> Statement:
        parameters = Parameters(self.dialect)
        kinds = kinds_of(wanted)
        if len(kinds) == 1:
            return self._newest(parameters, ", ".join(columns), wanted, page), parameters.values
        first = Page(page.end, 0, page.order)
        parts = [f"SELECT * FROM ({self._newest(parameters, _WITH_PLACE, kind, first)})" for kind in kinds]
        source = f"SELECT {', '.join(columns)} FROM ({union_all(parts)})"
        return self._page_of(parameters, source, page), parameters.values

    def _newest(self, parameters: Parameters, columns: str, wanted: Filter, page: Page) -> str:
        """Return the text that selects a page of the rows of one kind."""
        if not _sorts(wanted, page):
            where = self._following(wanted, page.order).conditions(parameters, wanted)
            return self._page_of(parameters, f"SELECT {columns} FROM {TABLE} WHERE {where}", page)
        # The index alone tells which rows they are, and only these are read: 12 ms and 45 ms for the last of 20,000.
        reads_rows = page.order == "updated" or any(type(each) in _OF_ROWS for each in wanted.conditions)
        where = self._choosing(wanted, reads_rows=reads_rows).conditions(parameters, wanted)
        chosen = self._page_of(parameters, f"SELECT rowid FROM {TABLE} WHERE {where}", page)
        order = self.ordering(page.order, newest_first=True)
        return f"SELECT {columns} FROM {TABLE} WHERE rowid IN ({chosen}) {order}"

    def _page_of(self, parameters: Parameters, source: str, page: Page) -> str:
        order = self.ordering(page.order, newest_first=True)
        text = f"{source} {order} LIMIT {parameters.add(page.limit)}"
        return f"{text} OFFSET {parameters.add(page.offset)}" if page.offset else text

    def page(
        self,
        wanted: Filter,
        *,
        after: tuple[Any, int] | None,
        size: int,
        include_deleted: bool = False,
        deleted_only: bool = False,
        order: Order = "created",
    ) -> Statement:
        """Select the next page of a scan, oldest first."""
        return self._following(wanted, order).page(
            wanted, after=after, size=size, include_deleted=include_deleted, deleted_only=deleted_only, order=order
        )

    def count(self, wanted: Filter, *, include_deleted: bool = False) -> Statement:
        """Count the items that match."""
        return self._choosing(wanted).count(wanted, include_deleted=include_deleted)

    def count_up_to(self, wanted: Filter, most: int) -> Statement:
        """Count the rows that match, up to this number, from an index alone where that is possible."""
        text, values = self.numbers_up_to(wanted, most)
        return f"SELECT count(*) FROM ({text})", values

    def numbers_up_to(self, wanted: Filter, most: int) -> Statement:
        """Select the numbers of up to this many rows that match, from an index alone where that is possible."""
        parameters = Parameters(self.dialect)
        where = self._choosing(wanted).conditions(parameters, wanted)
        return f"SELECT rowid FROM {TABLE} WHERE {where} LIMIT {parameters.add(most)}", parameters.values

    def hiding(self, wanted: Filter, item_id: str | None = None) -> Change:
        """Return what :meth:`hide` does, in its parts."""
        return super().hiding(wanted, item_id)._replace(change=f"UPDATE {TABLE} SET {HIDDEN}")

    def showing(self, wanted: Filter, item_id: str | None = None) -> Change:
        """Return what :meth:`show` does, in its parts."""
        return super().showing(wanted, item_id)._replace(change=f"UPDATE {TABLE} SET {_SHOWN_AGAIN}")

    def removing(self, wanted: Filter, ids: Sequence[str], *, purge: bool) -> Statement:
        """Hide the live items of these ids that match, or delete those rows for good, hidden ones too."""
        change = self.purging(wanted) if purge else self.hiding(wanted)
        # The plus keeps the planner from the index of a user: 0.02 ms and 9 ms, for two ids of 20,000.
        where = f"id IN (SELECT value FROM json_each(?)) AND +({change.where})"
        return f"{change.change} WHERE {where}", (json_text(list(ids)), *change.values)

    def owners_after(self, listing: Listing, wanted: Filter, last: bytes | None, most: int) -> Statement:
        """Select the owners after this one, each with its number of items and the times of the first and the last.

        Names are bytes: one that is not Unicode must not keep the others from being read.
        """
        parameters = Parameters(self.dialect)
        column = self.dialect.owner_column(listing.by)
        by_column = lists_places(listing, wanted) or not _fields_of(wanted)
        builder = _builder(frozenset({"state"} if by_column else ()), index_only=True)
        where = f"{builder.conditions(parameters, wanted)} AND {self.dialect.has_owner(column)}"
        if last is not None:
            where += f" AND {column} > CAST({parameters.add(last)} AS TEXT)"
        text = (
            f"SELECT CAST({column} AS BLOB), count(*), min(created_us), max(created_us) FROM {TABLE} WHERE {where} "
            f"GROUP BY {column} ORDER BY {column} LIMIT {parameters.add(most)}"
        )
        return text, parameters.values

    def namespaces_after(self, listing: Listing, wanted: Filter, last: bytes | None, most: int) -> Statement:
        """Select the namespaces after this one without reading their items: each is one step in an index.

        The first stands for all that are equal up to the depth of the listing, unless a suffix is asked for.
        """
        parameters = Parameters(self.dialect)
        start = "namespace IS NOT NULL" if last is None else f"namespace > CAST({parameters.add(last)} AS TEXT)"
        first = self._first_namespace(parameters, wanted, start)
        step = "namespace > found.name"
        if listing.depth is not None and not listing.suffix:
            past = f"memoranda_past(CAST(found.name AS BLOB), {parameters.add(listing.depth)})"
            step = f"namespace >= CAST({past} AS TEXT)"
        text = (
            f"WITH RECURSIVE found (name) AS (SELECT {first} UNION ALL "
            f"SELECT {self._first_namespace(parameters, wanted, step)} FROM found WHERE found.name IS NOT NULL) "
            f"SELECT CAST(name AS BLOB), 0, NULL, NULL FROM found WHERE name IS NOT NULL LIMIT {parameters.add(most)}"
        )
        return text, parameters.values

    def _first_namespace(self, parameters: Parameters, wanted: Filter, after: str) -> str:
        # 1 ms, and 11 s if each step reads all rows.
        where = _builder(frozenset({"state"})).conditions(parameters, wanted)
        return f"(SELECT namespace FROM {TABLE} WHERE {after} AND {where} ORDER BY namespace LIMIT 1)"

    def upserting(self, within: MemoryMetadata | None, *, deleted: bool = False) -> Upsert:
        """Return the statement that stores rows within a scope; with ``deleted`` they are :func:`hidden` ones."""
        parameters = Parameters(self.dialect)
        condition = self.owned(parameters, "excluded.", within)
        return Upsert(f"{condition} AND {_UNEXPIRED}", tuple(parameters.values), deleted)

    def upserting_within(self, within: MemoryMetadata) -> ScopedUpsert:
        """Return the statements that store rows within a scope."""
        columns = {name: value for name in SCOPE_FIELDS if (value := getattr(within, name)) is not None}
        if within.namespace or within.extra:
            return ScopedUpsert(within, self.upserting(within), None, ())
        same = [f"stored.{name} IS excluded.{name}" for name in dict.fromkeys(("user_id", *columns))]
        shared = Upsert(" AND ".join([*same, _UNEXPIRED]))
        carried = tuple((SCOPE_COLUMNS[name], value) for name, value in columns.items())
        return ScopedUpsert(within, self.upserting(within), shared, carried)

    def throughout(self, wanted: Filter, page: Page, columns: Sequence[str] = ITEM_COLUMNS) -> Statement:
        """Select a page of the rows that match by reading all rows in the order of the file."""
        parameters = Parameters(self.dialect)
        where = self.conditions(parameters, wanted)
        source = f"SELECT {', '.join(columns)} FROM {TABLE} NOT INDEXED WHERE {where}"
        return self._page_of(parameters, source, page), parameters.values

    def among(self, wanted: Filter, numbers: str, page: Page, columns: Sequence[str] = ITEM_COLUMNS) -> Statement:
        """Select a page of the rows that match and whose numbers are in the JSON array."""
        parameters = Parameters(self.dialect)
        parameters.add(numbers)
        where = self.conditions(parameters, wanted)
        # NOT INDEXED leaves the row number as the only way in; any other index would lead through far more rows.
        source = (
            f"SELECT {', '.join(columns)} FROM {TABLE} NOT INDEXED "
            f"WHERE rowid IN (SELECT value FROM json_each(?)) AND {where}"
        )
        return self._page_of(parameters, source, page), parameters.values


STATEMENTS = SQLiteStatements()
"""The statements of every store."""


def kinds_of(wanted: Filter) -> tuple[Filter, ...]:
    """Return the filters of what an index has in order: each session of a branch, and archived items by themselves."""
    parts = wanted.parts()
    if parts == (wanted,) and wanted.archived is None:
        return tuple(replace(wanted, archived=archived) for archived in (False, True))
    return parts


def only_staying(statement: Statement, limit: int) -> Statement:
    """Return the statement of a page of one session, in the order of adding, for its system items and summaries alone.

    It takes a tenth of the time that it takes to build the statement of the filter with that condition.
    """
    text, values = statement
    source, order, rest = text.rpartition(" ORDER BY ")
    return f"{source} AND {STAYING}{order}{rest}", [*values[:-1], limit]


def lists_places(listing: Listing, wanted: Filter) -> bool:
    """Return True if an index has the listed namespaces in order."""
    return listing.by == "namespace" and _fields_of(wanted) <= {"user_id"}


def names_user_and_session(wanted: Filter) -> bool:
    """Return True if a filter names both a user and a session, which have an index each."""
    return {"user_id", "session_id"} <= _fields_of(wanted)


def _is_of_a_branch(wanted: Filter) -> bool:
    """Return True if several sessions are read as one."""
    return any(type(condition) is InBranch for condition in wanted.further)


def _fields_of(wanted: Filter) -> set[str]:
    return {condition.field for condition in wanted.conditions if type(condition) is InScope}


def is_place(wanted: Filter) -> bool:
    """Return True if a filter names a namespace, of one user or of all, and no other field of the scope."""
    below = any(type(condition) is Below for condition in wanted.conditions)
    return below and _fields_of(wanted) <= {"user_id"}


def _sorts(wanted: Filter, page: Page) -> bool:
    """Return True if no index has the rows in this order, but one can tell which rows match."""
    fields = _fields_of(wanted)
    below = any(type(condition) is Below for condition in wanted.conditions)
    if page.order == "added":
        return (bool(fields) or below) and "session_id" not in fields
    return is_place(wanted)
