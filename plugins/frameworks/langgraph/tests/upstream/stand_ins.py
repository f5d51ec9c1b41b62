"""LangGraph's own tests of its stores and savers, with memoranda's in their place: ``pytest -p stand_ins`` among them.

Their tests name their classes and open them by a connection string. Here stands, under each of these names, a
``MemorandaStore`` or a ``MemorandaSaver`` on the store that ``MEMORANDA_UPSTREAM_URL`` names (memory by default): one
place for each connection string. A test that never comes to one of them does not apply. One is left out, by this rule
and with its reason in the summary, if it

- looks at private names of the modules of these classes, or at the tables, statements and connections behind them (what
  only their set-up looks at has a stand-in, too),
- or is one of ``OTHERWISE``, which says what ours does instead.
"""

from __future__ import annotations

import ast
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import langgraph.checkpoint.sqlite
import langgraph.checkpoint.sqlite._delta
import langgraph.checkpoint.sqlite.aio
import langgraph.checkpoint.sqlite.utils
import langgraph.store.memory
import langgraph.store.postgres
import langgraph.store.postgres.aio
import langgraph.store.postgres.base
import langgraph.store.sqlite
import langgraph.store.sqlite.aio
import langgraph.store.sqlite.base
import psycopg
import pytest

import memoranda
import memoranda.sync
from memoranda.store import Store
from memoranda_langgraph import MemorandaSaver, MemorandaStore

URL_VARIABLE = "MEMORANDA_UPSTREAM_URL"
ONE_IN = 8

OTHERWISE = {
    "test_sql_injection_vulnerability": "a key is no part of a statement, so every key can be asked for",
    "test_checkpoint_search_sql_injection_prevention": "a key is no part of a statement, so every key can be asked for",
    "test_informative_async_errors": "one class has every method with async and without it",
}
THEIRS = (
    langgraph.store.memory,
    *(langgraph.store.sqlite.base, langgraph.store.sqlite.aio),
    *(langgraph.store.postgres.base, langgraph.store.postgres.aio),
    *(langgraph.checkpoint.sqlite, langgraph.checkpoint.sqlite.aio),
    *(langgraph.checkpoint.sqlite.utils, langgraph.checkpoint.sqlite._delta),
)
BEHIND = {
    *("conn", "MIGRATIONS", "VECTOR_MIGRATIONS", "BaseSqliteStore", "NS_MATCH_FUNCTION"),
    *("search_where", "DELTA_STAGE1_SQL"),
}
STORES = {
    "store",
    "vector_store",
    "InMemoryStore",
    "SqliteStore",
    "AsyncSqliteStore",
    "PostgresStore",
    "AsyncPostgresStore",
    "SqliteSaver",
    "AsyncSqliteSaver",
}


@cache
def _opened() -> Store:
    """Return the one store that all stand-ins share."""
    store = memoranda.open(os.environ.get(URL_VARIABLE) or "memory://")
    # The first test that needs it may be running an event loop, so it is opened from another thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(memoranda.sync.run, store.init()).result()
    return store


@cache
def _place(connection: str) -> str:
    return uuid.uuid4().hex


class StandIn(MemorandaStore):
    """A store in a place of its own, with what their classes have beside their interface."""

    MIGRATIONS: tuple[str, ...] = ()

    def __init__(self, place: str = "", *, index: Any = None, ttl: Any = None) -> None:
        index = index and {**index, "fields": index.get("fields") or index.get("text_fields")}
        user = uuid.uuid4().hex if place in ("", ":memory:") else _place(place)
        super().__init__(_opened().scoped(user_id=user), index=index, ttl=ttl)

    def setup(self) -> None: ...

    def sweep_ttl(self) -> int:
        return memoranda.sync.run(self._store.sweep())

    def start_ttl_sweeper(self) -> None: ...

    def stop_ttl_sweeper(self) -> None: ...

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        yield Nobody()

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str, *, index: Any = None, ttl: Any = None, **_: Any) -> Iterator[Any]:
        yield cls(conn_string, index=index, ttl=ttl)


