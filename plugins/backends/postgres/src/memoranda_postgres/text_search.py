"""Ranked search in scopes that are too large to be ranked as a whole: the index of terms, and the statements.

A row's *mark* names one state of it: its id, the transaction that wrote it, and its version. A search that has read the
passage of a mark does not read it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from memoranda.loops import offload, ranking_weight
from memoranda.store.backend import Filter, Page
from memoranda_backend.ranking import HEARD, LONGEST_LABEL, Passage, index_terms, index_words, name_in, taking_part
from memoranda_backend.sql import Parameters
from memoranda_backend.sql.candidates import WHOLE_SCOPE, Sought
from memoranda_postgres.dialect import MOMENT, SEQUENCE, PostgresStatements
from memoranda_postgres.schema import add_terms
from memoranda_postgres.scope_cache import passage_of_row
from memoranda_postgres.server import Server
from memoranda_postgres.terms import has_term, keys_text, term_key

Entry = tuple[int, int, str]
"""The number of an item, its version, and the keys of its terms."""


class TermIndex:
    """The index of terms of one store.

    It is created once a database has more than ``WHOLE_SCOPE`` items. From then on, triggers note the number of every
    item that is written in ``memory_unindexed``. Batches then compute the terms, write an entry for each item into
    ``memory_terms`` and remove the notes. An entry counts only for the version of the item that it was made from. So at
    every moment, and on every replica, an item has an entry that counts or it is noted, and a ranked search reads the
    few items that have none.

    An advisory lock lets only one process at a time fill the index of a schema. It is held within one call of a
    function of the server: a process that stops in the middle of a batch keeps no other waiting.
    """

    def __init__(self, server: Server, statements: PostgresStatements) -> None:
        self._server = server
        self._statements = statements
        dialect = statements.dialect
        self._same = f"item = {SEQUENCE} AND item_version = version"
        self._has_entry = f"EXISTS (SELECT FROM {dialect.terms} WHERE {self._same})"
        self._noted = f"SELECT DISTINCT unnest(items) AS noted FROM {dialect.unindexed}"

    def matches(self, parameters: Parameters, columns: str, term: Sought, scope: Filter) -> str:
        """Return the query of the items of a scope whose entries have the term."""
        dialect = self._statements.dialect
        where = self._statements.conditions(parameters, scope)
        return (
            f"SELECT {columns} FROM {dialect.terms} JOIN {dialect.table} ON {self._same} "
            f"WHERE {has_term(parameters, term, scope)} AND {where}"
        )

    def unindexed(self, parameters: Parameters, columns: str, scope: Filter) -> str:
        """Return the query of the items of a scope that wait for the index."""
        where = self._statements.conditions(parameters, scope)
        table = self._statements.dialect.table
        return (
            # Joined by a comma, which leaves the server's own columns visible.
            f"SELECT {columns} FROM ({self._noted}) AS waiting, {table} "
            f"WHERE {SEQUENCE} = noted AND {where} AND NOT {self._has_entry}"
        )

    async def exists(self) -> bool:
        """Return True if there is an index."""
        return bool((await self._server.fetch(f"SELECT {self._statements.dialect.has_terms}", ()))[0][0])

    async def create_if_needed(self) -> bool:
        """Return True if there is an index, after creating it where a scope may be too large without one."""
        dialect = self._statements.dialect
        few = f"SELECT FROM {dialect.table} LIMIT {WHOLE_SCOPE + 1}"
        counted = f"(SELECT count(*) > {WHOLE_SCOPE} FROM ({few}) AS few)"
        # No more items exist than numbers were drawn, which takes less time to see.
        needed = f"CASE WHEN last_value > {WHOLE_SCOPE} THEN {counted} ELSE false END"
        ((exists, is_needed),) = await self._server.fetch(
            f"SELECT {dialect.has_terms}, {needed} FROM {dialect.numbers}", ()
        )
        if is_needed and not exists:
            await self._server.run(lambda connection: add_terms(self._server, connection, dialect))
        return bool(exists or is_needed)

    async def backlog(self) -> int:
        """Return about how many items wait."""
        text = f"SELECT coalesce(sum(cardinality(items)), 0) FROM {self._statements.dialect.unindexed}"
        return int((await self._server.fetch(text, ()))[0][0])

    async def fill(self, size: int) -> int | None:
        """Index about ``size`` items and return how many notes that has settled; None if another process is at it."""
        rows = await self._server.fetch(self._batch(size), ())
        entries = await made_entries([row for row in rows if row["content"] is not None])
        notes = {row["place"]: row["writer"] for row in rows}
        return 0 if not notes else len(rows) if await self.write(entries, notes) else None

    async def write(self, entries: Sequence[Entry], notes: Mapping[str, str]) -> bool:
        """Write entries and remove notes; return False if another process is at it. Changed items get no entry."""
        columns = [list(column) for column in zip(*entries, strict=True)] or [[], [], []]
        written = await self._server.fetch(
            f"SELECT {self._statements.dialect.fill_terms}($1, $2, $3, $4, $5)",
            [*columns, list(notes), [f"{place} {writer}" for place, writer in notes.items()]],
        )
        return bool(written[0][0])

    def _batch(self, size: int) -> str:
        """Return the query of the first notes, of about so many items, and of what those items are made from."""
        dialect = self._statements.dialect
        first = f"SELECT ctid AS place, xmin AS writer, items FROM {dialect.unindexed} LIMIT {size}"
        count = "cardinality(items)"
        summed = f"SELECT *, sum({count}) OVER (ORDER BY place) - {count} AS before FROM ({first}) AS first"
        return (
            f"SELECT place::text, writer::text, number, version, content, user_id FROM ({summed}) AS summed "
            f"CROSS JOIN LATERAL unnest(items) AS number "
            f"LEFT JOIN {dialect.table} ON {SEQUENCE} = number AND NOT {self._has_entry} WHERE before < {size}"
        )


async def made_entries(rows: Sequence[Any]) -> list[Entry]:
    """Return the entries of rows with a number, version, content and user."""
    return await asyncio.to_thread(_entries, rows)


def _entries(rows: Sequence[Any]) -> list[Entry]:
    return [(row["number"], row["version"], keys_text(row["content"], row["user_id"])) for row in rows]


MARK = "id || ' ' || xmin::text || ' ' || version::text"
_PASSAGE_COLUMNS = "id, content, extra_json, memory_type, created_at, user_id, session_id, task_id"

MOST_OF_A_TERM = 20_000
"""How many rows of one term are counted; a term that is in as many counts as one that is in all."""


class Hit(NamedTuple):
    """The position of a row in its conversation."""

    id: str
    user_id: str | None
    session_id: str | None
    task_id: str | None
    moment: str
    added: int


_HIT_COLUMNS = ", ".join(Hit._fields)
READ_HIT = _HIT_COLUMNS.replace(MOMENT, f"{MOMENT}::text AS seen")
"""The columns as they are read. Moments travel as the server's text, since Python cannot hold all of its times."""


