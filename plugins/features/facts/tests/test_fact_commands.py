"""``memoranda facts``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servers import ModelServer, completion, model_server

Command = Callable[..., Any]


@pytest.fixture
def facts(command: Command, tmp_path: Path) -> Command:
    """Run ``memoranda facts`` for Ada, in a store of its own."""
    url = f"shelf:///{tmp_path / 'memories'}"

    def run(name: str, *arguments: object) -> Any:
        return command("facts", name, *arguments, "--user", "ada", "--store", url)

    def say(text: str) -> None:
        assert command("add", text, "--user", "ada", "--session", "s", "--store", url).exit_code == 0

    run.say = say  # type: ignore[attr-defined]  # for the tests below
    return run


def in_json(result: Any) -> Any:
    """Return what a command printed as JSON."""
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_fact_is_set_listed_explained_ended_and_undone(facts: Command) -> None:
    receipt = in_json(facts("set", "Ada", "lives_in", "Paris", "--since", "2025-03", "--json"))
    assert facts("set", "Ada", "lives_in", "Oslo", "--since", "2026").exit_code == 0
    (oslo,) = in_json(facts("list", "--json"))["facts"]
    assert (oslo["value"], oslo["since"]) == ("Oslo", "2026")
    assert [each["value"] for each in in_json(facts("list", "--at", "2025-06", "--json"))["facts"]] == ["Paris"]
    assert [each["value"] for each in in_json(facts("list", "--history", "--json"))["facts"]] == ["Paris", "Oslo"]

    told = in_json(facts("why", oslo["id"], "--json"))
    assert (told["fact"]["value"], told["rule"]) == ("Oslo", "manual")
    assert [each["value"] for each in told["replaced"]] == ["Paris"]

    ended = in_json(facts("end", "Ada", "lives_in", "--json"))
    assert in_json(facts("list", "--json"))["facts"] == []
    assert facts("undo", ended["change"]).exit_code == 0
    assert [each["value"] for each in in_json(facts("list", "--json"))["facts"]] == ["Oslo"]
    assert facts("undo", receipt["change"]).exit_code == 0
    assert in_json(facts("list", "--at", "2025-06", "--json"))["facts"] == []


def test_tables_show_short_ids_that_other_commands_take(facts: Command) -> None:
    facts("set", "Ada", "likes", "jaz")
    listed = facts("list").stdout
    (line,) = [line for line in listed.splitlines() if "jaz" in line]
    assert facts("correct", line.split()[0], "jazz").exit_code == 0
    assert "jazz" in facts("list", "Ada", "likes").stdout
    assert "jazz" in facts("why", facts("list").stdout.splitlines()[3].split()[0]).stdout


def test_extract_reads_what_was_said_once_and_why_quotes_it(facts: Command) -> None:
    facts.say("Hello! I live in Paris.")  # type: ignore[attr-defined]  # as above
    assert "1 utterance would be read" in facts("extract", "--dry-run").stderr
    report = in_json(facts("extract", "--json"))
    assert (report["read"], report["applied"]) == (1, 1)
    assert in_json(facts("extract", "--json"))["read"] == 0
    (fact,) = in_json(facts("list", "--json"))["facts"]
    assert in_json(facts("why", fact["id"], "--json"))["sources"][0]["text"] == "I live in Paris"
    assert "“I live in Paris”" in facts("why", fact["id"]).stdout
    assert "lives in: Paris" in facts("profile").stdout


def test_extract_asks_a_model_and_shows_what_it_cost(facts: Command) -> None:
    facts.say("Ich wohne in Wien.")  # type: ignore[attr-defined]  # as above
    proposed = {
        "utterance": "u1",
        "quote": "Ich wohne in Wien",
        "subject": "ada",
        "predicate": "lives_in",
        "object": "Wien",
        "ended": False,
        "date": None,
    }
    wrong = {**proposed, "object": "Graz"}
    with model_server() as server:
        _answer(server, proposed, wrong)
        result = facts("extract", "--model", "m", "--base-url", server.url, "--price", "1,10")
    assert result.exit_code == 0
    assert "Read: 1 utterance. New: 1 fact." in result.stderr
    assert "1,000 tokens in, 100 out, 0.0020 in all" in result.stderr
    assert "Refused: 1 proposal (says what was not said)." in result.stderr


def _answer(server: ModelServer, *facts: Any) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    server.says({**completion(json.dumps({"facts": facts})), "usage": usage})


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("why", "nothing"), 3, "no fact with this id"),
        (("correct", "nothing", "x"), 3, "no fact with this id"),
        (("undo", "nothing"), 3, "No change or entry"),
        (("set", "Ada", "lives_in", "Paris", "--since", "soon"), 2, "valid_from"),
        (("set", "Ada", "lives_in", "Paris", "--source", "none"), 2, "not among the memories"),
        (("extract", "--extractor", "telepathy"), 3, "telepathy"),
        (("extract", "--price", "free"), 2, "two numbers"),
        (("list", "--history", "--at", "2026"), 2, "leave --at"),
        (("list", "--session", "s"), 2, "leave --session"),
    ],
)
def test_mistakes_are_explained_and_have_exit_codes(
    facts: Command, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    facts("set", "Ada", "likes", "jazz")
    result = facts(*arguments)
    assert (result.exit_code, sentence in " ".join(result.stderr.split())) == (code, True), result.stderr


def test_facts_need_an_owner(command: Command, tmp_path: Path) -> None:
    result = command("facts", "list", "--store", f"shelf:///{tmp_path / 'memories'}")
    assert result.exit_code == 2
    assert "--user" in result.stderr


def test_why_takes_a_subject_and_a_predicate(facts: Command) -> None:
    facts("set", "Ada", "lives_in", "Paris", "--since", "2025-03")
    facts("set", "Ada", "lives_in", "Oslo", "--since", "2026")

    told = in_json(facts("why", "ada", "lives_in", "--json"))

    assert told["fact"]["value"] == "Oslo"
    assert [each["value"] for each in told["replaced"]] == ["Paris"]


def test_why_of_what_holds_no_more_explains_the_last_value(facts: Command) -> None:
    facts("set", "Ada", "lives_in", "Paris", "--since", "2025-03")
    facts("end", "Ada", "lives_in")

    assert in_json(facts("why", "Ada", "lives_in", "--json"))["fact"]["value"] == "Paris"


def test_why_of_several_values_lists_them_and_of_none_says_so(facts: Command) -> None:
    facts("set", "Ada", "likes", "jazz")
    facts("set", "Ada", "likes", "tea")

    several = facts("why", "Ada", "likes")
    none = facts("why", "Ada", "lives_in")

    assert (several.exit_code, none.exit_code) == (2, 3)
    listed = facts("list").stdout
    ids = [line.split()[0] for line in listed.splitlines() if "likes" in line]
    assert all(each in several.stderr for each in ("jazz", "tea", *ids))
    assert "Nothing is known about Ada lives_in" in none.stderr