class AsyncStandIn(StandIn):
    """The same for their classes with async."""

    async def setup(self) -> None: ...  # type: ignore[override]

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        return await self._store.sweep()

    async def start_ttl_sweeper(self) -> None: ...  # type: ignore[override]

    async def stop_ttl_sweeper(self) -> None: ...  # type: ignore[override]

    @asynccontextmanager  # type: ignore[override]
    async def _cursor(self) -> AsyncIterator[Any]:
        yield Nobody()

    @classmethod
    @asynccontextmanager  # type: ignore[override]
    async def from_conn_string(
        cls, conn_string: str, *, index: Any = None, ttl: Any = None, **_: Any
    ) -> AsyncIterator[Any]:
        yield cls(conn_string, index=index, ttl=ttl)


def as_theirs_by_default(ttl: Any) -> Any:
    """Return a configuration as their SQLite store takes it, where reading refreshes nothing unless it is said."""
    return ttl and {"refresh_on_read": False, **ttl}


class SqliteStore(StandIn):
    """In the place of their store in a file."""

    def __init__(self, place: str = "", *, index: Any = None, ttl: Any = None) -> None:
        super().__init__(place, index=index, ttl=as_theirs_by_default(ttl))


class AsyncSqliteStore(AsyncStandIn):
    """In the place of their store in a file, with async."""

    def __init__(self, place: str = "", *, index: Any = None, ttl: Any = None) -> None:
        super().__init__(place, index=index, ttl=as_theirs_by_default(ttl))


class InMemoryStore(StandIn):
    """In the place of their store in memory, which may be called without async inside a running loop, too."""

    def __init__(self, *, index: Any = None) -> None:
        super().__init__(index=index)

    def batch(self, ops: Any) -> list[Any]:
        with ThreadPoolExecutor(1) as thread:  # It has no loop, as whoever calls without async should have none.
            return thread.submit(super().batch, ops).result()


class SqliteSaver(MemorandaSaver):
    """In the place of their saver in a file."""

    def __init__(self, place: str = "", *, serde: Any = None) -> None:
        user = uuid.uuid4().hex if place in ("", ":memory:") else _place(place)
        super().__init__(_opened().scoped(user_id=user), serde=serde)

    def setup(self) -> None: ...

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Iterator[Any]:
        yield cls(conn_string)


class AsyncSqliteSaver(SqliteSaver):
    """The same for their class with async."""

    async def setup(self) -> None: ...  # type: ignore[override]

    @classmethod
    @asynccontextmanager  # type: ignore[override]
    async def from_conn_string(cls, conn_string: str) -> AsyncIterator[Any]:
        yield cls(conn_string)


class Nobody:
    """A connection to the server that their set-up prepares, and that nobody needs."""

    def __enter__(self) -> Nobody:
        return self

    def __exit__(self, *exc_info: object) -> None: ...

    async def __aenter__(self) -> Nobody:
        return self

    async def __aexit__(self, *exc_info: object) -> None: ...

    def __await__(self) -> Iterator[Any]:
        return self._itself().__await__()

    async def _itself(self) -> Nobody:
        return self

    def execute(self, *arguments: object) -> Nobody:
        return self


