"""One call for a whole prompt: who the agent is, what it remembers, what was said, and the question."""

from __future__ import annotations

from functools import partial
from typing import Any

from memoranda.items import MemoryItem
from memoranda.shapes import check_text, whole_number
from memoranda.store import BaseStore
from memoranda.tokens import TokenCounter, estimate_tokens
from memoranda.trust import Trust, check_trust
from memoranda.windowing import rounds_within
from memoranda_context.fencing import Admission, Fence, checked_fence
from memoranda_context.fitting import Fetched, Fitting
from memoranda_context.prompt import AssembledContext, Parts
from memoranda_context.receipts import Shown

_SHARE = 3
"""One part in so many of the budget is kept for memories; what they leave is the conversation's."""


async def assemble(
    handle: BaseStore,
    question: str,
    *,
    system: str = "",
    tokens: int = 4_000,
    limit: int | None = None,
    counter: TokenCounter | None = None,
    fence: Fence | None = None,
    min_trust: Trust | str | None = None,
    receipt: object = None,
) -> list[MemoryItem]:
    """Return the items of a prompt that answers a question, ready for ``to_openai``, ``to_anthropic`` and the others.

    The prompt is the ``system`` text, the memories that ``handle.recall`` finds for the question, each with its date
    and where it comes from, then the window of the handle's conversation, and the question. Memories come as one
    message of the user's, between fences, since they must not speak for the system. At most ``limit`` of them come;
    without a limit, as many as the question needs.

    Everything fits into ``tokens``, as ``counter`` counts them, with one exception: the system text and the question
    are always whole, even where they alone take more. A third of the rest is kept for memories; the newest rounds take
    what is left. No tool call is without its results, and nothing is shown twice. Nothing is stored: add the question
    and the answer yourself, afterwards.

    ``fence``, such as ``memoranda_guard.Fence()``, shows items that are not trusted as quoted data, and of those that
    repeat each other one. ``min_trust`` leaves out what is trusted less.

    ``receipt=True``, or a :class:`memoranda_receipts.Recording`, records what is shown: see
    :meth:`memoranda.store.BaseStore.shown`.
    """
    options: dict[str, Any] = {"limit": limit, "counter": counter, "fence": fence, "min_trust": min_trust}
    # A handle that is measured reports the assembly, too.
    call = getattr(handle, "report_call", lambda function, *given, **named: function(handle, *given, **named))
    options |= {"system": system, "tokens": tokens, "receipt": receipt}
    context: AssembledContext = await call(assemble_context, question, **options)
    return context.parts.items()


async def assemble_context(
    handle: BaseStore,
    question: str,
    *,
    system: str,
    tokens: int,
    limit: int | None,
    counter: TokenCounter | None,
    fence: Fence | None,
    min_trust: Trust | str | None,
    receipt: object,
) -> AssembledContext:
    """Return what :func:`assemble` returns the items of, with its explanation."""
    check_text(question, "question")
    check_text(system, "system")
    budget, most = whole_number(tokens, "tokens"), None if limit is None else whole_number(limit, "limit")
    count = counter or estimate_tokens
    admission = Admission(checked_fence(fence), budget, count)
    wanted: dict[str, Any] = {} if min_trust is None else {"min_trust": check_trust(min_trust, "min_trust")}
    left = budget - sum(count(item) for item in Parts(soul=system, query=question).items())
    said = await handle.window(tokens=max(left, 0), counter=admission.counter, receipt=False, **wanted)
    said = admission.of_conversation(said)
    shown = rounds_within(said, max(left - left // _SHARE, 0), count)
    recall = partial(admission.recalled, handle, question, window=shown, **wanted)
    found = await recall(limit=most) if most != 0 else []
    best = found
    if most is None and found:  # Of many, which come session by session, the best have the first claim to the room.
        best = await recall(limit=len(found))
    originals = {item.id: item for item in [*said, *found, *best]}
    if fence is not None:
        # Not all that came session by session need have room in the fence.
        said, entries = admission.fenced(said, best[::-1])
        found = best = [entries[item.id] for item in best if item.id in entries]
        shown = rounds_within(said, max(left - left // _SHARE, 0), count)

    def fitted(conversation: list[MemoryItem], memories: list[MemoryItem]) -> AssembledContext:
        return Fitting(Fetched(system, conversation, long_term=memories), question, budget, count, len(best)).context()

    context = fitted(shown, best)
    if best != found:
        kept = {item.id for item in context.parts.long_term}
        context = fitted(shown, [item for item in found if item.id in kept])
    if len(shown) < len(said):  # The memories may have left room for further rounds.
        room = budget - context.tokens + sum(map(count, shown))
        kept = {item.id for item in context.parts.long_term}
        further = rounds_within(said, max(room, 0), count)
        context = fitted(further, [item for item in found if item.id in kept])
    asked = {"tokens": budget, "limit": most, **wanted}
    considered = [item.id for item in [*said, *found]]
    await Shown("assemble", context, originals, asked, counter, considered).recorded(handle, receipt)
    return context
