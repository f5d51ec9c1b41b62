"""How much of a conversation is shown: its last rounds, as many as fit a budget, or its newest items.

A round starts with what a human said; whatever precedes the first one belongs to the first round. System items and
summaries are outside the rounds and always stay: a summary is all that is left to show of what it stands for. All
functions take and return items oldest first, and import no store.
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


def stays(item: MemoryItem) -> bool:
    """Whether an item is outside the rounds: a system item or a summary."""
    return item.memory_type in ("system", "summary")


def _comes_first(item: MemoryItem) -> bool:
    """Whether a limit keeps an item before newer ones. Facts are many, and would leave no room for what was said."""
    return stays(item) and not getattr(item, "lasting", False)


def from_position(items: Sequence[MemoryItem], start: int) -> list[MemoryItem]:
    """Return the items from a position on, and the system items and summaries before it."""
    return [item for item in items[:start] if stays(item)] + list(items[start:])


def last_rounds(items: Sequence[MemoryItem], rounds: int) -> list[MemoryItem]:
    """Return the last rounds of a conversation, every system item and every summary; 0 rounds leave only those."""
    check_rounds(rounds, "rounds")
    starts = round_starts(items)
    if rounds >= len(starts):
        return list(items)
    return from_position(items, starts[-rounds] if rounds else len(items))


def rounds_within(
    items: Sequence[MemoryItem], budget: int, count_tokens: Callable[[MemoryItem], int]
) -> list[MemoryItem]:
    """Return as many of the newest rounds as fit a token budget, every system item and every summary.

    Those two count towards the budget and stay even where they alone exceed it. Rounds are whole: the first one,
    from the newest, that does not fit ends the window, so that a window has no gaps.
    """
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 0:
        raise InputError(f"budget must be a whole number of tokens of at least 0, not {budget!r}.", field="budget")
    left = budget - sum(count_tokens(item) for item in items if stays(item))
    end = kept = len(items)
    for start in reversed(round_starts(items)):
        left -= sum(count_tokens(item) for item in items[start:end] if not stays(item))
        if left < 0:
            break
        end = kept = start
    return from_position(items, kept)


def newest(items: Sequence[MemoryItem], limit: int) -> list[MemoryItem]:
    """Return at most ``limit`` items, in their order: system items and summaries before all, then the newest others.

    Lasting summaries, such as facts, count among the others.
    """
    if limit >= len(items):
        return list(items)
    first = [position for position, item in enumerate(items) if _comes_first(item)]
    kept = set(first[-limit:] if limit else ())
    for position in range(len(items) - 1, -1, -1):
        if len(kept) >= limit:
            break
        kept.add(position)
    return [items[position] for position in sorted(kept)]
