"""Which rows match a filter, as far as columns tell: the one translation of conditions into columns.

What lists the fewest rows is read, and the other conditions are asked of those. A kind that no column tells is left to
:meth:`memoranda.store.Filter.matches`: see :func:`tells`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memoranda.items import SCOPE_FIELDS
from memoranda.store.backend import Archived, Below, Condition, Created, Expiry, FieldEquals, Filter, InScope, Value
from memoranda_vector.facets import NONE, Facet, PlaceFacet, Rows

_TEXTS = frozenset({*SCOPE_FIELDS, "memory_type"})
"""Fields that are a text or None, by which conditions on values are told from codes."""

_OPERATORS = ("$eq", "$ne", "$in")

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)

Listing = tuple[int, Callable[[], Rows]]
"""How many rows there are at most, and what lists them."""


class Columns(Protocol):
    """What a table holds of its rows, as far as filters ask for it."""

    facets: dict[str, Facet]
    places: PlaceFacet
    times: NDArray[np.int64]
    ends: NDArray[np.int64]
    archived: NDArray[np.bool_]
    archived_count: int
    mortal_count: int

    def row_of(self, item_id: str, /) -> int | None:
        """Return the row of an item."""

    def all_rows(self) -> Rows | None:
        """Return the rows in use, or None if that is every row up to the height."""

    def listed(self, rows: Rows | None, /) -> Rows:
        """Return the rows as an array, where None stands for every row."""


def tells(table: Columns, condition: Condition) -> bool:
    """Whether columns tell which rows pass a condition, so that :func:`select` applies it."""
    kind = type(condition)
    if isinstance(condition, FieldEquals):
        return condition.field in table.facets
    if isinstance(condition, Value):
        named = not condition.in_extra and condition.operator in _OPERATORS
        return named and (condition.name in _TEXTS or (condition.name == "id" and condition.operator != "$ne"))
    return kind in (InScope, Archived, Below, Created, Expiry)


def select(table: Columns, wanted: Filter) -> Rows | None:
    """Return the rows that match as far as columns tell, or None if that is every row up to the height."""
    conditions = [each for each in wanted.conditions if tells(table, each) and not _all_pass(table, each)]
    first, fewest = None, None
    for condition in conditions:
        listing = _listing(table, condition)
        if listing is not None and (fewest is None or listing[0] < fewest[0]):
            first, fewest = condition, listing
    rows = table.all_rows() if fewest is None else fewest[1]()
    for condition in conditions:
        if condition is not first:
            rows = table.listed(rows)
            rows = rows[_passing(table, condition, rows)]
    return rows


def microseconds(text: str) -> int:
    """Return a time, in the form that items carry, as columns hold it."""
    return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND


def _all_pass(table: Columns, condition: Condition) -> bool:
    if isinstance(condition, Archived):
        return not condition.archived and not table.archived_count
    return isinstance(condition, Expiry) and not condition.expired and not table.mortal_count


def _listing(table: Columns, condition: Condition) -> Listing | None:
    """Return what lists the rows that pass a condition, where something does."""
    if isinstance(condition, (InScope, FieldEquals)):
        facet = table.facets[condition.field]
        return facet.count(condition.value), partial(facet.rows, condition.value)
    if isinstance(condition, Below):
        return table.places.count_below(condition.place), partial(table.places.rows_below, condition.place)
    if isinstance(condition, Value) and condition.name == "id":
        rows = _of_ids(table, condition)
        return len(rows), lambda: rows
    if isinstance(condition, Expiry) and condition.expired and not table.mortal_count:
        return 0, lambda: np.empty(0, dtype=np.int32)
    return None


def _passing(table: Columns, condition: Condition, rows: Rows) -> NDArray[np.bool_]:
    """Return which of the rows pass a condition that columns tell."""
    passing: NDArray[np.bool_]
    if isinstance(condition, (InScope, FieldEquals)):
        facet = table.facets[condition.field]
        passing = facet.codes[rows] == facet.code_or_unknown(condition.value)
    elif isinstance(condition, Below):
        passing = np.isin(table.places.codes[rows], table.places.codes_below(condition.place))
    elif isinstance(condition, Archived):
        passing = table.archived[rows] == condition.archived
    elif isinstance(condition, Expiry):
        passing = (table.ends[rows] <= microseconds(condition.now)) == condition.expired
    elif isinstance(condition, Created):
        times = table.times[rows]
        passing = np.ones(len(rows), dtype=np.bool_)
        if condition.since is not None:
            passing &= times >= microseconds(condition.since)
        if condition.until is not None:
            passing &= times < microseconds(condition.until)
    else:
        assert isinstance(condition, Value), "columns do not tell this"
        passing = _with_value(table, condition, rows)
    return passing


def _with_value(table: Columns, condition: Value, rows: Rows) -> NDArray[np.bool_]:
    if condition.name == "id":
        return np.isin(rows, _of_ids(table, condition))
    facet = table.facets[condition.name]
    asked = condition.value if condition.operator == "$in" else [condition.value]
    passing: NDArray[np.bool_] = np.isin(facet.codes[rows], _codes(facet, asked))
    return ~passing if condition.operator == "$ne" else passing


def _codes(facet: Facet, values: Iterable[Any]) -> list[int]:
    """Return the codes of those of the values, of any type, that some row may have."""
    return [NONE if value is None else facet.code_or_unknown(value) for value in values if _is_text(value)]


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _of_ids(table: Columns, condition: Value) -> Rows:
    ids = condition.value if condition.operator == "$in" else [condition.value]
    found = (table.row_of(item_id) for item_id in dict.fromkeys(each for each in ids if isinstance(each, str)))
    return np.array([row for row in found if row is not None], dtype=np.int32)
