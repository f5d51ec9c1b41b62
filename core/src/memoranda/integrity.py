"""Which tool calls and results may be shown: only whole groups, wherever they stand.

A model's API refuses a call without its results and a result without its call, so a context that holds half a group is
a wrong context; one that holds another's result is worse. Which result answers which call is decided here, by
:func:`pairs`, and nowhere else:

- Only a call and a result of the same conversation, which is the same ``user_id`` and the same ``session_id``, belong
  together. Two sessions that are read together may both count their calls from ``call_0``.
- Within a conversation ``task_id`` and ``agent_id`` say whose call is meant: a result answers the latest earlier call
  of its id of its own task and agent. A call that was made again under its id before it was answered is answered no
  more: what comes later may as well be a second result of the later call.
- A result of a task and agent that made no call of that id may be a sub-agent's, written under a name of its own. It
  answers the call of its id that waits in the conversation, by the same rule; where calls of several tasks or agents
  wait, nobody can tell whose it is, and it answers nothing.

These functions import no store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from memoranda.items import MemoryItem

ConversationKey = tuple[str | None, str | None]
_Own = tuple[str, str | None, str | None, str | None, str | None]  # a call's id, and whose call it is
_Shared = tuple[str, str | None, str | None]  # the same without the task and the agent


def conversation_of(item: MemoryItem) -> ConversationKey:
    """Return what the items of one conversation have in common: whose it is, and the session."""
    metadata = item.metadata
    return metadata.user_id, metadata.session_id


def call_ids(item: MemoryItem) -> list[str]:
    """Return the ids of the tool calls that an item makes; empty for all but AI items with calls."""
    calls = getattr(item, "tool_calls", None) if item.memory_type == "ai" else None
    if not calls:
        return []
    # What is no call, or has no id, cannot be answered, so that its item is never shown.
    if not isinstance(calls, (list, tuple)):
        return [""]
    return [str(call.get("id") or "") if isinstance(call, Mapping) else "" for call in calls]


def whole_groups(items: Sequence[MemoryItem], history: Sequence[MemoryItem] | None = None) -> list[MemoryItem]:
    """Return the items, oldest first, without incomplete tool-call groups; nothing else is dropped.

    An AI item with calls stays if every one of its calls has a result after it, and a result stays if it answers a call
    of an AI item that stays. Ids that a provider uses again in later turns pair up turn by turn; a second result for
    the same call answers nothing. The module says which result answers which call.

    ``history`` is what the items were chosen from, the same objects. Pairs are then made in it, so that a result whose
    own call was not chosen cannot pass for the answer to another call of that id.
    """
    if history is None:
        callers, missing = pairs(items)
        return [item for at, item in enumerate(items) if _is_shown(item, at, callers.get(at), missing)]
    callers, missing = pairs(history)
    positions = {id(item): position for position, item in enumerate(history)}
    chosen = {positions[id(item)] for item in items}
    for result, caller in callers.items():
        if result not in chosen or caller not in chosen:
            missing[caller] += 1
    return [item for item in items if _is_shown(item, at := positions[id(item)], callers.get(at), missing)]


def pairs(items: Sequence[MemoryItem]) -> tuple[dict[int, int], dict[int, int]]:
    """Return for each result's position that of the item that called, and for each caller how many results it lacks.

    Results that answer nothing are not among the first. The module says which result answers which call.
    """
    callers: dict[int, int] = {}
    missing: dict[int, int] = {}
    waiting: dict[_Own, list[int]] = {}
    unclaimed: list[tuple[int, _Own]] = []
    for position, item in enumerate(items):
        kind = item.memory_type
        if kind == "tool":
            own = _own(item, str(getattr(item, "tool_call_id", "")))
            calls = waiting.get(own)
            if calls and own[0]:
                callers[position] = calls.pop()
            elif calls is None and own[0]:
                unclaimed.append((position, own))
        elif kind == "ai" and (ids := call_ids(item)):
            missing[position] = len(ids)
            for call_id in ids:
                own = _own(item, call_id)
                calls = waiting.get(own)
                if calls and calls[-1] == position:
                    calls.append(position)
                else:
                    waiting[own] = [position]  # Whatever waited under this name is answered no more.
    foreign = [position for position, own in unclaimed if own not in waiting]
    if foreign:
        callers = dict(sorted((callers | _sub_agents_answers(items, foreign, callers)).items()))
    for caller in callers.values():
        missing[caller] -= 1
    return callers, missing


def results_behind_calls(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the items with each result moved up to its call, in the order of the results; all others stay put."""
    callers, _ = pairs(items)
    results: dict[int, list[MemoryItem]] = {}
    for result, caller in callers.items():
        results.setdefault(caller, []).append(items[result])
    ordered: list[MemoryItem] = []
    for position, item in enumerate(items):
        if position not in callers:
            ordered += [item, *results.get(position, ())]
    return ordered


def is_whole(items: Sequence[MemoryItem]) -> bool:
    """Whether every call among the items has all its results and every result its call."""
    return len(whole_groups(items)) == len(items)


def _own(item: MemoryItem, call_id: str) -> _Own:
    metadata = item.metadata
    return call_id, metadata.user_id, metadata.session_id, metadata.task_id, metadata.agent_id


def _sub_agents_answers(
    items: Sequence[MemoryItem], results: Sequence[int], callers: Mapping[int, int]
) -> dict[int, int]:
    """Return which call each of these results answers, none of them of a task and agent that made such a call.

    What a task and agent answered itself is left to it, also where its answer comes later.
    """
    answered = Counter((caller, str(getattr(items[result], "tool_call_id", ""))) for result, caller in callers.items())
    waiting: dict[_Shared, dict[_Own, list[int]]] = {}
    foreign = set(results)
    found: dict[int, int] = {}
    for position, item in enumerate(items):
        if position in foreign:
            shared = _own(item, str(getattr(item, "tool_call_id", "")))[:3]
            candidates = [calls for calls in waiting.get(shared, {}).values() if calls]
            if len(candidates) == 1:
                found[position] = candidates[0].pop()
        for call_id, count in Counter(call_ids(item)).items():
            own = _own(item, call_id)
            waiting.setdefault(own[:3], {})[own] = [position] * (count - answered[position, call_id])
    return found


def _is_shown(item: MemoryItem, position: int, caller: int | None, missing: Mapping[int, int]) -> bool:
    if item.memory_type == "tool":
        return caller is not None and missing[caller] == 0
    return missing.get(position, 0) == 0
