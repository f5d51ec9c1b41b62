"""The SDK's own tests of its sessions, run on ours: a plugin of pytest, ``-p sdk_suite`` in the SDK's source folder.

Wherever a test makes a session of the SDK's that keeps its items itself, it gets one of ours that takes the same
arguments. A test applies if it makes one and is left out, by what its text says, if it

- looks at a private name of the classes that ours stand for, or replaces what one stands for,
- talks to a database itself, or to tables of their layout,
- is about what those classes are made with: an engine, or names of tables,
- or is one of ``NATIVE``, whose expected value comes from a private method of theirs.

What the helpers and fixtures of the test's module say counts, too. Mocks and private names of other parts of the SDK
are no reason: those parts are the SDK's own here. The list of what is left out is printed, by these reasons.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import agents
import agents.extensions.memory
import agents.extensions.memory.async_sqlite_session
import agents.extensions.memory.encrypt_session  # It treats the SDK's own class in its own way, and must know that one.
import agents.extensions.memory.sqlalchemy_session
import agents.memory
import agents.memory.sqlite_session
import pytest

import memoranda
from memoranda.errors import StoreClosedError
from memoranda_openai_agents import MemorandaSession

SESSIONS = frozenset({"SQLiteSession", "AsyncSQLiteSession", "SQLAlchemySession"})
THEIRS = (
    agents.memory.sqlite_session,
    agents.extensions.memory.async_sqlite_session,
    agents.extensions.memory.sqlalchemy_session,
)
DATABASES = frozenset({"sqlite3", "aiosqlite", "sqlalchemy"})
BUILT = frozenset({"engine", "sessions_table", "messages_table"})
TABLES = ("agent_sessions", "agent_messages")
# Where a session is the SDK's own, wrappers check a token within its transaction, and tell stored items apart.
NATIVE = frozenset(
    {
        "test_automatic_compaction_rollback_budget",
        "test_encrypted_compaction_skips_unencrypted_stored_history",
        "test_encrypted_pop_cancellation_waits_for_authentication_rollback",
        "test_encrypted_pop_rechecks_authentication_after_expired_tail",
        "test_encrypted_pop_wrong_key_preserves_recoverable_history",
    }
)

PRIVATE_NAME = "looks at a private name of the SDK's classes"
DATABASE = "talks to a database or to the SDK's tables"
BY_PRIVATE_METHOD = "expects what the SDK does with its own classes alone, by a private method"
MADE_WITH = "is about what the SDK's classes are made with"


class StandIn(MemorandaSession):
    """A session of ours that is made as the SDK's own are: with a file's name, and opened when it is first used."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "sessions",
        messages_table: str = "messages",
        session_settings: Any = None,
    ) -> None:
        kept = str(db_path) != ":memory:"
        self._store = memoranda.open(f"sqlite:///{Path(db_path).resolve()}.memoranda" if kept else "memory://")
        self._opening = threading.Lock()
        self._open = False
        scope = self._store.scoped(namespace=(sessions_table, messages_table))
        super().__init__(session_id, scope, session_settings=session_settings)

    @classmethod
    def from_url(cls, session_id: str, *, url: str, session_settings: Any = None, **_: Any) -> StandIn:
        return cls(session_id, url.partition("///")[2] or ":memory:", session_settings=session_settings)

    def _ready(self) -> None:
        with self._opening:
            if not self._open:
                elsewhere(self._store.init())
                self._open = True


