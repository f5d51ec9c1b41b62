"""One call for a whole prompt: who the agent is, what it remembers, what was said, and the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memoranda.integrity import call_ids
from memoranda.items import MemoryItem
from memoranda.shapes import check_text, number, truth, whole_number
from memoranda.store import Store
from memoranda.store.calls import report_call
from memoranda.tokens import TokenCounter
from memoranda.trust import Trust, check_trust
from memoranda.windowing import rounds_of, rounds_within, stays
from memoranda_context.budget import Counts, Shares, steady_window
from memoranda_context.explaining import Shown
from memoranda_context.fencing import Admission, Fence, checked_fence
from memoranda_context.fitting import Fetched, Fitting
from memoranda_context.memories import known_profile, known_tokens, prompt_memories
from memoranda_context.prompt import AssembledContext, Parts
from memoranda_context.remembering import Remembering

_LOOKED_BEYOND = 4
"""One part in so many of the room of a conversation is read beyond it."""

_FULL = 4
"""A conversation that takes less than one part in so many of its room is whole."""


async def assemble(
    handle: Store,
    question: str | None = None,
    *,
    system: str = "",
    tokens: int = 4_000,
    limit: int | None = None,
    memories: float | None = None,
    min_score: float | None = None,
    counter: TokenCounter | None = None,
    fence: Fence | None = None,
    min_trust: Trust | str | None = None,
    facts: bool = True,
    receipt: object = None,
) -> list[MemoryItem]:
    """Return the items of a prompt that answers a question, ready for ``to_openai``, ``to_anthropic`` and the others.

    The prompt is the ``system`` text; what is known of the user; what the user said before that is worth knowing
    whatever is asked; the window of the handle's conversation; the memories for the question; and the question. If all
    that the user ever said fits, all of it is shown. Memories have their dates and who said them. They come as messages
    of the user's, between fences, since they must not speak for the system.

    Without a question, the round that is open goes on: after a tool was called and its result stored, the prompt ends
    with that result. A question that is already the newest message is not repeated.

    Everything fits into ``tokens``, as ``counter`` counts them, with one exception: the system text and the question
    are always whole, even where they alone take more. The window begins with the same round until it must move, and
    what changes with the question comes last, so that a provider's cache can reuse most of a prompt. No tool call is
    without its results, and nothing is shown twice. Nothing is stored: add the question and the answer yourself.

    Three options are for the thrifty. ``limit`` shows at most so many memories, only such as the question asks for;
    ``min_score`` only those that score as much; ``memories`` is the part of the budget, from 0 to 1, that all of them
    may take.

    ``fence``, such as ``memoranda_guard.Fence()``, shows items that are not trusted as quoted data, and of those that
    repeat each other one. ``min_trust`` leaves out what is trusted less.

    What is known comes from a store's observers: see :meth:`memoranda.store.Store.known`. A memory that holds no
    longer says so. ``facts=False`` leaves out both.

    ``receipt=True``, or a :class:`memoranda_receipts.Recording`, records what is shown: see
    :meth:`memoranda.store.Store.shown`.
    """
    options: dict[str, Any] = {"limit": limit, "counter": counter, "fence": fence, "min_trust": min_trust}
    options |= {"memories": memories, "min_score": min_score}
    options |= {"system": system, "tokens": tokens, "facts": facts, "receipt": receipt}
    # A handle that is measured reports the assembly, too.
    context = await report_call(handle, assemble_context, question, **options)
    return context.parts.items()


async def assemble_context(
    handle: Store,
    question: str | None = None,
    *,
    system: str = "",
    tokens: int = 4_000,
    limit: int | None = None,
    memories: float | None = None,
    min_score: float | None = None,
    counter: TokenCounter | None = None,
    fence: Fence | None = None,
    min_trust: Trust | str | None = None,
    facts: bool = True,
    receipt: object = None,
) -> AssembledContext:
    """Return the context whose items :func:`assemble` returns, with its explanation; the options are the same.

    ``explain()`` of it says what each part costs, what was left out and why, and how much a cache can reuse.
    """
    if question is not None:
        check_text(question, "question")
    check_text(system, "system")
    budget = whole_number(tokens, "tokens")
    wanted: dict[str, Any] = {} if min_trust is None else {"min_trust": check_trust(min_trust, "min_trust")}
    count = Counts(counter)
    assembly = Assembly(
        handle,
        system,
        budget,
        None if limit is None else whole_number(limit, "limit"),
        1.0 if memories is None else number(memories, "memories", most=1),
        None if min_score is None else number(min_score, "min_score", most=1),
        count,
        Admission(checked_fence(fence), budget, count),
        wanted,
        truth(facts, "facts"),
    )
    return await assembly.context(question, counter, receipt)


@dataclass(frozen=True, slots=True)
class Assembly:
    """Puts one prompt together."""

    handle: Store
    system: str
    budget: int
    limit: int | None
    memories: float
    min_score: float | None
    count: Counts
    admission: Admission
    wanted: dict[str, Any]
    facts: bool

    async def context(self, question: str | None, counter: TokenCounter | None, receipt: object) -> AssembledContext:
        """Return the context for a question; None goes on with the open round."""
        system = self.count.of_text(self.system) if self.system.strip() else 0
        free = max(self.budget - system, 0)
        room_of_memories = int(free * self.memories)
        profile = ""
        if self.facts:
            profile = await known_profile(self.handle, room_of_memories, self.count, self.wanted)
        shares = self._shares(question, profile, free)
        room = shares.conversation
        room += room // _LOOKED_BEYOND
        said = await self.handle.window(tokens=room, counter=self.admission.counter, receipt=False, **self.wanted)
        said = self.admission.of_conversation(said)
        shown, is_cut = await self._steady(said, shares)
        open_round = _open_round(shown, question)
        asked = _asked(shown, open_round) if open_round else question
        remembering = Remembering(self.handle, self.admission, self.count, self.wanted)
        memories = await prompt_memories(
            remembering,
            shares,
            asked or "",
            shown,
            self._remarks,
            used=sum(self.count.of_each(shown)),
            is_cut=is_cut,
            places=_places(self.handle, shown, is_cut),
            limit=self.limit,
            min_score=self.min_score,
        )
        found = memories.found
        fetched = Fetched(
            self.system,
            shown,
            profile=profile,
            told=memories.told,
            long_term=memories.long_term,
            remarks=memories.remarks,
            left_out=found.left_out,
            open_round=open_round,
            unsupported=found.unsupported,
        )
        originals = remembering.originals | {item.id: item for item in [*said, *found.considered]}
        if self.admission.fence is not None:
            self._fence(fetched)
        query = None if open_round else question
        context = Fitting(fetched, query, self.budget, self.count, len(found.shown)).context()
        asked_for = {"tokens": self.budget, "limit": self.limit, **self.wanted}
        asked_for["known"] = known_tokens(room_of_memories) if profile else None
        considered = [item.id for item in [*said, *found.considered]]
        shown_context = Shown("assemble", context, originals, asked_for, counter, considered)
        await shown_context.recorded(self.handle, receipt)
        return context

    async def _remarks(self, items: Sequence[MemoryItem]) -> dict[str, str]:
        return await self.handle.outdated([item.id for item in items], **self.wanted) if self.facts else {}

    def _shares(self, question: str | None, profile: str, free: int) -> Shares:
        """Return the rooms of what the system text leaves ``free``."""
        if profile:
            free = max(free - self.count.of_text(Parts(profile=profile).lasting_notes()), 0)
        asked = 0 if question is None else self.count.of_text(question)
        return Shares(free, asked, int(free * self.memories))

    async def _steady(self, said: list[MemoryItem], shares: Shares) -> tuple[list[MemoryItem], bool]:
        """Return the window, and whether the conversation has rounds that are not in it.

        More was read than has room, which usually shows whether there is more; a long round is only counted. Where a
        summary stands for older rounds, those that are left all fit.
        """
        room = shares.conversation
        if _FULL * sum(self.count.of_each(said)) < room:
            return said, False
        fitting = rounds_within(said, room, self.count)
        is_cut = len(fitting) < len(said)
        if not rounds_of(fitting):
            # A long result of a tool: a prompt without the round that it belongs to would be about nothing.
            fitting = rounds_within(said, max(shares.free - shares.question, 0), self.count)
        there = await self.handle.own.count(where={"memory_type": "human"}, **self.wanted)
        before = there - sum(item.memory_type == "human" for item in fitting)
        if not is_cut and (before <= 0 or any(item.memory_type == "summary" for item in said)):
            return said, before > 0
        return steady_window(fitting, room, self.count, max(before, 1)), True

    def _fence(self, fetched: Fetched) -> None:
        entries = [*fetched.told, *reversed(fetched.long_term)]
        start = len(fetched.conversation) - fetched.open_round
        going_on = {item.id for item in fetched.conversation[start:]}
        fetched.conversation, shown = self.admission.fenced(fetched.conversation, entries)
        fetched.told = [shown[item.id] for item in fetched.told if item.id in shown]
        fetched.long_term = [shown[item.id] for item in fetched.long_term if item.id in shown]
        # A fence may leave out some of the open round: what is left of it must not begin any earlier.
        fetched.open_round = sum(item.id in going_on for item in fetched.conversation)


def _places(handle: Store, shown: Sequence[MemoryItem], is_cut: bool) -> list[dict[str, Any]]:
    """Return where something was said that a conversation does not show: other sessions, and what came before it.

    Nothing of it changes while the conversation grows, so that the beginning of a prompt stays the same.
    """
    before = next(({"until": item.created_at} for item in shown if not stays(item)), {})
    bounds = handle.bounds
    session = None if bounds is None else bounds.session_id
    if session is None:
        return [before]
    elsewhere: list[dict[str, Any]] = [{"where": {"session_id": {"$ne": session}}}]
    return [*elsewhere, {"where": {"session_id": session}, **before}] if is_cut else elsewhere


def _open_round(said: Sequence[MemoryItem], question: str | None) -> int:
    """Return how many of the last items are a round that goes on with this question; 0 if it begins a new one."""
    rounds = rounds_of(said)
    if not rounds:
        return 0
    first, last = said[rounds[-1][0]], said[rounds[-1][-1]]
    if question is not None and (first.memory_type != "human" or first.content.strip() != question.strip()):
        return 0
    is_answered = last.memory_type == "ai" and not call_ids(last)
    return 0 if is_answered and question is not None else len(said) - rounds[-1][0]


def _asked(said: Sequence[MemoryItem], open_round: int) -> str:
    return next((item.content for item in said[-open_round:] if item.memory_type == "human"), "")
