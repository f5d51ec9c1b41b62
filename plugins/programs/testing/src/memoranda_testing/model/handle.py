"""What the methods of the model share: scopes, matching, checks before storing, and lifetimes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from memoranda.errors import IdConflictError, InputError, MemoryError, UnsupportedError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import Capability
from memoranda.store.backend import (
    Filter,
    check_filter,
    is_below,
    merge_scope,
    metadata_matches,
    storable,
    with_lifetime,
)
from memoranda_testing.model.state import Refused, State, shown


class Handle:
    """The model as a plain store, or bound to a scope."""

    def __init__(self, model: State, scope: MemoryMetadata | None) -> None:
        self.model = model
        self.scope = scope

    def touch(self, ids: Iterable[str], *, ttl: float | None = None, metadata: MemoryMetadata | None = None) -> int:
        """Renew the lifetimes of items."""
        self._begin()
        self._require(Capability.TTL)
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            return 0
        bounds = self._bounds(check_filter(metadata))
        now, touched = self.model.now(), 0
        for item_id in wanted:
            row = self.model.rows.get(item_id)
            if row and not row.deleted and metadata_matches(bounds, row.item.metadata):
                life = row.item.ttl if ttl is None else ttl
                if life is not None:
                    row.item = with_lifetime(row.item, life, now)
                    self.model.will_end(row.item)
                    touched += 1
        return touched

    def _begin(self) -> None:
        self.model.expire()

    def _require(self, capability: Capability) -> None:
        if capability not in self.model.capabilities:
            raise Refused(UnsupportedError)

    def _bounds(self, metadata: MemoryMetadata | None) -> MemoryMetadata | None:
        return merge_scope(metadata, self.scope)

    def _asked(self, **filters: Any) -> Filter:
        return Filter.of(**filters)

    def _filter(self, **filters: Any) -> Filter:
        wanted = self._asked(**filters)
        return wanted if self.scope is None else wanted.narrowed(self.scope)

    def _matching(self, wanted: Filter, *, deleted: bool = False) -> list[MemoryItem]:
        """Return the items that match, in the order of adding."""
        rows = self.model.rows.values()
        fits = shown(self.model.rows, wanted)
        return [row.item for row in rows if (deleted or not row.deleted) and fits(row.item)]

    def _head(self, wanted: Filter) -> str | None:
        return self._last(self._matching(wanted))

    def _last(self, items: Iterable[MemoryItem]) -> str | None:
        said = [item.id for item in items if item.memory_type != "summary"]
        return said[-1] if said else None

    def _read(self, items: Iterable[MemoryItem], refresh: bool) -> list[MemoryItem]:
        """Return what a call shows: the items themselves, which nobody changes in place."""
        found = list(items)
        if refresh and (expiring := [item.id for item in found if item.ttl is not None]):
            self.touch(expiring)
            found = [self.model.rows[item.id].item for item in found]
        return found

    def _accepted(self, items: Iterable[MemoryItem], ttl: float | None) -> list[MemoryItem]:
        """Return the items to store, stamped with the scope and their lifetimes."""
        accepted = [storable(item) for item in items]
        if self.scope is not None:
            accepted = [
                item.model_copy(update={"metadata": self._stamped(item.metadata, self.scope)}) for item in accepted
            ]
        return [self._with_lifetime(item, ttl) for item in accepted]

    def _with_lifetime(self, item: MemoryItem, ttl: float | None) -> MemoryItem:
        if ttl is None and item.ttl is None and item.expires_at is None:
            return item
        self._require(Capability.TTL)
        if ttl is None and item.expires_at is not None:
            return item
        return with_lifetime(item, item.ttl if ttl is None else ttl, self.model.now())

    def _stamped(self, given: MemoryMetadata, scope: MemoryMetadata) -> MemoryMetadata:
        values: dict[str, Any] = {}
        for name in SCOPE_FIELDS:
            own, bound = getattr(given, name), getattr(scope, name)
            if own is not None and bound is not None and own != bound:
                raise Refused(InputError)
            values[name] = bound if own is None else own
        place = given.namespace or scope.namespace
        if not is_below(place, scope.namespace):
            raise Refused(InputError)
        return MemoryMetadata(**values, namespace=place, extra=given.extra)

    def _conflicts(self, batch: Sequence[MemoryItem], bounds: MemoryMetadata | None) -> list[type[MemoryError]]:
        """Return the errors for ids that belong to others, including those within the batch."""
        held = {item_id: row.item for item_id, row in self.model.rows.items()}
        for item in batch:
            existing = held.get(item.id)
            if existing is not None and (
                existing.metadata.user_id != item.metadata.user_id or not metadata_matches(bounds, existing.metadata)
            ):
                return [IdConflictError]
            held[item.id] = item
        return []

    def _check(self, batch: Sequence[MemoryItem], bounds: MemoryMetadata | None) -> None:
        if conflicts := self._conflicts(batch, bounds):
            raise Refused(*conflicts)

    def _store(
        self,
        batch: Sequence[MemoryItem],
        bounds: MemoryMetadata | None,
        hidden: frozenset[str] = frozenset(),
        *,
        keep_created: bool = False,
    ) -> None:
        self._check(batch, bounds)
        for item in batch:
            self.model.put(item, hidden=item.id in hidden, keep_created=keep_created)
