"""Candidates for a ranking, as the core's policy has it, answered by the server.

A small scope is read whole, which gives exactly the ranking of the in-memory store. In a large one the full-text index
finds the items; those few that have more words than it holds are compared one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from memoranda.ranking import (
    MOST_COUNTED,
    MOST_HITS,
    NEWEST_FOUND,
    WHOLE_SCOPE,
    Passage,
    Weights,
    beginning,
    make_passage,
    query_dates,
    query_terms,
    rarity,
    speaker_of,
    turns_around,
)
from memoranda.sql import Parameters
from memoranda.store import Filter, Page
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.server import Server
from memoranda_postgres.terms import FOLDED, TERMS_VECTOR, UNINDEXED, mark

_FURTHER = ", ".join(("terms", "user_id", "session_id", "task_id"))


class Candidates(NamedTuple):
    """What is to be ranked: rows by id, windows of consecutive turns, the size of the scope, how common terms are.

    A row becomes an item only when it is among the results.
    """

    rows: dict[str, Any]
    windows: list[list[Passage]]
    total: int
    frequencies: dict[str, int]
    whole: bool


class TextSearch:
    """Finds candidates for one store."""

    def __init__(self, server: Server, statements: PostgresStatements, weights: Weights) -> None:
        self._server = server
        self._statements = statements
        self._columns = f"{statements.dialect.item_columns}, {_FURTHER}"
        self._turns_around = turns_around(weights)

    async def candidates(self, query: str, scope: Filter, wanted: Filter, limit: int) -> Candidates:
        """Return what a text ranking in this scope needs to see, to find the best items that match ``wanted``."""
        total = await self.size(scope, WHOLE_SCOPE)
        if total <= WHOLE_SCOPE:
            return await self._whole(scope)
        total = await self.size(scope, MOST_COUNTED)
        most = max(MOST_HITS, limit)
        terms = query_terms(query)
        frequencies = await self._frequencies(terms, scope)
        told = {term: rarity(total, frequency) for term, frequency in frequencies.items() if frequency}
        hits = await self._best(told, scope, most)
        if wanted != scope and len(hits) == most:
            # Those that do not match count as neighbours, but must not take the place of any that do.
            hits += await self._best(told, wanted, most)
        for day in query_dates(query):
            hits += await self._newest(scope, "created_at >= {} AND created_at < {}", day, day + "\x7f")
        for term in terms:
            if not frequencies[term]:
                hits += await self._by_name_and_letters(term, scope)
        rows, windows = await self._around(hits, scope)
        return Candidates(rows, windows, total, frequencies, whole=False)

    async def around(self, ids: Sequence[str], scope: Filter) -> tuple[dict[str, Any], list[list[Passage]]]:
        """Return the rows of items with the turns around them."""
        text = (
            f"SELECT {_HIT_COLUMNS} FROM {self._statements.dialect.table} WHERE {self._statements.dialect.by_ids('$1')}"
        )
        return await self._around(await self._server.fetch(text, [list(ids)]), scope)

    async def speakers(self, scope: Filter) -> set[str]:
        """Return who speaks in the newest part of a scope."""
        text, values = self._statements.search(scope, Page(200))
        return {
            speaker_of(_name(row["extra_json"]), row["memory_type"], row["content"])
            for row in await self._server.fetch(text, values)
        }

    async def size(self, scope: Filter, most: int) -> int:
        """Return the number of items that match, or ``most + 1`` where there are more than ``most``."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        text = (
            f"SELECT count(*) FROM (SELECT FROM {self._statements.dialect.table} WHERE {where} LIMIT {most + 1}) AS few"
        )
        rows = await self._server.fetch(text, parameters.values)
        return int(rows[0][0])

    async def _whole(self, scope: Filter) -> Candidates:
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        text = f"SELECT {self._columns} FROM {self._statements.dialect.table} WHERE {where} ORDER BY created_at, added"
        rows = await self._server.fetch(text, parameters.values)
        conversations: dict[Any, list[Passage]] = {}
        for row in rows:
            conversations.setdefault(_conversation(row), []).append(_passage(row))
        return Candidates({row["id"]: row for row in rows}, list(conversations.values()), len(rows), {}, whole=True)

    async def _best(self, told: dict[str, float], scope: Filter, most: int) -> list[Any]:
        """Return the items whose terms tell most, by the sum of what each tells; of equal ones the newest."""
        if not told:
            return []
        parameters = Parameters(self._statements.dialect)
        sources = [
            f"SELECT *, {parameters.add(tells)}::float8 AS tells FROM {self._matches(parameters, [term], scope)}"
            for term, tells in told.items()
        ]
        text = (
            f"SELECT {_HIT_COLUMNS} FROM ({' UNION ALL '.join(sources)}) AS hits GROUP BY {_HIT_COLUMNS} "
            # Rounded, since a sum depends on the order in which the server adds.
            f"ORDER BY round(sum(tells)::numeric, 9) DESC, created_at DESC, added DESC LIMIT {most}"
        )
        return await self._server.fetch(text, parameters.values)

    async def _by_name_and_letters(self, term: str, scope: Filter) -> list[Any]:
        """Return the newest items of a speaker of this name, and those that have the beginning of the term.

        A term is letters and figures, so that nothing in it is special to LIKE.
        """
        hits = await self._newest(scope, "lower(extra_json) LIKE {}", f'%"name"%{term}%')
        letters = beginning(term)
        if letters is not None:
            hits += await self._newest(scope, f"{FOLDED} LIKE {{}}", f"%{letters}%")
        return hits

    async def _newest(self, scope: Filter, condition: str, *values: str) -> list[Any]:
        """Return the newest items of a scope that meet a condition, in which braces stand for the values."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        also = condition.format(*map(parameters.add, values))
        text = (
            f"SELECT {_HIT_COLUMNS} FROM {self._statements.dialect.table} WHERE {where} AND {also} "
            f"ORDER BY created_at DESC, added DESC LIMIT {NEWEST_FOUND}"
        )
        return await self._server.fetch(text, parameters.values)

    def _matches(self, parameters: Parameters, terms: Sequence[str], scope: Filter) -> str:
        """Return what yields the items of a scope that have any of the terms."""
        table = self._statements.dialect.table
        where = self._statements.conditions(parameters, scope)
        shared = f"string_to_array(terms, ' ') && {parameters.add(list(terms))}::text[]"
        unindexed = f"SELECT {_HIT_COLUMNS} FROM {table} WHERE {where} AND {UNINDEXED} AND {shared}"
        return f"({self._indexed(parameters, terms, scope)} UNION ALL {unindexed}) AS matched"

    def _indexed(self, parameters: Parameters, terms: Sequence[str], scope: Filter) -> str:
        """Return the query for the items of a scope in which the full-text index finds any of the terms."""
        dialect = self._statements.dialect
        wanted = parameters.add(list(terms))
        user = scope.metadata.user_id if scope.metadata is not None else None
        if user is None:
            # Whatever the mark: a term is a prefix of its marked forms.
            matches = _any_of("quote_literal(term || ':') || ':*'", wanted)
            where = self._statements.conditions(parameters, scope)
            return f"SELECT {_HIT_COLUMNS} FROM {dialect.table} WHERE {where} AND {TERMS_VECTOR} @@ {matches}"
        marked = mark(f'{parameters.add(user)}::text COLLATE "C"')
        matches = _any_of(f"quote_literal(term || {marked})", wanted)
        visible = " AND ".join(dialect.visibility(False, scope.archived))
        where = self._statements.conditions(parameters, scope)
        # Only the full-text index is as narrow as user and term together; a plan that reads the scope by another index
        # would make a tsvector of every item in it. So the scope is looked at afterwards.
        found = f"SELECT * FROM {dialect.table} WHERE {TERMS_VECTOR} @@ {matches} AND {visible} OFFSET 0"
        return f"SELECT {_HIT_COLUMNS} FROM ({found}) AS found WHERE {where}"

    async def _frequencies(self, terms: Sequence[str], scope: Filter) -> dict[str, int]:
        """Return how many items of the scope have each term."""
        counted = {}
        for term in terms:
            parameters = Parameters(self._statements.dialect)
            source = self._matches(parameters, [term], scope)
            rows = await self._server.fetch(f"SELECT count(*) FROM {source}", parameters.values)
            counted[term] = int(rows[0][0])
        return counted

    async def _around(self, hits: Sequence[Any], scope: Filter) -> tuple[dict[str, Any], list[list[Passage]]]:
        """Return the rows around hits, and each hit's window."""
        chains: list[list[str]] = []
        for shape, alike in _by_shape(hits).items():
            chains += await self._chains(shape, alike, scope)
        ids = list(dict.fromkeys(item_id for chain in chains for item_id in chain))
        dialect = self._statements.dialect
        text = f"SELECT {self._columns} FROM {dialect.table} WHERE {dialect.by_ids('$1')}"
        rows = {row["id"]: row for row in await self._server.fetch(text, [ids])}
        passages = {item_id: _passage(row) for item_id, row in rows.items()}
        # An item that was removed between the two queries leaves a gap, which is harmless.
        windows = [[passages[item_id] for item_id in chain if item_id in passages] for chain in chains]
        return rows, windows

    async def _chains(self, shape: tuple[bool, ...], hits: Sequence[Any], scope: Filter) -> list[list[str]]:
        """Return, for each hit, the ids of the turns around it in its conversation, oldest first."""
        dialect = self._statements.dialect
        parameters = Parameters(dialect)
        columns = [list(column) for column in zip(*hits, strict=True)]
        arrays = ", ".join(
            f"{parameters.add(column)}::{kind}[]"
            for column, kind in zip(columns, ("text", "text", "text", "text", "text", "bigint"), strict=True)
        )
        same = [
            f"{name} = hit_{name}" if named else f"{name} IS NULL"
            for name, named in zip(("user_id", "session_id", "task_id"), shape, strict=True)
        ]
        where = " AND ".join((*same, self._statements.conditions(parameters, scope)))
        place, hit = "(created_at, added)", "(hit_created_at, hit_added)"
        reach = self._turns_around
        turns = f"SELECT id, created_at, added FROM {dialect.table} WHERE {where}"
        text = (
            f"SELECT ARRAY(SELECT id FROM ("
            f"({turns} AND {place} < {hit} ORDER BY created_at DESC, added DESC LIMIT {reach}) UNION ALL "
            f"({turns} AND {place} >= {hit} ORDER BY created_at, added LIMIT {reach + 1})"
            f") AS turns ORDER BY created_at, added) "
            f"FROM unnest({arrays}) AS hits ({', '.join(f'hit_{name}' for name in _HIT_NAMES)})"
        )
        return [row[0] for row in await self._server.fetch(text, parameters.values)]


