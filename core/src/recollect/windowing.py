"""How much of a conversation is shown: its last rounds, as many as fit a budget, or its newest items.

A round starts with what a human said; whatever precedes the first one belongs to the first round. System items are
outside the rounds and always stay. All functions take and return items oldest first, and import no store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recollect.errors import InputError
from recollect.items import MemoryItem


def check_rounds(rounds: int, field: str = "max_rounds") -> int:
    """Return the number of rounds, or raise InputError unless it is an integer of at least 0."""
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 0:
        raise InputError(f"{field} must be a whole number of at least 0, not {rounds!r}.", field=field)
    return rounds


def round_starts(items: Sequence[MemoryItem]) -> list[int]:
    """Return where each round starts; the first start is 0 as soon as there is any item."""
    starts = [position for position, item in enumerate(items) if item.memory_type == "human"]
    if not items:
        return []
    return [0, *starts[1:]]


def from_position(items: Sequence[MemoryItem], start: int) -> list[MemoryItem]:
    """Return the items from a position on, and the system items before it."""
    return [item for item in items[:start] if item.memory_type == "system"] + list(items[start:])


def last_rounds(items: Sequence[MemoryItem], rounds: int) -> list[MemoryItem]:
    """Return the last rounds of a conversation, and every system item; 0 rounds leave only those."""
    check_rounds(rounds, "rounds")
    starts = round_starts(items)
    if rounds >= len(starts):
        return list(items)
    return from_position(items, starts[-rounds] if rounds else len(items))


def rounds_within(
    items: Sequence[MemoryItem], budget: int, count_tokens: Callable[[MemoryItem], int]
) -> list[MemoryItem]:
    """Return as many of the newest rounds as fit a token budget, and every system item.

    System items count towards the budget and stay even where they alone exceed it. Rounds are whole: the first one,
    from the newest, that does not fit ends the window, so that a window has no gaps.
    """
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 0:
        raise InputError(f"budget must be a whole number of tokens of at least 0, not {budget!r}.", field="budget")
    left = budget - sum(count_tokens(item) for item in items if item.memory_type == "system")
    end = kept = len(items)
    for start in reversed(round_starts(items)):
        left -= sum(count_tokens(item) for item in items[start:end] if item.memory_type != "system")
        if left < 0:
            break
        end = kept = start
    return from_position(items, kept)


def newest(items: Sequence[MemoryItem], limit: int) -> list[MemoryItem]:
    """Return at most ``limit`` items: the system items first of all, then the newest of the others, in their order."""
    if limit >= len(items):
        return list(items)
    systems = [position for position, item in enumerate(items) if item.memory_type == "system"]
    kept = set(systems[-limit:] if limit else ())
    for position in range(len(items) - 1, -1, -1):
        if len(kept) >= limit:
            break
        kept.add(position)
    return [items[position] for position in sorted(kept)]
