"""What a ranked search looks at: the core's questions, answered by the server.

The full-text index finds the items with a term.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from memoranda.store import Filter, Page
from memoranda.turns import aside
from memoranda_postgres.counts import Counted, Counts
from memoranda_postgres.dialect import MOMENT, PostgresStatements
from memoranda_postgres.known import MARK, TURN_COLUMNS, id_of, said, turns_of
from memoranda_postgres.server import Server
from memoranda_postgres.terms import FOLDED, has_term
from memoranda_ranking import (
    LONGEST_LABEL,
    MOST_COUNTED,
    WHOLE_SCOPE,
    Around,
    Best,
    Frequencies,
    KnownTurns,
    Nearest,
    OnDay,
    Passage,
    Question,
    Size,
    SpokenBy,
    Turn,
    Whole,
    WithLetters,
    taking_part,
)
from memoranda_sql import Parameters


class Hit(NamedTuple):
    """A row by which its neighbours are found."""

    id: str
    user_id: str | None
    session_id: str | None
    task_id: str | None
    moment: str
    added: int


_HIT_COLUMNS = ", ".join(Hit._fields)
SEEN = _HIT_COLUMNS.replace(MOMENT, f"{MOMENT}::text AS seen")
"""The columns as they are read. A moment goes to and fro as the server's own text, since it knows more than Python."""


