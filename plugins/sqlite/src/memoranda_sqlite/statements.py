"""The shared statements, where SQLite's planner needs a hint of which index leads to the rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryMetadata
from memoranda.shapes import json_text
from memoranda.sql import ITEM_COLUMNS, Change, Parameters, Row, Statement, Statements
from memoranda.store import (
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
    Order,
    Page,
    Past,
    Value,
)
from memoranda_sqlite.dialect import SQLiteDialect
from memoranda_sqlite.rows import Values
from memoranda_sqlite.tables import ARCHIVED, DELETED, FURTHER_COLUMNS, SHOWN, TABLE

_WITH_PLACE = ", ".join((*ITEM_COLUMNS, "created_us", "rowid"))
HIDDEN = f"deleted = 1, state = {DELETED}"
_SHOWN_AGAIN = f"deleted = 0, state = CASE WHEN archived_by IS NULL THEN {SHOWN} ELSE {ARCHIVED} END"
_BOUND: dict[type[Condition], Callable[[Any], Any]] = {
    InScope: attrgetter("value"),
    FieldEquals: attrgetter("text"),
    Expiry: attrgetter("now"),
}
"""The kinds of conditions that bind one value, as it is; of a filter that has only these, the text is made once."""
_OF_ROWS = frozenset({FieldEquals, Value, ExtraEquals, Contains})
_ONE_ROW = ", ".join("?" * (len(Row._fields) + len(FURTHER_COLUMNS)))
_SHARED = Statements(SQLiteDialect())


@dataclass(frozen=True, slots=True)
class Upsert:
    """The statement that stores rows, any number of them at once; ``scope`` is bound behind the last."""

    condition: str
    scope: tuple[Any, ...] = ()
    deleted: bool = False

    def of(self, rows: Sequence[Values]) -> Statement:
        """Return the statement for these rows, bound: all are stored, or none.

        A single row that is refused stays as it is, so that no row has changed. One of several fails the statement with
        an IntegrityError.
        """
        text = _upsert_text(self.condition, self.deleted, len(rows))
        if len(rows) == 1:
            return text, (*rows[0], *self.scope) if self.scope else rows[0]
        return text, [*chain.from_iterable(rows), *self.scope]


@lru_cache(maxsize=64)
def _upsert_text(condition: str, deleted: bool, rows: int) -> str:
    row = f"({_ONE_ROW}, {int(deleted)}, 1)"
    if rows == 1:
        return _SHARED.upsert_text(f"VALUES {row}", condition, "")
    return Statements(_AllOrNone(condition)).upsert_text(f"VALUES {', '.join([row] * rows)}", "true", "")


class _AllOrNone(SQLiteDialect):
    """Fails a statement as a whole when one of its rows may not be replaced: that row would have no version."""

    def __init__(self, condition: str) -> None:
        self._condition = condition

    def next_version(self) -> str:
        """Return the version of a row that is replaced; there must be one."""
        return f"CASE WHEN {self._condition} THEN {super().next_version()} END"


class _PassingOver(SQLiteDialect):
    """Keeps the planner from the index of one field, so that another's leads to the rows."""

    def __init__(self, field: str) -> None:
        self._passed_over = field

    def scope_column(self, field: str) -> str:
        """Return the column; with the sign, no index is used for it."""
        return f"+{field}" if field == self._passed_over else field


class _ByTime(_PassingOver):
    """Has the planner read a session in the order of time, of which those that came later are passed over."""

    def upto(self, place: str) -> str:
        """Return the condition; the sign keeps the planner from the index that has places and no times."""
        return f"+rowid <= {place}"


class _FromIndex(SQLiteDialect):
    """Asks for nothing that only the rows themselves have, so that an index alone can answer."""

    def expiry(self, parameters: Parameters, now: str, expired: bool) -> str:
        """Return a condition on the rows' numbers: those that have expired and were not swept yet are few."""
        over = f"(SELECT rowid FROM {TABLE} WHERE expires_at <= {parameters.add(now)})"
        return f"rowid {'' if expired else 'NOT '}IN {over}"


