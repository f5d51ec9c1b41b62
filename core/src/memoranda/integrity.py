"""Which tool calls and results may be shown: only whole groups, wherever they stand.

A model's API refuses a call without its results and a result without its call; the result of another call is worse.
Which result answers which call is decided here, by :func:`pairs`, and nowhere else:

- Both are of one conversation: the same ``user_id`` and ``session_id``.
- A result answers the latest earlier call of its id by its own ``task_id`` and ``agent_id``. A call that was made again
  under its id before it was answered stays without an answer.
- A result whose task and agent made no such call may be a sub-agent's. It answers the call of its id that waits in the
  conversation, by the same rule, and nothing where calls of several tasks or agents wait.

Items of a conversation with the same ``group``, such as a model's reasoning and the call it led to, are shown all or
none; one that names a ``group_size`` is not shown once fewer are left. Both rules hold at once, at any remove: a group
whose call lacks its result goes whole, and with it the results of its other calls. Nothing here imports a store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from memoranda.items import MemoryItem, MemoryMetadata

ConversationKey = tuple[str | None, str | None]
CallKey = tuple[str, str | None, str | None, str | None, str | None]
"""A call's id, and whose call it is: user, session, task and agent."""

_Owner = tuple[str | None, str | None, str | None, str | None]  # user, session, task and agent
_Shared = tuple[str, str | None, str | None]  # the same without the task and the agent

_whose = itemgetter("user_id", "session_id", "task_id", "agent_id")


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
    # Most are dicts, which is faster to check than Mapping.
    return [str(call.get("id") or "") if isinstance(call, (dict, Mapping)) else "" for call in calls]


def answered_ids(item: MemoryItem) -> list[str]:
    """Return the ids of the calls that a tool's item answers; empty for all other items."""
    if item.memory_type != "tool":
        return []
    further = getattr(item, "also_answers", None)
    first = str(getattr(item, "tool_call_id", ""))
    return [first, *map(str, further)] if further and isinstance(further, (list, tuple)) else [first]


def whole_groups(items: Sequence[MemoryItem], history: Sequence[MemoryItem] | None = None) -> list[MemoryItem]:
    """Return the items, oldest first, without incomplete tool-call groups; nothing else is dropped.

    An AI item stays if each of its calls has a result after it, and a result stays if it answers a call of an AI item
    that stays, or with ``also_answers`` a call with each of its ids. Ids that are used again in later turns pair up
    turn by turn; a second result for the same call answers nothing. Items with the same ``group`` stay if all do.

    ``history`` is what the items were chosen from, the same objects. Pairs and groups are then made in it, so that a
    result whose own call was not chosen cannot pass for the answer to another call of that id.
    """
    if history is not None:
        return whole_among(items, tied_items(history))
    places = _places_of_ties(items)
    if not places:
        return list(items)
    by_place = {place: number for number, place in enumerate(places)}  # One object may be there twice.
    return _whole(items, [items[place] for place in places], list(map(by_place.get, range(len(items)))), set())


