"""What a store promises: the protocol, its capabilities and the base class that backends build on.

The docstrings of :class:`BaseStore` are the contract. Every sentence in them has a case in the conformance kit
(:mod:`memoranda_testing`). A backend writes four small methods, ``_add``, ``_get``, ``_search`` and ``_clear``, and has
a correct store; it overrides further ones to be faster, and declares what it offers beyond the base.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.ranking.results import RERANKED, RankedItem, reranked
from memoranda.shapes import check_text, each, seconds
from memoranda.store.capabilities import Capability, SearchMode
from memoranda.store.checks import storable
from memoranda.store.codec import copy_item, dump_item, load_item
from memoranda.store.engine import EVERYTHING, Engine
from memoranda.store.filters import Filter, check_clearing, check_filter, check_limit, merge_scope, metadata_matches
from memoranda.store.observers import Observer
from memoranda.store.scoped import UNSET, ScopedEngine, scope_metadata


class BaseStore(Engine):
    """The base of every backend.

    Public methods check their arguments, tell the observers and call the method of the same name with an underscore,
    which is the backend's. Driver exceptions never leave a backend bare: it translates them to the errors of
    :mod:`memoranda.errors`. After :meth:`close`, every call raises StoreClosedError.
    """

    def observe(self, observer: Observer) -> None:
        """Tell this observer of what is added, searched and removed from now on; it may change items before adding."""
        self._observers.register(observer)

    def scoped(
        self, *, user_id: str = UNSET, session_id: str = UNSET, task_id: str = UNSET, agent_id: str = UNSET
    ) -> ScopedStore:
        """Return a handle that is bound to a scope: see :class:`memoranda.store.ScopedStore`.

        Raises InputError without any field, and for a field that is None: a user that was not found is not "any".
        """
        return self._scoped(scope_metadata(user_id=user_id, session_id=session_id, task_id=task_id, agent_id=agent_id))

    def _scoped(self, scope: MemoryMetadata) -> ScopedStore:
        """Return the handle; a store whose searches are a view of its own gives one that shows the same view."""
        return ScopedStore(self, scope)

    # Writing

    async def add(self, item: MemoryItem, *, within: MemoryMetadata | None = None, ttl: float | None = None) -> None:
        """Store the item. When this returns, it is stored: a persistent store still has it after a crash.

        An id that exists is replaced as a whole and its version goes up by one; it keeps its place among items of the
        same time. An id that was deleted comes back with the new content. An id that belongs to another ``user_id``, or
        to an item outside ``within``, is refused with IdConflictError and stays untouched. The caller's item is not
        changed, and changing it later changes nothing stored. ``ttl`` (seconds; stores with that capability) makes the
        item vanish by itself. Raises InputError, naming the field, for what no store can hold.
        """
        self._ensure_open()
        if ttl is not None:
            await self.add_many([item], within=within, ttl=ttl)
            return
        check_filter(within, "within")
        (item,) = self._accepted([item])
        async with self._alone():
            await self._add(item, within)
        if self._observers:
            self._observers.added([item])

    async def add_many(
        self,
        items: Iterable[MemoryItem],
        *,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        deleted: Collection[str] = (),
    ) -> None:
        """Store several items, in their order, as :meth:`add` does each.

        All are checked before any is written. A store with the capability ``atomic`` writes all or none; another may
        have written the first ones when it raises.

        ``deleted`` holds the ids of those that arrive deleted, as after :meth:`delete`: nobody sees them at any moment,
        not even if the process dies in between, and :meth:`restore` shows them. It is for copies of other stores, needs
        the capability ``add_deleted`` and takes no ``ttl``; an id that is not among the items is an InputError.
        Observers may change these items before they are stored, and are not told of them afterwards.
        """
        self._ensure_open()
        if ttl is not None:
            self._require(Capability.TTL)
            ttl = seconds(ttl, "ttl")
        check_filter(within, "within")
        batch = self._accepted(items)
        if deleted:
            await self._add_with_deleted(batch, within, ttl, deleted)
            return
        if not batch:
            return
        async with self._alone():
            await self._add_many(batch, within, ttl)
        if self._observers:
            self._observers.added(batch)

    async def _add_with_deleted(
        self, batch: list[MemoryItem], within: MemoryMetadata | None, ttl: float | None, deleted: Collection[str]
    ) -> None:
        self._require(Capability.ADD_DELETED)
        if ttl is not None:
            raise InputError("An item that arrives deleted takes no ttl.", field="ttl")
        hidden = frozenset({deleted} if isinstance(deleted, str) else each(deleted, "deleted", "ids"))
        if not hidden <= {item.id for item in batch}:
            raise InputError("deleted names an id that is not among the items.", field="deleted")
        async with self._alone():
            await self._add_deleted(batch, within, hidden)
        shown = [item for item in batch if item.id not in hidden]
        if self._observers and shown:
            self._observers.added(shown)

    async def update(self, item: MemoryItem, *, within: MemoryMetadata | None = None) -> MemoryItem:
        """Replace the item if the store still has the version it carries, and return it with its new version.

        Version 0 means that there must be no such item yet. Otherwise raises VersionConflictError and changes nothing;
        an item outside ``within`` raises IdConflictError.
        """
        return (await self.update_many([item], within=within))[0]

    async def update_many(
        self, items: Iterable[MemoryItem], *, within: MemoryMetadata | None = None
    ) -> list[MemoryItem]:
        """Compare-and-set several items: each as :meth:`update` does it, all or none.

        An id that occurs twice is an InputError. On a store without the capability ``atomic`` a crash, but no error of
        its own, may leave the first ones written.
        """
        self._ensure_open()
        check_filter(within, "within")
        batch = self._accepted(items)
        if len({item.id for item in batch}) != len(batch):
            raise InputError("update_many takes each id once.", field="id")
        if not batch:
            return []
        async with self._alone():
            updated = await self._update_many(batch, within)
        if self._observers:
            self._observers.added(updated)
        return updated

    # Reading

    async def get(self, item_id: str, *, metadata: MemoryMetadata | None = None) -> MemoryItem | None:
        """Return the item of this id, or None if there is none, it was removed, or it does not match ``metadata``.

        Without ``metadata`` whoever knows an id reads the item; a scoped handle or a filter closes that door. Archived
        items are returned. The item is the caller's own copy and carries the version the store gave it.
        """
        self._ensure_open()
        check_text(item_id, "item_id")
        if metadata is not None:
            check_filter(metadata)
        item = await self._get(item_id)
        if item is None or not metadata_matches(metadata, item.metadata):
            return None
        return item

    async def search(
        self,
        *,
        query: str = "",
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        status: MemoryStatus | None = None,
        limit: int = 10,
        mode: SearchMode | None = None,
    ) -> list[MemoryItem]:
        """Return the items that match every filter, newest first; of equal time, the last added first.

        ``query`` is a literal substring of the content, compared by Unicode case folding; the empty text matches all.
        With a ``mode`` other than ``"substring"`` the query is a question instead, and items come best first: see
        :meth:`search_ranked`. Archived items are not shown. ``limit`` is the most to return: 0 returns nothing, one
        beyond the number of items returns all, a negative one is an InputError.
        """
        self._ensure_open()
        mode = self._checked_mode(mode)
        check_limit(limit)
        if mode != "substring" and query:
            ranked = await self.search_ranked(
                query=query, metadata=metadata, memory_type=memory_type, status=status, limit=limit, mode=mode
            )
            return [found.item for found in ranked]
        wanted = Filter.of(query=query, metadata=metadata, memory_type=memory_type, status=status)
        found = await self._search(wanted, min(limit, EVERYTHING)) if limit else []
        if self._observers:
            self._observers.searched(query, found)
        return found

    async def search_ranked(
        self,
        *,
        query: str,
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        status: MemoryStatus | None = None,
        limit: int = 10,
        mode: SearchMode | None = None,
    ) -> list[RankedItem]:
        """Return the items that answer the query best, best first, each with its score and what made it.

        ``mode`` is ``"text"`` (words, weighted by how rare they are, with the neighbouring turns), ``"semantic"``
        (embeddings) or ``"hybrid"`` (both); None is the store's own default, or text where that is substring. Filters
        and ``limit`` are those of :meth:`search`; items with no relation to the query are left out of a text ranking.
        Raises UnsupportedError for a mode that this store does not have, InputError for an empty query.
        """
        self._ensure_open()
        mode = self._checked_mode(mode)
        if mode == "substring":
            mode = "text"
        self._require(Capability(mode))
        check_limit(limit)
        if not check_text(query, "query"):
            raise InputError("A ranked search needs a query.", field="query")
        wanted = Filter.of(metadata=metadata, memory_type=memory_type, status=status)
        if limit and self.reranker is not None:
            ranked = await self._rank(query, wanted, min(max(limit, RERANKED), EVERYTHING), mode)
            ranked = (await reranked(self.reranker, query, ranked))[:limit]
        else:
            ranked = await self._rank(query, wanted, min(limit, EVERYTHING), mode) if limit else []
        if self._observers:
            self._observers.searched(query, [found.item for found in ranked])
        return ranked

    async def count(self, *, include_deleted: bool = False, metadata: MemoryMetadata | None = None) -> int:
        """Return the number of items, archived ones included; with ``include_deleted`` also deleted ones."""
        self._ensure_open()
        return await self._count(Filter.of(metadata=metadata, archived=None), include_deleted)

    async def scan(
        self,
        *,
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        status: MemoryStatus | None = None,
        archived: bool | None = None,
        include_deleted: bool = False,
    ) -> AsyncGenerator[MemoryItem, None]:
        """Yield every item that matches, archived ones too, oldest first; of equal time, the first added first.

        Memory use does not grow with the number of items on a store that streams. Items that are there for the whole
        scan are yielded exactly once; others may or may not be. ``include_deleted`` needs the capability ``delete``.
        """
        self._ensure_open()
        if include_deleted:
            self._require(Capability.DELETE)
        wanted = Filter.of(metadata=metadata, memory_type=memory_type, status=status, archived=archived)
        async for item in self._scan(wanted, include_deleted):
            yield item

    # Removing

    async def clear(self, *, metadata: MemoryMetadata | None = None) -> int:
        """Remove the items that match, archived ones too, and return how many; without a filter, all of them.

        A store with the capability ``delete`` keeps them as deleted, and :meth:`restore` brings them back. An empty
        ``MemoryMetadata()`` is an InputError.
        """
        self._ensure_open()
        check_clearing(metadata)
        wanted = Filter.of(metadata=metadata, archived=None)
        async with self._alone():
            removed = await self._clear(wanted)
        if self._observers:
            self._observers.cleared(self._bounds(metadata), removed)
        return removed

    async def delete(self, item_id: str, *, metadata: MemoryMetadata | None = None) -> bool:
        """Delete the item and return whether one matched. It can be restored. Capability ``delete``."""
        self._ensure_open()
        self._require(Capability.DELETE)
        check_text(item_id, "item_id")
        check_filter(metadata)
        async with self._alone():
            deleted = await self._delete(item_id, metadata)
        if self._observers and deleted:
            self._observers.cleared(self._bounds(metadata), 1)
        return deleted

    async def restore(self, item_id: str | None = None, *, metadata: MemoryMetadata | None = None) -> int:
        """Bring back what :meth:`delete` or :meth:`clear` hid and return how many: one id, or all that match.

        Content and version are as they were. Capability ``delete``.
        """
        self._ensure_open()
        self._require(Capability.DELETE)
        if item_id is not None:
            check_text(item_id, "item_id")
        wanted = Filter.of(metadata=metadata, archived=None)
        async with self._alone():
            return await self._restore(item_id, wanted)

    async def purge(
        self,
        item_id: str | None = None,
        *,
        metadata: MemoryMetadata | None = None,
        deleted_only: bool = False,
    ) -> int:
        """Remove items for good, deleted ones too, with every trace in every index, and return how many.

        Name an id, a filter, or ``deleted_only`` to empty the bin; none of the three is an InputError, and so is an
        empty ``MemoryMetadata()``. A purged id can be used again by anyone. Capability ``purge``.
        """
        self._ensure_open()
        self._require(Capability.PURGE)
        check_clearing(metadata)
        if item_id is None and metadata is None and not deleted_only and not self._bounded:
            raise InputError("purge() needs an item id, a metadata filter, or deleted_only=True.", field="metadata")
        if item_id is not None:
            check_text(item_id, "item_id")
        wanted = Filter.of(metadata=metadata, archived=None)
        async with self._alone():
            purged = await self._purge(item_id, wanted, deleted_only)
        if self._observers:
            self._observers.cleared(self._bounds(metadata), purged)
        return purged

    def _accepted(self, items: Iterable[MemoryItem]) -> list[MemoryItem]:
        """Return the items ready to be stored: checked, stamped, and as the observers want them."""
        accepted = []
        for given in each(items, "items", "memory items"):
            item = self._prepared(self._as_read(storable(given)))
            # Where a write waits for others, the caller may change the item meanwhile.
            accepted.append(copy_item(item) if item is given and self._serialises_writes else item)
        if self._observers:
            accepted = [self._observers.before_add(item) for item in accepted]
            accepted = [storable(item) for item in accepted]
            accepted = [self._prepared(self._as_read(item)) for item in accepted]
        return accepted

    def _as_read(self, item: MemoryItem) -> MemoryItem:
        """Return the item as the class it will be read as, so that nothing is stored that could not be read."""
        if type(item) is self.item_types.get(item.memory_type, MemoryItem):
            return item
        return load_item(dump_item(item), self.item_types)


class ScopedStore(ScopedEngine, BaseStore):
    """A store within a scope; made by ``store.scoped(user_id=…)``.

    It stamps what is added with the scope, refuses an item that is stamped otherwise, and can neither see, overwrite,
    hide nor remove what lies outside. A filter that names another scope is an InputError. It fails closed: whatever is
    not bounded in :class:`ScopedEngine` is built from its bounded methods. Closing it does nothing; the store it was
    made from stays open. The store's observers are told of what is done through it; an observer of the handle is told
    of nothing else.
    """

    async def get(self, item_id: str, *, metadata: MemoryMetadata | None = None) -> MemoryItem | None:
        """Return the item of this id if it lies in the scope and matches the filter; see :meth:`BaseStore.get`."""
        return await super().get(item_id, metadata=merge_scope(check_filter(metadata), self.scope))
