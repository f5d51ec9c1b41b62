"""What was made from what: find everything derived from an item or an origin, take it back, or erase it.

A derived item names the items it was made from in ``sources``: a summary, a fact, a merged item. What is taken back is
deleted and can be restored; what is erased is purged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from memoranda.errors import InputError, VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata, now_text
from memoranda.store import Capability
from memoranda.store.backend import moment_text
from memoranda.store.records import writing_records
from memoranda.store.spaces import DIRECTORY
from memoranda.trust import origin_of
from memoranda_userdata.transfer import hidden_ids

if TYPE_CHECKING:
    from memoranda.store import Moment, Store

_ATTEMPTS = 5


@runtime_checkable
class KeepsVersions(Protocol):
    """A store that keeps earlier versions of items, such as that of memoranda-receipts."""

    async def purge_versions(self, item_id: str) -> int:
        """Purge the earlier versions of an item, and return how many they were."""
        ...


@dataclass(frozen=True, slots=True)
class Revocation:
    """What was taken back: the ids of the items asked for, of all that went, and of those that are shown again.

    It is plain data: keep ``as_json()`` somewhere, and :func:`undo_revocation` works in another process as well.
    """

    roots: tuple[str, ...]
    taken: tuple[str, ...]
    shown_again: dict[str, str] = field(default_factory=dict)
    """The ids of archived items that are shown again, each with the summary that stood for it."""
    by: str = ""
    at: str = field(default_factory=now_text)

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as a document."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Return the receipt of a document that :meth:`as_json` made."""
        lists = {name: tuple(document[name]) for name in ("roots", "taken")}
        return cls(**{**document, **lists})


@dataclass(frozen=True, slots=True)
class Erasure:
    """What was purged, and what lost one of its sources and was kept."""

    purged: tuple[str, ...]
    kept: tuple[str, ...] = ()
    shown_again: tuple[str, ...] = ()
    at: str = field(default_factory=now_text)


def sources_of(item: MemoryItem) -> list[str]:
    """Return the ids of the items that an item was made from."""
    found = getattr(item, "sources", None)
    return [source for source in found if isinstance(source, str)] if isinstance(found, (list, tuple)) else []


async def descendants(store: Store, item: MemoryItem | str) -> list[MemoryItem]:
    """Return everything that was made from an item, at any remove, oldest first.

    All items of its user are read; in a store with spaces, those of all users and spaces that the store or handle
    reaches. An id that the store does not have, such as a purged item's, is looked for among all of these, too.
    """
    found = await store.get(item) if isinstance(item, str) else item
    root = item if isinstance(item, str) else item.id
    everything = await _of_user(store, found)
    return _derived(everything, {root})


async def find_revoked(
    store: Store,
    *,
    origin: str | None = None,
    item: MemoryItem | str | None = None,
    since: Moment | None = None,
    by: str = "",
) -> Revocation:
    """Return what :func:`revoke` would take back; nothing is changed until it is given to :func:`take_back`."""
    if origin is None and item is None and since is None:
        raise InputError("revoke() needs an origin, an item or a time.", field="origin")
    item_id = item.id if isinstance(item, MemoryItem) else item
    earliest = "" if since is None else moment_text(since, "since")
    everything = [found async for found in store.scan()]
    roots = {
        found.id
        for found in everything
        if (origin is None or origin_of(found) == origin)
        and (item_id is None or found.id == item_id)
        and found.created_at >= earliest
        and found.memory_type != "branch"
    }
    gone = [found.id for found in everything if found.id in roots]
    gone += [found.id for found in _derived(everything, roots) if found.id not in roots]
    return Revocation(tuple(sorted(roots)), tuple(gone), _hidden_by(everything, set(gone)), by)


async def revoke(
    store: Store,
    *,
    origin: str | None = None,
    item: MemoryItem | str | None = None,
    since: Moment | None = None,
    by: str = "",
) -> Revocation:
    """Take back items and everything that was made from them, and return a receipt for :func:`undo_revocation`.

    Name an ``origin``, an ``item``, a time ``since`` which items were created, or several of them together. What is
    taken back is deleted: no read shows it. Items that only a deleted summary stood for are shown again. Needs the
    capability ``delete``; ``by`` says who asked for it.
    """
    receipt = await find_revoked(store, origin=origin, item=item, since=since, by=by)
    await take_back(store, receipt)
    return receipt


async def take_back(store: Store, found: Revocation) -> None:
    """Take back what :func:`find_revoked` found. If it is broken off, calling it again completes it."""
    await _show_again(store, found.shown_again)
    for each in found.taken:
        await store.delete(each)


async def undo_revocation(store: Store, receipt: Revocation) -> int:
    """Bring back what :func:`revoke` took and return how many items that were; what was purged since stays gone."""
    restored = sum([await store.restore(item_id) for item_id in receipt.taken])
    for item_id, summary in receipt.shown_again.items():
        if await store.get(summary) is not None:
            await _changed(store, item_id, partial(_archived, before=None, by=summary))
    return restored


