"""Conversations with branches: turns that each name the one before them, and the paths through them.

The path that the export shows is the conversation itself. Every other turn belongs to exactly one branch, which shares
the path before its first turn.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from memoranda.errors import InputError
from memoranda_userdata.chats.chat_items import Reader


@dataclass(slots=True)
class Turn:
    """One step of a conversation: the messages it consists of, if any, and the turn before it."""

    id: str
    parent: str | None
    messages: list[dict[str, Any]] = field(default_factory=list)
    moment: Any = None


@dataclass(slots=True)
class Thread:
    """A conversation of an export: its turns by their ids, and the last turn of the path that is shown.

    ``left_out`` counts what is not imported, by what it is.
    """

    session: Any
    begins: Any
    read: Reader
    turns: dict[str, Turn]
    current: str | None = None
    left_out: Counter[str] = field(default_factory=Counter)


class Branch(NamedTuple):
    """A path from the first turn to a last one, of which the first ``shared`` turns belong to earlier branches."""

    path: list[Turn]
    shared: int


def in_order(turns: Mapping[str, Turn]) -> list[Turn]:
    """Return the turns, each after its parent. Raises InputError if there are turns that lead to themselves."""
    found: list[Turn] = []
    children = _children(turns)
    waiting = deque(_roots(turns))
    while waiting:
        turn = waiting.popleft()
        found.append(turn)
        waiting.extend(children.get(turn.id, ()))
    if len(found) < len(turns):
        raise InputError("its messages form a circle.", field="parent")
    return found


def branches(turns: Mapping[str, Turn], current: str | None) -> list[Branch]:
    """Return the path to the current turn, then the other branches, each after the one that it shares turns with.

    Without a current turn, the path is the one that takes the last turn wherever there are several.
    """
    ordered = in_order(turns)
    if not ordered:
        return []
    children = _children(turns)
    if current in turns:
        main = _path(turns, turns[str(current)])
    else:
        main = _to_the_end([_roots(turns)[-1]], children)
    found = [Branch(main, 0)]
    taken = {turn.id for turn in main}
    for turn in ordered:
        if turn.id in taken:
            continue
        before = _path(turns, turn)[:-1]
        path = _to_the_end([*before, turn], children)
        taken.update(each.id for each in path)
        found.append(Branch(path, len(before)))
    return found


def _roots(turns: Mapping[str, Turn]) -> list[Turn]:
    return [turn for turn in turns.values() if turn.parent not in turns]


def _children(turns: Mapping[str, Turn]) -> dict[str, list[Turn]]:
    found: dict[str, list[Turn]] = {}
    for turn in turns.values():
        if turn.parent in turns:
            found.setdefault(str(turn.parent), []).append(turn)
    return found


def _path(turns: Mapping[str, Turn], last: Turn) -> list[Turn]:
    path = [last]
    while path[-1].parent in turns:
        path.append(turns[str(path[-1].parent)])
    return path[::-1]


def _to_the_end(path: list[Turn], children: Mapping[str, list[Turn]]) -> list[Turn]:
    while following := children.get(path[-1].id):
        path.append(following[-1])
    return path
