"""``memoranda clear``, ``restore``, ``purge`` and ``forget``: nothing goes unasked, and what is gone is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


@pytest.fixture
def url(command: Command, made_once: Callable[..., Any], tmp_path: Path) -> str:
    """A store with two items of ada's and one of bob's."""
    memories = f"shelf:///{tmp_path / 'memories'}"

    def added() -> None:
        for user, content in (("ada", "one"), ("ada", "two"), ("bob", "three")):
            command("add", content, "--id", content, "--user", user, "--store", memories)

    made_once(added)
    return memories


def contents(command: Command, url: str) -> list[str]:
    return sorted(item["content"] for item in json.loads(command("search", "--json", "--store", url).stdout))


@pytest.mark.parametrize(
    "line", [("clear", "--user", "ada"), ("purge", "--user", "ada"), ("forget", "ada"), ("clear", "--all")]
)
def test_nothing_is_removed_without_agreement(command: Command, url: str, line: tuple[str, ...]) -> None:
    result = command(*line, "--store", url)

    assert result.exit_code == 8
    assert "--yes" in result.stderr
    assert contents(command, url) == ["one", "three", "two"]


@pytest.mark.parametrize(
    "line", [("clear", "--user", "ada"), ("purge", "--user", "ada"), ("forget", "ada"), ("clear", "--all")]
)
def test_a_dry_run_only_counts(command: Command, url: str, line: tuple[str, ...]) -> None:
    result = command(*line, "--dry-run", "--store", url)

    assert result.exit_code == 0
    assert f"{3 if '--all' in line else 2} items" in result.stderr
    assert contents(command, url) == ["one", "three", "two"]


def test_clear_hides_and_restore_brings_back(command: Command, url: str) -> None:
    command("clear", "--user", "ada", "--yes", "--store", url)
    assert contents(command, url) == ["three"]

    assert command("restore", "one", "--store", url).exit_code == 0
    assert contents(command, url) == ["one", "three"]
    assert "1 item would" in command("restore", "--user", "ada", "--dry-run", "--store", url).stderr
    assert command("restore", "--user", "ada", "--store", url).exit_code == 0
    assert contents(command, url) == ["one", "three", "two"]


@pytest.mark.parametrize("line", [("clear",), ("restore",), ("purge",), ("clear", "--all", "--user", "ada")])
def test_everything_must_be_meant(command: Command, url: str, line: tuple[str, ...]) -> None:
    assert command(*line, "--yes" if line[0] != "restore" else "--dry-run", "--store", url).exit_code == 2
    assert contents(command, url) == ["one", "three", "two"]


def test_purge_takes_one_item_an_owner_or_the_bin(command: Command, url: str) -> None:
    command("clear", "--user", "bob", "--yes", "--store", url)

    assert "1 item removed" in command("purge", "--deleted", "--yes", "--store", url).stderr
    assert "1 item removed" in command("purge", "one", "--yes", "--store", url).stderr
    assert "1 item removed" in command("purge", "--user", "ada", "--yes", "--store", url).stderr
    assert "nothing to remove" in command("purge", "--deleted", "--yes", "--store", url).stderr
    assert json.loads(command("stats", "--json", "--store", url).stdout)["deleted"] == 0


def test_an_id_that_is_not_there_is_exit_code_3(command: Command, url: str) -> None:
    assert command("purge", "nobody", "--yes", "--store", url).exit_code == 3
    assert command("restore", "nobody", "--store", url).exit_code == 3


def test_forget_leaves_no_trace_and_gives_a_receipt(command: Command, url: str, tmp_path: Path) -> None:
    command("clear", "--user", "ada", "--yes", "--store", url)
    command("restore", "one", "--store", url)

    result = command("forget", "ada", "--yes", "--json", "--receipt", tmp_path / "receipt.json", "--store", url)

    receipt = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (receipt["found"], receipt["deleted"], receipt["removed"]) == (1, 1, 2)
    assert receipt["complete"]
    assert set(receipt["left"]) >= {"counted", "scanned", "searched", "deleted", "text"}
    assert json.loads((tmp_path / "receipt.json").read_text()) == receipt
    assert contents(command, url) == ["three"]
    assert b'"ada"' not in (tmp_path / "memories").read_bytes()


def test_forgetting_nobody_is_no_receipt(command: Command, url: str, tmp_path: Path) -> None:
    result = command("forget", "carol", "--yes", "--receipt", "carol.json", "--store", url)

    assert result.exit_code == 3
    assert "nothing of 'carol'" in result.stderr
    assert not (tmp_path / "carol.json").exists()


@pytest.mark.parametrize("mistyped", ["adda", "Ada", "ada "])
def test_forgetting_a_mistyped_user_offers_the_one_that_is_there(command: Command, url: str, mistyped: str) -> None:
    result = command("forget", mistyped, "--yes", "--store", url)

    assert result.exit_code == 3
    assert "Did you mean 'ada'?" in result.stderr


def test_a_user_who_has_only_deleted_memories_is_forgotten(command: Command, url: str) -> None:
    command("clear", "--user", "ada", "--yes", "--store", url)

    result = command("forget", "ada", "--yes", "--json", "--store", url)

    assert result.exit_code == 0
    assert json.loads(result.stdout)["complete"] is True
    assert command("forget", "ada", "--yes", "--store", url).exit_code == 3


def test_a_store_that_cannot_hide_says_so(command: Command, tmp_path: Path) -> None:
    url = f"plain:///{tmp_path / 'plain'}"
    command("add", "one", "--user", "ada", "--store", url)

    assert "removed for good" in command("clear", "--user", "ada", "--dry-run", "--store", url).stderr
    assert command("restore", "--all", "--store", url).exit_code == 6
    assert command("purge", "--user", "ada", "--yes", "--store", url).exit_code == 6
    receipt = json.loads(command("forget", "ada", "--yes", "--json", "--store", url).stdout)
    assert (receipt["method"], receipt["removed"], receipt["complete"]) == ("clear", 1, True)
