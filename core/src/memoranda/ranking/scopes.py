"""Ranked results, and the ranking of a scope that is held in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from memoranda.items import MemoryItem
from memoranda.turns import AT_ONCE, LETTERS_AT_ONCE

if TYPE_CHECKING:
    from memoranda.ranking import Passage
from memoranda.ranking.results import RankedItem


def conversation_key(item: MemoryItem) -> tuple[str | None, str | None, str | None]:
    """Return what two neighbouring turns have in common: user, session and task."""
    return item.metadata.user_id, item.metadata.session_id, item.metadata.task_id


def ranking_weight(scope: Sequence[MemoryItem]) -> int:
    """Return how many items the ranking of a scope counts as for :func:`memoranda.turns.aside`: long texts are many."""
    if len(scope) <= AT_ONCE and sum(len(item.content) for item in scope) > LETTERS_AT_ONCE:
        return AT_ONCE + 1
    return len(scope)


def rank_scope(
    query: str,
    scope: Sequence[MemoryItem],
    wanted: Callable[[MemoryItem], bool],
    limit: int,
    terms_of: Callable[[MemoryItem], Sequence[str]] | None = None,
) -> list[RankedItem]:
    """Rank a whole scope, given newest first, and return the best items that are ``wanted``.

    ``terms_of`` gives the index terms of an item, where a store keeps them; making them anew is most of the work.
    """
    from memoranda.ranking import rank_text  # Loaded on use: most programs never rank.

    by_id = {item.id: item for item in scope}
    scored = rank_text(
        query,
        conversation_windows(scope, terms_of),
        total=len(scope),
        wanted=lambda key: wanted(by_id[key]),
        limit=limit,
    )
    return [RankedItem.of(by_id[found.key], found) for found in scored]


def conversation_windows(
    scope: Iterable[MemoryItem], terms_of: Callable[[MemoryItem], Sequence[str]] | None = None
) -> list[list[Passage]]:
    """Return the passages of each conversation, oldest first, of items given newest first."""
    conversations: dict[tuple[str | None, str | None, str | None], list[Passage]] = {}
    for item in scope:
        conversations.setdefault(conversation_key(item), []).append(
            passage_of(item, None if terms_of is None else terms_of(item))
        )
    return [passages[::-1] for passages in conversations.values()]


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
    passage, speaker_of = _ranking_tools()
    user, session, task = conversation
    return passage(
        item_id,
        content,
        speaker_of(name, memory_type, content),
        created_at,
        f"{user or ''}\0{session or ''}\0{task or ''}\0{created_at[:10]}",
        terms,
    )


@cache
def _ranking_tools() -> tuple[type[Passage], Callable[[str | None, str, str], str]]:
    """Return what passages are made with; loaded on use, and not looked for again with every item."""
    from memoranda.ranking import Passage, speaker_of

    return Passage, speaker_of
