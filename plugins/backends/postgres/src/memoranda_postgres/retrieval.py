"""Ranked search: what a scope keeps as arrays is ranked, and the best rows become items.

A scope of very many items is ranked by the candidates that the server's indexes find.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import date
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from memoranda.embeddings import Embeddings
from memoranda.errors import OtherModelError
from memoranda.items import MemoryItem
from memoranda.loops import offload
from memoranda.store import RankedItem, SearchMode
from memoranda.store.backend import Filter, Opening
from memoranda_backend.ranking import (
    Passage,
    ScopeArrays,
    Scored,
    Weights,
    embed_query,
    likeness,
    nearest_first,
    normalised,
    passage_at,
    query_without_names,
    rank,
    rank_hybrid,
)
from memoranda_backend.sql import Parameters
from memoranda_backend.sql.candidates import (
    WHOLE_SCOPE,
    Around,
    Best,
    Frequencies,
    Nearest,
    OnDay,
    Question,
    WithLetters,
    gather,
    gathered_async,
)
from memoranda_postgres.dialect import MOMENT, SEQUENCE, PostgresStatements
from memoranda_postgres.passage_vectors import Nearness
from memoranda_postgres.rows import readable_items
from memoranda_postgres.scope_cache import Scope, ScopeCache
from memoranda_postgres.server import Server
from memoranda_postgres.terms import FOLDED
from memoranda_postgres.text_search import READ_HIT, Hit, TermIndex, TextSearch, version_of
from memoranda_postgres.vectors import Vectors


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


_GONE = 20
"""How many of the best items may be gone by the time they are read."""


class Asked(NamedTuple):
    """What one search asks for: a query, with its vector where meaning counts."""

    query: str
    wanted: Filter
    scope: Filter
    limit: int
    vector: Sequence[float] | None = None
    unrelated: float = 0.0
    by_words: bool = True

    @property
    def is_filtered(self) -> bool:
        """True if not all of the scope is asked for. Neighbours in a conversation count all the same."""
        return self.wanted != self.scope


class Found(NamedTuple):
    """What was found: its id, what makes the result of its item and the nearest passage, and which that is of many."""

    key: str
    result: Callable[[MemoryItem, str], RankedItem]
    part: tuple[int, int]


class Retrieval:
    """Ranks the items of one store."""

    def __init__(
        self,
        server: Server,
        statements: PostgresStatements,
        opening: Opening,
        weights: Weights | None,
        embeddings: Embeddings | None,
        vectors: Vectors | None,
        index: TermIndex,
        searched: Callable[[int], None],
    ) -> None:
        self._server = server
        self._statements = statements
        self._opening = opening
        self._weights = weights or Weights()
        self._embeddings = embeddings
        self._vectors = vectors
        self._text = TextSearch(server, statements, index, searched)
        self._scopes = ScopeCache(server, statements, self._weights.passage, vectors)

    def forget(self) -> None:
        """Drop what is kept between searches: it may hold purged content."""
        self._scopes.forget()

    async def rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        """Return the best items, best first."""
        asked, look = Asked(query, wanted, wanted.scope(), limit, by_words=mode != "semantic"), 0
        if mode != "text":
            asked, look = await self._with_vector(asked)
        found = await self._scopes.use(asked.scope, partial(self._in_whole_scope, asked), look)
        if found is None and not asked.by_words:
            return await self._nearest(asked)
        return await self._items(await self._among_candidates(asked) if found is None else found, asked)

    async def _in_whole_scope(self, asked: Asked, scope: Scope) -> list[Found] | None:
        """Rank a scope as a whole; return None if it has too many items for that."""
        if not scope.is_whole:
            return None
        matching = await self._matching(asked.wanted) if asked.is_filtered else None
        return await offload(len(scope.arrays), self._ranked, scope.arrays, asked, matching)

    def _ranked(self, arrays: ScopeArrays, asked: Asked, matching: Sequence[int] | None) -> list[Found]:
        """Rank a whole scope; ``matching`` are the numbers of the items that are wanted, if not all are."""
        vector, limit = asked.vector, asked.limit + _GONE
        near = None if vector is None else arrays.similarities(vector, self._weights.damping)
        chosen = None if matching is None else np.isin(arrays.layout.numbers, matching).tolist().__getitem__
        if vector is not None and near is not None and not asked.by_words:
            scores, rows = likeness(near, asked.unrelated), arrays.layout.rows
            return [
                Found(arrays.keys[rows[at]], partial(_by_meaning, float(scores[at])), arrays.nearest_part(at, vector))
                for at in islice(nearest_first(arrays, near, chosen), limit)
            ]
        scored = rank(
            arrays, asked.query, self._weights, near=near, wanted=chosen, limit=limit, unrelated=asked.unrelated
        )
        parts = [(0, 1) if vector is None else arrays.nearest_part(each.item, vector) for each in scored]
        return [Found(each.key, each.ranked, part) for each, part in zip(scored, parts, strict=True)]

    async def _matching(self, wanted: Filter) -> list[int]:
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, wanted)
        text = f"SELECT ARRAY(SELECT {SEQUENCE} FROM {self._statements.dialect.table} WHERE {where})"
        ((numbers,),) = await self._server.fetch(text, parameters.values)
        found: list[int] = numbers
        return found

    async def _among_candidates(self, asked: Asked) -> list[Found]:
        """Rank a scope of very many items by what its indexes find."""
        vector = asked.vector

        async def nearest(most: int) -> list[Hit]:
            assert vector is not None, "only asked where meaning counts"
            found = await self._present_vectors().nearest(vector, asked.scope, most, WHOLE_SCOPE, READ_HIT)
            return [Hit(*near.row[: len(Hit._fields)]) for near in found]

        reader = CandidateReader(self._text, asked.scope, asked.wanted, nearest)
        gathering = gather(
            asked.query, self._weights, asked.limit, filtered=asked.is_filtered, meaning=vector is not None
        )
        candidates = await gathered_async(gathering, reader.answer)
        near = Nearness({}, {})
        if vector is not None:
            versions = {passage.key: version_of(mark) for mark, passage in reader.passages.items()}
            near = await self._present_vectors().similarities(vector, versions)

        def scored() -> list[Scored]:
            return rank_hybrid(
                asked.query,
                candidates.windows,
                near.similarities,
                total=candidates.total,
                frequencies=candidates.frequencies,
                weights=self._weights,
                limit=None if asked.is_filtered else asked.limit + _GONE,
                unrelated=asked.unrelated,
            )

        return [
            Found(each.key, each.ranked, near.part(each.key)) for each in await offload(len(reader.passages), scored)
        ]

    async def _items(self, found: Sequence[Found], asked: Asked) -> list[RankedItem]:
        """Return the first that match, up to the limit, reading no more rows than that takes."""
        ranked: list[RankedItem] = []
        # Without a filter, hardly any of the best is missing.
        step = max(min(asked.limit, 500), 50 if asked.is_filtered else 1)
        for start in range(0, len(found), step):
            some = found[start : start + step]
            columns = self._statements.dialect.item_columns
            rows = await self._text.rows([each.key for each in some], columns, asked.wanted)
            items = {item.id: item for item in self._readable(rows)}
            for key, result, (part, parts) in some:
                item = items.get(key)
                if item is not None:
                    ranked.append(result(item, passage_at(item.content, part, parts) if parts > 1 else ""))
            if len(ranked) >= asked.limit:
                break
        return ranked[: asked.limit]

    async def _nearest(self, asked: Asked) -> list[RankedItem]:
        """Return the nearest items of a scope that is too large to be ranked as a whole."""
        assert asked.vector is not None, "a mode without its capability is refused before"
        size = await self._text.size(asked.wanted, WHOLE_SCOPE)
        ranked = []
        for near in await self._present_vectors().nearest(asked.vector, asked.wanted, asked.limit, size):
            score = float(likeness(near.similarity, asked.unrelated))
            ranked += [_by_meaning(score, item, near.passage(item.content)) for item in self._readable([near.row])]
        return ranked

    def _readable(self, rows: Sequence[Any]) -> list[MemoryItem]:
        """Return the items of rows that begin with the columns of an item."""
        return readable_items(rows, self._opening.item_types())

    async def _with_vector(self, asked: Asked) -> tuple[Asked, int]:
        """Return a query with its vector, and the number of the look at the server that told whom it may name."""
        assert self._embeddings is not None
        vectors = self._present_vectors()

        async def seen(scope: Scope) -> tuple[int, tuple[str, int] | None, set[str] | None]:
            return scope.look, scope.model, scope.participants(asked.query) if scope.is_whole else None

        look, stored, names = await self._scopes.use(asked.scope, seen)
        if stored is not None and stored != (vectors.model, vectors.dimension):
            raise OtherModelError(
                self._opening.label, named_model(*stored), named_model(vectors.model, vectors.dimension)
            )
        if names is None:
            names = await self._text.participants(asked.query, asked.scope)
        vector, unrelated = await embed_query(self._embeddings, query_without_names(asked.query, names))
        return asked._replace(vector=list(normalised(vector)), unrelated=unrelated), look

    def _present_vectors(self) -> Vectors:
        assert self._vectors is not None, "a mode without its capability is refused before"
        return self._vectors


def _by_meaning(score: float, item: MemoryItem, passage: str) -> RankedItem:
    return RankedItem(item, score, {"semantic": score}, passage=passage, meaning=1.0)


def named_model(model: str, dimension: int) -> str:
    """Return the name of a model for messages."""
    return f"{model} ({dimension} dimensions)"
