"""Reading questions: JSON Lines and LoCoMo's format, with every mistake named by its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda import MemoryMetadata
from memoranda.errors import InputError
from memoranda_cli.evaluation import EvalQuestion, read_questions

Write = Callable[..., Path]


def test_lines_with_ids_texts_and_scopes_are_read(questions: Write) -> None:
    path = questions(
        {"memoranda": "questions", "format": 1, "note": "by hand"},
        {"question": "Which seat?", "ids": ["seat"], "user_id": "ada", "session_id": "monday"},
        "",
        {"question": "Which dog?", "texts": ["My dog is called Biscuit."], "namespace": ["users", "ada"]},
        {"question": "Which tea?", "ids": ["tea", "tea"], "user_id": None},
    )

    found = read_questions(path, default=MemoryMetadata(agent_id="guide"))

    assert found.items == []
    assert found.questions == [
        EvalQuestion("Which seat?", ("seat",), metadata=MemoryMetadata(user_id="ada", session_id="monday"), line=2),
        EvalQuestion(
            "Which dog?",
            texts=("My dog is called Biscuit.",),
            metadata=MemoryMetadata(namespace=("users", "ada")),
            line=4,
        ),
        EvalQuestion("Which tea?", ("tea",), metadata=MemoryMetadata(agent_id="guide"), line=5),
    ]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("{oops", "this is not JSON"),
        ("[1]", "a question is a JSON object"),
        ({"ids": ["a"]}, "'question' must be a text"),
        ({"question": " ", "ids": ["a"]}, "'question' must be a text"),
        ({"question": "a\ud800", "ids": ["a"]}, "'question' must be a text"),
        ({"question": "q"}, "name the right items by 'ids' or by 'texts'."),
        ({"question": "q", "ids": ["a"], "texts": ["b"]}, "not both"),
        ({"question": "q", "ids": "a"}, "'ids' must be a list of texts"),
        ({"question": "q", "texts": []}, "'texts' must be a list of texts"),
        ({"question": "q", "ids": ["a", 1]}, "'ids' must be a list of texts"),
        ({"question": "q", "ids": ["a"], "user": "ada"}, "there is no field 'user'. Did you mean 'user_id'?"),
        ({"question": "q", "ids": ["a"], "user_id": 7}, "'user_id' must be a text"),
        ({"question": "q", "ids": ["a"], "namespace": "users"}, "'namespace' must be a list"),
        ({"memoranda": "questions", "format": 1}, "a header stands in the first line"),
        ({"memoranda": "export", "format": 1}, "this is a file of memories"),
    ],
)
def test_a_mistake_is_named_with_its_line(questions: Write, line: Any, cause: str) -> None:
    path = questions({"question": "q", "ids": ["a"]}, line)

    with pytest.raises(InputError) as refused:
        read_questions(path)

    assert str(refused.value).startswith("questions.jsonl has a mistake:\n  line 2: ")
    assert cause in str(refused.value)


def test_every_line_with_a_mistake_is_listed(questions: Write) -> None:
    path = questions("{", *[{"question": "q"}] * 30)

    with pytest.raises(InputError, match=r"31 mistakes") as refused:
        read_questions(path)

    assert "line 1: this is not JSON" in str(refused.value)
    assert "line 20: name the right items" in str(refused.value)
    assert str(refused.value).endswith("and 11 more")


def test_a_file_without_questions_or_of_a_later_format_is_refused(questions: Write) -> None:
    with pytest.raises(InputError, match="has no questions"):
        read_questions(questions(""))
    with pytest.raises(InputError, match="reads format 1"):
        read_questions(questions({"memoranda": "questions", "format": 2}, {"question": "q", "ids": ["a"]}))


def test_a_repr_shows_nothing_that_was_asked() -> None:
    assert "secret" not in repr(EvalQuestion("secret", texts=("secret",)))


def test_the_conversations_of_locomo_become_items_and_questions(locomo: Write) -> None:
    found = read_questions(locomo(), prefix="x/")

    assert [(item.id, item.name, item.content) for item in found.items] == [
        ("x/conv-1/D1:1", "Ada", "I adopted a puppy! a small dog"),
        ("x/conv-1/D1:2", "Bob", "Lovely. Mine is a cat."),
        ("x/conv-1/D2:1", "Bob", "I sold my old bicycle."),
    ]
    assert [item.created_at[:19] for item in found.items] == [
        "2023-01-08T13:56:00",
        "2023-01-08T13:56:30",
        "2023-02-01T09:05:00",
    ]
    assert {item.metadata.user_id for item in found.items} == {"x/conv-1"}
    assert [question.ids for question in found.questions] == [
        ("x/conv-1/D1:1",),
        ("x/conv-1/D1:1", "x/conv-1/D1:2", "x/conv-1/D9:9"),
    ]
    assert found.left_out == 2


def test_what_is_missing_in_a_conversation_is_named(locomo: Write, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"conversation 1: .* \(there is no 'session_1_date_time'\)"):
        read_questions(locomo(conversation={"session_1": [{"dia_id": "D1:1"}]}))
    (tmp_path / "list.json").write_text('[{"question": "q", "ids": ["a"]}]')
    with pytest.raises(InputError, match="one JSON object a line"):
        read_questions(tmp_path / "list.json")
