"""The revisions that an engine holds: finding them, bounding them, and reading a scope as it was at a moment."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from memoranda.errors import InputError
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata
from memoranda.store import Capability, InMemoryStore, ScopedStore, Store
from memoranda.store.backend import (
    AS_ADDED,
    Change,
    Engine,
    Expiry,
    Filter,
    InBranch,
    Layer,
    Query,
    Value,
    Write,
    end_of_life,
    items_where,
    metadata_matches,
)
from memoranda.store.layers import add_layer
from memoranda.store.records import copying_records
from memoranda_receipts.revisions.records import (
    NO_REVISION,
    OF,
    ONLY_REVISIONS,
    VERSION,
    Revision,
    Revisions,
    has_history,
    readable_revision,
    since_of,
    without_since,
)

T = TypeVar("T")

IDS_PER_REQUEST = 200
"""How many items one request names."""


class RevisionHistory:
    """The revisions in the engine inside of a layer."""

    def __init__(
        self,
        layer: Layer,
        kept: Revisions,
        now: Callable[[], str],
        item_types: Callable[[], Mapping[str, type[MemoryItem]]],
    ) -> None:
        self._layer = layer
        self._kept = kept
        self._now = now
        self._item_types = item_types

    @property
    def _inner(self) -> Engine:
        return self._layer.inner

    async def items_of(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the revisions of items, in the order of adding."""
        found: list[MemoryItem] = []
        for revisions in _revisions_of(items):
            found += (await self._inner.read(items_where(revisions.also(Expiry(self._now())), AS_ADDED)))[::-1]
        return found

    async def versions(self, item_id: str, bounds: MemoryMetadata | None) -> list[MemoryItem]:
        """Return what an item was within some bounds, oldest first."""
        revisions = await self.items_of(await self.stored([item_id]))
        said = [revision for revision in map(readable_revision, revisions) if revision is not None]
        found = [revision.loaded(self._item_types()) for revision in said]
        return [item for item in found if item is not None and metadata_matches(bounds, item.metadata)]

    async def stored(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items of these ids, deleted ones too: those that left the bounds since."""
        hides, found = Capability.DELETE in self._inner.capabilities, list[MemoryItem]()
        for some in in_slices(ids):
            wanted = Filter(archived=None, further=(Expiry(self._now()), Value("id", False, "$in", list(some))))
            found += [item async for item in self._inner.stream(items_where(wanted, AS_ADDED, deleted=hides))]
        return found

    async def ending_otherwise(self, changed: Sequence[tuple[MemoryItem, str | None]]) -> list[MemoryItem]:
        """Return the revisions of items that will end at another time than now, to end then, too."""
        other = [(item, end) for item, end in changed if item.expires_at != end and has_history(item, "")]
        ends = {item.id: end for item, end in other}
        found = await self.items_of([item for item, _ in other])
        for revision in found:
            bound = end_of_life(revision.created_at, self._kept.days * 24 * 3600)
            end = ends[str(revision.metadata.extra[OF])]
            revision.__dict__["expires_at"] = min((each for each in (bound, end) if each is not None), default=None)
        return found

    async def prune(self, replaced: Iterable[MemoryItem]) -> None:
        """Remove the revisions of these items that are more than are kept."""
        for item in replaced:
            if item.version > self._kept.number:
                over = Value(VERSION, True, "$lte", item.version - self._kept.number)
                for revisions in _revisions_of([item]):
                    await self._purge(revisions.also(over))

    async def purge(self, items: Sequence[MemoryItem]) -> int:
        """Purge the revisions of items, and return how many they were."""
        return sum([await self._purge(revisions) for revisions in _revisions_of(items)])

    async def _purge(self, wanted: Filter) -> int:
        return (await self._inner.write(Write(change=Change("purge", wanted)))).changed

    async def past(self, moment: str, bounds: MemoryMetadata | None) -> Store:
        """Return a store, or a handle, that shows what lay within some bounds at a moment."""
        hides = Capability.DELETE in self._inner.capabilities
        alive = Expiry(self._now())
        reached = await self._with_past(Filter(metadata=bounds, archived=None, further=(alive,)))
        # The records of branches are found by the session alone, whatever else bounds a handle; that of a session names
        # all the others whose past it shares.
        owner = None if bounds is None or bounds.user_id is None else MemoryMetadata(user_id=bounds.user_id)
        records = Filter(metadata=owner, memory_type="branch", archived=None, further=(alive,))
        if bounds is not None and bounds.session_id is not None:
            records = records.also(Value("id", False, "$eq", bounds.session_id))
        held: dict[str, MemoryItem] = {}
        live: set[str] = set()
        for wanted in (reached.also(NO_REVISION), records):
            found = {item.id: item async for item in self._inner.stream(items_where(wanted, AS_ADDED, deleted=hides))}
            held |= found
            if hides:
                found = {item.id: item async for item in self._inner.stream(items_where(wanted, AS_ADDED))}
            live.update(found)
        earlier: dict[str, list[Revision]] = {}
        there = replace(reached, memory_type="revision")
        async for item in self._inner.stream(items_where(there, AS_ADDED)):
            revision = readable_revision(item)
            if revision is not None:
                earlier.setdefault(revision.item_id, []).append(revision)
        moved = [
            item_id
            for item_id, revisions in earlier.items()
            if item_id not in held and any(revision.covers(moment) for revision in revisions)
        ]
        held |= {item.id: item for item in await self.stored(moved)}
        branches = {item.id: await self._shared_by(item) for item in held.values() if isinstance(item, BranchMemory)}
        in_order = sorted(held.values(), key=lambda item: item.id in branches)  # Behind what they share.
        past = await _filled(moment, in_order, live, earlier, branches, self._item_types())
        return past if bounds is None else ScopedStore(past, bounds)

    async def _with_past(self, wanted: Filter) -> Filter:
        """Return a filter that also finds the sessions whose past a forked session shares."""
        bounds = wanted.metadata
        if bounds is None or bounds.session_id is None:
            return wanted
        record = next(iter(await self.stored([bounds.session_id])), None)
        if not isinstance(record, BranchMemory):
            return wanted
        sessions = Value("session_id", False, "$in", [bounds.session_id, *record.places])
        return replace(wanted, metadata=bounds.model_copy(update={"session_id": None})).also(sessions)

    async def _shared_by(self, record: BranchMemory) -> dict[str, list[str]]:
        """Return the ids of what a branch shares of each session, in the order of adding, deleted items too."""
        hides, shared = Capability.DELETE in self._inner.capabilities, dict[str, list[str]]()
        for session, upto in record.places.items():
            part = InBranch(record.id, record.metadata.user_id, ((session, upto),), None)
            wanted = Filter(archived=None, further=(Value("session_id", False, "$eq", session), part))
            found = self._inner.stream(items_where(wanted, AS_ADDED, deleted=hides))
            shared[session] = [item.id async for item in found]
        return shared


def revision_at(moment: str, revisions: Sequence[Revision], since: str) -> tuple[Revision | None, str]:
    """Return the revision that an item was at a moment, or None, and since when the item is what it is now.

    ``revisions`` come in the order of adding. ``since`` is when the item got its present form, "" for a deleted one.
    Where several cover the moment, a clock was ahead for a while: what began last was there. Touching and restoring
    leave the time of a form, so that of the revisions that began together the first to end is the one.
    """
    found, begun, ended = None, "", ""
    for revision in revisions:
        start = revision.since or ended  # Since when an item was deleted, the revision before it says.
        if start <= moment and revision.covers(moment) and (found is None or start > begun):
            found, begun = revision, start
        ended = revision.until
    had_this_form = any(revision.since == since for revision in revisions)
    present = ended if had_this_form else max(since, ended)
    return None if begun < present <= moment else found, present


class VersionLayer(Layer):
    """Gives the items of a store that was filled from another the versions that they had there."""

    name = "versions"

    def __init__(self, inner: Engine, versions: Mapping[str, int]) -> None:
        super().__init__(inner)
        self._versions = versions

    async def read(self, query: Query[T]) -> list[T]:
        """Return what the query asks for, with the versions."""
        found: list[Any] = await self.inner.read(query)
        if query.form in ("items", "ranked"):
            for each in found:
                self._set_version(each.item if query.form == "ranked" else each)
        return found

    async def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield all items that match, with the versions."""
        async for item in self.inner.stream(query):
            self._set_version(item)
            yield item

    def _set_version(self, item: MemoryItem) -> None:
        item.__dict__["version"] = self._versions.get(item.id, item.version)


async def _filled(
    moment: str,
    items: Sequence[MemoryItem],
    live: Collection[str],
    earlier: Mapping[str, Sequence[Revision]],
    branches: Mapping[str, Mapping[str, Sequence[str]]],
    types: Mapping[str, type[MemoryItem]],
) -> InMemoryStore:
    """Return a store with items as they were at a moment.

    ``items`` come in the order of adding, deleted ones too; ``live`` are the ids of the others. ``earlier`` are the
    revisions of each, in the order of adding. ``branches`` are the ids that each branch shares of other sessions.
    """
    store, versions = InMemoryStore(), dict[str, int]()
    store.item_types = types
    present = datetime.fromisoformat(moment).timestamp()
    store.clock = lambda: present
    for item in items:
        is_live = item.id in live
        since = since_of(item) or item.created_at if is_live else ""
        revision, begun = revision_at(moment, earlier.get(item.id, ()), since)
        if revision is not None:
            state = revision.loaded(types)
        else:
            state = item if is_live and begun <= moment else None
        if state is None:
            continue
        versions[state.id] = state.version
        state = without_since(state)
        try:
            if isinstance(state, BranchMemory):
                await _fork_again(store, state, branches.get(state.id, {}), versions)
            else:
                with copying_records(store):
                    await store.add(state)
        except InputError:
            continue  # The record of a branch whose past is not in the scope.
    add_layer(store, VersionLayer, versions)
    return store


async def _fork_again(
    store: Store, record: BranchMemory, shared: Mapping[str, Sequence[str]], there: Collection[str]
) -> None:
    """Make a branch again, up to the last item of each session that is there."""
    ends: dict[str, str] = {}
    for session, ids in shared.items():
        last = next((item_id for item_id in reversed(ids) if item_id in there), None)
        if last is not None:
            ends[session] = last
    parent = next(iter(ends), "")
    at = ends.pop(parent, "")
    await store.fork(parent, at=at, record=record.model_copy(update={"parent": parent, "at": at, "earlier": ends}))


def in_slices(many: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield some hundreds at a time."""
    for start in range(0, len(many), IDS_PER_REQUEST):
        yield many[start : start + IDS_PER_REQUEST]


def _revisions_of(items: Iterable[MemoryItem]) -> Iterator[Filter]:
    """Yield filters that together find all revisions of these items: an item may move, but never to another user."""
    ids: dict[str | None, list[str]] = {}
    for item in items:
        ids.setdefault(item.metadata.user_id, []).append(item.id)
    for user_id, theirs in ids.items():
        bounds = None if user_id is None else MemoryMetadata(user_id=user_id)
        for some in in_slices(theirs):
            yield replace(ONLY_REVISIONS, metadata=bounds).also(Value(OF, True, "$in", list(some)))
