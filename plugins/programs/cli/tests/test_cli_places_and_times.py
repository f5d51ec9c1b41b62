"""The command's filters: namespaces, times and values; who owns what; orders and pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., Any]

STORE = ("--store", "shelf:///kept")


@pytest.fixture
def notes(command: Command) -> None:
    for day, place, score in ((1, "users/ada/prefs", 1), (2, "users/ada", 3), (3, "users/adam", 5)):
        made = command(
            "add",
            f"note {day}",
            *("--user", "ada", "--namespace", place, "--at", f"2025-05-0{day}T10:00:00Z"),
            *("--extra", f"score={score}", *STORE),
        )
        assert made.exit_code == 0, made.output


def found(command: Command, *arguments: str) -> list[str]:
    done = command("search", *arguments, "--json", *STORE)
    assert done.exit_code == 0, done.output
    return [item["content"] for item in json.loads(done.stdout)]


@pytest.mark.usefixtures("notes")
def test_search_takes_places_times_and_values(command: Command) -> None:
    assert found(command, "--namespace", "users/ada") == ["note 2", "note 1"]
    assert found(command, "--since", "2025-05-02", "--until", "2025-05-03") == ["note 2"]
    assert found(command, "--where", 'score={"$gte": 3}', "--where", "user_id=ada") == ["note 3", "note 2"]
    assert found(command, "--limit", "1", "--offset", "1") == ["note 2"]
    assert found(command, "--order", "updated", "--limit", "1") == ["note 3"]


@pytest.mark.usefixtures("notes")
def test_owners_are_listed_with_counts_and_times(command: Command) -> None:
    users = json.loads(command("owners", "--json", *STORE).stdout)
    assert users == [
        {
            "value": "ada",
            "count": 3,
            "first": "2025-05-01T10:00:00.000000+00:00",
            "last": "2025-05-03T10:00:00.000000+00:00",
        }
    ]
    places = json.loads(command("owners", "namespace", "--depth", "2", "--json", *STORE).stdout)
    assert [(row["value"], row["count"]) for row in places] == [(["users", "ada"], 2), (["users", "adam"], 1)]
    assert "users/adam" in command("owners", "namespace", *STORE).stdout
    assert "No session" in command("owners", "session", *STORE).stderr


@pytest.mark.usefixtures("notes")
def test_what_is_removed_and_exported_is_bounded_too(command: Command) -> None:
    exported = command("export", "some.jsonl", "--until", "2025-05-02", "--json", *STORE)
    assert json.loads(exported.stdout)["count"] == 1
    assert command("clear", "--where", "score=5", "--yes", *STORE).exit_code == 0
    assert command("purge", "--until", "2025-05-02", "--yes", *STORE).exit_code == 0
    assert found(command) == ["note 2"]


@pytest.mark.usefixtures("notes")
def test_a_wrong_filter_is_said_in_a_sentence(command: Command) -> None:
    for arguments in (("--since", "soon"), ("--where", 'score={"$near": 1}'), ("--where", "score")):
        done = command("search", *arguments, *STORE)
        assert done.exit_code == 2, done.output
        assert "Traceback" not in done.output
