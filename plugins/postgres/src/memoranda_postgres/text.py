"""What a ranked search looks at: the core's questions, answered by the server.

The full-text index finds the items with a term.
"""

from __future__ import annotations

import json
from calendar import monthrange
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from memoranda.ranking import (
    Around,
    Best,
    Frequencies,
    Nearest,
    OnDay,
    Passage,
    Question,
    Size,
    SpokenBy,
    Whole,
    WithLetters,
    make_passage,
    taking_part,
)
from memoranda.sql import Parameters
from memoranda.store import Filter, Page
from memoranda_postgres.dialect import MOMENT, PostgresStatements
from memoranda_postgres.server import Server
from memoranda_postgres.terms import FOLDED, TERMS_VECTOR, term_key, user_key


class Hit(NamedTuple):
    """A row by which its neighbours are found."""

    id: str
    user_id: str | None
    session_id: str | None
    task_id: str | None
    moment: str
    added: int


_HIT_COLUMNS = ", ".join(Hit._fields)
_SEEN = _HIT_COLUMNS.replace(MOMENT, f"{MOMENT}::text AS seen")
"""The columns as they are read. A moment goes to and fro as the server's own text, since it knows more than Python."""


class TextSearch:
    """Reads what ranked searches of one store look at."""

    def __init__(self, server: Server, statements: PostgresStatements) -> None:
        self._server = server
        self._statements = statements
        self._columns = statements.dialect.item_columns

    async def speakers(self, query: str, scope: Filter, heard: int) -> set[str]:
        """Return who takes part in so many of the newest items of a scope, as far as a query may name them."""
        text, values = self._statements.search(scope, Page(heard))
        rows = await self._server.fetch(text, values)
        return taking_part(query, [(_name(row["extra_json"]), row["content"]) for row in rows])

    async def size(self, scope: Filter, most: int) -> int:
        """Return the number of items that match, or ``most + 1`` where there are more than ``most``."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        text = (
            f"SELECT count(*) FROM (SELECT FROM {self._statements.dialect.table} WHERE {where} LIMIT {most + 1}) AS few"
        )
        rows = await self._server.fetch(text, parameters.values)
        return int(rows[0][0])

    async def whole(self, scope: Filter) -> list[Any]:
        """Return the rows of a scope, oldest first."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        text = f"SELECT {self._columns} FROM {self._statements.dialect.table} WHERE {where} ORDER BY {MOMENT}, added"
        return await self._server.fetch(text, parameters.values)

    async def best(self, told: Mapping[str, float], scope: Filter, most: int) -> list[Hit]:
        """Return the items whose terms tell most, by the sum of what each tells; of equal ones the newest."""
        parameters = Parameters(self._statements.dialect)
        # In whole thousand-millionths, whose sum does not depend on the order in which the server adds.
        whole = {term: float(round(tells * 1e9)) for term, tells in told.items()}
        sources = [
            f"SELECT *, {parameters.add(tells)}::float8 AS tells FROM {self._matches(parameters, term, scope)}"
            for term, tells in whole.items()
        ]
        text = (
            f"SELECT {_SEEN} FROM ({' UNION ALL '.join(sources)}) AS hits GROUP BY {_HIT_COLUMNS} "
            f"ORDER BY sum(tells) DESC, {MOMENT} DESC, added DESC LIMIT {most}"
        )
        return await self._hits(text, parameters.values)

    async def newest(self, scope: Filter, most: int, condition: str, *values: str) -> list[Hit]:
        """Return the newest items of a scope that meet a condition, in which braces stand for the values."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        also = condition.format(*map(parameters.add, values))
        text = (
            f"SELECT {_SEEN} FROM {self._statements.dialect.table} WHERE {where} AND {also} "
            f"ORDER BY {MOMENT} DESC, added DESC LIMIT {most}"
        )
        return await self._hits(text, parameters.values)

    async def any_named(self, terms: Sequence[str], scope: Filter) -> bool:
        """Whether any item of a scope may have one of these terms in its name."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        alike = parameters.add(list(map(_named, terms)))
        table = self._statements.dialect.table
        text = f"SELECT EXISTS (SELECT FROM {table} WHERE {where} AND lower(extra_json) LIKE ANY ({alike}::text[]))"
        rows = await self._server.fetch(text, parameters.values)
        return bool(rows[0][0])

    async def hits(self, ids: Sequence[str]) -> list[Hit]:
        """Return the rows of items by which their neighbours are found."""
        dialect = self._statements.dialect
        return await self._hits(f"SELECT {_SEEN} FROM {dialect.table} WHERE {dialect.by_ids('$1')}", [list(ids)])

    async def _hits(self, text: str, values: Sequence[Any]) -> list[Hit]:
        return [Hit(*row) for row in await self._server.fetch(text, values)]

    def _matches(self, parameters: Parameters, term: str, scope: Filter) -> str:
        """Return what yields the items of a scope that have the term."""
        user = scope.metadata.user_id if scope.metadata is not None else None
        keys = [term_key(term)] if user is None else [term_key(term), user_key(user)]
        where = self._statements.conditions(parameters, scope)
        return (
            f"(SELECT {_HIT_COLUMNS} FROM {self._statements.dialect.table} "
            f"WHERE {where} AND {TERMS_VECTOR} @> {parameters.add(keys)}::integer[]) AS matched"
        )

    async def frequencies(self, terms: Sequence[str], scope: Filter) -> dict[str, int]:
        """Return how many items of the scope have each term."""
        # In one statement, whose parts the server need not be asked for one after the other.
        parameters = Parameters(self._statements.dialect)
        counts = [f"(SELECT count(*) FROM {self._matches(parameters, term, scope)})" for term in terms]
        if not counts:
            return {}
        (row,) = await self._server.fetch(f"SELECT {', '.join(counts)}", parameters.values)
        return dict(zip(terms, row, strict=True))

    async def around(self, hits: Sequence[Hit], turns: int, scope: Filter) -> tuple[list[Any], list[list[str]]]:
        """Return the rows around hits, and the ids of each hit's window."""
        chains: list[list[str]] = []
        for shape, alike in _by_shape(hits).items():
            chains += await self._chains(shape, alike, turns, scope)
        ids = list(dict.fromkeys(item_id for chain in chains for item_id in chain))
        dialect = self._statements.dialect
        text = f"SELECT {self._columns} FROM {dialect.table} WHERE {dialect.by_ids('$1')}"
        return await self._server.fetch(text, [ids]), chains

    async def _chains(self, shape: tuple[bool, ...], hits: Sequence[Hit], reach: int, scope: Filter) -> list[list[str]]:
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
        place, hit = f"({MOMENT}, added)", f"(hit_{MOMENT}::timestamp, hit_added)"
        turns = f"SELECT id, {MOMENT}, added FROM {dialect.table} WHERE {where}"
        text = (
            f"SELECT ARRAY(SELECT id FROM ("
            f"({turns} AND {place} < {hit} ORDER BY {MOMENT} DESC, added DESC LIMIT {reach}) UNION ALL "
            f"({turns} AND {place} >= {hit} ORDER BY {MOMENT}, added LIMIT {reach + 1})"
            f") AS turns ORDER BY {MOMENT}, added) "
            f"FROM unnest({arrays}) AS hits ({', '.join(f'hit_{name}' for name in Hit._fields)})"
        )
        return [row[0] for row in await self._server.fetch(text, parameters.values)]


