"""From a summary back to its sources: reading them, and restoring them."""

from __future__ import annotations

from memoranda.errors import ConflictError, InputError, SummaryError
from memoranda.items import MemoryItem, MemoryMetadata, MemoryStatus, SummaryMemory, now_text
from memoranda.store.base import Store
from memoranda.store.codec import copy_item
from memoranda.store.filters import metadata_matches
from memoranda.store.protocol import Capability
from memoranda.store.records import writing_records
from memoranda.windowing import as_said
from memoranda_messages.sessions import retry_conflicts

ATTEMPTS = 8
"""How often a swap is tried again when another process changed its items."""


async def expand(
    store: Store, summary_id: str, *, metadata: MemoryMetadata | None = None, deep: bool = True
) -> list[MemoryItem]:
    """Return the items that a summary stands for, in the order in which they were said.

    Where those are summaries themselves, what they stand for is returned instead, down to the messages; with
    ``deep=False`` only the direct sources are. A key point or trait stands for the items that it was found in; the id
    that archived items carry as ``archived_by`` stands for all of them. Items that were removed since are left out.
    Raises SummaryError when there is no such summary within ``metadata``.
    """
    check_store(store)
    summary = await _summary(store, summary_id, metadata)
    if summary is None or summary.archived_by == summary.compaction != "":
        raise SummaryError(f"There is no summary with the id {summary_id!r} here.")
    seen = {summary.id}
    found: list[MemoryItem] = []  # Newest first, as they are taken from the end of what waits.
    waiting = await _sources_of(store, summary, seen)
    while waiting:
        item = waiting.pop()
        if deep and isinstance(item, SummaryMemory):
            waiting += await _sources_of(store, item, seen)
        else:
            found.append(item)
    return found[::-1]


async def undo(store: Store, summary_id: str, *, metadata: MemoryMetadata | None = None) -> list[MemoryItem]:
    """Bring back what a compaction archived, withdraw its summaries, and return what came back, as it was said.

    Any summary of the compaction names it, and so does the id that its sources carry as ``archived_by``, even when that
    summary was deleted. Content and times are as they were. The summaries are hidden in the same compare-and-set, with
    the status ``discard``, and then deleted where the store can. Sources that were replaced or removed since are left
    as they are. Raises ConflictError when a later summary stands for one of these: undo that one first. Raises
    SummaryError when there is no such compaction within ``metadata``, or it was undone already.
    """
    check_store(store)
    attempts = 0

    async def attempt() -> list[MemoryItem]:
        nonlocal attempts
        attempts += 1
        restored = await _undo_once(store, summary_id, metadata)
        if restored is None and attempts == 1:
            raise SummaryError(f"There is no compaction with a summary {summary_id!r} here.")
        return restored or []  # Another process has just undone it.

    return await retry_conflicts(attempt, ATTEMPTS)


def check_store(store: object) -> None:
    """Raise InputError for anything but a Store: the swap needs scan and update_many."""
    if not isinstance(store, Store):
        raise InputError(
            f"Compaction needs a store that is built on memoranda.Store, not {type(store).__name__}.", field="store"
        )


def archived_by(item: MemoryItem, summary_id: str | None) -> MemoryItem:
    """Return a copy of the item that is archived by the summary of this id; None: one that is not archived."""
    changed = copy_item(item)
    changed.__dict__["archived_by"] = summary_id  # Nothing to validate, and there may be thousands.
    return changed


def may_stand_for(summary: SummaryMemory, item: MemoryItem) -> bool:
    """Return True if an item lies in a summary's own scope: a forged summary must not reach beyond it."""
    return summary.metadata.user_id == item.metadata.user_id and metadata_matches(summary.metadata, item.metadata)


async def _summary(store: Store, summary_id: str, metadata: MemoryMetadata | None) -> SummaryMemory | None:
    found = await store.get(summary_id, metadata=metadata)
    return found if isinstance(found, SummaryMemory) else None


async def _sources_of(store: Store, summary: SummaryMemory, seen: set[str]) -> list[MemoryItem]:
    """Return the sources of a summary that were not seen yet, never from outside its scope."""
    # What is archived is listed in the order in which it was said, and so are the sources, which may be fewer.
    ids = [source for source in [*summary.archives, *summary.sources] if source not in seen]
    seen.update(ids)
    found = await store.get_many(ids, metadata=summary.metadata)
    return [item for item in found if may_stand_for(summary, item)]


async def _undo_once(store: Store, summary_id: str, metadata: MemoryMetadata | None) -> list[MemoryItem] | None:
    """Undo a compaction and return what came back, or None if there is nothing to undo."""
    summary = await _summary(store, summary_id, metadata)
    compaction = (summary.compaction if summary else "") or summary_id
    scope = summary.metadata if summary else metadata
    members = [
        item
        async for item in store.scan(metadata=scope, memory_type="summary")
        if isinstance(item, SummaryMemory) and (item.compaction or item.id) == compaction
    ]
    hidden = store.scan(metadata=scope, archived=True, order="added")
    archived = as_said([item async for item in hidden if item.archived_by == compaction])
    if summary is not None:
        members = [item for item in members if may_stand_for(summary, item)]
        archived = [item for item in archived if may_stand_for(summary, item)]
    own = {member.id for member in members}
    sources = [item for item in archived if item.id not in own]
    for member in members:
        if member.archived_by not in (None, compaction):
            raise ConflictError(
                f"The summary {member.id!r} is itself summarised by {member.archived_by!r}. Nothing was changed; undo "
                f"that one first."
            )
    # The sources come back before the summaries go, and the summary that knows them goes last: wherever a crash can
    # stop in between, everything is still shown, and undoing again completes it.
    shown = sorted((member for member in members if member.archived_by is None), key=lambda item: bool(item.archives))
    changed = [*(archived_by(item, None) for item in sources), *(_withdrawn(item, compaction) for item in shown)]
    with writing_records("summary"):
        back = {item.id: item for item in await store.update_many(changed)}
    if Capability.DELETE in store.capabilities:
        for member in members:
            await store.delete(member.id, metadata=scope)
    return [back[item.id] for item in sources] if changed else None


def _withdrawn(item: SummaryMemory, compaction: str) -> MemoryItem:
    """Return a withdrawn summary, hidden and discarded, for a store that cannot delete."""
    changed = archived_by(item, compaction)
    changed.status = MemoryStatus.DISCARD
    changed.updated_at = now_text()
    return changed