_HIT_NAMES = ("id", "user_id", "session_id", "task_id", "created_at", "added")
_HIT_COLUMNS = ", ".join(_HIT_NAMES)


def _conversation(row: Any) -> tuple[str | None, str | None, str | None]:
    return row["user_id"], row["session_id"], row["task_id"]


def _passage(row: Any) -> Passage:
    return make_passage(
        row["id"],
        row["content"],
        _name(row["extra_json"]),
        row["memory_type"],
        row["created_at"],
        _conversation(row),
        row["terms"].split(),
    )


def _name(extra_json: str) -> str | None:
    """Return who spoke, reading the JSON only where it can say so."""
    if '"name"' not in extra_json:
        return None
    try:
        name = json.loads(extra_json).get("name")
    except (ValueError, AttributeError, RecursionError):
        return None  # Such a row is left out where its item is read.
    return name if isinstance(name, str) else None


def _any_of(lexeme: str, terms: str) -> str:
    """Return the tsquery that any of the terms satisfies, each written as this expression says."""
    return f"(SELECT string_agg({lexeme}, ' | ')::tsquery FROM unnest({terms}::text[]) AS term)"


def _by_shape(hits: Iterable[Any]) -> dict[tuple[bool, ...], list[Any]]:
    """Divide hits by which of user, session and task they have: an index serves = alone, and NULL equals nothing."""
    shapes: dict[tuple[bool, ...], list[Any]] = {}
    for hit in hits:
        shapes.setdefault(tuple(hit[name] is not None for name in ("user_id", "session_id", "task_id")), []).append(hit)
    return shapes
