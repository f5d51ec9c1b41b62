"""A store as the contract describes it, written to be read: rows in the order of adding, and ``Filter.matches``.

It has no index, no page and no await. Every public method of a store is here under its own name, and returns what the
store must return; where the contract leaves two answers open, the answer says so (:class:`AtMost`, :class:`Refused`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, copy_item
from memoranda.store.backend import check_clearing, check_filter, metadata_matches
from memoranda_testing.model.reading import Reading
from memoranda_testing.model.state import AtMost, Refused, State
from memoranda_testing.model.steps import BRANCH
from memoranda_testing.model.writing import Writing


class ModelHandle(Reading, Writing):
    """The public methods of a store, plain or bound to a scope; those that remove and restore are here."""

    def clear(self, *, metadata: MemoryMetadata | None = None, **filters: Any) -> int:
        """Remove what matches."""
        self._begin()
        check_clearing(metadata)
        goes = self._removed(metadata, **filters)
        gone = [row.item.id for row in self.model.rows.values() if not row.deleted and goes(row.item)]
        for item_id in gone:
            self.model.remove(item_id)
        return len(gone)

    def pop(
        self,
        *,
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        where: Mapping[str, Any] | None = None,
        purge: bool = False,
    ) -> MemoryItem | None:
        """Remove what was added last and return it."""
        self._begin()
        if purge:
            self._require(Capability.PURGE)
        wanted = self._filter(metadata=metadata, memory_type=memory_type, where=where)
        found = [row.item for row in self.model.rows.values() if not row.deleted and wanted.matches(row.item)]
        if not found:
            return None
        self.model.remove(found[-1].id, purge=purge)
        return copy_item(found[-1])

    def delete(self, item_id: str, *, metadata: MemoryMetadata | None = None) -> bool:
        """Delete one item."""
        self._begin()
        self._require(Capability.DELETE)
        bounds, row = self._bounds(check_filter(metadata)), self.model.rows.get(item_id)
        if row is None or row.deleted or not metadata_matches(bounds, row.item.metadata):
            return False
        self.model.remove(item_id)
        return True

    def restore(self, item_id: str | None = None, *, metadata: MemoryMetadata | None = None) -> int:
        """Bring back what was deleted."""
        self._begin()
        self._require(Capability.DELETE)
        wanted, restored = self._filter(metadata=metadata, archived=None), 0
        for row in self.model.rows.values():
            if row.deleted and item_id in (None, row.item.id) and wanted.matches(row.item):
                row.deleted = False
                restored += 1
        return restored

    def purge(
        self,
        item_id: str | None = None,
        *,
        metadata: MemoryMetadata | None = None,
        deleted_only: bool = False,
        **filters: Any,
    ) -> int:
        """Remove items for good."""
        self._begin()
        self._require(Capability.PURGE)
        check_clearing(metadata)
        if item_id is None and metadata is None and not deleted_only and not any(filters.values()) and not self.scope:
            raise Refused(InputError)
        goes = self._removed(metadata, item_id, **filters)
        gone = [
            row.item.id
            for row in self.model.rows.values()
            if item_id in (None, row.item.id) and (row.deleted or not deleted_only) and goes(row.item)
        ]
        for each in gone:
            self.model.remove(each, purge=True)
        return len(gone)

    def _removed(
        self, metadata: MemoryMetadata | None, item_id: str | None = None, **filters: Any
    ) -> Callable[[MemoryItem], bool]:
        """Return a predicate for what is to be removed: nothing of a past, and of a part of a branch not its record."""
        wanted, bounds = self._filter(metadata=metadata, archived=None, **filters), self._bounds(metadata)
        if item_id is not None or bounds is None or not (bounds.session_id or "").startswith(BRANCH):
            return wanted.matches
        whole = MemoryMetadata(user_id=bounds.user_id, session_id=bounds.session_id)
        if bounds == whole and not any(filters.values()):
            return wanted.matches
        return lambda item: item.memory_type != "branch" and wanted.matches(item)


class Model(State):
    """Everything that a store holds."""

    def handle(self, scope: MemoryMetadata | None = None) -> ModelHandle:
        """Return the model as a plain store, or as a handle that is bound to a scope."""
        return ModelHandle(self, scope)


__all__ = ["AtMost", "Model", "ModelHandle", "Refused"]
