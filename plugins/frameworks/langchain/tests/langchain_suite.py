"""Run LangChain's own tests of histories and retrievers on ours: ``python langchain_suite.py --suite PATH [options]``.

PATH is the source of a release of ``langchain-core``: its source distribution, unpacked, has the tests. Options go to
pytest. Wherever a test makes the history in memory, it gets ours, on a store in memory. A test is left out, and named
with the reason, if it is about the documentation of that class, or makes none. The retriever passes the tests of
``langchain_tests``, which must be installed.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import langchain_core.chat_history
import pytest
from langchain_core.messages import BaseMessage
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

import memoranda
import memoranda.sync
from memoranda import HumanMemory
from memoranda_langchain import MemorandaChatMessageHistory, MemorandaRetriever

MODULES = ("tests/unit_tests/runnables/test_history.py", "tests/unit_tests/chat_history/test_chat_history.py")


class StandIn(MemorandaChatMessageHistory):
    """A history of ours that is made and compared as LangChain's own, and read inside a running event loop, too."""

    def __init__(self, messages: Sequence[BaseMessage] = ()) -> None:
        store = memoranda.open("memory://")
        elsewhere(store.init())
        super().__init__("chat", store)
        elsewhere(self.aadd_messages(messages))

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # as in the class itself
        found: list[BaseMessage] = elsewhere(self.aget_messages())
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StandIn) and other.messages == self.messages

    __hash__ = None  # type: ignore[assignment]  # as LangChain's own


def elsewhere(work: Any) -> Any:
    """Do the work in an event loop and a thread of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class TestRetriever(RetrieversIntegrationTests):
    """The tests of retrievers that LangChain has for integrations."""

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return MemorandaRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        store = memoranda.sync.open("memory://")
        store.init()
        store.add_many([HumanMemory(content=f"Flat number {number} is in Oslo.") for number in range(5)])
        return {"store": store, "k": 2}

    @property
    def retriever_query_example(self) -> str:
        return "Which flat is in Oslo?"


class Instead:
    """Uses our history instead of LangChain's, and chooses the tests that apply."""

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}
        langchain_core.chat_history.InMemoryChatMessageHistory = StandIn  # type: ignore[assignment, misc]

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for item in items:
            if reason := why_not(item):
                self.left_out[item.nodeid] = reason
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self.left_out])
        items[:] = [item for item in items if item.nodeid not in self.left_out]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section(f"{len(self.left_out)} tests are left out")
        for name, reason in sorted(self.left_out.items()):
            terminalreporter.write_line(f"{name.partition('::')[2]}: {reason}")


def why_not(item: pytest.Item) -> str | None:
    """Return why a test is left out; None if it applies."""
    if item.path == Path(__file__):
        return None
    text = inspect.getsource(item.function)  # type: ignore[attr-defined]  # a test of a function
    if "__doc__" in text:
        return "is about the documentation of a class"
    is_used = "InMemoryChatMessageHistory" in text or "_get_get_session_history" in text
    return None if is_used else "makes no history in memory"


def main() -> int:
    """Run the suite that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--suite", type=Path, required=True, help="the source of a release of langchain-core")
    given, options = parser.parse_known_args()
    suite = given.suite.resolve()
    if not (suite / MODULES[0]).is_file():
        parser.error(f"There is no {MODULES[0]} in {suite}. Give the unpacked source distribution of langchain-core.")
    # The tests alone: the installed package is what is tested.
    os.chdir(suite)
    sys.path.insert(0, str(suite))
    settings = ["-c", "/dev/null", "--rootdir", str(suite), "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    settings += ["--noconftest", "-q", "-o", f"python_files=test_*.py {Path(__file__).name}"]
    return int(pytest.main([*settings, *options, *MODULES, __file__], plugins=[Instead()]))


if __name__ == "__main__":
    sys.exit(main())
