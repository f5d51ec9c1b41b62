"""What a model is shown and what not, each with the reason: of a window, and of a context for its receipt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memoranda.integrity import call_ids, whole_groups
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store.base import Store
from memoranda.tokens import TokenCounter
from memoranda.windowing import last_rounds, rounds_within
from memoranda_context.fitting import ALREADY, INCOMPLETE, IS_QUERY
from memoranda_context.prompt import AssembledContext, remark_id


@dataclass(frozen=True, slots=True)
class Window:
    """What a model is shown, oldest first, and what it is not, each with the reason."""

    shown: list[MemoryItem]
    left_out: list[tuple[MemoryItem, str]]


def window_of(
    items: Sequence[MemoryItem], *, rounds: int | None, tokens: int | None, count: Callable[[MemoryItem], int]
) -> Window:
    """Cut a conversation, given oldest first, to its last rounds, then to a token budget, then to whole tool calls."""
    reasons: dict[int, str] = {}
    shown = list(items)
    if rounds is not None:
        shown = _cut(shown, last_rounds(shown, rounds), f"before the last {_rounds(rounds)}", reasons)
    if tokens is not None:
        shown = _cut(shown, rounds_within(shown, tokens, count), f"over the budget of {tokens} tokens", reasons)
    whole = whole_groups(shown, items)
    kept = {id(item) for item in whole}
    for item in shown:
        if id(item) not in kept:
            reasons[id(item)] = why_incomplete(item)
    return Window(whole, [(item, reasons[id(item)]) for item in items if id(item) in reasons])


def why_incomplete(item: MemoryItem) -> str:
    """Return why an item is left out whose tool call or group is not whole."""
    if call_ids(item):
        return "a call without all its results"
    return "a result without its whole call" if item.memory_type == "tool" else "part of a group that is not whole"


def _cut(items: Sequence[MemoryItem], kept: list[MemoryItem], reason: str, reasons: dict[int, str]) -> list[MemoryItem]:
    stay = {id(item) for item in kept}
    reasons |= {id(item): reason for item in items if id(item) not in stay}
    return kept


def _rounds(number: int) -> str:
    return "round" if number == 1 else f"{number} rounds"


def grouped(left_out: Sequence[tuple[MemoryItem, str]]) -> dict[str, list[MemoryItem]]:
    """Return what was left out by its reason, in the order in which the reasons first come."""
    groups: dict[str, list[MemoryItem]] = {}
    for item, reason in left_out:
        groups.setdefault(reason, []).append(item)
    return groups


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
        dropped = {each.item_id: _REASONS.get(each.reason) for each in self.context.explanation.dropped}
        considered = dict.fromkeys([*self.considered, *(each for each in dropped if each in self.originals)])
        return [(each, dropped.get(each) or _OVER_BUDGET) for each in considered if each not in shown]


def root_of(store: object) -> object:
    """Return the store that a handle belongs to."""
    return store.root if isinstance(store, Store) else store
