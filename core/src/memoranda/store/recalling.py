"""Recall: the memories that answer a question, for a prompt. See :class:`BaseStore`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import check_text, items_of, number
from memoranda.store.filters import EVERYTHING, Kinds, Moment, Page, check_limit
from memoranda.store.protocol import Capability, SearchMode
from memoranda.store.reading import Reading
from memoranda.store.values import Value

RELEVANT = 0.2
"""What the best memory must score to be recalled, unless the caller says otherwise."""

BESIDE_THE_BEST = 0.4
"""What the others must score, as a part of the best one's score."""

_NEVER = [Value("memory_type", False, "$ne", kind) for kind in ("system", "branch")]


class Recalling(Reading):
    """The part of a store that recalls."""

    async def recall(
        self,
        query: str,
        *,
        limit: int = 10,
        window: Iterable[MemoryItem] = (),
        metadata: MemoryMetadata | None = None,
        memory_type: Kinds | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        where: Mapping[str, Any] | None = None,
        min_score: float | None = None,
    ) -> list[MemoryItem]:
        """Return the memories that answer a query, best first; an empty list if none is relevant.

        This uses the best ranking that the store has: hybrid with an embedder, text without one. Archived items are
        found too. Left out are system items, items that only repeat the query, and those in ``window``: pass what the
        model is shown anyway. A handle that is bound to a user recalls from every session and task of that user; use
        ``where={"session_id": …}`` to stay in one. Filters and ``min_score`` are those of :meth:`search`; without a
        ``min_score``, results far below the best one are left out as well.
        """
        self._ensure_open()
        shown = {item.id for item in items_of(window, "window")}
        most = check_limit(limit)
        floor = RELEVANT if min_score is None else number(min_score, "min_score", most=1)
        wanted = self._filter(
            metadata=metadata, memory_type=memory_type, archived=None, since=since, until=until, where=where
        )
        if not check_text(query, "query").strip() or not most:
            return []
        wanted = wanted.also(*_NEVER, Value("content", False, "$ne", query))
        mode: SearchMode = "hybrid" if Capability.HYBRID in self.capabilities else "text"
        page = Page(min(most + len(shown), EVERYTHING))
        ranked = await self._of_owner()._ranked(query, wanted, page, self._checked_mode(mode), floor)
        if ranked and min_score is None:
            ranked = [found for found in ranked if found.score >= BESIDE_THE_BEST * ranked[0].score]
        return [found.item for found in ranked if found.item.id not in shown][:most]

    def _of_owner(self) -> Recalling:
        """Return what reaches everything of this handle's user, in whichever session; the store itself otherwise."""
        return self
