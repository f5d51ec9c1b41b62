"""An agent of the OpenAI Agents SDK that remembers across restarts, with a model that needs no key.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[openai-agents]'
    python examples/openai_agents_session.py

It prints:

    Ada: My flat is in Oslo. -> Noted.
    Ada: Where is my flat? -> I looked it up: Oslo.
    the model was shown: user, assistant, user, function_call, function_call_output
    a session with a limit of 2 shows a model: assistant, user
    Bob's session of the same name: 0 items
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner, function_tool
from agents.memory import SessionSettings
from agents.testing import ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import memoranda
from memoranda_openai_agents import MemorandaSession

QUIET = RunConfig(tracing_disabled=True)


def says(text: str) -> Any:
    """Return a text answer of a model."""
    content = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(id="msg", type="message", role="assistant", content=[content], status="completed")


def calls(tool: str) -> Any:
    """Return a model's request to call a tool."""
    return ResponseFunctionToolCall(id="fc", call_id="call", type="function_call", name=tool, arguments="{}")


@function_tool
def look_up() -> str:
    """Look something up."""
    return "Oslo"


def kinds(items: Any) -> str:
    """Return the types of these items."""
    return ", ".join(item.get("role") or item["type"] for item in items)


async def monday(url: str) -> None:
    """Give the agent a fact, with a newly opened store as in another process."""
    model = ScriptedModel()
    model.enqueue([says("Noted.")])
    async with memoranda.open(url, observers=["guard"]) as store:
        session = MemorandaSession("chat", store.scoped(user_id="ada"))
        agent = Agent(name="assistant", model=model)
        result = await Runner.run(agent, "My flat is in Oslo.", session=session, run_config=QUIET)
        print("Ada: My flat is in Oslo. ->", result.final_output)


async def tuesday(url: str) -> None:
    """Ask for that fact."""
    model = ScriptedModel()
    model.enqueue([calls("look_up")])
    model.enqueue([says("I looked it up: Oslo.")])
    model.enqueue([says("You are welcome.")])
    async with memoranda.open(url, observers=["guard"]) as store:
        agent = Agent(name="assistant", model=model, tools=[look_up])
        session = MemorandaSession("chat", store.scoped(user_id="ada"))
        result = await Runner.run(agent, "Where is my flat?", session=session, run_config=QUIET)
        print("Ada: Where is my flat? ->", result.final_output)
        print("the model was shown:", kinds(model.calls[-1].input))
        # The newest two items begin with the result of a call that the limit cuts off: it is not shown.
        short = MemorandaSession("chat", store.scoped(user_id="ada"), session_settings=SessionSettings(limit=2))
        await Runner.run(agent, "Thanks!", session=short, run_config=QUIET)
        print("a session with a limit of 2 shows a model:", kinds(model.calls[-1].input))
        bobs = await MemorandaSession("chat", store.scoped(user_id="bob")).get_items()
        print("Bob's session of the same name:", len(bobs), "items")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / 'agent.db'}"
        asyncio.run(monday(database))
        asyncio.run(tuesday(database))
