"""Items as the messages of a provider, and back.

What comes in goes out as it was, or is refused by name; what goes out is always valid. An item that was changed goes
out changed, and what another provider's format cannot hold is told (see :class:`Dropped`).
"""

from __future__ import annotations

from memoranda_messages.anthropic import from_anthropic, to_anthropic
from memoranda_messages.chat import from_openai, to_openai
from memoranda_messages.payloads import agrees
from memoranda_messages.request import Dropped
from memoranda_messages.responses import from_responses, to_responses

__all__ = [
    "Dropped", "agrees", "from_anthropic", "from_openai", "from_responses",
    "to_anthropic", "to_openai", "to_responses",
]  # fmt: skip
