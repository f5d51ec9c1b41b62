"""A store as the contract describes it, written to be read: rows in the order of their adding, and ``Filter.matches``.

It has no index, no page and no await. Every public method of a store is here under its own name, and returns what the
store must return; where the contract leaves two answers open, the answer says so (:class:`AtMost`, :class:`Refused`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memoranda.errors import (
    IdConflictError,
    InputError,
    MemoryError,
    TurnConflictError,
    UnsupportedError,
    VersionConflictError,
)
from memoranda.integrity import conversation_of, whole_groups
from memoranda.items import SCOPE_FIELDS, BranchMemory, MemoryItem, MemoryMetadata, utc_text
from memoranda.ranking import RankedItem, conversation_key, passage_of, rank_text
from memoranda.store import (
    EVERYTHING,
    Capability,
    Filter,
    Listing,
    Order,
    Owner,
    Page,
    as_one_session,
    check_clearing,
    check_filter,
    copy_item,
    in_order,
    is_below,
    merge_scope,
    metadata_matches,
    storable,
    with_lifetime,
)
from memoranda.tokens import estimate_tokens
from memoranda.windowing import as_said, last_rounds, newest, rounds_within
from memoranda_testing.model.forks import record_of, shown
from memoranda_testing.model.rows import Row


@dataclass(frozen=True, slots=True)
class AtMost:
    """An answer that may be any number up to this one."""

    number: int


class Refused(Exception):  # noqa: N818  # not an error of the model: what the store is to raise
    """The call is to raise one of these errors."""

    def __init__(self, *kinds: type[MemoryError]) -> None:
        super().__init__(", ".join(kind.__name__ for kind in kinds))
        self.kinds = kinds


@dataclass
class Model:
    """What a store holds, and what it has seen of the time."""

    capabilities: frozenset[Capability]
    clock: Callable[[], float]
    default_order: Order = "created"
    rows: dict[str, Row] = field(default_factory=dict)
    """By id, in the order of adding: an item that is replaced keeps its place."""
    latest: str = ""
    in_use: bool = False
    """Whether anything may expire; a store that knows of nothing need not look at the clock."""
    over: int = 0
    """How many items have expired in all: the most that a sweep can have left to remove."""
    bounds: MemoryMetadata | None = None
    """Where everything lies that is looked at, on a store that others use."""

    def copy(self) -> Model:
        """Return a model that goes its own way from here on; nobody changes an item of a row in place."""
        rows = {item_id: Row(row.item, row.deleted) for item_id, row in self.rows.items()}
        return Model(
            self.capabilities, self.clock, self.default_order, rows, self.latest, self.in_use, self.over, self.bounds
        )

    def handle(self, scope: MemoryMetadata | None = None) -> ModelHandle:
        """Return the model as a plain store, or as a handle that is bound to a scope."""
        return ModelHandle(self, scope)

    def now(self, *, looks: bool = False) -> str:
        """Return the present: it never runs backwards, as far as anybody looked."""
        present = max(self.latest, utc_text(datetime.fromtimestamp(self.clock(), UTC)))
        if looks or self.in_use:
            self.latest = present
        return present

    def expire(self) -> None:
        """Take out what is over: it is as if it had been purged."""
        now = self.now()
        for item_id, row in list(self.rows.items()):
            ends = row.item.expires_at
            if ends is not None and ends <= now:
                del self.rows[item_id]
                self.over += 1

    def put(self, item: MemoryItem, *, hidden: bool = False) -> None:
        """Store an item under its next version."""
        existing = self.rows.get(item.id)
        kept = copy_item(item)
        kept.__dict__["version"] = 1 if existing is None else existing.item.version + 1
        self.rows[item.id] = Row(kept, hidden)

    def remove(self, item_id: str, *, purge: bool = False) -> None:
        """Delete an item, or remove it for good where it is to be, or where the store cannot do otherwise."""
        if purge or Capability.DELETE not in self.capabilities:
            del self.rows[item_id]
        else:
            self.rows[item_id].deleted = True


class ModelHandle:
    """The public methods of a store, plain or bound to a scope."""

    def __init__(self, model: Model, scope: MemoryMetadata | None) -> None:
        self.model = model
        self.scope = scope

    # Reading

    def get(self, item_id: str, *, metadata: MemoryMetadata | None = None, refresh: bool = False) -> MemoryItem | None:
        """Return the item of this id."""
        found = self.get_many([item_id], metadata=metadata, refresh=refresh)
        return found[0] if found else None

    def get_many(
        self, ids: Iterable[str], *, metadata: MemoryMetadata | None = None, refresh: bool = False
    ) -> list[MemoryItem]:
        """Return the items of these ids, in their order."""
        self._begin()
        bounds = self._bounds(check_filter(metadata))
        rows = [self.model.rows.get(item_id) for item_id in dict.fromkeys(ids)]
        there = [row for row in rows if row and not row.deleted and metadata_matches(bounds, row.item.metadata)]
        return self._read([row.item for row in there], refresh)

    def search(
        self,
        *,
        limit: int = 10,
        offset: int = 0,
        order: Order | None = None,
        mode: str | None = None,
        refresh: bool = False,
        query: str = "",
        **filters: Any,
    ) -> list[MemoryItem]:
        """Return a page of what matches, newest first."""
        self._begin()
        page = Page.checked(limit, offset, order or self.model.default_order)
        if query and mode not in (None, "substring"):
            ranked = self.search_ranked(query=query, limit=limit, offset=offset, mode=mode, **filters)
            return self._read([found.item for found in ranked], refresh)
        if not page.limit:
            self._asked(query=query, **filters)
            return []
        return self._read(page.of(self._matching(self._filter(query=query, **filters))), refresh)

    def search_ranked(
        self, *, query: str, limit: int = 10, offset: int = 0, mode: str | None = None, **filters: Any
    ) -> list[RankedItem]:
        """Return what answers the query best: by words, over the whole scope, cut after it was filtered."""
        self._begin()
        if mode not in (None, "substring", "text"):
            raise Refused(UnsupportedError)
        page = Page.checked(limit, offset, "created")
        if not query:
            raise Refused(InputError)
        if not page.limit:
            self._asked(**filters)
            return []
        wanted = self._filter(**filters)
        fits = shown(self.model.rows, wanted)
        scope = in_order(self._matching(wanted.scope()), "created")
        conversations: dict[Any, list[MemoryItem]] = {}
        for item in reversed(scope):
            conversations.setdefault(conversation_key(item), []).insert(0, item)
        by_id = {item.id: item for item in scope}
        ranked = rank_text(
            query,
            [[passage_of(item) for item in said] for said in conversations.values()],
            total=len(scope),
            wanted=lambda item_id: fits(by_id[item_id]),
            limit=page.end,
        )
        found = [RankedItem(copy_item(by_id[one.key]), one.score, one.parts, one.terms) for one in ranked]
        return found[page.offset : page.end]

    def window(
        self, *, rounds: int | None = None, tokens: int | None = None, limit: int | None = None, **filters: Any
    ) -> list[MemoryItem]:
        """Return a conversation as a model may be shown it: read all of it, then cut."""
        self._begin()
        wanted = self._filter(**filters)
        session = None if wanted.metadata is None else wanted.metadata.session_id
        said = as_said(as_one_session(self._matching(wanted), session))
        found = list(said)
        if rounds is not None:
            found = last_rounds(found, rounds)
        if tokens is not None:
            found = rounds_within(found, tokens, estimate_tokens)
        if limit is not None:
            found = newest(found, limit)
        return self._read(whole_groups(found, said), False)

    def head(self, *, metadata: MemoryMetadata | None = None) -> str | None:
        """Return the id of the item that was added last."""
        self._begin()
        return self._head(self._filter(metadata=metadata, archived=None))

    def count(self, *, include_deleted: bool = False, **filters: Any) -> int:
        """Return the number of items."""
        self._begin()
        return len(self._matching(self._filter(archived=None, **filters), deleted=include_deleted))

    def scan(
        self,
        *,
        include_deleted: bool = False,
        order: Order | None = None,
        archived: bool | None = None,
        **filters: Any,
    ) -> list[MemoryItem]:
        """Return everything that matches, oldest first."""
        self._begin()
        if include_deleted:
            self._require(Capability.DELETE)
        found = self._matching(self._filter(archived=archived, **filters), deleted=include_deleted)
        return self._read(in_order(found, order or self.model.default_order), False)

    def owners(
        self,
        by: Any = "user_id",
        *,
        within: MemoryMetadata | None = None,
        depth: int | None = None,
        suffix: Sequence[str] = (),
        limit: int | None = None,
        offset: int = 0,
        counts: bool = True,
    ) -> list[Owner]:
        """Return who has something, in order."""
        self._begin()
        page = Page.checked(EVERYTHING if limit is None else limit, offset, "created")
        if not page.limit:
            return []
        found = self._matching(self._filter(metadata=within, archived=None))
        owners = Listing(by, depth, tuple(suffix)).of(found)[page.offset : page.end]
        return owners if counts else [Owner(owner.value, 0, "", "") for owner in owners]

    def exists(self) -> bool:
        """Whether there is such a store: there is, since it is open."""
        return True

    # Writing

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

    def touch(self, ids: Iterable[str], *, ttl: float | None = None, metadata: MemoryMetadata | None = None) -> int:
        """Give items a new life."""
        self._begin()
        self._require(Capability.TTL)
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            return 0
        bounds = self._bounds(check_filter(metadata))
        now, touched = self.model.now(looks=True), 0
        for item_id in wanted:
            row = self.model.rows.get(item_id)
            if row and not row.deleted and metadata_matches(bounds, row.item.metadata):
                life = row.item.ttl if ttl is None else ttl
                if life is not None:
                    row.item = with_lifetime(row.item, life, now)
                    touched += 1
        self.model.in_use |= ttl is not None and ttl != math.inf
        return touched

    def sweep(self) -> AtMost:
        """Remove what is over; some of it may have been swept in passing."""
        self._begin()
        self._require(Capability.TTL)
        self.model.now(looks=True)
        return AtMost(self.model.over)

    def fork(self, session_id: str, *, at: str) -> BranchMemory:
        """Let a session share the past of another, and return its record, under a name that is to be replaced."""
        self._begin()
        self._require(Capability.FORK)
        wanted = self._filter(metadata=MemoryMetadata(session_id=session_id), archived=None)
        item = next((item for item in self._matching(wanted) if item.id == at), None)
        if item is None:
            raise Refused(InputError)
        record = record_of(item, session_id)
        if self.scope is not None:
            record.__dict__["metadata"] = self._stamped(record.metadata, self.scope)
        return record

    # Removing

    def clear(self, *, metadata: MemoryMetadata | None = None, **filters: Any) -> int:
        """Remove what matches."""
        self._begin()
        check_clearing(metadata)
        found = self._matching(self._filter(metadata=metadata, archived=None, **filters))
        for item in found:
            self.model.remove(item.id)
        return len(found)

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
        found = self._matching(self._filter(metadata=metadata, memory_type=memory_type, where=where))
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
        wanted = self._filter(metadata=metadata, archived=None, **filters)
        gone = [
            row.item.id
            for row in self.model.rows.values()
            if item_id in (None, row.item.id) and (row.deleted or not deleted_only) and wanted.matches(row.item)
        ]
        for each in gone:
            self.model.remove(each, purge=True)
        return len(gone)

    # What they have in common

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
        """Return the items that match, in the order of their adding."""
        rows = self.model.rows.values()
        fits = shown(self.model.rows, wanted)
        return [row.item for row in rows if (deleted or not row.deleted) and fits(row.item)]

    def _head(self, wanted: Filter) -> str | None:
        return self._last(self._matching(wanted))

    def _last(self, items: Iterable[MemoryItem]) -> str | None:
        said = [item.id for item in items if item.memory_type != "summary"]
        return said[-1] if said else None

    def _read(self, items: Iterable[MemoryItem], refresh: bool) -> list[MemoryItem]:
        found = list(items)
        if refresh:
            self.touch([item.id for item in found if item.ttl is not None])
            found = [self.model.rows[item.id].item for item in found]
        return [copy_item(item) for item in found]

    def _accepted(self, items: Iterable[MemoryItem], ttl: float | None) -> list[MemoryItem]:
        """Return items as they are to be stored: stamped with the scope, with their lifetimes."""
        accepted = [copy_item(storable(item)) for item in items]
        if self.scope is not None:
            for item in accepted:
                item.__dict__["metadata"] = self._stamped(item.metadata, self.scope)
        return [self._with_lifetime(item, ttl) for item in accepted]

    def _with_lifetime(self, item: MemoryItem, ttl: float | None) -> MemoryItem:
        if ttl is None and item.ttl is None and item.expires_at is None:
            return item
        self._require(Capability.TTL)
        self.model.in_use = True
        if ttl is None and item.expires_at is not None:
            return item
        return with_lifetime(item, item.ttl if ttl is None else ttl, self.model.now(looks=True))

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
        """Return the conflicts of ids that belong to others, those inside the batch too."""
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
            existing = self.model.rows.get(item.id)
            kept = copy_item(item)
            if keep_created and existing is not None:
                kept.__dict__["created_at"] = existing.item.created_at
            self.model.put(kept, hidden=item.id in hidden)
