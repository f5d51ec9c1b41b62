"""The command: receipts are listed, shown, replayed and compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda import AIMemory, HumanMemory
from memoranda.sync import open as open_store
from memoranda_messages import to_openai

pytest.importorskip("memoranda_cli")

Command = Callable[..., Any]


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    with open_store(url) as store:
        ada = store.scoped(user_id="ada", session_id="trip")
        for number in range(3):
            ada.add(HumanMemory(id=f"human-{number}", content=f"Question {number}?"))
            ada.add(AIMemory(id=f"ai-{number}", content=f"Answer {number}."))
    return url


def listed(command: Command, url: str, *options: str) -> list[dict[str, Any]]:
    result = command("receipts", "list", "--user", "ada", "--store", url, "--json", *options)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["receipts"]  # type: ignore[no-any-return]


def context(command: Command, url: str, *options: str) -> None:
    result = command("context", "--user", "ada", "--session", "trip", "--store", url, "--receipt", *options)
    assert result.exit_code == 0, result.stderr


def test_a_recorded_window_is_listed_shown_and_replayed(command: Command, url: str) -> None:
    context(command, url, "--rounds", "2")
    (receipt,) = listed(command, url)
    assert receipt["items"] == 4
    assert receipt["left_out"] == {"beyond the rounds": 2}
    short = receipt["id"][8:16]
    assert short in command("receipts", "list", "--user", "ada", "--store", url).stdout
    shown = command("receipts", "show", short, "--user", "ada", "--store", url)
    assert "human-1" in shown.stdout
    assert "beyond the rounds" in shown.stdout
    replay = command("receipts", "replay", short, "--store", url, "--format", "openai")
    with open_store(url) as store:
        window = store.scoped(user_id="ada", session_id="trip").window(rounds=2)
    assert replay.stdout.rstrip("\n") == json.dumps(to_openai(window), separators=(",", ":"))
    assert "This is what the model was shown." in replay.stderr


def test_a_replay_names_what_has_changed(command: Command, url: str) -> None:
    context(command, url)
    with open_store(url) as store:
        store.purge("human-0")
    (receipt,) = listed(command, url)
    text = command("receipts", "replay", receipt["id"], "--store", url)
    assert "human-0 was purged since" in text.stderr
    assert "Question 1?" in text.stdout
    document = json.loads(command("receipts", "replay", receipt["id"], "--store", url, "--json").stdout)
    assert document["exact"] is False
    assert document["changes"] == [{"id": "human-0", "change": "purged", "role": "conversation"}]


def test_two_receipts_are_compared(command: Command, url: str) -> None:
    context(command, url, "--rounds", "3")
    context(command, url, "--rounds", "1")
    later, earlier = [receipt["id"] for receipt in listed(command, url)]
    text = command("receipts", "diff", earlier, later, "--store", url)
    assert "beyond the rounds" in text.stdout
    assert "Question 0?" in text.stdout
    assert "rounds: 3 before, 1 after." in text.stderr
    document = json.loads(command("receipts", "diff", earlier, later, "--store", url, "--json").stdout)
    assert [each["id"] for each in document["left"]] == ["human-0", "ai-0", "human-1", "ai-1"]
    assert "Both show the same." in command("receipts", "diff", later, later, "--store", url).stderr


def test_receipts_that_showed_an_item_are_found(command: Command, url: str) -> None:
    context(command, url, "--rounds", "1")
    context(command, url)
    assert len(listed(command, url, "--item", "human-0")) == 1
    assert len(listed(command, url, "--item", "human-2")) == 2


@pytest.mark.parametrize("line", [["show", "none"], ["replay", "none"], ["diff", "none", "none"]])
def test_a_receipt_that_is_not_there_is_said_so(command: Command, url: str, line: list[str]) -> None:
    result = command("receipts", *line, "--store", url)
    assert result.exit_code == 3
    assert "no receipt 'none'" in result.stderr


def test_the_receipts_of_others_are_out_of_reach(command: Command, url: str) -> None:
    context(command, url)
    (receipt,) = listed(command, url)
    assert command("receipts", "show", receipt["id"], "--user", "bob", "--store", url).exit_code == 3