def whole_among(items: Sequence[MemoryItem], tied: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return what :func:`whole_groups` does; ``tied`` are the :func:`tied_items` of the history."""
    if not tied:
        return list(items)
    by_object = {id(item): number for number, item in enumerate(tied)}
    numbers = list(map(by_object.get, map(id, items)))
    return _whole(items, tied, numbers, remnants(tied).union(set(range(len(tied))).difference(numbers)))


def tied_items(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the calls, the results and the members of groups: what is shown only together with others."""
    return list(map(items.__getitem__, _places_of_ties(items)))


def _whole(
    items: Sequence[MemoryItem], tied: Sequence[MemoryItem], numbers: Sequence[int | None], hidden: set[int]
) -> list[MemoryItem]:
    """Return the items without those that are tied to hidden ones.

    ``numbers`` has the position of each item among those that are tied, or None; so ``hidden`` names what is hidden.
    """
    links, missing, orphans, _ = linked_by_calls(tied)
    hidden |= orphans
    hidden.update([caller for caller, count in missing.items() if count])
    if not hidden:
        return list(items)
    ties = _ties(tied, links)
    if [one for one, other in ties if (one in hidden) is not (other in hidden)]:
        for together in _together(ties):
            if not hidden.isdisjoint(together):
                hidden.update(together)
    if hidden.isdisjoint(numbers):
        return list(items)
    return [item for item, number in zip(items, numbers, strict=True) if number not in hidden]


def remnants(history: Sequence[MemoryItem]) -> set[int]:
    """Return the positions of the items whose group is incomplete."""
    sized = [
        (at, (*conversation_of(item), item.group)) for at, item in enumerate(history) if item.__dict__["group_size"]
    ]
    if not sized:
        return set()
    counts = Counter(group for _, group in sized)
    return {at for at, group in sized if counts[group] < (history[at].group_size or 0)}


class AnsweredCall(NamedTuple):
    """That a result answers a call: the positions of the two items, and the id that the call has in both."""

    result: int
    call_id: str
    caller: int


def answers(items: Sequence[MemoryItem]) -> list[AnsweredCall]:
    """Return which result answers which call, in the order of the results, by the rules of this module."""
    return linked_by_calls(items).links


def pairs(items: Sequence[MemoryItem]) -> tuple[dict[int, int], dict[int, int]]:
    """Map each result's position to its caller's, and each caller's to its number of missing results.

    Results that answer nothing are not among the first; one that answers several items' calls has the last of them.
    """
    links, missing, _, _ = linked_by_calls(items)
    return {link.result: link.caller for link in sorted(links, key=attrgetter("result", "caller"))}, missing


def shown_together(items: Sequence[MemoryItem]) -> list[list[int]]:
    """Return the groups of positions whose items are shown together or not at all, oldest first."""
    return sorted(_together(_ties(items, linked_by_calls(items).links)))


class Linked(NamedTuple):
    """How items belong together by calls; positions stand for items."""

    links: list[AnsweredCall]
    missing: dict[int, int]  # how many results each caller lacks
    orphans: set[int]  # the results with an id that answers nothing
    unclaimed: list[tuple[int, CallKey]]  # the results whose own task and agent made no such call before


def linked_by_calls(items: Sequence[MemoryItem]) -> Linked:
    """Return how items belong together by calls, oldest first, by the rules of this module."""
    links: list[AnsweredCall] = []
    missing: dict[int, int] = {}
    orphans: set[int] = set()
    waiting: dict[_Owner, dict[str, list[int]]] = {}
    unclaimed: list[tuple[int, CallKey]] = []
    owner: MemoryMetadata | None = None
    whose: _Owner = (None, None, None, None)
    own: dict[str, list[int]] = {}
    for position, item in enumerate(items):
        held = item.__dict__
        kind = held["memory_type"]
        if held["metadata"] is not owner:  # Neighbours mostly share it.
            owner = held["metadata"]
            whose = _whose(owner.__dict__)
            own = waiting.setdefault(whose, {})
        if kind == "tool":
            for call_id in answered_ids(item):
                calls = own.get(call_id)
                if calls and call_id:
                    links.append(AnsweredCall(position, call_id, calls.pop()))
                elif calls is None and call_id:
                    unclaimed.append((position, (call_id, *whose)))
                else:
                    orphans.add(position)
        elif kind == "ai" and held.get("tool_calls", True) and (ids := call_ids(item)):
            missing[position] = len(ids)
            for call_id in ids:
                calls = own.get(call_id)
                if calls and calls[-1] == position:
                    calls.append(position)
                else:
                    own[call_id] = [position]  # Whatever waited under this name is answered no more.
    if unclaimed:
        foreign = [(position, key) for position, key in unclaimed if key[0] not in waiting[key[1:]]]
        found = _sub_agents_answers(items, foreign, links) if foreign else []
        links = sorted(links + found) if foreign else links
        claimed = Counter([(link.result, link.call_id) for link in found])
        named = Counter([(position, key[0]) for position, key in unclaimed])
        orphans.update([position for (position, call_id), count in named.items() if claimed[position, call_id] < count])
    for link in links:
        missing[link.caller] -= 1
    return Linked(links, missing, orphans, unclaimed)


def _places_of_ties(items: Sequence[MemoryItem]) -> list[int]:
    """Return where the calls, the results and the members of groups stand; few windows have any."""
    found = []
    for place, item in enumerate(items):
        held = item.__dict__
        kind = held["memory_type"]
        if kind == "tool" or held["group"] is not None or (kind == "ai" and held.get("tool_calls", True)):
            found.append(place)
    return found


def answers_another_agent(items: Sequence[MemoryItem]) -> bool:
    """Return True if a result seems to answer a call of another task or agent, as a sub-agent's results do.

    It may answer a call of its own instead that was made before these items. The :func:`tied_items` among them suffice.
    """
    if _are_of_one_agent(items):
        return False
    linked = linked_by_calls(items)
    answering = {link.result for link in linked.links}
    return any(position in answering for position, _ in linked.unclaimed)


def _are_of_one_agent(items: Iterable[MemoryItem]) -> bool:
    """Return True if all items have the same task and agent."""
    owner = first = None
    for item in items:
        metadata = item.__dict__["metadata"]
        if metadata is not owner:  # Neighbours mostly share it.
            owner = metadata
            agent = metadata.task_id, metadata.agent_id
            if first is None:
                first = agent
            elif agent != first:
                return False
    return True


def _ties(items: Sequence[MemoryItem], links: Sequence[AnsweredCall]) -> list[tuple[int, int]]:
    """Return the pairs of positions that are shown together: a result and its call, or two items of a group."""
    ties = [(link.caller, link.result) for link in links]
    first: dict[tuple[str | None, str | None, str], int] = {}
    for position, item in enumerate(items):
        group = item.__dict__["group"]
        if group is not None:
            ties.append((first.setdefault((*conversation_of(item), group), position), position))
    return ties


def _together(ties: Iterable[tuple[int, int]]) -> Iterable[list[int]]:
    """Return the positions that ties connect, at any remove."""
    sets: dict[int, list[int]] = {}
    for one, other in ties:
        ours, theirs = sets.setdefault(one, [one]), sets.setdefault(other, [other])
        if ours is not theirs:
            larger, smaller = (ours, theirs) if len(ours) >= len(theirs) else (theirs, ours)
            larger += smaller
            sets.update(dict.fromkeys(smaller, larger))
    return [sorted(found) for found in {id(found): found for found in sets.values()}.values() if len(found) > 1]


def is_whole(items: Sequence[MemoryItem]) -> bool:
    """Return True if every call among the items has all its results and every result its call."""
    return len(whole_groups(items)) == len(items)


def _own(item: MemoryItem, call_id: str) -> CallKey:
    user, session, task, agent = _whose(item.__dict__["metadata"].__dict__)
    return call_id, user, session, task, agent


def _sub_agents_answers(
    items: Sequence[MemoryItem], results: Sequence[tuple[int, CallKey]], links: Sequence[AnsweredCall]
) -> list[AnsweredCall]:
    """Return which call each result answers, for results from another task or agent than the caller.

    What a task and agent answered itself is left to it, also where its answer comes later.
    """
    answered = Counter((link.caller, link.call_id) for link in links)
    waiting: dict[_Shared, dict[CallKey, list[int]]] = {}
    foreign: dict[int, list[CallKey]] = {}
    for position, own in results:
        foreign.setdefault(position, []).append(own)
    found: list[AnsweredCall] = []
    for position, item in enumerate(items):
        for own in foreign.get(position, ()):
            candidates = [calls for calls in waiting.get(own[:3], {}).values() if calls]
            if len(candidates) == 1:
                found.append(AnsweredCall(position, own[0], candidates[0].pop()))
        for call_id, count in Counter(call_ids(item)).items():
            own = _own(item, call_id)
            waiting.setdefault(own[:3], {})[own] = [position] * (count - answered[position, call_id])
    return found
