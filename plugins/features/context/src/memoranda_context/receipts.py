"""What a receipt is told of a context: the items it was made of, as the store gave them, and what was left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store.base import Store
from memoranda.tokens import TokenCounter
from memoranda_context.fitting import ALREADY, INCOMPLETE, IS_QUERY
from memoranda_context.prompt import AssembledContext, remark_id

_OVER_BUDGET = "over budget"

_REASONS = {ALREADY: "shown already", INCOMPLETE: "a tool call that is not whole", IS_QUERY: "it is the question"}
"""The reasons of decisions, as receipts call them."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A context, and the ``originals`` of its items by id, as they were before a fence changed them.

    ``considered`` are ids of what it was chosen from, beside what its explanation names. What lies ``elsewhere`` is no
    item of the store that the receipt is in.
    """

    kind: str
    context: AssembledContext
    originals: Mapping[str, MemoryItem]
    asked: Mapping[str, Any]
    counter: TokenCounter | None
    considered: Sequence[str] = ()
    elsewhere: Collection[str] = ()

    async def recorded(self, store: Store, receipt: object, metadata: MemoryMetadata | None = None) -> None:
        """Wait for observers of the store that record the context, or for the receipt that is asked for."""
        messages, owner = self.context.parts.items(), metadata or store.bounds
        await store.shown(messages, receipt=receipt, kind=self.kind, owner=owner, details=self._details)

    def _details(self) -> dict[str, Any]:
        """Return how the messages were made; it is worked out only for those who record it."""
        sources = self._sources()
        return {
            "asked": self.asked,
            "counter": self.counter,
            "tokens": self.context.tokens,
            "sources": sources,
            "elsewhere": {"profile", *map(remark_id, self.context.parts.remarks), *self.elsewhere},
            "entries": self.context.parts.entries(),
            "left_out": self._left_out({item.id for _, item in sources}),
        }

    def _sources(self) -> list[tuple[str, MemoryItem]]:
        parts = self.context.parts
        profile = [("profile", MemoryItem(id="profile", content=parts.profile))] if parts.profile else []
        roles = {"told": parts.told, "long-term": parts.long_term, "recent": parts.recent}
        roles |= {"conversation": parts.conversation}
        made_of = profile + [(role, self.originals[item.id]) for role, items in roles.items() for item in items]
        shown = {item.id for item in [*parts.told, *parts.long_term]}
        remarks = [(each, remark) for each, remark in parts.remarks.items() if each in shown]
        return made_of + [("remark", MemoryItem(id=remark_id(each), content=remark)) for each, remark in remarks]

    def _left_out(self, shown: Collection[str]) -> list[tuple[str, str]]:
        """Return the ids of what is not in the context, each once, with the reason."""
        dropped = {each.item_id: _REASONS.get(each.reason) for each in self.context.explanation.dropped}
        considered = dict.fromkeys([*self.considered, *(each for each in dropped if each in self.originals)])
        return [(each, dropped.get(each) or _OVER_BUDGET) for each in considered if each not in shown]


def root_of(store: object) -> object:
    """Return the store that a handle belongs to."""
    return store.root if isinstance(store, Store) else store
