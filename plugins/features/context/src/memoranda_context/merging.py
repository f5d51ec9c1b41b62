"""Two accounts of one conversation as one: what a store holds of it, and what a caller has at hand.

The same turn has the same id in both, unless one account went through a provider's messages and back; then it says the
same in the same place. Nothing here asks a store.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from heapq import merge
from math import inf
from operator import itemgetter

from memoranda.integrity import ConversationKey, conversation_of, whole_groups
from memoranda.items import MemoryItem
from memoranda.tool_calls import call_arguments, call_name
from memoranda.windowing import stays
from memoranda_messages import results_behind_calls


def merged(stored: Sequence[MemoryItem], given: Sequence[MemoryItem]) -> tuple[list[MemoryItem], list[MemoryItem]]:
    """Return both accounts as one, oldest first, and the items that are left out since they are in it already.

    Both are given in the order in which things were said, which is kept; where the two differ, what the caller has at
    hand counts. What stands between the items that both have is put together by its times. A copy is an item with the
    id of another, a system item or summary that says the same as another, and a turn of the longest run of turns that
    both accounts have where they meet: the end of one and the start of the other, or the whole of one within the
    other. The same words again later are not a copy.
    """
    own, doubled = _each_once(given)
    known, copies = _each_once(stored)
    counterparts = _counterparts(known, own)
    places = {counterparts[each.id].id: at for at, each in reversed([*enumerate(known)]) if each.id in counterparts}
    meeting: dict[int, int] = {}
    end = len(known)
    for at in range(len(own) - 1, -1, -1):
        # From the end: messages have all system items first.
        if (place := places.get(own[at].id, end)) < end:
            end = meeting[at] = place
    ours = [each for each in _timed(known, {at: at for at in meeting.values()}) if each[1].id not in counterparts]
    ordered = merge(ours, _timed(own, meeting), key=itemgetter(0))
    copies += [item for item in known if item.id in counterparts]
    return [item for _, item in ordered], copies + doubled


def _timed(items: Sequence[MemoryItem], meeting: Mapping[int, int]) -> list[tuple[tuple[float, str], MemoryItem]]:
    """Return each item with what orders it among those of the other account: a place where both meet, and a time."""
    place, latest = inf, "~"  # It sorts behind every time.
    timed: list[tuple[tuple[float, str], MemoryItem]] = []
    for at in range(len(items) - 1, -1, -1):
        # A copy may have the time of its copying; no item is later than the one that follows it.
        latest = min(latest, items[at].created_at)
        place = meeting.get(at, place)
        timed.append(((place, "~" if at in meeting else latest), items[at]))
    return timed[::-1]


def _each_once(items: Sequence[MemoryItem]) -> tuple[list[MemoryItem], list[MemoryItem]]:
    seen: set[str] = set()
    first: list[MemoryItem] = []
    others: list[MemoryItem] = []
    for item in items:
        (others if item.id in seen else first).append(item)
        seen.add(item.id)
    return first, others


def _counterparts(stored: Sequence[MemoryItem], given: Sequence[MemoryItem]) -> dict[str, MemoryItem]:
    found: dict[str, MemoryItem] = {}
    standing = {(item.memory_type, item.content): item for item in given if stays(item)}
    for item in stored:
        if stays(item) and (item.memory_type, item.content) in standing:
            found[item.id] = standing[item.memory_type, item.content]
    for conversation in dict.fromkeys(map(conversation_of, stored)):
        turns = _turns([item for item in stored if conversation_of(item) == conversation])
        others = _turns([item for item in given if _may_be_of(item, conversation)])
        found |= {turn.id: other for turn, other in _shared_run(turns, others)}
    by_id = {item.id: item for item in given}
    return found | {item.id: by_id[item.id] for item in stored if item.id in by_id}


def _turns(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    return results_behind_calls(whole_groups([item for item in items if not stays(item)]))


def _may_be_of(item: MemoryItem, conversation: ConversationKey) -> bool:
    """Return True unless the item names another conversation."""
    own = conversation_of(item)
    return all(mine is None or theirs is None or mine == theirs for mine, theirs in zip(own, conversation, strict=True))


def _shared_run(first: Sequence[MemoryItem], second: Sequence[MemoryItem]) -> list[tuple[MemoryItem, MemoryItem]]:
    """Return the longest run that both sequences have where one is laid over the other, pair by pair."""
    ours, theirs = [_content_key(item) for item in first], [_content_key(item) for item in second]
    shifts = range(-len(theirs) + 1, len(ours))
    runs = [(shift, max(shift, 0), min(len(ours), shift + len(theirs))) for shift in shifts]
    for shift, start, end in sorted(runs, key=lambda run: run[1] - run[2]):
        if ours[start:end] == theirs[start - shift : end - shift]:
            return list(zip(first[start:end], second[start - shift : end - shift], strict=True))
    return []


def _content_key(item: MemoryItem) -> Hashable:
    """Return the content of a turn without ids: messages give calls new ones."""
    calls = getattr(item, "tool_calls", None) or () if item.memory_type == "ai" else ()
    return item.memory_type, item.name, item.content, tuple((call_name(call), call_arguments(call)) for call in calls)
