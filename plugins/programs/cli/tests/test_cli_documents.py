"""``--json``: every command prints one document, of success, of failure, of a dry run, and of nothing to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]

LINES: dict[str, list[list[str]]] = {
    "demo": [["--store", "memory://"]],
    "plugins": [[]],
    "add": [["hello"]],
    "get": [["one"]],
    "search": [["window"], ["nothing like it"]],
    "history": [[], ["--user", "nobody"]],
    "context": [["--user", "ada"], ["--all", "--explain"]],
    "stats": [[]],
    "owners": [[], ["session"]],
    "fork": [],
    "clear": [["--user", "ada", "--dry-run"], ["--user", "nobody", "--yes"], ["--user", "ada", "--yes"]],
    "restore": [["--all", "--dry-run"], ["--all"]],
    "purge": [["--deleted", "--dry-run"], ["--deleted", "--yes"], ["one", "--yes"]],
    "revoke": [["--origin", "web", "--dry-run"], ["--origin", "web", "--yes"]],
    "forget": [["ada", "--dry-run"], ["ada", "--yes"]],
    "export": [["out.jsonl"]],
    "import": [["in.jsonl", "--dry-run"], ["in.jsonl"]],
    "copy": [],
    "summarize": [["--user", "ada", "--command", "cat"]],
    "compact": [["--user", "ada", "--dry-run"], ["--user", "ada", "--command", "cat"]],
    "expand": [],
    "undo": [],
    "doctor": [[]],
    "reindex": [[]],
    "eval": [],
    "bench": [],
    "new-plugin": [],
    "conform": [],
}
"""Lines that succeed; --json is added, and --store where it is not there."""

WITHOUT_STORE = {"demo", "plugins"}


@pytest.fixture
def store(command: Command, made_once: Callable[..., Any], tmp_path: Path) -> str:
    url = f"shelf:///{tmp_path / 'memories'}"
    made_once(lambda: command("add", "I like a window seat.", "--user", "ada", "--id", "one", "--store", url) and None)
    (tmp_path / "in.jsonl").write_text('{"memory_type": "human", "content": "imported"}\n')
    return url


def test_every_command_takes_it(command: Command, our_commands: list[str]) -> None:
    assert set(our_commands) == set(LINES)
    for name in LINES:
        assert "--json" in command(name, "--help").stdout, name


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in LINES.items() for line in lines])
def test_success_is_one_document(command: Command, store: str, name: str, line: list[str]) -> None:
    where = [] if name in WITHOUT_STORE else ["--store", store]

    result = command(name, *line, *where, "--json")

    assert result.exit_code == (1 if name == "doctor" else 0), result.output  # The plugin of these tests is not well.
    json.loads(result.stdout)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["serch"], 2),
        (["search", "--no-such-option"], 2),
        (["get", "no-such-id"], 3),
        (["stats", "--store", "shelf:///no/such/store"], 3),
        (["stats", "--store", "nonsense://"], 3),
        (["stats", "--store", "shelf:///unreachable"], 5),
        (["clear", "--all"], 8),
        (["expand", "no-such-id"], 3),
        (["undo", "no-such-id"], 3),
        (["crash"], 2),
        (["forget", "nobody", "--yes"], 3),
        (["import", "no-such-file"], 3),
        (["export", "-"], 2),
        (["new-plugin", "Bad Name"], 2),
        (["bench", "--plot", "x.png"], 2),
        (["copy", "shelf:///no/such/store", "memory://"], 3),
    ],
)
def test_failure_is_one_document_too(command: Command, store: str, line: list[str], code: int) -> None:
    opens = "--store" not in line and line[0] not in ("serch", "crash", "new-plugin", "bench", "copy")

    result = command(*line, *(["--store", store] if opens else []), "--json")

    assert result.exit_code == code, result.output
    document = json.loads(result.stdout)
    assert document["error"]
    assert document["exit_code"] == code


def test_an_incomplete_receipt_is_one_document_with_the_error_in_it(command: Command, tmp_path: Path) -> None:
    url = f"plain:///{tmp_path / 'plain'}"
    command("add", "one", "--user", "ada", "--store", url)

    result = command("forget", "ada", "--yes", "--json", "--store", url)

    assert json.loads(result.stdout)["user_id"] == "ada"
