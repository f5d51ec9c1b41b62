"""Compare searches by meaning with one another, since the model knows no meanings.

One that has filters is compared with the ranking of everything, and one after many changes with one over copies of the
same items that have no past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import EVERYTHING, Capability, RankedItem, SearchMode, Store, copy_item
from memoranda_testing.model.player import made
from memoranda_testing.model.reference import Model
from memoranda_testing.model.steps import Call

LONG = 2_000
"""How many letters have several passages."""

_PAGING = ("query", "mode", "limit", "offset")


async def meaning_difference(store: Store, model: Model, call: Call) -> str | None:
    """Return how a ranked search differs from the best of all items that match, as a sentence; None if it does not."""
    everything = {"query": call.arguments["query"], "mode": call.arguments["mode"], "limit": EVERYTHING}
    whole = Call("search_ranked", {**everything, "archived": None, "metadata": model.bounds})
    scores = {each.item.id: round(each.score, 6) for each in await made(store, whole)}
    filters = {name: value for name, value in call.arguments.items() if name not in _PAGING}
    matching = {item.id for item in model.handle(call.scope).scan(**{"archived": False, **filters})}
    if missing := sorted(item.id for item in model.handle().scan() if item.content.strip() and item.id not in scores):
        return f"without any filter, {missing} are not ranked at all."
    best = sorted((scores[each] for each in matching & scores.keys()), reverse=True)[: call.arguments["limit"]]
    found = [(each.item.id, round(each.score, 6)) for each in await made(store, call)]
    outside = [item_id for item_id, _ in found if item_id not in matching]
    if outside:
        return f"it returned {outside}, which do not match."
    other = [item_id for item_id, score in found if abs(scores[item_id] - score) > 2e-6]
    if other:
        return f"the scores of {other} are not those of a search without filters."
    if len(found) != len(best) or any(abs(one[1] - score) > 2e-6 for one, score in zip(found, best, strict=True)):
        return f"the best scores are {best}, and it returned {found}."
    return None


async def renewed_difference(
    store: Store, held: list[MemoryItem], owner: MemoryMetadata, searches: Iterable[tuple[str, SearchMode]]
) -> str | None:
    """Return how a ranked search differs from one over copies of the same items, of another user; None if none does.

    ``held`` is all that the owner has, in the order of adding. The copies are removed again.
    """
    other = owner.model_copy(update={"user_id": f"{owner.user_id}-copy"})
    await store.add_many([_copy_of(item, other) for item in held])
    try:
        for query, mode in searches:
            found, renewed = [await _ranked(store, query, mode, metadata) for metadata in (owner, other)]
            if unlike := _difference(held, found, renewed):
                return f"search_ranked(query={query!r}, mode={mode!r}): {unlike}"
    finally:
        await store.clear(metadata=other)
        if Capability.PURGE in store.capabilities:
            await store.purge(metadata=other)
    return None


def _difference(
    held: list[MemoryItem], found: Mapping[str, RankedItem], renewed: Mapping[str, RankedItem]
) -> str | None:
    unlike = [item.id for item in held if not _alike(found.get(item.id), renewed.get(_copied(item.id)))]
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


def _copied(item_id: str) -> str:
    return f"{item_id}-copy"


def _copy_of(item: MemoryItem, owner: MemoryMetadata) -> MemoryItem:
    copied = copy_item(item)
    metadata = item.metadata.model_copy(update={"user_id": owner.user_id})
    copied.__dict__.update({"id": _copied(item.id), "metadata": metadata, "version": 0})
    return copied


async def _ranked(store: Store, query: str, mode: SearchMode, metadata: MemoryMetadata) -> dict[str, RankedItem]:
    ranked = await store.search_ranked(query=query, mode=mode, metadata=metadata, archived=None, limit=EVERYTHING)
    return {each.item.id: each for each in ranked}
