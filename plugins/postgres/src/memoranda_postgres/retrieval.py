"""Ranked search: candidates come from the server, the ranking from the core."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from memoranda.embeddings import Embeddings
from memoranda.errors import OtherModelError
from memoranda.items import MemoryItem
from memoranda.store import RankedItem, SearchMode
from memoranda.store.backend import Filter, readable
from memoranda_postgres.candidates import CandidateReader
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.passage_vectors import Nearness
from memoranda_postgres.rows import item_of
from memoranda_postgres.scope_counts import ScopeCounter
from memoranda_postgres.server import Server
from memoranda_postgres.term_index import TermIndex
from memoranda_postgres.text_search import READ_HIT, Hit, TextSearch, version_of
from memoranda_postgres.vectors import Vectors
from memoranda_ranking import (
    HEARD,
    MOST_COUNTED,
    Scored,
    TurnCache,
    Weights,
    embed_texts,
    gather,
    gathered_async,
    likeness,
    normalised,
    query_terms,
    query_without_names,
    rank_hybrid,
    unrelated_similarity,
    usual_weights,
)

_OFF_LOOP = 300
"""From this many passages on, the ranking runs in a thread, since it would block the event loop for milliseconds."""

_GONE = 20
"""How many of the best items may be gone by the time they are read."""

T = TypeVar("T")

Types = Callable[[], Mapping[str, type[MemoryItem]]]

QueryVector = tuple[list[float], float]
"""The vector of a query, and how similar unrelated texts are to it."""


class Retrieval:
    """Ranks the items of one store."""

    def __init__(
        self,
        server: Server,
        statements: PostgresStatements,
        types: Types,
        weights: Weights | None,
        embeddings: Embeddings | None,
        vectors: Vectors | None,
        index: TermIndex,
        searched: Callable[[int], None],
    ) -> None:
        self._server = server
        self._types = types
        self._weights = weights or usual_weights(embeddings)
        self._embeddings = embeddings
        self._vectors = vectors
        self._text = TextSearch(server, statements, index, searched)
        self._columns = statements.dialect.item_columns
        self._turn_cache: TurnCache[str] = TurnCache()
        self._counter = ScopeCounter(server, statements, index, self._text)

    def forget(self) -> None:
        """Drop all caches, so that none outlives purged items."""
        self._turn_cache = TurnCache()
        self._counter.clear()

    async def rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode, store: str) -> list[RankedItem]:
        """Return the best items, best first."""
        # Neighbours count whatever their type, so the other filters come after the ranking.
        scope = wanted.scope()
        if mode == "semantic":
            return await self._semantic(query, wanted, scope, limit, store)
        if mode == "hybrid":
            # Candidates by words need no vector, which some embedders take long to compute.
            async with _in_background(self._query_vector(query, scope, store)) as vector:
                return await self._ranked(query, wanted, scope, limit, vector)
        return await self._ranked(query, wanted, scope, limit, None)

    async def _ranked(
        self, query: str, wanted: Filter, scope: Filter, limit: int, vector: asyncio.Task[QueryVector] | None
    ) -> list[RankedItem]:
        """Rank by words and, with a vector, by meaning."""

        async def nearest(most: int, size: int) -> list[Hit]:
            return [] if vector is None else await self._nearest((await vector)[0], scope, most, size)

        cache = self._turn_cache  # After a purge meanwhile, others already use a new one.
        reader = CandidateReader(self._text, scope, wanted, query_terms(query), cache, self._counter, nearest)
        filtered = wanted != scope
        questions = gather(query, self._weights, limit, filtered=filtered, meaning=vector is not None)
        candidates = await gathered_async(questions, reader.answer)
        near, unrelated = Nearness({}, {}), 0.0
        if vector is not None:
            direction, unrelated = await vector
            near = await self._similarities(direction, reader)

        def scored() -> list[Scored]:
            return rank_hybrid(
                query,
                candidates.windows,
                near.similarities,
                total=candidates.total,
                frequencies=candidates.frequencies,
                weights=self._weights,
                limit=None if filtered else limit + _GONE,
                nearest=near.passage,
                unrelated=unrelated,
            )

        ranked = scored() if len(reader.turns) < _OFF_LOOP else await asyncio.to_thread(scored)
        return await self._items(ranked, wanted, limit)

    async def _items(self, scored: Sequence[Scored], wanted: Filter, limit: int) -> list[RankedItem]:
        """Return the first ``limit`` that match, reading no more rows than that takes."""
        ranked: list[RankedItem] = []
        # Without a filter, hardly any of the best is missing.
        step = max(min(limit, 500), 50 if wanted != wanted.scope() else 1)
        for start in range(0, len(scored), step):
            part = scored[start : start + step]
            rows = await self._text.rows([found.key for found in part], self._columns, wanted)
            items = {item.id: item for item in self._readable(rows)}
            ranked += [found.ranked(items[found.key]) for found in part if found.key in items]
            if len(ranked) >= limit:
                break
        return ranked[:limit]

    async def _similarities(self, vector: Sequence[float], reader: CandidateReader) -> Nearness:
        """Return how near each candidate is."""
        versions = {turn.passage.key: version_of(mark) for mark, turn in reader.turns.items()}
        return await self._present_vectors().similarities(vector, versions)

    async def _semantic(self, query: str, wanted: Filter, scope: Filter, limit: int, store: str) -> list[RankedItem]:
        vector, unrelated = await self._query_vector(query, scope, store)
        size = await self._text.size(wanted, MOST_COUNTED)
        ranked = []
        for near in await self._present_vectors().nearest(vector, wanted, limit, size):
            score = likeness(near.similarity, unrelated)
            ranked += [
                RankedItem(item, score, {"semantic": score}, passage=near.passage(item.content))
                for item in self._readable([near.row])
            ]
        return ranked

    def _readable(self, rows: Sequence[Any]) -> list[MemoryItem]:
        """Return the items of rows that begin with the columns of an item."""
        types = self._types()
        return readable(lambda row: item_of(row, types), rows)

    async def _nearest(self, vector: Sequence[float], scope: Filter, most: int, size: int) -> list[Hit]:
        nearest = await self._present_vectors().nearest(vector, scope, most, size, READ_HIT)
        return [Hit(*near.row[: len(Hit._fields)]) for near in nearest]

    async def _query_vector(self, query: str, scope: Filter, store: str) -> QueryVector:
        assert self._embeddings is not None
        vectors = self._present_vectors()
        names, stored = await self._text.speakers(query, scope, HEARD)
        if stored is not None and stored != (vectors.model, vectors.dimension):
            raise OtherModelError(store, named_model(*stored), named_model(vectors.model, vectors.dimension))
        (vector,) = await embed_texts(self._embeddings, [query_without_names(query, names)], query=True)
        return list(normalised(vector)), await unrelated_similarity(self._embeddings, vector)

    def _present_vectors(self) -> Vectors:
        assert self._vectors is not None, "a mode without its capability is refused before"
        return self._vectors


@contextlib.asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, T]) -> AsyncGenerator[asyncio.Task[T], None]:
    """Run work in a task while the block runs; cancel it if it is unfinished when the block ends."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # Mark it as retrieved; the code that awaited the task has raised it.


def named_model(model: str, dimension: int) -> str:
    """Return the name of a model for messages."""
    return f"{model} ({dimension} dimensions)"
