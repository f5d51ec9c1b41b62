"""``memoranda eval``: the table, the misses, the plot, JSON, and proposing questions."""

from __future__ import annotations

import json
import stat
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
Write = Callable[..., Path]

SEAT = {"question": "Who likes a window seat?", "ids": ["seat"], "user_id": "ada"}
TEA = {"question": "What is called Biscuit?", "ids": ["tea"], "user_id": "ada"}


def test_a_table_has_a_row_for_each_mode_and_embedder(command: Command, url: str, questions: Write) -> None:
    result = command("eval", questions(SEAT), "--store", url, "--embedder", "hashing", "-k", "1,3")

    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert rows[0] == ["mode", "embedder", "R@1", "R@3", "P@3", "MRR", "found", "ms"]
    assert [row[:2] for row in rows[2:]] == [
        ["text", "–"],
        ["recall", "–"],
        *([mode, "hashing"] for mode in ("semantic", "hybrid", "recall")),
    ]
    assert rows[2][2] == "1.00"
    assert "1 question asked." in result.stderr
    assert "hashing was measured on a temporary copy" in result.stderr


def test_content_is_shown_only_with_misses(command: Command, url: str, questions: Write, said: dict[str, str]) -> None:
    path = questions(SEAT, TEA)

    plain, listed = command("eval", path, "--store", url), command("eval", path, "--store", url, "--misses", "-k", "1")

    assert all(text not in plain.output for text in (*said.values(), SEAT["question"]))
    assert "2. What is called Biscuit?" in listed.stdout
    assert f"right: “{said['tea']}” (tea)" in listed.stdout
    assert "rank: text –, recall –" in listed.stdout
    assert f"first by text, recall: “{said['dog']}” (dog)" in listed.stdout
    assert SEAT["question"] not in listed.stdout


def test_nothing_to_miss_is_said_in_a_sentence(command: Command, url: str, questions: Write) -> None:
    result = command("eval", questions(SEAT), "--store", url, "--misses")

    assert "Every right item is among the first 10 results in every mode." in result.stdout


def test_json_holds_the_figures_and_the_misses_on_request(
    command: Command, url: str, questions: Write, said: dict[str, str]
) -> None:
    line = ("eval", questions(SEAT, TEA, {"question": "gone?", "ids": ["gone"]}), "--store", url, "-k", "1", "--json")

    document = json.loads(command(*line).stdout)
    listed = json.loads(command(*line, "--misses").stdout)

    assert document["questions"] == 2
    assert document["unknown_lines"] == [3]
    score, _ = document["scores"]
    assert score["recall"]["1"] == 0.5
    assert score["precision"]["1"] == 0.5
    assert "misses" not in document
    assert [miss["line"] for miss in listed["misses"]] == [2]
    assert listed["misses"][0]["right"][0]["content"] == said["tea"]
    assert listed["misses"][0]["first"]["text"]["id"] == "dog"


def test_unknown_right_items_are_listed_by_line(command: Command, url: str, questions: Write) -> None:
    path = questions(SEAT, {"question": "q", "ids": ["gone"]}, {**SEAT, "ids": ["seat", "gone"]})

    result = command("eval", path, "--store", url)

    assert "1 question not scored, since no right item is in the store: line 2." in result.stderr
    assert "1 question scored without right items that are missing: line 3." in result.stderr


def test_owners_on_the_line_are_for_questions_that_name_none(command: Command, url: str, questions: Write) -> None:
    path = questions(SEAT, {"question": "window seat", "ids": ["bob"]})

    document = json.loads(command("eval", path, "--store", url, "--user", "bob", "--json").stdout)

    assert document["questions"] == 2
    assert document["scores"][0]["recall"]["1"] == 1


