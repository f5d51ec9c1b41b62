"""What ranked searches keep of the scopes they search: one cache, brought up to date with what has changed since.

A row's *mark* is a hash of its number and of the transaction that wrote it: every change of a row, by any program,
gives it another one. Each search asks the server for its snapshot. If it is that of the last search, nothing was
written at all. Otherwise the same statement returns the number and the sum of the marks of the rows up to the last one
that is kept, and which rows follow it. If the sum is the same, only these are new; if not, all marks are compared.

Only rows of the scope are read, and nothing that a ranking counts or averages comes from anywhere else: it must not
reveal anything of other tenants.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from memoranda.loops import LoopLock, offload, ranking_weight
from memoranda.store.backend import Expiry, Filter
from memoranda_backend.ranking import (
    HEARD,
    Added,
    KeptScopes,
    Passage,
    ScopeArrays,
    conversation_name,
    name_in,
    speaker_of,
    taking_part,
)
from memoranda_backend.sql import Parameters
from memoranda_backend.sql.candidates import WHOLE_SCOPE
from memoranda_postgres.dialect import SEQUENCE, PostgresStatements
from memoranda_postgres.reading import MARK, SNAPSHOT, lists_open_transactions, read_marked, read_marks
from memoranda_postgres.server import Server
from memoranda_postgres.vectors import Vectors

MOST_BYTES = 256 << 20
"""About how many bytes are kept for all scopes; the least recently searched ones are dropped. A larger scope is kept
alone."""

_BYTES_OF_A_MARK = 150
_COLUMNS = "id, content, memory_type, extra_json, created_at, user_id, session_id, task_id"

T = TypeVar("T")


class Scope:
    """The rows of a scope as of one search. Only the holder of the lock may use it."""

    def __init__(self, passage: float, dimension: int) -> None:
        self.lock = LoopLock()
        self.is_in_use = False
        self._passage, self._dimension = passage, dimension
        self.model: tuple[str, int] | None = None
        """The model and the dimension of the vectors in the database."""
        self.start_anew()

    def start_anew(self) -> None:
        """Forget all rows. A thread of a search that was broken off may still use the arrays from before."""
        self.arrays = ScopeArrays(self._passage, self._dimension)
        self.marks: dict[int, int] | None = None
        """The marks of all rows by their numbers; None if there are too many to be ranked as a whole."""
        self.named: set[str] = set()
        """The speakers that are named, and not only by the type of an item."""
        self.mark_sum = 0
        self.snapshot, self.since, self.until = "", "", None
        self.look = 0
        """The number of the last look at the server."""

    @property
    def is_whole(self) -> bool:
        """True if all rows are kept."""
        return self.marks is not None

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return self.arrays.size + _BYTES_OF_A_MARK * len(self.marks or ())

    def participants(self, query: str) -> set[str]:
        """Return who takes part in the newest rows, as far as a query may name them: see ``taking_part``."""
        layout = self.arrays.layout
        newest = np.arange(len(layout))
        if len(newest) > HEARD:
            newest = np.flatnonzero(layout.times >= np.partition(layout.times, -HEARD)[-HEARD])
            newest = newest[np.lexsort((layout.numbers[newest], layout.times[newest]))][-HEARD:]
        speakers, beginnings = list(self.arrays.speakers), self.arrays.beginnings
        heard = zip(layout.speaker[newest].tolist(), layout.rows[newest].tolist(), strict=True)
        turns = ((speakers[code], beginnings[row]) for code, row in heard)
        return taking_part(query, [(name if name in self.named else None, text) for name, text in turns])

    def known_at(self, now: str) -> str:
        """Return the snapshot in which nothing has changed, unless something has expired since or came back."""
        return self.snapshot if self.since <= now < (self.until or "~") else ""


class ScopeCache:
    """Scopes by what a search asks of them, for all event loops of a store."""

    def __init__(self, server: Server, statements: PostgresStatements, passage: float, vectors: Vectors | None) -> None:
        self._server = server
        self._statements = statements
        self._passage, self._vectors = passage, vectors
        self._looks = itertools.count(1)
        self._kept: KeptScopes[Scope] = KeptScopes()
        self.forget = self._kept.forget

    async def use(self, wanted: Filter, work: Callable[[Scope], Awaitable[T]], look: int = 0) -> T:
        """Do work on a scope as the server has it now, or had it at a ``look``; no other search uses it meanwhile."""
        alive = [each for each in wanted.further if isinstance(each, Expiry) and not each.expired]
        lasting = replace(wanted, further=tuple(each for each in wanted.further if each not in alive))
        parameters = Parameters(self._statements.dialect)
        key = (self._statements.conditions(parameters, lasting), *map(repr, parameters.values))
        dimension = 0 if self._vectors is None else self._vectors.dimension
        scope = self._kept.of(key, lambda: Scope(self._passage, dimension))
        async with scope.lock.held():
            if scope.is_in_use:  # That search was broken off.
                scope.start_anew()
            scope.is_in_use = True
            if not look or scope.look != look:
                await self._bring_up_to_date(scope, wanted, alive[0].now if alive else "")
                scope.look = next(self._looks)
            self._kept.measured(key, scope, scope.size, MOST_BYTES)
            result = await work(scope)
            scope.is_in_use = False
            return result

    async def _bring_up_to_date(self, scope: Scope, wanted: Filter, now: str) -> None:
        snapshot, model, seen = await self._look(scope, wanted, scope.known_at(now))
        scope.model = model
        if seen is None:
            return
        is_large, settled, total, new, until = seen
        scope.snapshot, scope.since, scope.until = "", now, until
        if is_large:
            scope.start_anew()
        elif scope.marks is None:
            await self._read(scope, wanted)
        elif (settled, int(total)) == (len(scope.marks), scope.mark_sum):
            await self._follow(scope, wanted, (), new)
        else:
            marks, _ = await read_marks(self._server, self._statements, wanted)
            changed = [number for number, mark in marks.items() if scope.marks.get(number) != mark]
            await self._follow(scope, wanted, scope.marks.keys() - marks.keys(), changed)
        scope.snapshot, scope.since, scope.until = snapshot if lists_open_transactions(snapshot) else "", now, until

    async def _look(self, scope: Scope, wanted: Filter, known: str) -> tuple[str, tuple[str, int] | None, Any]:
        """Return the server's snapshot, the model of its vectors and, unless it is known, what the rows are by then.

        That is if they are too many, the number and the sum of the marks of those up to the last one that is kept, the
        numbers of those after it, and when the next one expires. Without an index of terms, none are too many.
        """
        dialect, parameters = self._statements.dialect, Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, wanted)
        last, given = parameters.add(max(scope.marks or (), default=0)), parameters.add(known)
        kept = f"FILTER (WHERE {SEQUENCE} <= {last}::bigint)"
        columns, seen = (
            f"{SEQUENCE}, expires_at, {MARK} AS mark",
            [
                f"{dialect.has_terms} AND count(*) > {WHOLE_SCOPE}",
                f"count(*) {kept}",
                f"coalesce(sum(mark) {kept}, 0)::text",
                f"coalesce(json_agg({SEQUENCE}) FILTER (WHERE {SEQUENCE} > {last}::bigint), '[]')",
                "min(nullif(expires_at, ''))",
            ],
        )
        if scope.marks is None:  # Then an index is enough.
            columns, seen[1:4] = "expires_at", [f"{last}::bigint", "'0'", "'[]'::json"]
        most = f"CASE WHEN {dialect.has_terms} THEN {WHOLE_SCOPE + 1} END"
        rows = f"SELECT {columns} FROM {dialect.table} WHERE {where} LIMIT {most}"
        text = (
            f"SELECT snapshot, vector_model, vector_dimension, CASE WHEN snapshot <> {given}::text THEN "
            f"(SELECT json_build_array({', '.join(seen)})::text FROM ({rows}) AS few) END "
            f"FROM (SELECT {SNAPSHOT} AS snapshot OFFSET 0) AS now, {dialect.meta}"
        )
        ((snapshot, *model, found),) = await self._server.fetch(text, parameters.values)
        return snapshot, None if model[0] is None else tuple(model), None if found is None else json.loads(found)

    async def _read(self, scope: Scope, wanted: Filter) -> None:
        scope.start_anew()
        scope.marks = {}
        await self._add(scope, await self._rows(wanted))

    async def _follow(self, scope: Scope, wanted: Filter, gone: Collection[int], changed: Collection[int]) -> None:
        """Read what has changed, or all where that is much."""
        assert scope.marks is not None, "only a scope that is kept has changes"
        scope.arrays.remove((*gone, *changed))
        for number in (*gone, *changed):
            scope.mark_sum -= scope.marks.pop(number, 0)
        if scope.arrays.is_worn or len(changed) > len(scope.marks):
            await self._read(scope, wanted)
        elif changed:
            await self._add(scope, await self._rows(wanted, changed))

    async def _add(self, scope: Scope, rows: Collection[Any]) -> None:
        assert scope.marks is not None, "only a scope that is kept has rows"
        scope.marks.update((row["number"], row["mark"]) for row in rows)
        scope.mark_sum += sum(row["mark"] for row in rows)
        arrays, named = scope.arrays, scope.named
        await offload(
            ranking_weight(len(rows), (row["content"] for row in rows)), lambda: arrays.add(list(_added(rows, named)))
        )

    async def _rows(self, wanted: Filter, chosen: Collection[int] | None = None) -> list[Any]:
        """Return the rows of a scope, or those of the chosen ones that are in it, in the order of their numbers."""

        def columns(parameters: Parameters) -> str:
            return f"{_COLUMNS}, {'NULL' if self._vectors is None else self._vectors.packed(parameters)} AS vectors"

        return await read_marked(self._server, self._statements, wanted, chosen, columns)


def passage_of_row(row: Any, named: set[str] | None = None) -> Passage:
    """Return a row as a ranking sees it, and add its speaker to those that are ``named``, if it names one.

    A row that cannot be read has no speaker; reading its item logs it.
    """
    try:
        name = name_in(row["extra_json"])
    except ValueError:
        name = None
    speaker = speaker_of(name, "", row["content"])
    if speaker and named is not None:
        named.add(speaker)
    conversation = conversation_name(row["user_id"], row["session_id"], row["task_id"])
    return Passage(row["id"], row["content"], speaker or row["memory_type"], row["created_at"], conversation)


def _added(rows: Iterable[Any], named: set[str]) -> Iterable[Added]:
    for row in rows:
        # The server sends numbers with the highest byte first.
        vectors = np.frombuffer(row["vectors"] or b"", ">f4").astype("<f4").tobytes()
        yield Added(row["number"], passage_of_row(row, named), vectors)