async def erase(store: Store, ids: Iterable[str]) -> Erasure:
    """Purge items with everything that was made from them, deleted ones too, and return what went.

    A derived item whose class has ``without_sources(ids)``, such as a fact, is kept without these sources if that
    method returns it; it returns None for one that they alone support. Earlier versions of what is kept go, since they
    name these sources. Other derived items go, since their text may repeat what they were made from. Items that only a
    purged summary stood for are shown again. Ids that the store or handle does not have are not among those purged.
    """
    gone = set(ids)
    hides, rewrites = (each in store.capabilities for each in (Capability.DELETE, Capability.ADD_DELETED))
    deleted = await hidden_ids(store) if hides else set()
    held = {found.id: found async for found in store.scan(include_deleted=hides)}
    kept: dict[str, set[str]] = {}
    for found in _in_order_of_making(held.values()):
        lost = gone.intersection(sources_of(found))
        if found.id in gone or not lost:
            continue
        stays = rewrites or found.id not in deleted
        if stays and _without_sources(found, lost) is not None:
            kept[found.id] = lost
        else:
            gone.add(found.id)
    shown_again = _hidden_by(held.values(), gone)
    changes = {name: partial(_archived, before=summary, by=None) for name, summary in shown_again.items()}
    changes |= {name: partial(_without_sources, gone=lost) for name, lost in kept.items()}
    for name, change in changes.items():
        if name not in deleted:
            await _changed(store, name, change)
        elif rewrites and (changed := change(held[name])) is not None:
            with writing_records(changed.memory_type):
                await store.add_many([changed], deleted=[name])
    if isinstance(store, KeepsVersions):
        for name in kept:
            await store.purge_versions(name)
    purged = sorted(gone.intersection(held))
    await store.apply(deletes=purged, purge=True)
    return Erasure(tuple(purged), tuple(sorted(kept)), tuple(shown_again))


async def _of_user(store: Store, item: MemoryItem | None) -> list[MemoryItem]:
    shares = store.bounds is None and await store.count(metadata=MemoryMetadata(user_id=DIRECTORY)) > 0
    if item is None or shares:
        return [found async for found in store.scan()]
    user = item.metadata.user_id
    if user is None:
        return [found async for found in store.scan(where={"user_id": {"$eq": None}})]
    return [found async for found in store.scan(metadata=MemoryMetadata(user_id=user))]


def _derived(everything: Collection[MemoryItem], roots: Collection[str]) -> list[MemoryItem]:
    """Return the items that were made from the roots, or from others that were, in their order."""
    made: dict[str, list[str]] = {}
    for item in everything:
        for source in sources_of(item):
            made.setdefault(source, []).append(item.id)
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        for item_id in made.get(waiting.pop(), ()):
            if item_id not in found:
                found.add(item_id)
                waiting.append(item_id)
    return [item for item in everything if item.id in found]


def _in_order_of_making(everything: Collection[MemoryItem]) -> list[MemoryItem]:
    """Return derived items, each after those that it was made from; times may be anything."""
    derived = {item.id: item for item in everything if sources_of(item)}
    ordered: dict[str, MemoryItem] = {}
    waiting = [(item, False) for item in reversed(list(derived.values()))]
    under_way: set[str] = set()
    while waiting:
        item, is_ready = waiting.pop()
        if is_ready:
            ordered[item.id] = item
        elif item.id not in under_way:
            under_way.add(item.id)
            waiting.append((item, True))
            waiting += [(derived[source], False) for source in sources_of(item) if source in derived]
    return list(ordered.values())


def _hidden_by(everything: Iterable[MemoryItem], gone: Collection[str]) -> dict[str, str]:
    """Return the ids of archived items that only something gone stands for, each with its summary's."""
    return {
        item.id: item.archived_by
        for item in everything
        if item.archived_by is not None and item.archived_by in gone and item.id not in gone
    }


async def _show_again(store: Store, hidden: Mapping[str, str]) -> None:
    for item_id, summary in hidden.items():
        await _changed(store, item_id, partial(_archived, before=summary, by=None))


def _archived(item: MemoryItem, before: str | None, by: str | None) -> MemoryItem | None:
    """Return an item archived by another summary than before; None if it is no longer as it was."""
    return item.model_copy(update={"archived_by": by}) if item.archived_by == before else None


def _without_sources(item: MemoryItem, gone: Collection[str]) -> MemoryItem | None:
    """Return a derived item that stands without some of its sources, and without naming them; None if it does not."""
    without = getattr(item, "without_sources", None)
    rest: MemoryItem | None = None if without is None else without(gone)
    return rest


async def _changed(store: Store, item_id: str, change: Callable[[MemoryItem], MemoryItem | None]) -> None:
    """Store what ``change`` makes of an item as it is stored now; nothing if that is None, or the item is gone."""
    for _ in range(_ATTEMPTS):
        held = await store.get(item_id)
        changed = None if held is None else change(held)
        if changed is None:
            return
        try:
            with writing_records(changed.memory_type):
                await store.update(changed)
        except VersionConflictError:
            continue  # It was changed meanwhile: look again.
        return
    raise VersionConflictError(item_id, 0, None)