class _ByLeadingColumn(SQLiteDialect):
    """Has the planner take the index that begins with the namespace or the owner."""

    def visibility(self, deleted: bool | None, archived: bool | None) -> list[str]:
        """Return the conditions; the sign keeps the planner from the index that begins with the state."""
        return [f"+{condition}" for condition in super().visibility(deleted, archived)]


class _FromLeadingColumn(_ByLeadingColumn, _FromIndex):
    """Does both."""


class SQLiteStatements(Statements):
    """Builds the statements of this backend.

    Where both a user and a session are named, the session's index leads to the rows, which few share with others; with
    ``through_users`` the user's does.
    """

    def __init__(self, *, through_users: bool = False) -> None:
        super().__init__(SQLiteDialect())
        self._of_both = Statements(_PassingOver("session_id" if through_users else "user_id"))
        self._of_the_past = Statements(_ByTime("user_id"))
        self._from_index = Statements(_FromIndex())
        self._from_leading_column = Statements(_FromLeadingColumn())
        self._by_leading_column = Statements(_ByLeadingColumn())
        self._texts: dict[Hashable, str] = {}

    def conditions(self, parameters: Parameters, wanted: Filter, *, deleted: bool | None = False) -> str:
        """Return the WHERE text for a filter."""
        if names_user_and_session(wanted) or _is_of_a_branch(wanted):
            return self._of_both.conditions(parameters, wanted, deleted=deleted)
        return super().conditions(parameters, wanted, deleted=deleted)

    def search(self, wanted: Filter, page: Page, columns: Sequence[str] = ITEM_COLUMNS) -> Statement:
        """Select a page of the items that match, newest first: these columns of each."""
        kinds: list[Hashable] = [page.order, wanted.archived, tuple(columns)]
        values: list[Any] = []
        for condition in wanted.conditions:
            if bound := _BOUND.get(type(condition)):
                values.append(bound(condition))
            elif type(condition) is not Archived:
                return self._search(wanted, page, columns)
            kinds.append(condition.shape)
        text = self._texts.get(tuple(kinds))
        if text is not None and not page.offset:
            return text, [*values, page.limit]
        built = self._search(wanted, page, columns)
        if wanted.archived is not None and not page.offset and not _sorts(wanted, page):
            self._texts[tuple(kinds)] = built[0]
        return built

    def _search(self, wanted: Filter, page: Page, columns: Sequence[str]) -> Statement:
        if _is_of_a_branch(wanted):
            build = super().search if page.order == "added" else self._of_the_past.search
            return build(wanted, page, columns)
        if wanted.archived is None:
            return self._of_both_kinds(wanted, page, columns)
        if not _sorts(wanted, page):
            return super().search(wanted, page, columns)
        # Which rows they are is found in the index alone, and only these are read.
        parameters = Parameters(self.dialect)
        order = self.ordering(page.order, newest_first=True)
        chosen = self._chosen(parameters, wanted, page)
        return f"SELECT {', '.join(columns)} FROM {TABLE} WHERE rowid IN ({chosen}) {order}", parameters.values

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
        by_time = order != "added" and any(type(condition) is Past for condition in wanted.further)
        build = self._of_the_past.page if by_time else super().page
        return build(
            wanted, after=after, size=size, include_deleted=include_deleted, deleted_only=deleted_only, order=order
        )

    def _of_both_kinds(self, wanted: Filter, page: Page, columns: Sequence[str]) -> Statement:
        """Select from what is shown and what is archived, each of which an index has in order."""
        parameters = Parameters(self.dialect)
        upto = Page(page.end, 0, page.order)
        order = self.ordering(page.order, newest_first=True)
        kinds = []
        for kind in (False, True):
            one = replace(wanted, archived=kind)
            if _sorts(one, page):
                chosen = self._chosen(parameters, one, upto)
                kinds.append(f"SELECT {_WITH_PLACE} FROM {TABLE} WHERE rowid IN ({chosen})")
            else:
                kinds.append(f"SELECT * FROM ({self._newest(parameters, _WITH_PLACE, one, upto)})")
        text = (
            f"SELECT {', '.join(columns)} FROM ({' UNION ALL '.join(kinds)}) {order} "
            f"LIMIT {parameters.add(page.limit)} OFFSET {parameters.add(page.offset)}"
        )
        return text, parameters.values

    def _newest(self, parameters: Parameters, columns: str, wanted: Filter, page: Page) -> str:
        return self._page_of(parameters, columns, self.conditions(parameters, wanted), page)

    def _chosen(self, parameters: Parameters, wanted: Filter, page: Page) -> str:
        """Return the text that selects the numbers of a page of rows, from an index alone where it can."""
        read = page.order == "updated" or any(type(each) in _OF_ROWS for each in wanted.conditions)
        return self._page_of(parameters, "rowid", self._from(wanted, read).conditions(parameters, wanted), page)

    def _from(self, wanted: Filter, read: bool = False) -> Statements:
        """Return what builds conditions that an index alone can answer, unless the rows are ``read`` anyway."""
        if not _fields_of(wanted) or is_place(wanted):
            return self._by_leading_column if read else self._from_leading_column
        return self._from_index

    def _page_of(self, parameters: Parameters, columns: str, where: str, page: Page, source: str = TABLE) -> str:
        return (
            f"SELECT {columns} FROM {source} WHERE {where} {self.ordering(page.order, newest_first=True)} "
            f"LIMIT {parameters.add(page.limit)} OFFSET {parameters.add(page.offset)}"
        )

    def count(self, wanted: Filter, *, include_deleted: bool = False) -> Statement:
        """Count the items that match."""
        if "session_id" in _fields_of(wanted) or _is_of_a_branch(wanted):
            return super().count(wanted, include_deleted=include_deleted)
        builder = self._from_leading_column if is_place(wanted) else self._from_index
        return builder.count(wanted, include_deleted=include_deleted)

    def count_up_to(self, wanted: Filter, most: int) -> Statement:
        """Count the rows that match, from an index alone where that is possible, and not beyond this number."""
        text, values = self.numbers_up_to(wanted, most)
        return f"SELECT count(*) FROM ({text})", values

    def numbers_up_to(self, wanted: Filter, most: int) -> Statement:
        """Select the numbers of this many of the rows that match, from an index alone where that is possible."""
        parameters = Parameters(self.dialect)
        by_session = "session_id" in _fields_of(wanted) or _is_of_a_branch(wanted)
        builder = self if by_session else self._from_index
        where = builder.conditions(parameters, wanted)
        return f"SELECT rowid FROM {TABLE} WHERE {where} LIMIT {most}", parameters.values

    def hiding(self, wanted: Filter, item_id: str | None = None) -> Change:
        """Return what :meth:`hide` does, in its parts."""
        return super().hiding(wanted, item_id)._replace(change=f"UPDATE {TABLE} SET {HIDDEN}")

    def showing(self, wanted: Filter, item_id: str | None = None) -> Change:
        """Return what :meth:`show` does, in its parts."""
        return super().showing(wanted, item_id)._replace(change=f"UPDATE {TABLE} SET {_SHOWN_AGAIN}")

    def removing(self, wanted: Filter, ids: Sequence[str], *, purge: bool) -> Statement:
        """Hide the live items of these ids that match, or delete those rows for good, hidden ones too."""
        change = self.purging(wanted) if purge else self.hiding(wanted)
        # The sign keeps the planner from the index of a user: these few are found by their ids, however many he has.
        where = f"id IN (SELECT value FROM json_each(?)) AND +({change.where})"
        return f"{change.change} WHERE {where}", (json_text(list(ids)), *change.values)

    def owners_after(self, listing: Listing, wanted: Filter, last: bytes | None, most: int) -> Statement:
        """Select the owners behind this one, each with its number of items and the times of the first and the last.

        Their names are bytes, since one that is no Unicode must not keep the others from being read.
        """
        parameters = Parameters(self.dialect)
        column = self.dialect.owner_column(listing.by)
        builder = self._from_leading_column if lists_places(listing, wanted) else self._from(wanted)
        where = f"{builder.conditions(parameters, wanted)} AND {self.dialect.has_owner(column)}"
        if last is not None:
            where += f" AND {column} > CAST({parameters.add(last)} AS TEXT)"
        text = (
            f"SELECT CAST({column} AS BLOB), count(*), min(created_us), max(created_us) FROM {TABLE} WHERE {where} "
            f"GROUP BY {column} ORDER BY {column} LIMIT {parameters.add(most)}"
        )
        return text, parameters.values

    def namespaces_after(self, listing: Listing, wanted: Filter, last: bytes | None, most: int) -> Statement:
        """Select the namespaces behind this one without looking at their items: each is one step in an index.

        Of those that the depth of the listing makes one, the first stands for all, unless a suffix is asked for.
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

    def _first_namespace(self, parameters: Parameters, wanted: Filter, behind: str) -> str:
        where = self._by_leading_column.conditions(parameters, wanted)
        return f"(SELECT namespace FROM {TABLE} WHERE {behind} AND {where} ORDER BY namespace LIMIT 1)"

    def upserting(self, within: MemoryMetadata | None, *, deleted: bool = False) -> Upsert:
        """Return the statement that stores rows within a scope; with ``deleted`` they are :func:`hidden` ones."""
        parameters = Parameters(self.dialect)
        condition = self.owned(parameters, "excluded.", within)
        return Upsert(condition, tuple(parameters.values), deleted)

    def throughout(self, wanted: Filter, page: Page, columns: Sequence[str] = ITEM_COLUMNS) -> Statement:
        """Select a page of the rows that match out of all rows, as they lie in the file."""
        parameters = Parameters(self.dialect)
        where = self.conditions(parameters, wanted)
        text = self._page_of(parameters, ", ".join(columns), where, page, f"{TABLE} NOT INDEXED")
        return text, parameters.values

    def among(self, wanted: Filter, numbers: str, page: Page, columns: Sequence[str] = ITEM_COLUMNS) -> Statement:
        """Select a page of those rows that match and whose numbers are in the JSON array."""
        parameters = Parameters(self.dialect)
        parameters.add(numbers)
        where = self.conditions(parameters, wanted)
        # NOT INDEXED leaves the row number as the only way in; any other index would lead through far more rows.
        text = (
            f"SELECT {', '.join(columns)} FROM {TABLE} NOT INDEXED "
            f"WHERE rowid IN (SELECT value FROM json_each(?)) AND {where} "
            f"{self.ordering(page.order, newest_first=True)} "
            f"LIMIT {parameters.add(page.limit)} OFFSET {parameters.add(page.offset)}"
        )
        return text, parameters.values


def is_of_user(scope: MemoryMetadata) -> bool:
    """Whether a scope names a user and nothing else."""
    named = [name for name in SCOPE_FIELDS if getattr(scope, name) is not None]
    return named == ["user_id"] and not scope.namespace and not scope.extra


def lists_places(listing: Listing, wanted: Filter) -> bool:
    """Whether namespaces are listed that lie in the order of an index."""
    return listing.by == "namespace" and _fields_of(wanted) <= {"user_id"}


def names_user_and_session(wanted: Filter) -> bool:
    """Whether a filter can be led through two indexes, neither of which has the rows of both alone."""
    return {"user_id", "session_id"} <= _fields_of(wanted)


def _is_of_a_branch(wanted: Filter) -> bool:
    """Whether several sessions are read as one, so that each is found by its own index."""
    return any(type(condition) is InBranch for condition in wanted.further)


def _fields_of(wanted: Filter) -> set[str]:
    return {condition.field for condition in wanted.conditions if type(condition) is InScope}


def is_place(wanted: Filter) -> bool:
    """Whether a filter names a namespace, of one user or of all: then the rows below it are those to look at."""
    below = any(type(condition) is Below for condition in wanted.conditions)
    return below and _fields_of(wanted) <= {"user_id"}


def _sorts(wanted: Filter, page: Page) -> bool:
    """Whether no index has the rows in the order that is asked for, while one has all that is asked of most of them."""
    fields = _fields_of(wanted)
    below = any(type(condition) is Below for condition in wanted.conditions)
    if page.order == "added":
        return (bool(fields) or below) and "session_id" not in fields
    return is_place(wanted)
