"""The ranker that the core finds through its hook: text search for stores without an index of their own."""

from __future__ import annotations

from memoranda_backend.ranking.scope_index import ScopeIndex, rank_together
from memoranda_backend.ranking.times import by_time
from memoranda_backend.ranking.verdict import judge
from memoranda_backend.text.superseding import newest_first


class TextRanker:
    """Ranks by words, and by what a conversation adds to them: neighbouring turns, speakers and dates."""

    newest_first = staticmethod(newest_first)
    judge = staticmethod(judge)
    by_time = staticmethod(by_time)
    rank_together = staticmethod(rank_together)

    def index(self) -> ScopeIndex:
        """Return a new index, for one scope."""
        return ScopeIndex()
