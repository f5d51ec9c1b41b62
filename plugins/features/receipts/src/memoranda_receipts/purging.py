"""Purging an item takes its content out of the receipts that hold it, and its earlier versions out of the store.

Every store that is opened has this observer, so that a file that once kept revisions loses those of a purged item, too,
when it is opened without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memoranda.errors import VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, Observer, Store
from memoranda.store.backend import (
    AS_ADDED,
    EVERY_ITEM,
    Change,
    Filter,
    Value,
    Write,
    items_of_ids,
    items_where,
    merge_scope,
)
from memoranda.store.records import writing_records

_IDS_PER_FILTER = 200
"""How many ids are looked up at once."""

_NO_RECORDS = tuple(Value("memory_type", False, "$ne", kind) for kind in ("receipt", "revision"))


class PurgeWatch(Observer):
    """Takes the content of items out of receipts before the items are purged.

    Contents that a receipt was asked to keep go, and so does a question that an item repeats; ids and hashes stay, so
    that a replay names what was purged.
    """

    only_removals = True

    async def purging(
        self, store: Store, wanted: Filter, ids: Sequence[str | MemoryItem] | None, deleted_only: bool
    ) -> None:
        """Look at what is about to be purged, or was, and change the receipts that hold any of it."""
        root, bounds = store.root, merge_scope(wanted.metadata, store.bounds) or MemoryMetadata()
        if ids is None and not deleted_only and bounds == MemoryMetadata(user_id=bounds.user_id) and _is_bare(wanted):
            return  # All that a user has goes, receipts as well.
        user, popped = bounds.user_id, {each.id: each for each in ids or () if isinstance(each, MemoryItem)}
        named = None if ids is None else [each for each in ids if isinstance(each, str)]
        if user is None and named is not None:
            live = await root.unobserved.read(items_of_ids(named))
            users = {item.metadata.user_id for item in [*live, *popped.values()]}
            # Of a deleted item, or of one that is gone already, the owner is not known.
            user = users.pop() if len(users) == 1 and len(live) == len(named) else None
        receipts = await _receipts(root, user)
        if named is None and not deleted_only:
            receipts = [item for item in receipts if not wanted.matches(item)]
        has_revisions = await root.unobserved.count(items_where(_records(user, "revision"))) > 0
        if not receipts and not has_revisions:
            return
        gone = popped or await _about_to_go(store, wanted, named, deleted_only)
        for item in receipts if gone else ():
            await clean(root, item, gone)
        if has_revisions:
            await _purge_revisions(root, user, list(gone))


def watch(store: Store) -> None:
    """Let purges of a store take content out of its receipts, if it was not opened by ``memoranda.open``."""
    if not any(isinstance(each, PurgeWatch) for each in store.root.observers):
        store.root.observe(PurgeWatch())


def _is_bare(wanted: Filter) -> bool:
    """Return True if a filter names only an owner."""
    return not (
        wanted.query or wanted.memory_type or wanted.status or any(type(each) is Value for each in wanted.further)
    )


async def _receipts(root: Store, user_id: str | None) -> list[MemoryItem]:
    """Return the receipts of a user, or all of them, deleted ones too."""
    hides = Capability.DELETE in root.capabilities
    records = items_where(_records(user_id, "receipt"), AS_ADDED, deleted=hides)
    return [item async for item in root.unobserved.stream(records)]


def _records(user_id: str | None, kind: str) -> Filter:
    """Return the filter of records of a kind of a user, or of all users."""
    owner = None if user_id is None else MemoryMetadata(user_id=user_id)
    return Filter(metadata=owner, memory_type=kind, archived=True)


async def _purge_revisions(root: Store, user_id: str | None, ids: Sequence[str]) -> None:
    """Purge the earlier versions of items from a store that was opened without revisions: it knows of none."""
    from memoranda_receipts.revisions.records import OF  # Every store imports this module, and few need that one.

    for start in range(0, len(ids), _IDS_PER_FILTER):
        named = Value(OF, True, "$in", list(ids[start : start + _IDS_PER_FILTER]))
        change = Change("purge", _records(user_id, "revision").also(named))
        await root.unobserved.write(Write(change=change))


async def _about_to_go(
    store: Store, wanted: Filter, ids: Sequence[str] | None, deleted_only: bool
) -> dict[str, MemoryItem | None]:
    """Return the items that are to be purged by their ids; None for one that is not there any more."""
    hides = Capability.DELETE in store.capabilities
    wanted = wanted.also(*_NO_RECORDS)
    if ids is None:
        filters = [wanted]
    else:
        parts = [list(ids[start : start + _IDS_PER_FILTER]) for start in range(0, len(ids), _IDS_PER_FILTER)]
        filters = [wanted.also(Value("id", False, "$in", part)) for part in parts]
    gone: dict[str, MemoryItem | None] = {} if deleted_only else dict.fromkeys(ids or ())
    for each in filters:
        there = store.unobserved.stream(items_where(each, AS_ADDED, deleted=hides))
        found = {item.id: item async for item in there}
        if deleted_only:
            live = {item.id async for item in store.unobserved.stream(items_where(each))}
            found = {name: item for name, item in found.items() if name not in live}
        gone |= found
    return gone


async def clean(root: Store, item: MemoryItem, gone: Mapping[str, MemoryItem | None]) -> None:
    """Take the content of items out of a stored receipt; a deleted receipt that holds any is purged."""
    from memoranda_receipts.records import cleaned_item  # Every store imports this module, and few need that one.

    changed = cleaned_item(item, gone)
    while changed is not None:
        if not await root.unobserved.read(items_of_ids([item.id])):
            await root.unobserved.write(Write(change=Change("purge", EVERY_ITEM, [item.id])))
            return
        try:
            with writing_records("receipt"):
                await root.update(changed)
            return
        except VersionConflictError:  # Another process changed it, such as by adding the answer.
            found = await root.get(item.id)
            changed = None if found is None else cleaned_item(found, gone)
