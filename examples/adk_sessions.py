"""An agent of Google's Agent Development Kit that remembers across restarts, with a model that needs no key.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[adk]'
    python examples/adk_sessions.py

It prints:

    Ada: My flat is in Oslo. -> Noted.
    Ada: Where is my flat? -> I looked it up: Oslo.
    the model was sent: user, model, user, model, user
    the state of her next session: {'user:city': 'Oslo'}
    a search of her memory: My flat is in Oslo.
    Bob's sessions: 0
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import Field

import memoranda
from memoranda_adk import MemorandaMemoryService, MemorandaSessionService

CHAT: dict[str, Any] = {"user_id": "ada", "session_id": "chat"}


class Scripted(BaseLlm):
    """A model that says what it was told to say."""

    model: str = "scripted"
    answers: list[types.Part]
    sent: list[types.Content] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Give the next answer."""
        self.sent = list(llm_request.contents)
        yield LlmResponse(content=types.Content(role="model", parts=[self.answers.pop(0)]))


def look_up(tool_context: ToolContext) -> str:
    """Look up where the flat is."""
    tool_context.state["user:city"] = "Oslo"
    return "Oslo"


async def ask(store: Any, model: Scripted, text: str) -> None:
    """Ask the agent, and print its answer."""
    sessions = MemorandaSessionService(store)
    agent = LlmAgent(name="assistant", model=model, tools=[look_up])
    runner = Runner(app_name="flats", agent=agent, session_service=sessions, auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    answer = ""
    async for event in runner.run_async(**CHAT, new_message=message):
        if event.is_final_response() and event.content:
            answer = (event.content.parts or [types.Part()])[0].text or ""
    print(f"Ada: {text} -> {answer}")


async def monday(url: str) -> None:
    """Tell the agent something."""
    async with memoranda.open(url) as store:
        await ask(store, Scripted(answers=[types.Part(text="Noted.")]), "My flat is in Oslo.")


async def tuesday(url: str) -> None:
    """Ask for it, with a newly opened store as in another process."""
    call = types.Part(function_call=types.FunctionCall(name="look_up", args={}))
    model = Scripted(answers=[call, types.Part(text="I looked it up: Oslo.")])
    async with memoranda.open(url) as store:
        await ask(store, model, "Where is my flat?")
        print("the model was sent:", ", ".join(str(content.role) for content in model.sent))
        sessions, memory = MemorandaSessionService(store), MemorandaMemoryService(store)
        session = await sessions.get_session(app_name="flats", **CHAT)
        assert session is not None
        await memory.add_session_to_memory(session)
        after = await sessions.create_session(app_name="flats", user_id="ada")
        print("the state of her next session:", after.state)
        found = await memory.search_memory(app_name="flats", user_id="ada", query="Is the flat in Oslo?")
        print("a search of her memory:", (found.memories[0].content.parts or [types.Part()])[0].text)
        bobs = await sessions.list_sessions(app_name="flats", user_id="bob")
        print("Bob's sessions:", len(bobs.sessions))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / 'agent.db'}"
        asyncio.run(monday(database))
        asyncio.run(tuesday(database))
