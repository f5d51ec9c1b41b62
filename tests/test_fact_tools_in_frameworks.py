"""The tools for facts as each framework's own: the model calls them, and its mistakes are answered with sentences."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agents.tool_context import ToolContext
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import memoranda_langgraph
import memoranda_openai_agents
import memoranda_pydantic_ai
from memoranda.store import InMemoryStore
from memoranda_facts import Facts
from memoranda_facts.tools import FactTools

PARIS = {"subject": "Ada", "predicate": "lives_in", "value": "Paris"}


@pytest.fixture
def facts() -> Facts:
    """Ada's facts, empty."""
    return Facts(InMemoryStore().scoped(user_id="ada"))


async def known(facts: Facts) -> list[str]:
    """Return what holds."""
    return [str(fact.object) for fact in await facts.current()]


async def test_the_openai_agents_sdk_calls_them(facts: Facts) -> None:
    tools = {tool.name: tool for tool in memoranda_openai_agents.as_tools(FactTools(facts).all())}

    async def call(name: str, arguments: str) -> str:
        context: ToolContext[Any] = ToolContext(None, tool_name=name, tool_call_id="1", tool_arguments=arguments)
        return str(await tools[name].on_invoke_tool(context, arguments))

    assert json.loads(await call("remember_fact", json.dumps(PARIS)))["replaced"] == []
    assert json.loads(await call("recall_facts", ""))["facts"][0]["value"] == "Paris"
    assert "no fact with this id" in await call("end_fact", '{"id": "none"}')
    assert "JSON object" in await call("end_fact", "[1")
    assert await known(facts) == ["Paris"]


async def test_langgraph_calls_them(facts: Facts) -> None:
    tools = {tool.name: tool for tool in memoranda_langgraph.as_tools(FactTools(facts).all())}
    await tools["remember_fact"].ainvoke(PARIS)
    assert json.loads(await tools["recall_facts"].ainvoke({}))["facts"][0]["value"] == "Paris"
    assert "no fact with this id" in await tools["end_fact"].ainvoke({"id": "none"})
    assert await known(facts) == ["Paris"]


async def test_pydantic_ai_calls_them_and_the_model_may_try_again(facts: Facts) -> None:
    wanted = iter([("end_fact", {"id": "none"}), ("remember_fact", PARIS)])
    heard: list[str] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        heard.extend(str(part.content) for part in messages[-1].parts if hasattr(part, "content"))
        call = next(wanted, None)
        return ModelResponse([TextPart("Done.") if call is None else ToolCallPart(*call)])

    agent = Agent(FunctionModel(model), tools=memoranda_pydantic_ai.as_tools(FactTools(facts).all()))
    assert (await agent.run("I live in Paris.")).output == "Done."
    assert any("no fact with this id" in text for text in heard)
    assert await known(facts) == ["Paris"]


async def test_a_reader_gets_no_tool_that_writes(facts: Facts) -> None:
    reading = FactTools(facts).all(read_only=True)
    assert [tool.name for tool in memoranda_langgraph.as_tools(reading)] == ["recall_facts"]
