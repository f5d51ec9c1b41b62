"""A window with the reason for everything that is not in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memoranda.integrity import call_ids, whole_groups
from memoranda.items import MemoryItem
from memoranda.windowing import last_rounds, rounds_within


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
