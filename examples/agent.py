"""A complete agent: tools, recall of earlier sessions, facts that change, and compaction; with a fake model.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[summary-conversation]'
    python examples/agent.py

It plays two sessions. In the second, the agent calls a tool with what it was told in the first. Put your model's client
where ``FakeModel`` is: it takes messages and answers with one, as OpenAI's chat API does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import memoranda
from memoranda import HumanMemory, MemoryMetadata, ToolMemory
from memoranda.store import ScopedStore, Store
from memoranda_context import assemble
from memoranda_messages import from_openai, to_openai
from memoranda_summary import SummaryConfig, compact

SYSTEM = "You plan evenings. Look a place up before you propose it."
MOST_CALLS = 5
COMPACTION = SummaryConfig(message_threshold=8, keep_recent=4)


def restaurants(city: str) -> str:
    """Look up what there is to eat in a city."""
    places = {"Lisbon": ["Tasca da Esquina"], "Porto": ["Adega São Nicolau"]}
    return json.dumps(places.get(city, []))


TOOLS: dict[str, Callable[..., str]] = {"restaurants": restaurants}


class FakeModel:
    """Calls the tool once for each question about dinner, with the city it was told of last, and repeats its result."""

    async def complete(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the next message of an assistant."""
        last = messages[-1]
        if last["role"] == "tool":
            return {"role": "assistant", "content": f"How about {json.loads(last['content'])[0]}?"}
        if "dinner" not in last["content"]:
            return {"role": "assistant", "content": "I will remember that."}
        told = "\n".join(message["content"] for message in messages[:-1] if message["role"] == "user")
        city = max(("Lisbon", "Porto"), key=told.rfind)
        function = {"name": "restaurants", "arguments": json.dumps({"city": city})}
        call = {"id": f"call_{len(messages)}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    async def summarize(self, prompt: str) -> str:
        """Return a summary of a transcript."""
        return "Ada and the agent talked about evenings."


async def answer(model: FakeModel, chat: ScopedStore, text: str) -> str:
    """Store the user's message, let the model call its tools, and return its final answer."""
    await chat.add(HumanMemory(content=text))
    for _ in range(MOST_CALLS):
        # Without a question, the round that is open goes on: the prompt ends with the newest message or result.
        messages = to_openai(await assemble(chat, system=SYSTEM, tokens=4_000))
        message = await model.complete(messages)
        await chat.add_many(from_openai([message]))
        calls = message.get("tool_calls") or []
        if not calls:
            return str(message["content"])
        await chat.add_many(ToolMemory(content=result(call), tool_call_id=call["id"]) for call in calls)
    return "I could not find that out."


def result(call: dict[str, Any]) -> str:
    """Run a tool and return its result; a mistake of the model is a result as well, which it can mend."""
    function = call["function"]
    tool = TOOLS.get(function["name"])
    if tool is None:
        return f"There is no tool {function['name']}."
    try:
        return tool(**json.loads(function["arguments"]))
    except (TypeError, ValueError) as error:
        return f"The arguments do not fit: {error}"


async def session(model: FakeModel, store: Store, name: str, lines: list[str]) -> None:
    """Play one session, and compact it if it has grown long."""
    chat = store.scoped(user_id="ada", session_id=name)
    for line in lines:
        print(f"ada: {line}")
        print(f"agent: {await answer(model, chat, line)}")
    done = await compact(store, MemoryMetadata(user_id="ada", session_id=name), COMPACTION, model)
    if done.compacted:
        print(f"({len(done.archived)} items of {name} are now a summary)")


async def main() -> None:
    """Tell the agent of a move, and ask it for dinner in another session."""
    model = FakeModel()
    async with memoranda.open("sqlite:///agent.db", facts="rules") as store:
        told = ["I live in Lisbon.", "I'm allergic to peanuts.", "My sister is called Edith."]
        await session(model, store, "january", [*told, "I like jazz.", "I moved to Porto."])
        await session(model, store, "march", ["Where should I have dinner tonight?"])
        prompt = await assemble(store.scoped(user_id="ada", session_id="june"), "What may I eat?", system=SYSTEM)
        print(prompt[1].content)


if __name__ == "__main__":
    asyncio.run(main())
