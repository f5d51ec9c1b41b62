"""How the shared statements are said to PostgreSQL."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryItem
from memoranda.shapes import json_text
from memoranda.sql import ITEM_COLUMNS, Change, Dialect, Parameters, Row, Statement, Statements, pack
from memoranda.store import Archived, Condition, FieldEquals, Filter, InScope

SEQUENCE = "added"

TEXT_COLUMNS = ("folded", "terms", "lexemes")
"""What is made of the content for searching; see :mod:`memoranda_postgres.terms`."""

# A float that JSON writes with an exponent would come back from JSONB as a whole number.
_EXPONENT = re.compile(r"\d[eE][+-]?\d")
_LIKE_SPECIAL = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})
_NO_LIMIT = 2**31
_MOST_TEXTS = 500
_BOUND_AS_THEY_ARE: Mapping[type[Condition], Callable[[Any], tuple[str, ...]]] = {
    InScope: lambda condition: (condition.value,),
    FieldEquals: lambda condition: (condition.text,),
    Archived: lambda condition: (),
}
"""The kinds whose text is given by their shape, with what each binds; a statement of others is made for each search."""

_COLUMN_TYPES = {
    "metadata": "jsonb",
    "archived": "boolean",
    "deleted": "integer",
    "version": "integer",
    "token": "bigint",
    SEQUENCE: "bigint",
}


def quoted(name: str) -> str:
    """Return an identifier as PostgreSQL wants it quoted."""
    return '"' + name.replace('"', '""') + '"'


def jsonb_text(text: str) -> str:
    """Return JSON text as JSONB keeps it without loss: large floats are written out with their decimal point.

    JSONB holds numbers as decimals. Written out, a float stays a float and equals only the numbers that Python's float
    equals.
    """
    return _exact(json.loads(text)) if _EXPONENT.search(text) else text


def _exact(value: Any) -> str:
    if isinstance(value, float) and abs(value) >= 1e16:
        return f"{int(value)}.0"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json_text(key)}:{_exact(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_exact, value)) + "]"
    return json_text(value)


def kept_by_jsonb(value: Any) -> bool:
    """Whether JSONB gives a value back as it was: it sorts the keys of objects, and its nought has no sign."""
    if isinstance(value, float):
        return value != 0 or math.copysign(1, value) > 0
    if isinstance(value, Mapping):
        keys = [key.encode() for key in value]
        return keys == sorted(keys, key=lambda key: (len(key), key)) and all(map(kept_by_jsonb, value.values()))
    return not isinstance(value, list | tuple) or all(map(kept_by_jsonb, value))


def owner_of(user_id: str | None) -> str:
    """Return the partition key of a user; nobody's items have one too, since a key may not be NULL."""
    return "" if user_id is None else f"u{user_id}"


