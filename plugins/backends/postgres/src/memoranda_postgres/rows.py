"""Converting items to rows and back, and conditions on their values, equal to ``Value.matches``.

The ids of the scope have columns of their own, and most items have no other metadata: theirs is empty then. Otherwise
``metadata`` is complete, in the form that JSONB compares.

Values are compared as JSONB, which compares numbers by value, ignores the order of keys, and never takes a boolean for
a number. Texts are ordered by their bytes, which is the order of code points.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from memoranda.items import BUILTIN_TYPES, SCOPE_FIELDS, AIMemory, MemoryItem, MemoryMetadata, ids_of, utc_text
from memoranda.shapes import json_text
from memoranda.store import namespace_key
from memoranda.store.backend import Value, bare_metadata
from memoranda_backend.sql import ITEM_COLUMNS, Parameters, further_text, pack, unpack, unpack_readable
from memoranda_postgres.terms import stored_folding

READ_COLUMNS = (*ITEM_COLUMNS, *SCOPE_FIELDS)
"""The columns that :func:`item_of` reads, in its order; statements that return items select these first."""

CALENDAR_ENDS = ("0001-01-01T00:00:00.000000+00:00", "9999-12-31T23:59:59.999999+00:00")
"""Times that the driver would encode as infinite ones; a statement takes them as text, and COPY cannot."""

_WITHOUT_CALLS = further_text(AIMemory(content=""))

# JSONB would return a float that is written with an exponent as a whole number.
_EXPONENT = re.compile(r"\d[eE][+-]?\d")


class PackedRow(NamedTuple):
    """The columns of an item that follow from it alone, in the order of ``insert_columns``.

    ``metadata`` is in the form that JSONB compares; ``exact_metadata`` is its text where JSONB would return another.
    """

    id: str
    content: str
    memory_type: str
    status: str
    metadata: str
    extra_json: str
    created_at: str
    updated_at: str | None
    user_id: str | None
    session_id: str | None
    task_id: str | None
    agent_id: str | None
    namespace: str
    archived: bool
    expires_at: str
    exact_metadata: str | None
    folded: str | None

    def with_created(self, created_at: str) -> PackedRow:
        """Return the row with another time of creation."""
        return self._replace(created_at=created_at, updated_at=self.updated_at or self.created_at)

    @property
    def scope(self) -> MemoryMetadata:
        """The item's metadata."""
        text = self.metadata if self.exact_metadata is None else self.exact_metadata
        return item_of((*self[:4], text, "{}", *[self.created_at] * 2, 0, *self[8:12])).metadata


class Addition(NamedTuple):
    """An item to be written: its row, and the scope fields in which a row of the same id must equal it.

    ``within`` is set only where fields cannot express the scope. A row of the same id that has expired by ``now`` is
    not replaced: it has to be removed first. ``times`` is how often the batch has the item. A ``deleted`` item is
    hidden from the start. ``moment`` is the item's time where ``created_at`` is not in the stored form.
    """

    row: PackedRow
    token: int
    fields: tuple[str, ...] = ()
    within: MemoryMetadata | None = None
    now: str = ""
    vectors: Sequence[Sequence[float]] | None = None
    times: int = 1
    number: int | None = None
    deleted: bool = False
    moment: str | None = None


