"""The candidates of one ranked search: the core's questions about a scope, answered by the server."""

from __future__ import annotations

import logging
from calendar import monthrange
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import date
from typing import Any

import asyncpg

from memoranda.errors import StoreError
from memoranda.store.backend import Filter
from memoranda_postgres.dialect import MOMENT
from memoranda_postgres.scope_counts import ScopeCounter, ScopeCounts
from memoranda_postgres.terms import FOLDED
from memoranda_postgres.text_search import Hit, TextSearch
from memoranda_ranking import (
    MOST_COUNTED,
    WHOLE_SCOPE,
    Around,
    Best,
    Frequencies,
    Nearest,
    OnDay,
    Passage,
    Question,
    Size,
    SpokenBy,
    Turn,
    TurnCache,
    Whole,
    WithLetters,
    index_terms,
)

logger = logging.getLogger(__name__)


class CandidateReader:
    """Answers the questions of one search for these terms.

    ``cache`` and ``counter`` are kept between searches; ``nearest`` returns the items that are nearest in meaning.
    """

    def __init__(
        self,
        search: TextSearch,
        scope: Filter,
        wanted: Filter,
        terms: Sequence[str],
        cache: TurnCache[str],
        counter: ScopeCounter,
        nearest: Callable[[int, int], Awaitable[Sequence[Hit]]],
    ) -> None:
        self._search = search
        self._scope = scope
        self._wanted = wanted
        self._terms = terms
        self._cache = cache
        self._counter = counter
        self._nearest = nearest
        self._names: list[str] | None = None
        self._marks: list[str] | None = None
        self._counts: ScopeCounts | None = None
        self.turns: dict[str, Turn] = {}
        """All turns that were read, by the marks of their rows."""

    async def answer(self, question: Question) -> Any:
        """Return the answer to a question of the core."""
        search, scope = self._search, self._scope
        match question:
            case Size(most):
                return await self._size(most)
            case Whole():
                return await self._conversations()
            case Frequencies(terms):
                return (await self._count(terms)).frequencies
            case Best(weights, most, matching):
                return await search.best(weights, self._wanted if matching else scope, most, self._cache)
            case OnDay(day, most):
                return await self._on_day(day, most)
            case SpokenBy(term, most):
                names = [name for name in await self._all_names() if term in index_terms(name)]
                return await search.spoken_by(names, scope, most) if names else []
            # A term consists of letters and digits, so nothing in it is special to LIKE.
            case WithLetters(letters, most):
                pattern = f"%{letters}%"
                return await search.newest(scope, most, lambda parameters: f"{FOLDED} LIKE {parameters.add(pattern)}")
            case Nearest(most):
                return await self._nearest(most, (await self._count(())).total)
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

    async def _all_names(self) -> list[str]:
        """Return who speaks in the scope, reading it once for all terms."""
        if self._names is None:
            try:
                self._names = await self._search.names(self._scope)
            except StoreError as error:
                if not isinstance(error.__cause__, asyncpg.DataError):
                    raise
                logger.debug("A row cannot be read, so no speaker of the scope is known.")
                self._names = []
        return self._names

    async def _size(self, most: int) -> int:
        """Return how many items are in the scope, reading the marks of a small one with the same statement."""
        if most <= WHOLE_SCOPE and not self._counter.has(self._scope):
            self._marks = await self._search.marks(self._scope, most)
            return most + 1 if self._marks is None else len(self._marks)
        return (await self._count(self._terms)).total

    async def _count(self, terms: Sequence[str]) -> ScopeCounts:
        """Return the counts of the scope, which are read once for all terms of the search."""
        if self._counts is None or not self._counts.frequencies.keys() >= set(terms):
            self._counts = await self._counter.count(self._scope, terms, self._cache)
        return self._counts

    async def _conversations(self) -> list[list[Passage]]:
        if self._marks is None:
            self._counter.drop(self._scope)  # It is no longer large.
            self._marks = await self._search.marks(self._scope, MOST_COUNTED)
        turns = await self._read_turns(self._marks or ())
        conversations: dict[object, list[Passage]] = {}
        for turn in turns.values():
            conversations.setdefault(turn.conversation, []).append(turn.passage)
        return list(conversations.values())

    async def _windows(self, chains: Sequence[Sequence[str]]) -> list[list[Passage]]:
        turns = await self._read_turns(mark for chain in chains for mark in chain)
        # An item that was removed between the two queries leaves a gap, which is harmless.
        return [[turns[mark].passage for mark in chain if mark in turns] for chain in chains]

    async def _read_turns(self, marks: Iterable[str]) -> dict[str, Turn]:
        self.turns = await self._search.turns(marks, self._scope, self._cache)
        return self.turns


def _bounds_of(day: str) -> tuple[str, str] | None:
    """Return the first and the last moment of a day or a month, or None if it does not exist."""
    try:
        first = date.fromisoformat(day if len(day) > len("2023-05") else f"{day}-01")
    except ValueError:
        return None
    last = first if len(day) > len("2023-05") else first.replace(day=monthrange(first.year, first.month)[1])
    return f"{first}T00:00:00", f"{last}T23:59:59.999999"