class PostgresDialect(Dialect):
    """PostgreSQL's side of the shared statements.

    ``schema`` qualifies every name, so that nothing depends on a connection's search path. ``partitioned`` says that
    the table is divided by user: its unique key is then owner and id, and a table of ids keeps each id unique over all.
    """

    sequence = SEQUENCE
    item_columns = ", ".join(
        "coalesce(exact_metadata, metadata::text) AS metadata" if name == "metadata" else name for name in ITEM_COLUMNS
    )

    def __init__(self, schema: str, *, partitioned: bool = False) -> None:
        self.schema = quoted(schema)
        self.names = (schema, "memory_items", "memory_ids")
        """The schema and the tables without quotes, as the driver's own functions want them."""
        self.table = f"{self.schema}.memory_items"
        self.ids = f"{self.schema}.memory_ids"
        self.vectors = f"{self.schema}.memory_vectors"
        self.meta = f"{self.schema}.memory_schema"
        self.numbers = f"{self.schema}.memory_items_added"
        self.numbers_literal = self.numbers.replace("'", "''")
        self.partitioned = partitioned
        self.further_columns = (*SCOPE_FIELDS, "archived", "exact_metadata", *TEXT_COLUMNS, "token", SEQUENCE)
        if partitioned:
            self.further_columns = (*self.further_columns, "owner")
            self.conflict_key = "owner, id"

    def placeholder(self, position: int) -> str:
        """Return ``$1``, ``$2``, …."""
        return f"${position}"

    def scope_column(self, field: str) -> str:
        """Return the plain column that repeats the field of the JSON: a partition key cannot be a generated one."""
        return field

    def archived(self) -> str:
        """Return the boolean column itself, so that partial indexes apply."""
        return "archived"

    def by_id(self, placeholder: str) -> str:
        """Return the condition on the id; in a partitioned table it also leads to the one partition to look in."""
        if not self.partitioned:
            return f"id = {placeholder}"
        return f"id = {placeholder} AND owner = (SELECT owner FROM {self.ids} WHERE id = {placeholder})"

    def by_ids(self, placeholder: str) -> str:
        """Return the condition that finds the rows of an array of ids.

        ``= ANY`` of a parameter would compare every row with every id where the planner does not know the table yet.
        """
        given = f"(SELECT unnest({placeholder}::text[]))"
        if not self.partitioned:
            return f"id IN {given}"
        return f"(owner, id) IN (SELECT owner, id FROM {self.ids} WHERE id IN {given})"

    def lock_by_ids(self, placeholder: str) -> str:
        """Return the statement that locks the items of an array of ids, in the one order that all writers keep to."""
        table = self.ids if self.partitioned else self.table
        return f"SELECT id FROM {table} WHERE id IN (SELECT unnest({placeholder}::text[])) ORDER BY id FOR UPDATE"

    def contains(self, parameters: Parameters, folded: str) -> str:
        """Return a LIKE, which a trigram index can answer."""
        return f"folded LIKE {parameters.add(f'%{folded.translate(_LIKE_SPECIAL)}%')}"

    def extra_equals(self, parameters: Parameters, key: str, value: Any) -> str:
        """Compare as JSONB, which compares numbers by value and objects whatever the order of their keys."""
        name, wanted = parameters.add(key), parameters.add(jsonb_text(json_text(value)))
        return f"metadata -> 'extra' -> {name}::text = {wanted}::jsonb"

    def same(self, left: str, right: str) -> str:
        """Compare with NULL equal to NULL."""
        return f"{left} IS NOT DISTINCT FROM {right}"

    def limit(self, parameters: Parameters, count: int) -> str:
        """Write the number into the text: a plan for an unknown limit would sort everything that matches."""
        return "" if count >= _NO_LIMIT else f"LIMIT {count}"

    def next_version(self) -> str:
        """Leave the version alone where the row was written by this very call, whose answer was lost on the way."""
        return "CASE WHEN stored.token = excluded.token THEN stored.version ELSE stored.version + excluded.version END"

    def column_type(self, column: str) -> str:
        """Return the type of a column that an upsert binds."""
        return _COLUMN_TYPES.get(column, "text")


