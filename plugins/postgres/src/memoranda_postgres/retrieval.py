"""Ranked search: candidates from the server, ranked by the core's own functions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from memoranda.embeddings import Embeddings
from memoranda.errors import OtherModelError
from memoranda.items import MemoryItem
from memoranda.store import Filter, RankedItem, SearchMode, readable
from memoranda_postgres.counts import Counts
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.known import version_of
from memoranda_postgres.passages import Nearness
from memoranda_postgres.rows import item_of
from memoranda_postgres.server import Server
from memoranda_postgres.text import SEEN, Answers, Hit, TextSearch
from memoranda_postgres.vectors import Vectors
from memoranda_ranking import (
    HEARD,
    MOST_COUNTED,
    KnownTurns,
    Scored,
    Weights,
    embed_texts,
    gather,
    gathered_async,
    normalised,
    query_terms,
    query_without_names,
    rank_hybrid,
    usual_weights,
)

_OFF_LOOP = 300
"""From this many passages on, the ranking runs in a thread: it takes milliseconds, in which others want their turn."""

_GONE = 20
"""How many of the best may be gone by the time that they are read."""

T = TypeVar("T")

Types = Callable[[], Mapping[str, type[MemoryItem]]]


class Retrieval:
    """Ranks for one store."""

    def __init__(
        self,
        server: Server,
        statements: PostgresStatements,
        types: Types,
        weights: Weights | None,
        embeddings: Embeddings | None,
        vectors: Vectors | None,
    ) -> None:
        self._server = server
        self._types = types
        self._weights = weights or usual_weights(embeddings)
        self._embeddings = embeddings
        self._vectors = vectors
        self._text = TextSearch(server, statements)
        self._columns = statements.dialect.item_columns
        self._known: KnownTurns[str] = KnownTurns()
        self._counts = Counts(server, statements)

    def forget(self) -> None:
        """Keep nothing of what was purged."""
        self._known = KnownTurns()
        self._counts.forget()

    async def rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode, store: str) -> list[RankedItem]:
        """Return the best items, best first."""
        # Neighbours count whatever their type, so the other filters come after the ranking.
        scope = wanted.scope()
        if mode == "semantic":
            return await self._semantic(query, wanted, scope, limit, store)
        if mode == "hybrid":
            # What is found by words needs no vector, which some embedders take long to make.
            async with _beside(self._query_vector(query, scope, store)) as vector:
                return await self._ranked(query, wanted, scope, limit, vector)
        return await self._ranked(query, wanted, scope, limit, None)

    async def _ranked(
        self, query: str, wanted: Filter, scope: Filter, limit: int, vector: asyncio.Task[list[float]] | None
    ) -> list[RankedItem]:
        """Rank by words, and with a vector by meaning, too."""

        async def nearest(most: int, size: int) -> list[Hit]:
            return [] if vector is None else await self._nearest(await vector, scope, most, size)

        known = self._known  # What is purged meanwhile is not kept with what others read after it.
        answers = Answers(self._text, scope, wanted, query_terms(query), known, self._counts, nearest)
        filtered = wanted != scope
        gathering = gather(query, self._weights, limit, filtered=filtered, meaning=vector is not None)
        candidates = await gathered_async(gathering, answers.answer)
        near = Nearness({}, {}) if vector is None else await self._similarities(await vector, answers)

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
            )

        ranked = scored() if len(answers.turns) < _OFF_LOOP else await asyncio.to_thread(scored)
        return await self._items(ranked, wanted, limit)

    async def _items(self, scored: Sequence[Scored], wanted: Filter, limit: int) -> list[RankedItem]:
        """Return the first ``limit`` that match, reading no more rows than that takes."""
        ranked: list[RankedItem] = []
        # Where nothing is filtered, hardly any of the best is missing.
        step = max(min(limit, 500), 50 if wanted != wanted.scope() else 1)
        for start in range(0, len(scored), step):
            part = scored[start : start + step]
            rows = await self._text.rows([found.key for found in part], self._columns, wanted)
            items = {item.id: item for item in self._readable(rows)}
            ranked += [found.ranked(items[found.key]) for found in part if found.key in items]
            if len(ranked) >= limit:
                break
        return ranked[:limit]

    async def _similarities(self, vector: Sequence[float], answers: Answers) -> Nearness:
        """Return how near each of the items is that were found."""
        versions = {turn.passage.key: version_of(mark) for mark, turn in answers.turns.items()}
        return await self._present_vectors().similarities(vector, versions)

    async def _semantic(self, query: str, wanted: Filter, scope: Filter, limit: int, store: str) -> list[RankedItem]:
        vector = await self._query_vector(query, scope, store)
        size = await self._text.size(wanted, MOST_COUNTED)
        ranked = []
        for near in await self._present_vectors().nearest(vector, wanted, limit, size):
            parts = {"semantic": near.similarity}
            ranked += [
                RankedItem(item, near.similarity, parts, passage=near.passage(item.content))
                for item in self._readable([near.row])
            ]
        return ranked

    def _readable(self, rows: Sequence[Any]) -> list[MemoryItem]:
        """Return the items of rows, of which they are the first columns."""
        types = self._types()
        return readable(lambda row: item_of(row, types), rows)

    async def _nearest(self, vector: Sequence[float], scope: Filter, most: int, size: int) -> list[Hit]:
        nearest = await self._present_vectors().nearest(vector, scope, most, size, SEEN)
        return [Hit(*near.row[: len(Hit._fields)]) for near in nearest]

    async def _query_vector(self, query: str, scope: Filter, store: str) -> list[float]:
        assert self._embeddings is not None
        vectors = self._present_vectors()
        names, stored = await self._text.speakers(query, scope, HEARD)
        if stored is not None and stored != (vectors.model, vectors.dimension):
            raise OtherModelError(store, named_model(*stored), named_model(vectors.model, vectors.dimension))
        (vector,) = await embed_texts(self._embeddings, [query_without_names(query, names)], query=True)
        return list(normalised(vector))

    def _present_vectors(self) -> Vectors:
        assert self._vectors is not None, "a mode without its capability is refused before"
        return self._vectors


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, T]) -> AsyncGenerator[asyncio.Task[T], None]:
    """Have work go on beside what is inside; it is broken off where that ends without it."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # Whoever waited for it has been told.


def named_model(model: str, dimension: int) -> str:
    """Return a model as messages name it."""
    return f"{model} ({dimension} dimensions)"
