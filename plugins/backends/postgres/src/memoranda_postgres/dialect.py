"""PostgreSQL's dialect of the shared statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from memoranda.items import SCOPE_FIELDS
from memoranda.shapes import json_text
from memoranda.store import Order
from memoranda.store.backend import AS_ADDED, ONLY_STAYING, Condition, Filter, InScope, Listing, Page, Value, key_bounds
from memoranda.trust import Trust
from memoranda_backend.sql import Change, Dialect, Parameters, Statement, Statements, trust_text
from memoranda_postgres.rows import READ_COLUMNS, UPDATED, jsonb_text, owner_of, value_condition
from memoranda_postgres.terms import FOLDED

SEQUENCE = "added"

EVERY_ITEM = f"{SEQUENCE} > 0"
"""A condition that every item meets; it lets the index in the order of adding serve a statement."""

STAYING_ITEMS = "memory_type IN ('system', 'summary')"
"""The condition on what every window of a conversation shows. The server finds its index by this very text."""

MOMENT = "moment"
"""The column with the time of ``created_at``: a quarter as long as the text, and in the same order."""

_LIKE_SPECIAL = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})
_NO_LIMIT = 2**31

_COLUMN_TYPES = {
    "metadata": "jsonb",
    "archived": "boolean",
    "deleted": "integer",
    "version": "integer",
    "token": "bigint",
    SEQUENCE: "bigint",
    MOMENT: "timestamp",
}

_AS_TEXT = (MOMENT,)
"""Columns that statements take as text; the driver would turn the ends of the calendar into infinite times."""


_USUAL = {
    "metadata": "'{}'::jsonb",
    "updated_at": "NULL::text",
    "task_id": "NULL::text",
    "agent_id": "NULL::text",
    "namespace": "''",
    "archived": "false",
    "expires_at": "''",
    "exact_metadata": "NULL::text",
    SEQUENCE: "",
    MOMENT: "created_at::timestamp",
    "owner": "coalesce('u' || user_id, '')",
    "deleted": "0",
    "version": "1",
}
"""What most items have in these columns, or from what it follows."""


def quoted(name: str) -> str:
    """Return a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a quoted text."""
    return "'" + text.replace("'", "''") + "'"


# Metadata that holds only ids is read from their columns, which is quicker than JSON.
_METADATA = (
    "CASE WHEN metadata ? 'extra' OR metadata ? 'namespace' THEN coalesce(exact_metadata, metadata::text) ELSE '{}' END"
)
_MADE = {"metadata": _METADATA, "updated_at": UPDATED}


def _selected(columns: Sequence[str]) -> str:
    return ", ".join(f"{_MADE[column]} AS {column}" if column in _MADE else column for column in columns)


def _in_order_of_adding(text: str, order: Order) -> str:
    """Return a statement that the index in the order of adding serves, if that is its order.

    The index has a condition that every item meets and no other statement has. Without it, the server expects a single
    item in a session of a user, since it does not know that a session belongs to one user, and takes an index by time.
    """
    return text.replace(" WHERE ", f" WHERE {EVERY_ITEM} AND ", 1) if order == "added" else text


class PostgresDialect(Dialect):
    """PostgreSQL's side of the shared statements.

    ``schema`` qualifies every name, so that nothing depends on a connection's search path. A ``partitioned`` table is
    divided by user: its unique key is owner and id, and a table of ids keeps each id unique over all partitions.
    """

    sequence = SEQUENCE
    created = MOMENT
    updated = UPDATED
    read_columns = READ_COLUMNS
    item_columns = _selected(READ_COLUMNS)

    def __init__(self, schema: str, *, partitioned: bool = False) -> None:
        self.schema = quoted(schema)
        self.names = (schema, "memory_items", "memory_ids")
        """The schema and the tables without quotes, as the driver's functions take them."""
        self.table = f"{self.schema}.memory_items"
        self.ids = f"{self.schema}.memory_ids"
        self.vectors = f"{self.schema}.memory_vectors"
        self.terms = f"{self.schema}.memory_terms"
        self.unindexed = f"{self.schema}.memory_unindexed"
        self.meta = f"{self.schema}.memory_schema"
        self.wrapper = f"{self.schema}.memory_wrapper"
        self.numbers = f"{self.schema}.memory_items_added"
        self.numbers_literal = self.numbers.replace("'", "''")
        self.filling_lock = f"hashtextextended('memoranda terms of ' || {literal(schema)}, 0)"
        """The advisory lock of a batch that fills the index of terms; a purge holds it shared."""
        self.has_terms = f"(to_regclass({literal(self.terms)}) IS NOT NULL)"
        """The condition that there is an index of terms."""
        self.fill_terms = f"{self.schema}.memory_terms_fill"
        """The function that writes such a batch."""
        self.partitioned = partitioned
        self.further_columns = (
            *(*SCOPE_FIELDS, "namespace", "archived", "expires_at", "exact_metadata"),
            *("folded", "token", SEQUENCE, MOMENT),
        )
        if partitioned:
            self.further_columns = (*self.further_columns, "owner")
            self.conflict_key = "owner, id"

    def selected(self, columns: Sequence[str]) -> str:
        """Return the select list of these columns, with the metadata as it was written."""
        return _selected(columns)

    def placeholder(self, position: int) -> str:
        """Return ``$1``, ``$2``, …."""
        return f"${position}"

    def moment(self, parameters: Parameters, time: Any) -> str:
        """Return a time as a value of the moment column; all times are in UTC."""
        return f"{parameters.add(time)}::text::timestamp"

    def scope_column(self, field: str) -> str:
        """Return the plain column that repeats the field of the JSON; a partition key cannot be a generated column."""
        return field

    def archived(self) -> str:
        """Return the boolean column itself, so that partial indexes apply."""
        return "archived"

    def visibility(self, deleted: bool | None, archived: bool | None) -> list[str]:
        """Return the conditions on the two flags that indexes hold."""
        found = [] if deleted is None else ["hidden" if deleted else "NOT hidden"]
        return found if archived is None else [*found, "archived" if archived else "NOT archived"]

    def archived_by(self) -> str:
        """Return the id from the JSON; only archived items have one."""
        return "CASE WHEN archived THEN extra_json::json ->> 'archived_by' END"

    def by_id(self, placeholder: str) -> str:
        """Return the condition on the id; in a partitioned table it also selects the partition."""
        if not self.partitioned:
            return f"id = {placeholder}"
        return f"id = {placeholder} AND owner = (SELECT owner FROM {self.ids} WHERE id = {placeholder})"

    def by_ids(self, placeholder: str) -> str:
        """Return the condition that finds the rows of an array of ids.

        With ``= ANY`` of a parameter, a planner without statistics would compare every row with every id.
        """
        given = f"(SELECT unnest({placeholder}::text[]))"
        if not self.partitioned:
            return f"id IN {given}"
        return f"(owner, id) IN (SELECT owner, id FROM {self.ids} WHERE id IN {given})"

    def lock_by_ids(self, placeholder: str) -> str:
        """Return the statement that locks the items of an array of ids, in the order that all writers use."""
        table = self.ids if self.partitioned else self.table
        return f"SELECT id FROM {table} WHERE id IN (SELECT unnest({placeholder}::text[])) ORDER BY id FOR UPDATE"

    def contains(self, parameters: Parameters, folded: str) -> str:
        """Return a LIKE, which a trigram index can answer."""
        return f"{FOLDED} LIKE {parameters.add(f'%{folded.translate(_LIKE_SPECIAL)}%')}"

    def extra_equals(self, parameters: Parameters, key: str, value: Any) -> str:
        """Compare as JSONB, which compares numbers by value and ignores the order of keys."""
        name, wanted = parameters.add(key), parameters.add(jsonb_text(json_text(value)))
        return f"metadata -> 'extra' -> {name}::text = {wanted}::jsonb"

    def below(self, parameters: Parameters, place: tuple[str, ...]) -> str:
        """Return the range of the keys, with the condition of the partial index."""
        first, end = key_bounds(place)
        return f"(namespace >= {parameters.add(first)} AND namespace < {parameters.add(end)} AND namespace > '')"

    def expiry(self, parameters: Parameters, now: str, expired: bool) -> str:
        """Return the condition on the time of expiry, which is empty for most items."""
        time = parameters.add(now)
        found = f"expires_at {'<=' if expired else '>'} {time}"
        return f"({found} AND expires_at > '')" if expired else f"(expires_at = '' OR {found})"

    def value(self, parameters: Parameters, condition: Value) -> str:
        """Return the condition on a value; see :mod:`memoranda_postgres.rows`."""
        if condition == ONLY_STAYING:
            return STAYING_ITEMS
        return value_condition(self.by_ids, parameters, condition)

    def any_id(self, parameters: Parameters, ids: Sequence[str]) -> str:
        """Return the condition that finds the rows of several ids, bound as one array."""
        return self.by_ids(parameters.add(list(ids)))

    def same(self, left: str, right: str) -> str:
        """Compare with NULL equal to NULL."""
        return f"{left} IS NOT DISTINCT FROM {right}"

    def limit(self, parameters: Parameters, count: int) -> str:
        """Write the number into the text; a plan for an unknown limit would sort every match."""
        return "" if count >= _NO_LIMIT else f"LIMIT {count}"

    def given_trust(self, row: str = "") -> str:
        """Return the field of the JSON; only rows whose text contains the name are parsed."""
        column = f"{row}extra_json"
        return f"CASE WHEN {column} LIKE '{{%\"trust\"%' THEN {column}::jsonb ->> 'trust' END"

    def replacing_further(self) -> str:
        """Compare the two trusts by their places in a list, and write the old one into the new JSON if it is lower."""
        old, new = trust_text(self, "stored."), trust_text(self, "excluded.")
        names = ", ".join(f"'{trust}'" for trust in Trust)
        ranks = f"ARRAY[{names}]"
        approved = (
            "excluded.extra_json LIKE '{%\"approval\"%' "
            "AND excluded.extra_json::jsonb #>> '{approval,version}' = stored.version::text"
        )
        raised = f"array_position({ranks}, {new}) > coalesce(array_position({ranks}, {old}), 1)"
        # JSON keeps the text of each value, which JSONB does not: -0.0, 1e2 and the order of keys.
        others = "SELECT key, value FROM json_each(excluded.extra_json::json) WHERE key <> 'trust'"
        fields = f"{others} UNION ALL SELECT 'trust', to_json({old})"
        lowered = f"(SELECT json_object_agg(key, value)::text FROM ({fields}) AS fields)"
        return (
            f"CASE WHEN (stored.memory_type <> excluded.memory_type OR stored.extra_json LIKE '%\"trust\"%' "
            f"OR excluded.extra_json LIKE '%\"trust\"%') AND {raised} AND NOT ({approved}) "
            f"THEN {lowered} ELSE excluded.extra_json END"
        )

    def next_version(self) -> str:
        """Keep the version of a row that this very call wrote before its answer was lost."""
        return "CASE WHEN stored.token = excluded.token THEN stored.version ELSE stored.version + excluded.version END"

    def column_type(self, column: str) -> str:
        """Return the type of a column that an upsert binds."""
        return _COLUMN_TYPES.get(column, "text")


