"""The tools for an agent's own model, as plain functions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import InputError
from memoranda.store import InMemoryStore
from memoranda_facts import Facts, Predicate, Schema
from memoranda_facts.tools import FactTool, FactTools


@pytest.fixture
def facts() -> Facts:
    """Ada's facts, empty."""
    schema = Schema([Predicate("lives_in", "one", aliases=("home",)), Predicate("likes")])
    return Facts(InMemoryStore().scoped(user_id="ada"), schema=schema)


@pytest.fixture
def tools(facts: Facts) -> dict[str, FactTool]:
    """The tools by name."""
    return {tool.name: tool for tool in FactTools(facts).all()}


async def recalled(tools: dict[str, FactTool], **arguments: Any) -> list[tuple[str, str]]:
    """Return what a model recalls, in short."""
    found = (await tools["recall_facts"](**arguments))["facts"]
    return [(fact["predicate"], fact["value"]) for fact in found]


async def test_what_is_remembered_is_recalled(tools: dict[str, FactTool]) -> None:
    await tools["remember_fact"](subject="Ada", predicate="lives_in", value="Paris", since="2026-03")
    answer = await tools["recall_facts"]()
    (fact,) = answer["facts"]
    assert fact == {
        "id": fact["id"],
        "subject": "Ada",
        "predicate": "lives_in",
        "value": "Paris",
        "since": "2026-03",
        "state": "holds",
        "trust": "agent",
    }
    json.dumps(answer)


async def test_a_new_value_says_what_it_replaced(tools: dict[str, FactTool]) -> None:
    await tools["remember_fact"](subject="Ada", predicate="lives_in", value="Paris", since="2025")
    outcome = await tools["remember_fact"](subject="Ada", predicate="lives_in", value="Oslo", since="2026")
    assert [fact["value"] for fact in outcome["replaced"]] == ["Paris"]
    assert await recalled(tools) == [("lives_in", "Oslo")]
    assert await recalled(tools, at="2025-06") == [("lives_in", "Paris")]


async def test_a_model_does_not_overrule_the_user(facts: Facts, tools: dict[str, FactTool]) -> None:
    await facts.set("Ada", "lives_in", "Paris", valid_from="2025", sources="manual", trust="user")
    outcome = await tools["remember_fact"](subject="Ada", predicate="lives_in", value="Oslo", since="2026")
    assert outcome["disputed"]
    assert await recalled(tools) == [("lives_in", "Paris"), ("lives_in", "Oslo")]


async def test_a_fact_is_corrected_or_ended_by_its_id(tools: dict[str, FactTool]) -> None:
    await tools["remember_fact"](subject="Ada", predicate="lives_in", value="Pariss")
    (fact,) = (await tools["recall_facts"](subject="ada"))["facts"]
    await tools["correct_fact"](id=fact["id"], value="Paris")
    assert await recalled(tools, predicate="home") == [("lives_in", "Paris")]
    (fact,) = (await tools["recall_facts"]())["facts"]
    await tools["end_fact"](id=fact["id"])
    assert await recalled(tools) == []


async def test_a_question_is_answered_and_an_unrelated_one_is_not(tools: dict[str, FactTool]) -> None:
    await tools["remember_fact"](subject="Ada", predicate="lives_in", value="Paris")
    await tools["remember_fact"](subject="Ada", predicate="likes", value="jazz")
    assert (await recalled(tools, query="Where does Ada live?"))[0] == ("lives_in", "Paris")
    assert await recalled(tools, query="What is the capital of Mongolia?") == []


async def test_only_so_many_are_recalled(tools: dict[str, FactTool]) -> None:
    for number in range(5):
        await tools["remember_fact"](subject="Ada", predicate="likes", value=f"song {number}")
    answer = await tools["recall_facts"](limit=2)
    assert (len(answer["facts"]), answer["more"]) == (2, 3)


async def test_sources_can_be_the_items_at_hand(facts: Facts) -> None:
    item = HumanMemory(content="I live in Paris.", metadata=MemoryMetadata(user_id="ada"))
    await facts.store.add(item)
    (remember, *_) = FactTools(facts, sources=lambda: [item]).all()
    await remember(subject="Ada", predicate="lives_in", value="Paris")
    (fact,) = await facts.current()
    assert ([source.item_id for source in fact.sources], fact.trust, fact.rule) == ([item.id], "user", "tool")


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("remember_fact", {"subject": "Ada"}, "'predicate' is missing"),
        ("remember_fact", {"subject": "Ada", "predicate": "x", "value": "y", "colour": "z"}, "'colour' is not"),
        ("remember_fact", {"subject": "Ada", "predicate": "x", "value": 7}, "'value' must be a string"),
        ("remember_fact", {"subject": "Ada", "predicate": "x", "value": "y", "since": "soon"}, "valid_from"),
        ("correct_fact", {"id": "fact-none-1"}, "no fact with this id"),
        ("end_fact", {"id": "nonsense"}, "no fact with this id"),
        ("recall_facts", {"limit": 0}, "limit"),
    ],
)
async def test_wrong_arguments_are_explained(
    tools: dict[str, FactTool], name: str, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        await tools[name](**arguments)


def test_every_tool_has_a_strict_schema(tools: dict[str, FactTool]) -> None:
    assert list(tools) == ["remember_fact", "correct_fact", "end_fact", "recall_facts"]
    for tool in tools.values():
        assert tool.schema["additionalProperties"] is False
        assert set(tool.schema["required"]) <= set(tool.schema["properties"])
        assert tool.description


def test_only_recalling_is_left_if_nothing_may_be_written(facts: Facts) -> None:
    assert [tool.name for tool in FactTools(facts).all(read_only=True)] == ["recall_facts"]
