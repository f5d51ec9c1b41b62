"""What was made from what: items that name their sources, and how they go when those go.

A derived item names the items it was made from in ``sources``: a summary, a fact, a merged item.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from memoranda.errors import CorruptStoreError, VersionConflictError
from memoranda.items import MemoryItem, now_text, sources_of
from memoranda.store.base import Store
from memoranda.store.protocol import Capability
from memoranda.store.records import writing_records

logger = logging.getLogger(__name__)

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Erasure:
    """What was purged, and what lost one of its sources and was kept."""

    purged: tuple[str, ...]
    kept: tuple[str, ...] = ()
    shown_again: tuple[str, ...] = ()
    at: str = field(default_factory=now_text)


async def erase(store: Store, ids: Iterable[str], *, themselves: bool = True) -> Erasure:
    """Purge items with everything that was made from them, deleted ones too, and return what went.

    With ``themselves=False`` the items stay, for whoever purges them next.

    A derived item whose class has ``without_sources(ids)``, such as a fact, is kept without these sources if that
    method returns it; it returns None for one that they alone support. Earlier versions of what is kept go, since they
    name these sources. Other derived items go, since their text may repeat what they were made from. Items that only a
    purged summary stood for are shown again. Ids that the store or handle does not have are not among those purged.
    """
    given = frozenset(ids)
    gone = set(given)
    hides, rewrites = (each in store.capabilities for each in (Capability.DELETE, Capability.ADD_DELETED))
    deleted = await hidden_ids(store) if hides else set()
    held = {found.id: found async for found in store.scan(include_deleted=hides)}
    stood_for = stood_for_by_missing(held.values())
    kept: dict[str, set[str]] = {}
    for found in _in_order_of_making(held.values()):
        lost = {each for each in sources_of(found) if not gone.isdisjoint((each, *stood_for.get(each, ())))}
        if found.id in gone or not lost:
            continue
        stays = rewrites or found.id not in deleted
        if stays and _without_sources(found, lost) is not None:
            kept[found.id] = lost
        else:
            gone.add(found.id)
    shown_again = hidden_by(held.values(), gone)
    changes = {name: partial(archived_as, before=summary, by=None) for name, summary in shown_again.items()}
    changes |= {name: partial(_without_sources, gone=lost) for name, lost in kept.items()}
    for name, change in changes.items():
        if name not in deleted:
            await changed_item(store, name, change)
        elif rewrites and (changed := change(held[name])) is not None:
            with writing_records(changed.memory_type):
                await store.add_many([changed], deleted=[name])
    if store.keeps_versions:
        for name in kept:
            await store.purge_versions(name)
    purged = sorted(gone.intersection(held).difference(() if themselves else given))
    await store.apply(deletes=purged, purge=True)
    return Erasure(tuple(purged), tuple(sorted(kept)), tuple(shown_again))


async def hidden_ids(store: Store, metadata: Any = None) -> set[str]:
    """Return the ids of the items that the store hides."""
    # In this order, so that an item that is added meanwhile is not taken for a hidden one.
    found = {item.id async for item in store.scan(metadata=metadata, include_deleted=True)}
    async for item in store.scan(metadata=metadata):
        found.discard(item.id)
    return found


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


def stood_for_by_missing(everything: Collection[MemoryItem]) -> dict[str, list[str]]:
    """Return for each summary that is not there any more the ids of the items that it stood for.

    What was made from it was made from them, too, and only they still say so.
    """
    there = {item.id for item in everything}
    found: dict[str, list[str]] = {}
    for item in everything:
        if item.archived_by is not None and item.archived_by not in there:
            found.setdefault(item.archived_by, []).append(item.id)
    return found


def hidden_by(everything: Iterable[MemoryItem], gone: Collection[str]) -> dict[str, str]:
    """Return the ids of archived items that only something gone stands for, each with its summary's."""
    return {
        item.id: item.archived_by
        for item in everything
        if item.archived_by is not None and item.archived_by in gone and item.id not in gone
    }


def archived_as(item: MemoryItem, before: str | None, by: str | None) -> MemoryItem | None:
    """Return an item archived by another summary than before; None if it is no longer as it was."""
    return item.model_copy(update={"archived_by": by}) if item.archived_by == before else None


def _without_sources(item: MemoryItem, gone: Collection[str]) -> MemoryItem | None:
    """Return a derived item that stands without some of its sources, and without naming them; None if it does not.

    One that cannot be read tells nothing of the rest, and goes: anybody may have added it.
    """
    without = getattr(type(item), "without_sources", None)  # An item itself may have a field of any name.
    try:
        rest: MemoryItem | None = None if without is None else without(item, gone)
    except CorruptStoreError as error:
        logger.warning("%s It goes with its sources.", error)
        return None
    return rest


async def changed_item(store: Store, item_id: str, change: Callable[[MemoryItem], MemoryItem | None]) -> None:
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
