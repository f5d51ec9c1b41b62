"""Items that are not trusted: shown between fences, each text of one origin once.

What a fence does is decided by the object that the caller gives, such as :class:`memoranda_guard.Fence`. Here it is
applied, once for a whole context, before the context is fitted into its budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from memoranda.integrity import whole_groups
from memoranda.items import MemoryItem
from memoranda.shapes import wrong
from memoranda.store.base import BaseStore
from memoranda.tokens import TokenCounter
from memoranda.trust import Trust, trust_of

_MOST_RECALLED = 1_000
"""How many memories are recalled at the most to find some that do not repeat each other."""


class Fence(Protocol):
    """What context assembly needs of a fence."""

    def apply(
        self, items: Sequence[MemoryItem], *, tokens: int | None = None, counter: TokenCounter | None = None
    ) -> list[MemoryItem]:
        """Return the items, oldest first, with those that are not trusted as quoted data; ids stay."""

    def distinct(self, items: Iterable[MemoryItem]) -> list[MemoryItem]:
        """Return the items without those that are not trusted and repeat an earlier one of their origin."""


def checked_fence(fence: Fence | None) -> Fence | None:
    """Return a fence, or raise InputError for what is none."""
    if fence is not None and not (hasattr(fence, "apply") and hasattr(fence, "distinct")):
        raise wrong("fence", "a fence, such as memoranda_guard.Fence()", fence)
    return fence


def trusted(items: Sequence[MemoryItem], min_trust: Trust | None) -> list[MemoryItem]:
    """Return the items, oldest first, of at least this trust, without calls whose results are not."""
    if min_trust is None:
        return list(items)
    return whole_groups([item for item in items if trust_of(item).rank >= min_trust.rank])


async def recalled(
    store: BaseStore, query: str, fence: Fence | None, *, limit: int | None, **wanted: Any
) -> list[MemoryItem]:
    """Return what ``store.recall`` finds; of memories that are not trusted and repeat each other, the best.

    Where repetitions took the places of others, more is recalled, until as many are found or there are no more.
    """
    found = await store.recall(query, limit=limit, **wanted)
    if fence is None:
        return found
    distinct, asked = fence.distinct(found), len(found) if limit is None else limit
    most = asked
    while len(distinct) < most and len(found) >= asked < _MOST_RECALLED:
        asked = min(4 * asked, _MOST_RECALLED)
        found = await store.recall(query, limit=asked, **wanted)
        distinct = fence.distinct(found)
    return distinct[:most]


def fenced(
    fence: Fence,
    conversation: Sequence[MemoryItem],
    entries: Sequence[MemoryItem],
    tokens: int,
    count: TokenCounter,
) -> tuple[list[MemoryItem], Mapping[str, MemoryItem]]:
    """Return the conversation fenced, and the entries by id, each as it is shown; those without room are missing.

    All is fenced in one call, so that there is one budget. What comes first has the last claim to it: so give the
    entry that matters most at the end.
    """
    said = {item.id for item in conversation}
    others = {item.id: item for item in entries if item.id not in said}
    shown = {item.id: item for item in fence.apply([*others.values(), *conversation], tokens=tokens, counter=count)}
    as_entries = {
        item.id: item if shown[item.id] is item else _entry(item, shown[item.id].content)
        for item in entries
        if item.id in shown
    }
    return [shown[item.id] for item in conversation if item.id in shown], as_entries


def _entry(item: MemoryItem, content: str) -> MemoryItem:
    """Return an item that is not trusted as it is listed: without a name and a type of its own, which are text, too."""
    if item.memory_type == "tool":
        return item.model_copy(update={"content": content, "name": None, "tool_name": ""})
    kept = {name: getattr(item, name) for name in ("id", "metadata", "created_at", "updated_at", "trust", "origin")}
    return MemoryItem(content=content, **kept)