def test_a_plot_has_a_panel_for_the_store_and_for_each_embedder(command: Command, url: str, questions: Write) -> None:
    path = questions(SEAT, TEA)

    result = command("eval", path, "--store", url, "-e", "hashing", "--plot", "recall.svg")

    assert result.exit_code == 0, result.output
    texts = [node.text for node in ElementTree.parse("recall.svg").iter() if node.tag.endswith("text")]
    assert {"the store", "hashing", "text", "semantic", "hybrid", "20", "0.2"} <= set(texts)


def test_a_conversation_file_is_loaded_asked_and_removed_again(
    command: Command, url: str, locomo: Write, tmp_path: Path, said: dict[str, str]
) -> None:
    path = locomo()

    alone = json.loads(command("eval", path, "--json").stdout)
    stored = json.loads(command("eval", path, "--json", "--store", url).stdout)

    for document in (alone, stored):
        assert (document["questions"], document["left_out"], document["partly_unknown_lines"]) == (2, 2, [2])
        assert document["scores"][0]["recall"]["20"] > 0
    assert not (tmp_path / "data").exists()
    listed = json.loads(command("export", "all.jsonl", "--deleted", "--store", url, "--json").stdout)
    assert listed["count"] == len(said) + 1


def test_proposed_questions_are_the_same_each_time_and_can_be_asked(command: Command, url: str, tmp_path: Path) -> None:
    first, again = tmp_path / "a.jsonl", tmp_path / "b.jsonl"

    result = command("eval", "--make", first, "--store", url, "--user", "ada", "-n", "3", "--seed", "5")
    command("eval", "--make", again, "--store", url, "--user", "ada", "-n", "3", "--seed", "5")

    assert "3 questions are in" in result.stderr
    assert "flatters word search" in result.stderr
    assert first.read_bytes() == again.read_bytes()
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    header, *lines = map(json.loads, first.read_text(encoding="utf-8").splitlines())
    assert "flatters word search" in header["note"]
    assert {line["user_id"] for line in lines} == {"ada"}
    asked = command("eval", first, "--store", url)
    assert "3 questions asked. The file says: A proxy" in asked.stderr


def test_a_file_is_replaced_only_if_that_is_agreed_to(command: Command, url: str, questions: Write) -> None:
    path = questions(SEAT)

    assert command("eval", "--make", path, "--store", url).exit_code == 8
    made = command("eval", "--make", path, "--store", url, "--yes", "--json")
    assert json.loads(made.stdout)["count"] == len(path.read_text(encoding="utf-8").splitlines()) - 1


@pytest.mark.parametrize(
    ("arguments", "code", "cause"),
    [
        ((), 2, "Name a FILE of questions"),
        (("questions.jsonl", "--make", "more.jsonl"), 2, "Name a FILE of questions"),
        (("absent.jsonl",), 3, "There is no file 'absent.jsonl'"),
        (("questions.jsonl", "-k", "ten"), 2, "-k takes numbers"),
        (("questions.jsonl", "--plot", "recall.png"), 2, "A plot is SVG"),
        (("questions.jsonl", "--embedder", "nonsuch"), 3, "No embedder is called 'nonsuch'"),
        (("questions.jsonl", "--mode", "semantic"), 6, "Name an embedder"),
    ],
)
def test_what_cannot_be_done_is_an_error_in_words(
    command: Command, url: str, questions: Write, arguments: tuple[str, ...], code: int, cause: str
) -> None:
    questions(SEAT)

    result = command("eval", *arguments, "--store", url)

    assert result.exit_code == code
    assert cause in result.stderr


def test_a_mistake_in_the_file_names_its_line(command: Command, url: str, questions: Write) -> None:
    result = command("eval", questions(SEAT, {"question": "q", "user": "ada"}), "--store", url)

    assert result.exit_code == 2
    assert "line 2: there is no field 'user'. Did you mean 'user_id'?" in result.stderr


def test_it_runs_as_a_process_of_its_own(process: Any, url: str, questions: Write) -> None:
    done = process("eval", str(questions(SEAT)), "--store", url, "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"][0]["mode"] == "text"
