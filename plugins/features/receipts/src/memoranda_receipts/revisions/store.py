"""A store around a store that keeps what is replaced and removed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TypeVar

from memoranda.errors import StoreNotFoundError
from memoranda.items import MemoryItem, MemoryMetadata, Payload
from memoranda.store import BaseStore, Capability, InMemoryStore, Order, Owner, RankedItem, Ranker, SearchMode, Store
from memoranda.store.backend import (
    AS_ADDED,
    Action,
    Change,
    Expiry,
    Filter,
    Listing,
    Page,
    Value,
    Write,
    best_of,
    check_expected,
    check_owner,
    end_of_life,
    items_of_ids,
    items_where,
    metadata_matches,
    payloads_where,
    place_of,
)
from memoranda_receipts.revisions.reading import AsOf, filled
from memoranda_receipts.revisions.records import (
    NO_REVISION,
    OF,
    ONLY_REVISIONS,
    VERSION,
    Revision,
    Revisions,
    loaded_revision,
    revision_item,
    with_since,
    without_since,
)

T = TypeVar("T")

_AT_ONCE = 200
"""How many items are cleared in one step."""


class RevisionsStore(AsOf, BaseStore):
    """A store that keeps earlier versions of its items; made by ``memoranda.open(url, revisions=True)``.

    What ``update``, ``add`` of an existing id, ``delete``, ``clear``, ``pop`` and ``touch`` replace or remove stays as
    revisions, which no ordinary read shows, in the same batch as the change where the store is ``atomic``. Purging and
    expiry leave none. ``kept`` bounds their age and number. ``window``, ``search``, ``scan`` and ``count`` take
    ``as_of``. Of several processes that change one item at the same moment by ``add`` or ``delete``, a version between
    may be lost; ``update`` loses none.
    """

    def __init__(self, store: Store, kept: Revisions | None = None) -> None:
        self._inner = store
        self._below = store.bottom
        self.kept = kept or Revisions()
        super().__init__()
        self._serialises_writes = True
        self._living.lifetimes = store._living.lifetimes
        store.clock = lambda: self.clock()

    def __repr__(self) -> str:
        return f"RevisionsStore({self._inner!r})"

    @property
    def capabilities(self) -> frozenset[Capability]:  # type: ignore[override]  # read-only here, as the store says
        """What the store underneath can do."""
        return self._inner.capabilities

    @property
    def item_types(self) -> Mapping[str, type[MemoryItem]]:
        """The classes that items are read as, which are those of the store underneath."""
        return self._inner.item_types

    @item_types.setter
    def item_types(self, types: Mapping[str, type[MemoryItem]]) -> None:
        self._inner.item_types = types

    async def _init(self) -> None:
        await self._inner.init()

    async def _close(self) -> None:
        await self._inner.close()

    async def _exists(self) -> bool:
        return await self._inner.exists()

    async def _alike(self) -> Sequence[str]:
        try:
            await self._inner.init()
        except StoreNotFoundError as error:
            return error.alike
        await self._inner.close()  # Another process has made it meanwhile.
        return ()

    def derived_id(self, text: str, *, digits: int = 32) -> str:
        """Return an id that is made from a text, as the store underneath makes it: it may be encrypted."""
        return self._inner.derived_id(text, digits=digits)

    async def _read_mark(self) -> str | None:
        return None  # The store underneath was opened for whatever stands around it.

    # Writing

    def _present(self) -> str:
        return self._living.now()

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await self._apply(Write([item], within))

    async def _apply(self, write: Write) -> int:
        now = self._present()
        stored = {
            item.id: item
            for item in await self._below.read(items_of_ids([*(item.id for item in write.adds), *write.deletes]))
        }
        revisions: list[MemoryItem] = []
        for item in write.adds:
            if item.id in stored:
                check_owner(stored[item.id], item, write.within)
                if _has_history(stored[item.id], now):
                    revisions.append(revision_item(stored[item.id], now, self.kept, ends=item.expires_at))
        gone = [
            stored[item_id] for item_id in write.deletes if item_id in stored and _has_history(stored[item_id], now)
        ]
        gone = [item for item in gone if metadata_matches(write.within, item.metadata)]
        deletes = list(write.deletes)
        if write.purge:
            ending = [item for item in await self._stored(deletes) if metadata_matches(write.within, item.metadata)]
            for revision in await self._revision_items(ending):
                if metadata_matches(write.within, revision.metadata):
                    deletes.append(revision.id)
                else:  # The batch ends at its bounds, and the item has moved.
                    await self._change("purge", ONLY_REVISIONS, revision.id)
        else:
            revisions += [revision_item(item, now, self.kept, ends=item.expires_at) for item in gone]
        if not revisions and len(write.adds) == 1 and write.is_plain:
            await self._below.write(Write([with_since(write.adds[0], now)], write.within))
            return 0
        revisions += await self._lasting(
            [(stored[item.id], item.expires_at) for item in write.adds if item.id in stored]
        )
        self._note(revisions)
        adds = [*revisions, *(with_since(item, now) for item in write.adds)]
        removed = (await self._below.write(write.but(adds=adds, deletes=deletes, owned=False))).changed
        await self._prune(stored.values())
        return removed - (len(deletes) - len(write.deletes))

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        now = self._present()
        stored = {item.id: item for item in await self._below.read(items_of_ids([item.id for item in items]))}
        for item in items:
            check_expected(item, stored.get(item.id), within)
        revisions: list[MemoryItem] = [
            revision_item(stored[item.id], now, self.kept, ends=item.expires_at)
            for item in items
            if item.id in stored and _has_history(stored[item.id], now)
        ]
        revisions += await self._lasting([(stored[item.id], item.expires_at) for item in items if item.id in stored])
        self._note(revisions)
        changed = [*(with_since(item, now) for item in items), *revisions]
        updated = (await self._below.write(Write(changed, within, compared=True))).items
        await self._prune(stored.values())
        return [without_since(item) for item in updated[: len(items)]]

    async def _clear(self, wanted: Filter) -> int:
        ids = [item.id async for item in self._below.stream(items_where(_own(wanted), AS_ADDED))]
        return sum([await self._apply(Write(deletes=some)) for some in _slices(ids)])

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        while newest := await self._below.read(items_where(_own(wanted), Page(1, order="added"))):
            if await self._apply(Write(deletes=[newest[0].id], purge=purge)):
                return without_since(newest[0])
        return None

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        return await self._apply(Write(within=within, deletes=[item_id])) > 0

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        """Bring items back, after noting that they were away: from their last version on, whenever that ended."""
        now = self._present()
        here = wanted if item_id is None else wanted.also(Value("id", False, "$eq", item_id))
        found = [item async for item in self._below.stream(items_where(_own(here), AS_ADDED, deleted=True))]
        live = {
            item.id
            for some in _slices(found)
            for item in await self._below.read(items_of_ids([each.id for each in some]))
        }
        away = [
            revision_item(item, now, self.kept, absent=True, ends=item.expires_at)
            for item in found
            if item.id not in live
        ]
        if away:
            self._note(away)
            await self._below.write(Write(away))
        return await self._change("restore", wanted.also(NO_REVISION), item_id)

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        """Purge items, their revisions first: what is broken off leaves no revision of an item that is gone."""
        here = wanted if item_id is None else wanted.also(Value("id", False, "$eq", item_id))
        hides = Capability.DELETE in self.capabilities
        ending = [item async for item in self._below.stream(items_where(_own(here), AS_ADDED, deleted=hides))]
        if deleted_only:
            live = {
                item.id
                for some in _slices(ending)
                for item in await self._below.read(items_of_ids([i.id for i in some]))
            }
            ending = [item for item in ending if item.id not in live]
        await self._purge_revisions(ending)
        if item_id is None and not deleted_only and _is_whole_scope(wanted):
            # Nothing of it stays, wherever items went.
            await self._change("purge", replace(ONLY_REVISIONS, metadata=wanted.metadata))
        return await self._change("purge", wanted.also(NO_REVISION), item_id, deleted_only=deleted_only)

    async def _change(
        self, action: Action, wanted: Filter, item_id: str | None = None, *, deleted_only: bool = False
    ) -> int:
        """Change items of the store inside, revisions among them if the filter says so, and return how many were."""
        change = Change(action, wanted, None if item_id is None else [item_id], deleted_only)
        return (await self._below.write(Write(change=change))).changed

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        found = [item for item in await self._below.read(items_of_ids(ids)) if metadata_matches(within, item.metadata)]
        mortal = [item for item in found if ttl is not None or item.ttl is not None]
        lives = {item.id: item.ttl or 0.0 if ttl is None else ttl for item in mortal}
        ends = {name: end_of_life(now, life) for name, life in lives.items()}
        changed = [item for item in mortal if _has_history(item, now)]
        revisions: list[MemoryItem] = await self._lasting([(item, ends[item.id]) for item in changed])
        revisions += [revision_item(item, now, self.kept, ends=ends[item.id]) for item in changed]
        if revisions:
            self._note(revisions)
            await self._below.write(Write(revisions))
        here, named = Filter(metadata=within, archived=None), [item.id for item in mortal]
        return (await self._below.write(Write(change=Change("touch", here, named, ttl=ttl, now=now)))).changed

    async def _sweep(self, wanted: Filter) -> int:
        await self._change("sweep", replace(wanted, memory_type="revision"))
        return await self._change("sweep", wanted.also(NO_REVISION))

    async def _soonest_expiry(self) -> str | None:
        if self.access == "read":
            return None  # Nothing is swept.
        no_item = Filter(archived=None, further=(Expiry("0001-01-01T00:00:00.000000+00:00", expired=True),))
        return (await self._below.write(Write(change=Change("sweep", no_item)))).next_expiry

    def _note(self, revisions: Iterable[MemoryItem]) -> None:
        for revision in revisions:
            self._lifetimes.note(revision.expires_at)

    # Reading

    def _checked_mode(self, mode: SearchMode | None) -> SearchMode:
        return self._inner._checked_mode(mode)

    def _order(self, order: Order | None) -> Order:
        return self._inner._order(order)

    async def _text_ranker(self) -> Ranker:
        self._inner.ranker = self.ranker or self._inner.ranker
        return await self._inner._text_ranker()

    async def _get(self, item_id: str) -> MemoryItem | None:
        item = next(iter(await self._below.read(items_of_ids([item_id]))), None)
        return None if item is None or item.memory_type == "revision" else without_since(item)

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        found = await self._below.read(items_of_ids(ids))
        return [without_since(item) for item in found if item.memory_type != "revision"]

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return [without_since(item) for item in await self._below.read(items_where(wanted.also(NO_REVISION), page))]

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        return await self._below.read(payloads_where(wanted.also(NO_REVISION), page))

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        if self.ranker is not None:
            self._inner.ranker = self.ranker
        ranked = await self._below.read(best_of(query, wanted.also(NO_REVISION), limit, mode))
        for found in ranked:
            without_since(found.item)
        return ranked

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return await self._below.count(items_where(wanted.also(NO_REVISION), deleted=include_deleted))

    def _one_state(self) -> AbstractAsyncContextManager[bool]:
        return self._below.snapshot()

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        async for item in self._below.stream(
            items_where(wanted.also(NO_REVISION), Page(order=order), deleted=include_deleted)
        ):
            yield without_since(item)

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        async for owner in self._below.owners(listing, items_where(wanted.also(NO_REVISION))):
            yield owner

    async def _place(self, item_id: str) -> int | None:
        return next(iter(await self._below.read(place_of(item_id))), None)

    # Revisions

    async def _lasting(self, changed: Sequence[tuple[MemoryItem, str | None]]) -> list[MemoryItem]:
        """Return the revisions of items that will end at another time than now, to end then, too."""
        other = [(item, end) for item, end in changed if item.expires_at != end and _has_history(item, "")]
        ends = {item.id: end for item, end in other}
        found = await self._revision_items([item for item, _ in other])
        for revision in found:
            bound = end_of_life(revision.created_at, self.kept.days * 24 * 3600)
            end = ends[str(revision.metadata.extra[OF])]
            revision.__dict__["expires_at"] = min((each for each in (bound, end) if each is not None), default=None)
        return found

    async def _prune(self, replaced: Iterable[MemoryItem]) -> None:
        """Remove the revisions of these items that are more than are kept."""
        for item in replaced:
            if item.version > self.kept.number:
                over = Value(VERSION, True, "$lte", item.version - self.kept.number)
                for revisions in _revisions_of([item]):
                    await self._change("purge", revisions.also(over))

    async def _purge_revisions(self, items: Sequence[MemoryItem]) -> int:
        return sum([await self._change("purge", revisions) for revisions in _revisions_of(items)])

    async def _revision_items(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        found: list[MemoryItem] = []
        for revisions in _revisions_of(items):
            found += (await self._below.read(items_where(revisions.also(*self._alive()), AS_ADDED)))[::-1]
        return found

    async def _revisions(self, items: Sequence[MemoryItem]) -> list[Revision]:
        return [loaded_revision(item) for item in await self._revision_items(items)]

    async def _snapshot(self, moment: str, bounds: MemoryMetadata | None) -> tuple[InMemoryStore, dict[str, int]]:
        """Return a store that holds what lay within some bounds at a moment, and the versions of its items."""
        hides = Capability.DELETE in self.capabilities
        wanted = Filter(metadata=bounds, archived=None, further=(NO_REVISION, *self._alive()))
        held = {item.id: item async for item in self._below.stream(items_where(wanted, AS_ADDED, deleted=hides))}
        live = {item.id async for item in self._below.stream(items_where(wanted, AS_ADDED))} if hides else set(held)
        earlier: dict[str, Revision] = {}
        async for item in self._below.stream(
            items_where(replace(ONLY_REVISIONS, metadata=bounds, further=tuple(self._alive())), AS_ADDED)
        ):
            revision = loaded_revision(item)
            if revision.covers(moment):  # Touching leaves an item's beginning: the first to end is the one.
                earlier.setdefault(revision.item_id, revision)
        moved = [item_id for item_id in earlier if item_id not in held]
        held |= {item.id: item for item in await self._stored(moved)}
        return await filled(moment, [*held.values()], live, earlier, self.item_types)

    async def _stored(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items of these ids, deleted ones too: those that left the bounds since."""
        hides, found = Capability.DELETE in self.capabilities, list[MemoryItem]()
        for some in _slices(ids):
            wanted = Filter(archived=None, further=(Value("id", False, "$in", list(some)), *self._alive()))
            found += [item async for item in self._below.stream(items_where(wanted, AS_ADDED, deleted=hides))]
        return found


