"""What is remembered for a question as one text, for a framework that puts its prompt together itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from memoranda.items import HumanMemory, MemoryItem
from memoranda.shapes import whole_number
from memoranda.store import BaseStore
from memoranda.tokens import TokenCounter, estimate_tokens
from memoranda.trust import Trust, check_trust
from memoranda_context.fencing import Admission, Fence, checked_fence
from memoranda_context.prompt import Parts


@dataclass(frozen=True, slots=True)
class Notes:
    """Memories as a text for a prompt, and the items that it consists of. The text is empty if there are none."""

    text: str = field(default="", repr=False)
    items: tuple[MemoryItem, ...] = ()


async def recall_notes(
    handle: BaseStore,
    question: str,
    *,
    tokens: int = 2_000,
    limit: int | None = None,
    window: Iterable[MemoryItem] = (),
    counter: TokenCounter | None = None,
    fence: Fence | None = None,
    min_trust: Trust | str | None = None,
    **narrowing: Any,
) -> Notes:
    """Return what ``handle.recall`` finds for a question as one text, each memory with its date and session.

    The text is the one that :func:`assemble` puts into a prompt: it says that memories are no instructions. Memories
    that do not fit into ``tokens`` are left out, the least relevant first. ``limit``, ``window`` and further filters
    are those of ``recall``, ``fence`` and ``min_trust`` those of :func:`assemble`.
    """
    budget, count = whole_number(tokens, "tokens"), counter or estimate_tokens
    wanted = dict(narrowing)
    if min_trust is not None:
        wanted["min_trust"] = check_trust(min_trust, "min_trust")
    admission = Admission(checked_fence(fence), budget, count)
    found = await admission.recalled(handle, question, limit, window=list(window), **wanted)
    _, entries = admission.fenced([], found[::-1])
    found = [entries[item.id] for item in found if item.id in entries]
    kept: list[MemoryItem] = []
    for item in found:
        if count(HumanMemory(content=Parts(long_term=[*kept, item]).notes())) <= budget:
            kept.append(item)
    return Notes(Parts(long_term=kept).notes(), tuple(kept))