def jsonb_text(text: str) -> str:
    """Return JSON text as JSONB keeps it without loss: large floats are written out with their decimal point.

    JSONB stores numbers as decimals. Written out, a float stays a float and equals the same numbers as in Python.
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
    """Return True if JSONB returns a value unchanged: it sorts the keys of objects, and its zero has no sign."""
    if isinstance(value, float):
        return value != 0 or math.copysign(1, value) > 0
    if isinstance(value, Mapping):
        keys = [key.encode() for key in value]
        return keys == sorted(keys, key=lambda key: (len(key), key)) and all(map(kept_by_jsonb, value.values()))
    return not isinstance(value, list | tuple) or all(map(kept_by_jsonb, value))


def moment_of(created_at: str) -> str:
    """Return the time of a row as the server can read it, even if its text was written by hand."""
    try:
        return created_at if utc_text(created_at) == created_at else "-infinity"
    except ValueError:
        return "-infinity"


def owner_of(user_id: str | None) -> str:
    """Return the partition key of a user; items without a user need one too, since a key cannot be NULL."""
    return "" if user_id is None else f"u{user_id}"


def item_of(row: Sequence[Any], types: Mapping[str, type[MemoryItem]] = BUILTIN_TYPES) -> MemoryItem:
    """Return the item of a row that begins with ``READ_COLUMNS``. Raises CorruptStoreError if it cannot be read."""
    return unpack(_item_columns(row), types)


def readable_items(rows: Iterable[Sequence[Any]], types: Mapping[str, type[MemoryItem]]) -> list[MemoryItem]:
    """Return the items of rows that begin with ``READ_COLUMNS`` without the unreadable ones, which are logged."""
    return unpack_readable([_item_columns(row) for row in rows], types)


def _item_columns(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return the columns of :func:`memoranda_backend.sql.unpack`, with the metadata made of its own columns."""
    # Unpacked at once, since this runs for every row that is read.
    item_id, content, memory_type, status, text, extra, created, updated, version, user, session, task, agent, *_ = row
    metadata: MemoryMetadata | str = text
    if text == "{}":
        metadata = bare_metadata(
            {
                "user_id": user,
                "session_id": session,
                "task_id": task,
                "agent_id": agent,
                "namespace": (),
                "extra": {},
            }
        )
    return item_id, content, memory_type, status, metadata, extra, created, updated, version


def packed(item: MemoryItem) -> PackedRow:
    """Return the row of an item that was checked."""
    held = item.__dict__
    metadata = held["metadata"].__dict__
    content, created_at, updated_at = held["content"], held["created_at"], held["updated_at"]
    text, place, exact = "{}", "", None
    if metadata["extra"] or metadata["namespace"]:
        written = pack(item).metadata
        text, place = jsonb_text(written), namespace_key(metadata["namespace"]) if metadata["namespace"] else ""
        exact = None if kept_by_jsonb(metadata["extra"]) else written
    extra_json = further_text(item)
    user_id, session_id, task_id, agent_id = ids_of(metadata)
    return PackedRow(
        held["id"],
        content,
        held["memory_type"],
        held["status"].value,
        text,
        "{}" if extra_json == _WITHOUT_CALLS else extra_json,
        created_at,
        None if updated_at == created_at else updated_at,
        user_id,
        session_id,
        task_id,
        agent_id,
        place,
        held["archived_by"] is not None,
        held["expires_at"] or "",
        exact,
        None if content.isascii() else stored_folding(content),
    )


def all_packed(items: Sequence[MemoryItem]) -> list[PackedRow]:
    """Return the rows of items that were checked."""
    return [packed(item) for item in items]


ByIds = Callable[[str], str]
"""Returns the condition that finds the rows of an array of ids, given its placeholder."""

UPDATED = "coalesce(updated_at, created_at)"
"""When an item was changed. The column is NULL if it was not changed since it was created."""

_MADE = {"updated_at": UPDATED, "expires_at": "nullif(expires_at, '')"}

_TEXT_COLUMNS = frozenset(
    ("id", "content", "memory_type", "status", "created_at", "updated_at", "expires_at", *SCOPE_FIELDS)
)
_ORDER = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def value_condition(by_ids: ByIds, parameters: Parameters, condition: Value) -> str:
    """Return the condition. Names of fields are part of the text; keys of ``extra`` and values are bound."""
    if condition.in_extra:
        return _of_json(parameters, condition, f"metadata -> 'extra' -> {parameters.add(condition.name)}::text")
    if condition.name in _TEXT_COLUMNS:
        return _of_text(by_ids, parameters, condition)
    if condition.name == "namespace":
        return _of_namespace(parameters, condition)
    if condition.name == "version":
        return _of_json(parameters, condition, "to_jsonb(version)")
    return _of_field(parameters, condition)