def opened(method: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
    @functools.wraps(method)
    async def call(self: StandIn, *args: Any, **kwargs: Any) -> Any:
        self._ready()
        try:
            return await method(self, *args, **kwargs)
        except StoreClosedError as error:
            raise RuntimeError(f"{type(self).__name__} is closed") from error  # The words of the SDK's own.

    return call


for _name in ("get_items", "add_items", "pop_item", "clear_session"):
    setattr(StandIn, _name, opened(getattr(MemorandaSession, _name)))


class SQLiteSession(StandIn):
    def close(self) -> None:
        self._ready()
        elsewhere(self._store.close())


class AsyncSQLiteSession(StandIn):
    async def close(self) -> None:
        self._ready()
        await self._store.close()


class SQLAlchemySession(AsyncSQLiteSession):
    pass


def elsewhere(work: Coroutine[Any, Any, Any]) -> None:
    """Do the work in an event loop and a thread of its own, as a program does that has neither."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


def pytest_configure(config: pytest.Config) -> None:
    """Use our sessions instead of the SDK's, before any test imports them."""
    agents.SQLiteSession = agents.memory.SQLiteSession = SQLiteSession  # type: ignore[misc]
    agents.memory.sqlite_session.SQLiteSession = SQLiteSession  # type: ignore[misc]
    agents.extensions.memory.AsyncSQLiteSession = AsyncSQLiteSession  # type: ignore[misc]
    agents.extensions.memory.SQLAlchemySession = SQLAlchemySession  # type: ignore[misc]
    agents.extensions.memory.sqlalchemy_session.SQLAlchemySession = SQLAlchemySession  # type: ignore[misc]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that apply, and print why each of the others that make a session does not."""
    kept, out, reasons = [], [], {}
    for item in items:
        reason = why_not(item)
        if reason is None:
            kept.append(item)
        else:
            out.append(item)
            if reason:
                reasons[item.nodeid.partition("[")[0]] = reason
    config.stash[LEFT_OUT] = reasons
    config.hook.pytest_deselected(items=out)
    items[:] = kept


LEFT_OUT: pytest.StashKey[dict[str, str]] = pytest.StashKey()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    reasons = config.stash.get(LEFT_OUT, {})
    terminalreporter.section(f"{len(reasons)} tests that make a session are left out")
    for reason in sorted(set(reasons.values())):
        names = sorted(name.rpartition("::")[2] for name, why in reasons.items() if why == reason)
        terminalreporter.write_line(f"{reason} ({len(names)}): {', '.join(names)}")


def why_not(item: pytest.Item) -> str | None:
    """Return why a test is left out, "" if it makes no session at all, None if it applies."""
    module = Module.of(Path(item.path))
    said = module.texts_of(getattr(item, "originalname", item.name))
    if SESSIONS.isdisjoint(name for text in said for name in names_in(text)):
        return ""
    if getattr(item, "originalname", item.name) in NATIVE:
        return BY_PRIVATE_METHOD
    return next((reason for text in said for reason in module.reasons_in(text)), None)


@functools.cache
def private_names() -> frozenset[str]:
    """Return the private names that the modules of the SDK's sessions define."""
    found: set[str] = set()
    for module in THEIRS:
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.attr if isinstance(node, ast.Attribute) else node.id)
    return frozenset(name for name in found if name.strip("_") and name.startswith("_") and not name.startswith("__"))


class Module:
    """What a module of tests says: its definitions by name, and which names stand for something that is not ours."""

    def __init__(self, tree: ast.Module) -> None:
        self.definitions: dict[str, ast.AST] = {}
        self.databases: set[str] = set()
        for text in tree.body:
            for one in (text, *(text.body if isinstance(text, ast.ClassDef) else ())):
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    self.definitions.setdefault(one.name, one)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._note_import(node)

    @staticmethod
    @functools.cache
    def of(path: Path) -> Module:
        return Module(ast.parse(path.read_text()))

    def _note_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for one in node.names:
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else one.name
            if module.partition(".")[0] in DATABASES:
                self.databases.add(one.asname or one.name.partition(".")[0])

    def texts_of(self, test: str) -> list[ast.AST]:
        """Return the definition of a test and those of its module that it uses, however indirectly."""
        wanted, found = [test], {}
        while wanted:
            text = self.definitions.get(wanted.pop())
            if text is not None and text not in found:
                found[text] = True
                wanted += names_in(text)
        return list(found)

    def reasons_in(self, text: ast.AST) -> Iterator[str]:
        """Yield what in a definition leaves its test out."""
        if not self.databases.isdisjoint(names_in(text)):
            yield DATABASE
        for node in ast.walk(text):
            written = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            named = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "arg", None)
            if (named or written) in private_names():
                yield PRIVATE_NAME
            elif any(table in written for table in TABLES):
                yield DATABASE
            elif named in BUILT and not isinstance(node, ast.Name):
                yield MADE_WITH


def names_in(text: ast.AST) -> Iterator[str]:
    """Yield the names that a definition uses, those of its fixtures among them."""
    for node in ast.walk(text):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
