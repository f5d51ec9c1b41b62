"""Items that are not trusted: shown between fences, each text of one origin once.

What a fence does is decided by the object that the caller gives, such as :class:`memoranda_guard.Fence`. Here it is
applied, once for a whole context, before the context is fitted into its budget.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from memoranda.integrity import call_ids, whole_groups
from memoranda.items import MemoryItem
from memoranda.shapes import wrong
from memoranda.store.base import Store
from memoranda.tokens import TokenCounter
from memoranda.trust import Trust, trust_of
from memoranda_context.budget import Counts

MOST_READ = 1_000
"""How many items are read at the most to find some that a fence leaves in."""

Read = Callable[[int], Awaitable[Sequence[MemoryItem]]]


class Fence(Protocol):
    """What context assembly needs of a fence."""

    def is_below(self, item: MemoryItem) -> bool:
        """Return True if an item is not trusted enough to leave as it is."""

    def apply(
        self, items: Sequence[MemoryItem], *, tokens: int | None = None, counter: TokenCounter | None = None
    ) -> list[MemoryItem]:
        """Return the items, oldest first, with those that are not trusted as quoted data; ids stay."""

    def distinct(self, items: Iterable[MemoryItem]) -> list[MemoryItem]:
        """Return the items without those that are not trusted and repeat an earlier one of their origin."""


def checked_fence(fence: Fence | None) -> Fence | None:
    """Return a fence, or raise InputError for what is none."""
    if fence is not None and not all(hasattr(fence, name) for name in ("is_below", "apply", "distinct")):
        raise wrong("fence", "a fence, such as memoranda_guard.Fence()", fence)
    return fence


def trusted(items: Sequence[MemoryItem], min_trust: Trust | None) -> list[MemoryItem]:
    """Return the items, oldest first, of at least this trust, without calls whose results are not."""
    if min_trust is None:
        return list(items)
    return whole_groups([item for item in items if trust_of(item).rank >= min_trust.rank])


@dataclass(frozen=True, slots=True)
class Admission:
    """Chooses what is read for one context, so that what its fence leaves out takes no place of what it keeps.

    A fence leaves out repetitions, and what exceeds its share of ``tokens``, the whole budget. Nothing is fenced here.
    """

    fence: Fence | None
    tokens: int
    count: Counts
    without_room: set[str] = field(default_factory=set)
    """The ids of what exceeded the share so far."""

    @property
    def counter(self) -> TokenCounter:
        """The counter to read a window with: what is not trusted counts nothing, since most of it may be left out."""
        fence, count = self.fence, self.count
        return count if fence is None else lambda item: 0 if fence.is_below(item) else count(item)

    def of_conversation(self, said: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return what is left of a conversation, oldest first. Of repetitions the newest stays."""
        if self.fence is None:
            return list(said)
        distinct = _without_repetitions(self.fence, said)
        shown = self._with_room(self.fence, distinct)
        return [item for item in distinct if item.id in shown]

    async def recalled(self, store: Store, query: str, limit: int | None, **wanted: Any) -> list[MemoryItem]:
        """Return what is left of what ``store.recall`` finds; see :meth:`enough`."""

        async def read(limit: int | None) -> list[MemoryItem]:
            memories: list[MemoryItem] = await store.recall(query, limit=limit, **wanted)
            return memories

        found = await read(limit)
        return await self.enough(read, len(found) if limit is None else limit, found)

    async def enough(self, read: Read, limit: int, found: Sequence[MemoryItem] | None = None) -> list[MemoryItem]:
        """Return what is left of what ``read(limit)`` gives, which puts first what matters most.

        Where some is left out, more is read, until as many as ``limit`` are left or there are no more. ``found`` is
        what the first read gave.
        """
        asked = limit
        found = await read(asked) if found is None else found
        if self.fence is None:
            return list(found)
        while True:
            distinct = self.fence.distinct(found)
            shown = self._with_room(self.fence, distinct[::-1])
            kept = [item for item in distinct if item.id in shown]
            if len(kept) >= limit or len(found) < asked or asked >= MOST_READ:
                return kept[:limit]
            asked = min(4 * asked, MOST_READ)
            found = await read(asked)

    def fenced(
        self, conversation: Sequence[MemoryItem], entries: Sequence[MemoryItem]
    ) -> tuple[list[MemoryItem], Mapping[str, MemoryItem]]:
        """Return the conversation fenced, and the entries by id, each as it is shown; those without room are missing.

        All is fenced in one call, so that there is one budget. What comes first has the last claim to it: so give the
        entry that matters most at the end. Of repetitions in the conversation the newest stays.
        """
        if self.fence is None:
            return list(conversation), {item.id: item for item in entries}
        said = {item.id: item for item in _without_repetitions(self.fence, conversation)}
        everything = {item.id: item for item in entries if item.id not in said} | said
        applied = self.fence.apply(list(everything.values()), tokens=self.tokens, counter=self.count)
        shown = {item.id: item for item in applied}
        self.without_room.update(everything.keys() - shown.keys())
        as_entries = {
            item.id: item if shown[item.id] is item else _entry(item, shown[item.id].content)
            for item in entries
            if item.id in shown
        }
        return [shown[item_id] for item_id in said if item_id in shown], as_entries

    def _with_room(self, fence: Fence, items: Sequence[MemoryItem]) -> set[str]:
        shown = {item.id for item in fence.apply(items, tokens=self.tokens, counter=self.count)}
        self.without_room.update(item.id for item in items if item.id not in shown)
        return shown


def _without_repetitions(fence: Fence, conversation: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the items of a conversation that say something new; calls and results of tools all stay."""
    alone = [item for item in conversation if not (item.memory_type == "tool" or item.group or call_ids(item))]
    repeated = {id(item) for item in alone} - {id(item) for item in fence.distinct(reversed(alone))}
    return [item for item in conversation if id(item) not in repeated]


def _entry(item: MemoryItem, content: str) -> MemoryItem:
    """Return an item that is not trusted as it is listed: without a name and a type of its own, which are text, too."""
    if item.memory_type == "tool":
        return item.model_copy(update={"content": content, "name": None, "tool_name": ""})
    kept = {name: getattr(item, name) for name in ("id", "metadata", "created_at", "updated_at", "trust", "origin")}
    return MemoryItem(content=content, **kept)
