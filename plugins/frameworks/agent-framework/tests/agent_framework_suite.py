"""Run the Agent Framework's own tests of sessions on ours: ``python agent_framework_suite.py --suite PATH [options]``.

PATH is the folder ``python/packages/core/tests/core`` of its repository, which no distribution has; options go to
pytest. Wherever a test of ``test_sessions.py`` makes one of the framework's history providers, or one that the module
made for its tests, it gets ours, on a store in memory that shows what it has where those do. A test is left out, and
named with the reason, if it is about files, the form of what is stored there, the chunks of a stream or the marks of a
feature, or if it makes no history provider. Where it looks into a file for something that holds for every provider, the
reason names the test of ours that checks it.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Message

import memoranda
from memoranda_agent_framework import MemorandaHistoryProvider

MODULE = "test_sessions.py"
REASONS = {
    r"_session_file_path|storage_path|write_text|write_bytes|\.open\b": "is about files",
    r"dumps=|loads=|provider\.dumps|serialization_format|def dumps": "is about the form of what is stored in files",
    r"__feature_stage__|mark_feature_used": "is about the marks of a feature",
    r"from_updates": "is about how the framework joins chunks, which differs between releases",
}
TRANSLATED = {
    "TestFileHistoryProvider.test_stores_and_loads_messages": (
        "test_a_run_stores_its_messages_and_the_next_one_loads_them"
    ),
    "TestFileHistoryProvider.test_none_session_id_uses_default_jsonl_file": (
        "test_a_session_without_an_id_has_a_default_one"
    ),
    "TestFileHistoryProvider.test_concurrent_writes_for_same_session_are_locked": (
        "test_saves_of_one_session_that_overlap_are_stored_in_the_order_of_their_calls"
    ),
}
"""Tests that look into files for something that holds for every provider, and what tests it of ours."""

PROVIDERS = ("InMemoryHistoryProvider", "FileHistoryProvider", "ConcreteHistoryProvider")


class StandIn(MemorandaHistoryProvider):
    """A provider of ours that is made as theirs are, and opened when it is first used."""

    def __init__(self, source_id: str = "ours", **options: Any) -> None:
        self._opening = memoranda.open("memory://")
        self._is_open = False
        super().__init__(self._opening, source_id, **options)

    async def get_messages(self, session_id: str | None, **options: Any) -> list[Message]:
        if not self._is_open:
            await self._opening.init()
            self._is_open = True
        return await super().get_messages(session_id, **options)


class InState(StandIn):
    """Shows its messages in the session's state, where the framework's provider in memory has them."""

    async def save_messages(self, session_id: str | None, messages: Sequence[Message], **options: Any) -> None:
        await self.get_messages(session_id)
        await super().save_messages(session_id, messages, **options)
        if options.get("state") is not None:
            options["state"]["messages"] = await self.get_messages(session_id)


class InFolder(StandIn):
    """Is made with a folder, which it does not use."""

    def __init__(self, _: Path, **options: Any) -> None:
        super().__init__(**options)

    async def save_messages(self, session_id: str | None, messages: Sequence[Message], **options: Any) -> None:
        await self.get_messages(session_id)
        await super().save_messages(session_id, messages, **options)


class InList(StandIn):
    """Begins with messages, and has what was stored since in a list."""

    def __init__(self, source_id: str, stored_messages: list[Message] | None = None, **options: Any) -> None:
        super().__init__(source_id, **options)
        self.stored: list[Message] = []
        self._given = stored_messages or []

    async def get_messages(self, session_id: str | None, **options: Any) -> list[Message]:
        await super().get_messages(session_id, **options)
        given, self._given = self._given, []
        if given:
            await MemorandaHistoryProvider.save_messages(self, session_id, given)
        return await super().get_messages(session_id, **options)

    async def save_messages(self, session_id: str | None, messages: Sequence[Message], **options: Any) -> None:
        await self.get_messages(session_id)
        await super().save_messages(session_id, messages, **options)
        self.stored = await self.get_messages(session_id)


STAND_INS = dict(zip(PROVIDERS, (InState, InFolder, InList), strict=True))


class Instead:
    """Uses our providers instead of theirs, and chooses the tests that apply."""

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for module in {item.getparent(pytest.Module) for item in items}:
            for name, ours in STAND_INS.items():
                if module is not None and hasattr(module.obj, name):
                    setattr(module.obj, name, ours)
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
    qualified = item.function.__qualname__  # type: ignore[attr-defined]  # a test of a function
    if qualified in TRANSLATED:
        return f"looks into a file; ours is {TRANSLATED[qualified]}"
    text = inspect.getsource(item.function)  # type: ignore[attr-defined]  # a test of a function
    if not any(name in text for name in PROVIDERS):
        return "makes no history provider"
    return next((reason for pattern, reason in REASONS.items() if re.search(pattern, text)), None)


def main() -> int:
    """Run the module that the copy has."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--suite", type=Path, required=True, help="the folder packages/core/tests/core of a copy")
    given, options = parser.parse_known_args()
    suite = given.suite.resolve()
    if not (suite / MODULE).is_file():
        parser.error(f"There is no {MODULE} in {suite}.")
    settings = ["-c", "/dev/null", "--rootdir", str(suite), "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    return int(pytest.main([*settings, "--noconftest", "-q", *options, str(suite / MODULE)], plugins=[Instead()]))


if __name__ == "__main__":
    sys.exit(main())
