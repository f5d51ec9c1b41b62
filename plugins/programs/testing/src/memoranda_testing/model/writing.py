"""The writing methods of the model: check everything, then store item by item."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from memoranda.errors import InputError, MemoryError, TurnConflictError, VersionConflictError
from memoranda.integrity import conversation_of
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata
from memoranda.store import Capability
from memoranda.store.backend import Filter, metadata_matches
from memoranda_testing.model.handle import Handle
from memoranda_testing.model.state import AtMost, Refused, record_of


class Writing(Handle):
    """The methods that store items or refuse them."""

    def add(
        self,
        item: MemoryItem,
        *,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        keep_created: bool = False,
    ) -> None:
        """Store one item."""
        self.add_many([item], within=within, ttl=ttl, keep_created=keep_created)

    def add_many(
        self,
        items: Iterable[MemoryItem],
        *,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        deleted: Collection[str] = (),
        keep_created: bool = False,
    ) -> None:
        """Store several items, all or none."""
        self._begin()
        batch = self._accepted(items, ttl)
        if deleted:
            self._require(Capability.ADD_DELETED)
            if not {item.id for item in batch}.issuperset(deleted):
                raise Refused(InputError)
        if batch:
            self._store(batch, self._bounds(within), frozenset(deleted), keep_created=keep_created)

    def append(
        self,
        items: Iterable[MemoryItem],
        *,
        after: str | None,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
    ) -> str:
        """Store a turn, if the conversation still ends where it did."""
        self._begin()
        batch = self._accepted(items, ttl)
        if len({conversation_of(item) for item in batch}) != 1:
            raise Refused(InputError)
        bounds = self._bounds(within)
        conversation = self._matching(Filter(metadata=self.scope, archived=None))
        said = [item for item in conversation if conversation_of(item) == conversation_of(batch[0])]
        errors: list[type[MemoryError]] = []
        if self._last(said) != after:
            errors.append(TurnConflictError)
        ids = [item.id for item in batch]
        if len(set(ids)) < len(ids) or any(item_id in self.model.rows for item_id in ids):
            errors.append(VersionConflictError)
        errors += self._conflicts(batch, bounds)
        if errors:
            raise Refused(*errors)
        self._store(batch, bounds)
        return ids[-1]

    def apply(
        self,
        *,
        adds: Iterable[MemoryItem] = (),
        deletes: Iterable[str] = (),
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        keep_created: bool = False,
        purge: bool = False,
    ) -> int:
        """Delete some items and store others, all or none."""
        self._begin()
        if purge:
            self._require(Capability.PURGE)
        batch, gone = self._accepted(adds, ttl), list(dict.fromkeys(deletes))
        if not {item.id for item in batch}.isdisjoint(gone):
            raise Refused(InputError)
        if not batch and not gone:
            return 0
        bounds = self._bounds(within)
        self._check(batch, bounds)
        removed = 0
        for item_id in gone:
            row = self.model.rows.get(item_id)
            if row and (purge or not row.deleted) and metadata_matches(bounds, row.item.metadata):
                self.model.remove(item_id, purge=purge)
                removed += 1
        self._store(batch, bounds, keep_created=keep_created)
        return removed

    def update(self, item: MemoryItem, *, within: MemoryMetadata | None = None) -> MemoryItem:
        """Replace an item if it still has the version that it carries."""
        return self.update_many([item], within=within)[0]

    def update_many(self, items: Iterable[MemoryItem], *, within: MemoryMetadata | None = None) -> list[MemoryItem]:
        """Compare and set several items, all or none."""
        self._begin()
        batch = self._accepted(items, None)
        if len({item.id for item in batch}) != len(batch):
            raise Refused(InputError)
        if not batch:
            return []
        bounds = self._bounds(within)
        errors = self._conflicts(batch, bounds)
        for item in batch:
            row = self.model.rows.get(item.id)
            if item.version != (0 if row is None or row.deleted else row.item.version):
                errors.append(VersionConflictError)
        if errors:
            raise Refused(*errors)
        self._store(batch, bounds)
        return self._read([self.model.rows[item.id].item for item in batch], False)

    def sweep(self) -> AtMost:
        """Remove what has expired; some of it may be gone already."""
        self._begin()
        self._require(Capability.TTL)
        return AtMost(self.model.over)

    def fork(self, session_id: str, *, at: str, record: BranchMemory, deleted: bool = False) -> str:
        """Make the session of this record, which shares another's past up to an item."""
        self._begin()
        if deleted:
            self._require(Capability.ADD_DELETED)
        wanted, rows = self._filter(metadata=MemoryMetadata(session_id=session_id), archived=None), self.model.rows
        item = next((item for item in self._matching(wanted, deleted=True) if item.id == at), None)
        if item is None or record.metadata.user_id not in (None, item.metadata.user_id):
            raise Refused(InputError)
        parent, upto, forked = str(item.metadata.session_id), rows[at].place, record_of(rows, session_id)
        earlier = forked.places if forked is not None and forked.metadata.user_id == item.metadata.user_id else {}
        places = {parent: upto} | {session: min(place, upto) for session, place in earlier.items()}
        metadata = record.metadata.model_copy(update={"user_id": item.metadata.user_id})
        metadata = metadata if self.scope is None else self._stamped(metadata, self.scope)
        made = {"parent": parent, "at": at, "places": places, "metadata": metadata}
        self.model.put(record.model_copy(update=made), hidden=deleted)
        return record.id
