"""Ranked search: candidates from the server, ranked by the core's own functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memoranda.embeddings import Embeddings, embed_texts, usual_weights
from memoranda.errors import OtherModelError
from memoranda.items import MemoryItem
from memoranda.ranking import (
    HEARD,
    MOST_COUNTED,
    RankedItem,
    Scored,
    Weights,
    gather,
    gathered_async,
    normalised,
    query_without_names,
    rank_hybrid,
)
from memoranda.store import Filter, SearchMode, readable
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.passages import Near
from memoranda_postgres.rows import READ_COLUMNS, item_of
from memoranda_postgres.server import Server
from memoranda_postgres.terms import KnownTerms
from memoranda_postgres.text import Answers, TextSearch
from memoranda_postgres.vectors import Vectors

_OFF_LOOP = 300
"""From this many passages on, the ranking runs in a thread: it takes milliseconds, in which others want their turn."""

_WIDTH = len(READ_COLUMNS)

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
        self._terms = KnownTerms()

    def forget(self) -> None:
        """Keep nothing of what was purged."""
        self._terms.forget()

    async def rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode, store: str) -> list[RankedItem]:
        """Return the best items, best first."""
        # Neighbours count whatever their type, so the other filters come after the ranking.
        scope = wanted.scope()
        if mode == "semantic":
            return await self._semantic(query, wanted, scope, limit, store)
        terms_of = self._terms.for_one_search()
        vector = await self._query_vector(query, scope, store) if mode == "hybrid" else None
        answers = Answers(self._text, scope, wanted, lambda most: self._nearest(vector or (), scope, most))
        gathering = gather(query, self._weights, limit, filtered=wanted != scope, meaning=vector is not None)
        candidates = await gathered_async(gathering, answers.answer)
        near: dict[str, Near] = {}
        if vector is not None:
            near = await self._present_vectors().similarities(vector, list(answers.rows))
        items: dict[str, MemoryItem] = {}
        sought = wanted.sought()  # All candidates are of the scope.

        def matches(key: str) -> bool:
            for item in self._readable([answers.rows[key]]):
                items[key] = item
                return sought.matches(item)
            return False

        def scored() -> list[Scored]:
            return rank_hybrid(
                query,
                [[each._replace(terms=terms_of(each.text)) for each in window] for window in candidates.windows],
                {key: found.similarity for key, found in near.items()},
                total=candidates.total,
                frequencies=candidates.frequencies,
                weights=self._weights,
                wanted=matches,
                limit=limit,
                nearest=lambda passage: near[passage.key].passage(passage.text),
            )

        ranked = scored() if len(answers.rows) < _OFF_LOOP else await asyncio.to_thread(scored)
        return [RankedItem.of(items[found.key], found) for found in ranked]

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

    async def _nearest(self, vector: Sequence[float], scope: Filter, most: int) -> list[str]:
        size = await self._text.size(scope, MOST_COUNTED)
        return [near.row["id"] for near in await self._present_vectors().nearest(vector, scope, most, size)]

    async def _query_vector(self, query: str, scope: Filter, store: str) -> list[float]:
        assert self._embeddings is not None
        vectors = self._present_vectors()
        stored = await self._server.run(vectors.stored_model)
        if stored is not None and stored != (vectors.model, vectors.dimension):
            raise OtherModelError(store, named_model(*stored), named_model(vectors.model, vectors.dimension))
        names = await self._text.speakers(query, scope, HEARD)
        (vector,) = await embed_texts(self._embeddings, [query_without_names(query, names)], query=True)
        return list(normalised(vector))

    def _present_vectors(self) -> Vectors:
        assert self._vectors is not None, "a mode without its capability is refused before"
        return self._vectors


def named_model(model: str, dimension: int) -> str:
    """Return a model as messages name it."""
    return f"{model} ({dimension} dimensions)"
