"""Every question is answered through an index that leads to its rows, in their order where it has one."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Order
from memoranda.store.backend import Archived, Created, Expiry, FieldEquals, Filter, Listing, Page, Value
from memoranda.windowing import STAYING
from memoranda_backend.sql import ITEM_COLUMNS, PAYLOAD_COLUMNS, Statement
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_sqlite.dialect import register_functions
from memoranda_sqlite.searching import find_rows
from memoranda_sqlite.statements import SQLiteStatements, only_staying

SCOPES = [
    MemoryMetadata(),
    MemoryMetadata(user_id="u"),
    MemoryMetadata(session_id="s"),
    MemoryMetadata(user_id="u", session_id="s"),
    MemoryMetadata(user_id="u", session_id="s", task_id="t", agent_id="a"),
    MemoryMetadata(task_id="t"),
    MemoryMetadata(agent_id="a"),
]
STATEMENTS = SQLiteStatements()
NOW = "2024-05-01T10:00:00.000000+00:00"
LATER = "2025-05-01T10:00:00.000000+00:00"
ALIVE = Expiry(NOW)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("plans") / "a.db"

    async def create() -> None:
        async with SQLiteMemoryStore(path):
            pass

    asyncio.run(create())
    opened = sqlite3.connect(path)
    register_functions(opened)
    yield opened
    opened.close()


def plan(connection: sqlite3.Connection, statement: Statement) -> str:
    text, values = statement
    return "; ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", values))


@pytest.mark.parametrize("archived", [False, None])
def test_what_every_window_of_a_session_shows_has_an_index_of_its_own(
    connection: sqlite3.Connection, archived: bool | None
) -> None:
    """A session has few system items and summaries, however long it is."""
    staying = Value("memory_type", False, "$in", list(STAYING))
    wanted = Filter("", MemoryMetadata(user_id="u", session_id="s"), archived=archived, further=(ALIVE, staying))
    found = plan(connection, STATEMENTS.search(wanted, Page(order="added")))
    assert "memory_items_by_staying (session_id=?" in found


@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("kind", [None, "summary", ("human", "system")], ids=repr)
def test_the_statement_of_what_stays_is_that_of_the_filter_with_this_condition(
    archived: bool, kind: str | tuple[str, ...] | None
) -> None:
    staying = Value("memory_type", False, "$in", list(STAYING))
    for scope in SCOPES:
        if scope.session_id is not None:
            wanted = Filter("", scope, kind, archived=archived, further=(Created(NOW, LATER), ALIVE))
            page = STATEMENTS.search(wanted, Page(20, order="added"))
            text, values = STATEMENTS.search(wanted.also(staying), Page(7, order="added"))
            assert only_staying(page, 7) == (text, values)


@given(st.data())
def test_a_statement_is_the_same_whatever_was_asked_before(data: st.DataObject) -> None:
    names = st.none() | st.sampled_from(["a", "b", "c"])
    scope = data.draw(st.builds(MemoryMetadata, user_id=names, session_id=names, task_id=names, agent_id=names))
    further = data.draw(
        st.lists(
            st.sampled_from([ALIVE, Expiry(LATER), Expiry(NOW, expired=True), FieldEquals("id", "d"), Archived(True)]),
            max_size=2,
        )
    )
    wanted = Filter(
        data.draw(st.sampled_from(["", "tea", "é"])),
        scope,
        data.draw(st.sampled_from([None, "human", "ai"])),
        archived=data.draw(st.sampled_from([None, False, True])),
        further=tuple(further),
    )
    orders: tuple[Order, ...] = ("created", "updated", "added")
    page = Page(data.draw(st.integers(1, 3)), data.draw(st.integers(0, 1)), data.draw(st.sampled_from(orders)))
    columns = data.draw(st.sampled_from([ITEM_COLUMNS, PAYLOAD_COLUMNS]))

    assert STATEMENTS.search(wanted, page, columns) == SQLiteStatements().search(wanted, page, columns)
    assert STATEMENTS.search(wanted, page, columns) == STATEMENTS.search(wanted, page, columns)


@pytest.mark.parametrize("scope", SCOPES, ids=repr)
@pytest.mark.parametrize("archived", [False, True])
def test_every_scope_is_read_in_order_through_an_index(
    connection: sqlite3.Connection, scope: MemoryMetadata, archived: bool
) -> None:
    wanted = Filter(metadata=scope, archived=archived, further=(ALIVE,))
    for statement in (
        STATEMENTS.search(wanted, Page(20)),
        STATEMENTS.search(wanted.also(Created(NOW, LATER)), Page(20, 40)),
        STATEMENTS.page(wanted, after=None, size=20),
        STATEMENTS.page(wanted, after=(5_000_000, 5), size=20),
    ):
        found = plan(connection, statement)
        assert "SEARCH memory_items USING" in found
        assert "TEMP B-TREE" not in found


@pytest.mark.parametrize("scope", SCOPES[2:5], ids=repr)
def test_a_session_is_read_by_its_own_index_whatever_else_is_named(
    connection: sqlite3.Connection, scope: MemoryMetadata
) -> None:
    wanted = Filter(metadata=scope, further=(ALIVE,))
    for statement in (STATEMENTS.search(wanted, Page(20)), STATEMENTS.page(wanted, after=None, size=20)):
        assert "USING INDEX memory_items_by_session (session_id=? AND state=?)" in plan(connection, statement)
    assert "(session_id=? AND state=?)" in plan(connection, STATEMENTS.count(wanted))


@pytest.mark.parametrize("scope", SCOPES[2:5], ids=repr)
def test_a_session_is_read_in_the_order_of_adding_through_an_index(
    connection: sqlite3.Connection, scope: MemoryMetadata
) -> None:
    wanted = Filter(metadata=scope, further=(ALIVE,))
    for statement in (
        STATEMENTS.search(wanted, Page(20, order="added")),
        STATEMENTS.page(wanted, after=None, size=20, order="added"),
        STATEMENTS.page(wanted, after=("", 5), size=20, order="added"),
    ):
        found = plan(connection, statement)
        assert "USING INDEX memory_items_by_added (session_id=? AND state=?" in found
        assert "TEMP B-TREE" not in found


@pytest.mark.parametrize("order", ["created", "added"])
def test_the_head_of_a_session_is_the_first_row_of_two_indexes(connection: sqlite3.Connection, order: Order) -> None:
    """What is shown and what is archived are each in order; of both together two rows are compared."""
    wanted = Filter(metadata=SCOPES[3], archived=None, further=(ALIVE, Value("memory_type", False, "$ne", "summary")))
    found = plan(connection, STATEMENTS.search(wanted, Page(1, order=order)))
    index = "by_added" if order == "added" else "by_session"
    assert found.count(f"SEARCH memory_items USING INDEX memory_items_{index} (session_id=? AND state=?") == 2
    assert "SCAN memory_items" not in found


def test_a_user_is_read_in_the_order_of_adding_from_the_index_alone(connection: sqlite3.Connection) -> None:
    wanted = Filter(metadata=SCOPES[1], further=(ALIVE,))
    found = plan(connection, STATEMENTS.search(wanted, Page(20, order="added")))
    assert "USING COVERING INDEX memory_items_by_user (user_id=? AND state=?)" in found


@pytest.mark.parametrize("order", ["created", "added"])
def test_a_namespace_is_chosen_from_its_index_alone(connection: sqlite3.Connection, order: Order) -> None:
    wanted = Filter(metadata=MemoryMetadata(namespace=("users", "ada")), further=(ALIVE,))
    found = plan(connection, STATEMENTS.search(wanted, Page(20, order=order)))
    assert "USING COVERING INDEX memory_items_by_namespace (namespace>? AND namespace<?)" in found
    assert "SCAN" not in found


@pytest.mark.parametrize("order", ["created", "added", "updated"])
@pytest.mark.parametrize("user", [None, "u"])
def test_a_namespace_is_led_to_by_its_own_index_whoever_asks_and_in_any_order(
    connection: sqlite3.Connection, order: Order, user: str | None
) -> None:
    scope = MemoryMetadata(user_id=user, namespace=("users", "ada"))
    index = "by_namespace (" if user is None else "by_user_namespace (user_id=? AND "
    for further in ((ALIVE,), (ALIVE, FieldEquals("memory_type", "human"))):
        found = plan(connection, STATEMENTS.search(Filter(metadata=scope, further=further), Page(20, order=order)))
        assert f"INDEX memory_items_{index}namespace>? AND namespace<?)" in found
        assert "SCAN" not in found


def test_the_namespaces_of_a_user_are_listed_and_counted_from_an_index_alone(connection: sqlite3.Connection) -> None:
    wanted = Filter(metadata=MemoryMetadata(user_id="u"), archived=None, further=(ALIVE,))
    below = Filter(metadata=MemoryMetadata(user_id="u", namespace=("a",)), archived=None, further=(ALIVE,))
    for statement in (
        STATEMENTS.owners_after(Listing("namespace"), wanted, None, 100),
        STATEMENTS.owners_after(Listing("namespace"), below, b"x", 100),
        STATEMENTS.count(below),
    ):
        found = plan(connection, statement)
        assert "USING COVERING INDEX memory_items_by_user_namespace (user_id=?" in found
        assert "TEMP B-TREE" not in found


@pytest.mark.parametrize("scope", SCOPES, ids=repr)
@pytest.mark.parametrize("purge", [True, False])
def test_what_a_batch_removes_is_found_by_its_ids(
    connection: sqlite3.Connection, scope: MemoryMetadata, purge: bool
) -> None:
    found = plan(connection, STATEMENTS.removing(Filter(metadata=scope, archived=None), ["a", "b"], purge=purge))
    assert "INDEX sqlite_autoindex_memory_items_1 (id=?)" in found
    assert "memory_items_by_" not in found


@pytest.mark.parametrize("user", [None, "u"])
@pytest.mark.parametrize("listing", [Listing("namespace", counts=False), Listing("namespace", 2, counts=False)])
def test_namespaces_that_nobody_counts_are_one_step_each(
    connection: sqlite3.Connection, listing: Listing, user: str | None
) -> None:
    wanted = Filter(metadata=MemoryMetadata(user_id=user), archived=None, further=(ALIVE,))
    index = "by_namespace (" if user is None else "by_user_namespace (user_id=? AND "
    for last in (None, b"x"):
        found = plan(connection, STATEMENTS.namespaces_after(listing, wanted, last, 100))
        assert found.count(f"SEARCH memory_items USING INDEX memory_items_{index}namespace>?)") == 2
        assert "TEMP B-TREE" not in found


@pytest.mark.parametrize("by", ["user_id", "session_id", "task_id", "agent_id", "namespace"])
def test_owners_are_listed_from_an_index_alone(connection: sqlite3.Connection, by: str) -> None:
    wanted = Filter(archived=None, further=(ALIVE,))
    listing = Listing(by)  # type: ignore[arg-type]  # one of the parameters above
    for last in (None, b"x"):
        found = plan(connection, STATEMENTS.owners_after(listing, wanted, last, 100))
        assert f"USING COVERING INDEX memory_items_by_{by.removesuffix('_id')}" in found
        assert "TEMP B-TREE" not in found


@pytest.mark.parametrize("scope", [SCOPES[0], SCOPES[1], SCOPES[5], SCOPES[6]], ids=repr)
def test_items_are_counted_from_an_index_alone(connection: sqlite3.Connection, scope: MemoryMetadata) -> None:
    found = plan(connection, STATEMENTS.count(Filter(metadata=scope, archived=None, further=(ALIVE,))))
    assert "USING COVERING INDEX" in found


def test_what_has_expired_is_found_by_its_index(connection: sqlite3.Connection) -> None:
    wanted = Filter(archived=None, further=(Expiry(NOW, expired=True),))
    assert "memory_items_by_expiry (expires_at<?)" in plan(connection, STATEMENTS.purge(wanted))


def test_several_items_are_found_by_their_ids(connection: sqlite3.Connection) -> None:
    ids = Value("id", False, "$in", ["a", "b"])
    for statement in (STATEMENTS.get_many(["a", "b"]), STATEMENTS.purge(Filter(archived=None, further=(ids,)))):
        assert "sqlite_autoindex_memory_items_1 (id=?)" in plan(connection, statement)


def test_a_session_whose_name_many_users_share_is_read_through_its_user(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    mine = MemoryMetadata(user_id="ada", session_id="default")

    async def fill() -> None:
        async with SQLiteMemoryStore(path) as store:
            others = [MemoryMetadata(user_id=f"u{number}", session_id="default") for number in range(300)]
            await store.add_many([HumanMemory(content="x", metadata=metadata) for metadata in (mine, *others)])

    asyncio.run(fill())
    opened = sqlite3.connect(path)
    statements: list[str] = []
    opened.set_trace_callback(statements.append)
    rows = find_rows(opened, STATEMENTS, Filter(metadata=mine), Page(20), indexed=True)
    opened.set_trace_callback(None)
    (read,) = [text for text in statements if "content" in text]
    assert "memory_items_by_user (user_id=? AND state=?)" in plan(opened, (read, ()))
    assert len(rows) == 1
    opened.close()