class PostgresStatements(Statements):
    """The shared statements, and those of PostgreSQL alone."""

    dialect: PostgresDialect

    def search(self, wanted: Filter, page: Page, columns: Sequence[str] = ()) -> Statement:
        """Select a page of the items that match."""
        text, values = super().search(wanted, page, columns)
        return _in_order_of_adding(text, page.order), values

    def window(self, wanted: Filter, page: Page) -> Statement:
        """Select a page of the items that match, newest first in the order of adding.

        If it is full, the older ones that stay in every window follow. Their places are compared as a sum, so that the
        server does not take the index in the order of adding: it would expect few places in a range of unknown end.
        """
        columns = (*self.dialect.read_columns, SEQUENCE)
        newest, values = self.search(wanted, page, columns)
        said, _ = self.search(wanted, AS_ADDED, columns)  # Its conditions bind the same values.
        oldest = f"SELECT CASE WHEN count(*) = {page.limit} THEN min({SEQUENCE}) END FROM newest"
        text = (
            f"WITH newest AS ({newest}) SELECT * FROM newest UNION ALL SELECT * FROM ({said}) AS said "
            f"WHERE {STAYING_ITEMS} AND {SEQUENCE} + 0 < ({oldest}) ORDER BY {SEQUENCE} DESC"
        )
        return text, values

    def search_newest(self, wanted: Filter, page: Page, size: int, columns: Sequence[str] = ()) -> Statement:
        """Select a page of the items that contain the query, among the newest ``size`` that meet the other conditions.

        Two columns follow the others: the rank by age of each row, and if it contains the query. The row of rank
        ``size`` may not; it shows that there are older ones.
        """
        parameters, order = Parameters(self.dialect), self.ordering(page.order, newest_first=True)
        where = self.conditions(parameters, replace(wanted, query=""))
        aged = f"SELECT *, row_number() OVER ({order}) AS age FROM {self.dialect.table}"
        newest = _in_order_of_adding(f"{aged} WHERE {where} {order} LIMIT {size}", page.order)
        hit = self.dialect.contains(parameters, wanted.folded)
        selected = self.dialect.selected(columns or self.dialect.read_columns)
        text = (
            f"SELECT {selected}, age, {hit} FROM ({newest}) AS newest WHERE {hit} OR age = {size} {order} "
            f"LIMIT {page.end}"
        )
        return text, parameters.values

    def page(
        self,
        wanted: Filter,
        *,
        after: tuple[str, int] | None,
        size: int,
        include_deleted: bool = False,
        deleted_only: bool = False,
        order: Order = "created",
    ) -> Statement:
        """Select the next page of a scan, oldest first."""
        text, values = super().page(
            wanted, after=after, size=size, include_deleted=include_deleted, deleted_only=deleted_only, order=order
        )
        return _in_order_of_adding(text, order), values

    def owners_page(self, listing: Listing, wanted: Filter, after: str | None, size: int) -> Statement:
        """Select the next owners in order, each with its number of items and its first and last time."""
        parameters = Parameters(self.dialect)
        column = self.dialect.owner_column(listing.by)
        where = f"{self.conditions(parameters, wanted)} AND {self.dialect.has_owner(column)}"
        if after is not None:
            where += f" AND {column} > {parameters.add(after)}"
        text = (
            f"SELECT {column}, count(*), min({MOMENT}), max({MOMENT}) FROM {self.dialect.table} "
            f"WHERE {where} GROUP BY {column} ORDER BY {column} LIMIT {size}"
        )
        return text, parameters.values

    def condition(self, parameters: Parameters, condition: Condition) -> str:
        """Return the text of one condition; a user also selects the partition."""
        found = super().condition(parameters, condition)
        if self.dialect.partitioned and type(condition) is InScope and condition.field == "user_id":
            found += f" AND owner = {parameters.add(owner_of(condition.value))}"
        return found

    def locking(self, change: Change, item_id: str | None, *, hidden: bool = False) -> str:
        """Return the text of a change that locks its rows in the order of their ids.

        Rows of a partitioned table are locked beforehand. ``hidden`` says that it changes only hidden rows.
        """
        text, _ = change.statement
        if item_id is not None or self.dialect.partitioned:
            return text
        if hidden:
            # The planner does not know of rows that were hidden lately, and would compare every row with every other.
            # Here each locked row is looked up by its key.
            return f"{change.change} WHERE id IN ({self.chosen(change)} FOR UPDATE)"
        # The conditions come twice, so that both scans use an index.
        return f"{text} AND id IN ({self.chosen(change)} FOR UPDATE)"

    def chosen(self, change: Change) -> str:
        """Return the query of the ids of the rows that a change affects, in the order of locking."""
        return f"SELECT id FROM {self.dialect.table} WHERE {change.where} ORDER BY id"

    def among(self, change: Change, placeholder: str) -> str:
        """Return the text of a change of a partitioned table, limited to the rows of an array of ids.

        Each row is looked up by its key before it is compared with the conditions. The other way round, a planner
        without statistics would compare every row with every id.
        """
        given = (
            f"SELECT owner AS its_owner, id AS its_id FROM {self.dialect.ids} "
            f"WHERE id IN (SELECT unnest({placeholder}::text[]))"
        )
        found = f"SELECT * FROM {self.dialect.table} WHERE owner = its_owner AND id = its_id OFFSET 0"
        matching = (
            f"SELECT owner, id FROM ({given}) AS given CROSS JOIN LATERAL ({found}) AS found WHERE {change.where}"
        )
        return f"{change.change} WHERE (owner, id) IN ({matching})"

    @property
    def usual_columns(self) -> tuple[str, ...]:
        """The columns in which usual items differ, in the order of ``insert_columns``."""
        return tuple(name for name in self.insert_columns if name not in _USUAL)

    def upsert_usual_arrays(self, fields: tuple[str, ...]) -> str:
        """Return the text of ``upsert_arrays`` for items that need only ``usual_columns``; their numbers are drawn."""
        drawn = _USUAL | {SEQUENCE: self._drawn}
        selected = ", ".join(f"{drawn.get(name, name)} AS {name}" for name in self.insert_columns)
        columns = self.usual_columns
        return self._claimed(f"SELECT {selected} FROM {self._unnested(columns)}", fields, len(columns) + 1)

    def upsert_arrays(self, fields: tuple[str, ...], *, numbered: bool) -> str:
        """Return the text that upserts rows given as one array per column, in the order of ``insert_columns``.

        Rows are written in the order of their ids, so that two such statements never deadlock. Unless the rows come
        ``numbered``, their numbers are drawn here in the order of the arrays. ``fields`` are those that a row of the
        same id must share besides the user. Bound last is the present: a row that has expired by then is not replaced.
        """
        given = self._from_arrays(SEQUENCE if numbered else self._drawn)
        return self._claimed(given, fields, len(self.insert_columns) + 1)

    @property
    def _drawn(self) -> str:
        return f"nextval('{self.dialect.numbers_literal}')"

    def insert_or_lock_arrays(self) -> str:
        """Return the text that inserts the rows with new ids, given as in ``upsert_arrays``, and returns their ids.

        The others are locked and left as they are.
        """
        drawn = f"coalesce({SEQUENCE}, {self._drawn})"
        source = f'{self._from_arrays(drawn)} ORDER BY id COLLATE "C"'
        # A conflicting row is locked before the condition is evaluated.
        return self.upsert_text(source, "false", "stored.id")

    def _from_arrays(self, number: str) -> str:
        """Return the query of rows given as one array per column, with this expression for their numbers."""
        expressions = {name: f"{name}::{self.dialect.column_type(name)}" for name in _AS_TEXT} | {SEQUENCE: number}
        selected = ", ".join(f"{expressions.get(name, name)} AS {name}" for name in self.insert_columns)
        return f"SELECT {selected} FROM {self._unnested(self.insert_columns)}"

    def _unnested(self, columns: Sequence[str]) -> str:
        arrays = ", ".join(
            f"${at}::{'text' if name in _AS_TEXT else self.dialect.column_type(name)}[]"
            for at, name in enumerate(columns, 1)
        )
        return f"unnest({arrays}) AS given ({', '.join(columns)})"

    def claim_ids(self) -> str:
        """Return the text that locks ids, given as arrays of ids and owners, and reserves new ones."""
        return self._claim("unnest($1::text[], $2::text[]) AS given (id, owner)")

    def _claim(self, given: str) -> str:
        return (
            f"INSERT INTO {self.dialect.ids} AS stored (id, owner) SELECT id, owner FROM {given} "
            f'ORDER BY id COLLATE "C" '
            f"ON CONFLICT (id) DO UPDATE SET owner = excluded.owner WHERE stored.owner = excluded.owner"
        )

    def upsert_one(self, fields: tuple[str, ...]) -> str:
        """Return the text of ``upsert_arrays`` for one row, whose columns are bound as they are."""
        drawn = f"coalesce(${self.insert_columns.index(SEQUENCE) + 1}::bigint, {self._drawn})"
        values = [
            f"${at}::text::{self.dialect.column_type(name)}" if name in _AS_TEXT else f"${at}"
            for at, name in enumerate(self.insert_columns, 1)
        ]
        values[self.insert_columns.index(SEQUENCE)] = drawn
        now = len(values) + 1
        if not self.dialect.partitioned:
            return self._upserted(f"VALUES ({', '.join(values)})", fields, now)
        typed = (f"{value}::{self.dialect.column_type(name)} AS {name}" for value, name in self._named(values))
        return self._claimed(f"SELECT {', '.join(typed)}", fields, now)

    def _named(self, values: list[str]) -> zip[tuple[str, str]]:
        return zip(values, self.insert_columns, strict=True)

    def _claimed(self, given: str, fields: tuple[str, ...], now: int) -> str:
        columns = ", ".join(self.insert_columns)
        if not self.dialect.partitioned:
            return self._upserted(f'SELECT {columns} FROM ({given}) AS given ORDER BY id COLLATE "C"', fields, now)
        # No constraint spans the partitions, so an id is first claimed for its owner in the table of ids.
        claims = f"given AS MATERIALIZED ({given}), claimed AS ({self._claim('given')} RETURNING id)"
        chosen = (
            f"SELECT {columns} FROM given WHERE given.id IN (SELECT claimed.id FROM claimed) "
            f'ORDER BY given.id COLLATE "C"'
        )
        return self._upserted(chosen, fields, now, claims)

    def _upserted(self, source: str, fields: tuple[str, ...], now: int, *clauses: str) -> str:
        """Return the text that upserts rows; of a row that it may not replace, it returns nothing.

        That row belongs to another user, differs in one of the fields, or has expired by the parameter ``now``.
        """
        same = [self.dialect.same(f"stored.{name}", f"excluded.{name}") for name in dict.fromkeys(("user_id", *fields))]
        lives = f"(stored.expires_at = '' OR stored.expires_at > ${now}::text)"
        text = self.upsert_text(source, " AND ".join((*same, lives)), "stored.id, stored.version")
        return f"WITH {', '.join(clauses)} {text}" if clauses else text