def _slices(ids: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]


def _revisions_of(items: Iterable[MemoryItem]) -> Iterator[Filter]:
    """Yield filters that together find all revisions of these items: an item may move, but never to another user."""
    ids: dict[str | None, list[str]] = {}
    for item in items:
        ids.setdefault(item.metadata.user_id, []).append(item.id)
    for user_id, theirs in ids.items():
        bounds = None if user_id is None else MemoryMetadata(user_id=user_id)
        for some in _slices(theirs):
            yield replace(ONLY_REVISIONS, metadata=bounds).also(Value(OF, True, "$in", list(some)))


def _has_history(item: MemoryItem, now: str) -> bool:
    """Return True if an earlier version of an item is kept: none of a receipt, which may hold what is purged.

    A store may still have an item that has expired; that leaves none either.
    """
    return item.memory_type != "receipt" and (item.expires_at is None or item.expires_at > now)


def _own(wanted: Filter) -> Filter:
    """Return the filter of items that are no revisions, without the past that a forked session shares."""
    session = None if wanted.metadata is None else wanted.metadata.session_id
    only = () if session is None else (Value("session_id", False, "$eq", session),)
    return wanted.also(NO_REVISION, *only)


def _is_whole_scope(wanted: Filter) -> bool:
    """Return True if a filter asks for nothing but an owner."""
    named = wanted.query or wanted.memory_type is not None or wanted.status is not None
    return wanted.metadata is not None and not named and all(isinstance(each, Expiry) for each in wanted.further)
