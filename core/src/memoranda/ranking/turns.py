"""Items as a ranking sees them: turns of a conversation."""

from __future__ import annotations

from collections.abc import Sequence

from memoranda.items import MemoryItem
from memoranda.ranking.names import speaker_of
from memoranda.ranking.passages import Passage


def conversation_key(item: MemoryItem) -> tuple[str | None, str | None, str | None]:
    """Return what two neighbouring turns have in common: user, session and task."""
    return item.metadata.user_id, item.metadata.session_id, item.metadata.task_id


def passage_of(item: MemoryItem, terms: Sequence[str] | None = None) -> Passage:
    """Return an item as ranking sees it; ``terms`` are its index terms, where a backend keeps them."""
    return make_passage(
        item.id, item.content, item.name, item.memory_type, item.created_at, conversation_key(item), terms
    )


def make_passage(
    item_id: str,
    content: str,
    name: str | None,
    memory_type: str,
    created_at: str,
    conversation: tuple[str | None, str | None, str | None],
    terms: Sequence[str] | None = None,
) -> Passage:
    """Return what ranking sees of an item, from its parts; ``conversation`` is its :func:`conversation_key`.

    A conversation that goes on for days is a sitting for each day, since many programs never change their session id.
    """
    user, session, task = conversation
    return Passage(
        item_id,
        content,
        speaker_of(name, memory_type, content),
        created_at,
        f"{user or ''}\0{session or ''}\0{task or ''}\0{created_at[:10]}",
        terms,
    )
