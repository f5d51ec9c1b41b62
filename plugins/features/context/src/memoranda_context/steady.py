"""Where a window begins, so that it begins there again at the next turn.

A provider's cache reuses the beginning of a prompt that it has seen before. A window that drops its oldest round at
every turn never has the same beginning; one that keeps it until it must move, and then moves far, nearly always has.
Where it begins follows from the conversation alone: two processes, and one that was restarted, cut alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from memoranda.items import MemoryItem
from memoranda.tokens import TokenCounter
from memoranda.windowing import rounds_of, stays

_LEAST = 4
"""A window that moves keeps at least one part in so many of its budget."""


def steady_window(said: Sequence[MemoryItem], budget: int, count: TokenCounter, rounds_before: int) -> list[MemoryItem]:
    """Return a window of the newest rounds, given all that fit the budget; ``rounds_before`` are those that do not.

    It begins with the round whose number in the conversation is divisible by the highest power of two, among those that
    leave enough of the budget in use. Such a number stays the best choice until the window outgrows its budget.
    """
    rounds = rounds_of(said)
    if not rounds_before or not rounds:
        return list(said)
    staying = sum(count(item) for item in said if stays(item))
    used, first = staying, len(rounds) - 1
    best = len(rounds)
    for place in range(len(rounds) - 1, -1, -1):
        used += sum(count(said[position]) for position in rounds[place])
        if _LEAST * used < budget:
            first = place
        elif best == len(rounds) or _roundness(rounds_before + place) >= _roundness(rounds_before + best):
            best = place
    start = first if best == len(rounds) else best
    kept = {position for places in rounds[start:] for position in places}
    return [item for position, item in enumerate(said) if position in kept or stays(item)]


def _roundness(number: int) -> int:
    """Return the highest power of two that divides a number."""
    return number & -number
