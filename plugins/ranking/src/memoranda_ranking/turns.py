"""Items as a ranking sees them: turns of a conversation, which a store may cache between searches."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from memoranda.items import MemoryItem
from memoranda_ranking.names import speaker_of
from memoranda_ranking.passages import Passage

MOST_BYTES = 48 << 20
"""About how many bytes of turns a store caches: some sixty thousand short turns, or six thousand of a few pages."""

KeyT = TypeVar("KeyT")
Conversation = tuple[str | None, str | None, str | None]


class Turn(NamedTuple):
    """A passage, its conversation, and about how many bytes it takes."""

    passage: Passage
    conversation: Conversation
    size: int


class TurnCache(dict[KeyT, Turn]):
    """A thread-safe cache of turns, by a key that changes with their row; it keeps the last ``MOST_BYTES`` added."""

    def __init__(self, turns: Iterable[tuple[KeyT, Turn]] = (), size: int = 0) -> None:
        super().__init__(turns)
        self._size = size
        self._lock = threading.Lock()

    def add(self, turns: Mapping[KeyT, Turn]) -> None:
        """Add turns; the ones added first make room for them if necessary."""
        with self._lock:
            self._size += sum(turn.size for key, turn in turns.items() if key not in self)
            self.update(turns)
            while self._size > MOST_BYTES:
                self._size -= self.pop(next(iter(self))).size

    def without(self, keys: Iterable[KeyT]) -> TurnCache[KeyT]:
        """Return a copy without these keys."""
        with self._lock:
            left = TurnCache(self.items(), self._size)
        left._size -= sum(left.pop(key).size for key in keys if key in left)
        return left


def conversation_key(item: MemoryItem) -> Conversation:
    """Return the conversation of an item: its user, session and task."""
    return item.metadata.user_id, item.metadata.session_id, item.metadata.task_id


def passage_of(item: MemoryItem, terms: Sequence[str] | None = None) -> Passage:
    """Return an item as a passage; ``terms`` are its index terms, if a backend stores them."""
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
    """Return the turn of an item, made from its fields; ``conversation`` is its :func:`conversation_key`."""
    session = "\0".join(part or "" for part in conversation)
    passage = Passage(item_id, content, speaker_of(name, memory_type, content), created_at, session, terms)
    # A term counts as one reference: all turns share the same string.
    return Turn(passage, conversation, 600 + len(content) + 8 * len(terms or ()))


def name_in(extra_json: str) -> str | None:
    """Return the speaker's name from a row's ``extra_json``, parsed only if it has one. Raises ValueError."""
    try:
        name = json.loads(extra_json).get("name") if '"name"' in extra_json else None
    except (AttributeError, RecursionError) as error:
        raise ValueError("the other fields cannot be read") from error
    if name is not None and type(name) is not str:
        raise ValueError("the name is no text")
    return name
