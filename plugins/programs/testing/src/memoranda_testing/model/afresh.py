"""Copies of what a store holds: to compare rankings with those of items that have no past, and to compare branches."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata
from memoranda.store import EVERYTHING, Capability, InMemoryStore, RankedItem, SearchMode, Store, copy_item


async def copied(
    store: Store, asked: MemoryMetadata | None = None, *, deleted: bool = False, **filters: Any
) -> InMemoryStore:
    """Return a copy of what a store holds, made with public methods."""
    target = InMemoryStore()
    await copy_into(target, store, asked, deleted=deleted, **filters)
    return target


async def copy_into(
    target: Store, store: Store, asked: MemoryMetadata | None, *, deleted: bool = False, **filters: Any
) -> None:
    """Copy what a store holds into another one."""
    async for item in store.scan(metadata=asked, include_deleted=deleted, order="added", **filters):
        hidden = deleted and await store.get(item.id) is None
        if isinstance(item, BranchMemory):
            await target.fork(item.parent, at=item.at, record=item, deleted=hidden)
        else:
            await target.add_many([item], deleted=[item.id] if hidden else [])


LONG = 2_000
"""How many letters have several passages."""


async def unlike_afresh(
    store: Store, owner: MemoryMetadata, queries: Sequence[str], modes: Sequence[SearchMode]
) -> str | None:
    """Return how a ranked search differs from one over copies of the same items, of another user; None if none does.

    The copies are removed again.
    """
    held = [item async for item in store.scan(metadata=owner, order="added")]
    other = owner.model_copy(update={"user_id": f"{owner.user_id}-copy"})
    copies = {item.id: _copy_of(item, other) for item in held}
    await store.add_many(list(copies.values()))
    try:
        for query, mode in itertools.product(queries, modes):
            found, renewed = [await _ranked(store, query, mode, metadata) for metadata in (owner, other)]
            if unlike := _difference(copies, found, renewed):
                return f"search_ranked(query={query!r}, mode={mode!r}): {unlike}"
    finally:
        await store.clear(metadata=other)
        if Capability.PURGE in store.capabilities:
            await store.purge(metadata=other)
    return None


def _difference(
    copies: Mapping[str, MemoryItem], found: Mapping[str, RankedItem], renewed: Mapping[str, RankedItem]
) -> str | None:
    unlike = [item_id for item_id, copied in copies.items() if not _alike(found.get(item_id), renewed.get(copied.id))]
    if unlike:
        return f"{unlike} are not ranked as if they had just been added: a vector is out of date."
    # Scores in the order of the ranking: items that are equally good may come in any order.
    scores = [[each.score for each in ranked.values()] for ranked in (found, renewed)]
    if any(abs(one - other) >= 1e-5 for one, other in zip(*scores, strict=True)):
        return f"the order of {list(found)} is not that of items that have just been added."
    whole = [each.item.id for each in found.values() if len(each.item.content) > LONG and not each.passage]
    return f"it does not say which passages of {whole} it has found." if whole else None


def _alike(one: RankedItem | None, other: RankedItem | None) -> bool:
    """Return True if two items were found equally well, or not at all."""
    if one is None or other is None:
        return one is other
    return abs(one.score - other.score) < 1e-5 and one.passage == other.passage


def _copy_of(item: MemoryItem, owner: MemoryMetadata) -> MemoryItem:
    """Return a copy with an id that the store has never seen."""
    copied = copy_item(item)
    metadata = item.metadata.model_copy(update={"user_id": owner.user_id})
    copied.__dict__.update({"id": f"{item.id}-{uuid.uuid4().hex}", "metadata": metadata, "version": 0})
    return copied


async def _ranked(store: Store, query: str, mode: SearchMode, metadata: MemoryMetadata) -> dict[str, RankedItem]:
    ranked = await store.search_ranked(query=query, mode=mode, metadata=metadata, archived=None, limit=EVERYTHING)
    return {each.item.id: each for each in ranked}
