"""A store that is not there: only what writes memories makes one; all else refuses, and helps to find it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]

pytest.importorskip("memoranda_sqlite")

LINES: dict[str, list[str]] = {
    "get": ["some-id"],
    "search": ["seat"],
    "history": [],
    "context": ["--user", "ada"],
    "fork": ["trip", "--at", "some-id"],
    "stats": [],
    "owners": [],
    "clear": ["--user", "ada", "--yes"],
    "restore": ["--user", "ada"],
    "purge": ["--user", "ada", "--yes"],
    "revoke": ["--origin", "web", "--yes"],
    "forget": ["ada", "--yes"],
    "export": ["out.jsonl"],
    "summarize": ["--user", "ada", "--command", "cat"],
    "compact": ["--user", "ada", "--command", "cat"],
    "expand": ["some-id"],
    "undo": ["some-id"],
    "doctor": [],
    "reindex": [],
    "eval": ["--make", "questions.jsonl"],
}
"""A line for each command that makes no store; the others write memories, or need none."""

WRITING = {"add", "import", "copy", "demo", "bench", "conform"}


def look(folder: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def beside(command: Command, made_once: Callable[..., Any], tmp_path: Path) -> dict[str, str]:
    """A store whose name is easily mistyped, and what its folder holds."""

    def added() -> None:
        line = ("add", "I like a window seat.", "--user", "ada", "--store", "sqlite:///agent.db")
        assert command(*line).exit_code == 0

    made_once(added)
    return look(tmp_path)


def test_every_command_that_opens_a_store_is_tried(our_commands: list[str]) -> None:
    assert set(our_commands) == {*LINES, *WRITING, "plugins", "new-plugin"}


@pytest.mark.parametrize("name", LINES)
def test_a_mistyped_store_is_refused_and_the_one_beside_it_named(
    command: Command, beside: dict[str, str], tmp_path: Path, name: str
) -> None:
    result = command(name, *LINES[name], "--store", "sqlite:///agnet.db")

    assert result.exit_code == 3
    assert "agnet.db" in result.stderr
    assert "Did you mean sqlite:///agent.db?" in result.stderr
    assert look(tmp_path) == beside


def test_a_copy_from_nowhere_makes_no_destination(command: Command, beside: dict[str, str], tmp_path: Path) -> None:
    result = command("copy", "sqlite:///agnet.db", "sqlite:///backup.db")

    assert result.exit_code == 3
    assert "sqlite:///agent.db" in result.stderr
    assert look(tmp_path) == beside


def test_a_store_that_is_made_is_mentioned_once(command: Command, tmp_path: Path) -> None:
    first = command("add", "one", "--store", "sqlite:///new.db")
    second = command("add", "two", "--store", "sqlite:///new.db")

    assert "sqlite:///new.db is a new store." in first.stderr
    assert "new store" not in second.stderr


@pytest.mark.parametrize("line", [["add", "x", "--at", "never"], ["add", "x", "--field", "user_id=ada"]])
def test_an_item_that_is_refused_leaves_no_store_behind(command: Command, tmp_path: Path, line: list[str]) -> None:
    assert command(*line, "--store", "sqlite:///new.db").exit_code == 2
    assert not (tmp_path / "new.db").exists()


def test_a_file_that_is_refused_leaves_no_store_behind(command: Command, tmp_path: Path) -> None:
    lines = [{"content": "one", "memory_type": "ai"}, {"content": "two", "memory_type": "ai", "user_id": "ada"}]
    (tmp_path / "bad.jsonl").write_text("\n".join(map(json.dumps, lines)))

    result = command("import", "bad.jsonl", "--store", "sqlite:///new.db")

    assert result.exit_code == 2
    assert "line 2" in result.stderr
    assert "metadata" in result.stderr
    assert not (tmp_path / "new.db").exists()


def test_the_users_own_file_is_not_made_by_looking_at_it(command: Command, tmp_path: Path) -> None:
    assert command("stats").exit_code == 3
    assert list(tmp_path.iterdir()) == []

    assert command("add", "one").exit_code == 0
    assert json.loads(command("stats", "--json").stdout)["items"] == 1


@pytest.mark.parametrize("way", ["import", "copy"])
def test_a_dry_run_makes_no_store(command: Command, beside: dict[str, str], tmp_path: Path, way: str) -> None:
    command("export", "all.jsonl", "--store", "sqlite:///agent.db")
    before = look(tmp_path)
    target = ("--store", "sqlite:///new.db")
    line = ("import", "all.jsonl", *target) if way == "import" else ("copy", "sqlite:///agent.db", target[1])

    result = command(*line, "--dry-run")

    assert result.exit_code == 0
    assert "1 added" in result.stderr
    assert look(tmp_path) == before


READING = [
    ["get", "some-id"],
    ["search", "seat"],
    ["search", "seat", "--mode", "text"],
    ["history"],
    ["context", "--user", "ada"],
    ["stats"],
    ["export", "-"],
    ["doctor"],
    ["clear", "--all", "--dry-run"],
    ["restore", "--all", "--dry-run"],
    ["purge", "--user", "ada", "--dry-run"],
    ["revoke", "--origin", "web", "--dry-run"],
    ["forget", "ada", "--dry-run"],
    ["compact", "--user", "ada", "--dry-run"],
]


@pytest.mark.parametrize("line", READING, ids=" ".join)
def test_what_only_reads_writes_nothing(
    command: Command, beside: dict[str, str], tmp_path: Path, line: list[str]
) -> None:
    result = command(*line, "--store", "sqlite:///agent.db")

    assert result.exit_code in (0, 1, 3), result.stderr  # The plugin of these tests is not all well.
    assert look(tmp_path) == beside


def test_a_window_needs_an_owner_or_all(command: Command, beside: dict[str, str]) -> None:
    command("add", "I am Bob.", "--user", "bob", "--store", "sqlite:///agent.db")

    refused = command("context", "--store", "sqlite:///agent.db")
    everybody = command("context", "--all", "--store", "sqlite:///agent.db")

    assert refused.exit_code == 2
    assert "--all" in refused.stderr
    assert "Bob" not in refused.output
    assert "Bob" in everybody.stdout
