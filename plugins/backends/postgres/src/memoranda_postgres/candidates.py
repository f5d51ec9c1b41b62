"""The candidates of a search in a very large scope: questions about it, answered by the server."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import date
from typing import Any

from memoranda.store.backend import Filter
from memoranda_backend.ranking import Passage
from memoranda_backend.sql.candidates import Around, Best, Frequencies, Nearest, OnDay, Question, WithLetters
from memoranda_postgres.dialect import MOMENT
from memoranda_postgres.terms import FOLDED
from memoranda_postgres.text_search import Hit, TextSearch


class CandidateReader:
    """Answers the questions of one search; ``nearest`` returns the items that are nearest in meaning."""

    def __init__(
        self, search: TextSearch, scope: Filter, wanted: Filter, nearest: Callable[[int], Awaitable[Sequence[Hit]]]
    ) -> None:
        self._search = search
        self._scope = scope
        self._wanted = wanted
        self._nearest = nearest
        self.passages: dict[str, Passage] = {}
        """All passages that were read, by the marks of their rows."""

    async def answer(self, question: Question) -> Any:
        """Return the answer to a question of the policy."""
        search, scope = self._search, self._scope
        match question:
            case Frequencies(terms):
                return await search.frequencies(terms, scope, self.passages)
            case Best(weights, most, matching):
                return await search.best(weights, self._wanted if matching else scope, most, self.passages)
            case OnDay(day, most):
                return await self._on_day(day, most)
            # A term consists of letters and digits, so nothing in it is special to LIKE.
            case WithLetters(letters, most):
                pattern = f"%{letters}%"
                return await search.newest(scope, most, lambda parameters: f"{FOLDED} LIKE {parameters.add(pattern)}")
            case Nearest(most):
                return await self._nearest(most)
            case Around(keys, turns):
                return await self._windows(await search.around(keys, turns, scope))

    async def _on_day(self, day: str, most: int) -> list[Hit]:
        bounds = _bounds_of(day)
        if bounds is None:
            return []
        first, last = bounds
        return await self._search.newest(
            self._scope,
            most,
            lambda parameters: (
                f"{MOMENT} BETWEEN {parameters.add(first)}::text::timestamp AND {parameters.add(last)}::text::timestamp"
            ),
        )

    async def _windows(self, chains: Sequence[Iterable[str]]) -> list[list[Passage]]:
        marks = {mark for chain in chains for mark in chain}
        read = await self._search.passages(marks, self._scope, self.passages)
        self.passages = read
        # An item that was removed between the two queries leaves a gap, which is harmless.
        return [[read[mark] for mark in chain if mark in read] for chain in chains]


def _bounds_of(day: str) -> tuple[str, str] | None:
    """Return the first and the last moment of a day or a month, or None if it does not exist."""
    try:
        first = date.fromisoformat(day if len(day) > len("2023-05") else f"{day}-01")
    except ValueError:
        return None
    last = first if len(day) > len("2023-05") else first.replace(day=monthrange(first.year, first.month)[1])
    return f"{first}T00:00:00", f"{last}T23:59:59.999999"