class PostgresStatements(Statements):
    """The shared statements, and what only PostgreSQL has."""

    dialect: PostgresDialect

    def __init__(self, dialect: PostgresDialect) -> None:
        super().__init__(dialect)
        self._searches: dict[tuple[Any, ...], str] = {}

    def search(self, wanted: Filter, limit: int) -> Statement:
        """Select the newest items that match. The text of a plain search is made once for each set of conditions."""
        conditions = wanted.conditions
        if self.dialect.partitioned or any(type(condition) not in _BOUND_AS_THEY_ARE for condition in conditions):
            return super().search(wanted, limit)
        key = (limit, *(condition.shape for condition in conditions))
        text = self._searches.get(key)
        if text is not None:
            return text, [value for condition in conditions for value in _BOUND_AS_THEY_ARE[type(condition)](condition)]
        text, values = super().search(wanted, limit)
        if len(self._searches) < _MOST_TEXTS:
            self._searches[key] = text
        return text, values

    def condition(self, parameters: Parameters, condition: Condition) -> str:
        """Return the text of one condition; a user's leads to the one partition where the items are."""
        found = super().condition(parameters, condition)
        if self.dialect.partitioned and type(condition) is InScope and condition.field == "user_id":
            found += f" AND owner = {parameters.add(owner_of(condition.value))}"
        return found

    def locking(self, change: Change, item_id: str | None) -> str:
        """Return the text of a change that locks many rows in the order in which they are added.

        Those of a partitioned table are locked beforehand.
        """
        text, _ = change.statement
        if item_id is not None or self.dialect.partitioned:
            return text
        # The conditions stand twice, so that both ways to the rows go through an index.
        return f"{text} AND id IN ({self.chosen(change)} FOR UPDATE)"

    def chosen(self, change: Change) -> str:
        """Return the text that selects the ids of the rows that a change would reach, in the order of locking."""
        return f"SELECT id FROM {self.dialect.table} WHERE {change.where} ORDER BY id"

    def among(self, change: Change, placeholder: str) -> str:
        """Return the text of a change of a partitioned table that reaches only rows of an array of ids.

        Each is looked up by its key and only then compared with the conditions: a plan that went from the conditions
        to the array would compare every row with every id where the planner does not know the table yet.
        """
        given = (
            f"SELECT owner AS its_owner, id AS its_id FROM {self.dialect.ids} "
            f"WHERE id IN (SELECT unnest({placeholder}::text[]))"
        )
        there = f"SELECT * FROM {self.dialect.table} WHERE owner = its_owner AND id = its_id OFFSET 0"
        meant = f"SELECT owner, id FROM ({given}) AS given CROSS JOIN LATERAL ({there}) AS there WHERE {change.where}"
        return f"{change.change} WHERE (owner, id) IN ({meant})"

    def upsert_arrays(self, fields: tuple[str, ...], *, numbered: bool) -> str:
        """Return the text that upserts rows given as one array per column, in the order of ``insert_columns``.

        Rows are written in the order of their ids, so that two such statements never wait for each other. Unless the
        rows come ``numbered``, their numbers are drawn here in the order of the arrays. ``fields`` are those that a row
        of the same id must share besides the user.
        """
        columns = self.insert_columns
        arrays = ", ".join(f"${at}::{self.dialect.column_type(name)}[]" for at, name in enumerate(columns, 1))
        names = ", ".join(columns)
        if not numbered:
            drawn = f"nextval('{self.dialect.numbers_literal}')"
            names = ", ".join(f"{drawn} AS {name}" if name == SEQUENCE else name for name in columns)
        given = f"SELECT {names} FROM unnest({arrays}) AS given ({', '.join(columns)})"
        return self._claimed(given, fields)

    def insert_or_lock_arrays(self) -> str:
        """Return the text that inserts those of the rows, given as in ``upsert_arrays``, whose ids are new.

        The others are locked and left as they are. It returns the ids of what was inserted.
        """
        columns = self.insert_columns
        arrays = ", ".join(f"${at}::{self.dialect.column_type(name)}[]" for at, name in enumerate(columns, 1))
        drawn = f"coalesce({SEQUENCE}, nextval('{self.dialect.numbers_literal}'))"
        names = ", ".join(drawn if name == SEQUENCE else name for name in columns)
        source = f"SELECT {names} FROM unnest({arrays}) AS given ({', '.join(columns)}) ORDER BY id"
        # A row that meets a conflict is locked before the condition is looked at.
        return self.upsert_text(source, "false", "stored.id")

    def claim_ids(self) -> str:
        """Return the text that locks ids, given as arrays of them and of owners, and reserves those that are new."""
        return self._claim("unnest($1::text[], $2::text[]) AS given (id, owner)")

    def _claim(self, given: str) -> str:
        return (
            f"INSERT INTO {self.dialect.ids} AS stored (id, owner) SELECT id, owner FROM {given} "
            f'ORDER BY id COLLATE "C" '
            f"ON CONFLICT (id) DO UPDATE SET owner = excluded.owner WHERE stored.owner = excluded.owner"
        )

    def upsert_one(self, fields: tuple[str, ...]) -> str:
        """Return the text that upserts one row, whose columns are bound in the order of ``insert_columns``."""
        drawn = (
            f"coalesce(${self.insert_columns.index(SEQUENCE) + 1}::bigint, nextval('{self.dialect.numbers_literal}'))"
        )
        values = [drawn if name == SEQUENCE else f"${at}" for at, name in enumerate(self.insert_columns, 1)]
        if not self.dialect.partitioned:
            return self.upsert_same(f"VALUES ({', '.join(values)})", fields)
        typed = (f"{value}::{self.dialect.column_type(name)} AS {name}" for value, name in self._named(values))
        return self._claimed(f"SELECT {', '.join(typed)}", fields)

    def _named(self, values: list[str]) -> zip[tuple[str, str]]:
        return zip(values, self.insert_columns, strict=True)

    def _claimed(self, given: str, fields: tuple[str, ...]) -> str:
        columns = ", ".join(self.insert_columns)
        if not self.dialect.partitioned:
            return self.upsert_same(f'SELECT {columns} FROM ({given}) AS given ORDER BY id COLLATE "C"', fields)
        # The partitions know nothing of each other, so an id is first claimed for its owner in the table of ids.
        claims = f"WITH given AS MATERIALIZED ({given}), claimed AS ({self._claim('given')} RETURNING id) "
        chosen = (
            f"SELECT {columns} FROM given WHERE given.id IN (SELECT claimed.id FROM claimed) "
            f'ORDER BY given.id COLLATE "C"'
        )
        return claims + self.upsert_same(chosen, fields)


def packed(item: MemoryItem) -> tuple[Row, tuple[Any, ...]]:
    """Return the row of an item, with metadata as JSONB compares it, and the columns that stand beside the row.

    These repeat facts of the item's JSON: its scope, and whether it is archived. Then comes the exact text of the
    metadata, where JSONB would give back another.
    """
    row, metadata = pack(item), item.metadata
    if _EXPONENT.search(row.metadata):
        row = row._replace(metadata=jsonb_text(row.metadata))
    scope = (metadata.user_id, metadata.session_id, metadata.task_id, metadata.agent_id)
    exact = None if kept_by_jsonb(metadata.extra) else row.metadata
    return row, (*scope, item.archived_by is not None, exact)
