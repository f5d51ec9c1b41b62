"""The differences between SQL engines that the shared statements depend on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from memoranda.store.values import Value
from memoranda_backend.sql.rows import ITEM_COLUMNS


class Dialect(ABC):
    """How an engine expresses what the shared statements need.

    A condition is text with the engine's placeholders; :class:`Parameters` hands out the placeholders in order and
    collects the values.
    """

    table: str = "memory_items"
    """The table of items, quoted and qualified as the engine wants it."""

    sequence: str = "rowid"
    """The column that grows with each added row and breaks ties of equal time."""

    further_columns: tuple[str, ...] = ()
    """Columns beyond the ten that are written with every row."""

    conflict_key: str = "id"
    """The columns of the unique index that an upsert meets an existing row by."""

    created: str = "created_at"
    """The column that orders by ``created_at``, if an engine has one that is shorter; see :meth:`moment`."""

    updated: str = "updated_at"
    """The expression of ``updated_at``, if an engine does not keep it as such."""

    read_columns: tuple[str, ...] = ITEM_COLUMNS
    """The columns that an item is made from: ``ITEM_COLUMNS``, then those that only this engine has."""

    item_columns: str = ", ".join(ITEM_COLUMNS)
    """What is selected to read items: ``read_columns``, under these names and in this order."""

    scan_columns: tuple[str, ...] = ()
    """Further columns of a page of a scan, which say where the next page begins."""

    def selected(self, columns: Sequence[str]) -> str:
        """Return what selects these of ``read_columns``, under their names."""
        return ", ".join(columns)

    @abstractmethod
    def moment(self, parameters: Parameters, time: Any) -> str:
        """Return a time, as text or as a page of a scan has it, for the column ``created`` to be compared with."""

    def by_id(self, placeholder: str) -> str:
        """Return the condition that finds the row of an id."""
        return f"id = {placeholder}"

    def next_version(self) -> str:
        """Return a replaced row's version; ``stored`` is the old row, ``excluded.version`` how often it is added."""
        return "stored.version + excluded.version"

    def limit(self, parameters: Parameters, count: int) -> str:
        """Return the clause that ends a result after ``count`` rows."""
        return f"LIMIT {parameters.add(count)}"

    @abstractmethod
    def placeholder(self, position: int) -> str:
        """Return the placeholder of the parameter at this position, counted from 1."""

    @abstractmethod
    def scope_column(self, field: str) -> str:
        """Return the column of a scope field (``user_id``, …), which the engine has an index on."""

    @abstractmethod
    def archived(self) -> str:
        """Return a condition that holds for archived items."""

    def archived_by(self) -> str:
        """Return the expression of the id of the summary that stands for an item; NULL if none does."""
        return "archived_by"

    @abstractmethod
    def given_trust(self, row: str = "") -> str:
        """Return the expression of the trust that an item says itself; NULL if it says none. ``row`` is its table."""

    @abstractmethod
    def replacing_further(self) -> str:
        """Return ``extra_json`` of a row that replaces another, with no more trust: see :func:`replacing_text`.

        ``stored`` is the old row, ``excluded`` the new one.
        """

    def upto(self, place: str) -> str:
        """Return the condition that a row was added up to this place."""
        return f"{self.sequence} <= {place}"

    @abstractmethod
    def visibility(self, deleted: bool | None, archived: bool | None) -> list[str]:
        """Return the conditions that choose rows by whether they are deleted and archived; None takes both."""

    @abstractmethod
    def contains(self, parameters: Parameters, folded: str) -> str:
        """Return a condition that holds where the case-folded content contains this case-folded text."""

    @abstractmethod
    def extra_equals(self, parameters: Parameters, key: str, value: Any) -> str:
        """Return a condition that holds where ``metadata.extra[key]`` is JSON-equal to the value."""

    @abstractmethod
    def below(self, parameters: Parameters, place: tuple[str, ...]) -> str:
        """Return a condition that holds where the namespace is this place or lies below it.

        :func:`memoranda.store.backend.key_bounds` gives the range for a column that holds namespace keys.
        """

    @abstractmethod
    def expiry(self, parameters: Parameters, now: str, expired: bool) -> str:
        """Return a condition that holds for items whose life is over at this time, or for those whose is not."""

    @abstractmethod
    def value(self, parameters: Parameters, condition: Value) -> str:
        """Return what a condition on a value means in this engine, exactly as :meth:`Value.matches` does.

        Names of fields come from a closed list and may stand in the text; keys of ``extra`` and values are bound.
        """

    @abstractmethod
    def any_id(self, parameters: Parameters, ids: Sequence[str]) -> str:
        """Return the condition that finds the rows of several ids."""

    def owner_column(self, field: str) -> str:
        """Return the column that owners are listed by: an id of the scope, or the key of the namespace."""
        return "namespace" if field == "namespace" else self.scope_column(field)

    def has_owner(self, column: str) -> str:
        """Return the condition that a row has an owner in this column; the root namespace is none."""
        return f"{column} > ''" if column == "namespace" else f"{column} IS NOT NULL"

    @abstractmethod
    def same(self, left: str, right: str) -> str:
        """Return a condition that two expressions are equal, NULL being equal to NULL."""


class Parameters:
    """The values of one statement, in the order of their placeholders."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.values: list[Any] = []

    def add(self, value: Any) -> str:
        """Keep a value and return its placeholder."""
        self.values.append(value)
        return self._dialect.placeholder(len(self.values))
