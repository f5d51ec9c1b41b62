"""Every example runs from an empty folder, with no key and no network, and prints what it says it prints."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import re
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.store import Store
from servers import postgres_server

EXAMPLES = sorted(
    path
    for path in (Path(__file__).parent.parent / "examples").rglob("*.py")
    if "It prints:" in path.read_text(encoding="utf-8")
)
NEEDED = {"crewai_storage": "crewai", "three_agents": "langgraph.graph"}
"""The frameworks that not every environment has; CrewAI is in that of the session `recipes` alone."""


def is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # Not even what it lies in is there.
        return False


def check_what_it_prints(example: Path, folder: Path, *arguments: str) -> None:
    """Run an example in an empty folder, and compare what it prints with what its first lines say."""
    package = NEEDED.get(example.stem)
    if package is not None and not is_installed(package):
        pytest.skip(f"{package} is not installed")
    told = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
    promised = textwrap.dedent(told.partition("It prints:\n\n")[2])

    result = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(example), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert promised
    assert result.stdout.strip() == promised.strip()
    assert list(folder.iterdir()) == []


# Half of them, for each starts a framework anew; what they show of it the adapters' tests and pages show, too.
@pytest.mark.rare("framework examples", one_in=2)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(example: Path, tmp_path: Path) -> None:
    check_what_it_prints(example, tmp_path)


async def test_three_agents_in_two_processes_share_a_space_on_postgresql(tmp_path: Path) -> None:
    example = next(path for path in EXAMPLES if path.stem == "three_agents")
    with postgres_server() as server, server.database() as url:
        check_what_it_prints(example, tmp_path, url)

        async with memoranda.open(url) as store:
            shared = await store.space("report").search()
            agents = {str(owner.value) async for owner in store.owners("agent_id")}
    assert [(item.content, item.origin) for item in shared] == [("The ferry costs 40 euros.", "user:ada")]
    assert {"planner", "researcher", "writer"} <= agents


def lines_of(framework: str) -> str:
    """Return what the front page says that a user of a framework writes."""
    page = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    (cell,) = re.findall(rf"^\| \[{framework}\]\(.*?\) \| (.*) \|$", page, re.MULTILINE)
    return "\n".join(re.findall(r"`(.+?)`", cell))


async def said(framework: str, store: Store, **names: Any) -> Any:
    """Run the lines in an async function, as in a program of the framework, and return what the last of them gives."""
    *lines, last = lines_of(framework).splitlines()
    body = textwrap.indent("\n".join([*lines, f"return {last}"]), "    ")
    exec(f"async def program(store):\n{body}", names)
    return await names["program"](store)


def test_the_lines_for_the_agents_sdk_remember() -> None:
    pytest.importorskip("agents")
    from agents import Agent
    from agents.testing import ScriptedModel
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    text = ResponseOutputText(text="Hi", annotations=[], type="output_text")
    message = ResponseOutputMessage(id="m", role="assistant", status="completed", type="message", content=[text])

    async def play() -> None:
        async with memoranda.open("memory://") as store:
            for runs in (1, 2):
                agent = Agent(name="a", model=ScriptedModel([[message]]))
                await said("OpenAI Agents", store, agent=agent)
                assert await store.count() == 2 * runs

    asyncio.run(play())


def test_the_lines_for_langgraph_remember() -> None:
    graphs = pytest.importorskip("langgraph.graph")
    builder = graphs.StateGraph(dict)
    builder.add_node("count", lambda state: {"n": state["n"] + 1})
    builder.add_edge(graphs.START, "count")

    async def play() -> None:
        async with memoranda.open("memory://") as store:
            thread = {"configurable": {"thread_id": "t"}}
            graph = await said("LangGraph", store, builder=builder)
            await graph.ainvoke({"n": 1}, thread)
            again = await said("LangGraph", store, builder=builder)
            assert (await again.aget_state(thread)).values == {"n": 2}

    asyncio.run(play())


def test_the_lines_for_pydantic_ai_remember() -> None:
    pytest.importorskip("pydantic_ai.conversation")
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    async def play() -> None:
        async with memoranda.open("memory://") as store:
            for _ in range(2):
                await said("Pydantic AI", store, agent=Agent(TestModel()))
            from memoranda_pydantic_ai import MemorandaConversationStore

            found = await MemorandaConversationStore(store.scoped(user_id="ada")).load("chat-1")
            assert found is not None
            assert len(found.messages) == 4

    asyncio.run(play())


def test_the_lines_for_langchain_remember() -> None:
    messages = pytest.importorskip("langchain_core.messages")

    async def play() -> None:
        async with memoranda.open("memory://") as store:
            for number in (1, 2):
                await said("LangChain", store, messages=[messages.HumanMessage("Hello")])
                assert await store.count() == number

    asyncio.run(play())


def test_the_lines_for_adk_remember() -> None:
    agents = pytest.importorskip("google.adk.agents")
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.genai.types import Content, Part

    class Parrot(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            yield LlmResponse(content=Content(role="model", parts=[Part(text="Hi")]))

    async def play() -> None:
        async with memoranda.open("memory://") as store:
            for runs in (1, 2):
                agent = agents.LlmAgent(name="a", model=Parrot(model="parrot"))
                assert len(await said("Google ADK", store, agent=agent)) == 1
                assert len(await store.search(limit=9)) == 2 * runs

    asyncio.run(play())


def test_the_lines_for_strands_remember() -> None:
    models = pytest.importorskip("strands.models")

    class Parrot(models.Model):  # type: ignore[misc,name-defined]
        def update_config(self, **config: Any) -> None: ...

        def get_config(self) -> Any:
            return {}

        def structured_output(self, *args: Any, **options: Any) -> Any: ...

        async def stream(self, *args: Any, **options: Any) -> Any:
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockDelta": {"delta": {"text": "Hi"}, "contentBlockIndex": 0}}
            yield {"contentBlockStop": {"contentBlockIndex": 0}}
            yield {"messageStop": {"stopReason": "end_turn"}}

    async def play() -> None:
        async with memoranda.open("memory://") as store:
            for runs in (1, 2):
                await said("Strands", store, model=Parrot())
                assert len(await store.search(limit=9)) == 2 * runs

    asyncio.run(play())


def test_the_lines_for_llama_index_remember() -> None:
    types = pytest.importorskip("llama_index.core.base.llms.types")

    async def play() -> None:
        async with memoranda.open("memory://") as store:
            for number in (1, 2):
                memory = await said("LlamaIndex", store)
                await memory.aput(types.ChatMessage(role="user", content="Hello"))
                assert len(await memory.aget()) == number

    asyncio.run(play())


def test_the_lines_for_the_agent_framework_remember() -> None:
    framework = pytest.importorskip("agent_framework")

    class Model(framework.FunctionInvocationLayer, framework.BaseChatClient):
        async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
            # Without an id, the same answer would be taken for the first one, saved again.
            answer = framework.Message("assistant", ["Hi"], message_id=uuid.uuid4().hex)
            return framework.ChatResponse(messages=[answer])

    async def play() -> None:
        async with memoranda.open("memory://") as store:
            for runs in (1, 2):
                await said("Agent Framework", store, client=Model())
                assert await store.count() == 2 * runs

    asyncio.run(play())


def test_crewai_finds_what_lies_in_its_scope_and_has_its_categories(tmp_path: Path) -> None:
    pytest.importorskip("crewai")
    from crewai import Memory
    from crewai.memory.types import MemoryRecord

    from memoranda.sync import open as open_store

    path = next(path for path in EXAMPLES if path.stem == "crewai_storage")
    spec = importlib.util.spec_from_file_location("crewai_storage", path)
    assert spec is not None
    assert spec.loader is not None
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)

    for url in ("memory://", f"sqlite:///{tmp_path}/a.db"):
        with open_store(url) as store:
            both = recipe.MemorandaStorage(store.scoped(user_id="crew"))
            memory = Memory(storage=both, embedder=both)

            def keep(text: str, scope: str, category: str, kept: Any = both) -> None:
                kept.save([MemoryRecord(content=text, scope=scope, categories=[category], metadata={"of": category})])

            def found(asked: Any = memory, **filters: Any) -> list[str]:
                matches = asked.recall("Where is the flat?", depth="shallow", **filters)
                return sorted(match.record.content for match in matches)

            for number in range(5):
                keep(f"Where is the flat? The flat of Adam is in street {number}.", "/adam", "flat")
            keep("The flat of Ada is in Oslo.", "/ada/home", "home")
            keep("The flat of Ada has a cat.", "/ada", "pets")

            assert found(scope="/ada", limit=1)
            assert found(scope="/ada") == ["The flat of Ada has a cat.", "The flat of Ada is in Oslo."]
            assert found(categories=["home"], limit=1) == ["The flat of Ada is in Oslo."]
            assert found(scope="/ada", categories=["flat"]) == []
            assert both.search(both(["flat"])[0], metadata_filter={"of": "pets"})[0][0].scope == "/ada"
            assert len(both.search(both(["flat"])[0], metadata_filter={"of": "pets"})) == 1
            both([f"another text {number}" for number in range(3_000)])
            assert len(both.texts) == 1_000
