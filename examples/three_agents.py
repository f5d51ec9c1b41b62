"""Three agents of one user share what concerns a report, in two processes and two frameworks; models need no key.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[openai-agents,langgraph,spaces]' langgraph
    python examples/three_agents.py [URL]

The planner and the researcher are agents of the OpenAI Agents SDK in this process. The writer is a graph of LangGraph
in another one, ``three_agents_writer.py``. Each has a memory of its own, and a grant of one space: the planner may read
it, the researcher may write to it, and the writer may read it. The URL is any store that two processes can open, such
as postgresql://localhost/agents; by default a file in a temporary folder.

It prints:

    planner: Ask for prices in May.
    researcher: Noted.
    writer, in another process: The ferry costs 40 euros. [from the space report]
    planner: The ferry costs 40 euros. [from the space report]
    the researcher sees the planner's thoughts: no
    the writer may write into the space: no
    the researcher still reads the space when it is done: no
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import memoranda
from memoranda import HumanMemory, Store
from memoranda.errors import NotGrantedError
from memoranda_openai_agents import MemorandaSession
from memoranda_spaces import Grants, agent, space_of

SPACE = "report"
WRITER = Path(__file__).with_name("three_agents_writer.py")
QUESTION = "What does the ferry cost?"
QUIET = RunConfig(tracing_disabled=True)


def says(text: str) -> Any:
    """Return a text answer of a model."""
    content = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(id="msg", type="message", role="assistant", content=[content], status="completed")


def calls(tool: str, **arguments: str) -> Any:
    """Return a model's request to call a tool."""
    given = json.dumps(arguments)
    return ResponseFunctionToolCall(id="fc", call_id="call", type="function_call", name=tool, arguments=given)


def memory_of(store: Store, name: str) -> Any:
    """Return the memory of one of Ada's agents: its own, and the spaces that are granted to it."""
    return store.scoped(user_id="ada", agent_id=name, spaces="granted")


async def known(memory: Any, question: str) -> str:
    """Return what an agent's memory knows, with where it comes from."""
    found = await memory.recall(question)
    told = [f"{item.content} [from the space {space_of(item)}]" for item in found if space_of(item)]
    return " ".join(told) or "nothing"


async def ask(store: Store, name: str, request: str, *answers: Any) -> str:
    """Ask an agent of the Agents SDK, whose session lies in its own memory."""
    memory = memory_of(store, name)

    @function_tool
    async def share(text: str) -> str:
        """Share a finding with the other agents."""
        await memory.add(HumanMemory(content=text), space=SPACE)
        return "shared"

    model = ScriptedModel()
    for answer in answers:
        model.enqueue([answer])
    asked = Agent(name=name, model=model, tools=[share])
    result = await Runner.run(asked, request, session=MemorandaSession(f"{name}-1", memory), run_config=QUIET)
    return str(result.final_output)


async def written_elsewhere(url: str) -> str:
    """Let the writer answer, in a process of its own, and return what it wrote."""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, WRITER, url, QUESTION], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


async def main(url: str) -> None:
    async with memoranda.open(url) as store:
        grants = Grants(store)
        for name, may in (("planner", "read"), ("researcher", "write"), ("writer", "read")):
            await grants.give(SPACE, to=agent(name, of="ada"), may=may, by="ada's account", why="the report")

        print("planner:", await ask(store, "planner", "Plan a report.", says("Ask for prices in May.")))
        finding = calls("share", text="The ferry costs 40 euros.")
        print("researcher:", await ask(store, "researcher", "Find out prices.", finding, says("Noted.")))
        print("writer, in another process:", await written_elsewhere(url))
        print("planner:", await known(memory_of(store, "planner"), QUESTION))

        thoughts = await memory_of(store, "researcher").search(query="prices in May")
        print("the researcher sees the planner's thoughts:", "yes" if thoughts else "no")
        try:
            await memory_of(store, "writer").add(HumanMemory(content="Sold out."), space=SPACE)
            print("the writer may write into the space: yes")
        except NotGrantedError:
            print("the writer may write into the space: no")
        await grants.revoke(SPACE, to=agent("researcher", of="ada"), by="ada's account", why="done")
        left = await known(memory_of(store, "researcher"), QUESTION)
        print("the researcher still reads the space when it is done:", "no" if left == "nothing" else "yes")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(f"sqlite:///{folder}/agent.db"))
