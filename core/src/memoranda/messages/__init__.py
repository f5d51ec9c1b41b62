"""Items as the messages of a provider, and back.

What comes in goes out as it was, or is refused by name; what goes out is always valid. An item that was changed goes
out changed, and what another provider's format cannot hold is told (see :class:`Dropped`).
"""

from __future__ import annotations

from memoranda.messages.anthropic import from_anthropic, to_anthropic
from memoranda.messages.chat import from_openai, to_openai
from memoranda.messages.keeping import agrees
from memoranda.messages.request import Dropped
from memoranda.messages.responses import from_responses, to_responses
from memoranda.messages.tool_calls import call_arguments, call_name

__all__ = [
    "Dropped", "agrees", "call_arguments", "call_name", "from_anthropic", "from_openai", "from_responses",
    "to_anthropic", "to_openai", "to_responses",
]  # fmt: skip
