"""Counts that are cached between searches are those of the server, whoever wrote to it and whatever is open."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store.backend import Filter
from memoranda_postgres import PostgresMemoryStore, scope_counts
from memoranda_postgres.dialect import PostgresDialect, PostgresStatements
from memoranda_postgres.scope_counts import ScopeCounter, ScopeCounts, names_open_transactions
from memoranda_postgres.server import Server, ServerOptions
from memoranda_postgres.term_index import TermIndex
from memoranda_postgres.text_search import TextSearch
from memoranda_ranking import TurnCache

WRITERS = 3
ADA = MemoryMetadata(user_id="ada")
WORDS = ("amber", "birch", "cedar", "delta", "ember", "tea")
COPIED = "content, memory_type, status, metadata, extra_json, created_at, moment, user_id"
NONE_TWICE = " ON CONFLICT DO NOTHING"
COPY = f"INSERT INTO memory_items (id, {COPIED}) SELECT id || '+', {COPIED} FROM memory_items WHERE id = $1{NONE_TWICE}"
CHANGES = (
    "DELETE FROM memory_items WHERE id = $1",
    "UPDATE memory_items SET deleted = 1 - deleted WHERE id = $1",
    "UPDATE memory_items SET version = version + 1, content = 'tea' WHERE id = $1",
    "UPDATE memory_items SET user_id = CASE user_id WHEN 'ada' THEN 'bob' ELSE 'ada' END WHERE id = $1",
    "UPDATE memory_items SET archived = NOT archived WHERE id = $1",
    "UPDATE memory_items SET expires_at = '2024-05-04' WHERE id = $1",
    f"WITH written AS ({COPY} RETURNING added) INSERT INTO memory_unindexed SELECT ARRAY[added] FROM written",
)


class Listening(Server):
    """A server of which all that it was asked is known."""

    def __init__(self, url: str) -> None:
        super().__init__(ServerOptions(url, 1, 3, None, None, 20.0, 30.0))
        self.asked: list[str] = []

    async def fetch(self, text: str, values: Any) -> list[Any]:
        self.asked.append(text)
        return await super().fetch(text, values)


class Counting:
    """A database, and several who count a scope of it."""

    def __init__(self, url: str, server: Listening) -> None:
        self.url = url
        self._server = server
        self._statements = PostgresStatements(PostgresDialect("public"))
        self.index = TermIndex(server, self._statements)
        self.counts = self.another()

    def another(self) -> ScopeCounter:
        """Return one that knows nothing yet."""
        search = TextSearch(self._server, self._statements, self.index)
        return ScopeCounter(self._server, self._statements, self.index, search)

    async def counted(self, counts: ScopeCounter, day: int, *terms: str) -> ScopeCounts:
        """Return what is counted on a day."""
        return await counts.count(Filter.of(metadata=ADA, now=f"2024-05-{day:02}"), terms, TurnCache())

    async def looked_for(self, *terms: str) -> int:
        """Return how many terms the index is asked for in one count."""
        self._server.asked.clear()
        await self.counted(self.counts, 1, *terms)
        return sum(text.count("@>") for text in self._server.asked)

    async def change(self, text: str) -> None:
        """Change something by hand."""
        connection = await asyncpg.connect(self.url)
        await connection.execute(text)
        await connection.close()


@pytest_asyncio.fixture
async def counting(url: str) -> AsyncIterator[Counting]:
    drawn = random.Random(1)
    async with PostgresMemoryStore(url) as store:
        items = [
            HumanMemory(id=f"i{number}", content=" ".join(drawn.choices(WORDS, k=3)), metadata=ADA)
            for number in range(40)
        ]
        await store.add_many(items)
    server = Listening(url)
    await server.open()
    yield Counting(url, server)
    await server.close()


class Writer:
    """Somebody who changes rows that nobody else changes, and takes time to finish."""

    def __init__(self, number: int, connection: asyncpg.Connection) -> None:
        self._ids = [f"i{row}{more}" for row in range(number, 40, WRITERS) for more in ("", "", "+")]
        self._connection = connection
        self._under_way: Any = None

    async def go_on(self, drawn: random.Random) -> None:
        """Change a row, or finish what was begun."""
        if self._under_way is None:
            self._under_way = self._connection.transaction()
            await self._under_way.start()
        await self._connection.execute(drawn.choice(CHANGES), drawn.choice(self._ids))
        if drawn.random() < 0.6:
            await drawn.choice((self._under_way.commit, self._under_way.commit, self._under_way.rollback))()
            self._under_way = None


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.rare) for seed in range(1, 12))])
async def test_counts_are_the_same_as_if_nothing_was_known(
    counting: Counting, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope_counts, "MOST_RECENT", 10)
    monkeypatch.setattr(scope_counts, "MOST_TERMS", 5)
    drawn = random.Random(seed)
    connections = [await asyncpg.connect(counting.url) for _ in range(WRITERS)]
    writers = [Writer(number, connection) for number, connection in enumerate(connections)]
    day = 1
    for _ in range(150):
        for _ in range(drawn.choice((0, 1, 1, 3))):
            await drawn.choice(writers).go_on(drawn)
        day += drawn.random() < 0.05
        if drawn.random() < 0.1:
            await counting.index.fill(drawn.randint(1, 20))
        terms = drawn.sample(WORDS, drawn.randint(1, 3))
        kept = [await counting.counted(counting.counts, day, *terms) for _ in range(2)]
        assert kept == [await counting.counted(counting.another(), day, *terms)] * 2
    for connection in connections:
        await connection.close()


async def test_where_nothing_is_written_only_unknown_terms_are_looked_for(counting: Counting) -> None:
    assert await counting.looked_for("amber", "tea") == 2
    assert await counting.looked_for("amber", "tea") == 0
    assert await counting.looked_for("amber", "birch") == 1
    assert await counting.looked_for("birch", "tea") == 0


async def test_an_insert_makes_no_known_term_be_looked_for_again(counting: Counting) -> None:
    await counting.looked_for("amber", "tea")
    await counting.change(CHANGES[-1].replace("$1", "'i7'"))
    assert await counting.looked_for("amber", "tea") == 0


async def test_after_a_removal_all_terms_are_looked_for_again(counting: Counting) -> None:
    await counting.looked_for("amber", "tea")
    await counting.change("DELETE FROM memory_items WHERE id = 'i7'")
    assert await counting.looked_for("amber", "tea") == 2
    assert await counting.looked_for("amber", "tea") == 0


async def test_each_search_counts_by_its_own_time_in_whichever_order_they_come(counting: Counting) -> None:
    before = await counting.counted(counting.counts, 1, "tea")
    await counting.change("UPDATE memory_items SET expires_at = '2024-05-02' WHERE id < 'i2'")
    later = await counting.counted(counting.counts, 2, "tea")
    assert later.total < before.total
    assert await counting.counted(counting.counts, 1, "tea") == before
    assert await counting.counted(counting.counts, 2, "tea") == later


@pytest.mark.parametrize(("snapshot", "complete"), [("7:7:", True), ("7:9:7,8", True), ("7:9:", False)])
def test_a_snapshot_of_a_standby_does_not_list_open_transactions(snapshot: str, complete: bool) -> None:
    assert names_open_transactions(snapshot) is complete
