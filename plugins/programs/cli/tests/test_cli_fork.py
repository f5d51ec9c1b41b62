"""``memoranda fork``: a session that goes on from another, on the line, and wherever it is moved to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda import MemoryMetadata
from memoranda.sync import open as open_store

pytest.importorskip("memoranda_sqlite")

Command = Callable[..., Any]

URL = "sqlite:///agent.db"
ADA = ("--user", "ada", "--store", URL)


@pytest.fixture
def branch(command: Command, made_once: Callable[..., Any]) -> str:
    """A session of three, and one that was forked at the second and went on."""

    def forked() -> str:
        for name in ("a", "b", "c"):
            assert command("add", f"says {name}", "--id", name, "--session", "trip", *ADA).exit_code == 0
        result = command("fork", "trip", "--at", "b", *ADA)
        assert result.exit_code == 0, result.output
        session = str(result.stdout.strip())
        assert command("add", "says x", "--id", "x", "--session", session, *ADA).exit_code == 0
        return session

    return str(made_once(forked))


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


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.fixture
def nested(command: Command, branch: str) -> str:
    """A branch of the branch, forked at its own item, which went on."""
    forked = str(command("fork", branch, "--at", "x", *ADA).stdout.strip())
    assert command("add", "says z", "--id", "z", "--session", forked, *ADA).exit_code == 0
    return forked


def test_moving_branches_twice_changes_nothing(command: Command, branch: str, nested: str) -> None:
    copied = "sqlite:///copy.db"
    for answer in ("7 added", "0 added, 7 unchanged"):
        result = command("copy", URL, copied)
        assert result.exit_code == 0, result.output
        assert answer in result.output
    assert command("export", "all.jsonl", "--store", copied).exit_code == 0
    for target, answer in ((URL, "7 unchanged"), ("sqlite:///other.db", "7 added"), ("sqlite:///other.db", "7 unch")):
        result = command("import", "all.jsonl", "--store", target)
        assert result.exit_code == 0, result.output
        assert answer in result.output

    for url in (copied, "sqlite:///other.db"):
        assert shown(command, branch, url) == ["a", "b", "x"]
        assert shown(command, nested, url) == ["a", "b", "x", "z"]


@pytest.mark.parametrize("gone", [("b",), ("a", "b"), ("x",), ("a", "b", "x")])
@pytest.mark.parametrize("purge", [True, False], ids=["purged", "deleted"])
def test_a_branch_whose_fork_point_is_gone_is_moved_as_it_is(
    command: Command, branch: str, nested: str, gone: tuple[str, ...], purge: bool
) -> None:
    with open_store(URL) as store:
        for item_id in gone:
            (store.purge if purge else store.delete)(item_id)
    assert command("add", "later", "--id", "later", "--session", "trip", *ADA).exit_code == 0

    assert command("copy", URL, "sqlite:///copy.db").exit_code == 0
    assert command("export", "all.jsonl", "--store", "sqlite:///copy.db").exit_code == 0
    assert command("import", "all.jsonl", "--store", "sqlite:///third.db").exit_code == 0

    for url in (URL, "sqlite:///copy.db", "sqlite:///third.db"):
        assert shown(command, branch, url) == [name for name in ("a", "b", "x") if name not in gone]
        assert shown(command, nested, url) == [name for name in ("a", "b", "x", "z") if name not in gone]


def test_deleted_branches_arrive_deleted_and_can_be_brought_back(command: Command, branch: str, nested: str) -> None:
    assert command("clear", "--session", branch, "--yes", "--store", URL).exit_code == 0
    for _ in range(2):
        result = command("copy", URL, "sqlite:///copy.db", "--deleted")
        assert result.exit_code == 0, result.output
    assert shown(command, nested, "sqlite:///copy.db") == ["a", "b", "z"]

    for url in (URL, "sqlite:///copy.db"):
        with open_store(url) as store:
            store.restore(metadata=MemoryMetadata(session_id=branch))
        assert shown(command, branch, url) == ["a", "b", "x"]
        assert shown(command, nested, url) == ["a", "b", "x", "z"]


@pytest.mark.parametrize(
    "change",
    [
        {"parent": "diary", "at": "secret"},
        {"earlier": {"diary": "secret"}},
        {"at": "nowhere"},
        {"id": "branch-other"},
        {"archived_by": None},
        {
            "metadata": {"user_id": "bob", "session_id": "branch-other"},
            "id": "branch-other",
            "archived_by": "branch-other",
        },
    ],
)
def test_a_record_that_shares_what_is_not_its_own_is_not_imported(
    command: Command, branch: str, change: dict[str, Any]
) -> None:
    target = "sqlite:///target.db"
    assert (
        command("add", "s", "--id", "secret", "--session", "diary", "--user", "bob", "--store", target).exit_code == 0
    )
    assert command("export", "all.jsonl", "--store", URL).exit_code == 0
    items = [{**line, **(change if line.get("memory_type") == "branch" else {})} for line in lines("all.jsonl")[1:-1]]
    Path("forged.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))

    result = command("import", "forged.jsonl", "--store", target)

    assert result.exit_code != 0
    assert "branch" in result.output or "shows no such item" in result.output
    for name in (branch, "branch-other"):
        with open_store(target) as store:
            assert [item.content for item in store.scoped(session_id=name).window()] == []


def test_a_record_is_not_added(command: Command, branch: str) -> None:
    result = command("add", "says", "--type", "branch", "--id", "branch-z", "--session", "branch-z", *ADA)

    assert result.exit_code != 0
    assert "only fork() makes" in result.output


def test_a_branch_of_another_past_is_replaced_if_that_is_wanted(command: Command, branch: str) -> None:
    assert command("copy", URL, "sqlite:///copy.db").exit_code == 0
    assert command("export", "all.jsonl", "--store", URL).exit_code == 0
    later = {"created_at": "2031-01-01T00:00:00.000000+00:00", "at": "a"}
    items = [{**line, **(later if line.get("memory_type") == "branch" else {})} for line in lines("all.jsonl")[1:-1]]
    Path("changed.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))

    assert command("import", "changed.jsonl", "--store", "sqlite:///copy.db").exit_code != 0
    assert shown(command, branch, "sqlite:///copy.db") == ["a", "b", "x"]
    result = command("import", "changed.jsonl", "--on-conflict", "overwrite", "--store", "sqlite:///copy.db")
    assert result.exit_code == 0, result.output
    assert shown(command, branch, "sqlite:///copy.db") == ["a", "x"]
