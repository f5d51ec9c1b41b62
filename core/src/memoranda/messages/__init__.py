"""Items as the messages of a provider, and back.

What comes in goes out as it was, or is refused by name; what goes out is always valid. An item that was changed goes
out changed, and what another provider's format cannot hold is told (see :class:`Dropped`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda.messages.anthropic import from_anthropic, to_anthropic
    from memoranda.messages.chat import from_openai, to_openai
    from memoranda.messages.keeping import agrees
    from memoranda.messages.request import Dropped
    from memoranda.messages.responses import from_responses, to_responses
    from memoranda.messages.tool_calls import call_arguments, call_name

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "anthropic": ["from_anthropic", "to_anthropic"],
        "chat": ["from_openai", "to_openai"],
        "keeping": ["agrees"],
        "request": ["Dropped"],
        "responses": ["from_responses", "to_responses"],
        "tool_calls": ["call_arguments", "call_name"],
    },
)

__all__ = [
    "Dropped", "agrees", "call_arguments", "call_name", "from_anthropic", "from_openai", "from_responses",
    "to_anthropic", "to_openai", "to_responses",
]  # fmt: skip