def pytest_configure(config: pytest.Config) -> None:
    """Put the stand-ins in their places before any test is imported."""
    langgraph.store.memory.InMemoryStore = InMemoryStore  # type: ignore[misc, assignment]
    for module in (langgraph.store.sqlite, langgraph.store.sqlite.aio):
        module.AsyncSqliteStore = AsyncSqliteStore  # type: ignore[attr-defined]
    langgraph.store.sqlite.SqliteStore = SqliteStore  # type: ignore[misc, assignment]
    for module in (langgraph.store.postgres, langgraph.store.postgres.aio):
        module.AsyncPostgresStore = AsyncStandIn  # type: ignore[attr-defined]
    langgraph.store.postgres.PostgresStore = StandIn  # type: ignore[misc, assignment]
    langgraph.checkpoint.sqlite.SqliteSaver = SqliteSaver  # type: ignore[misc, assignment]
    langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver = AsyncSqliteSaver  # type: ignore[misc, assignment]
    for connection in (psycopg.Connection, psycopg.AsyncConnection):
        connection.connect = lambda *_, **__: Nobody()  # type: ignore[method-assign, assignment, attr-defined]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for a sample."""
    parser.addoption("--sample", action="store_true", help=f"run one in {ONE_IN} of the tests that apply")


class Source:
    """The source of a module of tests, and what of it a test comes to."""

    def __init__(self, path: Path) -> None:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.functions = {
            node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        self.defined = {
            node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }

    def names(self, function: ast.AST, known: set[str], *, setup: bool = False) -> set[str]:
        """Return every name and attribute in a function and in the functions of its module that it names.

        Fixtures and context managers are followed only with ``setup``.
        """
        found = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        found |= {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
        found |= {node.name for node in ast.walk(function) if isinstance(node, ast.ClassDef)}
        for name in found & set(self.functions) - known:
            if setup or not self.functions[name].decorator_list:
                found |= self.names(self.functions[name], known | {name}, setup=setup)
        return found


@cache
def source(path: Path) -> Source:
    """Return the source of a module, read once."""
    return Source(path)


@cache
def private_names() -> frozenset[str]:
    """Return the private names that the modules of their stores and savers define."""
    found: set[str] = set()
    for module in THEIRS:
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.attr if isinstance(node, ast.Attribute) else node.id)
    return frozenset(name for name in found if name.strip("_") and name.startswith("_") and not name.startswith("__"))


def reason_to_leave_out(item: pytest.Function) -> str | None:
    """Return why a test is left out, "" if it never comes to a store or saver, or None if it applies."""
    name = item.originalname
    module = source(item.path)
    function = module.functions.get(name) or _method(item)
    names = module.names(function, {name})
    if names & (private_names() - module.defined | BEHIND):
        return "looks at private names, tables or connections"
    if not (module.names(function, {name}, setup=True) | set(item.fixturenames)) & STORES:
        return ""
    return f"OTHERWISE: {OTHERWISE[name]}" if name in OTHERWISE else None


def _method(item: pytest.Function) -> ast.AST:
    import inspect
    import textwrap

    return ast.parse(textwrap.dedent(inspect.getsource(item.function)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not apply, and say so in the end."""
    kept, out = [], []
    for item in items:
        assert isinstance(item, pytest.Function)
        reason = reason_to_leave_out(item)
        if reason is None:
            kept.append(item)
        elif reason:
            out.append((reason, item))
    told = [(reason, item.nodeid) for reason, item in out]
    config.stash[_OUT] = told
    if hasattr(config, "workeroutput"):
        config.workeroutput[_WORKER_OUT] = told
    items[:] = [item for at, item in enumerate(kept) if at % ONE_IN == 0] if config.getoption("sample") else kept


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what the workers left out; each of them leaves out the same."""
    node.config.stash[_OUT] = getattr(node, "workeroutput", {}).get(_WORKER_OUT) or node.config.stash.get(_OUT, [])


_WORKER_OUT = "memoranda_left_out"
_OUT = pytest.StashKey[list[tuple[str, str]]]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print what was left out, and how many tests that are."""
    out = config.stash.get(_OUT, [])
    terminalreporter.section(f"{len(out)} tests left out")
    for reason in sorted({reason for reason, _ in out}):
        names = sorted({nodeid.partition("[")[0].rpartition("::")[2] for why, nodeid in out if why == reason})
        count = sum(why == reason for why, _ in out)
        terminalreporter.write_line(f"{reason} ({count}): {', '.join(names)}")