class TextSearch:
    """Reads what ranked searches of one store look at."""

    def __init__(self, server: Server, statements: PostgresStatements) -> None:
        self._server = server
        self._statements = statements

    async def speakers(self, query: str, scope: Filter, heard: int) -> tuple[set[str], tuple[str, int] | None]:
        """Return who takes part in so many of the newest items of a scope, as far as a query may name them.

        With it comes the model of the stored vectors, and their dimension.
        """
        text, values = self._statements.search(scope, Page(heard), ("extra_json", "content"))
        name = "CASE WHEN strpos(extra_json, '\"name\"') > 0 THEN extra_json ELSE '{}' END"
        # Who speaks, and who is called by name, is told by how a content begins.
        begun = f"SELECT ARRAY[{name}, left(content, {LONGEST_LABEL})] FROM ({text}) AS newest"
        columns = f"vector_model, vector_dimension, ARRAY({begun}) AS heard"
        ((model, dimension, turns),) = await self._server.fetch(
            f"SELECT {columns} FROM {self._statements.dialect.meta}", values
        )
        return taking_part(query, [said(*turn) for turn in turns]), None if model is None else (model, dimension)

    async def size(self, scope: Filter, most: int) -> int:
        """Return the number of items that match, or ``most + 1`` where there are more than ``most``."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        text = (
            f"SELECT count(*) FROM (SELECT FROM {self._statements.dialect.table} WHERE {where} LIMIT {most + 1}) AS few"
        )
        rows = await self._server.fetch(text, parameters.values)
        return int(rows[0][0])

    async def marks(self, scope: Filter, most: int) -> list[str] | None:
        """Return the marks of the rows of a scope, oldest first, or None where there are more than ``most``."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        rows = f"SELECT {MARK} AS mark, {MOMENT}, added FROM {self._statements.dialect.table} WHERE {where}"
        text = (
            f"SELECT coalesce(array_agg(mark ORDER BY {MOMENT}, added), '{{}}') "
            f"FROM ({rows} LIMIT {most + 1}) AS few HAVING count(*) <= {most}"
        )
        found = await self._server.fetch(text, parameters.values)
        return found[0][0] if found else None

    async def turns(self, marks: Iterable[str], scope: Filter, known: KnownTurns[str]) -> dict[str, Turn]:
        """Return the turns of marked rows by their marks; those that are not known are read, if they are still there.

        One that has changed since it was marked is returned as it is now.
        """
        found = {mark: known.get(mark) for mark in marks}
        missing = {id_of(mark): mark for mark, turn in found.items() if turn is None}
        if missing:
            rows = await self.rows(list(missing), f"{MARK} AS mark, {TURN_COLUMNS}", scope)
            read = await aside(len(rows), turns_of, rows)
            known.add(read)
            found.update((missing[turn.passage.key], turn) for turn in read.values())
        return {mark: turn for mark, turn in found.items() if turn is not None}

    async def rows(self, ids: Sequence[str], columns: str, scope: Filter) -> list[Any]:
        """Return columns of the items of these ids that lie in a scope still."""
        dialect = self._statements.dialect
        parameters = Parameters(dialect)
        given = f"unnest({parameters.add(list(ids))}::text[]) AS given (one)"
        where = self._statements.conditions(parameters, scope)
        # One by one: the server takes a few ids for a hundred, and would read a whole small scope for them.
        found = f"SELECT {columns} FROM {dialect.table} WHERE {dialect.by_id('given.one')} AND {where} OFFSET 0"
        return await self._server.fetch(f"SELECT found.* FROM {given}, LATERAL ({found}) AS found", parameters.values)

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
            f"SELECT {SEEN} FROM ({' UNION ALL '.join(sources)}) AS hits GROUP BY {_HIT_COLUMNS} "
            f"ORDER BY sum(tells) DESC, {MOMENT} DESC, added DESC LIMIT {most}"
        )
        return await self._hits(text, parameters.values)

    async def newest(self, scope: Filter, most: int, condition: str, *values: str) -> list[Hit]:
        """Return the newest items of a scope that meet a condition, in which braces stand for the values."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        also = condition.format(*map(parameters.add, values))
        text = (
            f"SELECT {SEEN} FROM {self._statements.dialect.table} WHERE {where} AND {also} "
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

    async def _hits(self, text: str, values: Sequence[Any]) -> list[Hit]:
        return [Hit(*row) for row in await self._server.fetch(text, values)]

    def _matches(self, parameters: Parameters, term: str, scope: Filter) -> str:
        """Return what yields the items of a scope that have the term."""
        where = self._statements.conditions(parameters, scope)
        return (
            f"(SELECT {_HIT_COLUMNS} FROM {self._statements.dialect.table} "
            f"WHERE {where} AND {has_term(parameters, term, scope)}) AS matched"
        )

    async def around(self, hits: Sequence[Hit], turns: int, scope: Filter) -> list[list[str]]:
        """Return the marks of the rows around each hit."""
        chains: list[list[str]] = []
        for shape, alike in _by_shape(hits).items():
            chains += await self._chains(shape, alike, turns, scope)
        return chains

    async def _chains(self, shape: tuple[bool, ...], hits: Sequence[Hit], reach: int, scope: Filter) -> list[list[str]]:
        """Return, for each hit, the marks of the turns around it in its conversation, oldest first."""
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
        turns = f"SELECT {MARK} AS mark, {MOMENT}, added FROM {dialect.table} WHERE {where}"
        text = (
            f"SELECT ARRAY(SELECT mark FROM ("
            f"({turns} AND {place} < {hit} ORDER BY {MOMENT} DESC, added DESC LIMIT {reach}) UNION ALL "
            f"({turns} AND {place} >= {hit} ORDER BY {MOMENT}, added LIMIT {reach + 1})"
            f") AS turns ORDER BY {MOMENT}, added) "
            f"FROM unnest({arrays}) AS hits ({', '.join(f'hit_{name}' for name in Hit._fields)})"
        )
        return [row[0] for row in await self._server.fetch(text, parameters.values)]


class Answers:
    """Answers the questions of one search for these terms.

    ``known`` and ``counts`` are what the store keeps between searches; ``nearest`` gives the items that are most alike
    in meaning.
    """

    def __init__(
        self,
        search: TextSearch,
        scope: Filter,
        wanted: Filter,
        terms: Sequence[str],
        known: KnownTurns[str],
        counts: Counts,
        nearest: Callable[[int, int], Awaitable[Sequence[Hit]]],
    ) -> None:
        self._search = search
        self._scope = scope
        self._wanted = wanted
        self._terms = terms
        self._known = known
        self._counts = counts
        self._nearest = nearest
        self._missing: Sequence[str] = ()
        self._any_named: bool | None = None
        self._marks: list[str] | None = None
        self._counted: Counted | None = None
        self.turns: dict[str, Turn] = {}
        """All turns that were given, by the marks of their rows."""

    async def answer(self, question: Question) -> Any:
        """Return the answer to a question of the policy."""
        search, scope = self._search, self._scope
        match question:
            case Size(most):
                return await self._size(most)
            case Whole():
                return await self._conversations()
            case Frequencies(terms):
                found = (await self._count(terms)).frequencies
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
                return await self._nearest(most, (await self._count(())).total)
            case Around(keys, turns):
                return await self._windows(await search.around(keys, turns, scope))

    async def _size(self, most: int) -> int:
        """Return how many items are in the scope; where they are few, their marks are read with the same statement."""
        if most <= WHOLE_SCOPE and not self._counts.knows(self._scope):
            self._marks = await self._search.marks(self._scope, most)
            return most + 1 if self._marks is None else len(self._marks)
        return (await self._count(self._terms)).total

    async def _count(self, terms: Sequence[str]) -> Counted:
        """Return the counts of the scope, which are read once with all the terms of the search."""
        if self._counted is None or not self._counted.frequencies.keys() >= set(terms):
            self._counted = await self._counts.of(self._scope, terms)
        return self._counted

    async def _conversations(self) -> list[list[Passage]]:
        if self._marks is None:
            self._counts.leave(self._scope)  # It was large once.
            self._marks = await self._search.marks(self._scope, MOST_COUNTED)
        turns = await self._turns(self._marks or ())
        conversations: dict[object, list[Passage]] = {}
        for turn in turns.values():
            conversations.setdefault(turn.conversation, []).append(turn.passage)
        return list(conversations.values())

    async def _windows(self, chains: Sequence[Sequence[str]]) -> list[list[Passage]]:
        turns = await self._turns(mark for chain in chains for mark in chain)
        # An item that was removed between the two queries leaves a gap, which is harmless.
        return [[turns[mark].passage for mark in chain if mark in turns] for chain in chains]

    async def _turns(self, marks: Iterable[str]) -> dict[str, Turn]:
        self.turns = await self._search.turns(marks, self._scope, self._known)
        return self.turns


def _named(term: str) -> str:
    """Return the pattern of an item's other fields that name somebody so."""
    return f'%"name"%{term}%'


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
