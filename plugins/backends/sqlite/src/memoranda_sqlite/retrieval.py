"""Ranked search, on a thread that reads: what a scope keeps as arrays is ranked, and the best rows become items."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from memoranda.errors import CorruptStoreError, NoVectorsError, OtherModelError, StoreUnavailableError
from memoranda.items import MemoryItem
from memoranda.store import RankedItem
from memoranda.store.backend import Filter, InBranch, Query, Value, left_out
from memoranda.store.ranked import best_of_all
from memoranda_backend.ranking import (
    HEARD,
    Column,
    Flags,
    Floats,
    RankedScope,
    Scored,
    Wanted,
    Weights,
    is_unlike_a_text,
    likeness,
    nearest_first,
    passage_at,
    query_without_names,
    rank,
    rank_hybrid,
    rank_together,
    taking_part,
)
from memoranda_backend.sql import ITEM_COLUMNS, Parameters, unpack
from memoranda_backend.sql.candidates import gather, gathered
from memoranda_sqlite.candidates import CandidateSource, ScopeRows
from memoranda_sqlite.connections import Connections
from memoranda_sqlite.faults import Undecodable
from memoranda_sqlite.reading import one_snapshot
from memoranda_sqlite.scope_cache import Scope, ScopeCache, lasting
from memoranda_sqlite.statements import SQLiteStatements
from memoranda_sqlite.tables import TABLE
from memoranda_sqlite.vectors import Vectors, stored_model

Types = Mapping[str, type[MemoryItem]]

_MOST_WAITING = 2_000
"""How many rows may wait for the text index when a search takes candidates from it: it stems the words of these itself.
A scope that is ranked as a whole needs no index."""

Found = tuple[int, dict[int, MemoryItem], Callable[[MemoryItem], RankedItem]]
"""The number of a row that was found, the items that are kept of its scope, and what makes its item a result."""


_MOST_KEPT = 8
"""For how many filters it is kept what matches them."""

_CHOSEN = "rowid IN (SELECT value FROM json_each(?))"

_FEW_NEW = 1_000
"""How many new rows are asked about by their numbers."""

_MOST_ITEMS_KEPT, _MOST_CHARACTERS_KEPT = 2_000, 2_000
"""How many items of a scope are kept for readers that change nothing, and how long one of them may be."""

_ASKED_ONE_BY_ONE = 500
"""How many places are looked at by themselves, which is quick where most of a scope match."""


class Asked:
    """What one search asks of a scope: a query, with its vector where meaning counts, and items that may be kept."""

    def __init__(
        self, query: str, wanted: Filter, limit: int, shared: bool, vector: Sequence[float] | None, unrelated: float
    ) -> None:
        self.query, self.wanted, self.limit, self.shared = query, wanted, limit, shared
        self.vector, self.unrelated = vector, unrelated
        self.scope = wanted.scope()


class Retrieval:
    """Ranks for one store."""

    def __init__(self, statements: SQLiteStatements, weights: Weights | None, vectors: Vectors | None) -> None:
        self._statements = statements
        self._weights = weights or Weights() if vectors is None else vectors.weights
        self._vectors = vectors
        self._scopes = ScopeCache(statements, self._weights.passage, 0 if vectors is None else vectors.dimension)

    def forget(self) -> None:
        """Drop what is kept between searches: it may hold purged content."""
        self._scopes.forget()

    async def rank(self, connections: Connections, query: Query[RankedItem], types: Types) -> list[RankedItem]:
        """Return the items that answer a query best. Where they are ``shared``, they are kept for the next search."""
        assert query.ranking is not None, "the query of a ranked search says what is asked"
        text, mode = query.ranking
        every: list[Asked] = []
        for wanted in (query.wanted, *query.beside):
            vector, unrelated = None, 0.0
            if mode != "text":
                vector, unrelated = await self._query_vector(connections, text, wanted)
            every.append(Asked(text, wanted, query.page.limit, query.shared, vector, unrelated))
        bounds = [asked.scope for asked in every]

        indexer = connections.indexer

        def needs_index(connection: sqlite3.Connection) -> bool:
            with one_snapshot(connection), self._scopes.of(connection, bounds, indexer.held_off) as scopes:
                return not all(scope.is_whole for scope in scopes)

        def work(connection: sqlite3.Connection) -> list[RankedItem]:
            with one_snapshot(connection), self._scopes.of(connection, bounds, indexer.held_off) as scopes:
                if len(scopes) > 1 and mode != "semantic" and all(scope.is_whole for scope in scopes):
                    return _items(connection, self._found_together(connection, scopes, every), types)
                rankings = []
                for scope, asked in zip(scopes, every, strict=True):
                    found = self._found(connection, scope, asked, by_words=mode != "semantic")
                    rankings.append(_items(connection, found, types))
                return rankings[0] if len(rankings) == 1 else best_of_all(rankings, query.page.limit)

        if indexer.waiting > _MOST_WAITING and mode != "semantic" and await connections.read(needs_index):
            with suppress(StoreUnavailableError):  # A full disk or a locked file can still be read.
                await indexer.finish()
        ranked = await connections.read(work)
        indexer.searched()
        return ranked

    def _found_together(
        self, connection: sqlite3.Connection, scopes: Sequence[Scope], every: Sequence[Asked]
    ) -> list[Found]:
        """Return the best of several scopes that are ranked as a whole."""
        together = list(zip(scopes, every, strict=True))
        to_rank = [
            RankedScope(scope.arrays, self._near(scope, asked), self._wanted(connection, scope, asked), asked.unrelated)
            for scope, asked in together
        ]
        best = rank_together(to_rank, every[0].query, self._weights, every[0].limit)
        found: list[Found] = []
        for number, scored in best:
            scope, asked = together[number]
            row = int(scope.arrays.layout.numbers[scored.item])
            found.append((row, _kept(scope, asked), _by_score(scored, _nearest(scope, asked))))
        return found

    def _near(self, scope: Scope, asked: Asked) -> Floats | None:
        """Return how similar the items of a scope are to the query; None where meaning does not count."""
        return None if asked.vector is None else scope.arrays.similarities(asked.vector, self._weights.damping)

    def _found(self, connection: sqlite3.Connection, scope: Scope, asked: Asked, *, by_words: bool) -> list[Found]:
        arrays, nearest = scope.arrays, _nearest(scope, asked)
        wanted, near = self._wanted(connection, scope, asked), self._near(scope, asked)
        numbers, kept = arrays.layout.numbers, _kept(scope, asked)
        if not by_words:
            assert near is not None, "a mode without its capability is refused before"
            scores = likeness(near, asked.unrelated)
            places = islice(nearest_first(arrays, near, wanted), asked.limit)
            return [(int(numbers[at]), kept, _by_meaning(float(scores[at]), at, nearest)) for at in places]
        if not scope.is_whole:
            return self._among_candidates(connection, scope, asked, near, wanted)
        scored = rank(
            arrays,
            asked.query,
            self._weights,
            near=near,
            wanted=wanted,
            limit=asked.limit,
            unrelated=asked.unrelated,
        )
        return [(int(numbers[each.item]), kept, _by_score(each, nearest)) for each in scored]

    def _wanted(self, connection: sqlite3.Connection, scope: Scope, asked: Asked) -> Wanted | None:
        """Return which places of the layout match every filter; None if all of the scope do."""
        if asked.wanted == asked.scope:
            return None
        # What a question leaves out is its own words, and changes with each; everything else is kept for the next one.
        conditions = lasting(asked.wanted).further
        of_content = tuple(each for each in conditions if isinstance(each, Value) and each.name == "content")
        others = replace(asked.wanted, further=tuple(each for each in conditions if each not in of_content))
        matching = self._matching(connection, scope, others)
        if not of_content:
            return matching
        further = _Matching(connection, self._statements, Filter(archived=None, further=of_content), scope)
        if scope.is_whole and all(map(is_unlike_a_text, of_content)):  # Otherwise only vectors are kept.
            for unlike in of_content:
                matching = scope.arrays.without(unlike.value, matching, further)
            return matching
        is_matching = matching.item
        return lambda place: is_matching(place) and further(place)

    def _matching(self, connection: sqlite3.Connection, scope: Scope, wanted: Filter) -> Flags:
        """Return which places of the layout match a filter.

        It is kept by row. A row that changes is another one afterwards, so that only new ones have to be asked about;
        but what a branch shows of its past depends on its summaries, too.
        """
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, wanted)
        key = (where, *parameters.values)
        if key not in scope.matching or any(isinstance(each, InBranch) for each in wanted.further):
            if len(scope.matching) == _MOST_KEPT:
                scope.matching.clear()
            scope.matching[key] = Column(np.bool_)
        kept = scope.matching[key]
        new = scope.arrays.numbers_from(kept.used)
        if len(new):
            text = f"SELECT json_group_array(rowid) FROM {TABLE} WHERE {where}"
            values = list(parameters.values)
            if len(new) <= _FEW_NEW:  # NOT INDEXED leaves the row number as the only way in.
                text = f"SELECT json_group_array(rowid) FROM {TABLE} NOT INDEXED WHERE {_CHOSEN} AND ({where})"
                values.insert(0, json.dumps(new.tolist()))
            (found,) = connection.execute(text, values).fetchone()
            kept.extend(np.isin(new, json.loads(found)))
        flags: Flags = kept.values[scope.arrays.layout.rows]
        return flags

    def _among_candidates(
        self,
        connection: sqlite3.Connection,
        scope: Scope,
        asked: Asked,
        near: Any,
        wanted: Wanted | None,
    ) -> list[Found]:
        """Rank a scope of very many rows by what its indexes find."""
        rows = ScopeRows(connection, self._statements, asked.scope)
        layout = scope.arrays.layout

        def nearest(most: int) -> list[int]:
            places = islice(nearest_first(scope.arrays, near, wanted), most)
            return [int(layout.numbers[place]) for place in places]

        source = CandidateSource(rows, asked.wanted, nearest)
        filtered = asked.wanted != asked.scope
        gathering = gather(asked.query, self._weights, asked.limit, filtered=filtered, meaning=near is not None)
        candidates = gathered(gathering, source.answer)
        similarities: dict[str, float] = {}
        if near is not None:
            of = dict(zip(layout.numbers.tolist(), near.tolist(), strict=True))
            similarities = {key: of.get(number, 0.0) for key, number in source.numbers.items()}
        chosen = {
            number
            for (number,) in ScopeRows(connection, self._statements, asked.wanted).among(
                "rowid", list(source.numbers.values())
            )
        }
        scored = rank_hybrid(
            asked.query,
            candidates.windows,
            similarities,
            total=candidates.total,
            frequencies=candidates.frequencies,
            weights=self._weights,
            wanted=lambda key: source.numbers[key] in chosen,
            limit=asked.limit,
            unrelated=asked.unrelated,
        )
        return [(source.numbers[each.key], _kept(scope, asked), each.ranked) for each in scored]

    async def _query_vector(
        self, connections: Connections, query: str, wanted: Filter
    ) -> tuple[Sequence[float], float]:
        vectors = self._vectors
        assert vectors is not None, "a mode without its capability is refused before"

        def work(connection: sqlite3.Connection) -> tuple[str | None, set[str]]:
            return stored_model(connection), self._speakers(connection, query, wanted.scope())

        model, speakers = await connections.read(work)
        if model is None:  # No embedder has opened it to write yet.
            raise NoVectorsError(f"The SQLite file {connections.database.path!r}")
        if model != vectors.model:
            raise OtherModelError(f"The SQLite file {connections.database.path!r}", model, vectors.model)
        return await vectors.query_vector(query_without_names(query, speakers))

    def _speakers(self, connection: sqlite3.Connection, query: str, scope: Filter) -> set[str]:
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        text = (
            f"SELECT CASE WHEN json_valid(extra_json) THEN json_extract(extra_json, '$.name') END, "
            f"substr(content, 1, 80) FROM (SELECT extra_json, content FROM {TABLE} WHERE {where} "
            f"ORDER BY created_us DESC, rowid DESC LIMIT {HEARD})"
        )
        rows = connection.execute(text, parameters.values)
        named = [row for row in rows if Undecodable not in map(type, row)]
        return taking_part(query, [(name, str(beginning)) for name, beginning in named])


class _Matching:
    """Tells which places of a layout match a filter: asks for the first ones one by one, then for all at once."""

    def __init__(
        self, connection: sqlite3.Connection, statements: SQLiteStatements, wanted: Filter, scope: Scope
    ) -> None:
        self._connection, self._numbers = connection, scope.arrays.layout.numbers
        self._items, self._matches = scope.items, wanted.matches
        parameters = Parameters(statements.dialect)
        self._where = statements.conditions(parameters, wanted)
        self._values = parameters.values
        self._asked = 0
        self._found: list[bool] | None = None

    def __call__(self, place: int) -> bool:
        if self._found is not None:
            return self._found[place]
        number = int(self._numbers[place])
        item = self._items.get(number)
        if item is not None:
            return self._matches(item)
        self._asked += 1
        if self._asked <= _ASKED_ONE_BY_ONE:
            text = f"SELECT 1 FROM {TABLE} NOT INDEXED WHERE {self._where} AND rowid = ?"
            return self._connection.execute(text, (*self._values, number)).fetchone() is not None
        text = f"SELECT json_group_array(rowid) FROM {TABLE} WHERE {self._where}"
        (numbers,) = self._connection.execute(text, self._values).fetchone()
        self._found = np.isin(self._numbers, json.loads(numbers)).tolist()
        return self._found[place]


def _kept(scope: Scope, asked: Asked) -> dict[int, MemoryItem]:
    """Return the items that are kept of a scope for readers that change nothing; none for others."""
    return scope.items if asked.shared else {}


def _nearest(scope: Scope, asked: Asked) -> Callable[[int, str], str]:
    """Return what tells the passage of the nearest meaning of an item at a place, given its content."""
    arrays, vector = scope.arrays, asked.vector

    def nearest(place: int, content: str) -> str:
        part = (0, 1) if vector is None else arrays.nearest_part(place, vector)
        return passage_at(content, *part) if part[1] > 1 else ""

    return nearest


def _by_meaning(score: float, place: int, nearest: Callable[[int, str], str]) -> Callable[[MemoryItem], RankedItem]:
    return lambda item: RankedItem(item, score, {"semantic": score}, passage=nearest(place, item.content), meaning=1.0)


def _by_score(scored: Scored, nearest: Callable[[int, str], str]) -> Callable[[MemoryItem], RankedItem]:
    return lambda item: scored.ranked(item, nearest(scored.item, item.content))


def _items(connection: sqlite3.Connection, found: Collection[Found], types: Types) -> list[RankedItem]:
    """Return the results of rows; those that cannot be read are left out, and logged. What is read is kept."""
    items = {number: kept.get(number) for number, kept, _ in found}
    missing = [number for number, item in items.items() if item is None]
    if missing:
        text = f"SELECT rowid, {', '.join(ITEM_COLUMNS)} FROM {TABLE} WHERE rowid IN (SELECT value FROM json_each(?))"
        read = connection.execute(text, (json.dumps(missing),))
        items.update((number, _readable(row, types)) for number, *row in read)
        for number, kept, _ in found:
            item = items[number]
            if item is not None and number not in kept and len(item.content) <= _MOST_CHARACTERS_KEPT:
                if len(kept) > _MOST_ITEMS_KEPT:
                    kept.clear()
                kept[number] = item
    results = [(items[number], make) for number, _, make in found]
    return [make(item) for item, make in results if item is not None]


def _readable(row: Any, types: Types) -> MemoryItem | None:
    try:
        return unpack(row, types)
    except CorruptStoreError as error:
        left_out(error)
        return None
