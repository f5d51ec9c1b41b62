"""The statements that every SQL backend runs, built once for its dialect.

Each method returns the text and the values to bind. The text depends only on which conditions there are, never on
their values, so that engines can keep it prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from memoranda.errors import UnsupportedError
from memoranda.items import MemoryMetadata
from memoranda.store.conditions import (
    Archived,
    AtLeast,
    Below,
    Condition,
    Contains,
    Created,
    Expiry,
    ExtraEquals,
    FieldEquals,
    InBranch,
    InScope,
    OfUsers,
    Past,
    metadata_conditions,
)
from memoranda.store.filters import Filter, Order, Page
from memoranda.store.values import Value
from memoranda.trust import TRUST_OF_TYPES, Trust
from memoranda_backend.sql.dialect import Dialect, Parameters
from memoranda_backend.sql.rows import Row

Statement = tuple[str, Sequence[Any]]

_ROW_COLUMNS = Row._fields


class Change(NamedTuple):
    """A statement that changes rows, in its parts: what it does, to which rows, and the values that both bind."""

    change: str
    where: str
    values: Sequence[Any]

    @property
    def statement(self) -> Statement:
        """The whole of it."""
        return f"{self.change} WHERE {self.where}", self.values


_TOGETHER = 100
"""How many parts one list of a statement has. Engines limit that, and a branch of many forks has more."""


class Statements:
    """Builds statements for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._translations: dict[type[Condition], Callable[[Parameters, Any], str]] = {
            InScope: self._in_scope,
            ExtraEquals: self._extra_equals,
            Archived: self._archived,
            AtLeast: self._at_least,
            FieldEquals: self._field_equals,
            Contains: self._contains,
            Below: self._below,
            Created: self._created,
            Expiry: self._expiry,
            Value: self._value,
            InBranch: self._in_branch,
            OfUsers: self._of_users,
            Past: self._past,
        }
        self._get = (
            f"SELECT {dialect.item_columns} FROM {dialect.table} "
            f"WHERE {dialect.by_id(dialect.placeholder(1))} AND deleted = 0"
        )
        self._place = ", ".join((*dialect.scan_columns, dialect.sequence))
        self.insert_columns = (*_ROW_COLUMNS, *dialect.further_columns, "deleted", "version")
        """The columns that an upsert binds, in its order; ``version`` is how often the row is added, usually 1."""
        kept = ("id", "version", dialect.sequence)
        self._assignments = ", ".join(
            f"{column} = {dialect.replacing_further() if column == 'extra_json' else f'excluded.{column}'}"
            for column in self.insert_columns
            if column not in kept
        )

    def conditions(self, parameters: Parameters, wanted: Filter, *, deleted: bool | None = False) -> str:
        """Return the WHERE text for a filter; ``deleted`` None takes hidden rows and others alike.

        Raises UnsupportedError for a condition of a kind that has no translation.
        """
        # Deleted and archived rows are chosen together, since engines have both in one index.
        found = self.dialect.visibility(deleted, wanted.archived)
        passed_over = wanted.archived is not None
        for condition in wanted.conditions:
            if passed_over and type(condition) is Archived:
                passed_over = False
            else:
                found.append(self.condition(parameters, condition))
        return " AND ".join(found) or "1 = 1"

    def condition(self, parameters: Parameters, condition: Condition) -> str:
        """Return the text of one condition, which AND can join to others.

        The exact type decides, so that an unknown kind is refused and never taken for another one. Raises
        UnsupportedError.
        """
        translate = self._translations.get(type(condition))
        if translate is None:
            raise UnsupportedError(type(self.dialect).__name__, f"filters of the kind {type(condition).__name__}")
        return translate(parameters, condition)

    def _in_scope(self, parameters: Parameters, condition: InScope) -> str:
        return f"{self.dialect.scope_column(condition.field)} = {parameters.add(condition.value)}"

    def _of_users(self, parameters: Parameters, condition: OfUsers) -> str:
        owner, prefix = self.dialect.scope_column("user_id"), condition.prefix
        return f"({owner} IS NULL OR substr({owner}, 1, {len(prefix)}) <> '{prefix}')"

    def _extra_equals(self, parameters: Parameters, condition: ExtraEquals) -> str:
        return self.dialect.extra_equals(parameters, condition.key, condition.value)

    def _archived(self, parameters: Parameters, condition: Archived) -> str:
        return self.dialect.archived() if condition.archived else f"NOT ({self.dialect.archived()})"

    def _at_least(self, parameters: Parameters, condition: AtLeast) -> str:
        passing = ", ".join(f"'{trust}'" for trust in Trust if trust >= condition.trust)
        return "1 = 1" if condition.trust is min(Trust) else f"{trust_text(self.dialect)} IN ({passing})"

    def _field_equals(self, parameters: Parameters, condition: FieldEquals) -> str:
        if condition.field not in _ROW_COLUMNS:
            raise UnsupportedError(type(self.dialect).__name__, f"filters of the field {condition.field!r}")
        return f"{condition.field} = {parameters.add(condition.text)}"

    def _contains(self, parameters: Parameters, condition: Contains) -> str:
        return self.dialect.contains(parameters, condition.folded)

    def _below(self, parameters: Parameters, condition: Below) -> str:
        return self.dialect.below(parameters, condition.place)

    def _created(self, parameters: Parameters, condition: Created) -> str:
        bounds = ((">=", condition.since), ("<", condition.until))
        created, moment = self.dialect.created, self.dialect.moment
        found = [f"{created} {sign} {moment(parameters, time)}" for sign, time in bounds if time is not None]
        return " AND ".join(found) or "1 = 1"

    def _expiry(self, parameters: Parameters, condition: Expiry) -> str:
        return self.dialect.expiry(parameters, condition.now, condition.expired)

    def _value(self, parameters: Parameters, condition: Value) -> str:
        return self.dialect.value(parameters, condition)

    def _in_branch(self, parameters: Parameters, condition: InBranch) -> str:
        return f"({any_of([self._of_session(parameters, *each) for each in condition.sessions()])})"

    def _of_session(self, parameters: Parameters, session: str, archived: bool, past: Sequence[Condition]) -> str:
        conditions = (InScope("session_id", session), Archived(archived), *past)
        return f"({' AND '.join(self.condition(parameters, condition) for condition in conditions)})"

    def _past(self, parameters: Parameters, condition: Past) -> str:
        dialect = self.dialect
        text = (
            f"{dialect.upto(parameters.add(condition.upto))} AND memory_type <> 'branch' "
            f"AND {dialect.same(dialect.scope_column('user_id'), parameters.add(condition.user))}"
        )
        if condition.summary is None:
            return text
        # The summary's id is named where no column of the summary's own row can be meant.
        shared = (
            f"EXISTS (SELECT 1 FROM (SELECT {dialect.archived_by()} AS sought) AS given, {dialect.table} AS summary "
            f"WHERE {dialect.by_id('given.sought')} AND deleted = 0 "
            f"AND summary.{dialect.sequence} <= {parameters.add(condition.upto)})"
        )
        return f"{text} AND {'' if condition.summary == 'shared' else 'NOT '}{shared}"

    def scope_conditions(self, parameters: Parameters, metadata: MemoryMetadata | None) -> list[str]:
        """Return the conditions of a metadata filter."""
        return [self.condition(parameters, condition) for condition in metadata_conditions(metadata)]

    def get(self, item_id: str) -> Statement:
        """Select one live item by its id."""
        return self._get, (item_id,)

    def get_many(self, ids: Sequence[str]) -> Statement:
        """Select the live items of several ids, in any order."""
        parameters = Parameters(self.dialect)
        where = self.dialect.any_id(parameters, ids)
        return (
            f"SELECT {self.dialect.item_columns} FROM {self.dialect.table} WHERE {where} AND deleted = 0",
            parameters.values,
        )

    def ordering(self, order: Order, *, newest_first: bool) -> str:
        """Return the ORDER BY of an order; ties by the order of adding."""
        end = " DESC" if newest_first else ""
        columns = {"created": (self.dialect.created,), "updated": (self.dialect.updated,), "added": ()}[order]
        return "ORDER BY " + ", ".join(f"{column}{end}" for column in (*columns, self.dialect.sequence))

    def search(self, wanted: Filter, page: Page, columns: Sequence[str] = ()) -> Statement:
        """Select a page of the items that match, newest first: these columns, or all that items are read from."""
        columns = columns or self.dialect.read_columns
        parameters = Parameters(self.dialect)
        order = self.ordering(page.order, newest_first=True)
        parts = wanted.parts()
        if len(parts) > 1:
            kinds = [self._kind(parameters, self.conditions(parameters, part), order, page.end) for part in parts]
            source = f"SELECT {', '.join(columns)} FROM ({union_all(kinds)}) AS kinds"
        else:
            where = self.conditions(parameters, wanted)
            source = f"SELECT {self.dialect.selected(columns)} FROM {self.dialect.table} WHERE {where}"
        last = self.dialect.limit(parameters, page.limit)
        if page.offset:
            last += f" OFFSET {parameters.add(page.offset)}"
        return f"{source} {order} {last}", parameters.values

    def place(self, item_id: str) -> Statement:
        """Select the place of an item in the order of adding, hidden or not."""
        dialect, parameters = self.dialect, Parameters(self.dialect)
        where = dialect.by_id(parameters.add(item_id))
        return f"SELECT {dialect.sequence} FROM {dialect.table} WHERE {where}", parameters.values

    def _kind(self, parameters: Parameters, where: str, order: str, size: int) -> str:
        """Return the text that selects the first rows of one kind, with their places, as an index has them."""
        dialect = self.dialect
        columns = dict.fromkeys((*dialect.read_columns, *dialect.scan_columns, dialect.sequence, dialect.created))
        return (
            f"SELECT * FROM (SELECT {dialect.selected(tuple(columns))} FROM {dialect.table} "
            f"WHERE {where} {order} {dialect.limit(parameters, size)}) AS kind"
        )

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
        """Select the next page of a scan, oldest first; its last column is the sequence, for the page after it.

        Before it stand the dialect's ``scan_columns``. ``after`` is where the page before ended: the time by which it
        is ordered, and the sequence.
        """
        parameters = Parameters(self.dialect)
        deleted = deleted_only or (None if include_deleted else False)
        in_order = self.ordering(order, newest_first=False)

        def where(part: Filter) -> str:
            return self.conditions(parameters, part, deleted=deleted) + self._behind(parameters, after, order)

        parts = wanted.parts()
        if len(parts) > 1:
            kinds = [self._kind(parameters, where(part), in_order, size) for part in parts]
            columns, source = ", ".join(self.dialect.read_columns), f"({union_all(kinds)}) AS kinds"
        else:
            columns, source = self.dialect.item_columns, f"{self.dialect.table} WHERE {where(wanted)}"
        text = f"SELECT {columns}, {self._place} FROM {source} {in_order} {self.dialect.limit(parameters, size)}"
        return text, parameters.values

    def _behind(self, parameters: Parameters, after: tuple[Any, int] | None, order: Order) -> str:
        """Return the condition, to be joined to others, of rows behind a place of a scan."""
        if after is None:
            return ""
        if order == "added":
            return f" AND {self.dialect.sequence} > {parameters.add(after[1])}"
        dialect = self.dialect
        if order == "updated":
            column, time = dialect.updated, parameters.add(after[0])
        else:
            column, time = dialect.created, dialect.moment(parameters, after[0])
        return f" AND ({column}, {dialect.sequence}) > ({time}, {parameters.add(after[1])})"

    def count(self, wanted: Filter, *, include_deleted: bool = False) -> Statement:
        """Count the items that match."""
        parameters = Parameters(self.dialect)
        deleted = None if include_deleted else False
        wheres = [self.conditions(parameters, part, deleted=deleted) for part in wanted.parts()]
        counts = [f"SELECT count(*) FROM {self.dialect.table} WHERE {where}" for where in wheres]
        return counts[0] if len(counts) == 1 else f"SELECT ({') + ('.join(counts)})", parameters.values

    def upsert_text(self, source: str, condition: str, returning: str = "version") -> str:
        """Return the text that upserts the rows of ``source``, replacing only where the condition holds.

        An empty ``returning`` returns no rows.
        """
        dialect = self.dialect
        return (
            f"INSERT INTO {dialect.table} AS stored ({', '.join(self.insert_columns)}) {source} "
            f"ON CONFLICT ({dialect.conflict_key}) DO UPDATE SET {self._assignments}, "
            f"version = {dialect.next_version()} WHERE {condition}{f' RETURNING {returning}' if returning else ''}"
        )

    def owned(self, parameters: Parameters, new: str, within: MemoryMetadata | None) -> str:
        """Return the condition under which an upsert may replace a row: the same user, and inside the scope.

        ``new`` is what the columns of the new row are named by.
        """
        user = self.dialect.scope_column("user_id")
        conditions = [
            self.dialect.same(f"stored.{user}", f"{new}{user}"),
            *self.scope_conditions(parameters, within),
        ]
        return " AND ".join(conditions)

    def hide(self, wanted: Filter, item_id: str | None = None) -> Statement:
        """Hide the live items that match, or the one of this id if it matches."""
        return self.hiding(wanted, item_id).statement

    def show(self, wanted: Filter, item_id: str | None = None) -> Statement:
        """Bring hidden items back."""
        return self.showing(wanted, item_id).statement

    def purge(self, wanted: Filter, item_id: str | None = None, *, deleted_only: bool = False) -> Statement:
        """Delete rows for good, hidden ones too."""
        return self.purging(wanted, item_id, deleted_only=deleted_only).statement

    def hiding(self, wanted: Filter, item_id: str | None = None) -> Change:
        """Return what :meth:`hide` does, in its parts."""
        return self._change(f"UPDATE {self.dialect.table} SET deleted = 1", wanted, item_id, deleted=False)

    def showing(self, wanted: Filter, item_id: str | None = None) -> Change:
        """Return what :meth:`show` does, in its parts."""
        return self._change(f"UPDATE {self.dialect.table} SET deleted = 0", wanted, item_id, deleted=True)

    def purging(self, wanted: Filter, item_id: str | None = None, *, deleted_only: bool = False) -> Change:
        """Return what :meth:`purge` does, in its parts."""
        return self._change(
            f"DELETE FROM {self.dialect.table}", wanted, item_id, deleted=True if deleted_only else None
        )

    def _change(self, change: str, wanted: Filter, item_id: str | None, *, deleted: bool | None) -> Change:
        parameters = Parameters(self.dialect)
        where = self.conditions(parameters, wanted, deleted=deleted)
        if item_id is not None:
            where += f" AND {self.dialect.by_id(parameters.add(item_id))}"
        return Change(change, where, parameters.values)


def trust_text(dialect: Dialect, row: str = "") -> str:
    """Return the expression of how far an item is trusted, as :func:`memoranda.trust.trusted_as` has it."""
    types = " ".join(f"WHEN '{kind}' THEN '{trust}'" for kind, trust in TRUST_OF_TYPES.items())
    return f"coalesce({dialect.given_trust(row)}, CASE {row}memory_type {types} ELSE '{Trust.AGENT}' END)"


def any_of(conditions: list[str]) -> str:
    """Return the condition that one of these holds, however many they are."""
    while len(conditions) > _TOGETHER:
        conditions = [f"({' OR '.join(group)})" for group in _in_groups(conditions)]
    return " OR ".join(conditions)


def union_all(selects: list[str]) -> str:
    """Return the text that selects the rows of all of these, however many they are."""
    while len(selects) > _TOGETHER:
        selects = [f"SELECT * FROM ({' UNION ALL '.join(group)}) AS part" for group in _in_groups(selects)]
    return " UNION ALL ".join(selects)


def _in_groups(parts: list[str]) -> Iterator[list[str]]:
    return (parts[start : start + _TOGETHER] for start in range(0, len(parts), _TOGETHER))
