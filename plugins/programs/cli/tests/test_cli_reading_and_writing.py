"""``memoranda add``, ``get``, ``search``, ``history`` and ``stats``."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda_commands.terminal import visible

Command = Callable[..., Any]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"shelf:///{tmp_path / 'memories'}"


def test_add_prints_the_id_under_which_get_finds_the_item(command: Command, url: str) -> None:
    added = command("add", "I like a window seat.", "--user", "ada", "--extra", "mood=7", "--store", url)

    shown = command("get", added.stdout.strip(), "--json", "--store", url)

    item = json.loads(shown.stdout)
    assert item["content"] == "I like a window seat."
    assert item["memory_type"] == "human"
    assert item["metadata"] == {
        "user_id": "ada",
        "session_id": None,
        "task_id": None,
        "agent_id": None,
        "extra": {"mood": 7},
    }


def test_add_reads_a_pipe(command: Command, url: str) -> None:
    command("add", "--store", url, input="first line\nsecond line\n")

    found = json.loads(command("search", "--json", "--store", url).stdout)

    assert [item["content"] for item in found] == ["first line\nsecond line"]


@pytest.mark.parametrize(("arguments", "piped"), [([], ""), ([], "\n"), ([""], None), ([" "], None)])
def test_add_refuses_nothing(
    command: Command, url: str, tmp_path: Path, arguments: list[str], piped: str | None
) -> None:
    assert command("add", *arguments, "--store", url, input=piped).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_call_or_a_result_may_say_nothing_else(command: Command, url: str) -> None:
    calls = '[{"id": "c1", "name": "weather"}]'
    assert command("add", "", "--type", "ai", "--tool-calls", calls, "--store", url).exit_code == 0
    assert command("add", "", "--type", "tool", "--tool-call-id", "c1", "--store", url).exit_code == 0


def test_a_search_by_meaning_says_how_to_give_the_store_an_embedder(command: Command, url: str) -> None:
    command("add", "one", "--store", url)

    result = command("search", "seat", "--mode", "semantic", "--store", url)

    assert result.exit_code == 6
    assert "--option embeddings=hashing" in result.stderr


def test_a_mistyped_command_is_answered_with_the_right_one(command: Command) -> None:
    result = command("serch", "seat")

    assert result.exit_code == 2
    assert "Did you mean 'search'?" in result.stderr


def test_add_can_say_everything_that_an_item_has(command: Command, url: str) -> None:
    added = command(
        *("add", "It rains.", "--type", "tool", "--id", "x", "--name", "Bob", "--status", "draft"),
        *("--at", "2024-01-01T12:00:00+02:00", "--tool-call-id", "c1", "--tool-name", "weather", "--failed"),
        *("--field", "colour=blue", "--task", "t", "--agent", "g", "--json", "--store", url),
    )

    item = json.loads(added.stdout)
    expected = {
        "id": "x",
        "name": "Bob",
        "status": "draft",
        "created_at": "2024-01-01T10:00:00.000000+00:00",
        "tool_call_id": "c1",
        "tool_name": "weather",
        "is_error": True,
        "colour": "blue",
        "version": 1,
    }
    assert {name: item[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("x", "--at", "yesterday"), "created_at"),
        (("x", "--status", "lost"), "status"),
        (("x", "--extra", "no-equals-sign"), "--extra takes KEY=VALUE"),
        (("x", "--type", "ai", "--tool-calls", "{"), "--tool-calls is not JSON"),
        (("x", "--type", "ai", "--tool-calls", '[{"name": "no id"}]'), "tool call 0 needs"),
        (("a\0b",), "NUL"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    command: Command, url: str, arguments: tuple[str, ...], said: str
) -> None:
    result = command("add", *arguments, "--store", url)

    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert len(result.stderr.strip().splitlines()) == 1


def test_an_id_of_somebody_else_is_a_conflict(command: Command, url: str) -> None:
    command("add", "mine", "--id", "x", "--user", "ada", "--store", url)

    result = command("add", "theirs", "--id", "x", "--user", "bob", "--store", url)

    assert result.exit_code == 4
    assert "ada" not in result.output


def test_get_says_when_there_is_no_such_item(command: Command, url: str) -> None:
    command("add", "mine", "--id", "x", "--user", "ada", "--store", url)

    assert command("get", "y", "--store", url).exit_code == 3
    assert command("get", "x", "--user", "bob", "--store", url).exit_code == 3
    assert command("get", "x", "--user", "ada", "--store", url).exit_code == 0


def test_search_takes_every_filter(command: Command, talk: str) -> None:
    def contents(*arguments: str) -> list[str]:
        return [item["content"] for item in json.loads(command("search", *arguments, "--json", "--store", talk).stdout)]

    assert contents("OSLO", "--type", "tool") == ["Oslo: snow"]
    assert contents("--session", "s", "--limit", "2", "--type", "tool") == ["Rome: sun", "Oslo: snow"]
    assert contents("--user", "bob") == []
    assert contents("--status", "draft") == []
    assert contents("--limit", "0") == []
    assert len(contents("--user", "ada")) == 7


def test_a_ranked_search_shows_scores_and_reasons(command: Command, talk: str) -> None:
    found = json.loads(command("search", "weather Oslo", "--mode", "text", "--json", "--store", talk).stdout)

    scores = [result["score"] for result in found]
    terms = {result["item"]["content"]: result["terms"] for result in found}
    assert scores == sorted(scores, reverse=True)
    assert "oslo" in terms["Oslo: snow"]
    assert "score" in command("search", "weather Oslo", "--mode", "text", "--store", talk).stdout


def test_a_mode_that_the_store_lacks_is_exit_code_6(command: Command, talk: str) -> None:
    assert command("search", "x", "--mode", "semantic", "--store", talk).exit_code == 6


def test_history_reads_from_the_beginning(command: Command, talk: str) -> None:
    shown = command("history", "--session", "s", "--store", talk).stdout
    newest = json.loads(command("history", "--session", "s", "--limit", "2", "--json", "--store", talk).stdout)

    assert shown.index("Be brief.") < shown.index("Oslo: snow") < shown.index("Book a flight.")
    assert [item["content"] for item in newest] == ["Thanks. Book a flight.", ""]


def test_stats_count_everything(command: Command, talk: str) -> None:
    command("clear", "--session", "nobody", "--yes", "--store", talk)

    numbers = json.loads(command("stats", "--json", "--store", talk).stdout)

    assert numbers["items"] == 7
    assert numbers["deleted"] == 0
    assert numbers["types"] == {"human": 2, "ai": 2, "tool": 2, "system": 1}
    assert (numbers["users"], numbers["sessions"]) == (1, 1)
    assert "delete" in numbers["capabilities"]
    assert "human 2" in command("stats", "--store", talk).stdout


def test_what_is_stored_cannot_command_the_terminal(command: Command, url: str) -> None:
    command("add", "before \x1b[2J\x1b]0;owned\x07\x9b31m after", "--user", "a\x1b[31mda", "--id", "x", "--store", url)

    for line in (("search",), ("history",), ("context",), ("stats",), ("get", "x"), ("get", "x", "--json")):
        shown = command(*line, "--store", url).output
        assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert json.loads(command("get", "x", "--json", "--store", url).stdout)["content"].endswith("\x9b31m after")


def test_nothing_that_is_stored_is_hidden_from_whoever_reads_it(command: Command, url: str) -> None:
    hidden = "\U000e0041\U000e0100\u180e\ufffa\u202e\u200b\u00ad\u3164\u115f\ufe0f\u2800\ue000\u0378\u2028"
    command("add", f"said{hidden}.", "--user", f"u{hidden}", "--id", f"i{hidden}", "--store", url)

    one = ("get", f"i{hidden}")
    for line in (("search",), ("history",), ("context", "--all"), one, (*one, "--json")):
        shown = command(*line, "--store", url).output
        assert not set(hidden) & set(shown)
        assert "U+E0041" in shown or "\\udb40\\udc41" in shown
    found = json.loads(command(*one, "--json", "--store", url).stdout)
    assert (found["id"], found["content"]) == (f"i{hidden}", f"said{hidden}.")


def test_every_character_is_shown_or_marked() -> None:
    shown_as_they_are = {"L", "M", "N", "P", "S"}
    for code in (*range(0x80, 0x20000), *range(0xE0000, 0xE1000), *range(0x20000, 0x110000, 997)):
        category = unicodedata.category(chr(code))
        if category[0] in shown_as_they_are or category == "Zs":
            assert visible(chr(code)) in (chr(code), f"⟨U+{code:04X}⟩")
        else:
            assert visible(chr(code)) == f"⟨U+{code:04X}⟩"
    for ignorable in "\u034f\u115f\u1160\u17b4\u180b\u180f\u2800\u3164\ufe00\ufe0f\uffa0\U000e0100\U000e01ef":
        assert visible(ignorable) == f"⟨U+{ord(ignorable):04X}⟩"


@pytest.mark.parametrize("mode", [(), ("--mode", "text")])
def test_a_search_for_all_finds_archived_items(command: Command, tmp_path: Path, mode: tuple[str, ...]) -> None:
    url = f"shelf:///{tmp_path / 'archive'}"
    command("add", "the old bicycle", "--id", "old", "--field", "archived_by=summary", "--store", url)
    command("add", "the new bicycle", "--id", "new", "--store", url)

    def found(*line: str) -> set[str]:
        shown = json.loads(command("search", "bicycle", *line, *mode, "--json", "--store", url).stdout)
        return {each.get("item", each)["id"] for each in shown}

    assert found() == {"new"}
    assert found("--all") == {"new", "old"}


def test_get_takes_the_beginning_of_an_id_that_no_other_id_has(command: Command, tmp_path: Path) -> None:
    url = f"shelf:///{tmp_path / 'memories'}"
    for item_id, user in (("4c1fa", "ada"), ("4c1fb", "bob"), ("77aa", "ada")):
        command("add", f"of {user}", "--id", item_id, "--user", user, "--store", url)

    assert json.loads(command("get", "77", "--json", "--store", url).stdout)["id"] == "77aa"
    assert json.loads(command("get", "4c1f", "--user", "bob", "--json", "--store", url).stdout)["id"] == "4c1fb"
    several = command("get", "4c1", "--store", url)
    assert several.exit_code == 2
    assert "4c1fa, 4c1fb" in several.stderr
    assert "of ada" not in several.stderr
    assert command("get", "4c1fa", "--user", "bob", "--store", url).exit_code == 3
    assert command("get", "9", "--store", url).exit_code == 3
