"""What ranked searches keep follows what the file has."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.embeddings import Embeddings
from memoranda.store import SearchMode
from memoranda.store.backend import Expiry, Filter
from memoranda.store.lifetimes import Lifetimes
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_backend.sql import Parameters
from memoranda_sqlite import SQLiteMemoryStore, scope_cache
from memoranda_sqlite.journal import MOST_FOLLOWED, Changes
from memoranda_sqlite.scope_cache import Scope, ScopeCache
from memoranda_sqlite.statements import SQLiteStatements

ADA = MemoryMetadata(user_id="ada")
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "jetty", "tea", "green")
# As another program does it, which knows ten columns.
REPLACE = (
    "INSERT OR REPLACE INTO memory_items "
    "(id, content, memory_type, status, metadata, extra_json, created_at, updated_at)"
)


@pytest.mark.parametrize("mode", ["text", "semantic", "hybrid"])
async def test_ranked_searches_follow_what_is_added_deleted_and_expires(tmp_path: Path, mode: SearchMode) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db", embeddings=HashingEmbeddings()) as store:

        async def found() -> set[str]:
            return {hit.item.id for hit in await store.search_ranked(query="green tea", metadata=ADA, mode=mode)}

        await store.add(HumanMemory(id="stays", content="green tea", metadata=ADA))
        await store.add(HumanMemory(id="mortal", content="green tea too", metadata=ADA), ttl=3600)
        assert await found() == {"stays", "mortal"} == await found()
        await store.add(HumanMemory(id="later", content="more green tea", metadata=ADA))
        assert await found() == {"stays", "mortal", "later"}
        await store.delete("later")
        assert await found() == {"stays", "mortal"}
        store.clock = lambda: time.time() + 7200
        assert await found() == {"stays"}


async def test_a_branch_shows_what_its_summary_stands_for_while_that_is_gone(tmp_path: Path) -> None:
    """Only the summary's row changes, and with it what the branch shows of its past."""
    session = MemoryMetadata(session_id="trip")
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add(HumanMemory(id="summary", content="green tea", metadata=session))
        await store.add(HumanMemory(id="cup", content="a cup of green tea", metadata=session, archived_by="summary"))
        branch = MemoryMetadata(session_id=await store.fork("trip", at="cup"))

        async def found() -> set[str]:
            return {hit.item.id for hit in await store.search_ranked(query="green tea", metadata=branch, mode="text")}

        assert await found() == {"summary"}
        await store.delete("summary")
        assert await found() == {"cup"}
        await store.restore("summary")
        assert await found() == {"summary"}
        await store.purge("summary")
        assert await found() == {"cup"}


@pytest.mark.parametrize("query", ["", "green tea"])
async def test_what_matches_a_filter_follows_every_change_of_an_item(tmp_path: Path, query: str) -> None:
    """It is kept from one search to the next, also by another store of the file."""
    async with SQLiteMemoryStore(tmp_path / "a.db") as store, SQLiteMemoryStore(tmp_path / "a.db") as other:
        accepted = {"status": "accepted"}

        async def found(where: dict[str, Any]) -> set[str]:
            return {item.id for item in await store.recall(query, metadata=ADA, where=where, min_score=0, limit=20)}

        items = [HumanMemory(id=name, content=f"I like green tea of {name}", metadata=ADA) for name in ("Assam", "Uji")]
        await store.add_many(items)
        await store.add(HumanMemory(id="mortal", content="I have green tea until noon", metadata=ADA), ttl=3600)
        assert await found(accepted) == {"Assam", "Uji", "mortal"} == await found(accepted)
        await other.add(items[0].model_copy(update={"status": "discard"}))
        assert await found(accepted) == {"Uji", "mortal"}
        assert await found({"status": "discard"}) == {"Assam"}
        store.clock = lambda: time.time() + 7200
        assert await found(accepted) == {"Uji"}
        await other.add(items[0])
        assert await found(accepted) == {"Assam", "Uji"}


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_kept_of_filters_is_what_a_new_store_reads(tmp_path: Path, seed: int) -> None:
    """Only rows that are new since the last search are asked about; every change makes a row a new one."""
    chance = random.Random(seed)
    filters: list[dict[str, Any]] = [{"status": "accepted"}, {"status": "discard"}, {"name": "Ada"}]

    async def found(store: SQLiteMemoryStore) -> list[list[str]]:
        results = [await store.recall("green tea", metadata=ADA, where=each, min_score=0, limit=60) for each in filters]
        return [[item.id for item in result] for result in results]

    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        for step in range(40):
            item = HumanMemory(
                id=f"m{chance.randrange(12)}",
                content=f"green tea {' '.join(chance.choices(WORDS, k=3))}",
                status=chance.choice(["accepted", "discard"]),
                name=chance.choice(["Ada", None]),
                metadata=ADA,
            )
            how = chance.choice(["add", "add", "delete", "restore", "purge"])
            if how == "add":
                await store.purge(item.id)
                await store.add(item)
            else:
                await getattr(store, how)(item.id)
            if step % 4 == 3:
                async with SQLiteMemoryStore(tmp_path / "a.db") as new:
                    assert await found(store) == await found(new)