def _of_json(parameters: Parameters, condition: Value, found: str) -> str:
    """Compare an expression that is NULL where the value is missing."""
    operator, value = condition.operator, condition.value
    if operator == "$exists":
        return f"({found}) IS {'NOT ' if value else ''}NULL"
    if operator == "$in":
        return f"({found}) = ANY({parameters.add([_json(choice) for choice in value])}::jsonb[])"
    if operator in _ORDER:
        return _ordered(parameters, found, operator, value)
    wanted = f"{parameters.add(_json(value))}::jsonb"
    return f"({found}) {'=' if operator == '$eq' else 'IS DISTINCT FROM'} {wanted}"


def _ordered(parameters: Parameters, found: str, operator: str, value: Any) -> str:
    if isinstance(value, str):
        text = f"({found} #>> '{{}}') COLLATE \"C\""
        return f"(jsonb_typeof({found}) = 'string' AND {text} {_ORDER[operator]} {parameters.add(value)}::text)"
    wanted = f"{parameters.add(_json(value))}::jsonb"
    return f"(jsonb_typeof({found}) = 'number' AND ({found}) {_ORDER[operator]} {wanted})"


def _of_field(parameters: Parameters, condition: Value) -> str:
    """Compare a field of ``extra_json``, where None is left out or null.

    Only rows whose text contains the name are parsed.
    """
    name = condition.name
    found = f"CASE WHEN extra_json LIKE '{{%\"{name}\"%' THEN nullif(extra_json::jsonb -> '{name}', 'null'::jsonb) END"
    if condition.operator in ("$eq", "$ne") and condition.value is None:
        return f"({found}) IS {'NOT ' if condition.operator == '$ne' else ''}NULL"
    if condition.operator == "$in" and None in condition.value:
        return f"({_of_json(parameters, condition, found)} OR ({found}) IS NULL)"
    return _of_json(parameters, condition, found)


def _of_text(by_ids: ByIds, parameters: Parameters, condition: Value) -> str:
    """Compare a text column, in which NULL means None."""
    operator, value = condition.operator, condition.value
    column = _MADE.get(condition.name, condition.name)
    if operator == "$exists" or (value is None and operator in ("$eq", "$ne")):
        there = value if operator == "$exists" else operator == "$ne"
        return f"{column} IS {'NOT ' if there else ''}NULL"
    if operator == "$in":
        return _among(by_ids, parameters, column, value)
    if not isinstance(value, str):
        return "true" if operator == "$ne" else "false"
    wanted = f"{parameters.add(value)}::text"
    if column == "created_at" and operator in _ORDER and moment_of(value) == value:
        return f"moment {_ORDER[operator]} {wanted}::timestamp"
    if operator in _ORDER:
        return f'{column} COLLATE "C" {_ORDER[operator]} {wanted}'
    return f"{column} {'=' if operator == '$eq' else 'IS DISTINCT FROM'} {wanted}"


def _among(by_ids: ByIds, parameters: Parameters, column: str, choices: list[Any]) -> str:
    texts = parameters.add([choice for choice in choices if isinstance(choice, str)])
    if column == "id":
        return by_ids(texts)
    found = f"{column} = ANY({texts}::text[])"
    return f"({found} OR {column} IS NULL)" if None in choices else found


def _of_namespace(parameters: Parameters, condition: Value) -> str:
    if condition.operator == "$exists":
        return "namespace > ''" if condition.value else "namespace = ''"
    if condition.operator in _ORDER:
        return "false"  # A list has no order.
    return _of_json(parameters, condition, "coalesce(metadata -> 'namespace', '[]'::jsonb)")


def _json(value: Any) -> str:
    return jsonb_text(json_text(value))
