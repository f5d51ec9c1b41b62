"""Forked sessions in SQLite: read through indexes, ranked like any other, and bounded for good."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import memoranda.sync
from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import SearchMode
from memoranda.store.backend import Filter, InBranch, Page
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_backend.sql import Statement
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_sqlite.dialect import register_functions
from memoranda_sqlite.statements import SQLiteStatements

STATEMENTS = SQLiteStatements()
ADA = MemoryMetadata(user_id="ada", session_id="s")


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteMemoryStore]:
    async with SQLiteMemoryStore(tmp_path / "m.db", embeddings=HashingEmbeddings()) as store:
        yield store


async def plan(store: SQLiteMemoryStore, path: Path, statement: Statement) -> str:
    await store.fill_indexes()
    connection = sqlite3.connect(path / "m.db")
    register_functions(connection)
    try:
        return "; ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement[0]}", statement[1]))
    finally:
        connection.close()


@pytest.mark.parametrize("order", ["created", "added"])
@pytest.mark.parametrize("archived", [False, True, None])
async def test_each_part_of_a_branch_is_read_in_order_through_an_index(
    store: SQLiteMemoryStore, tmp_path: Path, order: str, archived: bool | None
) -> None:
    branch = InBranch("branch-x", "ada", (("s", 10), ("t", 5)), archived)
    wanted = Filter(metadata=MemoryMetadata(user_id="ada"), archived=None, further=(branch,))
    found = await plan(store, tmp_path, STATEMENTS.search(wanted, Page(20, order=order)))  # type: ignore[arg-type]
    assert "SCAN memory_items" not in found
    assert "by_user" not in found
    # The few rows of all parts are sorted together; none of the parts is.
    assert found.count("TEMP B-TREE") <= 1
    assert found.count("SEARCH memory_items USING") == len(branch.sessions())


@pytest.mark.rare
@pytest.mark.parametrize("mode", ["text", "semantic", "hybrid"])
@pytest.mark.parametrize("size", [20, 1500])
async def test_a_ranking_of_a_branch_sees_its_past_and_no_more(
    store: SQLiteMemoryStore, mode: SearchMode, size: int
) -> None:
    said = [HumanMemory(content=f"tea number {number}", metadata=ADA) for number in range(size)]
    await store.add_many(said)
    branch = await store.fork("s", at=said[size // 2].id)
    there = MemoryMetadata(user_id="ada", session_id=branch)
    await store.add(HumanMemory(content="tea of the branch", metadata=there))
    shared = {item.id for item in said[: size // 2 + 1]}

    ranked = await store.search(query=f"tea number {size // 2}", metadata=there, mode=mode, memory_type="human")
    beyond = await store.search(query=f"tea number {size - 1}", metadata=there, mode=mode, limit=50)
    own = await store.search(query="tea of the branch", metadata=there, mode=mode, limit=50)

    assert ranked[0].id == said[size // 2].id
    assert {item.id for item in beyond if item.metadata.session_id == "s"} <= shared
    assert own[0].content == "tea of the branch"


@pytest.mark.parametrize("purged", [(0, 1, 2), (2,)])
async def test_a_file_that_is_written_anew_keeps_where_branches_end(tmp_path: Path, purged: tuple[int, ...]) -> None:
    path = tmp_path / "m.db"
    async with SQLiteMemoryStore(path) as store:
        said = [HumanMemory(content=f"{number}", metadata=ADA) for number in range(6)]
        await store.add_many(said)
        branch = await store.fork("s", at=said[4].id)
        for number in (*purged, 4):
            await store.purge(said[number].id)
        await store.erase(others=True)
    connection = sqlite3.connect(path)
    connection.execute("VACUUM")
    connection.close()
    async with SQLiteMemoryStore(path) as store:
        await store.add(HumanMemory(content="later", metadata=ADA))
        shown = await store.window(metadata=MemoryMetadata(user_id="ada", session_id=branch))
        assert [item.content for item in shown] == [f"{number}" for number in range(4) if number not in purged]


async def test_a_record_that_no_fork_made_shares_nothing(store: SQLiteMemoryStore, tmp_path: Path) -> None:
    secret = HumanMemory(content="secret", metadata=MemoryMetadata(user_id="bob", session_id="s"))
    await store.add_many([secret, HumanMemory(content="own", metadata=ADA)])
    fields = {"archived_by": "branch-x", "parent": "s", "at": secret.id, "at_created": secret.created_at}
    connection = sqlite3.connect(tmp_path / "m.db")
    for user in ("bob", "ada"):
        name = "branch-x" if user == "bob" else "branch-y"
        connection.execute(
            "INSERT INTO memory_items (id, content, memory_type, status, metadata, extra_json, created_at, updated_at) "
            "VALUES (?, '', 'branch', 'accepted', ?, ?, ?, ?)",
            (
                name,
                json.dumps({"user_id": user, "session_id": name, "task_id": None, "agent_id": None, "extra": {}}),
                json.dumps({**fields, "archived_by": name}),
                *[secret.created_at] * 2,
            ),
        )
    connection.commit()
    connection.close()

    for name in ("branch-x", "branch-y"):
        for reader in (store, store.scoped(session_id=name), store.scoped(user_id="ada"), store.scoped(user_id="bob")):
            assert await reader.window(metadata=MemoryMetadata(session_id=name)) == []
    records = [item async for item in store.scan(memory_type="branch")]
    assert [getattr(record, "at", None) for record in records] == ["", ""]


def test_a_session_is_forked_without_async(tmp_path: Path) -> None:
    with memoranda.sync.open(f"sqlite:///{tmp_path / 'm.db'}") as store:
        said = [HumanMemory(content=text, metadata=ADA) for text in ("a", "b")]
        store.add_many(said)
        branch = store.fork("s", at=said[0].id)
        store.scoped(user_id="ada", session_id=branch).add(HumanMemory(content="x"))
    with memoranda.sync.open(f"sqlite:///{tmp_path / 'm.db'}") as store:
        shown = store.scoped(user_id="ada", session_id=branch).window()
        assert [item.content for item in shown] == ["a", "x"]
