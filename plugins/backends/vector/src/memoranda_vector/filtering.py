"""Find the rows that match a filter, and their owners: the one translation of conditions into columns.

The condition that lists the fewest rows is read first, and the others are tested on those rows. A condition that no
column covers is left to :meth:`memoranda.store.backend.Filter.matches`: see :func:`is_indexed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda.items import SCOPE_FIELDS, MemoryItem
from memoranda.loops import filter_weight, offload
from memoranda.store import Owner, namespace_key
from memoranda.store.backend import (
    ONLY_STAYING,
    Archived,
    Below,
    Condition,
    Created,
    Expiry,
    FieldEquals,
    Filter,
    InScope,
    Listing,
    OfUsers,
    Value,
)
from memoranda_vector.batch_columns import microseconds
from memoranda_vector.column_index import NONE, ColumnIndex, Rows
from memoranda_vector.table import Table

_TEXTS = frozenset({*SCOPE_FIELDS, "memory_type"})
"""Fields that hold a text or None, so that a condition on their value is a comparison of codes."""

_OPERATORS = ("$eq", "$ne", "$in")

_COUNTING = 100
"""How many rows are counted in the time that one item takes."""

_Candidates = tuple[int, Callable[[], Rows]]
"""The number of rows, at most, and a function that lists them."""


async def matching_rows(table: Table, wanted: Filter) -> Rows | None:
    """Return the rows that match every condition, or None if that is every row up to the height.

    The result holds until the next ``await``. Conditions that no column covers are tested on the items, in a thread.
    """
    rows = select_rows(table, wanted)
    if all(is_indexed(table, condition) for condition in wanted.conditions):
        return rows
    numbers = table.listed(rows).tolist()
    matching = await offload(filter_weight(len(numbers)), _matching, table, numbers, wanted)
    return np.array([row for row, item in matching if table.items[row] is item], dtype=np.int32)


def staying_before(table: Table, rows: Rows | None, page: Rows) -> Rows:
    """Return the rows that were added before those of a page and stay in every window, the last added first."""
    rows = table.listed(rows)
    rows = rows[table.added[rows] < table.added[page[-1]]]
    return table.newest_first(rows[_passing(table, ONLY_STAYING, rows)], order="added")


def newest_row(table: Table, wanted: Filter, after: int = -1) -> int | None:
    """Return the matching row that was added last, if its place in the order of adding is above ``after``.

    Nothing is awaited, so the result still holds when a change follows at once.
    """
    rows = table.listed(select_rows(table, wanted))
    rows = rows[table.added[rows] > after]
    if all(is_indexed(table, condition) for condition in wanted.conditions):
        return int(rows[table.added[rows].argmax()]) if len(rows) else None
    newest_first = table.newest_first(rows, order="added").tolist()
    return next((row for row in newest_first if wanted.matches(table.item(row))), None)


def is_indexed(table: Table, condition: Condition) -> bool:
    """Return True if columns decide a condition, so that :func:`select_rows` applies it."""
    if isinstance(condition, FieldEquals):
        return condition.field in table.indexes
    if isinstance(condition, Value):
        named = not condition.in_extra and condition.operator in _OPERATORS
        return named and (condition.name in _TEXTS or (condition.name == "id" and condition.operator != "$ne"))
    return type(condition) in (InScope, Archived, Below, Created, Expiry, OfUsers)


def select_rows(table: Table, wanted: Filter) -> Rows | None:
    """Return the rows that match as far as columns can tell, or None if that is every row up to the height."""
    conditions = [each for each in wanted.conditions if is_indexed(table, each) and not _all_pass(table, each)]
    first, fewest = None, None
    for condition in conditions:
        candidates = _candidates(table, condition)
        if candidates is not None and (fewest is None or candidates[0] < fewest[0]):
            first, fewest = condition, candidates
    rows = table.all_rows() if fewest is None else fewest[1]()
    for condition in conditions:
        if condition is not first:
            rows = table.listed(rows)
            rows = rows[_passing(table, condition, rows)]
    return rows


async def owners_of(table: Table, rows: Rows | None, listing: Listing) -> list[Owner]:
    """Return the owners of the rows, in order. They are counted from columns: no item is read."""
    rows = table.listed(rows)
    index = table.indexes[listing.by]
    names = index.values_by_code()
    groups = await offload(len(rows) // _COUNTING, _owner_groups, index.codes[rows], table.times[rows])
    found = [Owner(names[code], count, _time_text(first), _time_text(last)) for code, count, first, last in groups]
    return list(listing.shown(sorted(found, key=_owner_key)))


def _matching(table: Table, rows: Sequence[int], wanted: Filter) -> list[tuple[int, MemoryItem]]:
    found = ((row, table.items[row]) for row in rows)
    return [(row, item) for row, item in found if item is not None and wanted.matches(item)]


def _all_pass(table: Table, condition: Condition) -> bool:
    if isinstance(condition, Archived):
        return not condition.archived and not table.archived_count
    if isinstance(condition, OfUsers):
        return not table.users.codes_of_spaces
    return isinstance(condition, Expiry) and not condition.expired and not table.expiring_count


def _candidates(table: Table, condition: Condition) -> _Candidates | None:
    """Return how to list the rows that pass a condition, or None if no index lists them."""
    if isinstance(condition, (InScope, FieldEquals)):
        index = table.indexes[condition.field]
        return index.count(condition.value), partial(index.rows, condition.value)
    if isinstance(condition, Below):
        return table.namespaces.count_below(condition.place), partial(table.namespaces.rows_below, condition.place)
    if isinstance(condition, Value) and condition.name == "id":
        rows = _rows_of_ids(table, condition)
        return len(rows), lambda: rows
    if isinstance(condition, Expiry) and condition.expired and not table.expiring_count:
        return 0, lambda: np.empty(0, dtype=np.int32)
    return None


def _passing(table: Table, condition: Condition, rows: Rows) -> NDArray[np.bool_]:
    """Return a mask of the rows that pass a condition that columns decide."""
    passing: NDArray[np.bool_]
    if isinstance(condition, (InScope, FieldEquals)):
        index = table.indexes[condition.field]
        passing = index.codes[rows] == index.code(condition.value)
    elif isinstance(condition, Below):
        passing = np.isin(table.namespaces.codes[rows], table.namespaces.codes_below(condition.place))
    elif isinstance(condition, Archived):
        passing = table.archived[rows] == condition.archived
    elif isinstance(condition, Expiry):
        passing = (table.ends[rows] <= microseconds(condition.now)) == condition.expired
    elif isinstance(condition, OfUsers):
        passing = ~np.isin(table.users.codes[rows], table.users.codes_of_spaces)
    elif isinstance(condition, Created):
        times = table.times[rows]
        passing = np.ones(len(rows), dtype=np.bool_)
        if condition.since is not None:
            passing &= times >= microseconds(condition.since)
        if condition.until is not None:
            passing &= times < microseconds(condition.until)
    else:
        assert isinstance(condition, Value), "no column decides this condition"
        passing = _with_value(table, condition, rows)
    return passing


def _with_value(table: Table, condition: Value, rows: Rows) -> NDArray[np.bool_]:
    if condition.name == "id":
        return np.isin(rows, _rows_of_ids(table, condition))
    index = table.indexes[condition.name]
    asked = condition.value if condition.operator == "$in" else [condition.value]
    passing: NDArray[np.bool_] = np.isin(index.codes[rows], _codes(index, asked))
    return ~passing if condition.operator == "$ne" else passing


def _codes(index: ColumnIndex, values: Iterable[Any]) -> list[int]:
    """Return the codes of the values, skipping those of a type that no row has."""
    texts = [value for value in values if value is None or isinstance(value, str)]
    return [NONE if value is None else index.code(value) for value in texts]


def _rows_of_ids(table: Table, condition: Value) -> Rows:
    ids = condition.value if condition.operator == "$in" else [condition.value]
    found = (table.row_of(item_id) for item_id in dict.fromkeys(each for each in ids if isinstance(each, str)))
    return np.array([row for row in found if row is not None], dtype=np.int32)


def _owner_groups(codes: Rows, times: NDArray[np.int64]) -> list[tuple[int, int, int, int]]:
    """Return each code with its number of rows, and its first and last time."""
    held = codes != NONE
    codes, times = codes[held], times[held]
    if not len(codes):
        return []
    order = np.lexsort((times, codes))
    codes, times = codes[order], times[order]
    starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
    ends = np.append(starts[1:], len(codes))
    columns = (codes[starts], ends - starts, times[starts], times[ends - 1])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _owner_key(owner: Owner) -> str:
    return owner.value if isinstance(owner.value, str) else namespace_key(owner.value)


def _time_text(time: int) -> str:
    """Return a time of a column in the form that items carry."""
    return f"{np.datetime64(time, 'us')}+00:00"
