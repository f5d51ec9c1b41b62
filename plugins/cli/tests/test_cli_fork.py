"""``memoranda fork``: a session that goes on from another, on the line, and wherever it is moved to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("memoranda_sqlite")

Command = Callable[..., Any]

URL = "sqlite:///agent.db"
ADA = ("--user", "ada", "--store", URL)


@pytest.fixture
def branch(command: Command) -> str:
    """A session of three, and one that was forked at the second and went on."""
    for name in ("a", "b", "c"):
        assert command("add", f"says {name}", "--id", name, "--session", "trip", *ADA).exit_code == 0
    result = command("fork", "trip", "--at", "b", *ADA)
    assert result.exit_code == 0, result.output
    forked = str(result.stdout.strip())
    assert command("add", "says x", "--id", "x", "--session", forked, *ADA).exit_code == 0
    return forked


def shown(command: Command, session: str, url: str = URL) -> list[str]:
    result = command("context", "--user", "ada", "--session", session, "--json", "--store", url)
    return [item["id"] for item in json.loads(result.stdout)["items"]]


def test_the_new_session_goes_on_from_the_item(command: Command, branch: str) -> None:
    assert branch.startswith("branch-")
    assert shown(command, branch) == ["a", "b", "x"]
    assert shown(command, "trip") == ["a", "b", "c"]


def test_the_answer_can_be_read_by_programs(command: Command, branch: str) -> None:
    document = json.loads(command("fork", branch, "--at", "x", "--json", *ADA).stdout)

    assert (document["parent"], document["at"]) == (branch, "x")
    assert shown(command, document["session"]) == ["a", "b", "x"]


def test_rounds_go_on_across_the_fork(command: Command, branch: str) -> None:
    assert command("add", "answers", "--type", "ai", "--id", "y", "--session", branch, *ADA).exit_code == 0
    asked = ("--user", "ada", "--session", branch, "--rounds", "2", "--json", "--store", URL)

    assert [item["id"] for item in json.loads(command("context", *asked).stdout)["items"]] == ["b", "x", "y"]


@pytest.mark.parametrize("line", [("trip", "--at", "nowhere"), ("other", "--at", "b"), ("trip", "--at", "x")])
def test_nothing_is_forked_at_what_the_session_does_not_show(
    command: Command, branch: str, line: tuple[str, ...]
) -> None:
    result = command("fork", *line, *ADA)

    assert result.exit_code != 0
    assert "shows no such item" in result.stderr


def test_another_users_session_is_not_forked(command: Command, branch: str) -> None:
    assert command("fork", "trip", "--at", "b", "--user", "bob", "--store", URL).exit_code != 0


def test_a_branch_is_one_wherever_it_is_moved_to(command: Command, branch: str, tmp_path: Path) -> None:
    copied, imported = "sqlite:///copy.db", f"shelf:///{tmp_path / 'shelf'}"

    assert command("copy", URL, copied).exit_code == 0
    assert command("export", "all.jsonl", "--store", copied).exit_code == 0
    assert command("import", "all.jsonl", "--store", imported).exit_code == 0

    for url in (copied, imported):
        assert shown(command, branch, url) == ["a", "b", "x"]
        assert shown(command, "trip", url) == ["a", "b", "c"]


def test_one_branch_alone_is_moved_with_its_past(command: Command, branch: str) -> None:
    assert command("copy", URL, "sqlite:///one.db", "--session", branch).exit_code == 0

    assert shown(command, branch, "sqlite:///one.db") == ["a", "b", "x"]
