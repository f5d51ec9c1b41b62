"""Run LlamaIndex's own tests of chat stores and memory on ours: ``python llama_index_suite.py --suite PATH [options]``.

PATH is the folder ``llama-index-core/tests`` of its repository, which no distribution has; options go to pytest.
Wherever a test makes the SQL chat store, by itself or as the default of ``Memory``, it gets ours, on a store in memory.
So does a test that brings a chat store of its own. A test is left out, and named with the reason, if it looks at the
tables of the SQL store, is about the arguments that store is made with, or makes no chat store at all.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import llama_index.core.memory.memory as memory_module
import llama_index.core.storage.chat_store.sql as sql_module
import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.base_db import MessageStatus

import memoranda
from memoranda_llama_index import MemorandaChatStore

MODULES = (
    "storage/chat_store/test_sql.py",
    "memory/test_memory_base.py",
    "memory/test_memory_blocks_base.py",
    "memory/test_memory_custom_chat_store.py",
    "memory/test_memory_read_concurrency.py",
)
REASONS = {
    r"_async_session_factory|_table\b|_async_engine|sqlalchemy": "looks at the tables of the SQL store",
    r"table_name ==|async_database_uri|db_schema|still_uses_sql": "is about what the SQL store is made with",
}
NEWER = {"test_concurrent_aput_does_not_over_archive": "Lock"}
"""Tests of what the installed release may not have yet, and a name that shows if its Memory has it."""

CHATS = re.compile(r"chat_store|memory\b|Memory\(|ChatStore|memory_with_blocks")


class StandIn(MemorandaChatStore):
    """A chat store of ours that is made as theirs are, and shows what it has as their tests look at it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        store = memoranda.open("memory://")
        elsewhere(store.init())
        super().__init__(store)

    @property
    def active(self) -> dict[str, list[ChatMessage]]:
        return self._by_key(MessageStatus.ACTIVE)

    @property
    def archived(self) -> dict[str, list[ChatMessage]]:
        return self._by_key(MessageStatus.ARCHIVED)

    def _by_key(self, status: MessageStatus) -> dict[str, list[ChatMessage]]:
        return {key: elsewhere(self.get_messages(key, status)) for key in elsewhere(self.get_keys())}


def elsewhere(work: Any) -> Any:
    """Do the work in an event loop and a thread of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class Instead:
    """Uses our chat store instead of theirs, and chooses the tests that apply."""

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}
        sql_module.SQLAlchemyChatStore = StandIn  # type: ignore[assignment, misc]
        memory_module.SQLAlchemyChatStore = StandIn  # type: ignore[assignment, misc]
        memory_module.Memory.model_fields["sql_store"].default_factory = StandIn
        memory_module.Memory.model_rebuild(force=True)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for module in {item.getparent(pytest.Module) for item in items}:
            if module is not None and hasattr(module.obj, "InMemoryChatStore"):
                module.obj.InMemoryChatStore = StandIn
                staggered = getattr(module.obj, "StaggeredArchiveChatStore", None)
                if staggered is not None:
                    staggered.__bases__ = (StandIn,)
        for item in items:
            if reason := why_not(item):
                self.left_out[item.name] = reason
        config.hook.pytest_deselected(items=[item for item in items if item.name in self.left_out])
        items[:] = [item for item in items if item.name not in self.left_out]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section(f"{len(self.left_out)} tests are left out")
        for name, reason in sorted(self.left_out.items()):
            terminalreporter.write_line(f"{name}: {reason}")


def why_not(item: pytest.Item) -> str | None:
    """Return why a test is left out; None if it applies."""
    text = inspect.getsource(item.function)  # type: ignore[attr-defined]  # a test of a function
    if item.name in NEWER and NEWER[item.name] not in inspect.getsource(memory_module.Memory):
        return "is about what the installed release does not have yet"
    for pattern, reason in REASONS.items():
        if re.search(pattern, text):
            return reason
    return None if CHATS.search(text) else "makes no chat store"


def main() -> int:
    """Run the modules that the copy has."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--suite", type=Path, required=True, help="the folder llama-index-core/tests of a copy")
    given, options = parser.parse_known_args()
    suite = given.suite.resolve()
    modules = [str(suite / name) for name in MODULES if (suite / name).is_file()]
    if not modules:
        parser.error(f"{suite} has none of {', '.join(MODULES)}.")
    settings = ["-c", "/dev/null", "--rootdir", str(suite), "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    return int(pytest.main([*settings, "--noconftest", "-q", *options, *modules], plugins=[Instead()]))


if __name__ == "__main__":
    sys.exit(main())
