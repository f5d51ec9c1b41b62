"""Items as the messages of a provider, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda.messages.incoming import from_anthropic, from_openai
    from memoranda.messages.outgoing import to_anthropic, to_openai
    from memoranda.messages.tool_calls import call_arguments, call_name

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "incoming": ["from_anthropic", "from_openai"],
        "outgoing": ["to_anthropic", "to_openai"],
        "tool_calls": ["call_arguments", "call_name"],
    },
)

__all__ = [
    "call_arguments",
    "call_name",
    "from_anthropic",
    "from_openai",
    "to_anthropic",
    "to_openai",
]
