"""The layer of revisions, and what opens a store with it."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.loops import CallsUnderWay, LoopLock
from memoranda.store import Capability, Store, copy_item
from memoranda.store.backend import (
    AS_ADDED,
    Change,
    Engine,
    Expiry,
    Filter,
    Layer,
    Page,
    Query,
    Value,
    Write,
    Written,
    check_expected,
    check_owner,
    end_of_life,
    items_of_ids,
    items_where,
    metadata_matches,
)
from memoranda.store.layers import add_layer
from memoranda_receipts.revisions.history import RevisionHistory, in_slices
from memoranda_receipts.revisions.records import (
    NO_REVISION,
    ONLY_REVISIONS,
    Revisions,
    has_history,
    revision_item,
    stamp_since,
    without_since,
)

T = TypeVar("T")


class RevisionsLayer(Layer):
    """Keeps earlier versions of items; put into a store by ``memoranda.open(url, revisions=True)``.

    What ``update``, ``add`` of an existing id, ``delete``, ``clear``, ``pop`` and ``touch`` replace or remove stays as
    revisions, which no ordinary read shows, in the same batch as the change where the engine is ``atomic``. Purging and
    expiry leave none. ``kept`` bounds their age and number. Of several processes that change one item at the same
    moment by ``add`` or ``delete``, a version between may be lost; ``update`` loses none.

    ``now`` tells the present by the store's clock, ``expires`` is told when a revision ends, and ``item_types`` returns
    the classes that items are read as.
    """

    name = "revisions"
    packer = None

    def __init__(
        self,
        inner: Engine,
        kept: Revisions,
        now: Callable[[], str],
        expires: Callable[[str | None], None],
        item_types: Callable[[], Mapping[str, type[MemoryItem]]],
    ) -> None:
        super().__init__(inner)
        self.kept = kept
        self._now = now
        self._expires = expires
        self._history = RevisionHistory(self, kept, now, item_types)
        # What is stored is read, and then replaced: no other write may come in between.
        self._writing = LoopLock()
        self._calls = CallsUnderWay()

    async def close(self) -> None:
        """Wait for writes under way, and close the engine inside."""
        await self._calls.ended()
        await self.inner.close()

    # Reading

    def narrow(self, query: Query[T]) -> Query[T]:
        """Return the query without revisions. What it gives is changed, so that it must not be shared."""
        if query.ids is not None:
            return query
        # First, since engines tell the last condition apart.
        further = (NO_REVISION, *query.wanted.further)
        return query._replace(wanted=replace(query.wanted, further=further), shared=False)

    async def read(self, query: Query[T]) -> list[T]:
        """Return what the query asks for, without revisions, as callers know it."""
        found: list[Any] = await self.inner.read(self.narrow(query))
        if query.form == "ranked":
            for ranked in found:
                without_since(ranked.item)
        elif query.form == "items":
            found = [without_since(item) for item in found if item.memory_type != "revision"]
        return found

    async def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield all items that match, without revisions, as callers know them."""
        async for item in self.inner.stream(self.narrow(query)):
            yield without_since(item)

    async def past(self, moment: str, bounds: MemoryMetadata | None) -> Any:
        """Return a store, or a handle, that shows what lay within some bounds at a moment."""
        return await self._history.past(moment, bounds)

    async def versions(self, item_id: str, bounds: MemoryMetadata | None) -> list[MemoryItem]:
        """Return the earlier versions of an item that lay within some bounds, oldest first."""
        return await self._history.versions(item_id, bounds)

    async def purge_versions(self, item_id: str, bounds: MemoryMetadata | None) -> int:
        """Purge the earlier versions of an item that lies within some bounds, and return how many they were."""
        held = await self._history.stored([item_id])
        return await self._history.purge([item for item in held if metadata_matches(bounds, item.metadata)])

    # Writing

    async def write(self, write: Write) -> Written:
        """Carry out a write, with revisions of what it changes."""
        # The caller may change an item while the write waits for others.
        copies = [copy_item(item) for item in write.adds]
        with self._calls.call():
            async with self._writing.held():
                if write.change is not None:
                    return await self._changed(write.change)
                now = self._now()
                for item in copies:
                    stamp_since(item, now)
                write = write.but(adds=copies, owned=False)
                return await (self._update(write, now) if write.compared else self._apply(write, now))

    async def _changed(self, change: Change) -> Written:
        match change.action:
            case "delete":
                return Written(await self._delete(change))
            case "pop":
                return await self._pop(change)
            case "restore":
                return await self._restore(change)
            case "purge":
                return Written(await self._purge(change))
            case "touch":
                return await self._touch(change)
            case "sweep":
                await self._change(replace(change, wanted=replace(change.wanted, memory_type="revision")))
                return await self._change(replace(change, wanted=change.wanted.also(NO_REVISION)))
        return await self._change(change)

    async def _change(self, change: Change) -> Written:
        return await self.inner.write(Write(change=change))

    async def _apply(self, write: Write, now: str) -> Written:
        stored = await self._held([*(item.id for item in write.adds), *write.deletes], now)
        revisions: list[MemoryItem] = []
        for item in write.adds:
            if item.id in stored:
                check_owner(stored[item.id], item, write.within)
                revisions += self._revisions_of([stored[item.id]], now, item.expires_at)
        gone = [stored[item_id] for item_id in write.deletes if item_id in stored]
        gone = [item for item in gone if metadata_matches(write.within, item.metadata)]
        deletes = list(write.deletes)
        if write.purge:
            deletes += await self._revisions_within(deletes, write.within)
        else:
            for item in gone:
                revisions += self._revisions_of([item], now, item.expires_at)
        if not revisions and len(write.adds) == 1 and write.is_plain:
            return await self.inner.write(write)
        replaced = [(stored[item.id], item.expires_at) for item in write.adds if item.id in stored]
        revisions += await self._history.ending_otherwise(replaced)
        self._note(revisions)
        if write.vectors is not None and revisions:  # They are those of the adds alone.
            await self.inner.write(Write(revisions, now=write.now))
            revisions = []
        written = await self.inner.write(write.but(adds=[*revisions, *write.adds], deletes=deletes))
        await self._history.prune(stored.values())
        return Written(written.changed - (len(deletes) - len(write.deletes)))

    async def _revisions_within(self, ids: Sequence[str], within: MemoryMetadata | None) -> list[str]:
        """Return the ids of the revisions of items that a batch purges. Those outside of its bounds are purged here."""
        ending = [item for item in await self._history.stored(ids) if metadata_matches(within, item.metadata)]
        found = []
        for revision in await self._history.items_of(ending):
            if metadata_matches(within, revision.metadata):
                found.append(revision.id)
            else:  # The batch ends at its bounds, and the item has moved.
                await self._change(Change("purge", ONLY_REVISIONS, [revision.id]))
        return found

    async def _update(self, write: Write, now: str) -> Written:
        stored = await self._held([item.id for item in write.adds], now)
        revisions: list[MemoryItem] = []
        for item in write.adds:
            check_expected(item, stored.get(item.id), write.within)
            if item.id in stored:
                revisions += self._revisions_of([stored[item.id]], now, item.expires_at)
        replaced = [(stored[item.id], item.expires_at) for item in write.adds if item.id in stored]
        revisions += await self._history.ending_otherwise(replaced)
        self._note(revisions)
        updated = await self.inner.write(write.but(adds=[*write.adds, *revisions]))
        await self._history.prune(stored.values())
        return Written(0, [without_since(item) for item in updated.items[: len(write.adds)]])

    async def _delete(self, change: Change) -> int:
        """Delete items that match, some hundreds at a time."""
        now = self._now()
        if change.ids is None:
            found = self.inner.stream(items_where(_own(change.wanted), AS_ADDED))
            ids = [item.id async for item in found]
        else:
            held = await self._held(change.ids, now)
            ids = [item_id for item_id, item in held.items() if change.wanted.matches(item)]
        return sum([(await self._apply(Write(deletes=some), now)).changed for some in in_slices(ids)])

    async def _pop(self, change: Change) -> Written:
        while newest := await self.inner.read(items_where(_own(change.wanted), Page(1, order="added"))):
            taken = Write(deletes=[newest[0].id], purge=change.purge)
            if (await self._apply(taken, self._now())).changed:
                return Written(1, [without_since(newest[0])])
        return Written()

    async def _restore(self, change: Change) -> Written:
        """Bring items back, after noting that they were away: from their last version on, whenever that ended."""
        now = self._now()
        found = self.inner.stream(items_where(_own(_named(change)), AS_ADDED, deleted=True))
        away: list[MemoryItem] = []
        for some in in_slices([item async for item in found]):
            live = {item.id for item in await self.inner.read(items_of_ids([item.id for item in some]))}
            hidden = [item for item in some if item.id not in live]
            away += [revision_item(item, now, self.kept, absent=True, ends=item.expires_at) for item in hidden]
        if away:
            self._note(away)
            await self.inner.write(Write(away))
        return await self._change(replace(change, wanted=change.wanted.also(NO_REVISION)))

    async def _purge(self, change: Change) -> int:
        """Purge items, their revisions first: what is broken off leaves no revision of an item that is gone."""
        hides = Capability.DELETE in self.capabilities
        found = self.inner.stream(items_where(_own(_named(change)), AS_ADDED, deleted=hides))
        ending = [item async for item in found]
        if change.deleted_only:
            live: set[str] = set()
            for some in in_slices(ending):
                live |= {item.id for item in await self.inner.read(items_of_ids([item.id for item in some]))}
            ending = [item for item in ending if item.id not in live]
        await self._history.purge(ending)
        if change.ids is None and not change.deleted_only and _is_whole_scope(change.wanted):
            # Nothing of it stays, wherever items went.
            await self._change(Change("purge", replace(ONLY_REVISIONS, metadata=change.wanted.metadata)))
        return (await self._change(replace(change, wanted=change.wanted.also(NO_REVISION)))).changed

    async def _touch(self, change: Change) -> Written:
        found = await self.inner.read(items_of_ids(change.ids or ()))
        found = [item for item in found if metadata_matches(change.wanted.metadata, item.metadata)]
        expiring = [item for item in found if change.ttl is not None or item.ttl is not None]
        lives = {item.id: item.ttl or 0.0 if change.ttl is None else change.ttl for item in expiring}
        ends = {name: end_of_life(change.now, life) for name, life in lives.items()}
        changed = [item for item in expiring if has_history(item, change.now)]
        revisions = await self._history.ending_otherwise([(item, ends[item.id]) for item in changed])
        for item in changed:
            revisions += self._revisions_of([item], change.now, ends[item.id])
        if revisions:
            self._note(revisions)
            await self.inner.write(Write(revisions))
        return await self._change(replace(change, ids=[item.id for item in expiring]))

    async def _held(self, ids: Sequence[str], now: str) -> dict[str, MemoryItem]:
        """Return what is shown under these ids. What has expired holds none."""
        found = await self.inner.read(items_of_ids(ids)) if ids else []
        alive = Expiry(now)
        return {item.id: item for item in found if alive.matches(item)}

    def _revisions_of(self, items: Iterable[MemoryItem], now: str, ends: str | None) -> list[MemoryItem]:
        """Return the revisions of items that change now, and end then."""
        return [revision_item(item, now, self.kept, ends=ends) for item in items if has_history(item, now)]

    def _note(self, revisions: Iterable[MemoryItem]) -> None:
        for revision in revisions:
            self._expires(revision.expires_at)


