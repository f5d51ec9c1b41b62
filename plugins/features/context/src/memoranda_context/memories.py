"""The memories of one prompt: what is known, what was told, what answers the question, and what holds no longer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memoranda.items import MemoryItem
from memoranda.store import Store
from memoranda.tokens import TokenCounter
from memoranda_backend.text import is_small_talk
from memoranda_context.budget import Shares
from memoranda_context.remembering import Memories, Remembering
from memoranda_messages.prompts import remarked

_PART_OF_THE_BUDGET = 10
_MOST_TOKENS = 300
"""What is known takes at most one part in so many of the budget, and at most so many tokens."""

RemarksOf = Callable[[Sequence[MemoryItem]], Awaitable[dict[str, str]]]
"""Returns the remarks on those of some items that hold no longer, by id."""


@dataclass(frozen=True, slots=True)
class PromptMemories:
    """What a prompt shows of a store beside the conversation; what holds no longer says so."""

    told: list[MemoryItem]
    long_term: list[MemoryItem]
    """What answers the question, best first."""
    found: Memories
    """How that was chosen."""
    remarks: dict[str, str]


def known_tokens(room: int) -> int:
    """Return how many tokens what is known may take of so many."""
    return min(room // _PART_OF_THE_BUDGET, _MOST_TOKENS)


async def known_profile(handle: Store, room: int, counter: TokenCounter, wanted: Mapping[str, Any]) -> str:
    """Return what is known as lines, for a budget of so many tokens; empty if nothing is."""
    most = known_tokens(room)
    return "\n".join(await handle.known(tokens=most, counter=counter, **wanted)) if most > 0 else ""


async def prompt_memories(
    remembering: Remembering,
    shares: Shares,
    question: str,
    conversation: Sequence[MemoryItem],
    remarks_of: RemarksOf,
    *,
    used: int,
    is_cut: bool = False,
    places: Sequence[dict[str, Any]] = ({},),
    limit: int | None = None,
    min_score: float | None = None,
    repeated: Sequence[MemoryItem] = (),
) -> PromptMemories:
    """Return the memories of a prompt beside a conversation.

    ``used`` is what the conversation takes of the budget, and ``is_cut`` says that it fills its room. What was told
    comes from some ``places``, and only where neither a ``limit`` nor a ``min_score`` asks for the memories of the
    question alone. ``repeated`` is what else the prompt says, such as its question.
    """
    told: list[MemoryItem] = []
    thrifty = limit is not None or min_score is not None
    room_told = 0 if thrifty else shares.told(used, is_cut=is_cut)
    if not thrifty:
        told = await remembering.told(room_told, [*conversation, *repeated], places=places, is_cut=is_cut)
    used += sum(remembering.count.of_each(told))
    found = await remembering.found(
        question,
        shares.found(used, is_cut=is_cut),
        shares.few,
        limit=limit,
        min_score=min_score,
        is_cut=is_cut,
        window=conversation,
        shown=[*conversation, *told],
    )
    if not told and not found.shown and not thrifty and not is_small_talk(question):
        # A small budget, and nothing that answers: what is worth knowing anyway may take all of it.
        room = shares.found(used, is_cut=is_cut)
        if room > room_told and remembering.may_tell_more(room_told):
            told = await remembering.told(room, [*conversation, *repeated], places=places, is_cut=is_cut)
    # One question for all: what remarks take is found out when the prompt is fitted into its budget.
    remarks = await remarks_of([*told, *found.shown])
    return PromptMemories(remarked(told, remarks), remarked(found.shown, remarks), found, remarks)
