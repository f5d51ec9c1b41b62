"""Items as a ranking sees them: turns of a conversation, which a store may keep between searches."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from memoranda.items import MemoryItem
from memoranda_ranking.names import speaker_of
from memoranda_ranking.passages import Passage

MOST_BYTES = 48 << 20
"""How much of turns a store keeps in all, about: some sixty thousand short ones, or six thousand of a few pages."""

KeyT = TypeVar("KeyT")
Conversation = tuple[str | None, str | None, str | None]


class Turn(NamedTuple):
    """A passage, the conversation that it belongs to, and about how many bytes it takes."""

    passage: Passage
    conversation: Conversation
    size: int


class TurnCache(dict[KeyT, Turn]):
    """Turns by what tells the states of their rows apart; the last added ones up to ``MOST_BYTES``, for any thread."""

    def __init__(self, turns: Iterable[tuple[KeyT, Turn]] = (), size: int = 0) -> None:
        super().__init__(turns)
        self._size = size
        self._lock = threading.Lock()

    def add(self, turns: Mapping[KeyT, Turn]) -> None:
        """Keep these, in the place of those that were added first where there is no room."""
        with self._lock:
            self._size += sum(turn.size for key, turn in turns.items() if key not in self)
            self.update(turns)
            while self._size > MOST_BYTES:
                self._size -= self.pop(next(iter(self))).size

    def without(self, keys: Iterable[KeyT]) -> TurnCache[KeyT]:
        """Return a copy that lacks these."""
        with self._lock:
            left = TurnCache(self.items(), self._size)
        left._size -= sum(left.pop(key).size for key in keys if key in left)
        return left


def conversation_key(item: MemoryItem) -> Conversation:
    """Return what two neighbouring turns have in common: user, session and task."""
    return item.metadata.user_id, item.metadata.session_id, item.metadata.task_id


def passage_of(item: MemoryItem, terms: Sequence[str] | None = None) -> Passage:
    """Return an item as ranking sees it; ``terms`` are its index terms, where a backend keeps them."""
    key = conversation_key(item)
    return make_turn(item.id, item.content, item.name, item.memory_type, item.created_at, key, terms).passage


def make_turn(
    item_id: str,
    content: str,
    name: str | None,
    memory_type: str,
    created_at: str,
    conversation: Conversation,
    terms: Sequence[str] | None = None,
) -> Turn:
    """Return what ranking sees of an item, from its parts; ``conversation`` is its :func:`conversation_key`."""
    session = "\0".join(part or "" for part in conversation)
    passage = Passage(item_id, content, speaker_of(name, memory_type, content), created_at, session, terms)
    # Terms are counted as places in a list: each is one for all turns that have it.
    return Turn(passage, conversation, 600 + len(content) + 8 * len(terms or ()))


def name_in(extra_json: str) -> str | None:
    """Return who spoke, from a row's other fields, read only where they can say so. Raises ValueError if that fails."""
    try:
        name = json.loads(extra_json).get("name") if '"name"' in extra_json else None
    except (AttributeError, RecursionError) as error:
        raise ValueError("the other fields cannot be read") from error
    if name is not None and type(name) is not str:
        raise ValueError("the name is no text")
    return name
