"""``memoranda spaces`` and ``memoranda grants``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda import HumanMemory, SummaryMemory
from memoranda.sync import open as open_sync


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with an item of Ada's and one in a space."""
    address = f"sqlite:///{tmp_path / 'agent.db'}"
    with open_sync(address) as store:
        store.space("acme").add(HumanMemory(id="policy", content="Thirty days."))
        store.scoped(user_id="ada").add(HumanMemory(id="own", content="My refund was late."))
    return address


def read(result: Any) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_grant_is_given_listed_and_revoked(command: Callable[..., Any], url: str) -> None:
    given = command(
        "grants", "give", "acme", "--to", "user:ada", "--may", "write", "--by", "vera", "--why", "new", "-s", url
    )
    listed = read(command("grants", "list", "--space", "acme", "-s", url, "--json"))["grants"]
    readers = read(command("spaces", "who-can-read", "policy", "-s", url, "--json"))["readers"]
    revoked = command("grants", "revoke", "acme", "--to", "user:ada", "--by", "vera", "--yes", "-s", url)
    ended = read(command("grants", "list", "--to", "user:ada", "--ended", "-s", url, "--json"))["grants"]

    assert "user:ada may write the space 'acme'" in given.output
    assert [(each["to"], each["may"], each["history"][0]["why"]) for each in listed] == [("user:ada", "write", "new")]
    assert readers == [{"who": "user:ada", "why": "write", "until": None}]
    assert revoked.exit_code == 0
    assert [(each["is_given"], len(each["history"])) for each in ended] == [(False, 2)]
    assert command("grants", "revoke", "acme", "--to", "user:ada", "--by", "vera", "--yes", "-s", url).exit_code == 3


def test_groups_agents_and_publications(command: Callable[..., Any], url: str) -> None:
    for line in (
        "grants give acme --to group:support --by vera",
        "grants join support user:bob --by vera",
        "grants give acme --to agent:planner --of-user ada --by vera",
        "spaces publish own acme --by vera",
    ):
        result = command(*line.split(), "-s", url)
        assert result.exit_code == 0, result.output
    readers = read(command("spaces", "who-can-read", "policy", "-s", url, "--json"))["readers"]
    spaces = read(command("spaces", "list", "-s", url, "--json"))["spaces"]
    members = read(command("grants", "members", "support", "-s", url, "--json"))["members"]

    assert members == ["user:bob"]
    assert {reader["who"] for reader in readers} == {"user:bob", "user:ada with agent:planner"}
    assert spaces == [{"space": "acme", "items": 2, "grants": 2}]
    assert command("spaces", "unpublish", "own", "acme", "--by", "vera", "-s", url).exit_code == 0
    left = read(command("grants", "leave", "support", "user:bob", "--by", "vera", "-s", url, "--json"))
    assert left == {"group": "support", "member": "user:bob", "left": True}
    assert command("grants", "leave", "support", "user:bob", "--by", "vera", "-s", url).exit_code == 3


def test_what_is_counted_tells_users_from_spaces_and_grants(command: Callable[..., Any], url: str) -> None:
    """The records of grants have the names of grantees and spaces where items have their sessions and tasks."""
    for to in ("user:ada", "user:bob"):
        assert command("grants", "give", "acme", "--to", to, "--by", "vera", "-s", url).exit_code == 0

    counted = read(command("stats", "-s", url, "--json"))

    assert (counted["users"], counted["spaces"], counted["sessions"]) == (1, 1, 0)
    assert counted["busiest_users"] == {"ada": 1}
    assert counted["types"] == {"human": 2, "grant": 2}


def test_forgetting_somebody_who_was_only_granted_something_removes_the_grants(
    command: Callable[..., Any], url: str
) -> None:
    for line in ("give acme --to user:bob --by vera", "give acme --to group:support --by vera"):
        assert command("grants", *line.split(), "-s", url).exit_code == 0
    assert command("grants", "join", "support", "user:bob", "--by", "vera", "-s", url).exit_code == 0

    planned = command("forget", "bob", "--dry-run", "-s", url)
    told = command("forget", "bob", "--yes", "-s", url)

    assert "0 items and 2 grants of 'bob' would be erased" in planned.output
    assert told.exit_code == 0, told.output
    assert "acme, group:support" in told.output
    readers = read(command("spaces", "who-can-read", "policy", "-s", url, "--json"))["readers"]
    assert readers == []
    assert command("forget", "bob", "--yes", "-s", url).exit_code == 3
    assert command("forget", "space:/grants", "--yes", "-s", url).exit_code == 2


def test_a_copy_of_a_store_has_its_grants_and_withdraws_by_them(
    command: Callable[..., Any], url: str, tmp_path: Path
) -> None:
    other = f"sqlite:///{tmp_path / 'copy.db'}"
    assert command("grants", "give", "acme", "--to", "user:ada", "--by", "vera", "-s", url).exit_code == 0
    with open_sync(url) as store:
        store.scoped(user_id="ada").add(SummaryMemory(id="made", content="Thirty.", sources=["policy"]))

    assert command("copy", url, other).exit_code == 0
    readers = read(command("spaces", "who-can-read", "policy", "-s", other, "--json"))["readers"]
    revoked = command("grants", "revoke", "acme", "--to", "user:ada", "--by", "vera", "--yes", "-s", other)

    assert [reader["who"] for reader in readers] == ["user:ada"]
    assert revoked.exit_code == 0, revoked.output
    with open_sync(other) as store:
        assert {item.id for item in store.scoped(user_id="ada", spaces="granted").search()} == {"own"}
    with open_sync(url) as store:
        assert store.get("made") is not None


def test_a_mistake_is_a_sentence(command: Callable[..., Any], url: str) -> None:
    for line in (
        "grants give acme --to ada --by vera",
        "grants give Acme --to user:ada --by vera",
        "grants give acme --to user:ada --may own --by vera",
        "grants give acme --to user:ada --of-user bob --by vera",
        "grants list --space acme --to user:ada",
        "spaces who-can-read nothing",
    ):
        result = command(*line.split(), "-s", url)
        assert result.exit_code != 0, line
        assert "Traceback" not in result.output