class TextSearch:
    """Reads what ranked searches of one store need."""

    def __init__(
        self,
        server: Server,
        statements: PostgresStatements,
        index: TermIndex,
        searched: Callable[[int], None] = lambda waiting: None,
    ) -> None:
        self._server = server
        self._statements = statements
        self._index = index
        self._searched = searched

    async def participants(self, query: str, scope: Filter) -> set[str]:
        """Return who takes part in the newest items of a scope, as far as a query may name them."""
        text, values = self._statements.search(scope, Page(HEARD), ("extra_json", "content"))
        name = "CASE WHEN strpos(extra_json, '\"name\"') > 0 THEN extra_json ELSE '{}' END"
        # The beginning of a content says who speaks and who is addressed.
        begun = f"SELECT {name}, left(content, {LONGEST_LABEL}) FROM ({text}) AS newest"
        return taking_part(query, [_speaker_and_content(*turn) for turn in await self._server.fetch(begun, values)])

    async def size(self, scope: Filter, most: int) -> int:
        """Return the number of items that match, or ``most + 1`` where there are more than ``most``."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        text = (
            f"SELECT count(*) FROM (SELECT FROM {self._statements.dialect.table} WHERE {where} LIMIT {most + 1}) AS few"
        )
        rows = await self._server.fetch(text, parameters.values)
        return int(rows[0][0])

    async def passages(self, marks: Iterable[str], scope: Filter, known: dict[str, Passage]) -> dict[str, Passage]:
        """Return the passages of marked rows by their marks; those that are not known are read, if they still exist.

        A row that has changed since it was marked is returned in its present state.
        """
        found = {mark: known.get(mark) for mark in marks}
        missing = {_id_of(mark): mark for mark, passage in found.items() if passage is None}
        if missing:
            rows = await self.rows(list(missing), _PASSAGE_COLUMNS, scope)
            weight = ranking_weight(len(rows), (row["content"] for row in rows))
            read = await offload(weight, _passages_of, rows)
            found.update((missing[passage.key], passage) for passage in read)
        known.update((mark, passage) for mark, passage in found.items() if passage is not None)
        return {mark: passage for mark, passage in found.items() if passage is not None}

    async def rows(self, ids: Sequence[str], columns: str, scope: Filter) -> list[Any]:
        """Return columns of the items of these ids that are still in a scope."""
        dialect = self._statements.dialect
        parameters = Parameters(dialect)
        given = f"unnest({parameters.add(list(ids))}::text[]) AS given (one)"
        where = self._statements.conditions(parameters, scope)
        # One by one: the server overestimates a few ids, and would read the whole of a small scope for them.
        found = f"SELECT {columns} FROM {dialect.table} WHERE {dialect.by_id('given.one')} AND {where} OFFSET 0"
        return await self._server.fetch(f"SELECT found.* FROM {given}, LATERAL ({found}) AS found", parameters.values)

    async def frequencies(self, terms: Sequence[Sought], scope: Filter, known: dict[str, Passage]) -> dict[Sought, int]:
        """Return how many items of a scope have each of the terms; of very many, how many items there are."""
        parameters = Parameters(self._statements.dialect)
        matches = [self._index.matches(parameters, "1", term, scope) for term in terms]
        counts = [f"(SELECT count(*) FROM ({match} LIMIT {MOST_OF_A_TERM}) AS few)" for match in matches]
        unindexed = f"ARRAY({self._index.unindexed(parameters, MARK, scope)})"
        ((marks, *found),) = await self._server.fetch(f"SELECT {', '.join([unindexed, *counts])}", parameters.values)
        keys = (await self._keys(marks, scope, known)).values()
        frequencies = {
            term: count + sum(not held.isdisjoint(map(term_key, term.forms)) for held in keys)
            for term, count in zip(terms, found, strict=True)
        }
        return {term: count if count < MOST_OF_A_TERM else WHOLE_SCOPE for term, count in frequencies.items()}

    async def _keys(self, marks: Sequence[str], scope: Filter, known: dict[str, Passage]) -> dict[str, frozenset[int]]:
        """Return the keys of the terms of rows that wait for the index, by their marks."""
        self._searched(len(marks))
        passages = await self.passages(marks, scope, known)
        return {mark: frozenset(map(term_key, index_terms(passage.text))) for mark, passage in passages.items()}

    async def best(
        self, weights: Mapping[Sought, float], scope: Filter, most: int, known: dict[str, Passage]
    ) -> list[Hit]:
        """Return the items with the greatest sum of the weights of their terms; among equals the newest."""
        parameters = Parameters(self._statements.dialect)
        # As whole numbers, whose sum does not depend on the order in which the server adds.
        whole = {term: float(round(weight * 1e9)) for term, weight in weights.items()}
        sources = [
            self._index.matches(parameters, f"{_HIT_COLUMNS}, {parameters.add(weight)}::float8 AS weight", term, scope)
            for term, weight in whole.items()
        ]
        indexed = (
            f"SELECT {READ_HIT}, sum(weight), NULL AS mark FROM ({' UNION ALL '.join(sources)}) AS hits "
            f"GROUP BY {_HIT_COLUMNS} ORDER BY sum(weight) DESC, {MOMENT} DESC, added DESC LIMIT {most}"
        )
        # In the same statement, between two of which an item may get into the index.
        unindexed = self._index.unindexed(parameters, f"{READ_HIT}, 0, {MARK}", scope)
        rows = await self._server.fetch(f"({indexed}) UNION ALL ({unindexed})", parameters.values)
        if rows and rows[-1][-1] is not None:
            rows = await self._with_unindexed(rows, whole, scope, known)
        return [Hit(*row[: len(Hit._fields)]) for row in rows[:most]]

    async def _with_unindexed(
        self, rows: Sequence[Any], weights: Mapping[Sought, float], scope: Filter, known: dict[str, Passage]
    ) -> list[Any]:
        """Return rows of hits, their weights and marks with those among the best that wait for the index."""
        keyed = [(frozenset(map(term_key, term.forms)), weight) for term, weight in weights.items()]
        keys = await self._keys([row[-1] for row in rows if row[-1] is not None], scope, known)
        weighed = []
        for *hit, weight, mark in rows:
            if mark is not None:
                held = keys.get(mark, frozenset())
                weight = sum(weight for forms, weight in keyed if not held.isdisjoint(forms))
            if weight:
                weighed.append((weight, *hit[-2:], hit))
        return [hit for *_, hit in sorted(weighed, reverse=True)]

    async def newest(self, scope: Filter, most: int, condition: Callable[[Parameters], str]) -> list[Hit]:
        """Return the newest items of a scope that meet a condition."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        text = (
            f"SELECT {READ_HIT} FROM {self._statements.dialect.table} WHERE {where} AND {condition(parameters)} "
            f"ORDER BY {MOMENT} DESC, added DESC LIMIT {most}"
        )
        return [Hit(*row) for row in await self._server.fetch(text, parameters.values)]

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


def version_of(mark: str) -> int:
    """Return the version of a marked row."""
    return int(mark.rpartition(" ")[2])


def _id_of(mark: str) -> str:
    return mark.rsplit(" ", 2)[0]


def _passages_of(rows: Iterable[Any]) -> list[Passage]:
    read = map(passage_of_row, rows)
    return [passage._replace(terms=index_words(passage.text)) for passage in read]


def _speaker_and_content(extra_json: str, content: str) -> tuple[str | None, str]:
    """Return the speaker and the content of a row. A row that cannot be read has no speaker; its item is left out."""
    try:
        return name_in(extra_json), content
    except ValueError:
        return None, content


def _by_shape(hits: Iterable[Hit]) -> dict[tuple[bool, ...], list[Hit]]:
    """Group hits by which of user, session and task they have: an index serves only ``=``, which NULL never matches."""
    shapes: dict[tuple[bool, ...], list[Hit]] = {}
    for hit in hits:
        named = tuple(value is not None for value in (hit.user_id, hit.session_id, hit.task_id))
        shapes.setdefault(named, []).append(hit)
    return shapes