def _named(change: Change) -> Filter:
    """Return the filter of what a change is about."""
    return change.wanted if change.ids is None else change.wanted.also(Value("id", False, "$in", list(change.ids)))


def _own(wanted: Filter) -> Filter:
    """Return the filter of items that are no revisions, without the past that a forked session shares."""
    session = None if wanted.metadata is None else wanted.metadata.session_id
    only = () if session is None else (Value("session_id", False, "$eq", session),)
    return wanted.also(NO_REVISION, *only)


def _is_whole_scope(wanted: Filter) -> bool:
    """Return True if a filter names only an owner."""
    named = wanted.query or wanted.memory_type is not None or wanted.status is not None
    return wanted.metadata is not None and not named and all(isinstance(each, Expiry) for each in wanted.further)


StoreT = TypeVar("StoreT", bound=Store)


def with_revisions(store: StoreT, *, value: object = True, **options: Any) -> StoreT:
    """Let a store keep earlier versions of items, and return it.

    ``value`` is True, or a :class:`Revisions` that says how many; the URL's options ``revisions_days`` and
    ``revisions_number`` say it, too. Raises InputError for anything else.
    """
    if value is not True and value != "true" and not isinstance(value, Revisions):
        raise InputError("revisions is True, or memoranda_receipts.Revisions(days=…, number=…).", field="revisions")
    given = value if isinstance(value, Revisions) else Revisions()
    kept = Revisions(options.get("revisions_days", given.days), options.get("revisions_number", given.number))
    itself = weakref.proxy(store)
    add_layer(
        store,
        RevisionsLayer,
        kept,
        now=lambda: itself.present,
        expires=store.lifetimes.note,
        item_types=lambda: itself.item_types,
    )
    return store


OPTIONS: Mapping[str, Callable[[str], Any]] = {"revisions_days": float, "revisions_number": int}
with_revisions.options = OPTIONS  # type: ignore[attr-defined]  # memoranda.open looks there for the URL's options.
