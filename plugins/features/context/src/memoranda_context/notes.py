"""What is remembered for a question as one text, for a framework that puts its prompt together itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoranda.items import HumanMemory, MemoryItem
from memoranda.shapes import truth, whole_number
from memoranda.store import Store, copy_item
from memoranda.tokens import TokenCounter
from memoranda.trust import Trust, check_trust
from memoranda_context.budget import Counts, Shares
from memoranda_context.fencing import Admission, Fence, checked_fence
from memoranda_context.fitting import Fetched, Fitting
from memoranda_context.memories import PromptMemories, known_profile, prompt_memories
from memoranda_context.prompt import Parts
from memoranda_context.remembering import Remembering


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