class Noting(ScopeCache):
    """A cache that notes whether it read a scope or followed its changes."""

    def __init__(self) -> None:
        super().__init__(SQLiteStatements(), 60, 0)
        self.done: list[str] = []

    def _read(self, connection: sqlite3.Connection, scope: Scope, wanted: Filter) -> None:
        self.done.append("read")
        super()._read(connection, scope, wanted)

    def _follow(self, connection: sqlite3.Connection, scope: Scope, wanted: Filter, changes: Changes) -> bool:
        self.done.append("followed")
        return super()._follow(connection, scope, wanted, changes)


class Numbers:
    """The numbers of Ada's rows, read or followed through one connection, and which of both was done."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.kept = Noting()

    @property
    def done(self) -> list[str]:
        return self.kept.done

    def asked(self, now: str = "2024") -> set[int]:
        wanted = Filter(metadata=ADA, further=(Expiry(now),))
        parameters = Parameters(SQLiteStatements().dialect)
        text = f"SELECT rowid FROM memory_items WHERE {SQLiteStatements().conditions(parameters, wanted)}"
        there = {number for (number,) in self.connection.execute(text, parameters.values)}
        self.connection.execute("BEGIN")
        with self.kept.of(self.connection, [wanted]) as (scope,):
            assert set(scope.arrays.rows) == there == set(scope.arrays.layout.numbers.tolist())
        self.connection.execute("COMMIT")
        return there

    def change(self, text: str) -> None:
        self.connection.execute(text)


@pytest.fixture
async def numbers(tmp_path: Path) -> AsyncIterator[Numbers]:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(content=f"{n}", metadata=ADA) for n in range(20)])
        await store.add(HumanMemory(content="x", metadata=ADA, expires_at="2930-01-01"))
    found = Numbers(tmp_path / "a.db")
    yield found
    found.connection.close()


def test_what_has_not_changed_is_read_once_though_time_passes(numbers: Numbers) -> None:
    assert [len(numbers.asked(now)) for now in ("2024", "2025", "2931", "2932", "2026")] == [21, 21, 20, 20, 21]
    # What has expired is a change; a clock that was set back makes all uncertain.
    assert numbers.done == ["read", "followed", "read"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE memory_items SET status = 'draft' WHERE rowid < 5",
        "UPDATE memory_items SET deleted = 1 WHERE rowid IN (3, 7)",
        "DELETE FROM memory_items WHERE rowid = 21",
        "UPDATE memory_items SET metadata = '{}' WHERE rowid = 2",
    ],
)
def test_of_what_has_changed_the_changed_rows_alone_are_looked_at(numbers: Numbers, change: str) -> None:
    numbers.asked()
    numbers.change(change)
    numbers.asked()
    assert numbers.done == ["read", "followed"]


async def test_a_new_row_that_has_the_number_of_one_that_is_gone_is_seen(numbers: Numbers, tmp_path: Path) -> None:
    numbers.asked()
    numbers.change("DELETE FROM memory_items WHERE rowid >= 20")
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(content="bob's", metadata=MemoryMetadata(user_id="bob")) for _ in range(2)])
        await store.add(HumanMemory(content="ada's", metadata=ADA))
    assert {20, 21, 22} & numbers.asked() == {22}
    assert numbers.done == ["read", "followed"]


@pytest.mark.parametrize(
    "change",
    [
        "VACUUM",
        "CREATE TABLE notes (text)",
        "UPDATE memory_items SET rowid = 1000 WHERE rowid = 3",
        f"{REPLACE} SELECT id, 'new', memory_type, status, '{{}}', '{{}}', created_at, '' FROM memory_items LIMIT 1",
    ],
)
def test_all_is_read_again_where_the_journal_does_not_tell_all(numbers: Numbers, change: str) -> None:
    numbers.asked()
    numbers.change(change)
    numbers.asked()
    assert numbers.done == ["read", "read"]


def test_all_is_read_again_after_more_changes_than_the_journal_holds(numbers: Numbers) -> None:
    numbers.asked()
    for _ in range(MOST_FOLLOWED // 20):
        numbers.connection.execute("UPDATE memory_items SET status = 'draft'")
    numbers.change("UPDATE memory_items SET status = 'accepted'")
    numbers.asked()
    ((held,),) = numbers.connection.execute("SELECT count(*) FROM memoranda_journal")
    assert numbers.done == ["read", "read"]
    assert held < 2 * MOST_FOLLOWED


class Histories:
    """A random history of a file that several stores and another program write, and what searches find in it."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.random = random.Random(seed)
        self.now = 1_700_000_000.0
        self.added = 0

    def store(self, embeddings: Embeddings | None = None) -> SQLiteMemoryStore:
        store = SQLiteMemoryStore(self.path, durability="normal", embeddings=embeddings or HashingEmbeddings())
        store.clock = lambda: self.now
        return store

    def item(self, **fields: Any) -> HumanMemory:
        self.added += 1
        place = MemoryMetadata(user_id=self.random.choice(("ada", "ada", "bob")), session_id=self.random.choice("st"))
        when = f"2024-05-{self.random.randint(1, 28):02}T10:00:00.{self.added:06}+00:00"
        words = " ".join(self.random.choices(WORDS, k=self.random.choice((3, 5, 90))))
        made = {"id": f"i{self.added}", "content": words, "metadata": place, "created_at": when} | fields
        return HumanMemory(name=self.random.choice((None, "Grace", "Linus")), **made)

    async def step(self, stores: Sequence[SQLiteMemoryStore]) -> None:
        """Change something through any store, or past all of them."""
        store, known = self.random.choice(stores), f"i{self.random.randint(1, self.added)}"
        match self.random.randrange(10):
            case 0 | 1 | 2:
                await store.add_many([self.item() for _ in range(self.random.choice((1, 1, 7)))])
            case 3:
                await store.add(self.item(), ttl=30)
            case 4:
                held = await store.get(known)
                if held is not None:
                    await store.add(self.item(id=known, metadata=held.metadata))
            case 5:
                await store.delete(known)
            case 6:
                await store.purge(known)
            case 7:
                await store.restore(known)
            case 8:
                self.now += self.random.choice((20, 20, -25))
            case 9:
                self.past_the_stores(known)

    def past_the_stores(self, known: str) -> None:
        change = self.random.choice(
            (
                "UPDATE memory_items SET content = 'amber tea', version = version + 1",
                "DELETE FROM memory_items",
                f"{REPLACE} SELECT id, 'tea', memory_type, status, metadata, '{{}}', created_at, '' FROM memory_items",
            )
        )
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
            connection.execute(f"{change} WHERE id = ?", (known,))

    async def found(self, store: SQLiteMemoryStore, query: str, mode: SearchMode) -> list[tuple[str, float]]:
        ranked = await store.search_ranked(query=query, metadata=ADA, mode=mode, limit=1000)
        return sorted((hit.item.id, round(hit.score, 4)) for hit in ranked)


