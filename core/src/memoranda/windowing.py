"""How much of a conversation is shown: its last rounds, as many as fit a budget, or its newest items.

A round starts with what a human said and ends before the next time that one speaks in the same conversation; whatever
precedes the first one belongs to the first round. Where several sessions are read together each has rounds of its own,
and the newest rounds are those that started last. System items and summaries are outside the rounds and always stay: a
summary is all that is left to show of what it stands for. All functions take and return items oldest first, and import
no store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from memoranda.integrity import ConversationKey
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import whole_number

STAYING = ("system", "summary")
"""The types of items outside the rounds."""


def check_rounds(rounds: int, field: str = "max_rounds") -> int:
    """Return the number of rounds, or raise InputError unless it is an integer of at least 0."""
    return whole_number(rounds, field)


def rounds_of(items: Sequence[MemoryItem]) -> list[list[int]]:
    """Return the positions of the items of each round, in the order in which the rounds start."""
    rounds: list[list[int]] = []
    latest: dict[ConversationKey, list[int]] = {}
    spoken: set[ConversationKey] = set()
    owner: MemoryMetadata | None = None
    conversation: ConversationKey = (None, None)
    places: list[int] | None = None
    for position, item in enumerate(items):
        held = item.__dict__
        kind = held["memory_type"]
        if kind in STAYING:
            continue
        if held["metadata"] is not owner:  # Neighbours mostly share it, and nearly always the conversation.
            owner = held["metadata"]
            fields = owner.__dict__  # Rows of a database have each their own, so this is not left to conversation_of.
            whose = fields["user_id"], fields["session_id"]
            if whose != conversation:
                conversation, places = whose, latest.get(whose)
        if kind == "human":
            if conversation in spoken:
                places = None
            else:
                spoken.add(conversation)
        if places is None:
            places = latest[conversation] = []
            rounds.append(places)
        places.append(position)
    return rounds


def stays(item: MemoryItem) -> bool:
    """Return True if an item is outside the rounds: a system item or a summary."""
    return item.memory_type in STAYING


def as_said(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Sort items, which come in the order of adding, into the order of the conversation.

    A summary is added long after what it stands for, which is the oldest part: summaries come first, behind the system
    items at the beginning.
    """
    summaries = [item for item in items if item.memory_type == "summary"]
    if not summaries:
        return list(items)
    others = [item for item in items if item.memory_type != "summary"]
    start = next((at for at, item in enumerate(others) if item.memory_type != "system"), len(others))
    return [*others[:start], *summaries, *others[start:]]


def items_of_rounds(items: Sequence[MemoryItem], rounds: Iterable[Iterable[int]]) -> list[MemoryItem]:
    """Return the items of some rounds, every system item and every summary."""
    chosen = set(chain.from_iterable(rounds))
    return [item for at, item in enumerate(items) if at in chosen or item.__dict__["memory_type"] in STAYING]


def last_rounds(items: Sequence[MemoryItem], rounds: int) -> list[MemoryItem]:
    """Return the last rounds of a conversation, every system item and every summary; 0 rounds leave only those."""
    check_rounds(rounds, "rounds")
    found = rounds_of(items)
    return list(items) if rounds >= len(found) else items_of_rounds(items, found[len(found) - rounds :])


def rounds_within(
    items: Sequence[MemoryItem], budget: int, count_tokens: Callable[[MemoryItem], int]
) -> list[MemoryItem]:
    """Return as many of the newest rounds as fit a token budget, every system item and every summary.

    Those two count towards the budget and stay even where they alone exceed it. Rounds are whole: the first one,
    from the newest, that does not fit ends the window, so that a window has no gaps.
    """
    whole_number(budget, "budget", " of tokens")
    left = budget
    for item in items:
        if item.__dict__["memory_type"] in STAYING:
            left -= count_tokens(item)
    found = rounds_of(items)
    kept = len(found)
    for positions in reversed(found):
        for position in positions:
            left -= count_tokens(items[position])
        if left < 0:
            break
        kept -= 1
    return items_of_rounds(items, found[kept:])


def newest(items: Sequence[MemoryItem], limit: int) -> list[MemoryItem]:
    """Return at most ``limit`` items, in their order: every system item, then summaries, then the newest others.

    System items count towards the limit and stay even where they alone exceed it: a limit below their number returns
    all of them and nothing else. It is the one case in which a limit is exceeded; 0 asks for nothing and returns
    nothing. Lasting summaries, such as facts, count among the others: they are many, and would leave no room for what
    was said.
    """
    if limit >= len(items):
        return list(items)
    if not limit:
        return []
    kept = {position for position, item in enumerate(items) if item.memory_type == "system"}
    summaries = [at for at, item in enumerate(items) if stays(item) and not item.__dict__.get("lasting", False)]
    for position in chain(reversed(summaries), range(len(items) - 1, -1, -1)):
        if len(kept) >= limit:
            break
        kept.add(position)
    return [items[position] for position in sorted(kept)]