class Answers:
    """Answers the questions of one search. ``nearest`` gives the ids of the items that are most alike in meaning."""

    def __init__(
        self,
        search: TextSearch,
        scope: Filter,
        wanted: Filter,
        nearest: Callable[[int], Awaitable[Sequence[str]]],
    ) -> None:
        self._search = search
        self._scope = scope
        self._wanted = wanted
        self._nearest = nearest
        self._missing: Sequence[str] = ()
        self._any_named: bool | None = None
        self.rows: dict[str, Any] = {}
        """The rows of all passages that were given. A row becomes an item only when it is among the results."""

    async def answer(self, question: Question) -> Any:
        """Return the answer to a question of the policy."""
        search, scope = self._search, self._scope
        match question:
            case Size(most):
                return await search.size(scope, most)
            case Whole():
                return self._conversations(await search.whole(scope))
            case Frequencies(terms):
                found = await search.frequencies(terms, scope)
                self._missing = [term for term in terms if not found[term]]
                return found
            case Best(told, most, matching):
                return await search.best(told, self._wanted if matching else scope, most)
            case OnDay(day, most):
                bounds = f"{MOMENT} >= {{}}::text::timestamp AND {MOMENT} <= {{}}::text::timestamp"
                between = _days_of(day)
                return await search.newest(scope, most, bounds, *between) if between else []
            # A term is letters and figures, so that nothing in it is special to LIKE.
            case SpokenBy(term, most):
                # Every item is looked at, and mostly in vain: once for all terms that are asked for.
                if self._any_named is None:
                    self._any_named = await search.any_named(self._missing, scope)
                if not self._any_named:
                    return []
                return await search.newest(scope, most, "lower(extra_json) LIKE {}", _named(term))
            case WithLetters(letters, most):
                return await search.newest(scope, most, f"{FOLDED} LIKE {{}}", f"%{letters}%")
            case Nearest(most):
                return await search.hits(await self._nearest(most))
            case Around(keys, turns):
                return self._windows(*await search.around(keys, turns, scope))

    def _conversations(self, rows: Sequence[Any]) -> list[list[Passage]]:
        self.rows = {row["id"]: row for row in rows}
        conversations: dict[Any, list[Passage]] = {}
        for row in rows:
            conversations.setdefault(_conversation(row), []).append(_passage(row))
        return list(conversations.values())

    def _windows(self, rows: Sequence[Any], chains: Sequence[Sequence[str]]) -> list[list[Passage]]:
        self.rows = {row["id"]: row for row in rows}
        passages = {row["id"]: _passage(row) for row in rows}
        # An item that was removed between the two queries leaves a gap, which is harmless.
        return [[passages[item_id] for item_id in chain if item_id in passages] for chain in chains]


def _named(term: str) -> str:
    """Return the pattern of an item's other fields that name somebody so."""
    return f'%"name"%{term}%'


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


def _days_of(day: str) -> tuple[str, str] | None:
    """Return the first and the last moment of a day or a month, or None if there is no such day."""
    try:
        first = date.fromisoformat(day if len(day) > len("2023-05") else f"{day}-01")
    except ValueError:
        return None
    last = first if len(day) > len("2023-05") else first.replace(day=monthrange(first.year, first.month)[1])
    return f"{first}T00:00:00", f"{last}T23:59:59.999999"


def _by_shape(hits: Iterable[Hit]) -> dict[tuple[bool, ...], list[Hit]]:
    """Divide hits by which of user, session and task they have: an index serves = alone, and NULL equals nothing."""
    shapes: dict[tuple[bool, ...], list[Hit]] = {}
    for hit in hits:
        named = tuple(value is not None for value in (hit.user_id, hit.session_id, hit.task_id))
        shapes.setdefault(named, []).append(hit)
    return shapes
