"""Items as a ranking sees them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from memoranda.items import MemoryItem
from memoranda_backend.ranking.names import speaker_of
from memoranda_backend.ranking.passages import Passage

Conversation = tuple[str | None, str | None, str | None]


def conversation_key(item: MemoryItem) -> Conversation:
    """Return the conversation of an item: its user, session and task."""
    return item.metadata.user_id, item.metadata.session_id, item.metadata.task_id


def passage_of(item: MemoryItem, terms: Sequence[str] | None = None) -> Passage:
    """Return an item as a passage; ``terms`` are its index terms, if a backend stores them."""
    session = conversation_name(*conversation_key(item))
    speaker = speaker_of(item.name, item.memory_type, item.content)
    return Passage(item.id, item.content, speaker, item.created_at, session, terms)


@lru_cache(maxsize=4096)
def conversation_name(user_id: str | None, session_id: str | None, task_id: str | None) -> str:
    """Return the name of a conversation, as passages have it."""
    return "\0".join(["" if part is None else f"={part}" for part in (user_id, session_id, task_id)])


def name_in(extra_json: str) -> str | None:
    """Return the speaker's name from a row's ``extra_json``, parsed only if it has one. Raises ValueError."""
    return _short_name_in(extra_json) if len(extra_json) <= _SHORT else _name_in(extra_json)


_SHORT = 200
"""How long a row's other fields may be to be remembered; most have a name and nothing else."""


def _name_in(extra_json: str) -> str | None:
    try:
        name = json.loads(extra_json).get("name") if '"name"' in extra_json else None
    except (AttributeError, RecursionError) as error:
        raise ValueError("the other fields cannot be read") from error
    if name is not None and type(name) is not str:
        raise ValueError("the name is no text")
    return name


_short_name_in = lru_cache(maxsize=4096)(_name_in)
