"""Which tool calls and results may be shown: only whole groups, wherever they stand.

A model's API refuses a call without its results and a result without its call, so a context that holds half a group is
a wrong context. These functions import no store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recollect.items import MemoryItem


def call_ids(item: MemoryItem) -> list[str]:
    """Return the ids of the tool calls that an item makes; empty for all but AI items with calls."""
    calls = getattr(item, "tool_calls", None) if item.memory_type == "ai" else None
    # A call without an id cannot be answered, so that its item is never shown.
    return [str(call.get("id") or "") if isinstance(call, Mapping) else "" for call in calls] if calls else []


def whole_groups(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the items, oldest first, without incomplete tool-call groups; nothing else is dropped.

    An AI item with calls stays if every one of its calls has a result after it, and a result stays if it answers a call
    of an AI item that stays. A result answers the latest earlier call of its id that has none yet, so that ids which a
    provider uses again in later turns pair up turn by turn; a second result for the same call answers nothing.
    """
    callers, missing = pairs(items)
    return [item for position, item in enumerate(items) if _is_shown(item, position, callers.get(position), missing)]


def pairs(items: Sequence[MemoryItem]) -> tuple[dict[int, int], dict[int, int]]:
    """Return for each result's position that of the item that called, and for each caller how many results it lacks.

    Results that answer nothing are not among the first. The rule is the one of :func:`whole_groups`.
    """
    caller_of: dict[int, int] = {}
    unanswered: dict[str, list[int]] = {}
    missing: dict[int, int] = {}
    for position, item in enumerate(items):
        if item.memory_type == "tool":
            answered = str(getattr(item, "tool_call_id", ""))
            waiting = unanswered.get(answered)
            if waiting and answered:
                caller = waiting.pop()
                caller_of[position] = caller
                missing[caller] -= 1
        else:
            ids = call_ids(item)
            if ids:
                missing[position] = len(ids)
                for call_id in ids:
                    unanswered.setdefault(call_id, []).append(position)
    return caller_of, missing


def _is_shown(item: MemoryItem, position: int, caller: int | None, missing: dict[int, int]) -> bool:
    if item.memory_type == "tool":
        return caller is not None and missing[caller] == 0
    return missing.get(position, 0) == 0


def is_whole(items: Sequence[MemoryItem]) -> bool:
    """Whether every call among the items has all its results and every result its call."""
    return len(whole_groups(items)) == len(items)
