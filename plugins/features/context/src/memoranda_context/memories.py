"""The memories of one prompt: what is known, what was told, what answers the question, and what holds no longer.

For a framework that puts its prompt together itself, they come as one text: :func:`recall_notes`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoranda.items import HumanMemory, MemoryItem
from memoranda.shapes import truth, whole_number
from memoranda.store import Store, copy_item
from memoranda.tokens import TokenCounter
from memoranda.trust import Trust, check_trust
from memoranda_backend.text import is_small_talk
from memoranda_context.budget import Counts, Shares
from memoranda_context.fencing import Admission, Fence, checked_fence
from memoranda_context.fitting import Fetched, Fitting
from memoranda_context.prompt import Parts
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


@dataclass(frozen=True, slots=True)
class Notes:
    """Memories as a text for a prompt, and the items that it consists of. The text is empty if there are none."""

    text: str = field(default="", repr=False)
    items: tuple[MemoryItem, ...] = ()


async def recall_notes(
    handle: Store,
    question: str,
    *,
    tokens: int = 2_000,
    limit: int | None = None,
    window: Iterable[MemoryItem] = (),
    counter: TokenCounter | None = None,
    fence: Fence | None = None,
    min_trust: Trust | str | None = None,
    facts: bool = True,
    **narrowing: Any,
) -> Notes:
    """Return what :func:`assemble` would put into a prompt beside the conversation, as one text.

    That is what is known of the user, what the user said before that is worth knowing whatever is asked, and the
    memories for the question; the text says that they are no instructions. Together they fit into ``tokens``.
    ``window`` is what the model is shown anyway, which is not repeated. Further filters, such as ``where``, narrow
    which memories count. The other options are those of :func:`assemble`: with a ``limit``, at most so many memories
    are shown, only such as the question asks for.
    """
    budget, count = whole_number(tokens, "tokens"), Counts(counter)
    trusted: dict[str, Any] = {} if min_trust is None else {"min_trust": check_trust(min_trust, "min_trust")}
    about = trusted | {name: narrowing[name] for name in ("metadata",) if name in narrowing}
    admission = Admission(checked_fence(fence), budget, count)
    profile = await known_profile(handle, budget, count, about) if truth(facts, "facts") else ""
    known = count.of_text(Parts(profile=profile).lasting_notes()) if profile else 0
    free = max(budget - known, 0)

    async def remarks_of(items: Sequence[MemoryItem]) -> dict[str, str]:
        return await handle.outdated([item.id for item in items], **about) if facts else {}

    memories = await prompt_memories(
        Remembering(handle, admission, count, trusted | narrowing),
        Shares(free, 0, free),
        question,
        list(window),
        remarks_of,
        used=0,
        limit=None if limit is None else whole_number(limit, "limit"),
        repeated=[HumanMemory(content=question)],
    )
    fetched = _fetched(profile, memories, admission)
    parts = Fitting(fetched, None, budget, count, len(memories.long_term)).context().parts
    # The items were read as the store's own.
    return Notes(parts.notes(), tuple(map(copy_item, (*parts.told, *parts.long_term))))


def _fetched(profile: str, memories: PromptMemories, admission: Admission) -> Fetched:
    told, long_term = memories.told, memories.long_term
    if admission.fence is not None:
        _, shown = admission.fenced([], [*told, *reversed(long_term)])
        told = [shown[item.id] for item in told if item.id in shown]
        long_term = [shown[item.id] for item in long_term if item.id in shown]
    return Fetched(
        profile=profile,
        told=told,
        long_term=long_term,
        remarks=memories.remarks,
        unsupported=memories.found.unsupported,
    )
