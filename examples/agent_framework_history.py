"""An agent of the Microsoft Agent Framework whose sessions survive restarts, and who recalls other sessions. No key.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[agent-framework]'
    python examples/agent_framework_history.py

It prints:

    sunday: Lovely!
    sunday, after a restart, the model is shown 3 messages
    monday, the model is shown a memory from: sunday
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, FunctionInvocationLayer, Message

import memoranda
from memoranda_agent_framework import MemorandaContextProvider, MemorandaHistoryProvider


class Model(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Stands in for a chat client, such as ``OpenAIChatClient()``, and remembers what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: Sequence[Message] = ()

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse[Any]]:
        async def answer() -> ChatResponse[Any]:
            self.shown = messages
            return ChatResponse(messages=[Message("assistant", ["Lovely!"])])

        return answer()


async def ask(url: str, session_id: str, question: str) -> tuple[str, Sequence[Message]]:
    """Ask a question, as a process does that knows nothing but the store; return the answer and what was shown."""
    async with memoranda.open(url) as store:
        ada = store.scoped(user_id="ada")
        model = Model()
        agent = Agent(model, context_providers=[MemorandaContextProvider(ada), MemorandaHistoryProvider(ada)])
        answer = await agent.run(question, session=agent.create_session(session_id=session_id))
        return answer.text, model.shown


async def main(url: str) -> None:
    answer, _ = await ask(url, "sunday", "My dog is called Bobdog.")
    print(f"sunday: {answer}")
    _, shown = await ask(url, "sunday", "Is it Sunday?")
    print(f"sunday, after a restart, the model is shown {len(shown)} messages")
    _, shown = await ask(url, "monday", "What is my dog called?")
    print(
        "monday, the model is shown a memory from:",
        *shown[0].additional_properties["_attribution"]["origin_session_ids"],
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{Path(folder) / 'agent.db'}"))
