"""An agent of Strands that remembers across restarts, with a model that needs no key.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[strands]'
    python examples/strands_sessions.py

It prints:

    user: My flat is in Oslo.
    assistant: Noted.
    after a restart: 2 messages, and the state {'city': 'Oslo'}
    the model was sent: user, assistant, user
    its memory was searched for it: The rent of the flat is due in May.
    Bob's session of the same name: 0 messages
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import Any

from strands import Agent
from strands.memory import MemoryManager
from strands.models import Model
from strands.session.repository_session_manager import RepositorySessionManager

import memoranda.sync
from memoranda.sync import SyncStore
from memoranda_strands import MemorandaMemoryStore, MemorandaSessionRepository


class Parrot(Model):
    """A model that notes everything."""

    sent: Any = ()

    def update_config(self, **model_config: Any) -> None:
        """Have no settings."""

    def get_config(self) -> Any:
        """Return that there are none."""
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        """Give no structured output."""
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterable[Any]:
        """Say that it was noted."""
        self.sent = list(messages)
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": "Noted."}, "contentBlockIndex": 0}}
        yield {"contentBlockStop": {"contentBlockIndex": 0}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def assistant(store: SyncStore, user: str) -> Agent:
    """Return an agent that goes on with its session."""
    ours = store.scoped(user_id=user)
    return Agent(
        model=Parrot(),
        agent_id="assistant",
        session_manager=RepositorySessionManager("chat", MemorandaSessionRepository(ours)),
        memory_manager=MemoryManager(stores=[MemorandaMemoryStore(ours)]),
        callback_handler=None,
    )


if __name__ == "__main__":
    with memoranda.sync.open("memory://") as store:
        first = assistant(store, "ada")
        first.state.set("city", "Oslo")
        first("My flat is in Oslo.")
        for message in first.messages:
            print(f"{message['role']}: {message['content'][0]['text']}")
        second = assistant(store, "ada")
        print("after a restart:", len(second.messages), "messages, and the state", second.state.get())
        memory = MemorandaMemoryStore(store.scoped(user_id="ada"))
        asyncio.run(memory.add("The rent of the flat is due in May."))
        second("When is the rent of the flat due?")
        sent = second.model.sent  # type: ignore[attr-defined]  # the parrot's
        print("the model was sent:", ", ".join(message["role"] for message in sent))
        injected = next(text for text in map(str, sent[-1]["content"]) if "rent" in text and "May" in text)
        print("its memory was searched for it:", injected[injected.index("The rent") :].split(".")[0] + ".")
        print("Bob's session of the same name:", len(assistant(store, "bob").messages), "messages")
