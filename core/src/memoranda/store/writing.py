"""The writing half of the contract: adding, replacing and comparing. See :class:`memoranda.store.BaseStore`."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from memoranda.errors import IdConflictError, InputError, VersionConflictError
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata
from memoranda.offloading import AT_ONCE, LETTERS_SIFTED_AT_ONCE, in_short_steps, in_slices
from memoranda.shapes import check_text, each, seconds
from memoranda.store.checks import storable
from memoranda.store.codec import copy_item, dump_item, load_item, stored_copy, stored_metadata
from memoranda.store.conditions import Expiry
from memoranda.store.engine import NO_LOCK, Engine
from memoranda.store.filters import check_filter
from memoranda.store.lifetimes import end_of_life, with_lifetime
from memoranda.store.protocol import Capability
from memoranda.store.records import check_record
from memoranda.store.values import Value
from memoranda.store.writes import Expected, Packer, Write, conversation_filter

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Writing(Engine):
    """What a store's writing methods promise."""

    async def add(
        self,
        item: MemoryItem,
        *,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        keep_created: bool = False,
    ) -> None:
        """Store the item. When this returns, it is stored: a persistent store still has it after a crash.

        An id that exists is replaced as a whole and its version goes up by one; it keeps its place in the order of
        adding, and with ``keep_created`` its ``created_at``. An id that was deleted comes back with the new content. An
        id that belongs to another ``user_id``, or to an item outside ``within``, is refused with IdConflictError and
        stays untouched. The caller's item is not changed, and changing it later changes nothing stored.

        ``ttl`` (seconds; capability ``ttl``), or else the item's own ``ttl``, makes the item vanish by itself: from
        that moment on, by the store's ``clock``, it is as if it had been purged. Raises InputError, naming the field,
        for what no store can hold, and for records, which only their makers write: see :mod:`memoranda.store.records`.
        """
        self._ensure_open()
        if within is not None:
            check_filter(within, "within")
        observed = bool(self._observers)
        item = self._validated(item)
        if observed or ttl is not None or item.ttl is not None or item.expires_at is not None:
            (item,) = self._all_finished([item], ttl, await self._known([item], False))
        if self._alone() is NO_LOCK and not keep_created and not self._lifetimes.in_use and not observed:
            await self._add(item, within)  # The same as below, in less time.
            return
        await self._write_shown([item], Write(within=within, keep_created=keep_created))

    async def add_many(
        self,
        items: Iterable[MemoryItem],
        *,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        deleted: Collection[str] = (),
        keep_created: bool = False,
    ) -> None:
        """Store several items, in their order, as :meth:`add` does each.

        All are checked before any is written. A store with the capability ``atomic`` writes all or none; another may
        have written the first ones when it raises.

        ``deleted`` holds the ids of those that arrive deleted, as after :meth:`delete`: no search shows them at any
        moment, not even if the process dies in between, and :meth:`restore` shows them. It is for copies of other
        stores, needs the capability ``add_deleted`` and takes no ``ttl``; an id that is not among the items is an
        InputError. Observers may change these items before they are stored, and get no notice of them afterwards.
        """
        self._ensure_open()
        check_filter(within, "within")
        given, pack = each(items, "items", "memory items"), self._packer()
        if pack is not None and len(given) > AT_ONCE and not self._observers and not deleted:
            rows = await self._packed(given, ttl, pack)
            await self._write(Write(within=within, keep_created=keep_created, packed=rows))
            return
        batch = await self._accepted(given, ttl)
        # The items of a large batch are copies; unless observers get them, the store may keep them as they are.
        owned = len(batch) > AT_ONCE and not self._observers and not keep_created
        hidden = self._arriving_deleted(batch, ttl, deleted)
        await self._write_shown(batch, Write(within=within, hidden=hidden, keep_created=keep_created, owned=owned))

    async def append(
        self,
        items: Iterable[MemoryItem],
        *,
        after: str | None,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
    ) -> str:
        """Store a whole turn, if the conversation has not gone on meanwhile, and return the id of its last item.

        The items are new, and of one conversation: one ``user_id`` and one ``session_id``. ``after`` is the id that
        :meth:`head` gave before the turn was thought of, None for a conversation that was empty. If the conversation
        has gone on since, TurnConflictError is raised and nothing is stored: of several who answer the same message
        with ``append``, one is heard, and no two turns are ever mixed. An id that exists is a VersionConflictError.
        """
        self._ensure_open()
        check_filter(within, "within")
        if after is not None:
            check_text(after, "after")
        batch = await self._accepted(items, ttl)
        expected = Expected(conversation_filter(batch).also(*self._alive()), after)
        batch, hidden, _ = await self._withheld(batch, frozenset())
        await self._write(Write(batch, within, hidden, fresh=True, expected=expected))
        shown = [item for item in batch if item.id not in hidden]
        self._observers.added(shown)
        return shown[-1].id if shown else after or ""

    async def apply(
        self,
        *,
        adds: Iterable[MemoryItem] = (),
        deletes: Iterable[str] = (),
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        keep_created: bool = False,
        purge: bool = False,
    ) -> int:
        """Delete some items and store others, all or none, and return how many were deleted.

        The capability ``atomic`` promises all or none. Deleting is what :meth:`clear` does, or with ``purge`` what
        :meth:`purge` does; ids that are not there, or lie outside ``within``, are passed over. Adding is what
        :meth:`add_many` does. An id that is to be both deleted and added is an InputError.
        """
        self._ensure_open()
        check_filter(within, "within")
        batch = await self._accepted(adds, ttl)
        gone = list(dict.fromkeys(check_text(item_id, "deletes") for item_id in each(deletes, "deletes", "ids")))
        if not {item.id for item in batch}.isdisjoint(gone):
            raise InputError("apply() cannot both add and delete the same id.", field="deletes")
        if purge:
            self._require(Capability.PURGE)
            await self._observers.wait("purging", self, self._filter(metadata=within, archived=None), gone, False)
        write = Write(within=within, deletes=gone, keep_created=keep_created, purge=purge)
        return await self._write_shown(batch, write)

    async def update(self, item: MemoryItem, *, within: MemoryMetadata | None = None) -> MemoryItem:
        """Replace the item if the store still has the version it carries, and return it with its new version.

        Version 0 means that there must be no such item yet. Otherwise raises VersionConflictError and changes nothing;
        an item outside ``within`` raises IdConflictError.
        """
        return (await self._updated([item], within))[0]

    async def update_many(
        self, items: Iterable[MemoryItem], *, within: MemoryMetadata | None = None
    ) -> list[MemoryItem]:
        """Compare-and-set several items: each as :meth:`update` does it, all or none.

        An id that occurs twice is an InputError. On a store without the capability ``atomic`` a crash, but no error of
        its own, may leave the first ones written.
        """
        return await self._updated(items, within)

    async def _updated(self, items: Iterable[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        self._ensure_open()
        check_filter(within, "within")
        batch = await self._accepted(items, None, updating=True)
        if len({item.id for item in batch}) != len(batch):
            raise InputError("update_many takes each id once.", field="id")
        if hidden := self._observers.hidden(batch):
            raise InputError(f"The item {min(hidden)!r} was not stored: an observer withholds it.", field="id")
        if not batch:
            return []
        async with self._alone():
            ids = [item.id for item in batch]
            updated = await self._with_room(ids, lambda: self._update_many(batch, within))
        self._observers.added(updated)
        return updated

    async def touch(
        self, ids: Iterable[str], *, ttl: float | None = None, metadata: MemoryMetadata | None = None
    ) -> int:
        """Let items live ``ttl`` seconds from now on, and return how many of them there were.

        Without ``ttl`` each lives its own ttl once more, and items that have none are left alone; ``math.inf`` lets
        them stay for good. Content, times and version stay as they are. Capability ``ttl``.
        """
        self._ensure_open()
        self._require(Capability.TTL)
        check_filter(metadata)
        wanted = list(dict.fromkeys(check_text(item_id, "ids") for item_id in each(ids, "ids", "ids")))
        if ttl is not None and ttl != math.inf:
            ttl = seconds(ttl, "ttl")
        if not wanted:
            return 0
        async with self._alone():
            if ttl is not None:
                self._lifetimes.note(end_of_life(self._lifetimes.now(self.clock), ttl))
            return await self._touch(wanted, ttl, self._lifetimes.now(self.clock), metadata)

    async def sweep(self) -> int:
        """Remove for good what has expired, and return how many items that were. Capability ``ttl``.

        There is no need to call it: expired items are never shown, and later calls sweep them.
        """
        self._ensure_open()
        self._require(Capability.TTL)
        async with self._alone():
            return await self._sweep(self._expired())

    # The way of an item: typed and validated, stamped, observed, given its lifetime, written.

    async def _accepted(
        self, items: Iterable[MemoryItem], ttl: float | None, *, updating: bool = False
    ) -> list[MemoryItem]:
        """Return the items as they will be stored. Large batches are copied and validated in a thread, by slices."""
        given = each(items, "items", "memory items")
        if len(given) <= AT_ONCE:
            validated = [self._validated(item) for item in given]
            return self._all_finished(validated, ttl, await self._known(validated, updating))
        finished = []
        shared: dict[int, MemoryMetadata] = {}
        async for some in in_slices(given, AT_ONCE):
            validated = await self._validated_aside(some, shared)
            finished += self._all_finished(validated, ttl, await self._known(validated, updating))
        self._ensure_open()
        return finished

    async def _known(self, items: Sequence[MemoryItem], updating: bool) -> frozenset[int]:
        """Return which objects are items just as they are stored, that only become archived, or come back.

        Observers have been asked about those. What says so and is not stored like this is new to them.
        """
        if not self._observers:
            return frozenset()
        named = [item for item in items if item.version and (updating or item.archived_by not in (None, item.id))]
        if not named:
            return frozenset()
        stored = {item.id: item for item in await self._get_many(sorted({item.id for item in named}))}
        return frozenset(id(item) for item in named if item.id in stored and _only_moves(item, stored[item.id]))

    async def _packed(self, items: Sequence[MemoryItem], ttl: float | None, pack: Packer) -> list[Any]:
        """Return the rows of a large batch. They are made where the items are validated, so that nothing is copied."""
        rows: list[Any] = []
        shared: dict[int, MemoryMetadata] = {}
        async for some in in_short_steps(items):
            texts = [getattr(item, "content", "") for item in some]
            if sum([len(text) for text in texts if isinstance(text, str)]) > LETTERS_SIFTED_AT_ONCE:
                validated = await self._validated_aside(some, shared)
            else:
                validated = [self._validated(item, copied=True) for item in some]
            rows += pack(self._all_finished(validated, ttl))
        self._ensure_open()
        return rows

    async def _validated_aside(
        self, items: Sequence[MemoryItem], shared: dict[int, MemoryMetadata]
    ) -> list[MemoryItem]:
        """Validate in a thread. The caller may change an item meanwhile, so it is a copy that is validated."""
        copies = [_copied(item, shared) if isinstance(item, MemoryItem) else item for item in items]
        return await asyncio.to_thread(lambda: [self._validated(item, copied=True) for item in copies])

    def _validated(self, given: MemoryItem, *, copied: bool = False) -> MemoryItem:
        """Return the item checked, of the class that it is read as, and stamped."""
        item = self._typed(storable(given))
        check_record(item)
        item = self._stamped(item)
        # Where a write waits for others, or for expired items, the caller may change an item meanwhile.
        waits = not copied and (self._serialises_writes or self._lifetimes.in_use)
        return copy_item(item) if waits and item is given else item

    def _typed(self, item: MemoryItem) -> MemoryItem:
        """Return the item as the class that it will be read as, so that everything stored can be read.

        Every item that a store is given comes by here, so this is where the records of branches are refused.
        """
        given = type(item)
        if given is not self.item_types.get(item.memory_type, MemoryItem):
            item = load_item(dump_item(item), self.item_types)
        if item.memory_type == "branch" or _is_of_branches(given) or _is_of_branches(type(item)):
            raise InputError(
                f"{item.id!r} is the record of a branch, which only fork() makes. To copy a branch from another store, "
                f"call fork(record.parent, at=record.at, record=record).",
                field="memory_type",
            )
        return item

    def _checked_ttl(self, ttl: float | None) -> float | None:
        if ttl is None:
            return None
        self._require(Capability.TTL)
        return seconds(ttl, "ttl")

    def _all_finished(
        self, items: list[MemoryItem], ttl: float | None, known: frozenset[int] = frozenset()
    ) -> list[MemoryItem]:
        if ttl is None and not self._observers and not any(item.ttl or item.expires_at for item in items):
            return items  # As most are.
        ttl, now = self._checked_ttl(ttl), self._lifetimes.now(self.clock)
        return [self._finished(item, ttl, now, id(item) in known) for item in items]

    def _finished(self, item: MemoryItem, ttl: float | None, now: str, is_known: bool) -> MemoryItem:
        """Return a validated item as the observers want it, with its lifetime."""
        if self._observers and not is_known:
            item = self._stamped(self._typed(storable(self._observers.before_add(item))))
        if ttl is None and item.ttl is None and item.expires_at is None:
            return item
        self._require(Capability.TTL)
        if ttl is not None or item.expires_at is None:
            item = with_lifetime(item, item.ttl if ttl is None else ttl, now)
        self._lifetimes.note(item.expires_at)
        return item

    async def _write_shown(self, batch: list[MemoryItem], write: Write) -> int:
        """Write the batch as the adds of ``write``, tell the observers, and return how many items were deleted."""
        adds, hidden, new = await self._withheld(batch, write.hidden)
        try:
            removed = await self._write(replace(write, adds=adds, hidden=hidden, new=new))
        except VersionConflictError as error:
            if error.item_id not in new or not await self._taken({error.item_id}):
                raise
            # Another task took the id since it was looked up. What an observer hides replaces nothing, so look again.
            return await self._write_shown(batch, write)
        if removed:
            self._observers.cleared(self._bounds(write.within), removed)
        if removed and write.purge:
            await self._observers.wait("purged")
        self._observers.added([item for item in adds if item.id not in hidden])
        return removed

    async def _write(self, write: Write) -> int:
        """Write a batch, with no other writer beside it, and return how many items were deleted."""
        ids = [*(item.id for item in write.adds), *(row[0] for row in write.packed), *write.deletes]
        if not ids:
            return 0
        async with self._alone():
            if len(write.adds) == 1 and write.is_plain:
                await self._with_room(ids, lambda: self._add(write.adds[0], write.within))
                return 0
            return await self._with_room(ids, lambda: self._apply(write))

    async def _with_room(self, ids: Sequence[str], write: Callable[[], Awaitable[T]]) -> T:
        """Write, after removing expired items that still hold the ids; closing the store waits for all of it.

        Another process may have stored an item that expires without this one's knowing, so a conflict is tried again.
        """
        with self._writes.call():
            await self._make_room(ids)
            try:
                return await write()
            except (IdConflictError, VersionConflictError):
                if not self._lifetimes.in_use:
                    raise
                await self._sweep_ids(ids)
                return await write()

    def _alive(self) -> list[Expiry]:
        now = self._now()
        return [] if now is None else [Expiry(now)]

    async def _withheld(
        self, batch: list[MemoryItem], deleted: frozenset[str]
    ) -> tuple[list[MemoryItem], frozenset[str], frozenset[str]]:
        """Return the batch, which of it arrives deleted, and which of it must be new.

        What arrives deleted is ``deleted``, and what an observer hides. That replaces nothing: where its id is taken,
        by a deleted item too, it is left out. Behind each of the others comes what an observer shows in its place.
        """
        hidden = self._observers.hidden(batch) - deleted if self._observers else set()
        if not hidden:
            return batch, deleted, frozenset()
        self._require(Capability.ADD_DELETED)
        taken = await self._taken(hidden)
        if taken:
            logger.warning("Withheld and not stored, since the ids are taken: %s.", ", ".join(sorted(taken)))
        kept: list[MemoryItem] = []
        for item in batch:
            if item.id not in hidden:
                kept.append(item)
            elif item.id not in taken:
                kept += [item, *self._observers.stand_ins(item)]
        new = frozenset(hidden - taken)
        return kept, deleted | new, new

    async def _taken(self, ids: Collection[str]) -> set[str]:
        """Return which of these ids are held by an item that this store or handle reaches, deleted or not."""
        wanted = self._filter(archived=None).also(Value("id", False, "$in", sorted(ids)))
        return {item.id async for item in self._scan(wanted, Capability.DELETE in self.capabilities, "added")}

    def _arriving_deleted(
        self, batch: Sequence[MemoryItem], ttl: float | None, deleted: Collection[str]
    ) -> frozenset[str]:
        if not deleted:
            return frozenset()
        self._require(Capability.ADD_DELETED)
        if ttl is not None:
            raise InputError("An item that arrives deleted takes no ttl.", field="ttl")
        hidden = frozenset({deleted} if isinstance(deleted, str) else each(deleted, "deleted", "ids"))
        if not hidden <= {item.id for item in batch}:
            raise InputError("deleted names an id that is not among the items.", field="deleted")
        return hidden


def _copied(item: MemoryItem, shared: dict[int, MemoryMetadata]) -> MemoryItem:
    """Return a copy for a store alone; those of items that share their metadata share it, too."""
    metadata, known = item.metadata, shared.get(id(item.metadata))
    if known is None or known.extra or known.__dict__ != metadata.__dict__:  # Another may have that id by now.
        known = shared[id(metadata)] = stored_metadata(metadata)
    return stored_copy(item, item.version, known)


def _only_moves(item: MemoryItem, stored: MemoryItem) -> bool:
    """Return True if an item differs from what is stored in what it is archived by, and in nothing else."""
    if item.archived_by == stored.archived_by:
        return False
    changes = {"archived_by": stored.archived_by, "updated_at": stored.updated_at}
    return dump_item(item.model_copy(update=changes)) == dump_item(stored)


@cache
def _is_of_branches(cls: type[MemoryItem]) -> bool:
    return issubclass(cls, BranchMemory)