@pytest.mark.parametrize(
    ("seed", "whole_scope"),
    [
        (0, 1_000),
        (1, 50),
        *(pytest.param(seed, bound, marks=pytest.mark.rare) for seed in range(2, 12) for bound in (1_000, 50, 10)),
    ],
)
async def test_what_is_kept_finds_what_a_store_finds_that_was_just_opened(
    tmp_path: Path, seed: int, whole_scope: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope_cache, "WHOLE_SCOPE", whole_scope)
    monkeypatch.setattr(scope_cache, "MOST_BYTES", 1_000 * whole_scope)  # Room for some of the scopes.
    monkeypatch.setattr(Lifetimes, "is_to_sweep", lambda *_: False)  # A clock that is set back shows it all again.
    history = Histories(tmp_path / "a.db", seed)
    async with history.store() as one, history.store() as other, SQLiteMemoryStore(history.path) as unembedded:
        unembedded.clock = one.clock
        await one.add_many([history.item() for _ in range(60)])
        for _ in range(20):
            for _ in range(history.random.choice((0, 1, 1, 3))):
                await history.step((one, other, unembedded))
            query = f"{' '.join(history.random.choices(WORDS, k=2))} {history.random.choice(('Grace', 'walked'))}"
            mode = history.random.choice(("text", "semantic", "hybrid"))
            async with history.store() as fresh:
                expected = await history.found(fresh, query, mode)
                if history.random.random() < 0.1:
                    await fresh.reindex()  # And make the vectors that a store without an embedder left out.
                    expected = await history.found(fresh, query, mode)
            assert [await history.found(store, query, mode) for store in (one, other)] == [expected, expected]
