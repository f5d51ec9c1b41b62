"""Messages that tests store, and a model that needs no key."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

from strands import Agent
from strands.models import Model
from strands.session.repository_session_manager import RepositorySessionManager

from memoranda_strands import MemorandaSessionRepository

IMAGE = bytes(range(256))


def conversation() -> list[Any]:
    """Return a turn with an image, reasoning, and two calls at once."""
    return [
        {
            "role": "user",
            "content": [{"text": "What is this?"}, {"image": {"format": "png", "source": {"bytes": IMAGE}}}],
        },
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "I should look twice.", "signature": "signed"}}},
                {"text": "Let me look."},
                {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"side": "left"}}},
                {"toolUse": {"toolUseId": "c2", "name": "look", "input": {"side": "right"}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": "a cat"}]}},
                {"toolResult": {"toolUseId": "c2", "status": "error", "content": [{"json": {"why": "too dark"}}]}},
            ],
        },
        {"role": "assistant", "content": [{"text": "A cat."}]},
    ]


class Parrot(Model):
    """A model that notes everything, and remembers what it was sent."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

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
        self.requests.append([dict(message) for message in messages])
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": "Noted."}, "contentBlockIndex": 0}}
        yield {"contentBlockStop": {"contentBlockIndex": 0}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def agent(repository: MemorandaSessionRepository, name: str = "helper", **options: Any) -> Agent:
    """Return an agent that goes on with the session ``chat``."""
    manager = RepositorySessionManager("chat", session_repository=repository)
    return Agent(model=Parrot(), agent_id=name, session_manager=manager, callback_handler=None, **options)


def kinds(messages: list[Any]) -> list[str]:
    """Return the role and the kinds of blocks of messages."""
    return [f"{each['role']}: {' '.join(kind for block in each['content'] for kind in block)}" for each in messages]
