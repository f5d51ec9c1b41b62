"""Vectors in a table of their own, through pgvector.

A vector has length one; a long item has one for each of its passages. Vectors belong to one version of their item:
after a change by a process without an embedder they are stale, and are not found until ``reindex`` replaces them. An
item without text has none. All vectors are of one model, whose name and dimension are in the table of the schema.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress, repeat
from operator import attrgetter
from typing import Any

from memoranda.embeddings import Embeddings
from memoranda.store.backend import Filter
from memoranda_backend.ranking import WHITESPACE, Weights, divided
from memoranda_backend.sql import Parameters
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import MOMENT, PostgresStatements
from memoranda_postgres.passage_vectors import (
    KEY,
    PART,
    PARTS,
    ItemVectors,
    Near,
    Nearness,
    best_of_each,
    in_batches,
    numbered,
)
from memoranda_postgres.rows import READ_COLUMNS
from memoranda_postgres.server import UNHURRIED, Server

EXACT_BELOW = 20_000
"""Scopes of up to this many items are compared one by one, which is exact and takes milliseconds."""

_INDEX = "memory_vectors_embedding"
_MORE = 4
"""By which factor more passages are read if the first ones belong to too few items."""

_TOGETHER = 1_000
"""About how many vectors one statement writes at most."""

Lacking = tuple[str, str, int]
"""The id, content and version of an item."""

_MOST_INDEXED = 2_000  # dimensions; longer vectors are compared one by one
_COLUMNS = ", ".join(READ_COLUMNS)


class Vectors:
    """The vectors of one store. ``extension`` is the quoted schema of pgvector."""

    def __init__(
        self,
        server: Server,
        statements: PostgresStatements,
        embeddings: Embeddings,
        weights: Weights | None,
        extension: str,
    ) -> None:
        self._server = server
        self._statements = statements
        self._dialect = statements.dialect
        self.model = embeddings.identity()
        self.dimension = embeddings.dimension
        self.weights = weights or Weights()
        self._vector = f"{extension}.vector"
        self._extension = extension
        self._distance = f"OPERATOR({extension}.<=>)"

    async def stored_model(self, connection: Connection) -> tuple[str, int] | None:
        """Return the model and dimension of the stored vectors."""
        row = await connection.fetchrow(f"SELECT vector_model, vector_dimension FROM {self._dialect.meta}")
        return None if row is None or row["vector_model"] is None else (row["vector_model"], row["vector_dimension"])

    async def create(self, connection: Connection) -> None:
        """Create an empty table for this store's model, replacing any other. Needs a transaction."""
        dialect = self._dialect
        items = dialect.ids if dialect.partitioned else dialect.table
        # All readers and writers lock this table before the vectors.
        await connection.execute(f"LOCK TABLE {items} IN ACCESS EXCLUSIVE MODE")
        await connection.execute(f"DROP TABLE IF EXISTS {dialect.vectors}")
        await connection.execute(
            f'CREATE TABLE {dialect.vectors} (item_id TEXT COLLATE "C" NOT NULL '
            f"REFERENCES {items} (id) ON DELETE CASCADE, item_version INTEGER NOT NULL, "
            f"embedding {self._vector}({self.dimension}) NOT NULL, {PART}, {PARTS}, {KEY})"
        )
        await connection.execute(
            f"UPDATE {dialect.meta} SET vector_model = $1, vector_dimension = $2", self.model, self.dimension
        )

    async def create_index(self, connection: Connection) -> None:
        """Build the index, unless it exists or the vectors are too long for one. Needs a transaction."""
        if self.dimension <= _MOST_INDEXED:
            # Building a graph that does not fit into memory is many times slower.
            await connection.execute(
                "SELECT set_config('maintenance_work_mem', '256MB', true) "
                "WHERE pg_size_bytes(current_setting('maintenance_work_mem')) < pg_size_bytes('256MB')"
            )
            await connection.execute(
                f"CREATE INDEX IF NOT EXISTS {_INDEX} ON {self._dialect.vectors} "
                f"USING hnsw (embedding {self._extension}.vector_cosine_ops)",
                timeout=UNHURRIED,
            )

    async def drop_index(self, connection: Connection) -> None:
        """Remove the index."""
        await connection.execute(f"DROP INDEX IF EXISTS {self._dialect.schema}.{_INDEX}")

    async def most_missing(self, connection: Connection) -> bool:
        """Return True if more items lack a vector than have one."""
        items, vectors = self._dialect.table, self._dialect.vectors
        found: bool = await connection.fetchval(
            f"SELECT (SELECT count(*) FROM {items} WHERE deleted = 0) > 2 * (SELECT count(*) FROM {vectors})"
        )
        return found

    async def present(self, contents: Mapping[str, str]) -> dict[str, Sequence[Sequence[float]]]:
        """Return the vectors of those ids that have one for this very content, of this store's model."""
        # Ids before vectors, the order of all who lock both, so that a change of the model cannot deadlock.
        given = f"SELECT id, content, version FROM {self._dialect.table} WHERE {self._dialect.by_ids('$1')}"
        rows = await self._server.fetch(
            f"SELECT id, content, embedding::real[] AS vector FROM ({given}) AS given JOIN {self._dialect.vectors} "
            f"ON item_id = id AND item_version = version WHERE EXISTS "
            f"(SELECT FROM {self._dialect.meta} WHERE vector_model = $2 AND vector_dimension = $3) ORDER BY part",
            [list(contents), self.model, self.dimension],
        )
        found: dict[str, list[Sequence[float]]] = {}
        for row in rows:
            if contents[row["id"]] == row["content"]:
                found.setdefault(row["id"], []).append(row["vector"])
        return dict(found)

    async def keep(self, connection: Connection, vectors: Sequence[ItemVectors]) -> None:
        """Replace the vectors of items, in the transaction that wrote or locked the items.

        If another process has switched the table to another model, nothing is stored; reindexing will find the items.
        """
        for some in in_batches(vectors, _TOGETHER):
            await self._keep_some(connection, some)

    async def _keep_some(self, connection: Connection, vectors: Sequence[ItemVectors]) -> None:
        owners, parts, counts = numbered([passages for _, _, passages in vectors])
        flat: list[float] = []
        for _, _, passages in vectors:
            for vector in passages:
                flat.extend(vector)
        given = "unnest($1::text[], $2::integer[], $6::smallint[], $7::smallint[])"
        await connection.execute(
            f"WITH gone AS (DELETE FROM {self._dialect.vectors} AS stored USING unnest($8::text[], $9::smallint[]) "
            f"AS given (id, parts) WHERE stored.item_id = given.id AND stored.part >= given.parts) "
            f"INSERT INTO {self._dialect.vectors} AS stored (item_id, item_version, part, parts, embedding) "
            f"SELECT given.id, given.version, given.part, given.parts, "
            f"(($3::real[])[(given.at - 1) * $5 + 1 : given.at * $5])::{self._vector} "
            f"FROM {given} WITH ORDINALITY AS given (id, version, part, parts, at) "
            f"WHERE EXISTS (SELECT FROM {self._dialect.meta} WHERE vector_model = $4 AND vector_dimension = $5) "
            f"ON CONFLICT (item_id, part) DO UPDATE SET item_version = excluded.item_version, parts = excluded.parts, "
            f"embedding = excluded.embedding",
            [vectors[owner][0] for owner in owners],
            [vectors[owner][1] for owner in owners],
            flat,
            self.model,
            self.dimension,
            parts,
            counts,
            [item_id for item_id, _, _ in vectors],
            [len(passages) for _, _, passages in vectors],
            timeout=self._server.time_for(len(owners)),
        )

    async def keep_present(self, connection: Connection, vectors: Sequence[ItemVectors]) -> None:
        """Store vectors computed after their items were, for items that still exist in the same version."""
        ids = [item_id for item_id, _, _ in vectors]
        async with self._server.transaction(connection):
            ids = await self._server.lock_items(connection, self._dialect, ids)
            rows = await connection.fetch(
                f"SELECT id, version FROM {self._dialect.table} WHERE {self._dialect.by_ids('$1')} AND deleted = 0",
                ids,
                timeout=self._server.time_for(len(ids)),
            )
            present = {(row["id"], row["version"]) for row in rows}
            await self.keep(connection, [entry for entry in vectors if entry[:2] in present])
            # Written anew, by which searches notice that there is something to read.
            await connection.execute(
                f"UPDATE {self._dialect.table} SET token = token WHERE {self._dialect.by_ids('$1')}",
                [item_id for item_id, _ in present],
                timeout=self._server.time_for(len(present)),
            )

    def packed(self, parameters: Parameters) -> str:
        """Return the expression of an item's present vectors, one after the other as big-endian float32."""
        model = f"vector_model = {parameters.add(self.model)} AND vector_dimension = {parameters.add(self.dimension)}"
        return (
            f"(SELECT string_agg(substr({self._extension}.vector_send(embedding), 5), '' ORDER BY part) "
            f"FROM {self._dialect.vectors} WHERE item_id = id AND item_version = version "
            f"AND EXISTS (SELECT FROM {self._dialect.meta} WHERE {model}))"
        )

    async def nearest(
        self, vector: Sequence[float], wanted: Filter, limit: int, size: int, columns: str | None = None
    ) -> list[Near]:
        """Return the items nearest to a vector, nearest first; their rows have ``READ_COLUMNS``, or these columns.

        ``size`` is the number of items that match. A scope that is small, or of which most is asked for, is compared
        one by one. In a large one the index goes on looking until enough of what it finds lies in the scope.
        """
        if size > EXACT_BELOW and limit <= size // 10 and self.dimension <= _MOST_INDEXED:
            found = await self._nearest_by_index(vector, wanted, limit, columns)
            if found is not None:
                return found
        asked = limit
        while True:
            rows = await self._one_by_one(vector, wanted, asked, columns)
            best = list(self._best(rows).values())
            if len(best) >= limit or len(rows) < asked:
                return best[:limit]
            asked *= _MORE  # Several were passages of one item.

    async def _nearest_by_index(
        self, vector: Sequence[float], wanted: Filter, limit: int, columns: str | None
    ) -> list[Near] | None:
        """Return the nearest items, or None where the index does not find enough of them."""
        for asked in (limit, limit * _MORE, limit * _MORE * _MORE):
            through_index = partial(self._through_index, vector=vector, wanted=wanted, limit=asked, columns=columns)
            rows = await self._server.run(through_index)
            if len(rows) < asked:
                return None
            best = sorted(self._best(rows).values(), key=attrgetter("similarity"), reverse=True)
            # What was not looked at is no nearer than the last passage, by which only long items can lie behind.
            if len(best) >= limit and not best[limit - 1].similarity < rows[-1]["cosine"]:
                return best[:limit]
        return None

    async def similarities(self, vector: Sequence[float], versions: Mapping[str, int]) -> Nearness:
        """Return how near these items are, by their ids, as far as they have vectors of their versions."""
        # As a subquery, so that a cached plan does not convert the query's vector for every row.
        given = f"(SELECT $1::real[]::{self._vector})"
        # The distance of a vector of zeros is not a number.
        cosine = f"coalesce(1 - nullif(embedding {self._distance} {given}, 'NaN'), 0)"
        read = ("item_id", "item_version", cosine, "part", "parts")
        # Five arrays are read faster than five values for each row. The ids go as JSON, since the driver inspects every
        # value of an array several times, and become one array, which takes half the time of a join.
        text = (
            f"SELECT {', '.join(f'array_agg({column})' for column in read)} FROM {self._dialect.vectors} "
            f"WHERE item_id = ANY (ARRAY(SELECT json_array_elements_text($2::text::json)))"
        )
        found = await self._server.fetch(text, [list(vector), json.dumps(list(versions))])
        ((ids, stored, cosines, parts, counts),) = found
        if ids is None:
            return Nearness({}, {})
        present = [versions[key] == version for key, version in zip(ids, stored, strict=True)]
        similarities = dict(compress(zip(ids, cosines, strict=True), present))
        compared = compress(zip(ids, cosines, parts, counts, repeat(None)), present)
        long = [each for each in compared if each[3] > 1] if max(counts) > 1 else ()
        divided = best_of_each(long, self.weights.damping)
        return Nearness(similarities | {key: near.similarity for key, near in divided.items()}, divided)

    def missing(self, page: int) -> AsyncGenerator[list[Lacking], None]:
        """Yield pages of live items with text but without a present vector."""
        return self._lacking(f"item_id IS NULL AND btrim(content, $2) <> '' ORDER BY id LIMIT {page}", WHITESPACE)

    async def without_passages(self, page: int) -> AsyncGenerator[list[Lacking], None]:
        """Yield pages of live items with one vector but several passages."""
        size = self.weights.passage
        async for rows in self._lacking(f"parts = 1 AND length(content) > $2 ORDER BY id LIMIT {page}", int(size)):
            yield [row for row in rows if len(divided(row[1], size)) > 1]

    async def _lacking(self, condition: str, value: str | int) -> AsyncGenerator[list[Lacking], None]:
        after = ""
        while True:
            rows = await self._server.fetch(
                f"SELECT id, content, version FROM {self._dialect.table} LEFT JOIN {self._dialect.vectors} "
                f"ON item_id = id AND item_version = version WHERE deleted = 0 AND id > $1 AND {condition}",
                [after, value],
            )
            if not rows:
                return
            after = rows[-1]["id"]
            yield [(row["id"], row["content"], row["version"]) for row in rows]

    def _best(self, rows: Iterable[Any]) -> dict[str, Near]:
        compared = ((row["id"], row["cosine"], row["part"], row["parts"], row) for row in rows)
        return best_of_each(compared, self.weights.damping)

    async def _one_by_one(self, vector: Sequence[float], wanted: Filter, limit: int, columns: str | None) -> list[Any]:
        parameters = Parameters(self._dialect)
        given = f"{parameters.add(list(vector))}::real[]::{self._vector}"
        where = self._statements.conditions(parameters, wanted)
        last = self._dialect.limit(parameters, limit)
        damping = f"{float(self.weights.damping)!r}::double precision"
        # OFFSET 0 keeps the planner from using the vector index.
        inner = f"{self._dialect.item_columns}, {MOMENT}, added, part, parts"
        text = (
            f"SELECT {columns or _COLUMNS}, 1 - distance AS cosine, part, parts FROM ("
            f"SELECT {inner}, embedding {self._distance} {given} AS distance "
            f"FROM {self._dialect.table} JOIN {self._dialect.vectors} ON item_id = id AND item_version = version "
            f"WHERE {where} OFFSET 0) AS compared "
            f"ORDER BY (distance - 1) / power(parts, {damping}), created_at DESC, added DESC, part {last}"
        )
        return await self._server.fetch(text, parameters.values)

    async def _through_index(
        self, connection: Connection, vector: Sequence[float], wanted: Filter, limit: int, columns: str | None
    ) -> list[Any]:
        parameters = Parameters(self._dialect)
        given = f"{parameters.add(list(vector))}::real[]::{self._vector}"
        where = self._statements.conditions(parameters, wanted)
        cosine = f"1 - (embedding {self._distance} {given}) AS cosine"
        text = (
            f"SELECT {columns or self._dialect.item_columns}, {cosine}, part, parts "
            f"FROM {self._dialect.table} JOIN {self._dialect.vectors} ON id = item_id AND version = item_version "
            f"WHERE {where} ORDER BY embedding {self._distance} {given} LIMIT {limit}"
        )
        settings = {
            "iterative_scan": "strict_order",
            "ef_search": min(1000, max(100, 4 * limit)),
            "max_scan_tuples": 200_000,
            "scan_mem_multiplier": 4,
        }
        setting = "; ".join(f"SET LOCAL hnsw.{name} = {value}" for name, value in settings.items())
        async with self._server.transaction(connection):
            await connection.execute(setting, timeout=self._server.timeout)
            rows: list[Any] = await connection.fetch(text, *parameters.values, timeout=self._server.timeout)
        return rows
